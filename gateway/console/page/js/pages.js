/**
 * The pages of the console by address, and the modules that draw them. The index starts this module before the frame,
 * so that the page of the address and the frame are loaded at the same time.
 */

import { ApiError } from "./api.js";
import { addRoute, readRoute } from "./router.js";
import { t } from "./texts.js";

/** The module of the page of each address, in `pages/`. */
const MODULES = {
  "/overview": "overview",
  "/inbox": "inbox",
  "/keys": "keys",
  "/playbooks": "datasets",
  "/playbooks/:dataset": "playbook",
  "/playbooks/:dataset/history": "history",
  "/review/:dataset": "review",
  "/search/:dataset": "search",
  "/learn/:dataset": "learn",
  "/trajectories/:dataset": "trajectories",
  "/trajectories/:dataset/:id": "trace",
  "/evidence/:dataset": "evidence",
  "/guards/:dataset": "guards",
  "/executions": "executions",
  "/executions/:id": "execution",
  "/leaderboard": "leaderboard",
  "/leaderboard/:id": "leaderboard",
  "/health": "health",
  "/api": "api",
};

for (const [pattern, name] of Object.entries(MODULES)) addRoute(pattern, () => loadPage(name));
// A page that does not come is loaded again when it is opened, and the error is shown then.
readRoute()
  .load?.()
  .catch(() => {});

/** Returns the module of a page. Throws an ApiError if the gateway does not send it. */
async function loadPage(name) {
  try {
    return await import(`./pages/${name}.js`);
  } catch (error) {
    if (error instanceof TypeError) throw new ApiError(0, { detail: t("api.the_gateway_cannot_be_reached") });
    throw error;
  }
}

/** Loads the modules of all pages, so that they open at once; one that does not come is loaded when it is opened. */
export function loadPages() {
  for (const name of Object.values(MODULES)) loadPage(name).catch(() => {});
}
