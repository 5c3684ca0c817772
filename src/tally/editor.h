/* A text in the editor of whoever runs the tool: VISUAL, else EDITOR, else vi. */
#ifndef TALLY_TALLY_EDITOR_H
#define TALLY_TALLY_EDITOR_H

#include "base/buffer.h"
#include "tally/command.h"

#define EDITOR_PATH_SIZE 4096

/* A text that was changed, and the file where it is until editor_end(). */
struct edited {
    struct buffer text; /* a NUL follows, which text.size does not count */
    char path[EDITOR_PATH_SIZE];
};

/* Waits until the editor has ended. A line end that it has added behind the last line is left out. EXIT_DONE,
 * EXIT_USAGE or EXIT_LOCAL; if it is not EXIT_DONE the user has been told, and nothing need be ended. */
int editor_change(const struct invocation *invocation, const char *text, size_t size_max, struct edited *edited);

/* Removes the file, or says where it stays: what was written must not be lost with a refusal. */
void editor_end(struct edited *edited, bool stays);

#endif
