// The classes: names, photos, evidence, and the slider for the number of photos used.

import { call } from "./api.js";
import { colour } from "./bars.js";
import { cameraIcon, takePhotos } from "./camera.js";
import { card as photoCard, fillCard } from "./cards.js";
import { $, address, follow, h, percent, photos } from "./dom.js";
import { browse } from "./gallery.js";
import { change, now, photoOf, report, take, watch } from "./state.js";
import { accept } from "./upload.js";
import { sure, view } from "./viewer.js";

const THUMBS = 18; // photos of a class on its card
const sliding = new Map(); // class → the number last chosen, until the server has answered

watch((state) => {
  $("folders").hidden = state.classes.length > 0;
  $("meaning").hidden = !state.expected;
  follow($("class-list"), state.classes, card, fill);
});

$("add").addEventListener("submit", async (event) => {
  event.preventDefault();
  const input = $("new");
  if (await change("POST", "/api/classes", { name: input.value })) input.value = "";
  input.focus();
});

function card({ id }) {
  const find = () => now().classes.find((c) => c.id === id);
  const name = h("input", { className: "name", ariaLabel: "Name of the class", enterKeyHint: "done" });
  name.addEventListener("change", async () => {
    if (!(await change("PATCH", `/api/classes/${id}/name`, { name: name.value }))) name.value = find().name;
  });
  name.addEventListener("keydown", (event) => event.key === "Enter" && name.blur());
  const remove = h("button", { type: "button", className: "close" }, "×");
  remove.addEventListener("click", async () => {
    const { name: called, pictures: { length } } = find();
    const agreed = !length || (await sure(`Remove ${called} and its ${photos(length)}?`, "Undo brings them back."));
    if (agreed) change("DELETE", `/api/classes/${id}`);
  });
  const input = h("input", { type: "file", multiple: true, className: "sr" });
  const picker = h("label", { className: "pick" }, input, h("span", {}, "+ Add photos"));
  const camera = h("button", { type: "button", className: "camera", onclick: () => takePhotos(id) }, cameraIcon());
  const all = h("button", { type: "button", className: "quiet all" });
  const opener = () => (all.hidden ? name : all);
  all.addEventListener("click", () => browse(() => find()?.name ?? "", () => find()?.pictures ?? [], photoCard, fillCard, opener));
  const slider = h("input", { type: "range", min: 1, step: 1 });
  slider.addEventListener("input", () => slide(id, slider));
  const element = h("article", { className: "class card" },
    h("header", {}, name, h("span", { className: "count" }), remove),
    h("div", { className: "thumbs" }),
    all,
    h("div", { className: "sources" }, picker, camera),
    h("dl", { className: "evidence" },
      stat("Influence"), stat("Expected right"), stat("With 5 more")),
    h("label", { className: "slider" }, h("span"), slider));
  accept(element, input, () => id);
  return element;
}

const stat = (name) => h("div", {}, h("dt", {}, name), h("dd", {}, h("b"), h("i", { className: "meter" })));

function fill(element, c) {
  const part = (selector) => element.querySelector(selector);
  colour(element, c.id);
  const name = part(".name");
  if (document.activeElement !== name) name.value = c.name;
  element.setAttribute("aria-label", c.name);
  part(".count").textContent = photos(c.pictures.length);
  part(".close").setAttribute("aria-label", `Remove the class ${c.name}`);
  part(".pick input").setAttribute("aria-label", `Add photos to ${c.name}`);
  element.classList.toggle("empty", !c.pictures.length);
  const shown = sliding.get(c.id) ?? c.used;
  part(".camera").setAttribute("aria-label", `Take photos of ${c.name} with the camera`);
  const few = c.pictures.slice(0, THUMBS).map((photo, index) => ({ ...photo, index }));
  follow(part(".thumbs"), few, thumb, (button, photo) => {
    button.classList.toggle("unused", photo.index >= shown);
    button.onclick = () => view(photoOf(photo.id), c);
  });
  part(".all").hidden = c.pictures.length <= THUMBS;
  part(".all").textContent = `Show all ${photos(c.pictures.length)}`;
  evidence(part(".evidence"), c);
  part(".slider").hidden = c.pictures.length < 2;
  const slider = part(".slider input");
  const most = Math.min(c.pictures.length, now().most ?? Infinity);
  slider.max = most;
  slider.setAttribute("aria-label", `Photos of ${c.name} to learn from`);
  if (!sliding.has(c.id)) slider.value = c.used;
  slider.style.setProperty("--share", (shown - 1) / Math.max(1, most - 1));
  part(".slider span").textContent = `Learn from ${shown} of ${c.pictures.length}`;
}

const thumb = (photo) =>
  h("button", { type: "button", className: "thumb", title: photo.name },
    h("img", { src: address(photo.id), alt: photo.name, loading: "lazy", width: 48, height: 48 }));

function evidence(list, c) {
  list.hidden = c.weight === undefined;
  if (list.hidden) return;
  const heaviest = Math.max(2, ...now().classes.map((other) => other.weight ?? 0));
  const [weight, expected, gain] = list.querySelectorAll("dd");
  weight.firstChild.textContent = `×${c.weight.toFixed(2)}`;
  weight.lastChild.style.setProperty("--share", c.weight / heaviest);
  expected.firstChild.textContent = percent(c.expected);
  expected.lastChild.style.setProperty("--share", c.expected);
  gain.firstChild.textContent = `+${(100 * c.gain).toFixed(1)}`;
  gain.lastChild.style.setProperty("--share", Math.min(1, 20 * c.gain));
}

// Sends the slider's last position as soon as the previous request was answered.
async function slide(id, slider) {
  const running = sliding.has(id);
  sliding.set(id, Number(slider.value));
  fill(slider.closest("article"), now().classes.find((c) => c.id === id));
  if (running) return;
  for (let sent = null; sent !== sliding.get(id); ) {
    sent = sliding.get(id);
    try {
      take(await call("PATCH", `/api/classes/${id}/used`, { used: sent }));
    } catch (error) {
      report(error.message);
      break;
    }
  }
  sliding.delete(id);
}
