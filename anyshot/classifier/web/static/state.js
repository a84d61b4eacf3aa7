// The last state from the server, its watchers, changes, and notices of errors.

import { call } from "./api.js";
import { $, h } from "./dom.js";

let state = { classes: [], pool: [], suggested: [], expected: null };
let places = new Map(); // photo → [row, class]; photos without a class have none
const watchers = [];
const MOST_NOTICES = 4;
const GONE = "The classes and photos are gone: the server was restarted, or the page was started over.";
const NOTICE_SECONDS = 8; // the time to read one

export const now = () => state;
const isEmpty = () => !state.classes.length && !state.pool.length;
export const limits = () => state.limits;
export const watch = (watcher) => watchers.push(watcher);
export const photoOf = (id) => places.get(id)?.[0];
export const homeOf = (id) => places.get(id)?.[1];

export function take(answer) {
  state = answer;
  places = new Map(state.pool.map((photo) => [photo.id, [photo]]));
  for (const c of state.classes) for (const photo of c.pictures) places.set(photo.id, [photo, c]);
  for (const watcher of watchers) watcher(state);
}

// Requests a change and shows the new state; a refusal becomes a notice.
export async function change(method, path, body) {
  try {
    take(await call(method, path, body));
    return true;
  } catch (error) {
    const before = isEmpty();
    if (error.status === 404) await refresh();
    report(isEmpty() && !before ? GONE : error.message);
    return false;
  }
}

export const refresh = () => change("GET", "/api/state");
export const move = (photos, target) => change("POST", "/api/pictures/move", { photos, target });
export const remove = (photos) => change("POST", "/api/pictures/remove", { photos });

// Shows notices for a few seconds, above the page. They take no clicks; the same notice is shown once.
export function report(...messages) {
  for (const message of messages) {
    for (const shown of $("problems").children) if (shown.textContent === message) shown.remove();
    const notice = h("p", { className: "problem" }, message);
    $("problems").append(notice);
    setTimeout(() => notice.remove(), 1000 * NOTICE_SECONDS);
  }
  while ($("problems").children.length > MOST_NOTICES) $("problems").firstElementChild.remove();
}

export const clearReports = () => $("problems").replaceChildren();
