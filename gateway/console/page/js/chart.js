/** Charts as plain SVG: a line with the band of its interval. The numbers of a chart stand beside it as text, too. */

import { s } from "./dom.js";
import { formatCount } from "./format.js";

const WIDTH = 640;
const HEIGHT = 200;
const LEFT = 52;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 34;
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1];
const MOST_LINES = 6;

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

/** The least and the largest share to show: all of the line, zero, and as much of the band as the line has room for. */
function findRange(points) {
  const settled = points.slice(Math.floor(points.length / 4));
  const low = Math.min(0, ...points.map(({ y }) => y), ...settled.map((point) => point.low));
  const high = Math.max(0, ...points.map(({ y }) => y), ...settled.map((point) => point.high));
  const step = chooseStep(low, high);
  return [Math.max(Math.floor(low / step) * step, -1), Math.min(Math.ceil(high / step) * step || step, 1)];
}

const chooseStep = (low, high) => STEPS.find((step) => (high - low) / step <= MOST_LINES) ?? 1;

function listTicks(bottom, top) {
  const step = chooseStep(bottom, top);
  const first = Math.ceil(bottom / step - 1e-9);
  const number = Math.floor(top / step + 1e-9) - first + 1;
  return Array.from({ length: number }, (_, index) => (first + index) * step);
}
