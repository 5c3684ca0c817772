/* The output of the encoded state, piece by piece. Private to src/core. */
#ifndef TALLY_CORE_SNAPSHOT_H
#define TALLY_CORE_SNAPSHOT_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/table.h"

struct core;
struct message_list;

struct core_writer {
    struct buffer piece; /* records are appended here */
    void (*sink)(void *context, struct bytes piece);
    void *context;
};

/* Called between records: passes the collected bytes on, once there are many. */
void core_writer_pass_on(struct core_writer *writer);
/* Passes on all collected bytes: at the end. */
void core_writer_hand_on(struct core_writer *writer);

/* Decoders call cursor_release() after each record wherever there may be many, because they keep only copies. */

/* --- groups (group_snapshot.c) ------------------------------------------------------------------------------------ */

/* The data of a group that reading messages would overwrite. */
struct group_facts {
    uint64_t entered_at;
    uint64_t entered_at_ms;
    uint64_t since_ms;
    uint64_t cancelled_sequence;
    bool is_held;
};

/* A dead-lettered message of a group: sorted by age in the snapshot, and by sequence number in its group. */
struct moved_message {
    uint64_t sequence;
    uint32_t group; /* slots */
    uint32_t message;
    uint8_t state; /* enum message_state */
};

/* The groups that were read, in order of creation. */
struct group_reader {
    uint32_t *slots_owned;
    struct group_facts *facts_owned;
    uint32_t count;
    struct table message_list_by_number; /* slots */
    struct buffer moved;                 /* of the message list being read: struct moved_message */
};

void groups_encode(const struct core *core, struct core_writer *writer);
/* For a message list that has a queue: its rings, each a run of group numbers and a 0. */
void rings_encode(const struct core *core, const struct message_list *list, struct core_writer *writer);

void group_reader_init(struct group_reader *reader);
void group_reader_deinit(struct group_reader *reader);

/* Called after the message lists were made and before their messages are read. */
bool groups_decode(struct core *core, struct group_reader *reader, struct cursor *cursor);
uint32_t group_reader_find(const struct core *core, const struct group_reader *reader, uint64_t number);
/* Adds a message, complete but for its state, to its group, and gives it that state. For a dead-lettered one
 * moved_decode() does this, after all messages of the message list. False: another message has its sequence number. */
bool grouped_decode(struct core *core, struct group_reader *reader, uint32_t group, uint32_t message, uint8_t state);
bool moved_decode(struct core *core, struct group_reader *reader);
/* After that. */
bool rings_decode(struct core *core, const struct group_reader *reader, uint32_t message_list, struct cursor *cursor);
/* After all. */
bool group_reader_finish(struct core *core, const struct group_reader *reader);

#endif
