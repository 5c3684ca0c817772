/* A small world for scenarios: one namespace and its api on a disk in memory, a clock that only the test moves, and a
 * client that repeats what was interrupted.
 *
 * A call is decided, made durable and only then answered. When the disk stops in the middle of one, the power goes
 * (what was not synced is kept, lost or torn), the server starts again, and the client repeats the call; the answer
 * then says `is_repeat`, because the first try may have taken effect and its reply was lost. What cannot be repeated (a
 * send) is looked up after the restart and repeated only if it had no effect. So one scenario serves every way of
 * interrupting it. */
#ifndef TALLY_TESTS_SUPPORT_WORLD_H
#define TALLY_TESTS_SUPPORT_WORLD_H

#include "api/api.h"
#include "support/memory_disk.h"
#include <yyjson.h>

/* How a scenario is interrupted. */
enum world_way {
    WORLD_PLAIN,     /* not at all */
    WORLD_KILLS,     /* killed or out of power behind every step, in turn */
    WORLD_SNAPSHOTS, /* the same, with a snapshot behind every step */
    WORLD_STOPS,     /* the disk stops at one operation, and perhaps at a few more after the restart */
};

struct world_options {
    enum world_way way;
    uint64_t seed;
    uint64_t stop_at;             /* WORLD_STOPS: operations of the disk that go well first */
    enum memory_disk_fault fault; /* WORLD_STOPS: what then fails; 0: MEMORY_DISK_STOP */
    uint64_t snapshot_bytes;      /* 0: snapshots only in WORLD_SNAPSHOTS */
    uint32_t snapshot_worth;
    uint64_t segment_size;    /* 0: 512 KiB */
    uint64_t frame_size_max;  /* 0: 128 KiB */
    uint32_t in_flight_max;   /* 0: 120,000 */
    uint64_t memory_max;      /* of the state of all worlds; 0: no limit */
    bool cleans_eagerly;      /* engine/disk_policy.h */
    const char *zones_folder; /* of the time-zone data; NULL: the system's */
    bool enforce_intervals;   /* the 60 seconds after PurgeQueue and DeleteQueue */
    bool keeps_reserve;       /* for a full disk (engine/disk_guard.h) */
    uint64_t disk_min_free;
    const struct relay_control *relays;             /* NULL: nobody runs relays */
    bool keeps_history;                             /* for GetSeries */
    const char *metrics_queues;                     /* NULL: as the daemon without that key */
    void (*audit)(void *context, const char *text); /* NULL: nobody is told (api/front.h) */
    void *audit_context;
};

struct world {
    struct world_options options;
    struct disk *disk;
    struct namespace *ns; /* NULL: the server is down */
    struct front *front;
    struct api *api;
    uint64_t now_ms;
    uint64_t random_state;
    unsigned stops_left; /* WORLD_STOPS: further stops after the first */
    unsigned kill_count;
    unsigned restart_count;
    const char *address;     /* of the client; NULL: not known, like the next */
    const char *worker;      /* what it calls itself */
    bool is_together;        /* between world_together_begin() and world_together_end() */
    bool is_repeating;       /* what is called now was called before and interrupted */
    struct failure failure;  /* of the last disk operation that failed */
    yyjson_doc **docs_owned; /* of the answers */
    size_t doc_count;
    size_t doc_capacity;
};

/* A reply. Views live until world_forget(). */
struct answer {
    int status;
    const char *error; /* NULL: the call went well; else the error's name, like "BatchSealed" */
    yyjson_val *root;  /* NULL: an empty body */
    bool is_repeat;
};

#define WORLD_START_MS UINT64_C(1700000000000)

/* Creates the disk and starts the server. */
struct world *world_create(const struct world_options *options);
void world_destroy(struct world *world);

/* Says which way and seed this is, for messages. */
const char *world_describe(const struct world *world, char text[160]);

/* Ends the program: the test itself can't go on. */
void world_give_up(const struct world *world, const char *what) __attribute__((noreturn));

/* --- calling ------------------------------------------------------------------------------------------------------ */

/* Calls an action ("SendMessage", "Tally.CreateBatch") with a body in which ' stands for ". The answer is durable. */
struct answer world_call(struct world *world, const char *action, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, but tried once: false if the disk stopped meanwhile; the server has then started again. */
bool world_try(struct world *world, struct answer *answer, const char *action, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Calls between the two are decided in one frame. world_together_end() makes it durable; false: it was lost, or its
 * replies were, and the caller must repeat the calls (all of them idempotent).
 *     do { world_together_begin(world); ... } while (!world_together_end(world)); */
void world_together_begin(struct world *world);
bool world_together_end(struct world *world);

/* Frees all answers. */
void world_forget(struct world *world);

/* Members of an answer's object; "" and 0 and false where they are missing. */
const char *answer_text(struct answer answer, const char *name);
uint64_t answer_number(struct answer answer, const char *name);
bool answer_is_true(struct answer answer, const char *name);
bool answer_has(struct answer answer, const char *name);
bool answer_fails(struct answer answer, const char *error);

/* --- messages and queues ------------------------------------------------------------------------------------------ */

/* `attributes` is the inside of an object of queue attributes ("'VisibilityTimeout':'5'"), or "". */
void world_create_queue(struct world *world, const char *queue, const char *attributes);

/* Sends a message, to `batch` if that is not NULL. Exactly once, whatever is interrupted. */
struct answer world_send(struct world *world, const char *queue, const char *batch, const char *body);

#define WORLD_ID_SIZE 37
#define WORLD_HANDLE_SIZE 40
#define WORLD_BODY_SIZE 400

/* A message that was received. */
struct taken {
    char id[WORLD_ID_SIZE];
    char handle[WORLD_HANDLE_SIZE];
    char body[WORLD_BODY_SIZE];
    char event[32];    /* Tally.Batch.Event, or "" */
    char of_batch[64]; /* Tally.Batch.Completed, or "" */
    char deduplication[129];
    unsigned receive_count;
    uint64_t sent_at_ms;
};

/* Receives up to `max` (at most 10) messages for timeout_s; returns how many. If a reply is lost, the client waits
 * until what it may have taken is visible again. */
unsigned world_take(struct world *world, const char *queue, unsigned timeout_s, unsigned max, struct taken *taken);

/* Receives until it holds `count` different messages with their newest handles. */
void world_hold(struct world *world, const char *queue, unsigned timeout_s, unsigned count, struct taken *held);

/* Deletes; fails the test if the server does not answer with success. */
void world_delete(struct world *world, const char *queue, const char *handle);

/* Messages of the queue in any state. */
uint64_t world_count_messages(struct world *world, const char *queue);

/* What a queue of completion messages held; it is empty afterwards. */
struct completions {
    unsigned complete;
    unsigned success;
    unsigned first_failure;
    unsigned other;
    char id[WORLD_ID_SIZE]; /* of the last `complete` */
    char body[WORLD_BODY_SIZE];
    char order[64]; /* c, s, f in order of delivery */
};
struct completions world_drain(struct world *world, const char *queue);

/* --- time and death ----------------------------------------------------------------------------------------------- */

/* Lets time pass, from one thing that falls due to the next. */
void world_pass_time(struct world *world, uint64_t ms);

/* The server dies and starts again. What was not flushed is kept, lost or torn; the clock stands still. */
void world_kill(struct world *world);

/* The two halves of it: without power (`is_power`), or killed with the system's cache alive. */
void world_stop(struct world *world, bool is_power);
void world_start(struct world *world);

/* Makes everything durable; false as world_together_end(). */
bool world_flush(struct world *world);

/* Lets the namespace look at its disk, and do for it what it does: cleaning, and a snapshot where one is due.
 * So many turns, 250 ms each. */
void world_care_for_disk(struct world *world, unsigned turns);

/* Takes a snapshot and publishes it. */
void world_snapshot(struct world *world);

/* --- judging ------------------------------------------------------------------------------------------------------ */

const struct core *world_core(const struct world *world);

/* Checks every invariant of the core; then replays the log on a copy of the disk, compares the state with the live one
 * byte for byte, and judges the events: every event of a batch once, and its message in the very frame (B1, B2, R8). */
void world_audit(struct world *world);

/* The whole state, encoded. */
void world_encode(const struct core *core, struct buffer *out);

#endif
