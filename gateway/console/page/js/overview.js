/** The parts of the overview: totals, charts and tables, each with its numbers as text. */

import { drawDayBars, drawLineChart, renderLegend } from "./chart.js";
import { h } from "./dom.js";
import { describeVerdict, formatPoints, isCompared } from "./effects.js";
import { formatCompact, formatCost, formatCount, formatPercent, formatPlural, formatSigned } from "./format.js";
import { renderHeader, renderVotes, renderWideTable } from "./parts.js";
import { formatLink } from "./router.js";
import { t } from "./texts.js";

const TOP = 5;
const ARMS = [
  ["with", t("overview.with_the_playbook"), "with_playbook"],
  ["without", t("common.without_it"), "without_playbook"],
];

const renderPanel = (title, ...children) =>
  h("section", { class: "card panel", "aria-label": title }, h("h2", null, title), children);

const renderTotal = (name, value, text) =>
  h(
    "div",
    { class: "total" },
    h("dt", null, name),
    h("dd", { class: "total-value" }, value),
    h("dd", { class: "muted" }, text),
  );

/** A share with its interval as a sentence; a dash if there is nothing to divide by. */
export function describeShare({ lower, upper, trajectories }) {
  if (!Number(trajectories)) return t("overview.no_trajectory_with_a_known");
  return t("overview.95_interval_to", {
    lower: formatPercent(lower),
    upper: formatPercent(upper),
    trajectories: formatPlural(trajectories, "trajectory"),
  });
}

const formatShare = ({ share, trajectories }) => (Number(trajectories) ? formatPercent(share) : "–");

/** The numbers of the dataset in one row. */
export function renderTotals(overview, lift, { dataset, retired_bullets: retired }) {
  const arms = [
    [t("overview.success_with_the_playbook"), "with_playbook"],
    [t("overview.success_without_it"), "without_playbook"],
  ].map(([name, field]) => {
    const rate = overview?.[field].success_rate;
    return rate ? renderTotal(name, formatShare(rate), describeShare(rate)) : null;
  });
  const counted = overview && sumGroups(overview, "trajectories");
  return h(
    "dl",
    { class: "totals" },
    overview ? renderTotal(t("common.trajectories"), formatCount(counted), t("overview.in_the_archive_of_the")) : null,
    arms,
    renderLift(lift),
    renderTotal(t("common.bullets"), formatCount(dataset.bullets - retired), t("overview.served_to_agents")),
  );
}

function renderLift(lift) {
  const effect = lift?.lift;
  if (!effect || !isCompared(effect))
    return renderTotal(t("overview.effect_of_the_playbook"), "–", t("overview.not_measured_no_trials_yet"));
  const { difference, lower, upper } = effect;
  const text = t("overview.95_interval_to_points_measured", { lower: formatPoints(lower), upper: formatPoints(upper) });
  return renderTotal(
    t("overview.effect_of_the_playbook"),
    t("common.points", { difference: formatPoints(difference) }),
    text,
  );
}

const sumGroups = (overview, field) =>
  Number(overview.with_playbook.counts[field]) + Number(overview.without_playbook.counts[field]);

/** Trajectories and their success by day. */
export function renderOutcomes(overview, lift) {
  const title = t("overview.trajectories_and_success_by_day");
  if (!overview) return renderPanel(title, h("p", { class: "muted" }, t("overview.the_evidence_service_cannot_be")));
  if (!overview.days.length)
    return renderPanel(title, h("p", { class: "muted" }, t("overview.no_trajectory_is_in_the")));
  const days = overview.days.map(({ date, with_playbook: served, without_playbook: others }) => ({
    at: Date.parse(date),
    parts: [
      { kind: "succeeded", value: Number(served.counts.succeeded) + Number(others.counts.succeeded) },
      { kind: "failed", value: Number(served.counts.failed) + Number(others.counts.failed) },
      { kind: "unknown", value: countUnknown(served.counts) + countUnknown(others.counts) },
    ],
  }));
  const series = ARMS.map(([kind, name, field]) => ({
    kind,
    name,
    points: overview.days
      .filter((day) => Number(day[field].success_rate.trajectories))
      .map((day) => {
        const { share, lower, upper } = day[field].success_rate;
        return { at: Date.parse(day.date), y: share, low: lower, high: upper };
      }),
  })).filter(({ points }) => points.length);
  const sentences = ARMS.map(
    ([, name, field]) =>
      `${name}: ${formatShare(overview[field].success_rate)} (${describeShare(overview[field].success_rate)}).`,
  );
  return renderPanel(
    title,
    drawDayBars({
      days,
      label: t("overview.trajectories_by_day", {
        overview: formatPlural(sumGroups(overview, "trajectories"), "trajectory"),
      }),
    }),
    renderLegend([
      ["succeeded", t("common.success")],
      ["failed", t("common.failure")],
      ["unknown", t("common.unknown")],
    ]),
    // One day is a point, which the sentences below describe.
    series.length && days.length > 1
      ? [
          drawLineChart({
            series,
            label: t("overview.success_rate_by_day", { value: sentences.join(" ") }),
            format: formatPercent,
            most: 1,
          }),
          renderLegend(series.map(({ kind, name }) => [kind, name])),
        ]
      : null,
    sentences.map((text) => h("p", { class: "muted" }, text)),
    h("p", { class: "muted" }, lift ? describeVerdict(lift) : t("overview.trajectories_with_and_without_bullets")),
  );
}

const countUnknown = ({ trajectories, succeeded, failed }) => Number(trajectories) - Number(succeeded) - Number(failed);

/** The number of bullets after each revision, newest revisions only. */
export function renderGrowth(revisions, link) {
  const points = revisions
    .toReversed()
    .map(({ revision, bullets_after: bullets }) => ({ at: Number(revision), y: Number(bullets) }));
  if (!points.length) return null;
  const first = { at: points[0].at - 1, y: Number(revisions.at(-1).bullets_before) };
  const last = points.at(-1);
  const change = formatSigned(last.y - first.y);
  const text = t("overview.now_in_the_last", {
    y: formatPlural(last.y, "bullet"),
    change,
    length: formatPlural(points.length, "revision"),
  });
  return renderPanel(
    t("overview.growth_of_the_playbook"),
    drawLineChart({
      series: [{ kind: "with", points: [first, ...points] }],
      label: t("overview.bullets_by_revision", { text }),
      format: formatCount,
      span: 1,
      formatAt: (revision) => t("common.revision_2", { revision }),
    }),
    h("p", { class: "muted" }, text, " ", link),
  );
}

/** The bullets that helped and harmed most: by measured effects where there are trials, and by votes. */
export function renderTopBullets(dataset, bullets, effects) {
  const measured = new Map(effects.map(({ bullet_id: id, effect }) => [id, effect]));
  const helpful = rankBullets(bullets, ({ helpful: votes }) => Number(votes));
  const harmful = rankBullets(bullets, ({ harmful: votes }) => Number(votes));
  const draw = (list) =>
    h(
      "ol",
      { class: "plain tops" },
      list.map((bullet) => renderTopBullet(dataset, bullet, measured.get(bullet.id))),
    );
  if (!helpful.length && !harmful.length)
    return renderPanel(
      t("overview.bullets_that_helped_and_harmed"),
      h("p", { class: "muted" }, t("overview.no_bullet_has_votes_yet")),
    );
  return renderPanel(
    t("overview.bullets_that_helped_and_harmed"),
    helpful.length ? [h("h3", null, t("overview.most_helpful_votes")), draw(helpful)] : null,
    harmful.length ? [h("h3", null, t("overview.most_harmful_votes")), draw(harmful)] : null,
  );
}

const rankBullets = (bullets, count) =>
  bullets
    .filter((bullet) => count(bullet) > 0)
    .toSorted((a, b) => count(b) - count(a))
    .slice(0, TOP);

function renderTopBullet(dataset, bullet, effect) {
  const isMeasured = effect && isCompared(effect);
  return h(
    "li",
    null,
    h("a", { class: "line", href: formatLink(["playbooks", dataset], { bullet: bullet.id }) }, bullet.content),
    isMeasured
      ? h("span", { class: "muted number" }, t("common.points", { difference: formatPoints(effect.difference) }))
      : null,
    renderVotes(bullet),
  );
}

/** Trajectories that repeat a known error, with the playbook and without it, and the estimate of prevented ones. */
export function renderErrors(overview) {
  const title = t("overview.repeated_and_prevented_errors");
  if (!overview || !sumGroups(overview, "trajectories"))
    return renderPanel(title, h("p", { class: "muted" }, t("overview.no_trajectory_is_in_the")));
  const rows = ARMS.map(([, name, field]) => {
    const { counts, repeated_error_rate: rate } = overview[field];
    const cells = [counts.trajectories, counts.with_errors, counts.with_repeated_errors].map(formatCount);
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, name),
      [...cells, formatShare(rate)].map((value) => h("td", { class: "number" }, value)),
    );
  });
  const names = [
    "",
    t("common.trajectories"),
    t("overview.with_an_error"),
    t("overview.repeat_a_known_error"),
    t("overview.share"),
  ];
  return renderPanel(
    title,
    renderTable(t("overview.errors_with_and_without_the"), names, rows),
    h("p", null, describePrevented(overview)),
    h("p", { class: "muted" }, t("overview.a_repeated_error_has_the")),
  );
}

/** The repeated errors that trajectories with bullets would have had at the rate of the others, less those they had. */
export function describePrevented({ with_playbook: served, without_playbook: others }) {
  const [ours, theirs] = [served.repeated_error_rate, others.repeated_error_rate];
  const number = Number(ours.trajectories);
  if (!number || !Number(theirs.trajectories)) return t("overview.prevented_errors_cannot_be_estimated");
  const difference = theirs.share - ours.share;
  const below = Math.hypot(theirs.share - theirs.lower, ours.upper - ours.share);
  const above = Math.hypot(theirs.upper - theirs.share, ours.share - ours.lower);
  const [value, low, high] = [difference, difference - below, difference + above].map((share) =>
    formatSigned(Math.round(share * number)),
  );
  return t("overview.prevented_with_the_playbook_estimated", { value, low, high });
}

/** The sums of tokens and cost with and without the playbook; a sum that no trajectory states is null. */
export function sumUsage({ with_playbook: served, without_playbook: others }) {
  const add = (field) => Number(served.usage[field]) + Number(others.usage[field]);
  const [withTokens, withCost] = [add("trajectories_with_tokens"), add("trajectories_with_cost")];
  return {
    trajectories: Number(served.counts.trajectories) + Number(others.counts.trajectories),
    withTokens,
    input: add("input_tokens"),
    cached: add("cached_input_tokens"),
    output: add("output_tokens"),
    tokens: withTokens ? add("input_tokens") + add("output_tokens") : null,
    withCost,
    cost: withCost ? Number(served.usage.cost_usd ?? 0) + Number(others.usage.cost_usd ?? 0) : null,
  };
}

/** Tokens by day, and the tokens and the cost of all days with the number of trajectories that state them. */
export function renderTokens(overview) {
  if (!overview?.days.length) return null;
  const title = t("overview.tokens_by_day");
  const usage = sumUsage(overview);
  const text = describeTokens(usage);
  const days = overview.days.map((day) => {
    const { input, cached, output } = sumUsage(day);
    return {
      at: Date.parse(day.date),
      parts: [
        { kind: "cached", value: cached },
        { kind: "input", value: input - cached },
        { kind: "generated", value: output },
      ],
    };
  });
  return renderPanel(
    title,
    usage.withTokens
      ? [
          drawDayBars({ days, label: t("overview.tokens_by_day_chart", { text }), format: formatCompact }),
          renderLegend([
            ["cached", t("overview.cached_input")],
            ["input", t("overview.new_input")],
            ["generated", t("overview.output")],
          ]),
        ]
      : null,
    h("p", { class: "muted" }, text),
    h("p", { class: "muted" }, describeCost(usage)),
  );
}

function describeTokens({ trajectories, withTokens, tokens, input, cached, output }) {
  if (!withTokens) return t("overview.no_trajectory_states_its_tokens");
  return t("overview.tokens_stated_by", {
    tokens: formatCount(tokens),
    input: formatCount(input),
    cached: formatCount(cached),
    output: formatCount(output),
    stated: formatCount(withTokens),
    all: formatCount(trajectories),
  });
}

function describeCost({ trajectories, withCost, cost }) {
  if (!withCost) return t("overview.no_trajectory_states_its_cost");
  return t("overview.cost_stated_by", {
    cost: formatCost(cost),
    stated: formatCount(withCost),
    all: formatCount(trajectories),
  });
}

/** Trajectories, success, tokens and cost of each agent. */
export function renderAgents(dataset, overview) {
  if (!overview?.agents.length) return null;
  const names = [
    t("common.agent"),
    t("common.trajectories"),
    t("overview.success_with_the_playbook"),
    t("overview.success_without_it"),
    t("common.steps"),
    t("common.tokens"),
    t("overview.tokens_known"),
    t("common.cost"),
    t("overview.cost_known"),
  ];
  const rows = overview.agents.map(({ agent, with_playbook: served, without_playbook: others }) => {
    const usage = sumUsage({ with_playbook: served, without_playbook: others });
    const sum = (field) => formatCount(Number(served.counts[field]) + Number(others.counts[field]));
    const cells = [
      sum("trajectories"),
      formatShare(served.success_rate),
      formatShare(others.success_rate),
      sum("steps"),
      usage.tokens === null ? "–" : formatCount(usage.tokens),
      formatPercent(usage.withTokens / usage.trajectories),
      usage.cost === null ? "–" : formatCost(usage.cost),
      formatPercent(usage.withCost / usage.trajectories),
    ];
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, h("a", { href: formatLink(["trajectories", dataset], { agent }) }, agent)),
      cells.map((value) => h("td", { class: "number" }, value)),
    );
  });
  return renderPanel(
    t("common.agents"),
    renderTable(t("overview.success_by_agent"), names, rows),
    h("p", { class: "muted" }, t("overview.tokens_and_cost_of_agents")),
  );
}

/** A table in which all columns but the first are numbers. */
export function renderTable(label, names, rows) {
  const [first, ...others] = names;
  const headings = [first ? renderHeader(first) : h("td"), ...others.map((name) => renderHeader(name, "number"))];
  return renderWideTable(label, headings, rows);
}
