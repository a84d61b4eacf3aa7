// Photos to classify: filter, order and pages of the answers, and which photos to label next.

import { verdict } from "./bars.js";
import { card, fillCard, image } from "./cards.js";
import { $, byNumber, follow, h, percent } from "./dom.js";
import { gallery, refreshBrowse } from "./gallery.js";
import { move, now, photoOf, remove, watch } from "./state.js";
import { accept } from "./upload.js";
import { choice, choices, view } from "./viewer.js";

const SHOWN = 3; // buttons of a suggestion
const UNCERTAIN = 0.8; // answers below this probability
const TOOLS_FROM = 4; // photos

const show = gallery($("answer-list"), card, fillCard);
let order = []; // ids in the order on the screen; kept until a photo is added or another order chosen
let orderedBy = "";

watch((state) => {
  $("pool-drop").classList.toggle("alone", !state.pool.length);
  $("pool-count").textContent = state.pool.length || "";
  $("waiting").textContent = waiting(state);
  showFilters(state);
  showAnswers();
  refreshBrowse();
  const suggested = state.suggested.map(photoOf);
  $("next").hidden = !suggested.length;
  follow($("suggestions"), suggested, suggestion, suggest);
});

accept($("answers"), $("pool-files"), () => "pool");
accept(null, $("pool-folder"), () => "pool");
$("filter").addEventListener("change", () => showAnswers(false));
$("order").addEventListener("change", () => showAnswers(false));
$("find").addEventListener("input", () => showAnswers(false));

function waiting({ classes, pool, expected }) {
  if (expected || !pool.length) return "";
  const filled = classes.filter((c) => c.pictures.length).length;
  return `Answers need two classes with a photo each; so far ${filled === 1 ? "one has" : "none has"} photos.`;
}

// ---------- filter and order
const highest = ({ probabilities = { none: 0 } }) => Math.max(...Object.values(probabilities));
const uncertainty = (photo) => (photo.unknown ? 2 : 1) - highest(photo);
const label = (photo) => (photo.probabilities ? verdict(photo).name : "");

const ORDERS = {
  uncertain: (a, b) => uncertainty(b) - uncertainty(a),
  certain: (a, b) => uncertainty(a) - uncertainty(b),
  name: (a, b) => byNumber(a.name, b.name),
  class: (a, b) => byNumber(label(a), label(b)) || uncertainty(b) - uncertainty(a),
};

const FILTERS = {
  all: ["All photos", () => true],
  uncertain: [`Less than ${percent(UNCERTAIN)} sure`, (photo) => highest(photo) < UNCERTAIN],
  unknown: ["None of these?", (photo) => photo.unknown],
  repeated: ["Also learned from", (photo) => photo.repeated],
};

const inClass = (id) => (photo) => !photo.unknown && photo.probabilities && verdict(photo).id === id;

function showFilters({ classes, pool }) {
  $("answer-tools").hidden = pool.length < TOOLS_FROM;
  $("csv").hidden = !pool.some((photo) => photo.probabilities);
  const chosen = $("filter").value;
  const filters = Object.entries(FILTERS).map(([id, [name, passes]]) => ({ id, name, count: pool.filter(passes).length }));
  const options = filters.filter(({ id, count }) => count || id === "all" || id === chosen);
  const counts = new Map();
  for (const photo of pool) {
    const id = photo.probabilities && !photo.unknown ? verdict(photo).id : "";
    counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  for (const { id, name } of classes) options.push({ id: `class ${id}`, name, count: counts.get(id) ?? 0 });
  $("filter").replaceChildren(...options.map(({ id, name, count }) => h("option", { value: id }, `${name} (${count})`)));
  $("filter").value = options.some(({ id }) => id === chosen) ? chosen : "all";
}

function showAnswers(keepPage = true) {
  const chosen = $("filter").value;
  const passes = FILTERS[chosen]?.[1] ?? inClass(chosen.slice(6));
  const words = $("find").value.trim().toLowerCase();
  const found = sorted(now().pool).filter((photo) => passes(photo) && photo.name.toLowerCase().includes(words));
  $("nothing").hidden = Boolean(found.length) || !now().pool.length;
  show(found, keepPage);
}

function sorted(pool) {
  const by = $("order").value;
  const known = new Set(order);
  const photos = new Map(pool.map((photo) => [photo.id, photo]));
  if (by !== orderedBy || pool.some((photo) => !known.has(photo.id))) {
    order = [...pool].sort(ORDERS[by]).map((photo) => photo.id);
    orderedBy = by;
  }
  order = order.filter((id) => photos.has(id));
  return order.map((id) => photos.get(id));
}

// ---------- what to label next
function suggestion(photo) {
  const onclick = () => remove([photo.id]);
  return h("article", { className: "suggestion card", ariaLabel: photo.name }, image(photo),
    h("p", { className: "guess" }), h("div", { className: "choices" }),
    h("button", { type: "button", className: "close", ariaLabel: `Remove ${photo.name}`, onclick }, "×"));
}

function suggest(element, photo) {
  const { p, name, unknown } = verdict(photo);
  element.querySelector("img").alt = photo.name;
  element.querySelector(".guess").textContent = unknown ? "None of these?" : `${name}? ${percent(p)}`;
  const all = choices(photo);
  const key = all.map((c) => `${c.id} ${c.name}`).join();
  const box = element.querySelector(".choices");
  if (box.dataset.key === key) return; // a button may have the focus
  box.dataset.key = key;
  const few = all.length > SHOWN + 1 ? all.slice(0, SHOWN) : all;
  box.replaceChildren(...few.map((c) => choice(c, photo, () => move([photo.id], c.id))));
  if (few.length < all.length) {
    const ariaLabel = `Other class for ${photo.name}`;
    const onclick = () => view(photoOf(photo.id));
    box.append(h("button", { type: "button", className: "choice", ariaLabel, onclick }, "Other …"));
  }
}
