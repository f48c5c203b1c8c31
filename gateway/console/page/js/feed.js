/** The live revisions of a playbook. */

import { changes } from "./changes.js";
import { fill, h } from "./dom.js";
import { summary, watchPlaybook } from "./endpoints.js";
import { word } from "./format.js";
import { chip, state, when } from "./parts.js";
import { link } from "./router.js";
import { showFailure } from "./states.js";

const MAX_SHOWN = 50;

/** The revisions of the playbook as they are committed, newest first. */
export class Feed {
  constructor(dataset, signal) {
    Object.assign(this, { dataset, signal });
    this.live = h("span", null);
    this.list = h(
      "div",
      null,
      h("p", { class: "muted" }, "Revisions appear here when they are committed."),
    );
    this.element = [h("div", { class: "detail-head" }, h("h2", null, "Live"), this.live), this.list];
  }

  async follow() {
    const onState = (name) => fill(this.live, state(name));
    try {
      // The first trajectory creates the dataset.
      const { dataset } = await summary(this.dataset, { allow_missing: true }, this.signal);
      await watchPlaybook(this.dataset, dataset.revision ?? 0, {
        signal: this.signal,
        onState,
        take: (event) => this.addRevision(event),
      });
    } catch (error) {
      if (!this.signal.aborted)
        fill(
          this.list,
          showFailure(error, () => this.follow()),
        );
    }
  }

  addRevision({ revision }) {
    if (!revision) return;
    if (!this.list.querySelector(".arrived")) fill(this.list);
    this.list.prepend(this.renderRevision(revision));
    while (this.list.children.length > MAX_SHOWN) this.list.lastChild.remove();
  }

  renderRevision(revision) {
    const name = h(
      "a",
      { href: link(["playbooks", this.dataset, "history"], { revision: revision.revision }) },
      `revision ${revision.revision}`,
    );
    return h(
      "article",
      { class: "arrived" },
      h(
        "div",
        { class: "card-head" },
        name,
        chip(word(revision.kind, "REVISION_KIND_")),
        h("span", { class: "muted" }, revision.author, " · ", when(revision.committed_at)),
      ),
      changes(this.dataset, revision.changes),
    );
  }
}
