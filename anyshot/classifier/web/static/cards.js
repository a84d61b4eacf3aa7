// The card of a photo in a gallery: what it is called, how certainly, and its file.

import { bars, colour, nameOf, verdict } from "./bars.js";
import { address, h, percent } from "./dom.js";
import { homeOf, photoOf } from "./state.js";
import { view } from "./viewer.js";

const SHOWN = 3; // bars
const LEAST = 0.01; // probability of a bar below the answer

export const image = (photo) =>
  h("img", { src: address(photo.id), alt: "", loading: "lazy", width: 160, height: 160 });

export const card = (photo) =>
  h("button", { type: "button", className: "answer card" }, image(photo),
    h("span", { className: "verdict" }, h("i", { className: "dot" }), h("b"), h("span")),
    h("span", { className: "bars" }), h("small", {}, photo.name));

export function fillCard(element, photo) {
  element.onclick = () => view(photoOf(photo.id), homeOf(photo.id));
  const known = Boolean(photo.probabilities);
  element.classList.toggle("unknown", known && photo.unknown);
  const line = element.querySelector(".verdict");
  line.hidden = !known && !photo.guess;
  if (known) showVerdict(line, photo);
  else if (photo.guess) show(line, photo.guess, nameOf(photo.guess), photo.sure);
  bars(element.querySelector(".bars"), photo.probabilities ?? {}, SHOWN, LEAST);
  element.querySelector("small").textContent = photo.name + (photo.repeated ? " (also learned from)" : "");
}

function showVerdict(line, photo) {
  const { id, p, name, unknown } = verdict(photo);
  show(line, id, unknown ? "None of these?" : name, unknown ? null : p);
}

function show(line, id, text, p) {
  colour(line, id);
  line.children[1].textContent = text;
  line.children[2].textContent = p === null ? "" : percent(p);
}
