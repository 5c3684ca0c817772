/* The history of a test: a hash of what the server did in it, in order. Two runs of a test have the same one, and so
 * have two versions of the server that decide and write the same (tests/history/run).
 *
 * If the variable TALLY_HISTORY names a file, the program writes its history there when it ends; else nothing is noted.
 * Any thread may note something, but a test that does so in several has no history that repeats. */
#ifndef TALLY_TESTS_SUPPORT_HISTORY_H
#define TALLY_TESTS_SUPPORT_HISTORY_H

#include "api/front.h"
#include "engine/salvage.h"
#include "log/disk.h"

bool history_is_wanted(void); /* does the variable name a file? */
void history_begin(void);     /* anew */
void history_note(struct bytes seen);
void history_note_number(uint64_t seen);
void history_note_reply(const struct exchange *exchange);

/* What a salvage has to say; struct salvage_options, .report. */
void history_note_salvage(const struct salvage_note *note);

/* The text of /metrics, without how much memory and room things take. */
void history_note_metrics(const struct front *front);

/* The names and contents of all files of a disk in memory. */
void history_note_disk(struct disk *disk);

uint64_t history_value(void);

#endif
