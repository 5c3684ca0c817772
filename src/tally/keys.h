/* Unit keys from the command line, or from standard input, one a line, where the only argument is "-". */
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

/* Takes the arguments from number `first` on. EXIT_DONE, or what to exit with; end it with keys_deinit() either way. */
int keys_init(struct keys *keys, const struct invocation *invocation, int first);
void keys_deinit(struct keys *keys);

#endif
