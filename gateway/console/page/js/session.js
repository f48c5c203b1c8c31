/** Who is signed in. The token lives in this module's memory only: it is gone when the page is. */

let token = "";

export const session = {
  /** Keep a token for the requests to come. */
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
