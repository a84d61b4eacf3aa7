// Sends files from pickers and drops one by one; reports those that cannot be used.

import { call } from "./api.js";
import { nameOf } from "./bars.js";
import { $, byNumber, h } from "./dom.js";
import { limits, refresh, report } from "./state.js";

const KINDS = "image/jpeg,image/png,image/webp,image/avif,image/gif,image/bmp,image/tiff,.heic,.heif,.hif";
const REPORTED = 3; // files with a notice of their own; the list has all
const SYSTEM = /^(\..*|thumbs\.db|desktop\.ini)$/i; // hidden files and folders, and those that systems add
const REFRESH = 1500; // milliseconds between updates of the answers, or five times what one takes

let waiting = 0;
let done = 0;
let nextUpdate = 0;
let batches = 0;

// A name under which changes are undone together.
export const newBatch = () => `${Date.now()} ${(batches += 1)}`;

export const upload = (files, target, batch = newBatch()) =>
  uploadAll(files.map((file) => ({ file, name: file.name, target })), batch);

// Uploads [{ file, name, target, confirmed }] in this order, or `read` instead of `file`, which gives the file. A
// file that cannot be used is reported and left out.
export async function uploadAll(items, batch) {
  const job = { items: [...items], refused: [], batch };
  waiting += items.length;
  show();
  while (job.items.length) {
    await next(job);
    if (job.items.length) await update();
  }
  if (done >= waiting) waiting = done = 0;
  show();
  const many = `${job.refused.length} files cannot be used; the list at the top says why.`;
  if (job.stopped) report(job.stopped);
  else report(...(job.refused.length > REPORTED ? [many] : job.refused));
  list(job.refused);
  await refresh();
}

async function next(job) {
  const item = job.items.shift();
  try {
    await sendPhoto(item, job.batch);
  } catch (error) {
    const home = nameOf(item.target); // photos of several classes may have the same file name
    job.refused.push(home ? `${home}: ${error.message}` : error.message);
    if (error.status !== 400 && error.status !== 413) stop(job, error.message); // not about this file
  }
  done += 1;
  show();
}

// The other files would be refused, too.
function stop(job, reason) {
  job.stopped = reason;
  job.refused.push(...job.items.map(({ name }) => `${name} was not sent.`));
  waiting -= job.items.splice(0).length;
}

async function update() {
  if (Date.now() < nextUpdate) return;
  nextUpdate = Infinity;
  const start = Date.now();
  await refresh();
  nextUpdate = Date.now() + Math.max(REFRESH, 5 * (Date.now() - start));
}

async function sendPhoto({ read, name, target, confirmed, ...item }, batch) {
  const file = item.file ?? (await read());
  if (file.size > limits().bytes) {
    const error = new Error(`${name} is larger than ${limits().megabytes} MB, the most for an image.`);
    throw Object.assign(error, { status: 413 });
  }
  const query = new URLSearchParams({ target, name, batch, ...(confirmed && { confirmed: 1 }) });
  await call("POST", `/api/pictures?${query}`, file);
}

// All files that could not be used, with the reason; notices disappear.
function list(refused) {
  $("refused-list").append(...refused.map((message) => h("li", {}, message)));
  const count = $("refused-list").children.length;
  $("refused").hidden = !count;
  $("refused-title").textContent = `${count} ${count === 1 ? "file was" : "files were"} not used`;
}

$("refused-clear").addEventListener("click", () => {
  $("refused-list").replaceChildren();
  list([]);
  $("classes-title").focus();
});

function show() {
  $("work").hidden = waiting === 0;
  $("progress").max = Math.max(waiting, 1);
  $("progress").value = done;
  $("reading").textContent = waiting ? `Reading photo ${Math.min(done + 1, waiting)} of ${waiting} …` : "";
}

// Calls `chosen` with the files that are chosen in an input, without hidden ones and those of the system.
export function onChoice(input, chosen) {
  if (!input.webkitdirectory) input.accept = KINDS;
  input.addEventListener("change", () => {
    const path = (file) => file.webkitRelativePath || `chosen/${file.name}`;
    const visible = (file) => !path(file).split("/").slice(1).some((part) => SYSTEM.test(part));
    const files = [...input.files].filter(visible);
    files.sort((a, b) => byNumber(path(a), path(b))); // folders come in any order
    input.value = ""; // the same file may be chosen again
    if (files.length) chosen(files);
    else report("There are no photos in this folder.");
  });
}

// Uploads the files of an input, and files that are dropped on `zone`, to `target()`.
export function accept(zone, input, target) {
  onChoice(input, (files) => upload(files, target()));
  if (!zone) return;
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

// All files of a dropped entry at any depth.
export async function filesOf(entry) {
  if (entry instanceof File) return [entry];
  if (entry.isFile) return SYSTEM.test(entry.name) ? [] : [await new Promise((ok, no) => entry.file(ok, no))];
  return (await Promise.all((await children(entry)).map(filesOf))).flat();
}

// What a dropped folder contains, without hidden entries and those of the system.
export async function children(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const batch = await new Promise((ok, no) => reader.readEntries(ok, no)); // at most 100 at a time
    if (!batch.length) return all.filter(({ name }) => !SYSTEM.test(name)).sort((a, b) => byNumber(a.name, b.name));
    all.push(...batch);
  }
}
