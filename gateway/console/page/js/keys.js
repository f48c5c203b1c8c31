/** The keyboard: single keys, and sequences of two such as `g p`. Pages bind their keys while they are open. */

const SEQUENCE_MS = 1200;
/** The keys that move to the next and to the previous row. */
const MOVES = new Set(["j", "k"]);
const bindings = new Set();
let begun = "";
let timer = 0;

/** Binds keys, `{keys, what, run}` each, until `signal` is aborted; the help shows `what`. */
export function bindKeys(list, signal) {
  for (const binding of list) {
    bindings.add(binding);
    signal?.addEventListener("abort", () => bindings.delete(binding), { once: true });
  }
}

/** Returns the bindings in their order. */
export const listBindings = () => [...bindings];

function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  const text = target instanceof HTMLInputElement && !["checkbox", "radio", "range", "button"].includes(target.type);
  return text || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

function handleKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && isTyping(event.target)) return event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  // A focused button or link keeps its own Enter and Space.
  const pressed = event.target instanceof HTMLElement && event.target.matches("button, a, summary");
  if (pressed && (event.key === "Enter" || event.key === " ")) return;
  // A key that is held down selects further rows, and decides only once.
  if (event.repeat && !MOVES.has(event.key)) return;
  const typed = begun ? `${begun} ${event.key}` : event.key;
  begun = "";
  clearTimeout(timer);
  const found = listBindings().findLast(({ keys }) => keys.split(", ").includes(typed));
  if (found) {
    event.preventDefault();
    found.run();
  } else if (listBindings().some(({ keys }) => keys.startsWith(`${event.key} `))) {
    begun = event.key;
    timer = setTimeout(() => (begun = ""), SEQUENCE_MS);
  }
}

document.addEventListener("keydown", handleKey);
