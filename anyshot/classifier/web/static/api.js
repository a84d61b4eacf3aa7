// Requests to the server; a refusal becomes an Error with the server's message.

let last = Promise.resolve();
let running = 0;

// Sends a request after those before it were answered.
export function call(method, path, body) {
  const turn = last.then(() => send(method, path, body));
  last = turn.catch(() => {});
  return turn;
}

// Sends a request at once.
export async function send(method, path, body) {
  mark(1);
  try {
    return await request(method, path, body);
  } finally {
    mark(-1);
  }
}

async function request(method, path, body) {
  const isFile = body instanceof Blob;
  let response;
  try {
    response = await fetch(path, {
      method,
      body: body === undefined || isFile ? body : JSON.stringify(body),
      headers: { "Content-Type": isFile ? "application/octet-stream" : "application/json" },
    });
  } catch {
    throw new Error("The server does not answer; is anyshot serve still running?");
  }
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({ error: `The server failed (${response.status}).` }));
  if (response.ok) return answer;
  throw Object.assign(new Error(answer.error), { status: response.status });
}

// A line at the top of the page moves while the server works.
function mark(step) {
  running += step;
  document.documentElement.classList.toggle("busy", running > 0);
}
