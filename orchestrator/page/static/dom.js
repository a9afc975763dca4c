// Elements and numbers. Text is always text: nothing that the orchestrator tells is ever parsed as HTML.

export const byId = (id) => document.getElementById(id);

// Controls, and what reorders or hides text, as escapes: what hosts and switches say must look like what it is.
export const printable = (text) =>
  text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);

export function h(tag, given = {}, ...children) {
  const svg = ["svg", "g", "rect", "path", "line", "text", "title", "circle"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, part] of Object.entries(value)) made.style.setProperty(key, part);
    else made.setAttribute(name, value === true ? "" : typeof value === "string" ? printable(value) : value);
  }
  made.append(...only(children));
  return made;
}

// Children that are there: `condition && element` stands for one that may not be.
const only = (children) => children.flat(2)
  .filter((child) => child !== null && child !== undefined && child !== false)
  .map((child) => (typeof child === "string" ? printable(child) : child));

export const show = (id, ...children) => byId(id).replaceChildren(...only(children));

export function table(heads, rows, none) {
  if (!rows.length) return h("p", { class: "none" }, none);
  return h("table", {},
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head.startsWith("#") ? "number" : null },
      head.replace("#", ""))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) =>
      h("td", { class: heads[index].startsWith("#") ? "number" : null }, cell ?? "–"))))));
}

// Asks in the dialog; true for yes.
export function sure(title, text, yes) {
  const dialog = byId("sure");
  byId("sure-title").textContent = title;
  byId("sure-text").textContent = text;
  byId("sure-yes").textContent = yes;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

export const pill = (kind, text) => h("span", { class: `pill ${kind}` }, text);

const UNITS = ["B", "KB", "MB", "GB", "TB", "PB"];

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const step = count < 1000 ? 0 : Math.min(Math.floor(Math.log10(count) / 3), UNITS.length - 1);
  const value = count / 1000 ** step;
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toPrecision(3)} ${UNITS[step]}`;
}

export function bits(bytesPerSecond) {
  if (bytesPerSecond === null || bytesPerSecond === undefined) return "–";
  const value = bytesPerSecond * 8;
  for (const [unit, size] of [["Tb/s", 1e12], ["Gb/s", 1e9], ["Mb/s", 1e6], ["kb/s", 1e3]])
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  return `${Math.round(value)} b/s`;
}

export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

export function ago(seconds, now = Date.now() / 1000) {
  if (!seconds) return "never";
  const past = Math.max(now - seconds, 0);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (past >= size) return `${Math.floor(past / size)} ${unit} ago`;
  return `${Math.floor(past)} s ago`;
}

export function when(seconds) {
  const date = new Date(seconds * 1000);
  return h("time", { datetime: date.toISOString(), title: date.toISOString() },
    date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }));
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// From the priority that is served first to the one that is served last: green, blue, violet, and ever paler.
export const colourOf = (priority, priorities) => {
  const share = priorities > 1 ? priority / (priorities - 1) : 0;
  const part = (from, to) => (from + share * (to - from)).toFixed(3);
  return `oklch(${part(Number(css("--first-light")), Number(css("--last-light")))} ${part(0.15, 0.06)} ${part(168, 310)})`;
};
