/** The states of a part of a page without content: loading, empty, failed. */

import { Refusal } from "./api.js";
import { fillElement, h } from "./dom.js";
import { t } from "./texts.js";

/** Placeholder lines; screen readers read them as "Loading". */
export function renderLoading(lines = 6) {
  const bars = Array.from({ length: lines }, (_, i) =>
    h("div", { class: "bone", style: { width: `${92 - ((i * 17) % 45)}%` } }),
  );
  return h("div", { class: "state-loading", role: "status", "aria-label": t("states.loading") }, bars);
}

/** Shows that the part is empty, with the reason and the next actions. */
export function renderEmptyState(title, text, ...actions) {
  const row = actions.length ? h("div", { class: "actions" }, actions) : null;
  return h("div", { class: "state" }, h("p", { class: "state-title" }, title), text ? h("p", null, text) : null, row);
}

/** Shows an error, with a button that tries again. */
export function renderFailure(error, retry) {
  const reason = error.reason ? h("p", { class: "mono muted" }, error.reason) : null;
  const again = retry
    ? h("div", { class: "actions" }, h("button", { type: "button", onclick: retry }, t("states.try_again")))
    : null;
  return h(
    "div",
    { class: "state state-failed", role: "alert" },
    h("p", { class: "state-title" }, t("states.the_request_failed")),
    h("p", null, error.message),
    reason,
    again,
  );
}

/**
 * Fills `container` with the result of `ask()`, drawn by `draw`; shows loading before, and the error if it fails.
 * Nothing is shown any more once `signal` is aborted.
 */
export async function loadPart(container, signal, ask, draw) {
  fillElement(container, renderLoading());
  container.setAttribute("aria-busy", "true");
  try {
    const answer = await ask();
    if (!signal.aborted) fillElement(container, await draw(answer));
  } catch (error) {
    if (signal.aborted) return;
    logUnexpectedError(error);
    const again = () => loadPart(container, signal, ask, draw);
    const isMissing = error.reason === "DATASET_NOT_FOUND";
    fillElement(
      container,
      isMissing ? renderEmptyState(t("states.no_such_dataset"), error.message) : renderFailure(error, again),
    );
  } finally {
    container.removeAttribute("aria-busy");
  }
}

/** Logs an error of the page's code; a refusal is shown to the user. */
export function logUnexpectedError(error) {
  if (!(error instanceof Refusal)) console.error(error);
}

/** Shows a message, a text or nodes, at the edge of the page for some seconds; screen readers read it. */
export function showToast(content, kind = "") {
  const line = h("div", { class: `toast ${kind}` }, content);
  document.getElementById("toasts").append(line);
  const isLong = kind === "bad" || typeof content !== "string";
  setTimeout(() => line.remove(), isLong ? 9000 : 4000);
}

/** Runs a change, shows its outcome or its error, and returns its response, or null if it failed. */
export async function runChange(act, done, showError = (message) => showToast(message, "bad")) {
  try {
    const answer = await act();
    if (done) showToast(typeof done === "function" ? done(answer) : done);
    return answer;
  } catch (error) {
    logUnexpectedError(error);
    showError(error.message);
    return null;
  }
}
