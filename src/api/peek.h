/* A message as it is seen without being touched: no lease, no receive count, no token. Private to src/api. */
#ifndef TALLY_API_PEEK_H
#define TALLY_API_PEEK_H

#include "api/action.h"
#include "core/messages/explain.h"
#include "core/messages/message_walk.h"

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

/* How many bytes peek_write() will read of the log. */
size_t peek_reads(const struct call *call, uint32_t slot, enum peek_body body);

/* What a page reads of the log: 16 MiB at most, and ten contents at most that have to be waited for, as many as a
 * receive. Its first message may be more. */
struct peek_budget {
    unsigned count; /* of messages */
    size_t read_size;
    unsigned waits;
};

/* Takes the message, too; false: the page ends before it. */
bool peek_budget_take(struct call *call, struct peek_budget *budget, uint32_t slot, enum peek_body body);

/* A place between two pages (core/messages/message_walk.h), as a part of a NextToken: three numbers, in the arena. And
 * back: false if it is none. */
struct bytes peek_place_text(const struct call *call, const struct message_place *place);
bool peek_place_parse(struct bytes text, struct message_place *place);

/* Writes the MessageId of the message. Reads the content only where the id stands there. */
void peek_write_id(struct call *call, uint32_t slot);

/* Writes the members of the message in `slot` of `queue`, with the reasons why it waits, whys_max at most, into the
 * object that is open. `explanation` is room that is overwritten. Reads the content only where it must. O(what it waits
 * for + content). */
void peek_write(struct call *call, const struct queue *queue, uint32_t slot, enum peek_body body, unsigned whys_max,
                struct explanation *explanation);

#endif
