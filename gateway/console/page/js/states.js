/** The states of a part of a page without content: loading, empty, failed. */

import { ApiError } from "./api.js";
import { fill, h } from "./dom.js";

/** Placeholder lines; screen readers read them as "Loading". */
export function loading(lines = 6) {
  const bars = Array.from({ length: lines }, (_, i) =>
    h("div", { class: "bone", style: { width: `${92 - ((i * 17) % 45)}%` } }),
  );
  return h("div", { class: "state-loading", role: "status", "aria-label": "Loading" }, bars);
}

/** Shows that the part is empty, with the reason and the next actions. */
export function showEmpty(title, text, ...actions) {
  const row = actions.length ? h("div", { class: "actions" }, actions) : null;
  return h("div", { class: "state" }, h("p", { class: "state-title" }, title), text ? h("p", null, text) : null, row);
}

/** Shows an error, with a button that tries again. */
export function showFailure(error, retry) {
  const reason = error.reason ? h("p", { class: "mono muted" }, error.reason) : null;
  const again = retry
    ? h("div", { class: "actions" }, h("button", { type: "button", onclick: retry }, "Try again"))
    : null;
  return h(
    "div",
    { class: "state state-failed", role: "alert" },
    h("p", { class: "state-title" }, "The request failed"),
    h("p", null, error.message),
    reason,
    again,
  );
}

/**
 * Fills `container` with the result of `ask()`, drawn by `draw`; shows loading before, and the error if it fails.
 * Nothing is shown any more once `signal` is aborted.
 */
export async function load(container, signal, ask, draw) {
  fill(container, loading());
  container.setAttribute("aria-busy", "true");
  try {
    const answer = await ask();
    if (!signal.aborted) fill(container, await draw(answer));
  } catch (error) {
    if (signal.aborted) return;
    report(error);
    const again = () => load(container, signal, ask, draw);
    const isMissing = error.reason === "DATASET_NOT_FOUND";
    fill(container, isMissing ? showEmpty("No such dataset", error.message) : showFailure(error, again));
  } finally {
    container.removeAttribute("aria-busy");
  }
}

/** Logs an error of the page's code; errors of the gateway are shown to the user. */
export function report(error) {
  if (!(error instanceof ApiError)) console.error(error);
}

/** Shows a message at the edge of the page for some seconds; screen readers read it. */
export function toast(text, kind = "") {
  const line = h("div", { class: `toast ${kind}` }, text);
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), kind === "bad" ? 9000 : 4000);
}

/** Runs a change, shows its outcome, and returns its response, or null if it failed. */
export async function change(act, done) {
  try {
    const answer = await act();
    if (done) toast(typeof done === "function" ? done(answer) : done);
    return answer;
  } catch (error) {
    report(error);
    toast(error.message, "bad");
    return null;
  }
}
