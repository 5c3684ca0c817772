/* Reports the findings in a folder: to people on standard output and, in a salvage, to programs in a file with one JSON
 * object a line. */
#ifndef TALLY_TALLYD_INSPECT_REPORT_H
#define TALLY_TALLYD_INSPECT_REPORT_H

#include "engine/salvage.h"

#include <stdio.h>

#define INSPECT_REPORT_NAME "salvage-report.jsonl"

struct inspect_report {
    const char *folder; /* the heading of the notes: printed before the first */
    FILE *file;         /* every note, one a line; NULL: none */
    bool is_headed;
    unsigned printed[SALVAGE_NOTE_COUNT];
    uint64_t counts[SALVAGE_NOTE_COUNT];
};

/* For struct salvage_options: `context` is the report. */
void inspect_report_note(void *context, const struct salvage_note *note);

/* Prints how many of each kind were not printed one by one; then, in a line, `verdict` and a summary of the
 * contents. */
void inspect_report_end(struct inspect_report *report, const struct salvage *salvage, const char *verdict);

#endif
