/* The world of a seed from inside: its state, and what its parts ask of each other. Only world*.c see this. */
#ifndef TALLY_TESTS_SIM_WORLD_PARTS_H
#define TALLY_TESTS_SIM_WORLD_PARTS_H

#include "onlooker.h"
#include "world.h"

#define CLIENTS 10u

enum connection_state {
    CONNECTION_IDLE,
    CONNECTION_WAITING, /* a long poll */
    CONNECTION_HELD,    /* the reply waits for its frame */
    CONNECTION_BROKEN,  /* reset before the reply came: the client will ask again */
};

/* A client's connection and its one request. */
struct connection {
    enum connection_state state;
    struct operation operation;
    struct exchange exchange;
    struct buffer body;
    struct lesson lesson;
};

struct world {
    uint64_t seed;
    unsigned step;
    unsigned steps;
    bool is_traced;
    bool is_quiet; /* no more faults */
    bool has_cleaned;
    bool is_full;      /* the disk has little room */
    bool was_full;     /* it had at some time: before that nobody may be refused for want of it */
    bool is_covered;   /* and the server had all of its reserve when that began: it must not end for want of room */
    bool stays_full;   /* at the end, too: everything must be drained without a free byte */
    bool is_read_near; /* the fault that is armed refuses to read */
    bool is_stop_near; /* the fault that is armed takes the whole machine */
    struct random clock, network, faults;
    struct clients clients;
    struct oracle *oracle;
    struct disk *disk;
    struct namespace *ns;
    struct front *front;
    struct api *api;
    struct namespace_options options;
    uint64_t now_ms;
    uint64_t epoch;            /* of the running server */
    uint64_t acknowledged;     /* highest frame that a shown reply stood on */
    size_t pending_bytes;      /* about how much stands in the open frame */
    uint64_t stalled_until_ms; /* the flush in work is over then; replies are held until then */
    unsigned stall_percent;
    unsigned crash_percent, flush_percent, jump_percent, check_every;
    struct connection connections[CLIENTS];
    struct buffer before, after; /* encoded cores */
    struct onlooker onlooker;    /* if the seed is looked at */
    struct world_report *report;
};

/* world.c */
void world_set_time(struct world *world, uint64_t now_ms);
void world_trace(const struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
int world_trace_size(size_t size); /* how much of a request or a reply is shown */
void world_let_time_pass(struct world *world, uint32_t jump_percent);

/* world_turn.c */
void world_begin_oracle(struct world *world, uint64_t time_ms, uint64_t sequence);
void world_begin_watching(struct world *world);
void world_follow_renewals(struct world *world, uint64_t time_ms);
uint64_t world_begin(struct world *world);
bool world_is_stalled(const struct world *world);
void world_server_flush(struct world *world);
void world_check_core(const struct world *world);
uint64_t world_ample_size(const struct world *world);
void world_make_room_to_renew(struct world *world);
void world_hang_up(struct world *world, enum connection_state state);
void world_server_tick(struct world *world);

/* world_request.c */
bool world_is_beyond_model(const struct world *world, const struct operation *operation);
void world_submit(struct world *world, struct connection *connection);
void world_client_acts(struct world *world);

/* world_reply.c */
void world_show_durable(struct world *world);
void world_judge(struct world *world, struct connection *connection, uint64_t time_ms);
struct connection *world_take_finished(struct world *world);
void world_judge_waiters(struct world *world, struct connection *first);
struct connection *world_judge_first(struct world *world, struct connection *connection, struct connection *first,
                                     uint64_t time_ms);

/* world_server.c */
void world_judge_end(const struct world *world, const struct failure *failure);
bool world_has_failed(const struct world *world);
void world_server_start(struct world *world, bool has_before, uint64_t sequence_before, uint64_t time_before_ms);
void world_server_restart(struct world *world, bool is_power_lost);
void world_server_stop(struct world *world);

/* world_disk.c */
void world_clear_disk(struct world *world);
void world_arm_fault(struct world *world);
void world_notice_failed_read(struct world *world);
void world_fill_disk(struct world *world, uint32_t room);
void world_stall(struct world *world);
void world_take_snapshot_step(struct world *world);
void world_take_clean_step(struct world *world);
void world_tend_disk(struct world *world);

/* world_look.c */
void world_begin_looking(struct world *world);
void world_end_looking(struct world *world);
void world_look(struct world *world); /* each time that a turn is over */

/* world_end.c */
void world_wind_up(struct world *world);

#endif
