// One photo: its answer, the class to move it to, and its removal.

import { bars, colour, ranked, verdict } from "./bars.js";
import { $, address, h, percent } from "./dom.js";
import { change, now } from "./state.js";

let shown = null;

export function view(picture, home) {
  shown = picture;
  $("viewer-image").src = address(picture.id);
  $("viewer-image").alt = picture.name;
  $("viewer-name").textContent = picture.name;
  $("viewer-verdict").textContent = home ? `Learned as ${home.name}.` : sentence(picture);
  bars($("viewer-bars"), picture.probabilities ?? {}, 6);
  const others = choices(picture).filter((c) => c.id !== home?.id);
  const targets = home ? [...others, { id: "pool", name: "photos to classify" }] : others;
  $("viewer-ask").hidden = !targets.length;
  $("viewer-choices").replaceChildren(...targets.map((target) => choice(target, picture, () => $("viewer").close())));
  $("viewer").showModal();
}

function sentence(picture) {
  if (!picture.probabilities) return "";
  const { name, p, unknown } = verdict(picture);
  const best = `${name} (${percent(p)})`;
  return unknown ? `Probably none of the classes. The most similar is ${best}.` : `Probably ${best}.`;
}

// Classes, the most probable first.
export function choices(picture) {
  const order = ranked(picture.probabilities ?? {}).map(([id]) => id);
  const rank = (c) => (order.includes(c.id) ? order.indexOf(c.id) : order.length);
  return [...now().classes].sort((a, b) => rank(a) - rank(b));
}

export function choice(target, picture, then = () => {}) {
  const ariaLabel = `Put ${picture.name} into ${target.name}`;
  const button = h("button", { type: "button", className: "choice", ariaLabel }, target.name);
  colour(button, target.id);
  button.addEventListener("click", () => {
    then();
    change("PATCH", address(picture.id), { target: target.id });
  });
  return button;
}

$("viewer-remove").addEventListener("click", () => {
  $("viewer").close();
  change("DELETE", address(shown.id));
});

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close("no")); // outside of it
}

export function sure(question) {
  $("sure-question").textContent = question;
  $("sure").returnValue = "no";
  $("sure").showModal();
  return new Promise((answer) => {
    $("sure").addEventListener("close", () => answer($("sure").returnValue === "yes"), { once: true });
  });
}
