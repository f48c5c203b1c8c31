/** Signing in with a token. */

import { h } from "../dom.js";
import { session } from "../session.js";

/**
 * Returns the page; `done` gets the token. The next request shows whether the gateway accepts it; if not, the page
 * appears again with `refused`.
 */
export function renderSignIn(done, refused) {
  const input = h("input", { type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  const error = refused ? h("p", { class: "bad", role: "alert" }, "The gateway rejects this token.") : null;
  const form = h(
    "form",
    { class: "sign-in card" },
    h("h1", null, "Sign in to hansei"),
    h("p", { class: "muted" }, "With an API key or a bearer token. It stays only in the storage of this browser tab."),
    h("label", { class: "field" }, "Token", input),
    error,
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Sign in")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    session.signIn(input.value);
    done();
  });
  requestAnimationFrame(() => input.focus());
  return form;
}
