/* The oracle: judges every reply of the server by a model of its own (model.h), in the order in which the server
 * decided.
 *
 * It sees a reply when it is made, before it may be shown, and keeps a copy of the model for the end of each frame that
 * is not durable yet. After a crash the world says up to which frame the log survived; the oracle goes back to that
 * copy. What was shown to a client ("acknowledged") it writes down besides, and looks it up after each crash: that must
 * be there, whatever the log says. Everything later is judged by the model that was gone back to, so a log that lies is
 * found out. */
#ifndef TALLY_TESTS_SIM_ORACLE_H
#define TALLY_TESTS_SIM_ORACLE_H

#include "model.h"
#include "witness.h"

#define HANDLES_MAX 4096
#define FACTS_MAX 8192
#define SAVED_MAX 64
#define QUEUE_NAMES 14
#define UNKNOWN_HANDLE (-2)

/* Something that a client was told. */
struct fact {
    enum { FACT_SENT, FACT_ENDED, FACT_COMPLETED } kind;
    int subject; /* message index, batch record */
    char id[MODEL_ID_SIZE];
};

/* A lease that a client was shown. */
struct lease_seen {
    uint64_t until_ms; /* nine tenths of it, by the world's clock; 0: none runs */
    uint64_t receive;  /* those of one reply have the same number */
    uint64_t lease;    /* the model's number */
    int handle;
    bool is_weak; /* a crash may take it back: the disk stalled twice in a row while its reply was held */
};

struct handle_of {
    int queue;
    int message;
};

struct oracle {
    struct model model;
    uint64_t sequence; /* of the frame that the model's newest change is in */
    unsigned in_flight_max;
    bool has_read_failed;                 /* the disk refused to be read in this turn; the world keeps it */
    unsigned waiting_counts[QUEUE_NAMES]; /* receives that wait, by name of the queue; the world keeps it */
    /* models at the ends of frames, oldest first; the first is of the newest durable frame */
    unsigned saved_count;
    uint64_t saved_sequences[SAVED_MAX];
    struct model *saved_owned[SAVED_MAX];
    struct model *scratch_owned;      /* to go back to when a step of several can't be done */
    struct model *before_lapse_owned; /* the model before time changed it that no frame has recorded */
    bool has_lapsed;
    struct witness witness;
    /* never forgotten */
    int handle_count;
    char handles[HANDLES_MAX][HANDLE_SIZE];
    struct handle_of handle_of[HANDLES_MAX];
    char completion_ids[MODEL_BATCHES_MAX][TARGETS][MODEL_ID_SIZE];
    int completion_names[MODEL_BATCHES_MAX];
    unsigned fact_count;
    struct fact facts[FACTS_MAX];
    uint64_t receive; /* the newest number of a reply with leases */
    struct lease_seen seen[MODEL_MESSAGES_MAX];
};

/* A lease that a reply gives. */
struct lease_given {
    int message;
    int handle;
    bool is_delivery; /* else its holder asked for it */
    uint64_t lease;   /* the model's number */
    uint64_t timeout_ms;
};

/* What a client learns from a reply, once it is shown. */
struct lesson {
    unsigned handle_count;
    int handles[ENTRIES_MAX];
    unsigned fact_count;
    struct fact facts[ENTRIES_MAX];
    unsigned lease_count;
    struct lease_given leases[ENTRIES_MAX];
};

struct oracle *oracle_create(unsigned in_flight_max);
void oracle_destroy(struct oracle *oracle);

/* What follows happens at `now` and, if it changes anything, in frame `sequence`. `is_logged`: that frame is open and
 * has events, so it says what time did until now. */
void oracle_begin(struct oracle *oracle, uint64_t now, uint64_t sequence, bool is_logged);

/* A request is about to be made: notes what it will be judged by. */
void oracle_ask(const struct oracle *oracle, struct operation *operation);

/* Judges a reply. */
void oracle_judge(struct oracle *oracle, const struct operation *operation, enum error error, struct bytes body,
                  struct lesson *lesson);

/* A receive begins to wait. `is_first`: nobody waits at that queue before it, so it has looked. */
void oracle_judge_wait(struct oracle *oracle, const struct operation *operation, bool is_first);

/* A turn has ended with this receive still waiting: is there really nothing for it? */
void oracle_judge_waiting(struct oracle *oracle, const struct operation *operation);

/* Notes what a call has done (witness.h). */
void oracle_observe(struct oracle *oracle, const struct core *core);

/* A call is over: whatever the server did in it has been accounted for. */
void oracle_settle(struct oracle *oracle);

void oracle_tick(struct oracle *oracle);

/* All that was due has happened: no move task is late. */
void oracle_expect_moved(struct oracle *oracle);

/* Frames up to `sequence` are durable. */
void oracle_durable(struct oracle *oracle, uint64_t sequence);

/* A client was shown the reply. */
void oracle_acknowledge(struct oracle *oracle, const struct lesson *lesson);

/* A client sees the leases that a reply gives. is_weak: as in struct lease_seen. */
void oracle_show_leases(struct oracle *oracle, const struct lesson *lesson, uint64_t now_ms, bool is_weak);

/* The server made a lease longer. `held`: what the replies that are held will teach. */
void oracle_renew(struct oracle *oracle, const struct sight *sight, const struct lesson *const *held, unsigned count);

/* The world's clock was set back by so much when the server started. */
void oracle_clock_was_set(struct oracle *oracle, uint64_t back_ms, bool has_crashed);

/* After a crash: the log has the frames up to `survived`, its newest time is `last_ms`, and the server went on at
 * `now_ms` with frame `sequence`. */
void oracle_recover(struct oracle *oracle, uint64_t survived, uint64_t last_ms, uint64_t now_ms, uint64_t sequence);

#endif
