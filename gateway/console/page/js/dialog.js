/** Questions in the middle of the page. */

import { h } from "./dom.js";
import { t } from "./texts.js";

/**
 * Asks for confirmation and values. `fields` are `{name, label, kind, value, required, options, pattern}` with kind
 * `text`, `long`, `choice`, `check`, `date`, `number` or `file`. Returns the values by name, or null if the person cancels.
 */
export function askInDialog({ title, text, fields = [], confirm, danger = false }) {
  return new Promise((resolve) => {
    const inputs = new Map(fields.map((field) => [field.name, createInput(field)]));
    const back = h("button", { type: "button", onclick: () => dialog.close() }, t("dialog.back"));
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "dialog-title" }, title),
      text ? h("p", { class: "muted" }, text) : null,
      fields.map((field) => renderField(field, inputs.get(field.name))),
      h("div", { class: "actions" }, back, h("button", { class: danger ? "danger" : "primary" }, confirm)),
    );
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    let answer = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = Object.fromEntries([...inputs].map(([name, input]) => [name, readInput(input)]));
      dialog.close();
    });
    openDialog(dialog, () => resolve(answer));
  });
}

function readInput(input) {
  if (input.type === "checkbox") return input.checked;
  return input.type === "file" ? (input.files[0] ?? null) : input.value.trim();
}

function renderField({ kind, label }, input) {
  return kind === "check" ? h("label", { class: "check" }, input, label) : h("label", { class: "field" }, label, input);
}

/** Shows a dialog until it is closed, then removes it. */
export function openDialog(dialog, closed = () => {}) {
  dialog.addEventListener("close", () => (dialog.remove(), closed()));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

function createInput({ name, kind = "text", value = "", required = false, options = [], pattern = ".*", min }) {
  if (kind === "long") return h("textarea", { name, required, rows: 5, value });
  if (kind === "choice") {
    return h(
      "select",
      { name },
      options.map(([choice, text]) => h("option", { value: choice, selected: choice === value }, text)),
    );
  }
  if (kind === "check") return h("input", { name, type: "checkbox", checked: value === true });
  if (kind === "file") return h("input", { name, type: "file", required });
  if (kind === "date" || kind === "number") return h("input", { name, type: kind, required, value, step: "any", min });
  return h("input", { name, required, value, pattern, autocomplete: "off" });
}
