/**
 * A plan as a graph: steps in layers from left to right, each behind all it depends on. Edges that pass a layer get a
 * position in it, and layers are ordered by the positions of their neighbours, so that few edges cross.
 */

import { h, s } from "./dom.js";
import { t } from "./texts.js";

const WIDTH = 190;
const HEIGHT = 64;
const GAP_X = 56;
const GAP_Y = 18;
const PASS = 14;
const SWEEPS = 4;

/**
 * Positions for steps `{step_id, depends_on}`: `{nodes: Map(id → {x, y}), edges: [{from, to, points}], width, height}`.
 * A dependency that names no step, or would close a cycle, is ignored: any plan can be drawn.
 */
export function placeSteps(steps) {
  const parents = collectDependencies(steps);
  const layerOf = assignLayers(steps, parents);
  const { columns, chains } = insertPassThroughs(steps, parents, layerOf);
  orderColumns(columns, chains);
  return placeCells(columns, chains);
}

/** Returns the dependencies of each step; a dependency on a later step, which no valid plan has, is left out. */
function collectDependencies(steps) {
  const seen = new Set();
  const parents = new Map();
  for (const { step_id: id, depends_on: list } of steps) {
    parents.set(
      id,
      [...new Set(list)].filter((id) => seen.has(id)),
    );
    seen.add(id);
  }
  return parents;
}

function assignLayers(steps, parents) {
  const layerOf = new Map();
  for (const { step_id: id } of steps)
    layerOf.set(id, 1 + Math.max(-1, ...parents.get(id).map((parent) => layerOf.get(parent))));
  return layerOf;
}

/** Returns the columns of cells, and for each edge the cells that it passes. */
function insertPassThroughs(steps, parents, layerOf) {
  const columns = Array.from({ length: 1 + Math.max(-1, ...layerOf.values()) }, () => []);
  const cells = new Map();
  for (const { step_id: id } of steps) {
    const cell = { id, height: HEIGHT };
    cells.set(id, cell);
    columns[layerOf.get(id)].push(cell);
  }
  const chains = [];
  for (const { step_id: to } of steps) {
    for (const from of parents.get(to)) {
      const between = [];
      for (let layer = layerOf.get(from) + 1; layer < layerOf.get(to); layer += 1) {
        const cell = { id: null, height: PASS };
        columns[layer].push(cell);
        between.push(cell);
      }
      chains.push({ from, to, cells: [cells.get(from), ...between, cells.get(to)] });
    }
  }
  return { columns, chains };
}

/** Orders each column by the mean position of its neighbours, in a few sweeps in both directions. */
function orderColumns(columns, chains) {
  const near = new Map(columns.flat().map((cell) => [cell, { before: [], after: [] }]));
  for (const { cells } of chains) {
    for (const [i, cell] of cells.slice(1).entries()) {
      near.get(cell).before.push(cells[i]);
      near.get(cells[i]).after.push(cell);
    }
  }
  numberCells(columns);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const side = sweep % 2 ? "after" : "before";
    for (const column of sweep % 2 ? columns.toReversed() : columns) {
      const mean = (cell) =>
        computeAverage(
          near.get(cell)[side].map((neighbour) => neighbour.at),
          cell.at,
        );
      const means = new Map(column.map((cell) => [cell, mean(cell)]));
      column.sort((a, b) => means.get(a) - means.get(b));
      numberCells([column]);
    }
  }
}

function numberCells(columns) {
  for (const column of columns) for (const [i, cell] of column.entries()) cell.at = (i + 0.5) / column.length;
}

const computeAverage = (list, otherwise) => (list.length ? list.reduce((a, b) => a + b) / list.length : otherwise);

function placeCells(columns, chains) {
  const heights = columns.map((column) => column.reduce((sum, cell) => sum + cell.height + GAP_Y, -GAP_Y));
  const height = Math.max(HEIGHT, ...heights);
  const nodes = new Map();
  for (const [i, column] of columns.entries()) {
    let y = (height - heights[i]) / 2;
    for (const cell of column) {
      Object.assign(cell, { x: i * (WIDTH + GAP_X), y });
      if (cell.id !== null) nodes.set(cell.id, { x: cell.x, y });
      y += cell.height + GAP_Y;
    }
  }
  const edges = chains.map(({ from, to, cells }) => ({ from, to, points: collectPoints(cells) }));
  return { nodes, edges, width: Math.max(1, columns.length) * (WIDTH + GAP_X) - GAP_X, height };
}

/** Returns the points of an edge: from right side to left side, through the middle of the cells that it passes. */
function collectPoints(cells) {
  const middle = ({ y, height }) => y + height / 2;
  const first = { x: cells[0].x + WIDTH, y: middle(cells[0]) };
  const inside = cells.slice(1, -1).flatMap((cell) => [
    { x: cell.x, y: middle(cell) },
    { x: cell.x + WIDTH, y: middle(cell) },
  ]);
  return [first, ...inside, { x: cells.at(-1).x, y: middle(cells.at(-1)) }];
}

/** Draws the graph. `node(step)` returns the element of a step, which can be focused. */
export function drawGraph(steps, node) {
  const { nodes, edges, width, height } = placeSteps(steps);
  const lines = edges.map(({ points: way }) =>
    s("path", { d: drawEdge(way), class: "edge", "marker-end": "url(#arrow)" }),
  );
  const tip = s("path", { d: "M0 0 8 4 0 8Z", class: "arrow" });
  const arrow = s("marker", { id: "arrow", markerWidth: 8, markerHeight: 8, refX: 8, refY: 4, orient: "auto" }, tip);
  const picture = s("svg", { width, height, "aria-hidden": "true" }, s("defs", null, arrow), lines);
  const boxes = steps.map((step) => {
    const box = node(step);
    const { x, y } = nodes.get(step.step_id);
    for (const [name, value] of Object.entries({ left: x, top: y, width: WIDTH, height: HEIGHT }))
      box.style.setProperty(name, `${value}px`);
    return h("li", null, box);
  });
  const size = { style: { width: `${width}px`, height: `${height}px` } };
  const field = h("div", { class: "graph-field", ...size }, picture, h("ol", { class: "plain" }, boxes));
  return h("div", { class: "graph", role: "region", "aria-label": t("graph.plan"), tabindex: "0" }, field);
}

function drawEdge([first, ...rest]) {
  let d = `M${first.x} ${first.y}`;
  let { x, y } = first;
  for (const point of rest) {
    const bend = (point.x - x) / 2;
    d += `C${x + bend} ${y} ${point.x - bend} ${point.y} ${point.x} ${point.y}`;
    ({ x, y } = point);
  }
  return d;
}
