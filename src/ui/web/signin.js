// Signing in: from the secret the key of today is derived, here; the secret itself is neither sent nor kept.
import { h } from "./dom.js";
import { describe, forgetCaller, needsSigning } from "./api.js";
import { canSign, derive, forget, keep, stampOf } from "./sign.js";
import { heading } from "./parts.js";
import { now } from "./words.js";

const text = (id, label, type, autocomplete, isNeeded) =>
  h(
    "p",
    null,
    h("label", { for: id }, label),
    h("input", { id, type, autocomplete, required: isNeeded, spellcheck: "false" }),
  );

export default {
  isStill: true,
  title: () => "Sign in",
  load: async () => 0,

  draw(_, { query }, visit) {
    const submit = async (event) => {
      event.preventDefault();
      const { elements } = event.currentTarget;
      visit.refused = null;
      try {
        keep(
          await derive(elements.key.value.trim(), elements.secret.value, elements.token.value.trim(), stampOf(now())),
        );
        forgetCaller();
        await describe();
        location.hash = query.back?.startsWith("#/") ? query.back : "#/";
      } catch (error) {
        forget();
        visit.refused = error.message;
        visit.draw();
      }
    };
    if (!needsSigning())
      return h(
        "p.nothing",
        null,
        "This server has no credentials: nobody need sign in. ",
        h("a", { href: "#/" }, "Overview"),
      );
    return h(
      "section.signin",
      null,
      heading("Sign in"),
      h(
        "p",
        null,
        "With an access key of this server's file of credentials. What you may see and do is what it may.",
      ),
      !canSign() &&
        h(
          "p.bad",
          null,
          "Browsers sign only over HTTPS and on this machine. Use the address that begins with https://, or a " +
            "tunnel: ssh -L 9324:localhost:9324 HOST.",
        ),
      (visit.refused ?? query.why) && h("p.bad", { role: "alert" }, visit.refused ?? query.why),
      h(
        "form",
        { onsubmit: submit },
        text("key", "Access key", "text", "username", true),
        text("secret", "Secret", "password", "current-password", true),
        text("token", "Session token, if it has one", "text", "off", false),
        h("p", null, h("button", { type: "submit", disabled: !canSign() }, "Sign in")),
      ),
      h(
        "p.soft",
        null,
        "The secret stays in this page and is forgotten at once. A key derived from it, good for today, stays " +
          "in this tab until it closes.",
      ),
    );
  },
};
