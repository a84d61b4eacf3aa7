// Which classes are mixed up: each photo is classified by the others, and a cell of the table opens its photos.

import { card, fillCard } from "./cards.js";
import { $, h, percent, photos } from "./dom.js";
import { browse } from "./gallery.js";
import { now, watch } from "./state.js";

watch((state) => {
  $("mixups").hidden = !state.classes.some((c) => c.pictures.some((photo) => photo.guess));
  if ($("mixups").open) draw(state);
});
$("mixups").addEventListener("toggle", () => $("mixups").open && draw(now()));

const FEW = 6; // classes whose names fit above the columns without turning them
const MANY = 20; // classes from which cells are smaller

const called = (c, id) => c.pictures.filter((photo) => photo.guess === id);

function draw({ classes }) {
  const shown = classes.filter((c) => c.pictures.some((photo) => photo.guess) || classes.some((d) => called(d, c.id).length));
  $("mixup-table").classList.toggle("few", shown.length <= FEW);
  $("mixup-table").classList.toggle("many", shown.length > MANY);
  const focused = document.activeElement?.dataset.cell;
  const head = h("tr", {}, h("th", { scope: "col" }, "class ↓ answer →"),
    ...shown.map((c) => h("th", { scope: "col", title: c.name }, h("span", {}, c.name))), h("th", { scope: "col" }, "right"));
  $("mixup-table").replaceChildren(h("thead", {}, head), h("tbody", {}, ...shown.map((c) => row(c, shown))));
  if (focused) button(focused).focus();
}

// The button of a cell, or the heading once it has no photos.
const button = (key) => $("mixup-table").querySelector(`[data-cell="${key}"]`) ?? $("mixups").querySelector("summary");

function row(c, shown) {
  const total = c.pictures.filter((photo) => photo.guess).length;
  const right = called(c, c.id).length;
  return h("tr", {}, h("th", { scope: "row", title: c.name }, c.name),
    ...shown.map((other) => cell(c, other, total)),
    h("td", { className: "share" }, total ? percent(right / total) : "–"));
}

function cell(c, other, total) {
  const count = called(c, other.id).length;
  const element = h("td", { className: c === other ? "right" : "wrong" });
  element.style.setProperty("--share", total ? count / total : 0);
  if (!count) return element;
  const ariaLabel = c === other ? `${photos(count)} of ${c.name} recognised` : `${photos(count)} of ${c.name} taken for ${other.name}`;
  const onclick = () => open(c.id, other.id);
  element.append(h("button", { type: "button", ariaLabel, onclick, "data-cell": `${c.id} ${other.id}` }, String(count)));
  return element;
}

function open(own, guess) {
  const find = (id) => now().classes.find((c) => c.id === id);
  const list = () => (find(own) ? called(find(own), guess) : []);
  const title = () => (own === guess ? `${find(own)?.name ?? ""}, recognised` : `${find(own)?.name ?? ""} taken for ${find(guess)?.name ?? ""}`);
  browse(title, list, card, fillCard, () => button(`${own} ${guess}`));
}
