// The page: log in, ask for everything, draw it, and draw again when the orchestrator says that something changed.

import { get, listen, post, Refused, token } from "./rest.js";
import { byId, h, pill, printable, show } from "./dom.js";
import * as charts from "./charts.js";
import * as fabric from "./fabric.js";
import * as hosts from "./hosts.js";
import * as lengths from "./lengths.js";
import * as off from "./off.js";
import * as overview from "./overview.js";
import * as rollouts from "./rollouts.js";

const EVERY_MS = 10_000;
const PAUSE_MS = 200;
const ROLLOUTS = 50; // so many past ones are listed

const seen = {}; // what was told last, by part
let caller = null;
let session = null; // aborts what runs for the present login
let asking = false;
let askAgain = false;

async function ask() {
  if (asking) return void (askAgain = true);
  asking = true;
  try {
    const label = byId("label").value;
    const query = label ? `?label=${encodeURIComponent(label)}` : "";
    const load = byId("load").value;
    const changes = seen.events?.changes;
    const isNew = changes === undefined || changes !== seen.changes; // of what only an operator's doing changes
    const overview = await get("/v1/overview");
    const last = overview.last_rollout;
    const all = {
      rollouts: get(`/v1/rollouts?after=${Math.max((last || 0) - ROLLOUTS, 0)}`),
      last: last === null ? null : get(`/v1/rollouts/${last}`),
      revisions: isNew || !seen.revisions ? get("/v1/revisions") : seen.revisions,
      models: isNew || !seen.models ? get("/v1/models") : seen.models,
      traffic: get("/v1/traffic"),
      spines: get("/v1/spines"),
      certificates: get("/v1/certificates"),
      sizes: get(`/v1/flows/statistics${query}`),
      felt: get("/v1/felt"),
      lengths: get("/v1/lengths"),
      foretold: get(`/v1/foretold${query}${query ? "&" : "?"}load=${load}`),
      audit: caller.role === "admin" ? get("/v1/audit?last=100") : null,
    };
    const names = Object.keys(all);
    const told = await Promise.all(Object.values(all));
    // All at once, as others draw what was seen in the meantime.
    Object.assign(seen, { overview, changes }, Object.fromEntries(names.map((name, index) => [name, told[index]])));
    draw();
  } catch (error) {
    if (error.status === 404 && byId("label").value) { // the recording that was chosen is gone
      byId("label").value = "";
      askAgain = true;
    } else failed(error);
  } finally {
    asking = false;
    if (askAgain) {
      askAgain = false;
      setTimeout(ask, PAUSE_MS);
    }
  }
}

function draw() {
  overview.draw(seen);
  off.draw(seen.overview);
  rollouts.draw(seen, caller);
  charts.draw(seen);
  fabric.draw(seen);
  hosts.draw(seen, caller);
  lengths.draw(seen);
}

window.addEventListener("resize", () => seen.overview && fabric.draw(seen)); // it is laid out for the width there is

function failed(error) {
  if (error.name === "AbortError") return;
  if (error instanceof Refused && error.status === 401) return logOut(error.message);
  live(false, error.message);
}

function live(is, why) {
  byId("live").className = `pill ${is ? "good" : "bad"}`;
  byId("live").textContent = is ? "live" : "no answer";
  byId("live").title = is ? "Events come from the orchestrator" : why || "";
}

async function follow(signal) {
  while (!signal.aborted) {
    try {
      await listen("/v1/events", (_, told) => {
        live(true);
        const begun = seen.events;
        seen.events = told;
        rollouts.progress(told.rollout, seen);
        if (!begun || begun.changes !== told.changes || !begun.rollout !== !told.rollout) ask();
      }, signal);
    } catch (error) {
      failed(error);
    }
    await new Promise((done) => setTimeout(done, 2000));
  }
}

async function logIn(value) {
  token.set(value);
  caller = await get("/v1/caller");
  byId("login").hidden = true;
  byId("app").hidden = false;
  document.body.classList.toggle("read-only", !["operator", "admin"].includes(caller.role));
  byId("logout").title = `${caller.name}, ${caller.role}`;
  session = new AbortController();
  const { signal } = session;
  follow(signal);
  const timer = setInterval(() => document.hidden || ask(), EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  await ask();
}

function logOut(why = "") {
  session?.abort();
  token.forget();
  byId("app").hidden = true;
  byId("login").hidden = false;
  byId("login-error").textContent = why;
  byId("token").value = "";
  byId("token").focus();
}

export function toast(text) {
  const place = byId("toast");
  place.textContent = printable(text);
  place.classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => place.classList.remove("on"), 4000);
}

const THEMES = ["auto", "light", "dark"];

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  localStorage.setItem("qclimb-theme", name);
  byId("theme").textContent = { auto: "◐ auto", light: "☀ light", dark: "☾ dark" }[name];
  if (seen.overview) charts.again(seen), fabric.draw(seen);
}

function begin() {
  byId("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await logIn(byId("token").value.trim());
    } catch (error) {
      logOut(error.message);
    }
  });
  byId("logout").addEventListener("click", () => logOut());
  byId("theme").addEventListener("click", () => {
    const now = localStorage.getItem("qclimb-theme") || "auto";
    theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
  });
  theme(localStorage.getItem("qclimb-theme") || "auto");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(localStorage.getItem("qclimb-theme") || "auto"));
  for (const id of ["label", "load"]) byId(id).addEventListener("change", ask);
  lengths.begin({ toast, ask });
  off.begin({ toast, ask });
  rollouts.begin({ toast, post, ask: () => {
    seen.revisions = seen.models = null;
    return ask();
  } });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    const place = document.querySelectorAll("nav a")[Number(event.key) - 1];
    if (place) place.click();
  });
  const sections = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting))
      for (const link of document.querySelectorAll("nav a"))
        if (link.hash === `#${entry.target.id}`) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("section").forEach((section) => sections.observe(section));
  if (token.get()) logIn(token.get()).catch((error) => logOut(error.message));
  else logOut();
}

begin();
