// Switches as they are connected, what each carries by priority, certificates.

import { ago, bits, byId, bytes, colourOf, h, number, pill, show, table, when } from "./dom.js";

const DRAWN_MOST = 48; // more switches than this are a table alone
const WIDE = 148, TALL = 74, BETWEEN = 150, LABEL = 14;
const GAP_LEAST = 20, GAP_MOST = 110;

const links = {}; // what each link had carried and dropped when it was last seen, to tell its rates

const sum = (told, leaf) => {
  const known = Object.values(told?.priorities || {}).map((each) => each[leaf]).filter((each) => each !== null);
  return known.length ? known.reduce((all, each) => all + each, 0) : null;
};

// Of a link: all that its interfaces sent and dropped, or what is pinned to its spine where ports are not counted.
// `now`: when the leaf told it, s; the same as before where it was not asked again since.
function linkRates(leaf, spine, seen, now) {
  const key = `${leaf} ${spine}`;
  const carried = seen.link_bytes ?? seen.bytes;
  const dropped = seen.link_dropped_packets;
  if (carried === null) return { bytes: null, drops: null };
  const before = links[key];
  if (!before || carried < before.carried || dropped < before.dropped) // or it counts from 0 again
    links[key] = { carried, dropped, now, rates: { bytes: null, drops: null } };
  else if (now - before.now >= 2) {
    const each = (to, from) => (to === null || from === null ? null : (to - from) / (now - before.now));
    links[key] = { carried, dropped, now, rates: { bytes: each(carried, before.carried), drops: each(dropped, before.dropped) } };
  }
  return links[key].rates;
}

function box(each, x, y, told, drift, priorities) {
  const dropped = sum(told, "dropped_per_s");
  const wrong = told?.error || drift;
  const said = told ? [told.warning, ...Object.entries(told.alarms).map(([priority, text]) => `priority ${priority}: ${text}`)].filter(Boolean) : [];
  const total = sum(told, "bytes_per_s");
  let from = x + 10;
  const parts = Object.entries(told?.priorities || {}).map(([priority, rates]) => {
    const width = total ? ((WIDE - 20) * (rates.bytes_per_s || 0)) / total : 0;
    const part = h("rect", { x: from, y: y + 46, width, height: 7, style: { fill: colourOf(Number(priority), priorities) } },
      h("title", {}, `priority ${priority}: ${bits(rates.bytes_per_s)}, ${rates.dropped_per_s ?? "–"} drops/s`));
    from += width;
    return part;
  });
  return h("g", {}, h("title", {}, [wrong || `${each.name}: ${each.address}`, ...said].join("\n")),
    h("rect", { class: `box ${wrong ? "bad" : dropped || said.length ? "warn" : ""}`, x, y, width: WIDE, height: TALL, rx: 10 }),
    h("text", { x: x + 10, y: y + 20 }, each.name),
    h("text", { class: "small", x: x + WIDE - 10, y: y + 20, "text-anchor": "end" }, total === null ? "" : bits(total)),
    h("text", { class: "small", x: x + 10, y: y + 37 }, told?.error ? "no answer" : drift ? "drifted" : said.length ? (told.warning ? "warning" : "alarm") : told?.verification || each.role),
    h("rect", { x: x + 10, y: y + 46, width: WIDE - 20, height: 7, rx: 3.5, style: { fill: "var(--calm-back)" } }), parts,
    h("text", { class: "small", x: x + 10, y: y + 66 }, dropped === null ? "" : `${dropped.toFixed(dropped < 10 ? 1 : 0)} drops/s`));
}

function topology({ overview, traffic, spines }, priorities) {
  const tiers = ["spine", "leaf"].map((role) => overview.switches.filter((each) => each.role === role));
  const most = Math.max(...tiers.map((tier) => tier.length), 1);
  const gap = Math.min(Math.max((byId("topology").clientWidth - most * WIDE) / (most + 1), GAP_LEAST), GAP_MOST);
  const width = most * (WIDE + gap) + gap;
  const place = {};
  tiers.filter((tier) => tier.length).forEach((tier, row) => tier.forEach((each, index) => {
    place[each.name] = { x: width / 2 + (index - tier.length / 2) * (WIDE + gap) + gap / 2, y: 14 + row * (TALL + BETWEEN) };
  }));
  const drawn = [], labels = [];
  const along = (index, count) => (WIDE * (index + 1)) / (count + 1); // where a link meets a box
  for (const [spine, told] of Object.entries(spines.spines))
    for (const [leaf, seen] of Object.entries(told.leaves)) {
      if (!place[spine] || !place[leaf] || !spines.leaves[leaf]) continue;
      const { bytes: rate, drops } = linkRates(leaf, spine, seen, spines.leaves[leaf].seen_at);
      const what = seen.link_bytes === null ? " of pinned priorities" : "";
      const [a, b] = [place[spine], place[leaf]];
      const order = tiers.map((tier, row) => tier.findIndex((each) => each.name === [spine, leaf][row]));
      const ends = { x1: a.x + along(order[1], tiers[1].length), y1: a.y + TALL, x2: b.x + along(order[0], tiers[0].length), y2: b.y };
      drawn.push(h("line", { class: `link ${seen.status === "up" ? (drops > 0 ? "drops" : "") : "down"}`, ...ends, "stroke-width": 1.5 + Math.min(Math.log10((rate || 0) + 1) / 2, 5) },
        h("title", {}, `${leaf} to ${spine}: ${seen.status}${seen.reason ? ` (${seen.reason})` : ""}, ${bits(rate)}${what}${drops === null ? "" : `, ${drops.toFixed(1)} drops/s`}`)));
      const up = 10 + LABEL * (order[0] % 4); // one above the other, so that neighbours' do not meet
      const part = up / (ends.y2 - ends.y1);
      if (rate !== null && seen.status === "up")
        labels.push(h("text", { class: "small rate", x: ends.x2 + part * (ends.x1 - ends.x2), y: ends.y2 - up + 4, "text-anchor": "middle" }, bits(rate)));
    }
  const rows = tiers.filter((tier) => tier.length).length;
  const tall = rows * TALL + Math.max(rows - 1, 0) * BETWEEN + 28;
  return h("svg", { viewBox: `0 0 ${width} ${tall}`, width, height: tall, role: "img", "aria-label": `${tiers[0].length} spines and ${tiers[1].length} leaves` },
    drawn, labels, overview.switches.filter((each) => place[each.name]).map((each) =>
      box(each, place[each.name].x, place[each.name].y, traffic.switches[each.name], overview.switches_drifted[each.name], priorities)));
}

const rated = (rates) => rates && h("span", {}, bits(rates.bytes_per_s),
  rates.dropped_per_s > 0 && h("span", { class: "drops" }, `${rates.dropped_per_s.toFixed(1)} drops/s`));

export function draw(seen) {
  const { overview, traffic, certificates } = seen;
  const known = Object.values(traffic.switches).flatMap((told) => Object.keys(told.priorities).map(Number));
  const priorities = Math.max(overview.policy?.dscp.length || 0, ...known.map((each) => each + 1), 1);
  show("priorities", ...Array.from({ length: priorities }, (_, priority) =>
    h("span", {}, h("i", { style: { background: colourOf(priority, priorities) } }), priority === 0 ? "P0, served first" : `P${priority}`)));
  const switches = overview.switches;
  show("topology", !switches.length ? h("p", { class: "none" }, "No switch is registered.")
    : switches.length > DRAWN_MOST ? h("p", { class: "none" }, `${number(switches.length)} switches: too many to draw, the table has those that carry most.`)
      : topology(seen, priorities));
  const rows = Object.entries(traffic.switches).filter(([, told]) => Object.keys(told.priorities).length);
  rows.sort((a, b) => (sum(b[1], "bytes_per_s") || 0) - (sum(a[1], "bytes_per_s") || 0) || a[0].localeCompare(b[0]));
  const each = Array.from({ length: priorities }, (_, priority) => priority);
  show("traffic", table(["Switch", "#All", ...each.map((priority) => `#P${priority}`), "#Drops in all", "Seen"], rows.slice(0, 200).map(([name, told]) => [
    name, h("strong", {}, bits(sum(told, "bytes_per_s"))), ...each.map((priority) => rated(told.priorities[priority])),
    number(sum(told, "dropped_packets")), ago(told.seen_at, overview.now),
  ]), "Shown once switches have been asked twice what they counted: about two minutes after the start."));
  show("certificates", table(["Certificate", "For", "Ends", ""], certificates.map((each) => {
    const days = each.ends_at === null ? null : Math.floor((each.ends_at - overview.now) / 86400);
    return [h("span", { class: "sentence" }, each.name), each.purpose, each.ends_at === null ? "can't be read" : when(each.ends_at),
      days === null ? pill("bad", "unknown") : pill(days < 0 ? "bad" : days < 30 ? "warn" : "good", days < 0 ? "ended" : `${number(days)} days left`)];
  }), "None: plain loopback, and no certificate for switches."));
}
