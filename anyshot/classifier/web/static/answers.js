// Photos to classify: the answer for each, and which to label next.

import { bars, colour, verdict } from "./bars.js";
import { $, address, follow, h, percent } from "./dom.js";
import { change, now, watch } from "./state.js";
import { accept } from "./upload.js";
import { choice, choices, view } from "./viewer.js";

const SHOWN = 3; // bars of a photo, and buttons of a suggestion

let order = []; // of the photos on the screen: unknown ones first, then the least certain; kept until one is added

watch((state) => {
  const pool = sorted(state.pool);
  $("pool-drop").classList.toggle("alone", !pool.length);
  $("pool-count").textContent = pool.length || "";
  $("waiting").textContent = waiting(state);
  follow($("answer-list"), pool, answer, fill);
  const suggested = state.suggested.map((id) => state.pool.find((photo) => photo.id === id));
  $("next").hidden = !suggested.length;
  follow($("suggestions"), suggested, suggestion, suggest);
});

accept($("answers"), $("pool-files"), () => "pool");

function waiting({ classes, pool, expected }) {
  if (expected || !pool.length) return "";
  const filled = classes.filter((c) => c.pictures.length).length;
  return `Answers need two classes with a photo each; so far ${filled === 1 ? "one has" : "none has"} photos.`;
}

const highest = ({ probabilities = { none: 0 } }) => Math.max(...Object.values(probabilities));
const uncertainty = (photo) => (photo.unknown ? 2 : 1) - highest(photo);

function sorted(pool) {
  const ids = new Set(pool.map((photo) => photo.id));
  if (pool.some((photo) => !order.includes(photo.id))) {
    order = [...pool].sort((a, b) => uncertainty(b) - uncertainty(a)).map((photo) => photo.id);
  }
  order = order.filter((id) => ids.has(id));
  return order.map((id) => pool.find((photo) => photo.id === id));
}

const image = (photo) => h("img", { src: address(photo.id), alt: "", loading: "lazy", width: 160, height: 160 });

const answer = (photo) =>
  h("button", { type: "button", className: "answer card" }, image(photo),
    h("span", { className: "verdict" }, h("i", { className: "dot" }), h("b"), h("span")),
    h("span", { className: "bars" }), h("small", {}, photo.name));

function fill(element, photo) {
  element.onclick = () => view(now().pool.find((other) => other.id === photo.id));
  const known = Boolean(photo.probabilities);
  element.classList.toggle("unknown", known && photo.unknown);
  element.querySelector(".verdict").hidden = !known;
  if (known) showVerdict(element.querySelector(".verdict"), photo);
  bars(element.querySelector(".bars"), photo.probabilities ?? {}, SHOWN);
  element.querySelector("small").textContent = photo.name + (photo.repeated ? " (also learned from)" : "");
}

function showVerdict(line, photo) {
  const { id, p, name, unknown } = verdict(photo);
  colour(line, id);
  line.children[1].textContent = unknown ? "None of these?" : name;
  line.children[2].textContent = unknown ? "" : percent(p);
}

function suggestion(photo) {
  const onclick = () => change("DELETE", address(photo.id));
  return h("article", { className: "suggestion card", ariaLabel: photo.name }, image(photo),
    h("p", { className: "guess" }), h("div", { className: "choices" }),
    h("button", { type: "button", className: "close", ariaLabel: `Remove ${photo.name}`, onclick }, "×"));
}

function suggest(element, photo) {
  const { p, name, unknown } = verdict(photo);
  element.querySelector("img").alt = photo.name;
  const guess = unknown ? "None of these?" : `${name}? ${percent(p)}`;
  element.querySelector(".guess").textContent = guess;
  const all = choices(photo);
  const key = all.map((c) => `${c.id} ${c.name}`).join();
  const box = element.querySelector(".choices");
  if (box.dataset.key === key) return; // a button may have the focus
  box.dataset.key = key;
  const few = all.length > SHOWN + 1 ? all.slice(0, SHOWN) : all;
  box.replaceChildren(...few.map((c) => choice(c, photo)));
  if (few.length < all.length) {
    const ariaLabel = `Put ${photo.name} into another class`;
    const onclick = () => view(now().pool.find((other) => other.id === photo.id));
    box.append(h("button", { type: "button", className: "choice", ariaLabel, onclick }, "Other …"));
  }
}
