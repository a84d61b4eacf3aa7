// A grid of photos: a page at a time, several of which can be selected, moved and removed.

import { $, follow, h, photos } from "./dom.js";
import { change, homeOf, now } from "./state.js";

const PAGE = { wide: 60, narrow: 24 };
const narrow = matchMedia("(max-width: 560px)");

// `make` and `update` are those of an item's button. Returns a function that shows a list of photos.
export function gallery(parent, make, update) {
  const grid = h("div", { className: "answers" });
  const pager = h("div", { className: "pager", role: "group", ariaLabel: "Pages" });
  const bar = h("div", { className: "bar-of-selected card", role: "group", ariaLabel: "Selected photos" });
  parent.append(grid, pager, bar);
  const view = { items: [], page: 0, ticked: new Set(), grid, pager, bar, make, update };
  view.show = () => render(view);
  pagerButtons(view);
  selectionBar(view);
  narrow.addEventListener("change", view.show);
  return (items, keepPage = true) => {
    view.items = items;
    if (!keepPage) view.page = 0;
    view.show();
  };
}

const pageSize = () => (narrow.matches ? PAGE.narrow : PAGE.wide);

function render(view) {
  const ids = new Set(view.items.map((photo) => photo.id));
  for (const id of view.ticked) if (!ids.has(id)) view.ticked.delete(id);
  const pages = Math.max(1, Math.ceil(view.items.length / pageSize()));
  view.page = Math.min(view.page, pages - 1);
  const first = view.page * pageSize();
  const shown = view.items.slice(first, first + pageSize());
  follow(view.grid, shown, (photo) => item(view, photo), (element, photo) => {
    element.firstChild.checked = view.ticked.has(photo.id);
    element.classList.toggle("ticked", view.ticked.has(photo.id));
    view.update(element.lastChild, photo);
  });
  showPager(view, first, shown.length, pages);
  showSelected(view);
}

function item(view, photo) {
  const tick = h("input", { type: "checkbox", className: "tick", ariaLabel: `Select ${photo.name}` });
  tick.addEventListener("change", () => {
    view.ticked[tick.checked ? "add" : "delete"](photo.id);
    view.show();
  });
  return h("article", { className: "item" }, tick, view.make(photo));
}

function pagerButtons(view) {
  const turn = (step) => () => {
    view.page += step;
    view.show();
    view.grid.scrollIntoView({ block: "start" });
  };
  const button = (text, ariaLabel, step) =>
    h("button", { type: "button", className: "quiet", ariaLabel, onclick: turn(step) }, text);
  view.pager.append(button("‹ Previous", "Previous page", -1), h("span", { role: "status" }), button("Next ›", "Next page", 1));
}

function showPager(view, first, count, pages) {
  const [back, text, next] = view.pager.children;
  view.pager.hidden = pages < 2;
  text.textContent = `${first + 1}–${first + count} of ${view.items.length}`;
  back.disabled = view.page === 0;
  next.disabled = view.page === pages - 1;
}

function selectionBar(view) {
  const act = async (path, body) => {
    const chosen = [...view.ticked];
    view.ticked.clear();
    await change("POST", path, { photos: chosen, ...body });
    const near = view.grid.querySelector(".tick") ?? view.grid.closest("section, dialog").querySelector("h2");
    if (view.bar.hidden) near.focus({ preventScroll: true }); // the bar had the focus
  };
  const button = (text, className, onclick) => h("button", { type: "button", className, onclick }, text);
  const target = h("select", { ariaLabel: "Class for the selected photos" }); // arrow keys change it at once
  const move = button("Move", "quiet", () => act("/api/pictures/move", { target: target.value }));
  target.addEventListener("change", () => (move.disabled = !target.value));
  const all = () => {
    view.items.forEach((photo) => view.ticked.add(photo.id));
    view.show();
  };
  const none = () => {
    view.ticked.clear();
    view.show();
    view.grid.querySelector(".tick")?.focus();
  };
  view.bar.append(h("span", { role: "status" }), button("Select all", "quiet", all),
    button("Select none", "quiet", none), target, move, button("Remove", "danger", () => act("/api/pictures/remove")));
}

function showSelected(view) {
  const [text, all, , target, move] = view.bar.children;
  view.bar.hidden = !view.ticked.size;
  text.textContent = `${photos(view.ticked.size)} selected`;
  all.hidden = view.ticked.size === view.items.length;
  all.textContent = `Select all ${view.items.length}`;
  const homes = new Set([...view.ticked].map((id) => homeOf(id)?.id ?? "pool"));
  const targets = [...now().classes, { id: "pool", name: "photos to classify" }];
  const others = targets.filter(({ id }) => homes.size > 1 || !homes.has(id)); // not where all of them are
  const options = [{ id: "", name: "Move to …" }, ...others];
  const key = options.map((option) => `${option.id} ${option.name}`).join();
  if (target.dataset.key !== key) {
    target.dataset.key = key;
    target.replaceChildren(...options.map(({ id, name }) => h("option", { value: id }, name)));
  }
  if (view.bar.hidden) target.value = "";
  move.disabled = !target.value;
}

// A dialog with a gallery: the photos of a class, or of a cell of the table of mix-ups.
let open = null;
let showAll = null;

// `opener` finds the element that gets the focus when the dialog closes.
export function browse(title, list, make, update, opener) {
  open = { title, list, opener };
  showAll ??= gallery($("browse-list"), make, update);
  refreshBrowse(false);
  $("browse").showModal();
}

export function refreshBrowse(keepPage = true) {
  if (!open) return;
  const list = open.list();
  if (!list.length) return $("browse").close();
  $("browse-hint").hidden = !list.some((photo) => photo.guess);
  $("browse-title").textContent = `${open.title()} (${list.length})`;
  showAll(list, keepPage);
}

$("browse").addEventListener("close", () => {
  if ($("browse").open) return; // opened again before this event came
  const target = open.opener();
  (target.checkVisibility() ? target : $("classes-title")).focus({ preventScroll: true });
  open = null;
});
