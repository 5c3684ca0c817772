/* What people are shown of texts that others wrote, in a log, in the activity of a namespace and in a terminal. Nothing
 * of such a text may end the line, speak to the terminal, or let what stands beside it look like something else. */
#ifndef TALLY_BASE_SHOWN_H
#define TALLY_BASE_SHOWN_H

#include "base/bytes.h"

/* Takes a character off the front of the text, which is not empty. Returns what stands for it: a blank for control
 * characters, separators of lines, and marks that turn the direction of a text; "?" for a byte that is no UTF-8; else
 * the character itself. What stands for a text is never longer than it. */
struct bytes shown_take(struct bytes *text);

/* For a text of several lines: line ends and tabs stay. The other one puts what stands for the text in its place. */
struct bytes shown_take_of_lines(struct bytes *text);
void shown_clean_lines(char *text);

#endif
