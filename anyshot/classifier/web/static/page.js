// The page as a whole: how good it is, where one stands, starting over.

import "./classes.js";
import "./answers.js";
import { nameOf } from "./bars.js";
import { $, percent, pictures } from "./dom.js";
import { change, clearReports, refresh, watch } from "./state.js";
import { onDrop } from "./upload.js";
import { sure } from "./viewer.js";

let speak = 0;

watch((state) => {
  const { expected, classes, pool } = state;
  $("about").textContent = `${state.backbone} · on this computer, in memory only`;
  $("new").maxLength = state.limits.name;
  $("over").hidden = !classes.length && !pool.length;
  $("outlook").hidden = !expected;
  $("steps").hidden = Boolean(expected) && pool.length > 0;
  const filled = classes.filter((c) => c.pictures.length).length;
  const done = [classes.length > 1, filled > 1, pool.length > 0];
  done.forEach((yes, i) => $("steps").children[i].classList.toggle("done", yes));
  if (expected) outlook(state);
  announce(state);
});

function outlook({ expected, classes }) {
  const { overall, low, high } = expected;
  $("expected").textContent = percent(overall);
  $("interval").textContent = `between ${percent(low)} and ${percent(high)}, nine times in ten`;
  for (const [name, value] of Object.entries({ low, high, overall })) $("scale").style.setProperty(`--${name}`, value);
  $("scale").ariaLabel = `Expected accuracy ${percent(overall)}, 90 % interval ${percent(low)} to ${percent(high)}`;
  $("caution").textContent = expected.caution;
  const next = classes.find((c) => c.id === expected.next);
  const name = document.createElement("b");
  name.textContent = next.name;
  const gain = `5 more would gain about ${(100 * next.gain).toFixed(1)} points.`;
  $("advice").replaceChildren("Photograph next: ", name, ` – ${gain}`);
}

// One sentence for screen readers, when things have come to rest.
function announce({ expected, classes }) {
  clearTimeout(speak);
  speak = setTimeout(() => {
    const used = classes.reduce((sum, c) => sum + c.used, 0);
    if (!expected) return ($("status").textContent = "");
    const good = `Expected accuracy ${percent(expected.overall)}`;
    $("status").textContent = `Learned from ${pictures(used)}. ${good}. Photograph next: ${nameOf(expected.next)}.`;
  }, 800);
}

$("over").addEventListener("click", async () => {
  if (await sure("Remove all classes and pictures?")) {
    clearReports();
    change("DELETE", "/api/state");
  }
});

onDrop(document.body, () => {}); // a picture that misses its target must not replace the page

refresh();
