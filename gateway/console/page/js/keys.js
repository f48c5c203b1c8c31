/** The keyboard: single keys, and sequences of two such as `g p`. Pages bind theirs for as long as they are open. */

const SEQUENCE_MS = 1200;
const bindings = new Set();
let begun = "";
let timer = 0;

/** `{keys, what, run}` each; `what` is shown in the help. They hold until `signal` is aborted. */
export function bind(list, signal) {
  for (const binding of list) {
    bindings.add(binding);
    signal?.addEventListener("abort", () => bindings.delete(binding), { once: true });
  }
}

/** What is bound, in the order it was. */
export const bound = () => [...bindings];

function typing(target) {
  if (!(target instanceof HTMLElement)) return false;
  const text = target instanceof HTMLInputElement && !["checkbox", "radio", "range", "button"].includes(target.type);
  return text || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

function handleKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && typing(event.target)) return event.target.blur();
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  // A focused button or link keeps its own Enter and Space.
  const pressed = event.target instanceof HTMLElement && event.target.matches("button, a, summary");
  if (pressed && (event.key === "Enter" || event.key === " ")) return;
  const typed = begun ? `${begun} ${event.key}` : event.key;
  begun = "";
  clearTimeout(timer);
  const found = bound().findLast(({ keys }) => keys.split(", ").includes(typed));
  if (found) {
    event.preventDefault();
    found.run();
  } else if (bound().some(({ keys }) => keys.startsWith(`${event.key} `))) {
    begun = event.key;
    timer = setTimeout(() => (begun = ""), SEQUENCE_MS);
  }
}

document.addEventListener("keydown", handleKey);
