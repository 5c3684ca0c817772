/* The intents of a worker that are open, and the rows that are done but may still stand in the source. */
#ifndef TALLY_RELAY_INTENTS_H
#define TALLY_RELAY_INTENTS_H

#include "relay/source.h"

struct open_intent {
    uint64_t epoch; /* 0: a free slot */
    uint64_t number;
    size_t left; /* rows of it that are neither done nor parked */
};

struct done_row {
    struct row_name name;
    uint32_t intent; /* slot; 0: none */
};

struct intents {
    struct open_intent *open_owned;
    uint32_t slot_end; /* slots from 1 on */
    uint32_t capacity;
    struct done_row *done_owned;
    size_t done_count, done_capacity;
    struct row_name *names_owned; /* of the last intents_list_done() */
    size_t name_capacity;
};

void intents_init(struct intents *intents);
void intents_deinit(struct intents *intents);

/* Returns its slot, which is never 0. */
uint32_t intents_add(struct intents *intents, uint64_t epoch, uint64_t number, size_t left);
void intents_remove(struct intents *intents, uint32_t slot);
struct open_intent *intents_at(const struct intents *intents, uint32_t slot);

/* One row of the intent (0: of none) is settled. */
void intents_settle(struct intents *intents, uint32_t slot);

/* The row is in the sink; it is remembered here until intents_forget_done(). */
void intents_add_done(struct intents *intents, const struct row_name *name, uint32_t slot);
void intents_forget_done(struct intents *intents);

/* Those of one intent, or all (0). Borrowed until the next call. */
const struct row_name *intents_list_done(struct intents *intents, uint32_t slot, size_t *count);

#endif
