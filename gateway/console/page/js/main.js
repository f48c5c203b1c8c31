/** The frame of the page: navigation, routes, keys that work everywhere. */

import { onUnauthorized } from "./api.js";
import { chooser } from "./datasets.js";
import { fill, h } from "./dom.js";
import { showHelp } from "./help.js";
import { badge, refreshBadge } from "./inbox.js";
import { icon } from "./icons.js";
import { bind } from "./keys.js";
import * as api from "./pages/api.js";
import * as bullets from "./pages/playbook.js";
import * as datasets from "./pages/datasets.js";
import * as evidence from "./pages/evidence.js";
import * as execution from "./pages/execution.js";
import * as executions from "./pages/executions.js";
import * as health from "./pages/health.js";
import * as history from "./pages/history.js";
import * as inbox from "./pages/inbox.js";
import * as leaderboard from "./pages/leaderboard.js";
import * as learn from "./pages/learn.js";
import * as review from "./pages/review.js";
import * as search from "./pages/search.js";
import { signIn } from "./pages/signin.js";
import * as trace from "./pages/trace.js";
import * as trajectories from "./pages/trajectories.js";
import { key } from "./parts.js";
import { go, here, replaceRoute, link, route } from "./router.js";
import { session } from "./session.js";
import { showEmpty, showFailure, loading, report } from "./states.js";
import { theme } from "./theme.js";

const PAGES = [
  ["inbox", "Inbox", "i"],
  ["playbooks", "Playbooks", "p"],
  ["review", "Review", "r"],
  ["search", "Search", "s"],
  ["learn", "Learn", "l"],
  ["trajectories", "Trajectories", "t"],
  ["evidence", "Evidence", "v"],
  ["executions", "Executions", "e"],
  ["leaderboard", "Leaderboard", "b"],
  ["health", "Health", "h"],
  ["api", "HTTP API", "a"],
];

const main = document.getElementById("main");
const nav = document.getElementById("nav");
let leaving = new AbortController();

function routes() {
  route("/inbox", inbox);
  route("/playbooks", datasets);
  route("/playbooks/:dataset", bullets);
  route("/playbooks/:dataset/history", history);
  for (const [name, page] of Object.entries({ review, search, learn, trajectories, evidence })) {
    route(`/${name}`, { title: () => name, open: chooser(name) });
    route(`/${name}/:dataset`, page);
  }
  route("/trajectories/:dataset/:id", trace);
  route("/executions", executions);
  route("/executions/:id", execution);
  route("/leaderboard", leaderboard);
  route("/leaderboard/:id", leaderboard);
  route("/health", health);
  route("/api", api);
}

function navigation() {
  const links = PAGES.map(([name, text, letter]) =>
    h(
      "a",
      { href: link([name]), "data-page": name },
      icon(name),
      text,
      name === "inbox" ? badge : null,
      h("span", { class: "hint" }, key("g"), " ", key(letter)),
    ),
  );
  const themes = h(
    "button",
    { type: "button", onclick: turn },
    icon("theme"),
    h("span", { id: "theme-name" }, themeText()),
  );
  const help = h(
    "button",
    { type: "button", onclick: showHelp },
    icon("help"),
    "Keyboard",
    h("span", { class: "hint" }, key("?")),
  );
  const leave = h(
    "button",
    { type: "button", id: "sign-out", hidden: true, onclick: signOut },
    icon("leave"),
    "Sign out",
  );
  nav.append(...links, h("div", { class: "nav-foot" }, themes, help, leave));
}

const themeText = () => `Theme: ${theme.choice}`;

function turn() {
  theme.next();
  document.getElementById("theme-name").textContent = themeText();
}

function signOut() {
  session.signOut();
  show();
}

function bindKeys() {
  const pages = PAGES.map(([name, text, letter]) => ({
    keys: `g ${letter}`,
    what: text.toLowerCase(),
    run: () => go([name]),
  }));
  bind([
    ...pages,
    { keys: "?", what: "these keys", run: showHelp },
    { keys: "t", what: "change the theme", run: turn },
  ]);
}

/** Opens the page of the current address, and aborts the requests of the page before. */
async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { page, params, query, parts } = here();
  if (!parts.length) return replaceRoute(["playbooks"]);
  document.title = page ? `${page.title(params)} · hansei` : "hansei";
  mark(parts[0]);
  try {
    const opened = page
      ? page.open({ params, query, signal })
      : showEmpty("There is no such page", "The address may be mistyped.");
    if (opened instanceof Promise) fill(main, loading());
    const shown = await opened;
    if (!signal.aborted && shown) fill(main, shown);
    refreshBadge(signal);
  } catch (error) {
    if (signal.aborted) return;
    report(error);
    fill(main, showFailure(error, show));
  }
}

function mark(present) {
  for (const anchor of nav.querySelectorAll("a")) {
    if (anchor.dataset.page === present) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  document.getElementById("sign-out").hidden = !session.signedIn;
  if (nav.matches(":popover-open")) nav.hidePopover();
}

/** Shows the sign-in page, because the gateway requires a token; afterwards the page is opened again. */
function readCaller() {
  leaving.abort();
  const refused = session.signedIn;
  session.signOut();
  document.title = "Sign in · hansei";
  fill(main, signIn(show, refused));
}

function start() {
  theme.apply();
  routes();
  navigation();
  bindKeys();
  onUnauthorized.call = readCaller;
  document.getElementById("menu").append(icon("menu"));
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  // The new page gets the focus, for users of a keyboard or a screen reader.
  addEventListener("hashchange", () => show().then(() => main.focus()));
  show();
}

start();
