// Sends files from pickers and drops one by one; reports those that cannot be used.

import { call } from "./api.js";
import { $ } from "./dom.js";
import { limits, refresh, report } from "./state.js";

const KINDS = "image/jpeg,image/png,image/webp,image/gif,image/bmp,image/tiff";
const REPORTED = 4; // notices about single files; of the others only the number
const REFRESH = 1500; // milliseconds between updates of the answers

let waiting = 0;
let done = 0;

export async function upload(files, target) {
  const refused = [];
  waiting += files.length;
  let refreshed = Date.now();
  for (const [index, file] of files.entries()) {
    show();
    try {
      await send(file, target);
    } catch (error) {
      refused.push(error.message);
      if (error.status !== 400 && error.status !== 413) {
        waiting -= files.length - index - 1; // the others would be refused, too
        break;
      }
    } finally {
      done += 1;
    }
    if (Date.now() - refreshed > REFRESH) {
      await refresh();
      refreshed = Date.now();
    }
  }
  if (done >= waiting) waiting = done = 0;
  show();
  const messages = refused.slice(0, REPORTED);
  if (refused.length > REPORTED) messages.push(`${refused.length - REPORTED} more files cannot be used.`);
  report(...messages);
  await refresh();
}

async function send(file, target) {
  if (file.size > limits().bytes) {
    const error = new Error(`${file.name} is larger than ${limits().megabytes} MB, the most for an image.`);
    throw Object.assign(error, { status: 413 });
  }
  await call("POST", `/api/pictures?${new URLSearchParams({ target, name: file.name })}`, file);
}

function show() {
  $("work").hidden = waiting === 0;
  $("progress").max = Math.max(waiting, 1);
  $("progress").value = done;
  $("reading").textContent = waiting ? `Reading photo ${Math.min(done + 1, waiting)} of ${waiting} …` : "";
}

// Uploads the files of an input, and files that are dropped on `zone`, to `target()`.
export function accept(zone, input, target) {
  input.accept = KINDS;
  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = ""; // the same file may be chosen again
    if (files.length) upload(files, target());
  });
  onDrop(zone, async (items) => {
    const files = (await Promise.all(items.map(filesOf))).flat();
    if (files.length) upload(files, target());
  });
}

// Calls `dropped` with the dropped entries: files, or folders if the browser supports them.
export function onDrop(zone, dropped) {
  let depth = 0;
  const mark = () => zone.classList.toggle("over", depth > 0);
  const ours = (event) => event.dataTransfer?.types.includes("Files");
  zone.addEventListener("dragenter", (event) => {
    if (!ours(event)) return;
    event.preventDefault();
    depth += 1;
    mark();
  });
  zone.addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    mark();
  });
  zone.addEventListener("dragover", (event) => {
    if (ours(event)) event.preventDefault();
  });
  zone.addEventListener("drop", (event) => {
    depth = 0;
    mark();
    if (!ours(event)) return;
    event.preventDefault();
    event.stopPropagation();
    dropped([...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile()).filter(Boolean));
  });
}

// All files of a dropped entry at any depth, without hidden ones.
export async function filesOf(entry) {
  if (entry instanceof File) return [entry];
  if (entry.isFile) return entry.name.startsWith(".") ? [] : [await new Promise((ok, no) => entry.file(ok, no))];
  return (await Promise.all((await children(entry)).map(filesOf))).flat();
}

export async function children(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const batch = await new Promise((ok, no) => reader.readEntries(ok, no)); // at most 100 at a time
    if (!batch.length) return all.sort((a, b) => a.name.localeCompare(b.name));
    all.push(...batch);
  }
}
