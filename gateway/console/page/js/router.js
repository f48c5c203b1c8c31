/** The address of a page within the page: `#/playbooks/appworld?bullet=gc-00001`. */

const routes = [];

/** Opens a page for addresses that match a pattern such as `/playbooks/:dataset`. */
export function addRoute(pattern, page) {
  routes.push({ parts: pattern.split("/").slice(1), page });
}

/** The address of a page; every part is encoded. */
export function formatLink(parts, query) {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== "");
  const path = parts.map(encodeURIComponent).join("/");
  return `#/${path}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`;
}

export function openRoute(parts, query) {
  location.hash = formatLink(parts, query);
}

/** Replaces the current address, so that the back button skips it. */
export function replaceRoute(parts) {
  location.replace(formatLink(parts));
}

/** Opens a page again after its content changed. */
export function reopenRoute(parts, query) {
  history.replaceState(null, "", formatLink(parts, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Changes the query of the current address without opening the page again. */
export function noteQuery(query) {
  const { parts, query: before } = readRoute();
  history.replaceState(null, "", formatLink(parts, { ...before, ...query }));
}

/** Returns the current location: parts, query, parameters, and the page; null without one. */
export function readRoute() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodePart);
  const query = Object.fromEntries(new URLSearchParams(search));
  for (const { parts: pattern, page } of routes) {
    const params = matchRoute(pattern, parts);
    if (params) return { parts, query, params, page };
  }
  return { parts, query, params: {}, page: null };
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the parameters of an address, such as `dataset`, or null if the pattern does not match. */
function matchRoute(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const params = {};
  for (const [i, name] of pattern.entries()) {
    if (name.startsWith(":")) params[name.slice(1)] = parts[i];
    else if (name !== parts[i]) return null;
  }
  return params;
}
