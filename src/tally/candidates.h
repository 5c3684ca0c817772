/* What fits at the cursor of an unfinished command line, for the completion of shells. It is found in the tables of
 * commands and options alone; names that only the server knows are left to live_names.h. */
#ifndef TALLY_TALLY_CANDIDATES_H
#define TALLY_TALLY_CANDIDATES_H

#include "base/buffer.h"

/* What else fits there, besides the candidates that are listed. */
enum candidate_names {
    NAMES_NONE,
    NAMES_OF_FILES,
    NAMES_OF_QUEUES,
    NAMES_OF_BATCHES,
    NAMES_OF_POOLS,
    NAMES_OF_RELAYS,
    NAMES_OF_SCHEDULES,
    NAMES_OF_TYPE_ORDERS,
};

struct candidates {
    struct buffer lines; /* each a candidate, a tab, and what it means */
    enum candidate_names names;
    struct bytes stem;    /* what stands before such a name in the word: "--queue=" */
    const char *prefix;   /* how such a name begins */
    const char *endpoint; /* as the line says it; NULL: it does not. Likewise the next. All borrow from the words */
    const char *ca_file;
};

/* The words behind "tally"; the last one is at the cursor, and may be empty. */
void candidates_find(struct candidates *candidates, int count, char *const *words);
void candidates_deinit(struct candidates *candidates);

/* Appends a candidate to the lines. */
void candidates_add(struct candidates *candidates, struct bytes word, const char *meaning);

#endif
