/* A core without a log: frames are kept in memory and can be replayed, and random decisions lead it into a rich
 * state. */
#ifndef TALLY_TESTS_SUPPORT_CORE_RIG_H
#define TALLY_TESTS_SUPPORT_CORE_RIG_H

#include "core/identity.h"
#include "core/queues/queue.h"

struct core_rig_frame {
    uint64_t position; /* of the payload */
    uint64_t time_ms;
    size_t offset; /* in `log` */
    size_t size;
};

#define CORE_RIG_HANDLES 64u

struct core_rig {
    struct core *core;
    struct buffer frame;
    uint64_t position; /* of the next frame's payload */
    uint64_t now_ms;
    uint64_t opened_ms; /* time of the open frame */
    struct buffer log;
    struct core_rig_frame *frames_owned;
    size_t frame_count;
    size_t frame_capacity;
    uint64_t random_state;
    uint64_t token_number;
    struct handle handles[CORE_RIG_HANDLES]; /* of deliveries, newest ones and old ones */
    unsigned handle_count;
    bool knows_zones; /* its calendar can always tell: nothing is put off, which no snapshot holds */
};

/* A founded core; segments of 64 KiB. */
void core_rig_init(struct core_rig *rig, uint64_t seed);
void core_rig_deinit(struct core_rig *rig);

/* Decisions go between the two. core_rig_end() keeps the frame if it has events. */
struct core *core_rig_begin(struct core_rig *rig);
void core_rig_end(struct core_rig *rig);

/* What stands at a position of the frames kept so far or of the open one; empty if it is in none. */
struct bytes core_rig_read(const struct core_rig *rig, uint64_t position, size_t size);

/* Moves contents out of the oldest segment that has some, up to so many, in the open frame. The number of contents
 * moved. */
unsigned core_rig_clean(struct core_rig *rig, unsigned count);

/* Forgets the frames kept so far: for runs too long to keep. */
void core_rig_forget_log(struct core_rig *rig);

/* A core made by replaying all frames, at the live one's time. */
struct core *core_rig_replay(const struct core_rig *rig);

/* The encoded state of a core, in an empty buffer. */
void core_rig_encode(const struct core *core, struct buffer *out);

/* Its state becomes part of the history. */
void core_rig_note(const struct core *core);

struct core_writer;
typedef void core_rig_encoder(const struct core *core, struct core_writer *writer);

/* Where the part that `encode` writes stands in the encoded state of the core; a view into `encoded`. */
struct bytes core_rig_find_part(const struct core *core, const struct buffer *encoded, core_rig_encoder *encode);

/* Reads the encoded state again and again with one byte of that part changed at random: it must be refused or make a
 * sound core. The number of times that it was refused. */
unsigned core_rig_damage_part(struct core_rig *rig, core_rig_encoder *encode, unsigned rounds);

/* Settings as CreateQueue gives them by default. */
struct queue_settings core_rig_settings(void);

/* Sends to a queue, to a batch if `batch` is not empty. */
enum error core_rig_send(struct core *core, struct queue *queue, struct bytes batch, struct bytes body,
                         uint32_t delay_ms);

/* One random decision of any kind, or some time that passes; in a frame of its own. */
void core_rig_step(struct core_rig *rig);

/* What it does with pools of tickets, in the open frame (core_rig_pools.c). */
void core_rig_step_pool(struct core_rig *rig);

/* A number below `end`. */
uint32_t core_rig_draw(struct core_rig *rig, uint32_t end);

#endif
