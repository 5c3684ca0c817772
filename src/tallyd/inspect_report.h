/* What is found in a folder, for people on standard output and, in a salvage, for programs in a file: one JSON object a
 * line. */
#ifndef TALLY_TALLYD_INSPECT_REPORT_H
#define TALLY_TALLYD_INSPECT_REPORT_H

#include "engine/salvage.h"

#include <stdio.h>

#define INSPECT_REPORT_NAME "salvage-report.jsonl"

struct inspect_report {
    const char *folder; /* what the notes are about: printed before the first */
    FILE *file;         /* every note, one a line; NULL: none */
    bool is_headed;
    unsigned printed[SALVAGE_NOTE_COUNT];
    uint64_t counts[SALVAGE_NOTE_COUNT];
};

/* For struct salvage_options: `context` is the report. */
void inspect_report_note(void *context, const struct salvage_note *note);

/* How many of each kind there are that were not printed one by one; then, in a line, `verdict` and what is there. */
void inspect_report_end(struct inspect_report *report, const struct salvage *salvage, const char *verdict);

#endif
