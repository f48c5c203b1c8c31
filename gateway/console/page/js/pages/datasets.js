/** All playbooks. */

import { h } from "../dom.js";
import { datasets } from "../endpoints.js";
import { plural } from "../format.js";
import { bind } from "../keys.js";
import { head, when } from "../parts.js";
import { go, link } from "../router.js";
import { showEmpty, load } from "../states.js";
import { VirtualList } from "../virtual.js";

export const title = () => "Playbooks";

export function open({ signal }) {
  const count = h("span");
  const body = h("div", { class: "split alone" });
  load(
    body,
    signal,
    () => datasets(signal),
    ({ datasets: all }) => {
      count.textContent = plural(all.length, "dataset");
      return all.length ? renderList(all, signal) : renderEmpty();
    },
  );
  return [head("Playbooks", count), body];
}

function renderEmpty() {
  const learn = h("a", { class: "button primary", href: link(["learn", "default"]) }, "Learn from a first trajectory");
  return showEmpty("No playbook yet", "Learning from a first trajectory creates a playbook.", learn);
}

function renderList(all, signal) {
  const list = new VirtualList({ label: "Datasets", row, onOpen: ({ name }) => go(["playbooks", name]) });
  list.show(all);
  bind(
    [
      { keys: "j", what: "next dataset", run: () => list.move(1) },
      { keys: "k", what: "previous dataset", run: () => list.move(-1) },
      { keys: "Enter, o", what: "open it", run: () => list.open() },
    ],
    signal,
  );
  return h("div", null, list.element);
}

const row = ({ name, bullets, revision, updated_at: updated }) => [
  h("span", { class: "line strong" }, name),
  h("span", { class: "row-count" }, plural(bullets, "bullet")),
  h("span", { class: "row-count wide-only" }, `revision ${revision}`),
  h("span", { class: "muted when" }, when(updated)),
];
