// One picture by itself: what it is taken for, where to put it, or away with it.

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
  const places = home ? [...others, { id: "pool", name: "pictures to classify" }] : others;
  $("viewer-ask").hidden = !places.length;
  $("viewer-choices").replaceChildren(...places.map((place) => choice(place, picture, () => $("viewer").close())));
  $("viewer").showModal();
}

function sentence(picture) {
  if (!picture.probabilities) return "";
  const { name, p, unknown } = verdict(picture);
  const best = `${name} (${percent(p)})`;
  return unknown ? `Like none of the classes; if one of them, ${best}.` : `Taken for ${best}.`;
}

// Classes, the most probable first.
export function choices(picture) {
  const order = ranked(picture.probabilities ?? {}).map(([id]) => id);
  const rank = (c) => (order.includes(c.id) ? order.indexOf(c.id) : order.length);
  return [...now().classes].sort((a, b) => rank(a) - rank(b));
}

export function choice(place, picture, then = () => {}) {
  const ariaLabel = `Put ${picture.name} into ${place.name}`;
  const button = h("button", { type: "button", className: "choice", ariaLabel }, place.name);
  colour(button, place.id);
  button.addEventListener("click", () => {
    then();
    change("PATCH", address(picture.id), { place: place.id });
  });
  return button;
}

$("viewer-remove").addEventListener("click", () => {
  $("viewer").close();
  change("DELETE", address(shown.id));
});

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close("no")); // beside it
}

export function sure(question) {
  $("sure-question").textContent = question;
  $("sure").returnValue = "no";
  $("sure").showModal();
  return new Promise((answer) => {
    $("sure").addEventListener("close", () => answer($("sure").returnValue === "yes"), { once: true });
  });
}
