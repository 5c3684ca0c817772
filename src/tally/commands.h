/* The tables of commands and of their groups, generated from commands.txt. */
#ifndef TALLY_TALLY_COMMANDS_H
#define TALLY_TALLY_COMMANDS_H

#include "tally/command.h"

extern const struct command_row commands[];
extern const size_t command_count;

/* Commands whose names begin with the same word. */
struct group_row {
    const char *name; /* "queue" */
    const char *text;
};

extern const struct group_row groups[];
extern const size_t group_count;

/* The command whose name begins the words, and how many words its name has; NULL if there is none. */
const struct command_row *command_of_words(int count, char *const *words, int *name_count);

/* Is its name "GROUP something"? */
bool command_is_of_group(const struct command_row *row, const char *group);

/* Does some command's name begin with this word ("queue", "batch")? */
bool command_is_group(const char *word);

#endif
