/* Where the encoded state goes, piece by piece. Private to src/core. */
#ifndef TALLY_CORE_SNAPSHOT_H
#define TALLY_CORE_SNAPSHOT_H

#include "base/buffer.h"
#include "base/cursor.h"

struct core;
struct shelf;

struct core_writer {
    struct buffer piece; /* records are appended here */
    void (*sink)(void *context, struct bytes piece);
    void *context;
};

/* Called between records: hands on what has gathered, once it is much. */
void core_writer_pass_on(struct core_writer *writer);

/* --- groups (group_snapshot.c) ------------------------------------------------------------------------------------- */

/* What a decode of messages would overwrite in a group. */
struct group_facts {
    uint64_t entered_at;
    uint64_t since_ms;
    uint64_t cancelled_sequence;
    struct bytes reason;
    bool is_held;
};

/* The groups that were read, in order of creation. */
struct group_reader {
    uint32_t *slots_owned;
    struct group_facts *facts_owned;
    uint32_t count;
    uint32_t shelf; /* of the last one */
};

void groups_encode(const struct core *core, struct core_writer *writer);
/* Of a shelf that has a queue: its rings, each a run of group numbers and a 0. */
void rings_encode(const struct core *core, const struct shelf *shelf, struct core_writer *writer);

/* After the shelves were made and before their messages are read. `reader` is zeroed. */
bool groups_decode(struct core *core, struct group_reader *reader, struct cursor *cursor);
uint32_t group_reader_find(const struct core *core, const struct group_reader *reader, uint64_t number);
/* After the messages of the shelf. */
bool rings_decode(struct core *core, const struct group_reader *reader, uint32_t shelf, struct cursor *cursor);
/* After all. */
bool group_reader_finish(struct core *core, const struct group_reader *reader);
void group_reader_deinit(struct group_reader *reader);

#endif
