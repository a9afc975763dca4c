// Hosts that stand out, and who did what.

import { ago, h, number, pill, show, table, when } from "./dom.js";

export function draw({ overview, audit }, caller) {
  const found = new Map();
  const of = (name) => found.get(name) || found.set(name, { marks: [] }).get(name);
  for (const each of overview.silent_hosts) Object.assign(of(each.name), each).marks.push(pill("bad", "silent"));
  for (const each of overview.behind_hosts) Object.assign(of(each.name), each).marks.push(pill("warn", "another policy"));
  for (const [name, flows] of Object.entries(overview.flows_unobserved)) of(name).unobserved = flows;
  for (const [name, flows] of Object.entries(overview.flows_not_believed)) of(name).refused = flows;
  const { registered, silent, behind } = overview.hosts;
  show("host-table",
    h("p", { class: "hint" }, `${number(registered)} registered, ${number(silent)} silent, ${number(behind)} with another policy than the one in force.`),
    table(["Host", "", "Last report", "Policy", "#Unobserved flows", "#Flows not believed"], [...found].map(([name, each]) => [
      name, each.marks, "seen_at" in each ? ago(each.seen_at, overview.now) : "lately",
      "policy_generation" in each ? each.policy_generation || "none" : "in force", number(each.unobserved || 0), number(each.refused || 0),
    ]), registered ? "All hosts report, and follow the policy in force." : "No host is registered."));
  show("audit-log", caller.role !== "admin" ? h("p", { class: "none" }, "The audit log asks for an admin's token.")
    : table(["When", "Who", "What", "On"], audit.map((each) => [when(each.at), each.actor, each.action, h("span", { class: "sentence" }, each.subject)]), "Nothing yet."));
}
