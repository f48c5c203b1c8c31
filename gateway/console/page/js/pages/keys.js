/** API keys with their scopes, and the audit log. */

import { fetchAll } from "../api.js";
import { h } from "../dom.js";
import { askInDialog, openDialog } from "../dialog.js";
import { createKey, listAuditRecords, listKeys, readCaller, revokeKey } from "../endpoints.js";
import { formatEnum } from "../format.js";
import {
  renderChip,
  renderFacts,
  renderHead,
  renderHeader,
  renderState,
  renderTabList,
  renderTime,
  renderWideTable,
} from "../parts.js";
import { renderSnippet } from "../snippets.js";
import { loadPart, renderEmptyState, runChange } from "../states.js";
import { t } from "../texts.js";

const PAGE = 200;
const DAY_MS = 86_400_000;
const REFUSALS = new Set(["UNAUTHENTICATED", "PERMISSION_DENIED"]);
const SCOPES = {
  ACCESS_SCOPE_READ: t("keys.read_search_playbooks_answers"),
  ACCESS_SCOPE_LEARN: t("keys.learn_trajectories_votes_outcomes"),
  ACCESS_SCOPE_REVIEW: t("keys.review_decide_on_pending_changes"),
  ACCESS_SCOPE_ADMIN: t("keys.admin_keys_policies_deletions"),
};

export const formatTitle = () => t("keys.keys_and_audit_log");

export function openPage({ signal }) {
  const keys = h("div", null);
  const audit = h("div", null);
  const caller = h("div", null);
  const read = () =>
    loadPart(
      keys,
      signal,
      () => fetchAll((token) => listKeys({ page_size: PAGE, page_token: token }, signal), "keys"),
      (found) => renderKeys(found, read),
    );
  loadPart(caller, signal, () => readCaller(signal), renderPrincipal);
  read();
  loadPart(
    audit,
    signal,
    () => listAuditRecords({ page_size: PAGE }, signal),
    (page) => renderAudit(page, signal),
  );
  return [
    renderHead(t("keys.keys_and_audit_log")),
    h(
      "div",
      { class: "scroll" },
      caller,
      renderTabList(t("keys.keys_and_audit_log"), [
        [t("keys.api_keys"), [keys]],
        [t("keys.audit_log"), [audit]],
      ]),
    ),
  ];
}

function renderPrincipal({ name, tenant, scopes, expires_at: expires, credentials_required: isRequired }) {
  return h(
    "section",
    { class: "card", "aria-label": t("keys.you") },
    h("h2", null, t("keys.you")),
    renderFacts([
      [t("keys.name"), name],
      [t("keys.tenant"), tenant],
      [t("keys.scopes"), h("span", { class: "chips" }, scopes.map(renderScope))],
      [t("keys.signed_in_until"), renderTime(expires)],
    ]),
    isRequired ? null : h("p", { class: "muted" }, t("keys.this_gateway_requires_no_credentials")),
  );
}

const renderScope = (scope) => renderChip(formatEnum(scope, "ACCESS_SCOPE_"));

function renderKeys(keys, reload) {
  const add = h(
    "button",
    { type: "button", class: "primary", onclick: () => createNewKey(reload) },
    t("keys.create_a_key"),
  );
  if (!keys.length) return renderEmptyState(t("keys.no_api_keys"), t("keys.each_agent_and_each_person"), add);
  const rows = keys.map((key) => renderKeyRow(key, reload));
  return [
    h("div", { class: "actions" }, add),
    renderRows(
      t("keys.api_keys"),
      [t("keys.name"), t("keys.scopes"), t("common.state"), t("keys.last_used"), t("keys.created"), ""],
      rows,
    ),
  ];
}

function renderKeyRow(key, reload) {
  const isEnded = key.revoked_at || (key.expires_at && Date.parse(key.expires_at) < Date.now());
  const revoke = h(
    "button",
    { type: "button", class: "danger", onclick: () => revokeAfterConfirmation(key, reload) },
    t("keys.revoke_2_2"),
  );
  return h(
    "tr",
    null,
    h("th", { scope: "row" }, key.label, key.tenant ? h("span", { class: "muted" }, ` ${key.tenant}`) : null),
    h("td", null, h("span", { class: "chips" }, key.scopes.map(renderScope))),
    h("td", null, renderState(key.revoked_at ? "revoked" : isEnded ? "expired" : "active")),
    h("td", null, renderTime(key.last_used_at) ?? t("keys.never")),
    h("td", null, renderTime(key.created_at), h("span", { class: "muted" }, ` ${key.created_by}`)),
    h("td", null, isEnded ? null : revoke),
  );
}

/** Returns the first day on which a new key can end: a day begins at midnight in UTC. */
const formatTomorrow = () => new Date(Date.now() + DAY_MS).toISOString().slice(0, 10);

async function createNewKey(reload) {
  const scopes = Object.entries(SCOPES).map(([name, label]) => ({
    name,
    label,
    kind: "check",
    value: name === "ACCESS_SCOPE_READ" || name === "ACCESS_SCOPE_LEARN",
  }));
  const made = await askInDialog({
    title: t("keys.create_an_api_key"),
    text: t("keys.the_text_of_the_key"),
    fields: [
      {
        name: "label",
        label: t("keys.name_of_its_user_or"),
        required: true,
        pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}",
      },
      { name: "expires", label: t("keys.ends_on_optional"), kind: "date", min: formatTomorrow() },
      ...scopes,
    ],
    confirm: t("keys.create"),
    act: (answer) =>
      createKey({
        label: answer.label,
        scopes: Object.keys(SCOPES).filter((scope) => answer[scope]),
        ...(answer.expires ? { expires_at: new Date(answer.expires).toISOString() } : {}),
      }),
  });
  if (!made) return;
  showKeyText(made);
  await reload();
}

function showKeyText({ key, text }) {
  const close = h(
    "button",
    { type: "button", class: "primary", onclick: () => dialog.close() },
    t("keys.i_have_stored_it"),
  );
  const dialog = h(
    "dialog",
    { "aria-labelledby": "key-title" },
    h("h2", { id: "key-title" }, t("keys.key", { label: key.label })),
    h("p", null, t("keys.copy_the_text_now_it")),
    renderSnippet(t("keys.api_key"), text),
    h("div", { class: "actions" }, close),
  );
  // The text is shown only here, so only the button closes the dialog.
  openDialog(dialog, { mayClose: () => false });
}

async function revokeAfterConfirmation({ id, label }, reload) {
  const done = await askInDialog({
    title: t("keys.revoke", { label }),
    text: t("keys.calls_with_this_key_are"),
    confirm: t("keys.revoke_2"),
    danger: true,
    act: () => revokeKey(id),
    done: t("keys.is_revoked", { label }),
  });
  if (done) await reload();
}

function renderAudit(page, signal) {
  if (!page.audit_records.length)
    return renderEmptyState(t("keys.no_audit_records"), t("keys.calls_that_change_something_are"));
  const rows = h("tbody", null, page.audit_records.map(renderRecord));
  const names = [
    t("common.when"),
    t("keys.who"),
    t("keys.call"),
    t("keys.names"),
    t("common.status"),
    t("keys.correlation_id"),
  ];
  return [renderRows(t("keys.audit_log"), names, rows), renderMoreButton(rows, page.next_page_token, signal)];
}

function renderMoreButton(rows, token, signal) {
  if (!token) return null;
  const readNext = async () => {
    const page = await runChange(() => listAuditRecords({ page_size: PAGE, page_token: token }, signal));
    if (!page) return;
    rows.append(...page.audit_records.map(renderRecord));
    button.replaceWith(renderMoreButton(rows, page.next_page_token, signal) ?? "");
  };
  const button = h("button", { type: "button", onclick: readNext }, t("common.show_more"));
  return button;
}

const renderRecord = ({ ended_at: ended, principal, tenant, method, names, code, correlation_id: correlation }) =>
  h(
    "tr",
    null,
    h("td", null, renderTime(ended)),
    h("td", null, principal, tenant ? h("span", { class: "muted" }, ` ${tenant}`) : null),
    h("td", null, method.split("/").at(-1)),
    h("td", null, names.join(", ")),
    h(
      "td",
      null,
      renderState(code === "OK" ? "done" : REFUSALS.has(code) ? "refused" : "failed"),
      code === "OK" ? null : h("span", { class: "mono" }, ` ${code}`),
    ),
    h("td", { class: "mono muted" }, correlation),
  );

function renderRows(label, names, rows) {
  const hidden = () => h("span", { class: "hidden-label" }, t("keys.actions"));
  return renderWideTable(
    label,
    names.map((name) => renderHeader(name || hidden())),
    rows,
  );
}
