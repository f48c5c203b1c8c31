/** Questions in the middle of the page. */

import { fillElement, h } from "./dom.js";
import { runChange, showToast } from "./states.js";
import { t } from "./texts.js";

/**
 * Asks for confirmation and values, and runs a change with them. `fields` are `{name, label, kind, value, required,
 * options, pattern, min, max, step}` with kind `text`, `long`, `choice`, `check`, `date`, `number` or `file`; without a
 * step a number is whole. `act(values)` gets the values by name. The dialog is open until `act` has succeeded: an error
 * is shown in it, and it keeps all values. With changed values that are not sent, only its button closes it.
 * Returns the response of `act`, after `done` is shown as in `runChange`; null if the person cancels.
 */
export function askInDialog({ title, text, fields = [], confirm, danger = false, act, done }) {
  return new Promise((resolve) => {
    const inputs = new Map(fields.map((field) => [field.name, createInput(field)]));
    const back = h("button", { type: "button", onclick: () => dialog.close() }, t("dialog.back"));
    const submit = h("button", { class: danger ? "danger" : "primary" }, confirm);
    const fault = h("p", { class: "bad text", role: "alert" });
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "dialog-title" }, title),
      text ? h("p", { class: "muted" }, text) : null,
      fields.map((field) => renderField(field, inputs.get(field.name))),
      fault,
      h("div", { class: "actions" }, back, submit),
    );
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    const showError = (message) => (dialog.open ? fillElement(fault, message) : showToast(message, "bad"));
    const readValues = () => Object.fromEntries([...inputs].map(([name, input]) => [name, readInput(input)]));
    const before = readValues();
    const mayClose = () => {
      if (submit.disabled || fields.every(({ name }) => before[name] === readInput(inputs.get(name)))) return true;
      showError(t("dialog.back_discards_your_changes"));
      return false;
    };
    const save = async () => {
      const response = await runChange(() => act(readValues()), done, showError);
      submit.disabled = false;
      if (response) dialog.close();
      return response;
    };
    /** The response of the last attempt; a person may close the dialog before it arrives. */
    let answer = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      submit.disabled = true;
      fillElement(fault);
      answer = save();
    });
    openDialog(dialog, { closed: () => resolve(answer), mayClose });
  });
}

function readInput(input) {
  if (input.type === "checkbox") return input.checked;
  return input.type === "file" ? (input.files[0] ?? null) : input.value.trim();
}

function renderField({ kind, label }, input) {
  return kind === "check" ? h("label", { class: "check" }, input, label) : h("label", { class: "field" }, label, input);
}

/** Shows a dialog until it is closed, then removes it. Escape and a press beside it close it if `mayClose()`. */
export function openDialog(dialog, { closed = () => {}, mayClose = () => true } = {}) {
  dialog.addEventListener("close", () => (dialog.remove(), closed()));
  const refuse = (event) => mayClose() || event.preventDefault();
  dialog.addEventListener("keydown", (event) => event.key === "Escape" && !event.isComposing && refuse(event));
  // A file input in the dialog has a `cancel` event, too.
  dialog.addEventListener("cancel", (event) => event.target === dialog && refuse(event));
  // The click of a drag out of the dialog, such as the selection of a text, belongs to the dialog, too.
  let isPressedBeside = false;
  dialog.addEventListener("pointerdown", (event) => (isPressedBeside = isBeside(dialog, event)));
  dialog.addEventListener("click", (event) => {
    if (isPressedBeside && isBeside(dialog, event) && mayClose()) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
}

/** Returns whether an event of the pointer is beside the dialog, on its backdrop. */
function isBeside(dialog, { target, clientX: x, clientY: y }) {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  return target === dialog && (x < left || x > right || y < top || y > bottom);
}

function createInput({ name, kind = "text", value = "", required = false, options = [], pattern = ".*", ...limits }) {
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
  if (kind === "date" || kind === "number") return h("input", { name, type: kind, required, value, ...limits });
  return h("input", { name, required, value, pattern, autocomplete: "off" });
}
