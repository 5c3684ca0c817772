/* The table of commands. */
#ifndef TALLY_TALLY_COMMANDS_H
#define TALLY_TALLY_COMMANDS_H

#include "tally/command.h"

extern const struct command_row commands[];
extern const size_t command_count;

/* The command that the words begin with, and how many of them are its name; NULL if there is none. */
const struct command_row *command_find(int count, char *const *words, int *name_count);

/* Whether some command's name begins with this word: "queue", "batch". */
bool command_is_group(const char *word);

#endif
