/** Dark or light: the theme of the system, or the choice of the user. */

const KEY = "hansei.theme";
const CHOICES = ["system", "light", "dark"];

export const theme = {
  get choice() {
    const stored = localStorage.getItem(KEY);
    return CHOICES.includes(stored) ? stored : "system";
  },
  /** The next of system, light, dark. */
  next() {
    localStorage.setItem(KEY, CHOICES[(CHOICES.indexOf(this.choice) + 1) % CHOICES.length]);
    this.apply();
    return this.choice;
  },
  apply() {
    document.documentElement.dataset.theme = this.choice;
  },
};
