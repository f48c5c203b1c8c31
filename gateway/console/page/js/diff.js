/** The differences between two texts, word by word. */

import { h } from "./dom.js";

/** Above this many comparisons the middle counts as replaced: a bullet of 20,000 characters must not block the page. */
const MOST = 1_000_000;
/** With a smaller share of words in common, the old text and the new one read better one after the other. */
const LEAST_SHARED = 0.35;

/** Returns the parts of both texts: `{kind: "same" | "gone" | "new", text}`. */
export function compareTexts(before, after) {
  const a = splitWords(before);
  const b = splitWords(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const middle = compareWords(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const found = joinParts([
    createRun("same", a.slice(0, head)),
    ...middle,
    createRun("same", a.slice(a.length - tail)),
  ]);
  return isSimilar(found, before, after)
    ? found
    : joinParts([
        { kind: "gone", text: before },
        { kind: "new", text: after },
      ]);
}

function isSimilar(found, before, after) {
  const shared = found.reduce((sum, { kind, text }) => sum + (kind === "same" ? text.trim().length : 0), 0);
  return shared >= LEAST_SHARED * Math.min(before.length, after.length);
}

/** Shows both texts in one: removed words struck through, new words marked. */
export function drawDiff(before, after) {
  const tags = { same: "span", gone: "del", new: "ins" };
  return h(
    "p",
    { class: "diff text" },
    compareTexts(before, after).map(({ kind, text }) => h(tags[kind], null, text)),
  );
}

// A Japanese or Chinese sentence has no spaces: there every character counts as a word.
const splitWords = (text) =>
  text.match(/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]|[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}\s]/gu) ?? [];
const createRun = (kind, list) => ({ kind, text: list.join("") });

function joinParts(list) {
  const result = [];
  for (const part of list.filter(({ text }) => text)) {
    if (result.at(-1)?.kind === part.kind) result.at(-1).text += part.text;
    else result.push({ ...part });
  }
  return result;
}

/** Compares by the longest common subsequence. */
function compareWords(a, b) {
  if (a.length * b.length > MOST) return [createRun("gone", a), createRun("new", b)];
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      longest[at] = a[i] === b[j] ? longest[at + width + 1] + 1 : Math.max(longest[at + width], longest[at + 1]);
    }
  }
  const result = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const at = i * width + j;
    if (i < a.length && j < b.length && a[i] === b[j]) {
      result.push(createRun("same", [a[i]]));
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && longest[at + width] >= longest[at + 1])) {
      result.push(createRun("gone", [a[i]]));
      i += 1;
    } else {
      result.push(createRun("new", [b[j]]));
      j += 1;
    }
  }
  return result;
}
