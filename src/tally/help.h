/* The help texts, made from the table of commands. */
#ifndef TALLY_TALLY_HELP_H
#define TALLY_TALLY_HELP_H

#include "tally/command.h"
#include <stdio.h>

/* What tally is, all commands, first steps, exit statuses. */
void help_overview(FILE *out);

/* The commands of a group ("queue"). */
void help_group(FILE *out, const char *group);

/* All about one command. */
void help_command(FILE *out, const struct command_row *row);

#endif
