// How to answer: how common the classes are, and from when on a photo is "none of these".

import { call, send } from "./api.js";
import { $, percent } from "./dom.js";
import { change, now, report, take, watch } from "./state.js";

let cost = null; // { thresholds, flagged, found } for the classes `costOf`
let costOf = "";
let sliding = null; // the threshold last chosen, until the server has answered

watch((state) => {
  $("choices").hidden = !state.expected;
  if (!state.expected) return;
  $("prior-even").checked = !state.as_given;
  $("prior-given").checked = state.as_given;
  if (sliding === null) $("threshold").value = 1 - state.threshold;
  if (costOf !== learnedFrom()) cost = null;
  if ($("choices").open) askCost();
  showCost();
});

$("choices").addEventListener("toggle", () => $("choices").open && now().expected && askCost());
for (const id of ["prior-even", "prior-given"]) {
  $(id).addEventListener("change", () => change("PATCH", "/api/prior", { as_given: $("prior-given").checked }));
}
$("threshold").addEventListener("input", slide);

const learnedFrom = () => now().classes.map((c) => `${c.used} ${c.pictures.slice(0, c.used).map((p) => p.id)}`).join();

// What thresholds cost takes several fits; it is asked for only while the choices are open.
async function askCost() {
  const asked = learnedFrom();
  if (cost || costOf === asked) return;
  costOf = asked;
  try {
    cost = await send("GET", "/api/tradeoff");
  } catch (error) {
    report(error.message);
  }
  showCost();
}

function at(values, threshold) {
  const { thresholds } = cost;
  const step = thresholds[1] - thresholds[0];
  const index = Math.round((threshold - thresholds[0]) / step);
  return values[Math.min(values.length - 1, Math.max(0, index))];
}

function showCost() {
  const threshold = sliding ?? now().threshold;
  const { pool } = now();
  const count = pool.filter((photo) => photo.score > threshold).length;
  const flagged = `${count} of ${pool.length} photos are called so now (unknown score above ${threshold.toFixed(2)}).`;
  if (!cost) return ($("threshold-cost").textContent = `${flagged} Estimating the mistakes …`);
  const wrong = `Estimate: ${percent(at(cost.flagged, threshold))} of photos of your classes are called so by mistake`;
  const missed = cost.found
    ? `; ${percent(1 - at(cost.found, threshold))} of photos of other things are missed.`
    : ". How many photos of other things are missed can be estimated from three classes on.";
  $("threshold-cost").textContent = `${flagged} ${wrong}${missed}`;
}

// Sends the last position as soon as the previous request was answered.
async function slide() {
  const running = sliding !== null;
  sliding = Number((1 - $("threshold").value).toFixed(2));
  showCost();
  if (running) return;
  for (let sent = null; sent !== sliding; ) {
    sent = sliding;
    try {
      take(await call("PATCH", "/api/threshold", { threshold: sent }));
    } catch (error) {
      report(error.message);
      break;
    }
  }
  sliding = null;
  showCost();
}
