/** The endpoints of the gateway that the page uses; messages are those of the contracts. */

import { events, fetchAll, follow, get, newRequestId, post, postFile, remove } from "./api.js";
import { session } from "./session.js";

const book = (dataset) => `/v1/playbooks/${encodeURIComponent(dataset)}`;
const trajectory = (dataset, id) => `${book(dataset)}/trajectories/${encodeURIComponent(id)}`;
const execution = (id) => `/v1/executions/${encodeURIComponent(id)}`;
const change = (fields) => ({ request_id: newRequestId(), ...fields });
/** A change of a playbook; with sign-in the gateway names its author. */
const edit = (fields) => change({ author: session.signedIn ? "" : "console", ...fields });

/** The most trajectories in a batch of a job. */
const BATCH = 1000;

/** A job as its messages: the head, then batches. */
function job(dataset, trajectories) {
  const batches = [];
  for (let from = 0; from < trajectories.length; from += BATCH)
    batches.push({ batch: { trajectories: trajectories.slice(from, from + BATCH) } });
  return [{ head: change({ dataset }) }, ...batches];
}

export const datasets = (signal, query) => get("/v1/playbooks", { page_size: 1000, ...query }, signal);
export const bullets = (dataset, query, signal) => get(`${book(dataset)}/bullets`, query, signal);
/** The bullets of a playbook as it was at a revision or time, and that revision. */
export async function readPlaybookAt(dataset, query, signal) {
  let revision = "0";
  const bullets = await fetchAll(async (page_token) => {
    const { playbook, next_page_token } = await get(book(dataset), { ...query, page_token }, signal);
    revision = playbook.revision;
    return { bullets: playbook.bullets, next_page_token };
  }, "bullets");
  return { bullets, revision };
}
export const history = (dataset, query, signal) => get(`${book(dataset)}/history`, query, signal);
/** All changes from one revision to another. */
export const diff = (dataset, from, to, signal) =>
  fetchAll(
    (page_token) => get(`${book(dataset)}/diff`, { from_revision: from, to_revision: to, page_token }, signal),
    "changes",
  );
/** All revisions that changed a bullet, oldest first. */
export const bulletHistory = (dataset, id, signal) =>
  fetchAll(
    (page_token) => get(`${book(dataset)}/bullets/${encodeURIComponent(id)}/history`, { page_token }, signal),
    "revisions",
  );
export const restore = (dataset, revision, reason) =>
  post(`${book(dataset)}/restore`, edit({ revision, reason }));
export const deleteDataset = (dataset, reason) => remove(book(dataset), edit({ reason }));
export const applyDelta = (dataset, delta, reason, base_revision) =>
  post(`${book(dataset)}/deltas`, edit({ deltas: [delta], reason, base_revision }));
export const summary = (dataset, query, signal) => get(`${book(dataset)}/summary`, query, signal);
export const watchPlaybook = (dataset, from, options) =>
  follow(`${book(dataset)}/events`, { query: { from_revision: from, allow_missing: true }, ...options });

export const trajectories = (dataset, query, signal) => get(`${book(dataset)}/trajectories`, query, signal);
export const readTrajectory = (dataset, id, query, signal) => get(trajectory(dataset, id), query, signal);
export const deleteTrajectory = (dataset, id) => remove(trajectory(dataset, id));

export const trials = (dataset, signal) => get(`${book(dataset)}/trials`, {}, signal);
export const startTrials = (dataset) => post(`${book(dataset)}/trials/start`, change());
export const stopTrials = (dataset) => post(`${book(dataset)}/trials/stop`, change());
export const effects = (dataset, query, signal) => get(`${book(dataset)}/effects`, query, signal);
export const effectHistory = (dataset, query, signal) => get(`${book(dataset)}/effects/history`, query, signal);
export const undoDecision = (dataset, number) => post(`${book(dataset)}/decisions/${number}/undo`, {});
export const lift = (dataset, signal) => get(`${book(dataset)}/lift`, {}, signal);
export const decisions = (dataset, query, signal) => get(`${book(dataset)}/decisions`, query, signal);

export const pending = (dataset, query, signal) => get(`${book(dataset)}/pending`, query, signal);
export const decide = (dataset, decision, ids, reason) =>
  post(`${book(dataset)}/pending`, edit({ decision, ids, reason }));
export const index = (dataset, signal) => get(`${book(dataset)}/index`, {}, signal);

export const search = (body, signal) => post("/v1/search", body, signal);
export const learn = (body, signal) => events("POST", "/v1/learn/events", { body: change(body), signal });

export const parseTrajectories = (query, file, signal) => postFile("/v1/trajectories/parse", query, file, signal);
export const jobs = (query, signal) => get("/v1/jobs", query, signal);
export const submitJob = (dataset, trajectories, signal) => post("/v1/jobs", job(dataset, trajectories), signal);
export const watchJob = (id, options) => follow(`/v1/jobs/${encodeURIComponent(id)}/events`, options);
export const cancelJob = (id) => post(`/v1/jobs/${encodeURIComponent(id)}/cancel`, change());
export const deadLetters = (id, query, signal) => get(`/v1/jobs/${encodeURIComponent(id)}/dead-letters`, query, signal);
export const retryJob = (id) => post(`/v1/jobs/${encodeURIComponent(id)}/dead-letters/retry`, change());

export const thresholds = (signal) => get("/v1/thresholds", {}, signal);
export const executions = (query, signal) => get("/v1/executions", query, signal);
export const readExecution = (id, signal) => get(execution(id), {}, signal);
export const createPlan = (query) => post("/v1/plans", { query });
export const startExecution = (plan, signal) => events("POST", "/v1/executions", { body: change({ plan }), signal });
export const watchExecution = (id, options) => follow(`${execution(id)}/events`, options);
export const answer = (id, body, signal) => events("POST", `${execution(id)}/answer`, { body: change(body), signal });
export const cancelExecution = (id, reason) => post(`${execution(id)}/cancel`, change({ reason }));
export const addInformation = (id, text) => post(`${execution(id)}/information`, change({ text }));

export const ranking = (id, query, signal) => get(`/v1/rounds/${encodeURIComponent(id)}/ranking`, query, signal);
export const entries = (id, query, signal) => get(`/v1/rounds/${encodeURIComponent(id)}/entries`, query, signal);

export const runRounds = (body, signal) => events("POST", "/v1/rounds", { body, signal });

export const services = (signal) => get("/v1/services", {}, signal);
