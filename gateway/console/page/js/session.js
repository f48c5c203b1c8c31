/** The token of the user. Only the memory of this module holds it, so it is lost when the page is closed. */

let token = "";

export const session = {
  /** Stores a token for further requests. */
  signIn(newToken) {
    token = newToken.trim();
  },
  signOut() {
    token = "";
  },
  get signedIn() {
    return token !== "";
  },
  /** Returns the headers of a request. */
  headers() {
    return token ? { Authorization: `Bearer ${token}` } : {};
  },
};
