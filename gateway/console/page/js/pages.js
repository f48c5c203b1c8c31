/** The pages of the console by address. */

import * as api from "./pages/api.js";
import * as datasets from "./pages/datasets.js";
import * as evidence from "./pages/evidence.js";
import * as execution from "./pages/execution.js";
import * as executions from "./pages/executions.js";
import * as guards from "./pages/guards.js";
import * as health from "./pages/health.js";
import * as history from "./pages/history.js";
import * as inbox from "./pages/inbox.js";
import * as keys from "./pages/keys.js";
import * as leaderboard from "./pages/leaderboard.js";
import * as learn from "./pages/learn.js";
import * as overview from "./pages/overview.js";
import * as playbook from "./pages/playbook.js";
import * as review from "./pages/review.js";
import * as search from "./pages/search.js";
import * as trace from "./pages/trace.js";
import * as trajectories from "./pages/trajectories.js";
import { addRoute } from "./router.js";

/** The module that draws the page of each address. */
const PAGES = {
  "/overview": overview,
  "/inbox": inbox,
  "/keys": keys,
  "/playbooks": datasets,
  "/playbooks/:dataset": playbook,
  "/playbooks/:dataset/history": history,
  "/review/:dataset": review,
  "/search/:dataset": search,
  "/learn/:dataset": learn,
  "/trajectories/:dataset": trajectories,
  "/trajectories/:dataset/:id": trace,
  "/evidence/:dataset": evidence,
  "/guards/:dataset": guards,
  "/executions": executions,
  "/executions/:id": execution,
  "/leaderboard": leaderboard,
  "/leaderboard/:id": leaderboard,
  "/health": health,
  "/api": api,
};

/** Adds the route of each page. */
export function addPages() {
  for (const [pattern, page] of Object.entries(PAGES)) addRoute(pattern, page);
}
