/* Who has a message (core/messages/holder.h), as requests bring it and replies show it. Private to src/api. */
#ifndef TALLY_API_HOLDER_VIEW_H
#define TALLY_API_HOLDER_VIEW_H

#include "api/action.h"
#include "core/messages/holder.h"

/* The holder that the caller is, with one more use: end it with holder_release(). 0: nothing is known of it, or it is
 * new and the memory is full. */
uint32_t holder_view_use(struct call *call);

/* Writes the member Holder of the message in that slot, if anybody knows who has it. */
void holder_view_write(struct call *call, uint32_t message);

/* The slot of message `number`, if that delivery has it; else 0. */
uint32_t holder_view_find(const struct call *call, uint64_t number, uint64_t delivery);

/* ", held by mail-1/77 (10.0.0.2, key AKIAORDERS)", in the arena; empty if nobody knows who has the message. */
struct bytes holder_view_words(const struct call *call, uint32_t message);

#endif
