/** The keys that work here, on `?`. */

import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { listBindings } from "./keys.js";
import { renderKey } from "./parts.js";
import { t } from "./texts.js";

export function showHelp() {
  const rows = listBindings().map(({ keys, what }) =>
    h("div", null, h("dt", null, keys.split(/[ ,]+/).map(renderKey)), h("dd", null, what)),
  );
  const close = h("button", { type: "button", onclick: () => dialog.close() }, t("common.close"));
  const dialog = h(
    "dialog",
    { "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, t("common.keyboard")),
    h("dl", { class: "keys" }, rows),
    h("div", { class: "actions" }, close),
  );
  openDialog(dialog);
}
