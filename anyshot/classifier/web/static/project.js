// Open a project file: its classes, and each of its photos as an ordinary upload.

import { $, photos } from "./dom.js";
import { change, limits, now, report } from "./state.js";
import { newBatch, uploadAll } from "./upload.js";
import { sure } from "./viewer.js";
import { readEntries, readEntry } from "./zip.js";

const FORMAT = "anyshot project 1";
const JSON_BYTES = 8e6;

$("open-project").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (file) await openProject(file);
});

async function openProject(file) {
  try {
    const entries = inFolderOfProject(await readEntries(file));
    const project = check(await readProject(file, entries), entries);
    const count = now().pool.length + now().classes.reduce((sum, c) => sum + c.pictures.length, 0);
    const note = "Undo brings them back.";
    if (count && !(await sure(`Replace the ${photos(count)} of this page by the project?`, note, "Replace"))) return;
    await load(file, entries, project);
  } catch (error) {
    report(error.message);
  }
}

// The entries by their paths next to project.json: a project that was unpacked and packed again is in a folder.
function inFolderOfProject(entries) {
  const paths = [...entries.keys()].filter((path) => `/${path}`.endsWith("/project.json"));
  const shortest = paths.sort((a, b) => a.length - b.length)[0] ?? "";
  const folder = shortest.slice(0, shortest.lastIndexOf("/") + 1);
  const inside = [...entries].filter(([path]) => path.startsWith(folder));
  return new Map(inside.map(([path, entry]) => [path.slice(folder.length), entry]));
}

async function readProject(file, entries) {
  const entry = entries.get("project.json");
  if (!entry) throw new Error("This zip file is not a project: it has no project.json.");
  const text = await (await readEntry(file, entry, JSON_BYTES)).text();
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("The project file cannot be read: its project.json is damaged.");
  }
}

function check(project, entries) {
  const { format, classes, photos: rows } = project ?? {};
  if (format !== FORMAT) throw new Error(`This file is of another kind (${String(format).slice(0, 40)}).`);
  const right = Array.isArray(classes) && Array.isArray(rows) &&
    classes.every((c) => typeof c?.name === "string") &&
    rows.every((row) => entries.has(row?.file) && (row.class === null || row.class in classes));
  if (!right) throw new Error("The project file cannot be read: classes or photos are missing.");
  if (rows.length > limits().pictures) {
    throw new Error(`The project has ${photos(rows.length)}; the most for one page are ${limits().pictures}.`);
  }
  return project;
}

async function load(file, entries, { classes, photos: rows, as_given, threshold }) {
  const batch = newBatch();
  const names = classes.map((c) => c.name);
  if (!(await change("POST", "/api/project", { classes: names, as_given, threshold, batch }))) return;
  const made = now().classes;
  const items = rows.map((row) => ({
    read: () => readEntry(file, entries.get(row.file), limits().bytes), // one at a time, when its turn comes
    name: String(row.name),
    target: row.class === null ? "pool" : made[row.class].id,
    confirmed: row.confirmed === true,
  }));
  if (items.length) await uploadAll(items, batch);
  for (const [i, { used }] of classes.entries()) {
    const { id, pictures } = made[i] && now().classes.find((c) => c.id === made[i].id);
    if (used > 0 && used < pictures.length) await change("PATCH", `/api/classes/${id}/used`, { used, batch });
  }
}
