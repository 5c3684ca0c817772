/* The body of a Publish (docs/internals/decisions/0009, "The wire"), written row by row into a buffer: a relay sends a
 * thousand rows at a time, and a JSON tree for each would be most of its work. Only this code knows what a Tally queue
 * requires of a row. */
#ifndef TALLY_RELAY_PUBLISH_BODY_H
#define TALLY_RELAY_PUBLISH_BODY_H

#include "relay/row.h"

struct publish_head {
    const struct term *term;
    uint64_t batch;
    uint64_t confirmed_batch;
    bool is_strict;    /* a row that stays behind holds all behind it, and not only its group */
    bool blocks_group; /* a refused row stays behind, as a blocked one does */
};

/* Begins a body: everything before the first row. */
void publish_body_begin(struct buffer *body, const struct publish_head *head);

/* Appends a row; `queue` is where rows go that name no queue, NULL: nowhere. False, and nothing appended, if it can't
 * be a message; `reason` then says why. */
bool publish_body_add(struct buffer *body, const struct row *row, const char *queue, char reason[ROW_REASON_SIZE]);

void publish_body_end(struct buffer *body);

#endif
