// The colour of a class, and bars of probabilities.

import { follow, h, percent } from "./dom.js";
import { now } from "./state.js";

const HUES = 8;

export const colour = (element, id) => {
  element.dataset.hue = now().classes.findIndex((c) => c.id === id) % HUES;
};

export const nameOf = (id) => now().classes.find((c) => c.id === id)?.name ?? "";

// [class, probability], the most probable first.
export const ranked = (probabilities) => Object.entries(probabilities).sort((a, b) => b[1] - a[1]);

// The largest probabilities; only the first may be less than `least`.
export function bars(parent, probabilities, most, least = 0) {
  const rows = ranked(probabilities).map(([id, p]) => ({ id, p })).slice(0, most).filter(({ p }, i) => !i || p >= least);
  follow(parent, rows, () => h("p", { className: "bar" }, h("span"), h("b"), h("i")), (row, { id, p }) => {
    const [name, number, bar] = row.children;
    colour(row, id);
    name.textContent = nameOf(id);
    number.textContent = percent(p);
    bar.style.setProperty("--share", p);
  });
}

export function verdict(photo) {
  const [[id, p]] = ranked(photo.probabilities);
  return { id, p, name: nameOf(id), unknown: photo.unknown };
}
