// What is copied of a terminal is what one types: the commands, without their prompts and without what they print.
const commandsOf = (text) => {
  const commands = [];
  let isTyped = false;
  for (const line of text.split("\n")) {
    isTyped = line.startsWith("$ ") || (isTyped && line.startsWith("> "));
    if (isTyped) commands.push(line.slice(2));
  }
  return commands.join("\n");
};

document.addEventListener(
  "click",
  ({ target }) => {
    const button = target.closest?.("[data-clipboard-target]");
    const code = button && document.querySelector(button.dataset.clipboardTarget);
    const commands = code?.closest(".language-console, .console, .highlight") && commandsOf(code.textContent);
    if (commands) button.dataset.clipboardText = commands;
  },
  true, // before the theme copies
);

// What scrolls sideways can be scrolled by keys.
const markScrollers = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .picture, pre > code")) {
    if (box.scrollWidth <= box.clientWidth) box.removeAttribute("tabindex");
    else box.tabIndex = 0;
  }
};
addEventListener("load", markScrollers);
addEventListener("resize", markScrollers);
