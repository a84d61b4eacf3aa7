// What the server said last, who wants to know, and the sentences of what went wrong.

import { call } from "./api.js";
import { $, h } from "./dom.js";

let state = { classes: [], pool: [], suggested: [], expected: null };
const watchers = [];
const MOST = 6; // sentences on the screen

export const now = () => state;
export const limits = () => state.limits;
export const watch = (watcher) => watchers.push(watcher);

export function take(answer) {
  state = answer;
  for (const watcher of watchers) watcher(state);
}

// Ask the server for a change and show what follows from it; what it refuses is said on the page.
export async function change(method, path, body) {
  try {
    take(await call(method, path, body));
    return true;
  } catch (error) {
    report(error.message);
    if (error.status === 404) await refresh();
    return false;
  }
}

export const refresh = () => change("GET", "/api/state");

export function report(...sentences) {
  for (const sentence of sentences) {
    const dismiss = { type: "button", className: "close", ariaLabel: "Dismiss", onclick: () => line.remove() };
    const close = h("button", dismiss, "×");
    const line = h("p", { className: "problem" }, h("span", {}, sentence), close);
    $("problems").append(line);
  }
  while ($("problems").children.length > MOST) $("problems").firstElementChild.remove();
}

export const clearReports = () => $("problems").replaceChildren();
