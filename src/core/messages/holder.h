/* Who has a message: what the server knows of a client that receives, and what the client says of itself.
 *
 * No part of the state, so no decision may ask for it: it is not logged and in no snapshot, and a replay knows none. A
 * message in flight has the slot of its holder as the note of its timer (base/heap.h), where it takes no memory.
 * core_leave_state() forgets it, so it is there exactly as long as the lease. Each name is kept once, with a count of
 * its uses. Names without a use are kept for the next receive of the same client, HOLDERS_IDLE_MAX at most. */
#ifndef TALLY_CORE_MESSAGES_HOLDER_H
#define TALLY_CORE_MESSAGES_HOLDER_H

#include "base/bytes.h"
#include "base/list.h"
#include "base/slab.h"
#include "base/table.h"

struct core;

#define HOLDER_WORD_SIZE_MAX 128u
#define HOLDERS_MAX 65536u /* a client beyond these is not remembered */
#define HOLDERS_IDLE_MAX 256u

/* Each may be empty. */
struct holder_name {
    struct bytes access_key;
    struct bytes address;
    struct bytes worker; /* what it calls itself */
};

struct holder {
    struct bytes text_owned; /* u8 size of the access key, u8 size of the address, and the three words */
    uint64_t hash;
    struct list_link idle_link; /* while nobody uses it */
    uint32_t uses;              /* leases, and receives in work */
};

struct holders {
    struct slab items;
    struct table by_text;
    struct list idle; /* the one that was used longest ago first */
    uint32_t idle_count;
};

void holders_init(struct holders *holders);
void holders_deinit(struct holders *holders);

/* The slot of the holder with that name, with one more use; the caller ends that with holder_release(). A word that is
 * longer than HOLDER_WORD_SIZE_MAX, or not of printable ASCII, counts as empty. 0: all are empty, or the name is new
 * and !may_add, or there are HOLDERS_MAX. O(size of the name). */
uint32_t holder_use(struct core *core, const struct holder_name *name, bool may_add);
void holder_release(struct core *core, uint32_t holder);

/* The same, if `guess`, which may be any number, is its slot; else 0. So a client that comes again is not searched
 * for. */
uint32_t holder_use_again(struct core *core, const struct holder_name *name, uint32_t guess);

/* `holder`, which is in use, has the message in that slot, which is in flight, from now on. 0: nobody knows who.
 * O(1). */
void holder_note(struct core *core, uint32_t message, uint32_t holder);

/* Who has the message in that slot. False, with *name untouched: nobody has it, or nobody knows who. Borrowed until the
 * next receive. */
bool holder_find(const struct core *core, uint32_t message, struct holder_name *name);

/* For core_leave_state(): the lease of a message in flight ends. */
void holder_forget(struct core *core, uint32_t message);

/* For a lease that is changed: takes the holder off a message in flight, 0 if it has none; and puts it on again. */
uint32_t holder_take(struct core *core, uint32_t message);
void holder_put(struct core *core, uint32_t message, uint32_t holder);

/* Asserts that each lease has a holder with that use, or none. O(leases + holders). */
void holder_check(const struct core *core);

#endif
