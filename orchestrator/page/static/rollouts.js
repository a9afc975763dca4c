// Revisions and rollouts: what runs now, wave by wave, what was, and how to begin.

import { byId, bytes, h, number, pill, show, sure, table, when } from "./dom.js";

const KIND = { done: "good", running: "", paused: "warn", failed: "bad", "rolled-back": "bad" };
const ORDER = ["applied", "restored", "committed", "pushing", "restoring", "waiting", "unsure", "failed", "stranded", "absent", "pending"];

let tools = null;
let made = null; // a revision that was just made, to be chosen once it is listed

export function begin(given) {
  tools = given;
  byId("start").addEventListener("submit", (event) => {
    event.preventDefault();
    const of = new FormData(event.target);
    const absent = of.get("absent_most");
    send("start", "/v1/rollouts", {
      revision: Number(of.get("revision")),
      waves: of.get("waves") ? of.get("waves").split(",").map(Number) : [],
      soak_s: of.get("waves") ? Number(of.get("soak_s") || 0) : 0,
      ...(absent === "" ? {} : { absent_most: Number(absent) }),
    }, (told) => `Rollout ${told.id} has begun.`);
  });
  byId("revise").addEventListener("submit", (event) => {
    event.preventDefault();
    const of = new FormData(event.target);
    const body = { mode: of.get("mode"), load: Number(of.get("load")) };
    if (of.get("priorities")) body.priorities = Number(of.get("priorities"));
    if (of.get("label")) body.label = of.get("label");
    if (of.get("model")) body.model = Number(of.get("model"));
    send("revise", "/v1/revisions", body, (told) => [`Revision ${told.id} is made; nothing has changed in the fabric yet.`, ...told.warnings].join(" "));
  });
}

async function send(form, path, body, says) {
  const button = byId(form).querySelector("button");
  const fields = [...byId(form).elements];
  byId(`${form}-error`).textContent = "";
  fields.forEach((field) => field.removeAttribute("aria-invalid"));
  button.disabled = true;
  try {
    const told = await tools.post(path, body);
    tools.toast(says(told));
    if (form === "revise") made = told.id;
    await tools.ask();
  } catch (error) {
    byId(`${form}-error`).textContent = error.message;
    for (const wrong of error.errors || [])
      fields.find((field) => `body.${field.name}` === wrong.field)?.setAttribute("aria-invalid", "true");
  } finally {
    button.disabled = false;
  }
}

async function steer(rollout, what) {
  if (what === "abort" && !(await sure(`Abort rollout ${rollout.id}?`, "Its switches get back what they had before.", "Abort it"))) return;
  try {
    await tools.post(`/v1/rollouts/${rollout.id}/${what}`);
    tools.toast(`Rollout ${rollout.id}: ${what} is asked.`);
  } catch (error) {
    tools.toast(error.message);
  }
  tools.ask();
}

function bar(name, counts) {
  const total = Object.values(counts).reduce((sum, each) => sum + each, 0);
  const phases = ORDER.filter((phase) => counts[phase]);
  return h("div", { class: "progress" },
    h("div", { class: "head" }, h("strong", {}, name), h("span", { class: "dots" },
      phases.map((phase) => h("span", { class: phase }, `${number(counts[phase])} ${phase}`)))),
    h("div", { class: "bar", role: "img", "aria-label": `${name}: ${phases.map((phase) => `${counts[phase]} ${phase}`).join(", ")}` },
      phases.map((phase) => h("i", { class: phase, style: { width: `${(100 * counts[phase]) / Math.max(total, 1)}%` } }))));
}

function waves(rollout, total) {
  const ends = [...rollout.plan.waves, total];
  return h("ol", { class: "waves", "aria-label": "Waves" }, ends.map((end, index) => {
    const open = index < rollout.wave || rollout.active || rollout.phase === "done";
    const now = index === rollout.wave && !open;
    const stopped = now && ["failed", "rolled-back"].includes(rollout.phase);
    const mark = stopped ? pill("bad", "stopped here") : index < ends.length - 1
      ? (open ? pill("good", "gate passed") : now ? pill("", gate(rollout.plan)) : null) : null;
    return h("li", {}, pill(open ? "good" : now ? "warn" : "", `wave ${index + 1}: ${number(end - (index ? ends[index - 1] : 0))} switches`), mark);
  }));
}

function gate({ soak_s, drops_most, slowdown_most }) {
  const limits = [drops_most === null || drops_most === undefined ? null : `drops at most ${100 * drops_most} %`,
    slowdown_most ? `small flows at most ${slowdown_most} times as slow` : null].filter(Boolean);
  return `gate: soak ${soak_s} s, then each is asked again${limits.length ? `; ${limits.join(", ")}` : ""}`;
}

const counted = (steps) => {
  const counts = {};
  for (const step of Object.values(steps)) counts[step.phase] = (counts[step.phase] || 0) + 1;
  return counts;
};

// What the newest event, or else the last answer, tells of the newest rollout.
export function progress(rollout, seen) {
  const last = seen.last;
  if (!rollout && !last) return show("running", h("h3", {}, "No rollout yet"), h("p", { class: "hint" },
    "Make a revision from recorded flow sizes, then roll it out: switches first, then hosts."));
  const now = rollout || { ...last, switches: counted(last.switches), hosts: counted(last.hosts), active: last.phase === "done" };
  const runs = ["running", "paused"].includes(now.phase);
  const total = Object.values(now.switches).reduce((sum, each) => sum + each, 0);
  const wrong = last && last.id === now.id ? Object.entries(last.switches).filter(([, step]) => step.error) : [];
  show("running",
    h("div", { class: "head" },
      h("h3", {}, runs ? `Rollout ${now.id} is under way` : `Last rollout: ${now.id}`, " ", pill(KIND[now.phase] ?? "", now.phase)),
      runs && !now.active && h("div", { class: "buttons for-operators" },
        now.phase === "paused" ? h("button", { class: "small", onclick: () => steer(now, "resume") }, "Resume")
          : h("button", { class: "small", onclick: () => steer(now, "pause") }, "Pause"),
        h("button", { class: "small danger", onclick: () => steer(now, "abort") }, "Abort"))),
    total > 0 && waves(now, total),
    total > 0 && bar("Switches", now.switches),
    Object.keys(now.hosts).length > 0 && bar("Hosts", now.hosts),
    now.error && h("p", { class: "error" }, now.error),
    wrong.length > 0 && h("details", {}, h("summary", {}, `${wrong.length} switches have something to say`),
      table(["Switch", "Phase", "Why"], wrong.slice(0, 100).map(([name, step]) => [name, step.phase, step.error]), "")));
}

function options(id, values, first) {
  const select = byId(id);
  const before = select.value;
  const wanted = [...(first === undefined ? [] : [["", first]]), ...values];
  if (JSON.stringify(wanted) === select.dataset.wanted) return;
  select.dataset.wanted = JSON.stringify(wanted);
  select.replaceChildren(...wanted.map(([value, text]) => h("option", { value }, text)));
  if (wanted.some(([value]) => String(value) === before)) select.value = before;
}

export function draw(seen, caller) {
  const { overview, revisions, rollouts, models } = seen;
  const newest = [...revisions].reverse();
  options("start-revision", newest.map((each) => [each.id, `${each.id}: ${each.policy.mode}, ${each.policy.dscp.length} priorities`]));
  if (made !== null && newest.some((each) => each.id === made)) {
    byId("start-revision").value = made;
    made = null;
  }
  options("revise-label", overview.labels.map((each) => [each, each]), "all");
  options("revise-model", [...models].reverse().map((each) => [each.generation, `${each.generation} of ${each.label}`]), "none");
  options("label", overview.labels.map((each) => [each, each]), "all");
  progress(seen.events?.rollout || null, seen);
  show("revisions", table(["Revision", "Mode", "#Priorities", "Thresholds", "Model", "Made", ""], newest.slice(0, 50).map((each) => [
    h("span", {}, `${each.id} `, each.id === overview.revision && pill("good", "in force")),
    each.policy.mode, each.policy.dscp.length,
    each.threshold_bytes.map(bytes).join(" · ") || "–",
    each.policy.model_generation || "–",
    h("span", {}, when(each.created_at), ` by ${each.created_by}`),
    caller.role !== "viewer" && h("button", { class: "small", onclick: () => {
      byId("start-revision").value = each.id;
      byId("start-revision").focus();
      byId("start").scrollIntoView({ block: "center" });
    } }, "Roll out …"),
  ]), "No revision yet."));
  show("history", table(["Rollout", "Revision", "Phase", "Begun", "#Switches", "#Hosts", "Why"],
    [...rollouts].reverse().slice(0, 50).map((each) => [
      each.id, each.revision, pill(KIND[each.phase] ?? "", each.phase), h("span", {}, when(each.created_at), ` by ${each.created_by}`),
      counts(each.switches), counts(each.hosts), each.error && h("span", { class: "sentence" }, each.error),
    ]), "No rollout yet."));
}

function counts(of) {
  const total = Object.values(of).reduce((sum, each) => sum + each, 0);
  return total ? `${number(of.applied || 0)} / ${number(total)}` : "–";
}
