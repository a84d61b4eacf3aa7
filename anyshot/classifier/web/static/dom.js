// Elements, and lists of elements that are updated without losing the focus.

export const $ = (id) => document.getElementById(id);

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Keeps one child of `parent` for each item, found by its id: made once, then updated in place.
export function follow(parent, items, make, update) {
  const focused = document.activeElement;
  const focusedChild = [...parent.children].find((child) => child.contains(focused));
  const before = new Map([...parent.children].map((child) => [child.dataset.id, child]));
  const wanted = new Set(items.map((item) => item.id));
  const index = focusedChild ? [...parent.children].indexOf(focusedChild) : -1;
  for (const [id, child] of before) if (!wanted.has(id)) child.remove();
  let cursor = parent.firstElementChild;
  for (const item of items) {
    const child = before.get(item.id) ?? make(item);
    child.dataset.id = item.id;
    if (child === cursor) cursor = cursor.nextElementSibling;
    else parent.insertBefore(child, cursor);
    update(child, item);
  }
  if (focusedChild && document.activeElement !== focused) refocus(parent, focused, index);
}

function refocus(parent, focused, index) {
  if (focused.isConnected) return focused.focus({ preventScroll: true });
  const near = parent.children[Math.min(index, parent.children.length - 1)];
  const target = near?.querySelector("button, input, select") ?? near ?? parent.closest("section, details")?.querySelector("summary, h2");
  target?.focus({ preventScroll: true });
}

export const percent = (p) => `${p > 0 && p < 0.005 ? "<1" : p < 1 && p > 0.995 ? ">99" : Math.round(100 * p)}%`;
export const photos = (n) => `${n} photo${n === 1 ? "" : "s"}`;
export const byNumber = (a, b) => a.localeCompare(b, undefined, { numeric: true }); // 2 before 10
export const address = (id) => `/api/pictures/${id}`;
