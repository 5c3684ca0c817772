/* Schedules: a message at each time that a cron expression names. When a firing is due it is decided and logged together with
 * its message, so it happens once, also across restarts. When the next one is due is worked out by whoever runs the core (a
 * calendar knows time zones, the core does not) and stands in the event.
 *
 * A firing that comes more than SCHEDULE_MISSED_MS late was missed: nobody served when it was due. What becomes of those is the
 * schedule's catch-up rule. While the server has no memory for more messages, firings wait (core_hold_firings()), and may be missed, too. */
#ifndef TALLY_CORE_SCHEDULE_H
#define TALLY_CORE_SCHEDULE_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/heap.h"
#include "base/pool.h"
#include "core/digest.h"

struct core;
struct core_writer;

#define SCHEDULES_MAX 10000u
#define SCHEDULE_NAME_SIZE_MAX 80u
#define SCHEDULE_CRON_SIZE_MAX 256u
#define SCHEDULE_ZONE_SIZE_MAX 64u
#define SCHEDULE_NEVER UINT64_MAX
#define SCHEDULE_MISSED_MS 60000u
#define SCHEDULE_CATCH_UP_MAX 1000u

enum catch_up {
    CATCH_UP_ONE = 0,  /* one firing for all that were missed */
    CATCH_UP_NONE = 1, /* none of them */
    CATCH_UP_ALL = 2,  /* each, the oldest first, at most SCHEDULE_CATCH_UP_MAX in a row */
};

/* What PutSchedule says. Encoded: u32 queue, u8 catch_up, u8 is_paused, RAW(16) attributes_md5, then five texts (u32 size +
 * bytes): cron, zone, group, attributes, body. */
struct schedule_spec {
    uint32_t queue; /* id */
    enum catch_up catch_up;
    bool is_paused;
    uint8_t attributes_md5[DIGEST_MD5_SIZE];
    struct bytes cron; /* the core never looks inside this one and the next */
    struct bytes zone;
    struct bytes group;      /* MessageGroupId, or empty */
    struct bytes attributes; /* as in struct content */
    struct bytes body;
};

struct schedule {
    uint64_t number; /* orders those that are due at the same time */
    struct bytes name_owned;
    struct bytes spec_encoded_owned;
    struct schedule_spec spec; /* views into spec_encoded_owned */
    uint64_t next_at_ms;       /* SCHEDULE_NEVER: no more, or paused */
    uint64_t last_at_ms;       /* when the newest firing with a message was due; 0: none yet */
    uint64_t last_message;     /* its number */
    uint32_t late_count;       /* newest firings in a row that were missed */
    uint32_t due_index;
};

/* While firings are held it is looked again after so long whether they still are. */
#define SCHEDULE_HELD_MS 1000u

struct schedules {
    struct pool schedules;
    struct heap due;
    bool are_held;         /* no part of the state: it says when something is decided, not what */
    uint32_t *order_owned; /* slots by name */
    uint32_t count;
    uint32_t capacity;
    uint64_t number; /* the newest given out */

    /* When a cron text in a zone is next due after `after_ms`: a pure function, asked for live decisions only. */
    uint64_t (*next)(void *context, struct bytes cron, struct bytes zone, uint64_t after_ms);
    void *next_context;
};

void schedule_init(struct schedules *schedules);
void schedule_deinit(struct schedules *schedules);

void schedule_spec_encode(const struct schedule_spec *spec, struct buffer *out);
/* False, with *spec untouched, if `encoded` is none. Its views point into `encoded`. */
bool schedule_spec_decode(struct bytes encoded, struct schedule_spec *spec);

/* Schedules in order of name: how many there are, the i-th, the place of the first whose name is not below `name`. */
uint32_t schedule_count(const struct core *core);
const struct schedule *schedule_at(const struct core *core, uint32_t index);
uint32_t schedule_place(const struct core *core, struct bytes name);
const struct schedule *schedule_find(const struct core *core, struct bytes name);

/* When the next one is due, or UINT64_MAX. */
uint64_t schedule_due_ms(const struct core *core);

/* Fires up to `portion` schedules that are due. For decide_due(). */
void schedule_fire_due(struct core *core, unsigned portion);

void schedule_encode(const struct core *core, struct core_writer *writer);
bool schedule_decode(struct core *core, struct cursor *cursor);
void schedule_check(const struct core *core);

#endif
