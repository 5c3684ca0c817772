// The address names what is seen, filter included: #/queue/orders?state=held
import { h } from "./dom.js";

/** {page, name, query} of the address. */
export function route() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return { page, name: decode(rest.join("/")), query: Object.fromEntries(new URLSearchParams(search)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a page; members of the query that say nothing are left out. */
export function to(page, name, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(said).toString();
  return `#/${page}${name ? `/${encodeURIComponent(name)}` : ""}${search ? `?${search}` : ""}`;
}

export const link = (href, ...children) => h("a", { href }, ...children);

/** A link that j and k walk to. */
export const row = (href, ...children) => h("a", { href, "data-row": true }, ...children);

/** This page with another query. */
export function change(query) {
  const { page, name, query: old } = route();
  location.hash = to(page, name, { ...old, ...query });
}
