/* A log in PostgreSQL as one node has it: what the parts of this folder share. Whoever owns a struct pg_log calls it
 * from one thread at a time; what is atomic, and pg_log_is_whole(), are for any thread. */
#ifndef TALLY_POSTGRES_LOG_STATE_H
#define TALLY_POSTGRES_LOG_STATE_H

#include "postgres/cache.h"
#include "postgres/pulse.h"
#include "postgres/standby.h"
#include <stdatomic.h>

/* A write that was acknowledged. */
struct pg_mark {
    uint64_t file, at, size, epoch;
    uint8_t hash[PG_HASH_SIZE]; /* of the file up to there */
};

#define PG_MARKS 1024u /* how many of the newest are remembered */

struct pg_log {
    struct pg_options options;
    struct disk *folder; /* of the cache; borrowed */
    struct pg_session session;
    struct pg_cache cache;
    struct pg_standby standby; /* until this node is the owner */
    bool is_owner;
    bool is_child;      /* a forked process of the owner, which writes a snapshot on a connection of its own */
    uint64_t newest;    /* position of the segment that this node follows: those before it were read to their ends */
    uint64_t newest_id; /* its file */
    bool has_newest;
    uint64_t grown_ms;           /* when something new was read last */
    uint64_t round_ms;           /* when the newest round of following began; 0: none has */
    struct pg_mark *marks_owned; /* a ring */
    uint64_t mark_count;         /* of all there were */
    struct pg_mark doubtful;     /* a write that was given up: nobody knows whether it happened, or ever will */
    bool has_doubtful;
    bool has_just_failed; /* an operation, and nothing was asked since */
    uint64_t regained_ms; /* when this node, the owner, last sealed the log anew; 0: never */
    struct buffer scratch;
    pthread_mutex_t owner_mutex; /* of the next three, for other threads: the log when this node last looked */
    struct pg_node owner;
    uint64_t epoch;
    char trouble[512];          /* why the owner can't seal it again; empty: it can */
    atomic_bool is_stopped;     /* nobody is to be waited for */
    atomic_bool bears_silence;  /* an operation of the owner waits as long as PostgreSQL is silent */
    atomic_bool is_caught_up;   /* it follows, and has applied all but what the newest moment brought */
    atomic_bool lacks_replica;  /* a replica is wanted, and PostgreSQL waits for none */
    _Atomic uint64_t proved_ms; /* when the newest statement that was acknowledged began */
    struct pg_pulse_entry pulse_entry;
    bool has_pulse;            /* the pulse gives it signs of life */
    _Atomic uint64_t seen_ms;  /* when the owner was looked after last (disk.h, confirm) */
    _Atomic uint64_t position; /* where what this node has written, or followed and applied, ends in the log */
};

void pg_log_init(struct pg_log *log, const struct pg_options *options, struct disk *folder);
void pg_log_deinit(struct pg_log *log);

/* The owner gets signs of life while it writes nothing. */
void pg_log_join_pulse(struct pg_log *log);

/* In a forked child: a connection of its own, and nothing known of the files. */
void pg_log_become_child(struct pg_log *log);

/* Until when a call may wait: for a lease from now on. */
uint64_t pg_log_deadline(const struct pg_log *log);

/* Is the connection whole on which this node, the owner, has sealed the log? While it is not, nobody knows whether
 * another node has the log by now. Any thread. */
static inline bool pg_log_is_whole(const struct pg_log *log)
{
    return pg_link_is_whole(&log->session.link);
}

/* Tells the other threads what the head of the log says about its owner. */
void pg_log_note_owner(struct pg_log *log);

/* Does another node own the log? */
static inline bool pg_log_follows(const struct pg_log *log)
{
    return !log->is_owner && !log->is_child;
}

/* --- writing (log_write.c) ---------------------------------------------------------------------------------------- */

/* Connects, and in a child lists the files, unless there is a connection. */
enum error pg_log_connect(struct pg_log *log, uint64_t until_ms, struct failure *failure);

/* Makes `data` at offset `at` of the file durable, and puts it into the copy. `is_relaxed`: durable only with the next
 * statement that is not. Errors: ERROR_LOG_LOCKED, another node owns the log; ERROR_LOG_DAMAGED, PostgreSQL has lost
 * what it had acknowledged; ERROR_DISK_FULL; ERROR_DISK_FAILED, also where the outcome could not be found out within a
 * lease. */
enum error pg_log_put(struct pg_log *log, struct pg_file *file, struct disk_file *copy, uint64_t at, struct bytes data,
                      bool is_relaxed, struct failure *failure);

/* Changes of the list of files. The same errors. */
enum error pg_log_create_file(struct pg_log *log, const char *name, struct pg_file **file, struct failure *failure);
enum error pg_log_rename_file(struct pg_log *log, const char *from, const char *to, struct failure *failure);
enum error pg_log_resize_file(struct pg_log *log, struct pg_file *file, uint64_t size, struct failure *failure);

/* In portions, under another name meanwhile, so that no statement takes long and nobody reads half a file. OK, too,
 * where there is no such file. A child first removes the rests that an earlier one left. */
enum error pg_log_remove_file(struct pg_log *log, const char *name, struct failure *failure);

/* Is it the rest of a file that a node or a child had begun to remove when it ended, or when its connection broke? */
bool pg_log_is_rest(const char *name);

/* Proves that this node is still the owner, and that PostgreSQL takes what it writes. The same errors. */
enum error pg_log_beat(struct pg_log *log, struct failure *failure);

/* This node, the owner, says that nobody has the log from now on, and that nobody need have it. To be closed behind
 * it. False: it could not say so. */
bool pg_log_rest(struct pg_log *log);

/* pg_session_check_replicas(), and notes what it has found. */
enum error pg_log_check_replicas(struct pg_log *log, uint64_t until_ms, struct failure *failure);

/* ERROR_DISK_FAILED: PostgreSQL has not got all that was read of this file. ERROR_SERVICE_UNAVAILABLE: no answer. */
enum error pg_log_check_tail(struct pg_log *log, const struct pg_file *file, uint64_t until_ms,
                             struct failure *failure);

/* The file has grown: if it is a segment, the log may end there. */
void pg_log_note_position(struct pg_log *log, const struct pg_file *file);

/* --- following (log_follow.c) ------------------------------------------------------------------------------------- */

/* Begins to follow: reads which files there are. */
enum error pg_log_join(struct pg_log *log, struct failure *failure);

/* disk.h, await. ERROR_SERVICE_UNAVAILABLE: it was stopped, or this node was too slow and must begin again. */
enum error pg_log_await(struct pg_log *log, bool *is_owner, struct failure *failure);

#endif
