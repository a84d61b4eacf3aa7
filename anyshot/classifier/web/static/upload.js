// Files from pickers and drops, sent one by one; what cannot be used is said, the rest goes on.

import { call } from "./api.js";
import { $ } from "./dom.js";
import { limits, refresh, report } from "./state.js";

const KINDS = "image/jpeg,image/png,image/webp,image/gif,image/bmp,image/tiff";
const SAID = 4; // sentences about single files; of more, only the number
const PAUSE = 1500; // milliseconds between looks at what was learned so far

let waiting = 0;
let done = 0;

export async function upload(files, place) {
  const refused = [];
  waiting += files.length;
  let looked = Date.now();
  for (const [index, file] of files.entries()) {
    show();
    try {
      await send(file, place);
    } catch (error) {
      refused.push(error.message);
      if (error.status !== 400 && error.status !== 413) {
        waiting -= files.length - index - 1; // the others would fare no better
        break;
      }
    } finally {
      done += 1;
    }
    if (Date.now() - looked > PAUSE) {
      await refresh();
      looked = Date.now();
    }
  }
  if (done >= waiting) waiting = done = 0;
  show();
  report(...refused.slice(0, SAID));
  if (refused.length > SAID) report(`${refused.length - SAID} more files could not be used.`);
  await refresh();
}

async function send(file, place) {
  if (file.size > limits().bytes) {
    const error = new Error(`${file.name} is larger than ${limits().megabytes} MB, the most for a picture.`);
    throw Object.assign(error, { status: 413 });
  }
  await call("POST", `/api/pictures?${new URLSearchParams({ place, name: file.name })}`, file);
}

function show() {
  $("work").hidden = waiting === 0;
  $("progress").max = Math.max(waiting, 1);
  $("progress").value = done;
  $("reading").textContent = waiting ? `Reading picture ${Math.min(done + 1, waiting)} of ${waiting} …` : "";
}

// A file input, and what is dropped anywhere on `zone`, go where `place()` says.
export function accept(zone, input, place) {
  input.accept = KINDS;
  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = ""; // the same file may be chosen again
    if (files.length) upload(files, place());
  });
  onDrop(zone, async (items) => {
    const found = await Promise.all(items.map(filesOf));
    const files = found.flat();
    if (files.length) upload(files, place());
  });
}

// Calls `dropped` with the dropped entries (files, or folders where the browser tells them).
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

// All files of a dropped entry, at any depth; hidden ones are not meant.
export async function filesOf(entry) {
  if (entry instanceof File) return [entry];
  if (entry.isFile) return entry.name.startsWith(".") ? [] : [await new Promise((ok, no) => entry.file(ok, no))];
  return (await Promise.all((await children(entry)).map(filesOf))).flat();
}

export async function children(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((ok, no) => reader.readEntries(ok, no)); // at most 100 at a time
    if (!some.length) return all.sort((a, b) => a.name.localeCompare(b.name));
    all.push(...some);
  }
}
