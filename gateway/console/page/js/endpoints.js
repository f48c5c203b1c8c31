/** The endpoints of the gateway that the page uses; messages are those of the contracts. */

import {
  Refusal,
  streamEvents,
  fetchAll,
  followStream,
  getJson,
  createRequestId,
  postJson,
  postFile,
  putJson,
  deleteJson,
} from "./api.js";
import { session } from "./session.js";
import { t } from "./texts.js";

const addressDataset = (dataset) => `/v1/playbooks/${encodeURIComponent(dataset)}`;
const addressTrajectory = (dataset, id) => `${addressDataset(dataset)}/trajectories/${encodeURIComponent(id)}`;
const addressExecution = (id) => `/v1/executions/${encodeURIComponent(id)}`;
const createChange = (fields) => ({ request_id: createRequestId(), ...fields });
/** A change of a playbook; with sign-in the gateway names its author. */
const createEdit = (fields) => createChange({ author: session.signedIn ? "" : "console", ...fields });

/** The most trajectories in a batch of a job. */
const BATCH = 1000;
/** The most datasets on a page. */
const PAGE = 1000;

/** A job as its messages: the head, then batches. */
function createJob(dataset, trajectories) {
  const batches = [];
  for (let from = 0; from < trajectories.length; from += BATCH)
    batches.push({ batch: { trajectories: trajectories.slice(from, from + BATCH) } });
  return [{ head: createChange({ dataset }) }, ...batches];
}

/** Fetches all datasets. */
export const listDatasets = (signal) =>
  fetchAll((page_token) => getJson("/v1/playbooks", { page_size: PAGE, page_token }, signal), "datasets");
export const listBullets = (dataset, query, signal) => getJson(`${addressDataset(dataset)}/bullets`, query, signal);
/** Fetches the bullets of a playbook as it was at a revision or time, and that revision. */
export async function readPlaybookAt(dataset, query, signal) {
  let revision = "0";
  const bullets = await fetchAll(async (page_token) => {
    const { playbook, next_page_token } = await getJson(addressDataset(dataset), { ...query, page_token }, signal);
    revision = playbook.revision;
    return { bullets: playbook.bullets, next_page_token };
  }, "bullets");
  return { bullets, revision };
}
export const listRevisions = (dataset, query, signal) => getJson(`${addressDataset(dataset)}/history`, query, signal);
/** Fetches all changes from one revision to another. */
export const diffRevisions = (dataset, from, to, signal) =>
  fetchAll(
    (page_token) =>
      getJson(`${addressDataset(dataset)}/diff`, { from_revision: from, to_revision: to, page_token }, signal),
    "changes",
  );
/** All revisions that changed a bullet, oldest first. */
export const listBulletRevisions = (dataset, id, signal) =>
  fetchAll(
    (page_token) =>
      getJson(`${addressDataset(dataset)}/bullets/${encodeURIComponent(id)}/history`, { page_token }, signal),
    "revisions",
  );
export const restoreRevision = (dataset, revision, reason) =>
  postJson(`${addressDataset(dataset)}/restore`, createEdit({ revision, reason }));
export const deleteDataset = (dataset, reason) => deleteJson(addressDataset(dataset), createEdit({ reason }));
/** Applies one delta; fails if it changed nothing and does not wait for review. */
export async function applyDelta(dataset, delta, reason, base_revision) {
  const edit = createEdit({ deltas: [delta], reason, base_revision });
  const response = await postJson(`${addressDataset(dataset)}/deltas`, edit);
  const [{ applied, skipped_reason: skipped }] = response.operations;
  if (!applied && !response.pending.length) throw new Refusal(t("edits.not_applied", { skipped }));
  return response;
}
/** Votes for or against a bullet; the vote counts once for each of its trajectories. */
export const castVote = (dataset, vote, reason) =>
  postJson(`${addressDataset(dataset)}/deltas`, createEdit({ votes: [vote], reason }));
export const readPolicy = (dataset, signal) => getJson(`${addressDataset(dataset)}/policy`, {}, signal);
export const writePolicy = (dataset, policy) => putJson(`${addressDataset(dataset)}/policy`, createChange({ policy }));
export const listSections = (dataset, signal) => getJson(`${addressDataset(dataset)}/sections`, {}, signal);
export const importPlaybook = (dataset, chunks, replace, reason) =>
  postJson("/v1/playbooks/import", [
    { head: createEdit({ dataset, replace, reason }) },
    ...chunks.map((chunk) => ({ chunk })),
  ]);
/** Fetches a playbook as a file and returns its chunks, in base64. */
export async function exportPlaybook(dataset, query, signal) {
  const chunks = [];
  const options = { query, signal };
  for await (const { data } of streamEvents("GET", `${addressDataset(dataset)}/export`, options))
    chunks.push(data.chunk);
  return chunks;
}
export const readDataset = (dataset, query, signal) => getJson(`${addressDataset(dataset)}/summary`, query, signal);
export const watchPlaybook = (dataset, from, options) =>
  followStream(`${addressDataset(dataset)}/events`, {
    query: { from_revision: from, allow_missing: true },
    ...options,
  });

export const listTrajectories = (dataset, query, signal) =>
  getJson(`${addressDataset(dataset)}/trajectories`, query, signal);
export const readTrajectory = (dataset, id, query, signal) => getJson(addressTrajectory(dataset, id), query, signal);
export const deleteTrajectory = (dataset, id) => deleteJson(addressTrajectory(dataset, id));

export const readTrials = (dataset, signal) => getJson(`${addressDataset(dataset)}/trials`, {}, signal);
export const startTrials = (dataset) => postJson(`${addressDataset(dataset)}/trials/start`, createChange());
export const stopTrials = (dataset) => postJson(`${addressDataset(dataset)}/trials/stop`, createChange());
export const listEffects = (dataset, query, signal) => getJson(`${addressDataset(dataset)}/effects`, query, signal);
export const readEffectHistory = (dataset, query, signal) =>
  getJson(`${addressDataset(dataset)}/effects/history`, query, signal);
export const undoDecision = (dataset, number) => postJson(`${addressDataset(dataset)}/decisions/${number}/undo`, {});
export const readLift = (dataset, signal) => getJson(`${addressDataset(dataset)}/lift`, {}, signal);
export const listDecisions = (dataset, query, signal) => getJson(`${addressDataset(dataset)}/decisions`, query, signal);

export const listGuards = (dataset, query, signal) => getJson(`${addressDataset(dataset)}/guards`, query, signal);
export const listGuardDecisions = (dataset, query, signal) =>
  getJson(`${addressDataset(dataset)}/guards/decisions`, query, signal);
export const undoGuardDecision = (dataset, number) =>
  postJson(`${addressDataset(dataset)}/guards/decisions/${number}/undo`, {
    author: session.signedIn ? "" : "console",
  });
export const runBacktest = (body, signal) => postJson("/v1/guards/backtest", body, signal);
/** Tests a target on the archive of a dataset, and stores the counts. */
export const storeBacktest = (dataset, expression) =>
  postJson(`${addressDataset(dataset)}/guards/backtests`, { expression });

export const readOverview = (dataset, signal) => getJson(`${addressDataset(dataset)}/overview`, {}, signal);

export const listPendingChanges = (dataset, query, signal) =>
  getJson(`${addressDataset(dataset)}/pending`, query, signal);
export const decideChanges = (dataset, decision, ids, reason) =>
  postJson(`${addressDataset(dataset)}/pending`, createEdit({ decision, ids, reason }));
export const readIndexStatus = (dataset, signal) => getJson(`${addressDataset(dataset)}/index`, {}, signal);

export const searchBullets = (body, signal) => postJson("/v1/search", body, signal);
export const learnTrajectory = (body, signal) =>
  streamEvents("POST", "/v1/learn/events", { body: createChange(body), signal });

export const parseTrajectories = (query, file, signal) => postFile("/v1/trajectories/parse", query, file, signal);
export const listJobs = (query, signal) => getJson("/v1/jobs", query, signal);
export const submitJob = (dataset, trajectories, signal) =>
  postJson("/v1/jobs", createJob(dataset, trajectories), signal);
export const watchJob = (id, options) => followStream(`/v1/jobs/${encodeURIComponent(id)}/events`, options);
export const cancelJob = (id) => postJson(`/v1/jobs/${encodeURIComponent(id)}/cancel`, createChange());
export const listDeadLetters = (id, query, signal) =>
  getJson(`/v1/jobs/${encodeURIComponent(id)}/dead-letters`, query, signal);
export const retryJob = (id) => postJson(`/v1/jobs/${encodeURIComponent(id)}/dead-letters/retry`, createChange());

export const readThresholds = (signal) => getJson("/v1/thresholds", {}, signal);
export const listExecutions = (query, signal) => getJson("/v1/executions", query, signal);
export const readExecution = (id, signal) => getJson(addressExecution(id), {}, signal);
export const createPlan = (query) => postJson("/v1/plans", { query });
export const startExecution = (plan, signal) =>
  streamEvents("POST", "/v1/executions", { body: createChange({ plan }), signal });
export const watchExecution = (id, options) => followStream(`${addressExecution(id)}/events`, options);
export const answerQuestion = (id, body, signal) =>
  streamEvents("POST", `${addressExecution(id)}/answer`, { body: createChange(body), signal });
export const cancelExecution = (id, reason) => postJson(`${addressExecution(id)}/cancel`, createChange({ reason }));
export const addInformation = (id, text) => postJson(`${addressExecution(id)}/information`, createChange({ text }));

export const readRanking = (id, query, signal) =>
  getJson(`/v1/rounds/${encodeURIComponent(id)}/ranking`, query, signal);
export const listLeaderboards = (query, signal) => getJson("/v1/rounds", query, signal);
export const listEntries = (id, query, signal) =>
  getJson(`/v1/rounds/${encodeURIComponent(id)}/entries`, query, signal);

export const runRounds = (body, signal) => streamEvents("POST", "/v1/rounds", { body, signal });

export const listServices = (signal) => getJson("/v1/services", {}, signal);
export const readAbout = (signal) => getJson("/v1/about", {}, signal);
export const readCaller = (signal) => getJson("/v1/access/me", {}, signal);
export const listKeys = (query, signal) => getJson("/v1/access/keys", query, signal);
export const createKey = (fields) => postJson("/v1/access/keys", fields);
export const revokeKey = (id) => postJson(`/v1/access/keys/${encodeURIComponent(id)}/revoke`, {});
export const listAuditRecords = (query, signal) => getJson("/v1/audit", query, signal);

/** The recorded trajectories that come with hansei, one a line; null if this gateway has none. */
export async function readExamples(signal) {
  const response = await fetch(new URL("../examples.jsonl", import.meta.url), { signal, credentials: "omit" });
  return response.ok ? response.blob() : null;
}
