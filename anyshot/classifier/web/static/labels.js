// Labels that look wrong: move the photo to the class that it looks like, or keep its label.

import { image } from "./cards.js";
import { colour, nameOf } from "./bars.js";
import { $, follow, h } from "./dom.js";
import { change, homeOf, move, photoOf, watch } from "./state.js";
import { view } from "./viewer.js";

const SHOWN = 12;

watch(({ suspects = [] }) => {
  const focused = $("labels").contains(document.activeElement);
  $("labels").hidden = !suspects.length;
  $("labels-count").textContent = suspects.length;
  const rows = suspects.slice(0, SHOWN).map((suspect) => ({ ...photoOf(suspect.id), ...suspect, home: homeOf(suspect.id) }));
  follow($("suspects"), rows, suspectCard, fill);
  if (focused && !suspects.length) $("classes-title").focus();
});

function suspectCard(photo) {
  const open = h("button", { type: "button", className: "thumb", ariaLabel: `Look at ${photo.name}` }, image(photo));
  return h("article", { className: "suggestion card", ariaLabel: photo.name }, open,
    h("p", { className: "guess" }), h("div", { className: "choices" }));
}

function fill(element, photo) {
  element.querySelector(".thumb").onclick = () => view(photoOf(photo.id), homeOf(photo.id));
  element.querySelector(".guess").textContent = `In ${photo.home.name}; looks like ${nameOf(photo.suggested)}`;
  const box = element.querySelector(".choices");
  const key = `${photo.home.id} ${photo.home.name} ${photo.suggested} ${nameOf(photo.suggested)}`;
  if (box.dataset.key === key) return; // a button may have the focus
  box.dataset.key = key;
  const button = (text, id, onclick) => {
    const made = h("button", { type: "button", className: "choice", ariaLabel: `${text}: ${photo.name}`, onclick }, text);
    colour(made, id);
    return made;
  };
  box.replaceChildren(
    button(`Move to ${nameOf(photo.suggested)}`, photo.suggested, () => move([photo.id], photo.suggested)),
    button(`Keep ${photo.home.name}`, photo.home.id, () => change("POST", "/api/confirm", { photos: [photo.id] })),
  );
}
