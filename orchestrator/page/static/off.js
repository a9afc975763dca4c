// The emergency exit: one button, which asks before it does anything, and the way back.

import { byId, sure } from "./dom.js";
import { put, remove } from "./rest.js";

const SWITCH_OFF = ["Switch all hosts off?",
  "Each host marks nothing from its next poll on, and the rollout that runs is ended. Switches stay as they are.", "Switch off"];
const SWITCH_ON = ["Switch all hosts on?", "Each host follows the policy in force again.", "Switch on"];

let isOff = false;

export function begin({ toast, ask }) {
  byId("off").addEventListener("click", async () => {
    const now = isOff; // what the dialog asks about, whatever is drawn meanwhile
    if (!(await sure(...(now ? SWITCH_ON : SWITCH_OFF)))) return;
    try {
      const told = now ? await remove("/v1/off") : await put("/v1/off");
      toast(told?.unkept ? `Hosts are switched off, in memory alone: ${told.unkept}` : `Hosts are switched ${now ? "on" : "off"}.`);
    } catch (error) {
      toast(error.message);
    }
    ask();
  });
}

export function draw(overview) {
  isOff = overview.off !== null;
  byId("off").textContent = isOff ? "Switch hosts on" : "Switch hosts off";
  byId("off").hidden = false;
}
