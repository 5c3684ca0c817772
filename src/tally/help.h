/* The help texts, made from the table of commands. */
#ifndef TALLY_TALLY_HELP_H
#define TALLY_TALLY_HELP_H

#include "tally/command.h"
#include <stdio.h>

/* What the overview says of first steps and of the server; it begins with a line, and ends with one. */
extern const char help_first_steps[];

struct status_row {
    const char *status; /* "0", "128 + N" */
    const char *meaning;
};
extern const struct status_row help_statuses[];
extern const size_t help_status_count;

/* What tally is, all commands, first steps, exit statuses. */
void help_overview(FILE *out);

/* The commands of a group ("queue"). */
void help_group(FILE *out, const char *group);

/* All about one command. */
void help_command(FILE *out, const struct command_row *row);

#endif
