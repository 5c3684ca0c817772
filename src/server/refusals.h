/* What was refused, for the operator: a line for each kind, at once for the first and then one a minute, with how many
 * there were. */
#ifndef TALLY_SERVER_REFUSALS_H
#define TALLY_SERVER_REFUSALS_H

#include "base/error.h"
#include "server/options.h"

enum refusal {
    REFUSAL_BY_MEMORY,
    REFUSAL_BY_DISK,
    REFUSAL_BY_CONNECTIONS, /* too many, or without memory for their handshakes */
    REFUSAL_BY_INPUT,       /* unfinished requests take too much memory */
    REFUSAL_BY_SIGNATURE,
    REFUSAL_BY_KEY,
    REFUSAL_BY_RIGHTS,
    REFUSAL_BY_SIZE,
    REFUSAL_BY_FORM, /* not HTTP, or not the HTTP that is spoken here */
    REFUSAL_COUNT,
};

struct refusals {
    struct refusals_kind {
        uint64_t count;    /* since the newest line */
        uint64_t begun_ms; /* when the first of them was noted; loop time, like the next */
        uint64_t told_ms;  /* when the newest line was said; 0: none was (report.h) */
    } kinds[REFUSAL_COUNT];
};

void refusals_note(struct refusals *refusals, enum refusal kind, uint64_t now_ms);

/* The same for a reply with this error, if it is one of a kind. */
void refusals_note_error(struct refusals *refusals, enum error error, uint64_t now_ms);

/* Says what is to be said now. Call it each second. */
void refusals_tell(struct refusals *refusals, uint64_t now_ms, const struct server_options *options);

#endif
