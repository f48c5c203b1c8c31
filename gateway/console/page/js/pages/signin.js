/** Signing in with a token. */

import { h } from "../dom.js";
import { session } from "../session.js";
import { t } from "../texts.js";

/**
 * Returns the page; `done` gets the token. The next request shows whether the gateway accepts it; if not, the page
 * appears again with `refused`.
 */
export function renderSignIn(done, refused) {
  const input = h("input", { type: "password", required: true, autocomplete: "off", spellcheck: "false" });
  const error = refused ? h("p", { class: "bad", role: "alert" }, t("signin.the_gateway_rejects_this_token")) : null;
  const form = h(
    "form",
    { class: "sign-in card" },
    h("h1", null, t("signin.sign_in_to_hansei")),
    h("p", { class: "muted" }, t("signin.with_an_api_key_or")),
    h("label", { class: "field" }, t("signin.token"), input),
    error,
    h("div", { class: "actions" }, h("button", { class: "primary" }, t("signin.sign_in"))),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    session.signIn(input.value);
    done();
  });
  requestAnimationFrame(() => input.focus());
  return form;
}
