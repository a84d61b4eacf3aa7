// The page as a whole: expected accuracy, the next steps, starting over.

import "./classes.js";
import "./folders.js";
import "./answers.js";
import "./labels.js";
import "./mixups.js";
import "./project.js";
import "./settings.js";
import { nameOf } from "./bars.js";
import { $, percent, photos } from "./dom.js";
import { change, clearReports, refresh, watch } from "./state.js";
import { onDrop } from "./upload.js";
import { sure } from "./viewer.js";

let announcement = 0;

watch((state) => {
  const { expected, classes, pool } = state;
  $("about").textContent = `Photos stay in this computer's memory · ${state.backbone}`;
  $("new").maxLength = state.limits.name;
  showTools(state);
  $("accuracy").hidden = !expected;
  $("steps").hidden = Boolean(expected) && pool.length > 0;
  const filled = classes.filter((c) => c.pictures.length).length;
  const done = [classes.length > 1, filled > 1, pool.length > 0];
  done.forEach((yes, i) => $("steps").children[i].classList.toggle("done", yes));
  if (expected) showExpected(state);
  announce(state);
});

function showTools({ classes, pool, undo, redo }) {
  const empty = !classes.length && !pool.length;
  $("over").hidden = $("save").hidden = empty;
  $("try").hidden = !empty;
  $("jump").hidden = empty;
  for (const [id, what] of [["undo", undo], ["redo", redo]]) {
    $(id).hidden = !what;
    $(id).title = what ?? "";
    $(id).setAttribute("aria-label", `${id === "undo" ? "Undo" : "Redo"}: ${what}`);
  }
}

function showExpected({ expected, classes }) {
  const { overall, low, high } = expected;
  $("expected").textContent = percent(overall);
  $("interval").textContent = `90% sure: between ${percent(low)} and ${percent(high)}`;
  for (const [name, value] of Object.entries({ low, high, overall })) $("scale").style.setProperty(`--${name}`, value);
  $("scale").ariaLabel = `Expected accuracy ${percent(overall)}, 90% interval ${percent(low)} to ${percent(high)}`;
  $("caution").textContent = [expected.caution, expected.repeated, expected.shift].filter(Boolean).join("\n");
  const next = classes.find((c) => c.id === expected.next);
  const name = document.createElement("b");
  name.textContent = next.name;
  const points = (100 * next.gain).toFixed(1);
  const gain = points === "0.0" ? "But 5 more hardly change the accuracy." : `5 more add about ${points} points.`;
  $("advice").replaceChildren("Best next: more photos of ", name, `. ${gain}`);
}

// One sentence for screen readers, once the state has settled.
function announce({ expected, classes }) {
  clearTimeout(announcement);
  announcement = setTimeout(() => {
    const used = classes.reduce((sum, c) => sum + c.used, 0);
    if (!expected) return ($("status").textContent = "");
    const accuracy = `Expected accuracy ${percent(expected.overall)}`;
    const next = `More photos of ${nameOf(expected.next)} would help most`;
    $("status").textContent = `Learned from ${photos(used)}. ${accuracy}. ${next}.`;
  }, 800);
}

$("over").addEventListener("click", async () => {
  if (await sure("Remove all classes and photos?", "This cannot be undone.")) {
    clearReports();
    $("refused-clear").click();
    change("DELETE", "/api/state");
  }
});

for (const [id, other] of [["undo", "redo"], ["redo", "undo"]]) {
  $(id).addEventListener("click", async () => {
    const focused = document.activeElement === $(id);
    await change("POST", `/api/${id}`);
    if (focused && $(id).hidden) $(other).focus();
  });
}
$("examples").addEventListener("click", async () => {
  if (await change("POST", "/api/examples")) $("classes-title").focus();
});

// Ctrl+Z and Ctrl+Shift+Z, except in a text field, which has its own
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox], [type=range], [type=file], [type=radio])");
  if (typing || event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  const button = $(event.shiftKey ? "redo" : "undo");
  if (!button.hidden && !document.querySelector("dialog[open]")) button.click();
});

onDrop(document.body, () => {}); // a photo dropped next to its target must not replace the page

refresh();
