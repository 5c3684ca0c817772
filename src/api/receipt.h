/* What happens to a request with a receipt handle: its errors, and the counts of handles that are not the newest or
 * came too late (docs/reference/receipt-handles.md). */
#ifndef TALLY_API_RECEIPT_H
#define TALLY_API_RECEIPT_H

#include "api/action.h"
#include "core/messages/decide_message.h"

/* Counts the use of a handle of this queue. Call it once for each handle, even if it was refused. */
void receipt_note(struct call *call, const struct receipt_use *use);

/* The same for a handle of a delete: it shows whether the workers of the queue are too slow. */
void receipt_note_delete(struct call *call, struct queue *queue, const struct receipt_use *use);

/* Describes `error` of a decision: the handle is not one of the queue, is not the newest of its message, or its lease
 * is over. Other errors, and OK, pass unchanged. */
enum error receipt_answer(struct call *call, const struct params *params, const struct queue *queue,
                          struct bytes handle, enum error error, const struct receipt_use *use);

/* Writes the reason SlowWorkers of an explanation, if deletes of the queue have come too late since the start. */
void receipt_explain(struct call *call, const struct queue *queue);

#endif
