/** The parts of the overview: totals, charts and tables, each with its numbers as text. */

import { drawDayBars, drawTimeChart, renderLegend } from "./chart.js";
import { h } from "./dom.js";
import { formatPoints, isCompared } from "./effects.js";
import { formatCount, formatPercent, formatPlural, formatSigned } from "./format.js";
import { renderVotes } from "./parts.js";
import { formatLink } from "./router.js";

const TOP = 5;
const ARMS = [
  ["with", "With the playbook", "with_playbook"],
  ["without", "Without it", "without_playbook"],
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
  if (!Number(trajectories)) return "no trajectory with a known outcome";
  return `${formatPercent(lower)} to ${formatPercent(upper)}, of ${formatPlural(trajectories, "trajectory")}`;
}

const formatShare = ({ share, trajectories }) => (Number(trajectories) ? formatPercent(share) : "–");

/** The numbers of the dataset in one row. */
export function renderTotals(overview, lift, bullets) {
  const active = bullets.filter(({ state }) => state !== "BULLET_STATE_RETIRED").length;
  const arms = ARMS.map(([, name, field]) => {
    const rate = overview?.[field].success_rate;
    return rate ? renderTotal(`Success ${name.toLowerCase()}`, formatShare(rate), describeShare(rate)) : null;
  });
  const counted = overview && sumGroups(overview, "trajectories");
  return h(
    "dl",
    { class: "totals" },
    overview ? renderTotal("Trajectories", formatCount(counted), "in the archive, of the newest 90 days") : null,
    arms,
    renderLift(lift),
    renderTotal("Bullets", formatCount(active), "served to agents"),
  );
}

function renderLift(lift) {
  const effect = lift?.lift;
  if (!effect || !isCompared(effect)) return renderTotal("Effect of the playbook", "–", "not measured: no trials yet");
  const { difference, lower, upper } = effect;
  const text = `95 % interval ${formatPoints(lower)} to ${formatPoints(upper)} points, measured at random`;
  return renderTotal("Effect of the playbook", `${formatPoints(difference)} points`, text);
}

const sumGroups = (overview, field) =>
  Number(overview.with_playbook.counts[field]) + Number(overview.without_playbook.counts[field]);

/** Trajectories and their success by day. */
export function renderOutcomes(overview, lift) {
  const title = "Trajectories and success by day";
  if (!overview) return renderPanel(title, h("p", { class: "muted" }, "The evidence service cannot be reached."));
  if (!overview.days.length)
    return renderPanel(title, h("p", { class: "muted" }, "No trajectory is in the archive yet."));
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
      label: `Trajectories by day: ${formatPlural(sumGroups(overview, "trajectories"), "trajectory")}.`,
    }),
    renderLegend([
      ["succeeded", "Success"],
      ["failed", "Failure"],
      ["unknown", "Unknown"],
    ]),
    series.length
      ? [
          drawTimeChart({
            series,
            label: `Success rate by day. ${sentences.join(" ")}`,
            format: formatPercent,
            most: 1,
          }),
          renderLegend(series.map(({ kind, name }) => [kind, name])),
        ]
      : null,
    sentences.map((text) => h("p", { class: "muted" }, text)),
    h(
      "p",
      { class: "muted" },
      lift?.conclusion ||
        "Trajectories with and without bullets may differ in their tasks; only trials measure the effect of the playbook.",
    ),
  );
}

const countUnknown = ({ trajectories, succeeded, failed }) => Number(trajectories) - Number(succeeded) - Number(failed);

/** The number of bullets after each revision, newest revisions only. */
export function renderGrowth(revisions, link) {
  const points = revisions
    .toReversed()
    .map(({ committed_at: time, bullets_after: bullets }) => ({ at: Date.parse(time), y: Number(bullets) }));
  if (!points.length) return null;
  const first = points[0];
  const last = points.at(-1);
  const change = formatSigned(last.y - first.y);
  const text = `${formatPlural(last.y, "bullet")} now, ${change} in the last ${formatPlural(points.length, "revision")}.`;
  return renderPanel(
    "Growth of the playbook",
    drawTimeChart({
      series: [{ kind: "with", name: "Bullets", points }],
      label: `Bullets by revision: ${text}`,
      format: formatCount,
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
    return renderPanel("Bullets that helped and harmed most", h("p", { class: "muted" }, "No bullet has votes yet."));
  return renderPanel(
    "Bullets that helped and harmed most",
    helpful.length ? [h("h3", null, "Most helpful votes"), draw(helpful)] : null,
    harmful.length ? [h("h3", null, "Most harmful votes"), draw(harmful)] : null,
  );
}

const rankBullets = (bullets, count) =>
  bullets
    .filter((bullet) => count(bullet) > 0)
    .toSorted((a, b) => count(b) - count(a))
    .slice(0, TOP);

function renderTopBullet(dataset, bullet, effect) {
  const known = effect && isCompared(effect);
  return h(
    "li",
    null,
    h("a", { class: "line", href: formatLink(["playbooks", dataset], { bullet: bullet.id }) }, bullet.content),
    known ? h("span", { class: "muted number" }, `${formatPoints(effect.difference)} points`) : null,
    renderVotes(bullet),
  );
}

/** Trajectories that repeat a known error, with the playbook and without it, and the estimate of prevented ones. */
export function renderErrors(overview) {
  const title = "Repeated and prevented errors";
  if (!overview || !sumGroups(overview, "trajectories"))
    return renderPanel(title, h("p", { class: "muted" }, "No trajectory is in the archive yet."));
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
  const names = ["", "Trajectories", "With an error", "Repeat a known error", "Share"];
  return renderPanel(
    title,
    renderTable("Errors with and without the playbook", names, rows),
    h("p", null, describePrevented(overview)),
    h(
      "p",
      { class: "muted" },
      "A repeated error has the signature of an error in an earlier trajectory. The estimate compares trajectories that were not assigned at random.",
    ),
  );
}

/** The repeated errors that trajectories with bullets would have had at the rate of the others, less those they had. */
export function describePrevented({ with_playbook: served, without_playbook: others }) {
  const [ours, theirs] = [served.repeated_error_rate, others.repeated_error_rate];
  const number = Number(ours.trajectories);
  if (!number || !Number(theirs.trajectories))
    return "Prevented errors cannot be estimated: trajectories with and without bullets are both needed.";
  const difference = theirs.share - ours.share;
  const below = Math.hypot(theirs.share - theirs.lower, ours.upper - ours.share);
  const above = Math.hypot(theirs.upper - theirs.share, ours.share - ours.lower);
  const [value, low, high] = [difference, difference - below, difference + above].map((share) =>
    formatSigned(Math.round(share * number)),
  );
  return `Prevented with the playbook, estimated: ${value} repeated errors (95 % interval ${low} to ${high}).`;
}

/** Trajectories and success of each agent; tokens and cost are not recorded. */
export function renderAgents(dataset, overview) {
  if (!overview?.agents.length) return null;
  const names = ["Agent", "Trajectories", "Success with the playbook", "Success without it", "Steps"];
  const rows = overview.agents.map(({ agent, with_playbook: served, without_playbook: others }) => {
    const sum = (field) => formatCount(Number(served.counts[field]) + Number(others.counts[field]));
    const cells = [
      sum("trajectories"),
      formatShare(served.success_rate),
      formatShare(others.success_rate),
      sum("steps"),
    ];
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, h("a", { href: formatLink(["trajectories", dataset], { agent }) }, agent)),
      cells.map((value) => h("td", { class: "number" }, value)),
    );
  });
  return renderPanel(
    "Agents",
    renderTable("Agents", names, rows),
    h("p", { class: "muted" }, "Tokens and cost of agents are unknown: trajectories do not record them."),
  );
}

/** A table in a region that scrolls sideways; all columns but the first are numbers. */
export function renderTable(label, names, rows) {
  const heads = names.map((name, i) => h("th", { scope: "col", class: i ? "number" : "" }, name));
  return h(
    "div",
    { class: "wide", role: "region", "aria-label": label, tabindex: "0" },
    h("table", { class: "table" }, h("thead", null, h("tr", null, heads)), h("tbody", null, rows)),
  );
}
