/* Why a message is not delivered, as a sentence and as fields (core/messages/explain.h). Private to src/api. */
#ifndef TALLY_API_WHY_H
#define TALLY_API_WHY_H

#include "api/action.h"
#include "core/messages/explain.h"

/* One sentence, in the arena. If the caller does not reach something, the sentence says only that there is something
 * (reach.h). */
struct bytes why_text(struct call *call, const struct why *why);

/* Writes it as an item of a list: {Code, Text, and the fields that it has}. */
void why_write(struct call *call, const struct why *why);

/* Writes the reasons of an explanation, `max` at most, into the list that is open. */
void why_write_each(struct call *call, const struct explanation *explanation, unsigned max);

/* Explains the message of that MessageId, as far as the caller reaches it; otherwise it is unknown. With *queue NULL it
 * may be in any queue, and *queue becomes that one. */
void why_explain(struct call *call, struct bytes id_text, struct queue **queue, struct explanation *explanation);

/* A MessageId, in the arena. */
struct bytes why_message_id(const struct call *call, uint64_t number);

#endif
