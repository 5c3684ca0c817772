// Numbers and times as people say them.
import { h, hidden } from "./dom.js";

const numbers = new Intl.NumberFormat("en");
export const count = (value) => (value === undefined || value === null ? "" : numbers.format(value));

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Seconds as "0.2 s", "41 min", "3 h", "12 d". */
export function span(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${count(Math.floor(seconds / 86400))} d`;
}

export function bytes(value) {
  if (value < 1024) return plural(value, "byte");
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let at = -1;
  let left = value;
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    at++;
  }
  return `${left < 10 ? left.toFixed(1) : count(Math.round(left))} ${units[at]}`;
}

export function rate(value) {
  if (value === undefined || value === null) return "";
  return value >= 100 ? count(Math.round(value)) : value.toFixed(1);
}

export function utc(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "" : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** The time of day; of another day with its date. Texts of the server and of these pages have this one form. */
export function clock(seconds) {
  const text = utc(seconds);
  return text.slice(0, 10) === utc(now()).slice(0, 10) ? text.slice(11) : text;
}

/** So many milliseconds the server's clock is ahead of the browser's, which may be far from it. */
export let ahead = 0;
export function noteServerTime(header) {
  const told = Date.parse(header ?? "");
  if (!Number.isNaN(told) && Math.abs(told - Date.now() - ahead) > 2000) ahead = told - Date.now();
}
export const now = () => (Date.now() + ahead) / 1000;

/** How long ago that was, or how long it takes until then. The exact time stands in the title, and for readers. */
export function age(at, more) {
  if (at === undefined || at === null) return "";
  const left = at - now();
  const words = left > 1 ? `in ${span(left)}` : span(-left);
  return h(
    "time",
    { datetime: new Date(at * 1000).toISOString(), title: utc(at), ...more },
    words,
    hidden(`, ${utc(at)}`),
  );
}

/** An age that the server gives in seconds. */
export function aged(seconds, more) {
  if (seconds === undefined || seconds === null) return "";
  const at = now() - seconds;
  return h(
    "time",
    { datetime: new Date(at * 1000).toISOString(), title: `since ${utc(at)}`, ...more },
    span(seconds),
  );
}

/** A text of anybody's in a line: cut, without line ends, and unable to turn the direction of what stands beside it. */
export function quoted(text, size = 120) {
  const line = String(text).replace(/\s+/g, " ");
  return h("q", { title: line.length > size ? line.slice(0, 1000) : null }, h("bdi", null, cut(line, size)));
}

export function cut(text, size) {
  const characters = Array.from(String(text).slice(0, 2 * size + 2));
  return visible(characters.length > size ? `${characters.slice(0, size).join("")}…` : characters.join(""));
}

/** Characters that turn the direction of a text, or show nothing, are named: "evil" backwards is not "live". */
export function visible(text) {
  return text.replace(
    /[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g,
    (one) => `‹U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`,
  );
}

export const nameOf = (queueUrl) =>
  String(queueUrl ?? "")
    .split("/")
    .pop();
