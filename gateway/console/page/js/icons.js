/** The few pictures of the page, drawn in lines on a field of 16 by 16. */

import { s } from "./dom.js";

const PATHS = {
  playbooks: "M3 2.5h8.5a1.5 1.5 0 0 1 1.5 1.5v9.5H4.5A1.5 1.5 0 0 1 3 12V2.5ZM3 12a1.5 1.5 0 0 1 1.5-1.5H13M6 5.5h4",
  overview: "M2.5 13.5v-6l5.5-5 5.5 5v6h-4v-4h-3v4h-4Z",
  keys: "M10 9.5a3.5 3.5 0 1 0-3.3-2.3L2 12v2h2.5v-1.5H6V11h1.5l1-1.6c.5.1 1 .1 1.5.1ZM10.8 5.2v.1",
  settings: "M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M10 3v3M6 10v3",
  inbox: "M2.5 9.5v4h11v-4M2.5 9.5 4.5 3h7l2 6.5M2.5 9.5h3.2a2.3 2.3 0 0 0 4.6 0h3.2",
  review: "M2.5 8.5 6 12l7.5-8",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9ZM10.5 10.5 14 14",
  learn: "M8 13.5v-8M4.5 8.5 8 5l3.5 3.5M3 2.5h10",
  evidence: "M8 2v12M3.5 5h6M6.5 8h7M2.5 11h8",
  guards: "M8 1.5 13 3.5v4c0 3.5-2.2 5.6-5 7-2.8-1.4-5-3.5-5-7v-4ZM5.8 8l1.6 1.6L10.4 6.4",
  trajectories: "M2.5 13.5v-3.5h3.5V6.5h3.5V3h4",
  executions:
    "M4 5.5a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5ZM12 9.75a1.75 1.75 0 1 0 0-3.5 1.75 1.75 0 0 0 0 3.5ZM4 14a1.75 1.75 0 1 0 0-3.5A1.75 1.75 0 0 0 4 14ZM5.7 4.3l4.6 2.8M5.7 11.7l4.6-2.8",
  leaderboard: "M2.5 13.5v-4h3v4M6.5 13.5v-10h3v10M10.5 13.5v-6h3v6M1.5 13.5h13",
  health: "M1.5 8.5h3L6.5 4l3 8.5 2-4h3",
  api: "M5.5 4 2 8l3.5 4M10.5 4 14 8l-3.5 4M9 2.5 7 13.5",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11v-11Z M8 2.5a5.5 5.5 0 0 1 0 11",
  help: "M6 6.2a2 2 0 1 1 2.8 1.9c-.5.2-.8.6-.8 1.2v.4M8 12v.2M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Z",
  leave: "M6 2.5H3v11h3M7 8h7M11 5l3 3-3 3",
  close: "M4 4l8 8M12 4l-8 8",
};

/** A picture beside a text, so hidden from screen readers. */
export function drawIcon(name) {
  const path = s("path", {
    d: PATHS[name],
    fill: "none",
    stroke: "currentColor",
    "stroke-width": "1.4",
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
  });
  return s("svg", { viewBox: "0 0 16 16", width: "16", height: "16", class: "icon", "aria-hidden": "true" }, path);
}
