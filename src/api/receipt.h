/* What becomes of a request that comes with a receipt handle: which errors it is answered with, and what is counted of
 * handles that are not the newest or came too late (docs/protocol.md, "Old receipt handles"). */
#ifndef TALLY_API_RECEIPT_H
#define TALLY_API_RECEIPT_H

#include "api/action.h"
#include "core/messages/decide_message.h"

/* Counts the use of a handle of this queue. Call it once for each, also where it was refused. */
void receipt_note(struct call *call, const struct receipt_use *use);

/* The same for one that was to delete its message: whether the workers of the queue are too slow shows in these. */
void receipt_note_delete(struct call *call, struct queue *queue, const struct receipt_use *use);

/* `error` of a decision, in words: that the handle is none of the queue, is not the newest of its message, or that its
 * lease is over. Every other error, and OK, as it is. */
enum error receipt_answer(struct call *call, const struct params *params, const struct queue *queue,
                          struct bytes handle, enum error error, const struct receipt_use *use);

/* Writes the reason SlowWorkers of an explanation, if deletes of the queue came too late since the start. */
void receipt_explain(struct call *call, const struct queue *queue);

#endif
