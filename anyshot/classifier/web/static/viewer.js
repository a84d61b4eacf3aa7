// One photo: its answer, the class to move it to, and its removal.

import { bars, colour, ranked, verdict } from "./bars.js";
import { $, address, h, percent } from "./dom.js";
import { change, now } from "./state.js";

let shown = null;

export function view(photo, home) {
  shown = photo;
  $("viewer-image").src = address(photo.id);
  $("viewer-image").alt = photo.name;
  $("viewer-name").textContent = photo.name;
  $("viewer-verdict").textContent = home ? `Learned as ${home.name}.` : sentence(photo);
  bars($("viewer-bars"), photo.probabilities ?? {}, 6);
  const others = choices(photo).filter((c) => c.id !== home?.id);
  const targets = home ? [...others, { id: "pool", name: "photos to classify" }] : others;
  $("viewer-ask").hidden = !targets.length;
  $("viewer-choices").replaceChildren(...targets.map((target) => choice(target, photo, () => $("viewer").close())));
  $("viewer").showModal();
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

export function choice(target, photo, then = () => {}) {
  const ariaLabel = `Put ${photo.name} into ${target.name}`;
  const button = h("button", { type: "button", className: "choice", ariaLabel }, target.name);
  colour(button, target.id);
  button.addEventListener("click", () => {
    then();
    change("PATCH", address(photo.id), { target: target.id });
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
