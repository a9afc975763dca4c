// How services' messages tell their own size, how often rightly, and an operator's word on it.

import { h, number, pill, show, table } from "./dom.js";
import { put, remove } from "./rest.js";

const USES = { "in-force": ["good", "in force"], trial: ["", "on trial"], forbidden: ["warn", "forbidden"] };

let tools = null;

export function begin(given) {
  tools = given;
}

const nameOf = (each) => `${each.program}:${each.role ? "accepts" : "connects"}:${each.port}`;

function said({ rule }) {
  if (!rule) return "Content-Length (HTTP/1.x)";
  const more = rule.constant_bytes ? ` ${rule.constant_bytes < 0 ? "−" : "+"} ${Math.abs(rule.constant_bytes)}` : "";
  const only = rule.tag === null ? "" : `, where byte ${rule.tag_offset} is ${rule.tag}`;
  return `${rule.width} bytes at ${rule.offset}, ${rule.is_big_endian ? "big" : "little"} endian${more}${only}`;
}

function share(part, { exact, short, beyond }) {
  const flows = exact + short + beyond;
  return flows ? `${((100 * part) / flows).toFixed(1)} %` : "–";
}

async function say(each, doing, done) {
  try {
    await doing(`/v1/lengths/${encodeURIComponent(nameOf(each))}`);
    tools.toast(`${nameOf(each)}: ${done}`);
  } catch (error) {
    tools.toast(error.message);
  }
  tools.ask();
}

function buttons(each) {
  const button = (text, doing, done) =>
    h("button", { class: "small", type: "button", onclick: () => say(each, doing, done) }, text);
  const word = (use) => (path) => put(path, { use, rule: use === "forbidden" ? null : each.rule, is_exact: use !== "forbidden" && each.is_exact });
  return h("span", { class: "buttons for-operators" },
    !each.pinned && button("Pin", word("in-force"), "hosts keep this rule, whatever they find."),
    each.use !== "forbidden" && button("Forbid", word("forbidden"), "hosts no longer look at its bytes."),
    each.pinned && button("Take back", remove, "what hosts find counts again."));
}

export function draw({ lengths }) {
  show("lengths",
    table(["Service", "", "Size of a message", "#Flows", "#Exact", "#Too small", "#Too large", ""], lengths.lengths.map((each) => {
      const { score } = each;
      return [
        nameOf(each),
        [pill(...USES[each.use]), each.pinned && pill("", "pinned"), each.is_exact && pill("", "upper bound, too")],
        each.use === "forbidden" && !each.rule ? "–" : said(each), number(score.exact + score.short + score.beyond),
        share(score.exact, score), share(score.short, score), share(score.beyond, score), buttons(each),
      ];
    }), "Hosts have found none yet."));
}
