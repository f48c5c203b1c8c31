/**
 * The token of the user. The session storage of the browser tab holds it, so it survives a reload and ends with the tab;
 * scripts of other origins cannot read it, and the policy of the page allows no other script of this one (ADR 209).
 */

const KEY = "hansei.token";

export const session = {
  /** Stores a token for further requests. */
  signIn(newToken) {
    sessionStorage.setItem(KEY, newToken.trim());
  },
  signOut() {
    sessionStorage.removeItem(KEY);
  },
  get token() {
    return sessionStorage.getItem(KEY) ?? "";
  },
  get signedIn() {
    return this.token !== "";
  },
  /** Returns the headers of a request. */
  headers() {
    return this.signedIn ? { Authorization: `Bearer ${this.token}` } : {};
  },
};
