/* Schedules: a message at each time that a cron expression names. When a firing is due it is decided and logged
 * together with its message, so it happens once, also across restarts.
 *
 * The core knows no calendar. Whoever runs it asks which schedule is due (schedule_next_due()), works out when that one
 * is due next, and says so in the command (decide_fire_schedule()); it stands in the event. Who can't tell puts the
 * schedule off (schedule_put_off()).
 *
 * A firing that comes more than SCHEDULE_MISSED_MS late was missed: nobody served when it was due, or it was put off.
 * What becomes of those is the schedule's catch-up rule. */
#ifndef TALLY_CORE_SCHEDULES_SCHEDULE_H
#define TALLY_CORE_SCHEDULES_SCHEDULE_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/heap.h"
#include "base/name_index.h"
#include "base/slab.h"
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

/* What PutSchedule says. Encoded: u32 queue, u8 catch_up, u8 is_paused, RAW(16) attributes_md5, then five texts (u32
 * size + bytes): cron, zone, group, attributes, body. */
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

    /* No part of the state: it says when something is decided, not what. 0: it was not put off. */
    uint64_t put_off_to_ms;
};

struct schedules {
    struct slab schedules;
    struct heap due; /* by next_at_ms, or what they were put off to */
    struct name_index order;
    uint64_t number; /* the newest given out */
};

void schedule_init(struct schedules *schedules);
void schedule_deinit(struct schedules *schedules);

void schedule_spec_encode(const struct schedule_spec *spec, struct buffer *out);
/* False, with *spec untouched, if `encoded` is none. Its views point into `encoded`. */
bool schedule_spec_decode(struct bytes encoded, struct schedule_spec *spec);

/* Schedules in order of name: how many there are, the i-th, the index of the first whose name is not below `name`. */
uint32_t schedule_count(const struct core *core);
const struct schedule *schedule_at(const struct core *core, uint32_t index);
uint32_t schedule_index(const struct core *core, struct bytes name);
const struct schedule *schedule_find(const struct core *core, struct bytes name);

/* When the next one is due, or put off to, or UINT64_MAX. */
uint64_t schedule_due_ms(const struct core *core);

/* Was it due so long ago that its firing, which is due, was missed? */
bool schedule_is_missed(const struct core *core, const struct schedule *schedule);

/* The next schedule that is due now and not put off, or NULL. *after_ms: after that time it will be
 * next due, once it has fired. */
const struct schedule *schedule_next_due(const struct core *core, uint64_t *after_ms);

/* One that is due is looked at again at `to_ms`, a later time. Nothing is logged: a restart looks at it at once. */
void schedule_put_off(struct core *core, const struct schedule *schedule, uint64_t to_ms);

/* For a salvage: firings before due_at_ms are lost; the schedule is due then. Nothing if there is no such schedule, or
 * it is due later. */
void schedule_skip_to(struct core *core, struct bytes name, uint64_t due_at_ms);

void schedule_encode(const struct core *core, struct core_writer *writer);
bool schedule_decode(struct core *core, struct cursor *cursor);
void schedule_check(const struct core *core);

#endif
