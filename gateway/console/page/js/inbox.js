/** What needs a person: open questions of executions, changes for review, and dead letters; the badge counts them. */

import { fetchAll, waitFor } from "./api.js";
import { h } from "./dom.js";
import { listDatasets, listExecutions, listJobs } from "./endpoints.js";
import { formatCount, formatPlural } from "./format.js";
import { logUnexpectedError } from "./states.js";

const PAGE = { questions: 200, jobs: 500 };
/** More items of a kind are not counted. */
const MOST = 1000;
/** The badge is read again after this time, and whenever a page opens. */
const REFRESH_MS = 30_000;

export const badge = h("span", { class: "badge", hidden: true });
const watchers = new Set();

/** Calls `take` with the items whenever the badge is read, until `signal` is aborted. */
export function watchInbox(take, signal) {
  watchers.add(take);
  signal.addEventListener("abort", () => watchers.delete(take), { once: true });
}

/**
 * Returns the items of all three kinds. A kind that the reader may not read is empty, and its error is returned. Throws
 * an error if no kind can be read.
 */
export async function readInbox(signal) {
  const status = "EXECUTION_STATUS_PAUSED";
  const listPaused = (page_token) => listExecutions({ status, page_size: PAGE.questions, page_token }, signal);
  const kinds = {
    questions: () => fetchAll(listPaused, "executions", MOST),
    reviews: () => listDatasets(signal),
    jobs: () => fetchAll((page_token) => listJobs({ page_size: PAGE.jobs, page_token }, signal), "jobs", MOST),
  };
  const found = { errors: [] };
  await Promise.all(
    Object.entries(kinds).map(async ([kind, list]) => {
      try {
        found[kind] = await list();
      } catch (error) {
        if (signal?.aborted) throw error;
        found[kind] = [];
        found.errors.push(error);
      }
    }),
  );
  if (found.errors.length === Object.keys(kinds).length) throw found.errors[0];
  found.reviews = found.reviews.filter(({ pending_changes: waiting }) => waiting > 0);
  found.jobs = found.jobs.filter(({ dead }) => Number(dead) > 0);
  return found;
}

/** The number of decisions that the items ask for: questions, datasets with changes, and jobs with dead letters. */
export const countItems = ({ questions, reviews, jobs: dead }) => questions.length + reviews.length + dead.length;

export function showBadge(found) {
  const number = countItems(found);
  badge.hidden = number === 0;
  badge.textContent = formatCount(number);
  badge.setAttribute("aria-label", `, ${formatPlural(number, "open item")}`);
}

/** Reads the badge now, and again while this page is open. A failure leaves it as it is: the inbox shows the reason. */
export async function refreshBadge(signal) {
  while (!signal.aborted) {
    try {
      const found = await readInbox(signal);
      if (signal.aborted) return;
      showBadge(found);
      for (const take of watchers) take(found);
    } catch (error) {
      if (!signal.aborted) logUnexpectedError(error);
    }
    await waitFor(REFRESH_MS, signal);
  }
}
