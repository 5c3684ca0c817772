// Makes src/actions.js and src/actions.d.ts of the service model in models/: the table of Tally's actions, and their
// types.  node make-actions.mjs [--check]  With --check it writes nothing, and fails if one of the two is stale.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

const folder = new URL("../../models/tally/", import.meta.url);
const [version] = readdirSync(folder);
const { operations, shapes } = JSON.parse(readFileSync(new URL(`${version}/service-2.json`, folder)));
const { pagination } = JSON.parse(readFileSync(new URL(`${version}/paginators-1.json`, folder)));

const methodOf = (action) => action[0].toLowerCase() + action.slice(1);
const HEAD = "// Made by make-actions.mjs from the service model.\n";
const COLUMNS = 120;
const SCALARS = { blob: "bytes", timestamp: "date" };

/** The text with lines that are not too long. */
function folded(text) {
  return text.split("\n").map((line) => (line.length > COLUMNS ? foldedLine(line) : line)).join("\n");
}

function foldedLine(line) {
  const indent = `${line.match(/^ */)[0]}    `;
  const lines = [""];
  for (const part of line.split(/(?<=, |\| )/))
    if (lines.at(-1).length + part.trimEnd().length <= COLUMNS) lines.push(lines.pop() + part);
    else lines.push(indent + part);
  return lines.map((part) => part.trimEnd()).join("\n");
}

// --- actions.js ------------------------------------------------------------------------------------------------------

/** The shapes within a shape, by the names of their members; of a list or map, one under "*". */
function partsOf({ type, members, member, value }) {
  if (type === "list") return { "*": member.shape };
  if (type === "map") return { "*": value.shape };
  return Object.fromEntries(Object.entries(members ?? {}).map(([name, part]) => [name, part.shape]));
}

/** Does a value of the shape hold what JSON has no type for? */
function needsWork(name, within = []) {
  const shape = shapes[name];
  if (shape === undefined || within.includes(name)) return false;
  return shape.type in SCALARS || Object.values(partsOf(shape)).some((part) => needsWork(part, [...within, name]));
}

function partsToChange(name) {
  const parts = Object.entries(partsOf(shapes[name])).filter(([, part]) => needsWork(part));
  return Object.fromEntries(parts.map(([member, part]) => [member, SCALARS[shapes[part].type] ?? part]));
}

function actionOf(action) {
  const { input, output } = operations[action];
  const token = Object.entries(shapes[input?.shape]?.members ?? {}).find(([, member]) => member.idempotencyToken)?.[0];
  const needed = (side) => (needsWork(side?.shape) ? side.shape : undefined);
  return { action, token, input: needed(input), output: needed(output), pages: pagination[action]?.result_key };
}

function errorsOf() {
  const errors = Object.entries(shapes).filter(([, shape]) => shape.exception);
  return Object.fromEntries(errors.map(([name, { error }]) => [name, error.httpStatusCode]));
}

function literal(value) {
  if (typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{ ${members.map(([name, member]) => `${name === "*" ? '"*"' : name}: ${literal(member)}`).join(", ")} }`;
}

/** An object with a line for each of its members. */
function table(name, comment, rows) {
  const lines = Object.entries(rows).map(([key, row]) => `  ${key}: ${literal(row)},\n`);
  return `\n/** ${comment} */\nexport const ${name} = {\n${lines.join("")}};\n`;
}

function makeTables() {
  const changed = Object.keys(shapes).filter((name) => needsWork(name) && !(shapes[name].type in SCALARS));
  return (
    HEAD +
    table(
      "actions",
      "By method: the action, the member that tells a repeat, the shapes of request and reply, and what has pages.",
      Object.fromEntries(Object.keys(operations).map((action) => [methodOf(action), actionOf(action)])),
    ) +
    table(
      "shapes",
      'Where dates and bytes are. "*": in each item.',
      Object.fromEntries(changed.map((name) => [name, partsToChange(name)])),
    ) +
    table("errorNames", "The errors, with their HTTP status.", errorsOf())
  );
}

// --- actions.d.ts ----------------------------------------------------------------------------------------------------

const TYPES = { blob: "Uint8Array", timestamp: "Date", boolean: "boolean", string: "string" };

function typeOf(name) {
  const { type, document, member, value, sparse } = shapes[name];
  const words = shapes[name].enum;
  if (document) return "unknown";
  if (words) return words.map((word) => JSON.stringify(word)).join(" | ");
  if (type === "list") return `Array<${typeOf(member.shape)}${sparse ? " | null" : ""}>`;
  if (type === "map") return `Record<string, ${typeOf(value.shape)}>`;
  return type === "structure" ? name : (TYPES[type] ?? "number");
}

/** A comment, of lines that are not too long. */
function comment(html, indent) {
  const words = (html ?? "").replaceAll(/<\/?code>/g, "`").split(" ");
  const lines = [""];
  for (const word of words)
    if (`${indent}/** ${lines.at(-1)} ${word}`.length < COLUMNS - 3) lines.push(`${lines.pop()} ${word}`.trimStart());
    else lines.push(word);
  return `${indent}/** ${lines.join(`\n${indent} *  `)} */\n`;
}

function interfaceOf(name) {
  const { members, required = [], documentation } = shapes[name];
  const fields = Object.entries(members).map(([member, part]) => {
    const isGiven = required.includes(member) && !part.idempotencyToken; // else the client makes one
    const key = isGiven ? member : `${member}?`;
    return `${comment(part.documentation, "  ")}  ${key}: ${typeOf(part.shape)};\n`;
  });
  return `\n${comment(documentation, "")}export interface ${name} {\n${fields.join("")}}\n`;
}

function signatureOf(action) {
  const { input, output, documentation } = operations[action];
  const isOptional = (shapes[input?.shape]?.required ?? []).length === 0;
  const request = `input${isOptional ? "?" : ""}: ${input?.shape ?? "Record<string, never>"}`;
  const reply = output ? `${output.shape} & Metadata` : "Metadata";
  const signature = `  ${methodOf(action)}(${request}, options?: CallOptions): Promise<${reply}>;\n`;
  return comment(documentation, "  ") + signature;
}

function pagesOf(action) {
  const { input, output } = operations[action];
  const items = shapes[output.shape].members[pagination[action].result_key].shape;
  return `  ${methodOf(action)}(input?: ${input.shape}): AsyncGenerator<${typeOf(shapes[items].member.shape)}>;\n`;
}

function makeTypes() {
  const structures = Object.keys(shapes).filter((name) => {
    const { type, exception, document } = shapes[name];
    return type === "structure" && !exception && !document;
  });
  const errors = Object.keys(errorsOf()).map((name) => `  ${name}: ErrorClass;\n`);
  return `${HEAD}import type { CallOptions, ErrorClass, Metadata } from "./index.js";

/** Tally's actions. */
export interface Actions {
${Object.keys(operations).map(signatureOf).join("")}}

/** Lists, item by item: each page is asked for when it is needed. */
export interface Lists {
${Object.keys(pagination).map(pagesOf).join("")}}

/** The classes of Tally's errors. */
export interface Errors {
${errors.join("")}}
${structures.map(interfaceOf).join("")}`;
}

// --- both ------------------------------------------------------------------------------------------------------------

let isStale = false;
for (const [name, text] of [["actions.js", makeTables()], ["actions.d.ts", makeTypes()]]) {
  const path = new URL(`src/${name}`, import.meta.url);
  const made = folded(text);
  if (!process.argv.includes("--check")) writeFileSync(path, made);
  else if (readFileSync(path, "utf8") !== made) {
    console.error(`clients/javascript/src/${name} is older than the model: node clients/javascript/make-actions.mjs`);
    isStale = true;
  }
}
process.exitCode = isStale ? 1 : 0;
