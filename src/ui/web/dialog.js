// Says what would happen before it happens, and then does it.
import { h, isShown } from "./dom.js";
import { call, takesDryRun } from "./api.js";
import { plural } from "./words.js";

const said = () => document.getElementById("said");

export function say(...children) {
  const line = h("p", null, ...children);
  said().replaceChildren(line);
  setTimeout(() => line.remove(), 10000);
}

/** Opens a dialog. `about`: nodes, or a promise of them, that say what would happen. `doing`: called when the person
 *  goes on; gives the sentence that says what was done. `typed`: a name to type first. */
export function confirm({ title, about, button, doing, typed, isDanger = true, form }) {
  let hasFailed = false; // what would happen is not known
  const trouble = h("p.bad", { role: "alert" });
  const name = typed && h("input", { id: "typed", autocomplete: "off", spellcheck: "false", oninput: check });
  const go = h(isDanger ? "button.do.go" : "button.go", { type: "submit", disabled: Boolean(typed) }, button);
  const what = h("div.about", null, "Asking the server what would happen…");
  const dialog = h(
    "dialog",
    { "aria-labelledby": "dialog-title", onclose: () => dialog.remove() },
    h(
      "form",
      { method: "dialog", onsubmit: submit },
      h("h2", { id: "dialog-title" }, title),
      what,
      form,
      name && h("p", null, h("label", { for: "typed" }, "Type ", h("code", null, typed), " to go on"), name),
      trouble,
      h("p.buttons", null, h("button", { type: "button", onclick: () => dialog.close() }, "Leave it"), go),
    ),
  );
  function check() {
    go.disabled = hasFailed || (name && name.value !== typed);
  }
  async function submit(event) {
    event.preventDefault();
    go.disabled = true;
    try {
      say(await doing(dialog));
      dialog.close();
      document.dispatchEvent(new Event("tally-changed"));
    } catch (error) {
      trouble.textContent = error.message;
      check();
    }
  }
  document.body.append(dialog);
  dialog.showModal();
  Promise.resolve(about).then(
    (nodes) => what.replaceChildren(...[nodes].flat(2).filter(isShown)),
    (error) => {
      what.replaceChildren(h("p.bad", null, error.message));
      hasFailed = true;
      check();
    },
  );
  return dialog;
}

const NOUNS = {
  Messages: "message",
  InFlight: "of them in flight",
  DeadLettered: "goes to the dead-letter queue",
  Units: "unit",
  Batches: "batch waits again for what has failed",
  Groups: "group",
  HeldGroups: "held group gets some of them",
};
const PLURALS = {
  InFlight: "of them in flight",
  DeadLettered: "go to the dead-letter queue",
  Batches: "batches wait again for what has failed",
  HeldGroups: "held groups get some of them",
};

/** A batch that loses a unit does not end by that. */
const ofBatches = ({ Batches }) => ` of ${Batches > 0 ? plural(Batches, "batch", "batches") : "batches"}`;

/** What a dry run says, as a list of sentences: "231 messages", "12 units of 3 batches". Of a move the queues say how
 *  many messages. */
function tell(reply, known) {
  const isKnown = (key) =>
    known.includes(key) ||
    (key === "Messages" && reply.Queues?.length > 0) ||
    (key === "Batches" && reply.Units !== undefined);
  const lines = Object.entries(reply)
    .filter(([key, value]) => NOUNS[key] && Number(value) > 0 && !isKnown(key))
    .map(([key, value]) =>
      h("li", null, plural(Number(value), NOUNS[key], PLURALS[key]), key === "Units" && ofBatches(reply)),
    );
  for (const { QueueUrl, Messages } of reply.Queues ?? [])
    lines.push(h("li", null, plural(Messages, "message"), " to ", h("bdi", null, String(QueueUrl).split("/").pop())));
  if (reply.Refused > 0)
    lines.push(
      h(
        "li",
        null,
        `${plural(reply.Refused, "message")} would stay: ` +
          `${[...new Set((reply.Refusals ?? []).map((one) => one.Reason))].join(", ")}`,
      ),
    );
  if (reply.IsComplete === false) lines.push(h("li", null, "and perhaps more: the server looked at a part only."));
  return lines;
}

/** What becomes of those that wait for what is moved, or ends. */
function tellDependents({ Dependents, Queues }) {
  if (!(Dependents > 0)) return null;
  const words = `${plural(Dependents, "message waits", "messages wait")} for ${Queues ? "what is moved" : "this"}: `;
  return h(
    "p",
    null,
    words,
    Queues
      ? "they go on to wait until it succeeds."
      : ["each is cancelled too, unless its ", h("code", null, "Tally.AfterFailure"), " lets it run or holds it."],
  );
}

/** What the action would do, by a dry run of the server where it has one; else the sentences that are given. Without
 *  `before` these say it, and a list stands there only if there is more to say. `more`: what else to say of the dry
 *  run. */
export async function foresee(action, members, otherwise, before, more) {
  if (!(await takesDryRun(action))) return [h("p", null, otherwise)];
  const told = await call(action, { ...members, DryRun: true });
  const lines = tell(told, before === undefined ? ["Messages", "DeadLettered", "Groups"] : []);
  const list = h("ul", null, lines.length > 0 ? lines : h("li", null, "nothing"));
  const isListed = before !== undefined || lines.length > 0;
  return [
    h("p", null, otherwise),
    isListed && [h("p", null, before ?? "This also touches:"), list],
    tellDependents(told),
    await more?.(told),
  ];
}

/** A button that opens the dialog. */
export function button(label, props, isDanger = false) {
  return h(
    isDanger ? "button.do" : "button",
    { type: "button", onclick: () => confirm({ isDanger, ...props() }) },
    label,
  );
}

/** A button for what is undone by its counterpart, as a pause: no dialog. */
export function plain(label, doing) {
  const press = async (event) => {
    event.target.disabled = true;
    try {
      say(await doing());
      document.dispatchEvent(new Event("tally-changed"));
    } catch (error) {
      say(h("span.bad", null, error.message));
    }
    event.target.disabled = false;
  };
  return h("button", { type: "button", onclick: press }, label);
}
