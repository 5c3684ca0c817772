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

/* A MessageId, in the arena. */
struct bytes why_message_id(const struct call *call, uint64_t number);

#endif
