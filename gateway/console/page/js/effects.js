/** Effects in words, numbers and charts, for the page of a dataset and for that of a bullet. */

import { drawBandChart } from "./chart.js";
import { h, s } from "./dom.js";
import { formatCount, formatPlural } from "./format.js";
import { t } from "./texts.js";

/** Evidence beyond this decides also among many bullets. */
const MUCH = 10000;

/** A difference of shares in points of a hundred. */
export const formatPoints = (difference) =>
  `${Number(difference) > 0 ? "+" : ""}${Math.round(100 * Number(difference))}`.replace("-", "−");

export const formatEvidence = (value) => {
  if (Number(value) >= MUCH) return t("effects.over", { much: formatCount(MUCH) });
  return Number(value) < 100 ? Number(value).toPrecision(3) : formatCount(Math.round(Number(value)));
};

/** The success rate of an arm. */
export const formatRate = ({ sessions, success_rate: share }) =>
  Number(sessions) ? `${Math.round(100 * Number(share))} %` : "–";

/** Whether both arms have a session. */
export const isCompared = ({ served, withheld }) => Number(served.sessions) > 0 && Number(withheld.sessions) > 0;

const VERDICTS = {
  VERDICT_NOT_MEASURED: () => t("effects.nothing_is_measured"),
  VERDICT_CHECK_FAILED: () => t("effects.nothing_can_be_concluded"),
  VERDICT_NOT_COMPARED: () => t("effects.the_playbook_is_not_compared"),
  VERDICT_NO_OUTCOMES: () => t("effects.both_arms_need_sessions"),
  VERDICT_UNDECIDED: ({ span, difference, more }) =>
    t("effects.undecided", { span }) + (Number(more) ? t("effects.decided_after", { difference, more }) : ""),
  VERDICT_HELPS: ({ lower, span }) =>
    lower > 0 ? t("effects.the_playbook_helps", { span }) : t("effects.helps_how_much_is_unknown", { span }),
  VERDICT_HARMS: ({ upper, span }) =>
    upper < 0 ? t("effects.the_playbook_harms", { span }) : t("effects.harms_how_much_is_unknown", { span }),
};

/** What the trials show about the whole playbook, in a sentence; that of the service for an unknown verdict. */
export function describeVerdict({ verdict, lift, more_sessions: more, conclusion }) {
  const { lower, upper, difference } = lift ?? {};
  const span = t("effects.to", { lower: formatPoints(lower), upper: formatPoints(upper) });
  const values = { lower: Number(lower), upper: Number(upper), span, difference: formatPoints(difference) };
  return VERDICTS[verdict]?.({ ...values, more: formatCount(more) }) ?? conclusion;
}

/** How an effect developed, in a sentence; empty before there is a line to draw. */
export function describeCurve(what, history) {
  const curve = buildEffectPoints(history);
  if (curve.length < 2) return "";
  const { x, y, low, high } = curve.at(-1);
  return t("effects.points_after_95_interval_to", {
    what,
    y: formatPoints(y),
    x: formatPlural(x, "session"),
    low: formatPoints(low),
    high: formatPoints(high),
  });
}

/** How an effect developed, session by session, with its interval. */
export const drawCurve = (label, history) =>
  drawBandChart({ points: buildEffectPoints(history), label, unit: t("effects.sessions"), format: formatPoints });

/** Returns the points of a chart: the sessions, the difference and its interval. */
const buildEffectPoints = (history) =>
  history
    .filter(({ effect }) => isCompared(effect))
    .map(({ effect: { served, withheld, difference, lower, upper } }) => ({
      x: Number(served.sessions) + Number(withheld.sessions),
      y: Number(difference),
      low: Number(lower),
      high: Number(upper),
    }));

/** The interval from −100 to 100 points as a line, the difference as a dot; the numbers stand beside it. */
export function drawInterval({ difference, lower, upper }) {
  const x = (value) => 50 + 50 * Number(value);
  return h(
    "span",
    { class: "interval" },
    s(
      "svg",
      { viewBox: "0 0 100 12", width: "100", height: "12", "aria-hidden": "true" },
      s("line", { class: "zero", x1: 50, x2: 50, y1: 0, y2: 12 }),
      s("line", { class: "span", x1: x(lower), x2: x(upper), y1: 6, y2: 6 }),
      s("circle", { class: "mark", cx: x(difference), cy: 6, r: 3 }),
    ),
    h("span", { class: "number" }, t("effects.to", { lower: formatPoints(lower), upper: formatPoints(upper) })),
  );
}
