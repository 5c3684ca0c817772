/* What a namespace remembers of a relay: its name, what it is to do, and whether it is paused. The core never looks
 * inside the text that says what it is to do, and runs no relay; whoever does looks here when
 * relay_record_change_count() has moved. */
#ifndef TALLY_CORE_PUBLISHERS_RELAY_RECORD_H
#define TALLY_CORE_PUBLISHERS_RELAY_RECORD_H

#include "base/bytes.h"
#include "base/cursor.h"
#include "base/name_index.h"

struct core;
struct core_writer;

#define RELAY_RECORDS_MAX 1000u
#define RELAY_RECORD_NAME_SIZE_MAX 80u
#define RELAY_RECORD_SPEC_SIZE_MAX 16384u

struct relay_record {
    uint64_t number; /* never reused: tells a relay from a later one of the same name */
    struct bytes name_owned;
    struct bytes spec_owned; /* opaque; may hold secrets */
    bool is_paused;
};

struct relay_records {
    struct slab items;
    struct name_index order;
    uint64_t number;       /* the newest given out */
    uint64_t change_count; /* since the core was made; no part of the state */
};

void relay_record_init(struct relay_records *records);
void relay_record_deinit(struct relay_records *records);

/* Relays in order of name: how many there are, the i-th, the index of the first whose name is not below `name`. */
uint32_t relay_record_count(const struct core *core);
const struct relay_record *relay_record_at(const struct core *core, uint32_t index);
uint32_t relay_record_index(const struct core *core, struct bytes name);
const struct relay_record *relay_record_find(const struct core *core, struct bytes name);

/* Moves whenever one is put, paused, resumed or deleted. */
uint64_t relay_record_change_count(const struct core *core);

void relay_record_encode(const struct core *core, struct core_writer *writer);
bool relay_record_decode(struct core *core, struct cursor *cursor);
void relay_record_check(const struct core *core);

#endif
