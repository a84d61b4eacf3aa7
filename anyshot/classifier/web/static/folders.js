// Folders of photos become classes: all classes first, then all photos as one upload.

import { $, byNumber } from "./dom.js";
import { change, limits, now, report } from "./state.js";
import { children, filesOf, newBatch, onChoice, onDrop, uploadAll } from "./upload.js";

// Folders with these names are parts of a data set if they contain folders themselves.
const PARTS = ["train", "training", "val", "valid", "validation", "test", "testing", "query", "support"];

// Dropped folders become classes; of a single folder that holds folders, those do.
onDrop($("classes"), async (entries) => {
  const folders = entries.filter((entry) => entry.isDirectory);
  if (!folders.length) return report("Drop photos on a class. Folders that are dropped here become classes.");
  const inside = folders.length === 1 ? await children(folders[0]) : [];
  const nested = inside.some((entry) => entry.isDirectory);
  const found = [];
  for (const folder of nested ? inside.filter((entry) => entry.isDirectory) : folders) {
    const isParent = (await children(folder)).some((entry) => entry.isDirectory);
    found.push({ name: folder.name, files: await filesOf(folder), isParent });
  }
  const loose = nested ? inside.filter((entry) => entry.isFile) : [];
  addClasses(found, loose.length, folders[0].name);
});

// The same for a folder that is chosen: DIR/spruce/1.jpg is of class spruce, DIR/1.jpg of class DIR.
onChoice($("folder"), (files) => {
  const paths = files.map((file) => file.webkitRelativePath.split("/"));
  const nested = paths.some((path) => path.length > 2);
  const found = new Map();
  let loose = 0;
  for (const [i, path] of paths.entries()) {
    if (nested && path.length < 3) {
      loose += 1;
      continue;
    }
    const name = path[nested ? 1 : 0];
    const folder = found.get(name) ?? { name, files: [], isParent: false };
    folder.files.push(files[i]);
    folder.isParent ||= path.length > 3;
    found.set(name, folder);
  }
  addClasses([...found.values()].sort((a, b) => byNumber(a.name, b.name)), loose, paths[0][0]);
});

// The class with the name of a folder, as the server writes it.
function classCalled(folder) {
  const called = folder.split(/\s+/).filter(Boolean).join(" ").toLowerCase();
  return now().classes.find((c) => c.name.toLowerCase() === called);
}

async function addClasses(folders, loose, root) {
  const parts = folders.filter(({ name, isParent }) => isParent && PARTS.includes(name.toLowerCase()));
  if (parts.length) {
    const names = parts.map(({ name }) => name).join(" and ");
    return report(`${names} contain${parts.length > 1 ? "" : "s"} folders of photos; choose the one to learn from.`);
  }
  const most = limits().classes;
  const classes = now().classes.length + folders.filter(({ name }) => !classCalled(name)).length;
  if (classes > most) return report(`With ${root} there would be ${classes} classes; the most for one page are ${most}.`);
  const batch = newBatch();
  const items = [];
  for (const { name, files } of folders) {
    let home = classCalled(name);
    if (!home && (await change("POST", "/api/classes", { name, batch }))) home = now().classes.at(-1);
    if (home) items.push(...files.map((file) => ({ file, name: file.name, target: home.id })));
  }
  if (loose) report(`${root} has ${loose} file${loose > 1 ? "s" : ""} next to the folders of classes; left out.`);
  if (items.length) await uploadAll(items, batch);
}
