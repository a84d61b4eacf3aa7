// Dialogs: one photo with its answer and the class to move it to; a question before a removal.

import { bars, colour, nameOf, ranked, verdict } from "./bars.js";
import { $, address, h, percent } from "./dom.js";
import { move, now, remove } from "./state.js";

let shown = null;

export function view(photo, home) {
  if (!photo) return;
  shown = photo;
  $("viewer-image").src = address(photo.id);
  $("viewer-image").alt = photo.name;
  $("viewer-name").textContent = photo.name;
  $("viewer-verdict").textContent = home ? learned(photo, home) : sentence(photo);
  bars($("viewer-bars"), photo.probabilities ?? {}, 6);
  const others = choices(photo).filter((c) => c.id !== home?.id);
  const targets = home ? [...others, { id: "pool", name: "photos to classify" }] : others;
  $("viewer-ask").hidden = !targets.length;
  const buttons = targets.map((target) => choice(target, photo, () => leave(() => move([photo.id], target.id))));
  $("viewer-choices").replaceChildren(...buttons);
  if (!$("viewer").open) $("viewer").showModal();
}

function leave(then) {
  $("viewer").close();
  then();
}

function learned(photo, home) {
  if (!photo.guess) return `Learned as ${home.name}.`;
  const guess = `${nameOf(photo.guess)} (${percent(photo.sure)})`;
  return `Learned as ${home.name}. Without this photo, the others would call it ${guess}.`;
}

function sentence(photo) {
  if (!photo.probabilities) return "";
  const { name, p, unknown } = verdict(photo);
  const best = `${name} (${percent(p)})`;
  return unknown ? `Probably none of the classes. The most similar is ${best}.` : `Probably ${best}.`;
}

// Classes, the most probable first.
export function choices(photo) {
  const order = ranked(photo.probabilities ?? {}).map(([id]) => id);
  const rank = (c) => (order.includes(c.id) ? order.indexOf(c.id) : order.length);
  return [...now().classes].sort((a, b) => rank(a) - rank(b));
}

export function choice(target, photo, onclick) {
  const ariaLabel = `Put ${photo.name} into ${target.name}`;
  const button = h("button", { type: "button", className: "choice", ariaLabel, onclick }, target.name);
  colour(button, target.id);
  return button;
}

$("viewer-remove").addEventListener("click", () => leave(() => remove([shown.id])));

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close("no")); // outside of it
}

// Asks before a removal. The focus is on "Keep", and returns to where it was.
export function sure(question, note, act = "Remove") {
  const before = document.activeElement;
  $("sure-question").textContent = question;
  $("sure-note").textContent = `${note} Enter keeps everything.`;
  $("sure-act").textContent = act;
  $("sure").returnValue = "no";
  $("sure").showModal();
  $("sure-keep").focus();
  return new Promise((answer) => {
    const closed = () => {
      if (before.isConnected) before.focus();
      answer($("sure").returnValue === "yes");
    };
    $("sure").addEventListener("close", closed, { once: true });
  });
}
