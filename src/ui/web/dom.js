// Makes and changes nodes of the page. What comes from a server becomes text, never markup: there is no innerHTML here,
// and the page's policy forbids it.

/** h("a.row", { href: "#/", onclick: f }, "text", node, [more]); null and false are left out. */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  return fill(document.createElement(name), classes, props, children);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, props, ...children) {
  return fill(document.createElementNS(SVG, name), [], props, children);
}

function fill(node, classes, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) handle(node, key.slice(2), value);
    else if (key === "class") classes.push(...value.split(" ").filter(Boolean));
    else if (key === "value" && node instanceof HTMLElement && "value" in node && node.nodeName !== "OPTION")
      node.given = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  if (classes.length > 0) node.setAttribute("class", classes.join(" "));
  node.append(...children.flat(Infinity).filter(isShown));
  if (node.given !== undefined) node.value = node.given;
  return node;
}

export function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}

/** One listener for each kind of event; what it calls may change with morph(). */
function handle(node, kind, call) {
  node.handlers ??= {};
  if (!(kind in node.handlers)) node.addEventListener(kind, (event) => node.handlers[kind]?.(event));
  node.handlers[kind] = call;
}

/** Makes `old` look like `made`, and keeps what is the same: so focus, scrolling and what is typed stay. */
export function morph(old, made) {
  const keep = [...old.childNodes];
  const want = [...made.childNodes];
  want.forEach((node, i) => {
    if (i >= keep.length) old.append(node);
    else if (!isAlike(keep[i], node)) keep[i].replaceWith(node);
    else update(keep[i], node);
  });
  keep.slice(want.length).forEach((node) => node.remove());
}

function isAlike(a, b) {
  if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) return false;
  return a.nodeType !== Node.ELEMENT_NODE || a.getAttribute("data-key") === b.getAttribute("data-key");
}

function update(old, made) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  for (const { name } of [...old.attributes])
    if (!made.hasAttribute(name) && !(old.nodeName === "DETAILS" && name === "open")) old.removeAttribute(name);
  for (const { name, value } of made.attributes) {
    if (old.nodeName === "DETAILS" && name === "open") continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const kind of Object.keys(old.handlers ?? {})) old.handlers[kind] = null;
  for (const [kind, call] of Object.entries(made.handlers ?? {})) handle(old, kind, call);
  morph(old, made);
  if (old.given !== made.given) old.value = old.given = made.given; // else it is what somebody has typed
}

/** Text for whoever does not see the page. */
export function hidden(text) {
  return h("span.vh", null, text);
}
