// The tiles, and what an operator has to look at.

import { ago, bytes, h, number, pill, show } from "./dom.js";

const SOON_S = 30 * 86400;

const tile = (kind, name, value, more) =>
  h("dl", { class: `tile ${kind}` }, h("dt", {}, name), h("dd", {}, value, h("small", {}, more)));

export function draw({ overview, sizes, rollouts, traffic, certificates }) {
  const { policy, hosts, switches, drift } = overview;
  const following = switches.filter((each) => policy && each.applied_generation === policy.generation).length;
  const windows = drift?.windows || [];
  const coverage = windows.length ? 1 - windows.at(-1).misses / windows.at(-1).flows : null;
  const well = hosts.registered - hosts.silent - hosts.behind;
  show("tiles",
    tile(overview.off ? "bad" : policy ? "good" : "warn", "Policy in force", overview.off ? "off" : policy ? `revision ${overview.revision}` : "none",
      policy ? `mode ${policy.mode}, ${policy.threshold_bytes.length + 1} priorities` : "roll a revision out"),
    tile(following === switches.length ? "good" : "warn", "Switches", `${number(following)} / ${number(switches.length)}`,
      "follow the policy"),
    tile(hosts.silent + hosts.behind ? "warn" : "good", "Hosts", `${number(well)} / ${number(hosts.registered)}`,
      `${policy ? "follow the policy" : "report"}; ${number(hosts.silent)} silent`),
    tile("", "Flows", sizes ? number(sizes.flows) : "0", sizes ? `${bytes(sizes.total_bytes)} in all` : "none recorded yet"),
    tile(drift?.drifted || drift?.off ? "bad" : "", "Coverage of bounds",
      coverage === null ? "–" : `${(100 * coverage).toFixed(2)} %`, coverage === null ? "no model in force" : `target ${100 * drift.target} %`));
  const found = [...needs(overview, rollouts, traffic, certificates)];
  show("attention", found.length
    ? h("ul", { class: "needs" }, found.map(([kind, name, text, place]) =>
      h("li", {}, pill(kind, name), h("span", {}, text, " ", h("a", { href: place }, "look")))))
    : h("p", { class: "calm" }, "Nothing. Switches and hosts follow the policy in force."));
}

function* needs(overview, rollouts, traffic, certificates) {
  const { hosts, drift, off } = overview;
  if (off) yield ["bad", "off", `All hosts are switched off, ${ago(off.at)} by ${off.by}.${off.unkept ? ` The database does not have it: ${off.unkept}` : ""}`, "#rollouts"];
  const last = rollouts.at(-1);
  if (last && ["failed", "rolled-back"].includes(last.phase))
    yield ["bad", last.phase, `Rollout ${last.id} of revision ${last.revision}: ${last.error || "no reason told"}`, "#rollouts"];
  if (last?.phase === "paused") yield ["warn", "paused", `Rollout ${last.id} waits for you.`, "#rollouts"];
  for (const [name, why] of Object.entries(overview.switches_drifted))
    yield ["bad", "drift", `Switch ${name} holds another intent: ${why}.`, "#fabric"];
  for (const [name, told] of Object.entries(traffic.switches)) {
    if (told.error) yield ["bad", "switch", told.error, "#fabric"];
    if (told.warning) yield ["warn", "warning", `Switch ${name}: ${told.warning}.`, "#fabric"];
    for (const [priority, said] of Object.entries(told.alarms)) yield ["warn", "alarm", `Switch ${name}, priority ${priority}: ${said}`, "#fabric"];
    const dropped = Object.values(told.priorities).reduce((sum, each) => sum + (each.dropped_per_s || 0), 0);
    if (dropped > 0) yield ["warn", "drops", `Switch ${name} drops ${dropped.toFixed(1)} packets/s.`, "#fabric"];
  }
  if (drift?.offer && drift.offer.rollout === null)
    yield ["warn", "offer", `A newer model is offered as revision ${drift.offer.revision}.`, "#bounds"];
  if (drift?.drifted) yield ["bad", "bounds", drift.drifted, "#bounds"];
  if (drift?.off) yield ["bad", "bounds off", drift.off.why, "#bounds"];
  if (hosts.silent) yield ["warn", "hosts", `${number(hosts.silent)} hosts are silent.`, "#hosts"];
  if (hosts.behind) yield ["warn", "hosts", `${number(hosts.behind)} hosts follow another policy.`, "#hosts"];
  const unobserved = Object.values(overview.flows_unobserved).reduce((sum, each) => sum + each, 0);
  if (unobserved) yield ["warn", "flows", `${number(unobserved)} flows bypassed the library in part.`, "#hosts"];
  const refused = Object.keys(overview.flows_not_believed);
  if (refused.length) yield ["warn", "flows", `More flows than links carry: told by ${refused.slice(0, 3).join(", ")}.`, "#hosts"];
  for (const each of certificates)
    if (each.ends_at === null) yield ["bad", "certificate", `${each.name} can't be read.`, "#fabric"];
    else if (each.ends_at - overview.now < SOON_S)
      yield [each.ends_at < overview.now ? "bad" : "warn", "certificate",
        `${each.name} (${each.purpose}) ${each.ends_at < overview.now ? `ended ${ago(each.ends_at)}` : `ends in ${Math.floor((each.ends_at - overview.now) / 86400)} days`}.`, "#fabric"];
}
