/* The manual pages of the tool, made of the tables that its helps are made of: tally(1), one of each group and one of
 * each command. */
#ifndef TALLY_TALLY_MANUAL_H
#define TALLY_TALLY_MANUAL_H

#include "base/buffer.h"
#include "tally/commands.h"

/* Appends a page; the date is mdoc_date()'s. */
void manual_write_overview(struct buffer *page, const char *date);
void manual_write_group(struct buffer *page, const char *date, const struct group_row *group);
void manual_write_command(struct buffer *page, const char *date, const struct command_row *row);

/* Writes all of them into a folder: tally.1, tally-queue.1, tally-queue-create.1 and so on. EXIT_DONE, or EXIT_LOCAL
 * after telling the user. */
int manual_write_all(const char *folder);

#endif
