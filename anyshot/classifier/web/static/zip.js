// Read a zip file in the browser, without trusting it: names are only text, sizes are checked before use.

const END = 0x06054b50; // of the list of entries
const ENTRY = 0x02014b50;
const FILE = 0x04034b50;
const MOST_ENTRIES = 20000;
const LIST_BYTES = 8e6;

const damaged = (what) => Object.assign(new Error(`The project file cannot be read: ${what}.`), { status: 400 });

const bytesOf = async (blob) => new DataView(await blob.arrayBuffer());

// The entries of a zip file by name: { method, packed, size, at }.
export async function readEntries(file) {
  const { at, size, count } = await findList(file);
  if (count > MOST_ENTRIES || size > LIST_BYTES) throw damaged(`it has ${count} entries`);
  if (at + size > file.size) throw damaged("it is not complete");
  const view = await bytesOf(file.slice(at, at + size));
  const entries = new Map();
  for (let p = 0; p + 46 <= size; ) {
    if (view.getUint32(p, true) !== ENTRY) throw damaged("its list of files is damaged");
    const [name, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(p + offset, true));
    if (p + 46 + name > size) throw damaged("its list of files is damaged");
    const text = new TextDecoder().decode(new Uint8Array(view.buffer, p + 46, name));
    entries.set(text, {
      method: view.getUint16(p + 10, true),
      packed: view.getUint32(p + 20, true),
      size: view.getUint32(p + 24, true),
      at: view.getUint32(p + 42, true),
    });
    p += 46 + name + extra + comment;
  }
  return entries;
}

async function findList(file) {
  const start = Math.max(0, file.size - 65557); // the list ends at most this far from the end
  const view = await bytesOf(file.slice(start));
  for (let p = view.byteLength - 22; p >= 0; p -= 1) {
    if (view.getUint32(p, true) === END) {
      const count = view.getUint16(p + 10, true);
      return { count, size: view.getUint32(p + 12, true), at: view.getUint32(p + 16, true) };
    }
  }
  throw damaged("it is not a zip file");
}

// The content of an entry as a Blob of at most `most` bytes.
export async function readEntry(file, entry, most) {
  if (entry.size > most) throw damaged(`a file in it is larger than ${Math.round(most / 1e6)} MB`);
  const head = await bytesOf(file.slice(entry.at, entry.at + 30));
  if (head.byteLength < 30 || head.getUint32(0, true) !== FILE) throw damaged("a file in it is missing");
  const start = entry.at + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  const packed = file.slice(start, start + entry.packed);
  if (packed.size !== entry.packed) throw damaged("it is not complete");
  if (entry.method === 0 && entry.packed === entry.size) return packed;
  if (entry.method === 8) return unpack(packed, entry.size);
  throw damaged("it is packed in another way");
}

// Stops at the announced size, so that a small file cannot unpack to gigabytes.
async function unpack(packed, size) {
  const reader = packed.stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(() => { throw damaged("a file in it is damaged"); });
    if (done) break;
    length += value.length;
    if (length > size) {
      await reader.cancel();
      throw damaged("a file in it is larger than announced");
    }
    parts.push(value);
  }
  return new Blob(parts);
}
