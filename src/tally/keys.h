/* Unit keys: from the command line, or, if the only argument is "-", from standard input, one a line. */
#ifndef TALLY_TALLY_KEYS_H
#define TALLY_TALLY_KEYS_H

#include "tally/command.h"
#include "tally/input.h"

struct keys {
    char **items; /* borrowed from the arguments, or from `lines` */
    size_t count;
    struct buffer input;
    struct lines lines;
};

/* Takes the arguments from number `first` on. EXIT_DONE, or the exit status. In both cases call keys_deinit(). */
int keys_init(struct keys *keys, const struct invocation *invocation, int first);
void keys_deinit(struct keys *keys);

#endif
