/** The frame of the page: navigation, routes, keys that work everywhere. */

import { onUnauthorized } from "./api.js";
import { createChooser } from "./datasets.js";
import { fillElement, h } from "./dom.js";
import { showHelp } from "./help.js";
import { badge, refreshBadge } from "./inbox.js";
import { drawIcon } from "./icons.js";
import { bindKeys } from "./keys.js";
import { addPages } from "./pages.js";
import { renderSignIn } from "./pages/signin.js";
import { renderKey } from "./parts.js";
import { openRoute, readRoute, replaceRoute, formatLink, addRoute } from "./router.js";
import { session } from "./session.js";
import { renderEmptyState, renderFailure, renderLoading, logUnexpectedError } from "./states.js";
import { LANGUAGE, translateWord } from "./texts.js";
import { theme } from "./theme.js";
import { t } from "./texts.js";

const PAGES = [
  ["overview", t("common.overview"), "o"],
  ["inbox", t("common.inbox"), "i"],
  ["playbooks", t("common.playbooks"), "p"],
  ["review", t("common.review"), "r"],
  ["search", t("common.search"), "s"],
  ["learn", t("common.learn"), "l"],
  ["trajectories", t("common.trajectories"), "t"],
  ["evidence", t("common.evidence"), "v"],
  ["guards", t("common.guards"), "d"],
  ["executions", t("common.executions"), "e"],
  ["leaderboard", t("common.leaderboard"), "b"],
  ["keys", t("main.keys"), "k"],
  ["health", t("common.settings"), "h"],
  ["api", "HTTP API", "a"],
];

const main = document.getElementById("main");
const nav = document.getElementById("nav");
let leaving = new AbortController();

const CHOOSERS = ["review", "search", "learn", "trajectories", "evidence", "guards"];
/** The time after which the badge is read, because the page that opens comes first. */
const BADGE_MS = 500;

/** Adds the routes of the pages that choose a dataset first. */
function addChoosers() {
  for (const name of CHOOSERS)
    addRoute(`/${name}`, {
      formatTitle: () => PAGES.find(([page]) => page === name)[1],
      openPage: createChooser(name),
    });
}

function renderNavigation() {
  const links = PAGES.map(([name, text, letter]) =>
    h(
      "a",
      { href: formatLink([name]), "data-page": name },
      drawIcon(name),
      text,
      name === "inbox" ? badge : null,
      h("span", { class: "hint" }, renderKey("g"), " ", renderKey(letter)),
    ),
  );
  const themes = h(
    "button",
    { type: "button", onclick: changeTheme },
    drawIcon("theme"),
    h("span", { id: "theme-name" }, formatTheme()),
  );
  const help = h(
    "button",
    { type: "button", onclick: showHelp },
    drawIcon("help"),
    t("common.keyboard"),
    h("span", { class: "hint" }, renderKey("?")),
  );
  const leave = h(
    "button",
    { type: "button", id: "sign-out", hidden: true, onclick: signOut },
    drawIcon("leave"),
    t("main.sign_out"),
  );
  nav.append(...links, h("div", { class: "nav-foot" }, themes, help, leave));
}

const formatTheme = () => t("main.theme", { choice: translateWord(theme.choice) });

function changeTheme() {
  theme.next();
  document.getElementById("theme-name").textContent = formatTheme();
}

function signOut() {
  session.signOut();
  showPage();
}

function bindPageKeys() {
  const pages = PAGES.map(([name, text, letter]) => ({
    keys: `g ${letter}`,
    what: text.toLowerCase(),
    run: () => openRoute([name]),
  }));
  bindKeys([
    ...pages,
    { keys: "?", what: t("main.these_keys"), run: showHelp },
    { keys: "t", what: t("main.change_the_theme"), run: changeTheme },
  ]);
}

/** Opens the page of the current address, and aborts the requests of the page before. */
async function showPage() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { page, params, query, parts } = readRoute();
  if (!parts.length) return replaceRoute(["overview"]);
  markPage(parts[0]);
  fillElement(main, renderLoading());
  try {
    document.title = page ? t("main.hansei", { params: page.formatTitle(params) }) : "hansei";
    const shown = page
      ? await page.openPage({ params, query, signal })
      : renderEmptyState(t("main.there_is_no_such_page"), t("main.the_address_may_be_mistyped"));
    if (!signal.aborted && shown) fillElement(main, shown);
    setTimeout(() => signal.aborted || refreshBadge(signal), BADGE_MS);
  } catch (error) {
    if (signal.aborted) return;
    logUnexpectedError(error);
    fillElement(main, renderFailure(error, showPage));
  }
}

function markPage(present) {
  for (const anchor of nav.querySelectorAll("a")) {
    if (anchor.dataset.page === present) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  document.getElementById("sign-out").hidden = !session.signedIn;
  if (nav.matches(":popover-open")) nav.hidePopover();
}

/** Shows the sign-in page, because the gateway requires a token; afterwards the page is opened again. */
function askForToken() {
  leaving.abort();
  // An open dialog would cover the sign-in page and keep the keyboard from it.
  document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  const refused = session.signedIn;
  session.signOut();
  document.title = t("main.sign_in_hansei");
  fillElement(main, renderSignIn(showPage, refused));
}

function startPage() {
  theme.apply();
  addPages();
  addChoosers();
  renderNavigation();
  bindPageKeys();
  onUnauthorized.call = askForToken;
  document.documentElement.lang = LANGUAGE;
  nav.setAttribute("aria-label", t("main.pages"));
  const menu = document.getElementById("menu");
  menu.setAttribute("aria-label", t("main.menu"));
  menu.append(drawIcon("menu"));
  const skip = document.getElementById("skip");
  skip.textContent = t("main.skip_to_the_page");
  skip.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  // The new page gets the focus, for users of a keyboard or a screen reader.
  addEventListener("hashchange", () => showPage().then(() => main.focus()));
  // A page that was left awaits its requests no more; that they were aborted is no error.
  addEventListener("unhandledrejection", (event) => {
    if (event.reason?.name === "AbortError") event.preventDefault();
  });
  showPage();
}

startPage();
