// Charts, by uPlot: flow sizes with the thresholds, slowdown by revision, coverage by window.

import { byId, bytes, colourOf, css, h, number, pill, show } from "./dom.js";

const GAMMA = 1.02; // of the histogram's buckets: gnmi-models/qclimb/histogram.py
const HEIGHT = 270;
const made = {};

function plot(id, key, options, data) {
  const old = made[id];
  if (old && old.key === key && document.contains(old.chart.root)) {
    old.chart.setData(data);
    return old.chart;
  }
  old?.watch.disconnect();
  const place = byId(id);
  place.replaceChildren();
  const width = () => Math.max(place.clientWidth, 240);
  const chart = new uPlot({ width: width(), height: HEIGHT, ...options }, data, place);
  const watch = new ResizeObserver(() => chart.setSize({ width: width(), height: HEIGHT }));
  watch.observe(place);
  made[id] = { key, chart, watch };
  return chart;
}

function empty(id, text) {
  made[id]?.watch.disconnect();
  delete made[id];
  show(id, h("div", { class: "empty" }, text));
}

const axis = (more) => ({ stroke: css("--faint"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") }, font: "12px system-ui", ...more });
const percent = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)} %`);
const isDecade = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
const look = () => [css("--text"), css("--ground"), css("--series-1")].join();

// Vertical lines at the thresholds, and the priorities between them.
function thresholds(getBytes) {
  return { hooks: { draw: [(chart) => {
    const { ctx } = chart;
    const { left, top, width, height } = chart.bbox;
    const cuts = getBytes();
    const right = left + width;
    if (!cuts.length) return;
    const places = cuts.map((cut) => chart.valToPos(cut, "x", true));
    ctx.save();
    ctx.font = `${12 * devicePixelRatio}px system-ui`;
    ctx.textBaseline = "top";
    ctx.textAlign = "center";
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    [left, ...places].forEach((begin, priority) => {
      const from = Math.max(begin, left);
      const to = Math.min(places[priority] ?? right, right);
      if (to <= from) return;
      ctx.globalAlpha = 0.13;
      ctx.fillStyle = colourOf(priority, cuts.length + 1);
      ctx.fillRect(from, top, to - from, height);
      ctx.globalAlpha = 1;
      ctx.fillStyle = css("--faint");
      if (to - from > 26 * devicePixelRatio) ctx.fillText(`P${priority}`, (from + to) / 2, top + 5 * devicePixelRatio);
      if (priority) {
        ctx.strokeStyle = css("--faint");
        ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(begin, top);
        ctx.lineTo(begin, top + height);
        ctx.stroke();
      }
    });
    ctx.restore();
  }] } };
}

// Where another policy came into force: a line, and its revision.
function revisions(getMarks) {
  return { hooks: { draw: [(chart) => {
    const { ctx } = chart;
    const { left, top, width, height } = chart.bbox;
    ctx.save();
    ctx.font = `${12 * devicePixelRatio}px system-ui`;
    ctx.textBaseline = "top";
    for (const [at, text] of getMarks()) {
      const x = chart.valToPos(at, "x", true);
      if (x < left || x > left + width) continue;
      ctx.strokeStyle = ctx.fillStyle = css("--faint");
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
      const isLeft = x > left + width - 80 * devicePixelRatio;
      ctx.textAlign = isLeft ? "right" : "left";
      ctx.fillText(text, x + (isLeft ? -5 : 5) * devicePixelRatio, top + 4 * devicePixelRatio);
    }
    ctx.restore();
  }] } };
}

let marks = [];

function felt({ felt: points, rollouts }) {
  const newest = points.at(-1);
  const basis = newest ? ` The newest point rests on ${newest.connections} connections of ${newest.hosts} hosts.` : "";
  byId("felt-note").textContent = `Measured by hosts: how much longer packets of small flows travel than they could (TCP's round-trip time over the least one), the median of hosts in 10 s; lines are where a revision came into force.${basis}`;
  if (points.length < 2) return empty("felt", "Hosts have not told of small flows yet.");
  const revisionOf = new Map(rollouts.map((each) => [each.generation, each.revision]));
  marks = points.flatMap((point, index) => index && point.generation !== points[index - 1].generation
    ? [[point.at, `revision ${revisionOf.get(point.generation) ?? "?"}`]] : []);
  const time = (found) => new Date(found * 1000).toLocaleTimeString("en-GB");
  plot("felt", look(), {
    scales: { y: { range: (_, low, high) => [1, Math.max(high * 1.1, 1.5)] } },
    axes: [axis({ values: (_, splits) => splits.map(time) }), axis({ size: 50, values: (_, splits) => splits.map((value) => `${value}×`) })],
    series: [{ label: "at", value: (_, found) => (found ? time(found) : "–") },
      { label: "stretch", stroke: css("--series-1"), width: 2.2, points: { show: false },
        value: (_, found) => (found === null || found === undefined ? "–" : `${found.toFixed(2)}×`) }],
    plugins: [revisions(() => marks)],
  }, [points.map((each) => each.at), points.map((each) => each.stretch)]);
}

let cuts = [];

function sizes({ sizes: told, overview }) {
  cuts = (overview.policy?.threshold_bytes || []).filter((each) => told && each < 1e15);
  if (!told || !told.flows) {
    byId("sizes-note").textContent = "";
    return empty("sizes", "No flow was recorded yet. Begin a recording, and let traffic run.");
  }
  const counts = Object.entries(told.histogram.counts).map(([bucket, count]) => [Number(bucket), count]).sort((a, b) => a[0] - b[0]);
  const x = [], flows = [], carried = [];
  let so_far = 0, bytes_so_far = 0;
  const middle = (bucket) => (2 * GAMMA ** bucket) / (GAMMA + 1);
  const total = counts.reduce((sum, [bucket, count]) => sum + middle(bucket) * count, 0);
  for (const [bucket, count] of counts) {
    so_far += count;
    bytes_so_far += middle(bucket) * count;
    x.push(GAMMA ** bucket);
    flows.push((100 * so_far) / told.flows);
    carried.push((100 * bytes_so_far) / total);
  }
  if (x.length === 1) x.unshift(x[0] / GAMMA), flows.unshift(0), carried.unshift(0);
  plot("sizes", `${look()}`, {
    scales: { x: { distr: 3, time: false }, y: { range: [0, 100] } },
    axes: [axis({ filter: (_, splits) => splits.map((value) => (isDecade(value) ? value : null)),
      values: (_, splits) => splits.map((value) => (value === null ? "" : bytes(value))) }),
      axis({ values: (_, splits) => splits.map((value) => `${value} %`), size: 56 })],
    series: [{ label: "up to", value: (_, value) => bytes(value) },
      { label: "of flows", stroke: css("--series-1"), width: 2.2, value: (_, value) => percent(value), points: { show: false } },
      { label: "of bytes", stroke: css("--series-2"), width: 2.2, value: (_, value) => percent(value), points: { show: false } }],
    plugins: [thresholds(() => cuts)],
  }, [x, flows, carried]);
  byId("sizes-note").textContent = `${number(told.flows)} flows of ${Object.keys(told.hosts).length} hosts, ${bytes(told.mean_bytes)} in the mean; ` +
    (cuts.length ? `thresholds at ${cuts.map(bytes).join(", ")}.` : "no thresholds are in force.");
}

function slowdown({ foretold, overview }) {
  if (!foretold || !foretold.revisions.length) {
    byId("slowdown-note").textContent = "";
    return empty("slowdown", "Shown once there are flows and a revision.");
  }
  const points = [["none", foretold.before], ...foretold.revisions.map((each) => [each.revision, each.slowdowns])].slice(-25);
  const names = points.map(([name]) => String(name));
  const of = (size) => points.map(([, each]) => each[size]);
  const value = (_, found) => (found === null || found === undefined ? "–" : found.toFixed(2));
  const line = (label, number_, dash) => ({ label, stroke: css(`--series-${number_}`), width: 2.2, dash, value,
    points: { show: true, size: 7, fill: css("--card") } });
  plot("slowdown", `${look()} ${names.join()}`, {
    scales: { x: { time: false, range: [-0.3, names.length - 0.7] } },
    axes: [axis({ splits: () => names.map((_, index) => index), values: (_, splits) => splits.map((index) => names[index]) }), axis({ size: 50 })],
    series: [{ label: "revision", value: (_, index) => names[index] ?? "–" }, line("small", 1), line("medium", 2), line("large", 3)],
  }, [names.map((_, index) => index), of("small"), of("medium"), of("large")]);
  const now = foretold.revisions.find((each) => each.revision === overview.revision);
  byId("slowdown-note").textContent = "Foretold for the sizes of the recording: the mean slowdown of flows up to 100 KB, up to 10 MB, and above, with processor sharing in each priority. " +
    (now && now.slowdowns.small !== null ? `Small flows: ${foretold.before.small.toFixed(2)} without thresholds, ${now.slowdowns.small.toFixed(2)} with revision ${now.revision}, which is in force.` : "");
}

function coverage({ overview }) {
  const { drift } = overview;
  const windows = drift?.windows || [];
  if (!windows.length) {
    byId("coverage-note").textContent = drift ? "No flow has ended under its bounds yet." : "";
    return empty("coverage", drift ? "Waiting for flows." : "No model is in force: hosts go by bytes sent (PIAS).");
  }
  const x = windows.map((_, index) => index - windows.length + 1);
  const value = (_, found) => (found === null || found === undefined ? "–" : `${(100 * found).toFixed(2)} %`);
  plot("coverage", look(), {
    scales: { x: { time: false }, y: { range: (_, low) => [Math.min(low, drift.target - 0.005, 0.98), 1] } },
    axes: [axis({ values: (_, splits) => splits.map((each) => (each % 1 ? "" : each)) }),
      axis({ values: (_, splits) => splits.map((each) => `${(100 * each).toFixed(1)} %`), size: 62 })],
    series: [{ label: "window", value: (_, found) => (found === null ? "–" : found === 0 ? "newest" : `${found}`) },
      { label: "not outside", stroke: css("--series-1"), width: 2.2, value, points: { show: true, size: 6 } },
      { label: "target", stroke: css("--series-2"), width: 1.5, dash: [6, 4], value, points: { show: false } }],
  }, [x, windows.map((each) => 1 - each.misses / each.flows), windows.map(() => drift.target)]);
  const last = windows.at(-1);
  byId("coverage-note").textContent = `Newest window: ${number(last.flows)} flows, ${number(last.bounded)} with bounds, ${number(last.misses)} outside them, ${(100 * last.fallback_share).toFixed(1)} % unknown to the model.`;
}

export function draw(seen) {
  felt(seen);
  sizes(seen);
  slowdown(seen);
  coverage(seen);
  offer(seen);
}

// In the colours of another theme.
export function again(seen) {
  draw(seen);
}

function offer({ overview }) {
  const { drift } = overview;
  const say = (text) => h("p", { class: "hint" }, text);
  if (!drift) return show("offer", say("Train a model on a recording, make a revision with it, and roll that out: its bounds are watched from then on."));
  const waits = drift.offer && drift.offer.rollout === null;
  show("offer",
    drift.off ? h("p", {}, pill("bad", "bounds off"), ` ${drift.off.why}`) : drift.drifted ? h("p", {}, pill("bad", "drifted"), ` ${drift.drifted}`)
      : h("p", {}, pill("good", "bounds hold"), ` Model ${drift.model}.`),
    drift.tried && say(`Last trained again: ${drift.tried.why}.`),
    drift.offer && say(`Model ${drift.offer.model} is better: ${drift.offer.why}.`),
    waits && h("button", { class: "primary for-operators", onclick: () => {
      byId("start-revision").value = drift.offer.revision;
      byId("start").requestSubmit();
    } }, `Roll out the offer (revision ${drift.offer.revision})`));
}
