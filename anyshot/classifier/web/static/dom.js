// Elements, and lists of them that follow data without losing focus.

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

// The children of `parent` become one for each item (by its id), made once and then updated in place.
export function follow(parent, items, make, update) {
  const focused = document.activeElement;
  const held = [...parent.children].find((child) => child.contains(focused));
  const before = new Map([...parent.children].map((child) => [child.dataset.id, child]));
  const wanted = new Set(items.map((item) => item.id));
  const place = held ? [...parent.children].indexOf(held) : -1;
  for (const [id, child] of before) if (!wanted.has(id)) child.remove();
  let cursor = parent.firstElementChild;
  for (const item of items) {
    const child = before.get(item.id) ?? make(item);
    child.dataset.id = item.id;
    if (child === cursor) cursor = cursor.nextElementSibling;
    else parent.insertBefore(child, cursor);
    update(child, item);
  }
  if (held && document.activeElement !== focused) refocus(parent, focused, place);
}

function refocus(parent, focused, place) {
  if (focused.isConnected) return focused.focus({ preventScroll: true });
  const near = parent.children[Math.min(place, parent.children.length - 1)];
  const target = near?.querySelector("button, input, select") ?? near ?? parent.closest("section")?.querySelector("h2");
  target?.focus({ preventScroll: true });
}

export const percent = (p) => `${p > 0 && p < 0.005 ? "<1" : p < 1 && p > 0.995 ? ">99" : Math.round(100 * p)} %`;
export const pictures = (n) => `${n} picture${n === 1 ? "" : "s"}`;
export const address = (id) => `/api/pictures/${id}`;
