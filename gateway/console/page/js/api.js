/** Requests to the gateway: JSON, problem documents, and events that are followed across broken connections. */

import { session } from "./session.js";
import { t } from "./texts.js";

const RETRY_MS = [500, 1000, 2000, 5000];
/** Statuses of permanent errors: a repeated request fails in the same way. */
const REFUSED = new Set([400, 401, 403, 404, 409, 422]);

/** An error that the user can understand and correct, such as a file that is too large. */
export class Refusal extends Error {}

/** An error of the gateway. `reason` is the stable name that gRPC has, too. */
export class ApiError extends Refusal {
  constructor(status, problem) {
    super(problem.detail || problem.title || problem.error || t("api.the_gateway_responded_with_status", { status }));
    this.status = status;
    this.reason = problem.reason ?? "";
    this.violations = problem.violations ?? [];
  }
}

/** Called when the gateway requires a token or rejects the sent one. `main.js` sets it. */
export const onUnauthorized = { call: () => {} };

export const getJson = (path, query, signal) => sendJson("GET", path, query, undefined, signal);
export const deleteJson = (path, query) => sendJson("DELETE", path, query);
export const postJson = (path, body, signal) => sendJson("POST", path, undefined, body, signal);
export const putJson = (path, body, signal) => sendJson("PUT", path, undefined, body, signal);
/** Sends a file, or any bytes, unchanged. */
export const postFile = (path, query, file, signal) => sendJson("POST", path, query, file, signal);

/** Returns the items of a paged list, up to `most` and a few: `ask(token)` gives a page, `items` names its list. */
export async function fetchAll(ask, items, most = Infinity) {
  const all = [];
  let token = "";
  do {
    const answer = await ask(token);
    all.push(...answer[items]);
    token = answer.next_page_token;
  } while (token && all.length < most);
  return all;
}

/** A UUID for a change, so that a repeated request changes nothing. */
export const createRequestId = () => crypto.randomUUID();

/**
 * The changes of this page without a known outcome, by what they change. The same change again is the same request,
 * with the same `request_id`: the gateway may have made it, and only its response was lost.
 */
const unanswered = new Map();
addEventListener("hashchange", () => unanswered.clear());

/** Returns a request as it is sent; for a change without a known outcome the request that was sent before. */
function buildRequest(verb, path, query, body) {
  const content = body === undefined || body instanceof Blob ? body : JSON.stringify(body);
  const request = { verb, address: path + encodeQuery(query), content };
  const id = [query, body, body?.[0]?.head].find((message) => message?.request_id)?.request_id;
  if (!id) return request;
  const key = `${verb} ${request.address} ${content}`.replace(id, "");
  if (!unanswered.has(key)) unanswered.set(key, { ...request, key });
  return unanswered.get(key);
}

/** Forgets a change whose outcome is known: it succeeded, or it was refused with `error`. */
function markAnswered({ key }, error) {
  if (!error || REFUSED.has(error.status)) unanswered.delete(key);
}

async function sendJson(verb, path, query, body, signal) {
  const request = buildRequest(verb, path, query, body);
  try {
    const response = await sendRequest(request, signal);
    const answer = await readPart(() => response.json(), signal);
    markAnswered(request);
    return answer;
  } catch (error) {
    markAnswered(request, error);
    throw error;
  }
}

/** Reads a part of a response. Throws an ApiError if the connection breaks. */
async function readPart(read, signal) {
  try {
    return await read();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw createInterruption();
  }
}

const createInterruption = () => new ApiError(0, { detail: t("api.the_connection_to_the_gateway") });

async function sendRequest({ verb, address, content }, signal, extra = {}) {
  const headers = { ...session.headers(), ...extra };
  if (content !== undefined)
    headers["Content-Type"] = content instanceof Blob ? "application/octet-stream" : "application/json";
  let response;
  try {
    const init = { method: verb, headers, signal, body: content };
    response = await fetch(address, { ...init, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { detail: t("api.the_gateway_cannot_be_reached") });
  }
  if (response.ok) return response;
  if (response.status === 401) onUnauthorized.call();
  throw new ApiError(response.status, await readProblem(response));
}

async function readProblem(response) {
  try {
    const content = await response.json();
    return content && typeof content === "object" ? content : {};
  } catch {
    return {};
  }
}

/** Returns the query string; the name of a list is repeated for each value. */
function encodeQuery(query) {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) => [value].flat().map((item) => [name, item]));
  const filled = pairs.filter(([, value]) => value !== undefined && value !== "");
  return filled.length ? `?${new URLSearchParams(filled)}` : "";
}

/**
 * The messages of a stream, as `{id, data}`; `onOpen` is called when the stream begins. Throws an ApiError when the
 * stream failed or was interrupted; it returns only after the gateway has sent the end of the stream.
 */
export async function* streamEvents(verb, path, { query, body, signal, lastId = "", onOpen } = {}) {
  const extra = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
  const request = buildRequest(verb, path, query, body);
  let failure;
  try {
    const response = await sendRequest(request, signal, extra);
    onOpen?.();
    for await (const block of readBlocks(response.body, signal)) {
      const { event, id, data } = parseEvent(block);
      if (event === "end") return;
      if (event === "error") throw new ApiError(JSON.parse(data).status, JSON.parse(data));
      if (data) yield { id, data: JSON.parse(data) };
    }
    throw createInterruption();
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    // A reader that needs no further events has its outcome, too.
    markAnswered(request, failure);
  }
}

async function* readBlocks(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await readPart(() => reader.read(), signal);
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      yield* parts;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseEvent(block) {
  const event = { event: "message", id: "", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(event|id|data): ?(.*)$/.exec(line) ?? [];
    if (name) event[name] = value;
  }
  return event;
}

/**
 * Follows a GET stream to its end or until `signal` is aborted; a broken connection is resumed after the last
 * event. While the page is in the background it closes the stream: a browser allows six connections to a host over all
 * its tabs. `onState` is called with "live" and "reconnecting". Throws permanent errors of the gateway.
 */
export async function followStream(path, { query, signal, take, onState = () => {} }) {
  let lastId = "";
  for (let failures = 0; !signal.aborted; failures += 1) {
    if (document.hidden) await waitForEvent(document, "visibilitychange", signal);
    const turn = new AbortController();
    const end = () => turn.abort();
    document.addEventListener("visibilitychange", end, { signal: turn.signal });
    signal.addEventListener("abort", end, { signal: turn.signal });
    try {
      const onOpen = () => onState("live");
      for await (const event of streamEvents("GET", path, { query, signal: turn.signal, lastId, onOpen })) {
        failures = 0;
        lastId = event.id || lastId;
        take(event.data);
      }
      return;
    } catch (error) {
      if (turn.signal.aborted) continue;
      if (!(error instanceof ApiError) || REFUSED.has(error.status)) throw error;
    } finally {
      end();
    }
    onState("reconnecting");
    await waitFor(RETRY_MS[Math.min(failures, RETRY_MS.length - 1)], signal);
  }
}

/** Waits until an event happens once, or `signal` is aborted. */
function waitForEvent(target, name, signal) {
  return waitUntil(signal, (resolve) => {
    target.addEventListener(name, resolve);
    return () => target.removeEventListener(name, resolve);
  });
}

/** Waits for a time, or until `signal` is aborted. */
export function waitFor(ms, signal) {
  return waitUntil(signal, (resolve) => {
    const timer = setTimeout(resolve, ms);
    return () => clearTimeout(timer);
  });
}

/** Waits until `begin` calls its parameter, or `signal` is aborted; then calls what `begin` returned. */
async function waitUntil(signal, begin) {
  let end;
  let stop;
  await new Promise((resolve) => {
    end = resolve;
    stop = begin(resolve);
    signal.addEventListener("abort", end);
  });
  stop();
  signal.removeEventListener("abort", end);
}
