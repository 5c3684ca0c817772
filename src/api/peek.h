/* A message as it is seen without being touched: no lease, no receive count, no token. Private to src/api. */
#ifndef TALLY_API_PEEK_H
#define TALLY_API_PEEK_H

#include "api/action.h"
#include "core/messages/explain.h"

/* How much of a body is shown. */
enum peek_body {
    PEEK_NO_BODY,
    PEEK_PREVIEW, /* its first 256 bytes, and where a character would be cut, less */
    PEEK_WHOLE,   /* with its attributes */
};

/* Reads the parameter Body: none, preview or full. Without it *body stays as it is. ERROR_INVALID_PARAMETER_VALUE. */
enum error peek_read_body(struct call *call, enum peek_body *body);

/* The words for the states of a message, and back: false if there is no such word. */
const char *peek_state_name(enum message_condition condition);
bool peek_state_find(struct bytes name, enum message_condition *condition);

/* How many bytes peek_write() will read of the log; and would they have to be waited for? Begins to load them then. */
size_t peek_reads(const struct call *call, uint32_t slot, enum peek_body body);
bool peek_waits_for_disk(struct call *call, uint32_t slot);

/* Writes the members of the message in `slot` of `queue`, with the reasons why it waits, whys_max at most, into the
 * object that is open. `explanation` is room that is overwritten. Reads the content only where it must. O(what it waits
 * for + content). */
void peek_write(struct call *call, const struct queue *queue, uint32_t slot, enum peek_body body, unsigned whys_max,
                struct explanation *explanation);

#endif
