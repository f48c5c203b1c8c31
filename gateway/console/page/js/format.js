/** Values as texts for people. */

import { LANGUAGE, t, translateWord } from "./texts.js";

const units = [
  ["year", 31536000],
  ["month", 2592000],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];
const relative = createOnce(() => new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto", style: "narrow" }));
const whole = createOnce(() => new Intl.NumberFormat(LANGUAGE));
const compact = createOnce(() => new Intl.NumberFormat(LANGUAGE, { notation: "compact" }));

/** Returns a function that makes a value at its first call: to make a formatter takes milliseconds. */
function createOnce(make) {
  let value;
  return () => (value ??= make());
}

export const formatCount = (value) => whole().format(Number(value ?? 0));

/** A large number in few characters, such as `1.2M`. */
export const formatCompact = (value) => compact().format(Number(value ?? 0));

/** US dollars; of less than a cent the first two digits. */
export function formatCost(value) {
  const digits = value && value < 0.01 ? { maximumSignificantDigits: 2 } : {};
  return new Intl.NumberFormat(LANGUAGE, { style: "currency", currency: "USD", ...digits }).format(value);
}

/** `1 bullet`, `2 bullets`; the catalogue has the forms of the noun. */
export const formatPlural = (value, noun) =>
  t(`count.${noun.replaceAll(" ", "_")}.${Number(value) === 1 ? "one" : "other"}`, { count: formatCount(value) });

/** `3 hr. ago`; nothing for no time. */
export function formatAge(timestamp) {
  if (!timestamp) return "";
  const seconds = (Date.parse(timestamp) - Date.now()) / 1000;
  const [unit, size] = units.find(([, unitSeconds]) => Math.abs(seconds) >= unitSeconds) ?? ["second", 1];
  return Math.abs(seconds) < 5 ? t("format.now") : relative().format(Math.round(seconds / size), unit);
}

/** The whole time in the reader's zone. */
export const formatTime = (timestamp) => (timestamp ? new Date(timestamp).toLocaleString(LANGUAGE) : "");

/** A day in UTC, such as `Nov 25`. */
export const formatDay = (time) =>
  new Date(time).toLocaleDateString(LANGUAGE, { month: "short", day: "numeric", timeZone: "UTC" });

/** `REVISION_KIND_CURATE` as `curate`: the name of a value in code. */
export function readEnum(value, prefix) {
  const name = String(value ?? "")
    .replace(prefix, "")
    .toLowerCase()
    .replaceAll("_", " ");
  return name === "unspecified" ? "" : name;
}

/** `REVISION_KIND_CURATE` as the reader's word for it. */
export const formatEnum = (value, prefix) => translateWord(readEnum(value, prefix));

export const formatScore = (value) => Number(value ?? 0).toFixed(2);

/** A whole number with its sign. */
export const formatSigned = (value) => `${value > 0 ? "+" : ""}${formatCount(value)}`.replace("-", "−");
export const formatPercent = (value) => `${Math.round(Number(value ?? 0) * 100)} %`;

export function formatMilliseconds(value) {
  const ms = Number(value ?? 0);
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Returns a text, shortened with an ellipsis. */
export const shortenText = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
