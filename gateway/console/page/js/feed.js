/** The live revisions of a playbook. */

import { renderChanges } from "./changes.js";
import { fillElement, h } from "./dom.js";
import { readDataset, watchPlaybook } from "./endpoints.js";
import { formatEnum } from "./format.js";
import { renderChip, renderState, renderTime } from "./parts.js";
import { formatLink } from "./router.js";
import { renderFailure, logUnexpectedError } from "./states.js";
import { t } from "./texts.js";

const MAX_SHOWN = 50;

/** The revisions of the playbook as they are committed, newest first. */
export class Feed {
  constructor(dataset, signal) {
    Object.assign(this, { dataset, signal });
    this.live = h("span", null);
    this.list = h("div", null, h("p", { class: "muted" }, t("feed.revisions_appear_here_when_they")));
    this.element = [h("div", { class: "detail-head" }, h("h2", null, t("feed.live")), this.live), this.list];
  }

  async follow() {
    const onState = (name) => fillElement(this.live, renderState(name));
    this.list.querySelector(".state-failed")?.remove();
    try {
      // The first trajectory creates the dataset.
      const { dataset } = await readDataset(this.dataset, { allow_missing: true }, this.signal);
      await watchPlaybook(this.dataset, dataset.revision ?? 0, {
        signal: this.signal,
        onState,
        take: (event) => this.addRevision(event),
      });
    } catch (error) {
      if (this.signal.aborted) return;
      logUnexpectedError(error);
      this.list.prepend(renderFailure(error, () => this.follow()));
    }
  }

  addRevision({ revision }) {
    if (!revision) return;
    if (!this.list.querySelector(".arrived")) fillElement(this.list);
    this.list.prepend(this.renderRevision(revision));
    while (this.list.children.length > MAX_SHOWN) this.list.lastChild.remove();
  }

  renderRevision(revision) {
    const name = h(
      "a",
      { href: formatLink(["playbooks", this.dataset, "history"], { revision: revision.revision }) },
      t("common.revision_2", { revision: revision.revision }),
    );
    return h(
      "article",
      { class: "arrived" },
      h(
        "div",
        { class: "card-head" },
        name,
        renderChip(formatEnum(revision.kind, "REVISION_KIND_")),
        h("span", { class: "muted" }, revision.author, " · ", renderTime(revision.committed_at)),
      ),
      renderChanges(this.dataset, revision.changes),
    );
  }
}
