/** API keys with their scopes, and the audit log. */

import { h } from "../dom.js";
import { askPerson, openDialog } from "../dialog.js";
import { createKey, listAuditRecords, listKeys, readCaller, revokeKey } from "../endpoints.js";
import { formatEnum } from "../format.js";
import { renderChip, renderFacts, renderHead, renderState, renderTabList, renderTime } from "../parts.js";
import { renderSnippet } from "../snippets.js";
import { loadPart, renderEmptyState, runChange } from "../states.js";

const PAGE = 200;
const SCOPES = {
  ACCESS_SCOPE_READ: "Read: search, playbooks, answers",
  ACCESS_SCOPE_LEARN: "Learn: trajectories, votes, outcomes",
  ACCESS_SCOPE_REVIEW: "Review: decide on pending changes",
  ACCESS_SCOPE_ADMIN: "Admin: keys, policies, deletions",
};

export const formatTitle = () => "Keys and audit log";

export function openPage({ signal }) {
  const keys = h("div", null);
  const audit = h("div", null);
  const caller = h("div", null);
  const read = () =>
    loadPart(
      keys,
      signal,
      () => listKeys({ page_size: PAGE }, signal),
      (page) => renderKeys(page, read),
    );
  loadPart(caller, signal, () => readCaller(signal), renderCaller);
  read();
  loadPart(
    audit,
    signal,
    () => listAuditRecords({ page_size: PAGE }, signal),
    (page) => renderAudit(page, signal),
  );
  return [
    renderHead("Keys and audit log"),
    h(
      "div",
      { class: "scroll" },
      caller,
      renderTabList("Keys and audit log", [
        ["API keys", [keys]],
        ["Audit log", [audit]],
      ]),
    ),
  ];
}

function renderCaller({ name, tenant, scopes, expires_at: expires, credentials_required: isRequired }) {
  return h(
    "section",
    { class: "card", "aria-label": "You" },
    h("h2", null, "You"),
    renderFacts([
      ["Name", name],
      ["Tenant", tenant],
      ["Scopes", h("span", { class: "chips" }, scopes.map(renderScope))],
      ["Signed in until", renderTime(expires)],
    ]),
    isRequired
      ? null
      : h(
          "p",
          { class: "muted" },
          "This gateway requires no credentials: anyone who reaches it can read and change everything.",
        ),
  );
}

const renderScope = (scope) => renderChip(formatEnum(scope, "ACCESS_SCOPE_"));

function renderKeys({ keys }, reload) {
  const add = h("button", { type: "button", class: "primary", onclick: () => createNewKey(reload) }, "Create a key…");
  if (!keys.length)
    return renderEmptyState("No API keys", "Each agent and each person should have a key of its own.", add);
  const rows = keys.map((key) => renderKeyRow(key, reload));
  return [
    h("div", { class: "actions" }, add),
    renderRows("API keys", ["Name", "Scopes", "State", "Last used", "Created", ""], rows),
  ];
}

function renderKeyRow(key, reload) {
  const isEnded = key.revoked_at || (key.expires_at && Date.parse(key.expires_at) < Date.now());
  const revoke = h(
    "button",
    { type: "button", class: "danger", onclick: () => revokeAfterConfirmation(key, reload) },
    "Revoke…",
  );
  return h(
    "tr",
    null,
    h("th", { scope: "row" }, key.label, key.tenant ? h("span", { class: "muted" }, ` ${key.tenant}`) : null),
    h("td", null, h("span", { class: "chips" }, key.scopes.map(renderScope))),
    h("td", null, renderState(key.revoked_at ? "revoked" : isEnded ? "expired" : "active")),
    h("td", null, renderTime(key.last_used_at) ?? "never"),
    h("td", null, renderTime(key.created_at), h("span", { class: "muted" }, ` ${key.created_by}`)),
    h("td", null, isEnded ? null : revoke),
  );
}

async function createNewKey(reload) {
  const scopes = Object.entries(SCOPES).map(([name, label]) => ({
    name,
    label,
    kind: "check",
    value: name === "ACCESS_SCOPE_READ" || name === "ACCESS_SCOPE_LEARN",
  }));
  const answer = await askPerson({
    title: "Create an API key",
    text: "The text of the key is shown once.",
    fields: [
      {
        name: "label",
        label: "Name of its user or deployment",
        required: true,
        pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]{0,63}",
      },
      { name: "expires", label: "Ends on (optional)", kind: "date" },
      ...scopes,
    ],
    confirm: "Create",
  });
  if (!answer) return;
  const made = await runChange(() =>
    createKey({
      label: answer.label,
      scopes: Object.keys(SCOPES).filter((scope) => answer[scope]),
      ...(answer.expires ? { expires_at: new Date(answer.expires).toISOString() } : {}),
    }),
  );
  if (!made) return;
  showKeyText(made);
  await reload();
}

function showKeyText({ key, text }) {
  const close = h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "I have stored it");
  const dialog = h(
    "dialog",
    { "aria-labelledby": "key-title" },
    h("h2", { id: "key-title" }, `Key ${key.label}`),
    h("p", null, "Copy the text now: it is not shown again."),
    renderSnippet("API key", text),
    h("div", { class: "actions" }, close),
  );
  openDialog(dialog);
}

async function revokeAfterConfirmation({ id, label }, reload) {
  const answer = await askPerson({
    title: `Revoke ${label}?`,
    text: "Calls with this key are refused within seconds. This cannot be undone.",
    confirm: "Revoke",
    danger: true,
  });
  if (answer && (await runChange(() => revokeKey(id), `${label} is revoked.`))) await reload();
}

function renderAudit(page, signal) {
  if (!page.audit_records.length)
    return renderEmptyState(
      "No audit records",
      "Calls that change something are recorded here when the gateway requires credentials.",
    );
  const rows = h("tbody", null, page.audit_records.map(renderRecord));
  const names = ["When", "Who", "Call", "Names", "Status", "Correlation id"];
  return [renderRows("Audit log", names, rows), renderMoreButton(rows, page.next_page_token, signal)];
}

function renderMoreButton(rows, token, signal) {
  if (!token) return null;
  const readNext = async () => {
    const page = await runChange(() => listAuditRecords({ page_size: PAGE, page_token: token }, signal));
    if (!page) return;
    rows.append(...page.audit_records.map(renderRecord));
    button.replaceWith(renderMoreButton(rows, page.next_page_token, signal) ?? "");
  };
  const button = h("button", { type: "button", onclick: readNext }, "Show more");
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
      renderState(code === "OK" ? "done" : "refused"),
      code === "OK" ? null : h("span", { class: "mono" }, ` ${code}`),
    ),
    h("td", { class: "mono muted" }, correlation),
  );

function renderRows(label, names, rows) {
  const heads = names.map((name) => h("th", { scope: "col" }, name || h("span", { class: "hidden-label" }, "Actions")));
  return h(
    "div",
    { class: "wide", role: "region", "aria-label": label, tabindex: "0" },
    h(
      "table",
      { class: "table" },
      h("thead", null, h("tr", null, heads)),
      rows instanceof Node ? rows : h("tbody", null, rows),
    ),
  );
}
