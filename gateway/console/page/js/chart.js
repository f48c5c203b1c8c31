/** Charts as plain SVG: a line with the band of its interval. The numbers of a chart stand beside it as text, too. */

import { h, s } from "./dom.js";
import { formatCount, formatDay } from "./format.js";

const WIDTH = 640;
const HEIGHT = 200;
const LEFT = 52;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 34;
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1];
const MOST_LINES = 6;
const MOST_MARKS = 60;
const LEAST_BAR = 3;
const MOST_BAR = 40;

/**
 * A chart of points `{x, y, low, high}` in ascending order of x, with y as shares. `label` says in a sentence what it
 * shows; `unit` names x; `format` writes a share.
 */
export function drawBandChart({ points, label, unit, format }) {
  const last = points.at(-1).x;
  const [bottom, top] = findRange(points);
  const x = (value) => LEFT + ((WIDTH - LEFT - RIGHT) * value) / last;
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * (value - bottom)) / (top - bottom);
  const clip = (value) => Math.min(Math.max(value, bottom), top);
  const path = (values) => values.map(([across, up]) => `${x(across).toFixed(1)},${y(clip(up)).toFixed(1)}`).join(" ");
  const band = [
    ...points.map(({ x: at, high }) => [at, high]),
    ...points.toReversed().map(({ x: at, low }) => [at, low]),
  ];
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    listTicks(bottom, top).map((value) => [
      s("line", { class: value === 0 ? "axis" : "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      s("text", { class: "tick end", x: LEFT - 8, y: y(value) + 4 }, format(value)),
    ]),
    s("polygon", { class: "band", points: path(band) }),
    s("polyline", { class: "curve", points: path(points.map(({ x: at, y: up }) => [at, up])) }),
    s("text", { class: "tick", x: LEFT, y: HEIGHT - 10 }, "0"),
    s("text", { class: "tick end", x: WIDTH - RIGHT, y: HEIGHT - 10 }, `${formatCount(last)} ${unit}`),
  );
}

/**
 * Returns the range of y: zero, all values, and their intervals without the first quarter, in which they are wide. An
 * interval that is cut off crosses zero visibly: otherwise the chart would seem to exclude a harm or a benefit.
 */
function findRange(points) {
  const settled = points.slice(Math.floor(points.length / 4));
  const low = Math.min(0, ...points.map(({ y }) => y), ...settled.map((point) => point.low));
  const high = Math.max(0, ...points.map(({ y }) => y), ...settled.map((point) => point.high));
  const step = chooseStep(low, high);
  const isBelow = points.some((point) => point.low < 0);
  const bottom = Math.floor(low / step) * step || (isBelow ? -step : 0);
  return [Math.max(bottom, -1), Math.min(Math.ceil(high / step) * step || step, 1)];
}

const chooseStep = (low, high) => STEPS.find((step) => (high - low) / step <= MOST_LINES) ?? 1;

function listTicks(bottom, top) {
  const step = chooseStep(bottom, top);
  const first = Math.ceil(bottom / step - 1e-9);
  const number = Math.floor(top / step + 1e-9) - first + 1;
  return Array.from({ length: number }, (_, index) => (first + index) * step);
}

const DAY_MS = 86_400_000;

/**
 * Lines over days or revisions. `series` are `{kind, points: [{at, y, low, high}]}`, oldest first, with `at` in
 * milliseconds unless `formatAt` writes it; a point without `low` has no interval. `format` writes a value of y, `most` is
 * the least top of the axis, `span` the least width of the chart.
 */
export function drawLineChart({ series, label, format, most = 0, span = DAY_MS, formatAt = formatDay }) {
  const points = series.flatMap((line) => line.points);
  const [from, to] = findEnds(
    points.map(({ at }) => at),
    span,
  );
  const top = chooseTop(Math.max(most, ...points.map(({ y, high }) => high ?? y)));
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * (at - from)) / (to - from);
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * value) / top;
  const write = (pairs) => pairs.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    drawScale(top, y, format),
    series.map(({ kind, points: line }) => [
      line.map(({ at, low, high }) =>
        low === undefined
          ? null
          : s("line", { class: `whisker ${kind}`, x1: x(at), x2: x(at), y1: y(low), y2: y(high) }),
      ),
      s("polyline", { class: `curve ${kind}`, points: write(line.map(({ at, y: value }) => [at, value])) }),
      line.length <= MOST_MARKS
        ? line.map(({ at, y: value }) => s("circle", { class: `mark ${kind}`, cx: x(at), cy: y(value), r: 3 }))
        : null,
    ]),
    drawEnds(from, to, formatAt),
  );
}

/**
 * Stacked bars by day: `days` are `{at, parts: [{kind, value}]}`, oldest first, and the lowest part first; `format`
 * writes a value. A bar may be as wide as the shortest distance of two days, so a few days of a long time are visible.
 */
export function drawDayBars({ days, label, format = formatCount }) {
  const [from, to] = findEnds(
    days.map(({ at }) => at),
    DAY_MS,
  );
  const slots = Math.round((to - from) / DAY_MS) + 1;
  const slot = (WIDTH - LEFT - RIGHT) / slots;
  const gap = Math.min(slots, ...days.slice(1).map(({ at }, index) => (at - days[index].at) / DAY_MS));
  const width = Math.min(Math.max(slot * gap * 0.8, LEAST_BAR), MOST_BAR);
  const top = chooseTop(Math.max(...days.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0))));
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * value) / top;
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    drawScale(top, y, format),
    days.map(({ at, parts }) => {
      const middle = LEFT + slot * ((at - from) / DAY_MS + 0.5);
      const left = Math.min(Math.max(middle - width / 2, LEFT), WIDTH - RIGHT - width);
      let sum = 0;
      return parts.map(({ kind, value }) => {
        sum += value;
        const size = { x: left, y: y(sum), width, height: y(sum - value) - y(sum) };
        return value ? s("rect", { class: `stack ${kind}`, ...size }) : null;
      });
    }),
    drawEnds(from, to, formatDay),
  );
}

/** The first and the last position to show, at least `span` apart. */
function findEnds(positions, span) {
  const from = Math.min(...positions);
  return [from, Math.max(from + span, ...positions)];
}

/** The top of an axis that begins at zero: 1, 2 or 5 times a power of ten. */
function chooseTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value - 1e-9);
}

function drawScale(top, y, format) {
  // There is no half of a thing that is counted.
  const parts = format === formatCount && top % 2 ? [0, 1] : [0, 0.5, 1];
  return parts.map((part) => [
    s("line", { class: part ? "grid" : "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(top * part), y2: y(top * part) }),
    s("text", { class: "tick end", x: LEFT - 8, y: y(top * part) + 4 }, format(top * part)),
  ]);
}

const drawEnds = (from, to, write) => [
  s("text", { class: "tick", x: LEFT, y: HEIGHT - 10 }, write(from)),
  s("text", { class: "tick end", x: WIDTH - RIGHT, y: HEIGHT - 10 }, write(to)),
];

/** The names of lines or parts beside their colours. */
export const renderLegend = (names) =>
  h(
    "p",
    { class: "legend" },
    names.map(([kind, name]) => h("span", null, h("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), name)),
  );
