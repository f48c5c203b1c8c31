/** Search in a playbook, with the parts of each score. */

import { renderDatasetChoice, renderDatasetTabs, lastDataset } from "../datasets.js";
import { fillElement, h } from "../dom.js";
import { searchBullets } from "../endpoints.js";
import { formatPlural, formatScore } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderBar, renderChip, renderConfidence, renderHead, renderVotes } from "../parts.js";
import { formatLink, noteQuery } from "../router.js";
import { renderEmptyState, renderFailure, renderLoading, logUnexpectedError } from "../states.js";
import { t } from "../texts.js";

const TYPING_MS = 200;
const DEFAULTS = { k: "10", alpha: "0.5", confidence: "0.3" };

export const formatTitle = ({ dataset }) => t("search.search", { dataset });

export function openPage({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const view = new Search(dataset, query, signal);
  view.scheduleSearch(0);
  return [
    renderHead(
      dataset,
      [view.aside, renderDatasetChoice("search", dataset, signal)],
      renderDatasetTabs(dataset, t("common.search")),
    ),
    view.toolbar,
    view.results,
  ];
}

class Search {
  constructor(dataset, query, signal) {
    Object.assign(this, { dataset, signal });
    signal.addEventListener("abort", () => clearTimeout(this.timer), { once: true });
    this.aside = h("span", { role: "status" });
    this.results = h("div", { class: "scroll" });
    const changed = () => this.scheduleSearch(TYPING_MS);
    this.text = h("input", {
      type: "search",
      class: "grow",
      value: query.q ?? "",
      placeholder: t("search.search_query"),
      "aria-label": t("common.query"),
      oninput: changed,
    });
    this.k = h("input", { type: "number", min: "1", max: "1000", value: query.k ?? DEFAULTS.k, oninput: changed });
    this.alpha = h("input", {
      type: "range",
      min: "0",
      max: "1",
      step: "0.05",
      value: query.alpha ?? DEFAULTS.alpha,
      "aria-label": t("search.weight_of_vectors"),
      oninput: changed,
    });
    this.alphaText = h("output", { class: "number" });
    this.confidence = h("input", {
      type: "number",
      min: "0",
      max: "1",
      step: "0.01",
      value: query.confidence ?? DEFAULTS.confidence,
      oninput: changed,
    });
    this.section = h("input", {
      value: query.section ?? "",
      placeholder: t("search.all"),
      oninput: changed,
      class: "short",
    });
    this.toolbar = this.renderForm();
    bindKeys(
      [
        { keys: "/", what: t("search.type_a_query"), run: () => this.text.focus() },
        { keys: "j", what: t("search.next_result"), run: () => this.move(1) },
        { keys: "k", what: t("search.previous_result"), run: () => this.move(-1) },
      ],
      signal,
    );
  }

  renderForm() {
    const weights = h("label", null, "BM25", this.alpha, t("search.vectors"), this.alphaText);
    const parts = [
      this.text,
      weights,
      h("label", null, t("search.results"), this.k),
      h("label", null, t("search.minimum_confidence"), this.confidence),
      h("label", null, t("common.section"), this.section),
    ];
    const form = h("form", { class: "toolbar", role: "search" }, parts);
    form.addEventListener("submit", (event) => (event.preventDefault(), this.scheduleSearch(0)));
    return form;
  }

  scheduleSearch(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), ms);
  }

  async run() {
    this.alphaText.value = formatScore(this.alpha.value);
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    this.signal.addEventListener("abort", () => asking.abort(), { once: true });
    const { text, k, alpha, confidence, section } = this;
    noteQuery({
      q: text.value,
      k: listChanged(k, "k"),
      alpha: listChanged(alpha, "alpha"),
      confidence: listChanged(confidence, "confidence"),
      section: section.value,
    });
    if (!text.value.trim()) return this.renderIdle();
    const invalid = this.toolbar.querySelector("input:invalid");
    if (invalid) return this.renderInvalid(invalid);
    if (!this.results.querySelector(".result")) fillElement(this.results, renderLoading());
    try {
      const answer = await searchBullets(this.createRequest(), asking.signal);
      this.draw(answer);
    } catch (error) {
      if (asking.signal.aborted) return;
      logUnexpectedError(error);
      fillElement(
        this.results,
        renderFailure(error, () => this.run()),
      );
    }
  }

  createRequest() {
    const sections = this.section.value.trim() ? [this.section.value.trim()] : [];
    const query = {
      query_text: this.text.value,
      top_k: Number(this.k.value || 10),
      alpha: Number(this.alpha.value),
      ...(listChanged(this.confidence, "confidence") && { min_confidence: Number(this.confidence.value) }),
      section_filter: sections,
      explain: true,
    };
    return { dataset: this.dataset, query };
  }

  renderIdle() {
    this.aside.textContent = "";
    fillElement(
      this.results,
      renderEmptyState(t("search.search_the_lessons"), t("search.every_result_shows_its_scores")),
    );
  }

  renderInvalid({ labels: [label], validationMessage }) {
    this.aside.textContent = "";
    const problem = `${label.textContent}: ${validationMessage}`;
    fillElement(this.results, renderEmptyState(t("search.correct_the_field"), problem));
  }

  draw({ results, revision, embedding_model: model, approximate, nothing_matched: isMiss, similarity_limit: limit }) {
    const how = `${model}${approximate ? t("search.preselected") : ""}`;
    this.aside.textContent = t("search.revision", { length: formatPlural(results.length, "result"), revision, how });
    if (!results.length)
      return fillElement(
        this.results,
        renderEmptyState(t("search.nothing_found"), t("search.no_bullet_passes_these_filters")),
      );
    const highest = Math.max(...results.map((result) => result.raw_cosine)).toFixed(2);
    const similarity =
      limit < 1
        ? t("search.and_the_highest_similarity_is", { highest, limit: limit.toFixed(2) })
        : t("search.whose_script_the_embedding_model");
    fillElement(this.results, [
      isMiss ? h("p", { role: "status" }, t("search.nothing_matches_no_bullet_has", { similarity })) : null,
      h(
        "ol",
        { class: "results" },
        results.map((result, i) => this.renderResult(result, i + 1)),
      ),
    ]);
  }

  renderResult(result, rank) {
    const { bullet } = result;
    return h(
      "li",
      { class: "card result", tabindex: "-1" },
      h(
        "div",
        { class: "card-head" },
        h("span", { class: "muted number" }, rank),
        renderChip(bullet.section),
        h("span", { class: "mono muted" }, bullet.id),
        h("span", { class: "end" }, renderVotes(bullet), " ", renderConfidence(bullet.confidence_score)),
      ),
      h(
        "p",
        { class: "text" },
        h("a", { href: formatLink(["playbooks", this.dataset], { bullet: bullet.id }) }, bullet.content),
      ),
      renderBreakdown(result, Number(this.alpha.value)),
    );
  }

  move(by) {
    const all = [...this.results.querySelectorAll(".result")];
    const at = all.indexOf(document.activeElement) + by;
    all[Math.min(Math.max(at, 0), all.length - 1)]?.focus();
  }
}

const listChanged = (input, name) => (input.value === DEFAULTS[name] ? "" : input.value);

/** Shows the parts of the combined score and the words that matched. */
function renderBreakdown(result, alpha) {
  const {
    vector_score: vector,
    bm25_score: bm25,
    combined_score: combined,
    raw_cosine: cosine,
    raw_bm25: raw,
    terms,
  } = result;
  const part = (name, value, explanation, kind) =>
    h(
      "div",
      null,
      h("dt", null, name),
      h("dd", null, renderBar(value, kind)),
      h("dd", { class: "muted" }, explanation),
    );
  const matched = terms
    .toSorted((a, b) => b.score - a.score)
    .map(({ term, score: share }) =>
      h(
        "span",
        { class: "chip", title: t("search.adds_to_bm25", { share: formatScore(share) }) },
        term,
        h("b", null, formatScore(share)),
      ),
    );
  return [
    h(
      "dl",
      { class: "breakdown" },
      part(
        t("search.combined"),
        combined,
        `${formatScore(alpha)} · ${formatScore(vector)} + ${formatScore(1 - alpha)} · ${formatScore(bm25)}`,
        "combined",
      ),
      part(
        t("search.vector"),
        vector,
        t("search.similarity_cosine_scaled_over_the", { cosine: Number(cosine).toFixed(3) }),
      ),
      part("BM25", bm25, t("search.raw_scaled_over_the_candidates", { raw: formatScore(raw) })),
    ),
    h(
      "p",
      { class: "terms" },
      h("span", { class: "muted" }, t("search.matched")),
      matched.length ? matched : h("span", { class: "muted" }, t("search.no_word_of_the_query")),
    ),
  ];
}
