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
  const suggested = state.suggested.map((id) => state.pool.find((picture) => picture.id === id));
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
const uncertainty = (picture) => (picture.unknown ? 2 : 1) - highest(picture);

function sorted(pool) {
  const ids = new Set(pool.map((picture) => picture.id));
  if (pool.some((picture) => !order.includes(picture.id))) {
    order = [...pool].sort((a, b) => uncertainty(b) - uncertainty(a)).map((picture) => picture.id);
  }
  order = order.filter((id) => ids.has(id));
  return order.map((id) => pool.find((picture) => picture.id === id));
}

const image = (picture) => h("img", { src: address(picture.id), alt: "", loading: "lazy", width: 160, height: 160 });

const answer = (picture) =>
  h("button", { type: "button", className: "answer card" }, image(picture),
    h("span", { className: "verdict" }, h("i", { className: "dot" }), h("b"), h("span")),
    h("span", { className: "bars" }), h("small", {}, picture.name));

function fill(element, picture) {
  element.onclick = () => view(now().pool.find((other) => other.id === picture.id));
  const known = Boolean(picture.probabilities);
  element.classList.toggle("unknown", known && picture.unknown);
  element.querySelector(".verdict").hidden = !known;
  if (known) showVerdict(element.querySelector(".verdict"), picture);
  bars(element.querySelector(".bars"), picture.probabilities ?? {}, SHOWN);
  element.querySelector("small").textContent = picture.name + (picture.repeated ? " (also learned from)" : "");
}

function showVerdict(line, picture) {
  const { id, p, name, unknown } = verdict(picture);
  colour(line, id);
  line.children[1].textContent = unknown ? "None of these?" : name;
  line.children[2].textContent = unknown ? "" : percent(p);
}

function suggestion(picture) {
  const onclick = () => change("DELETE", address(picture.id));
  return h("article", { className: "suggestion card", ariaLabel: picture.name }, image(picture),
    h("p", { className: "guess" }), h("div", { className: "choices" }),
    h("button", { type: "button", className: "close", ariaLabel: `Remove ${picture.name}`, onclick }, "×"));
}

function suggest(element, picture) {
  const { p, name, unknown } = verdict(picture);
  element.querySelector("img").alt = picture.name;
  const guess = unknown ? "None of these?" : `${name}? ${percent(p)}`;
  element.querySelector(".guess").textContent = guess;
  const all = choices(picture);
  const key = all.map((c) => `${c.id} ${c.name}`).join();
  const box = element.querySelector(".choices");
  if (box.dataset.key === key) return; // a button may have the focus
  box.dataset.key = key;
  const few = all.length > SHOWN + 1 ? all.slice(0, SHOWN) : all;
  box.replaceChildren(...few.map((c) => choice(c, picture)));
  if (few.length < all.length) {
    const ariaLabel = `Put ${picture.name} into another class`;
    const onclick = () => view(now().pool.find((other) => other.id === picture.id));
    box.append(h("button", { type: "button", className: "choice", ariaLabel, onclick }, "Other …"));
  }
}
