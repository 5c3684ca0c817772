/* How a step of a relay ended that called a source or a sink. */
#ifndef TALLY_RELAY_STEP_H
#define TALLY_RELAY_STEP_H

#include <stdarg.h>
#include <stdbool.h>

enum step {
    STEP_OK,
    STEP_FENCED,      /* another relay owns the source: nothing was changed. Back to the stand-by */
    STEP_UNREACHABLE, /* no answer, or a connection that broke: what was asked for may have happened or not */
    STEP_UNFIT,       /* it can't work until somebody changes something: schema, rights, configuration */
};

#define FAULT_TEXT_SIZE 512u

/* What was wrong, as a text for the operator: what was tried, where, the answer, and what to do. Set whenever a step is
 * not STEP_OK. */
struct fault {
    char text[FAULT_TEXT_SIZE];
};

/* Turns a text that may come from a stranger, or end inside a character, into one line of valid UTF-8. The text goes
 * into logs, terminals, messages and databases; one that refuses it would be asked again for ever. A byte that is no
 * part of such a character becomes a question mark, or a blank where a line ends. */
void text_make_plain(char *text);

/* Sets the text, cut to fit and made plain, and returns `step`. */
enum step fault_set(struct fault *fault, enum step step, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
