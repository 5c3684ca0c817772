/* A workload: what one connection asks, in which order, and what it takes for a confirmation.
 *
 * The generator owns the sockets and the clock; a workload only writes requests and reads replies. It adds to the
 * counters when a reply confirms something, never when a request leaves. */
#ifndef TALLY_BENCH_WORKLOAD_H
#define TALLY_BENCH_WORKLOAD_H

#include "text.h"

#include <stdio.h>

struct plan {
    const char *mode;
    uint16_t port;
    const char *queue;    /* name of the SQS queue, made before */
    uint64_t groups;      /* 0: none; else each message belongs to one of so many, in turn */
    uint64_t group_first; /* the number of the first */
    /* 0: none; else each message has a deduplication id, counted from here; of tickets, keys: the first number */
    uint64_t id_first;
    /* NULL, or one message attribute of each message, RabbitMQ: argument of the queue: NAME=VALUE */
    const char *attribute;
    bool is_signed;         /* SQS only: requests carry a signature that is valid (signer.h) */
    const char *access_key; /* NULL: SIGNER_ACCESS_KEY */
    const char *account;    /* in the URL of the queue; NULL: 000000000000 */
    unsigned connections;
    const char *ticket_kind; /* pools only: what tickets say (tickets.h) */
    unsigned batch;          /* pools, redis-claim: tickets, pairs in one request */
    unsigned pipeline;       /* requests in one write; not over HTTP */
    unsigned body_size;      /* of one message */
    double warm_up_s;        /* left out of every figure */
    double duration_s;
    uint64_t count;        /* 0, or the number of writes after which the run ends; then there is no warm-up */
    double rate;           /* 0: closed loop; else requests per second, each due at a fixed time */
    const char *cpu_pids;  /* NULL, or the processes whose CPU time counts as the server's: "12,13" */
    const char *latencies; /* a file for each of them; NULL: none */
    bool is_told;          /* a line of JSON each second, from the workload's print_progress() */
    /* Of the long runs (record.h): */
    const char *record; /* the file */
    uint64_t messages;  /* that it has room for */
    unsigned slot;      /* of this process */
    uint64_t hand;      /* long-scatter: receipt handles in hand */
    uint64_t keep;      /* long-scatter: messages that are not deleted */
    uint64_t window;    /* soak-send: 0, or so many messages may have been sent and not ended */
    unsigned lease_s;   /* soak-work: visibility timeout */
};

struct counters {
    uint64_t requests;
    uint64_t sent; /* messages confirmed as sent, received, deleted */
    uint64_t received;
    uint64_t deleted;
};

struct connection {
    int fd;
    unsigned index;       /* among the connections */
    uint64_t first;       /* the workload's own: the first message of what is under way */
    unsigned step;        /* where it is in the workload's cycle */
    unsigned replies_due; /* that the write in flight still waits for; 0: idle */
    uint64_t asked_at_ns; /* when the write in flight began, or was due */
    struct view out;      /* what is left to write; borrowed from the workload or from `own` */
    struct text own;      /* a request made for this connection alone */
    struct text in;       /* bytes that no reply has used up yet */
    bool is_part;         /* the last answer was not the end of an operation: its latency goes on with the next write */
    bool is_drained;      /* a drain: there was nothing more to receive */

    /* Protocols in which the server speaks first, or unasked. */
    bool is_open;           /* the handshake is over */
    struct text aside;      /* goes out with the next write, or alone if none comes */
    struct text kept;       /* what a later write is made of */
    uint32_t heard;         /* AMQP: the last method of the handshake, */
    unsigned wanted;        /* deliveries that the cycle under way still waits for, */
    unsigned ahead;         /* deliveries that came before they were waited for, */
    uint64_t tag_first;     /* the number of the first message published last, */
    uint64_t unconfirmed;   /* a bit for each of them, */
    uint64_t tag_delivered; /* and that of the message delivered last */
};

/* Which of its confirmations is a message of the run. */
enum counted { COUNTED_SENT, COUNTED_RECEIVED, COUNTED_DELETED };

struct workload {
    const char *name;
    const char *help;
    enum counted counted;
    bool is_drain; /* ends by itself when nothing is left, and is measured whole */
    /* the server also sends what was not asked for; then answer() counts replies itself (connection_settle) */
    bool is_pushed;
    /* Prebuilds the requests; what it returns goes to the functions below and lives as long as the program. */
    void *(*create)(const struct plan *plan);
    /* Sets connection->out and connection->replies_due. */
    void (*ask)(const void *state, struct connection *connection);
    /* Reads the first reply of `in` and counts what it confirms. Returns its size, 0 while bytes are missing; ends the
     * program if it is anything but the confirmation expected. */
    size_t (*answer)(const void *state, struct connection *connection, struct view in, struct counters *counters);
    /* NULL, or: is everything that was begun over? A run that begins nothing more ends then, whatever connections wait
     * for. */
    bool (*is_settled)(const void *state, const struct counters *counters);
    /* NULL, or: should no new write begin for a moment? */
    bool (*must_wait)(const void *state);
    /* NULL, or prints fields of a JSON object that say how far it is, without braces. */
    void (*print)(const void *state, FILE *file);
};

/* So many of the replies that the write in flight waits for have come. */
static inline void connection_settle(struct connection *connection, unsigned count, struct counters *counters)
{
    connection->replies_due -= count;
    counters->requests += count;
}

/* The workload of that name, or NULL. */
const struct workload *workload_find(const char *name);

/* The n-th workload, or NULL behind the last. */
const struct workload *workload_at(unsigned index);

/* A message body of `size` bytes: printable, nothing to escape, the same in every run. Appends it. */
void workload_body_append(struct text *out, unsigned size);

extern const struct workload WORKLOAD_HTTP_SEND;
extern const struct workload WORKLOAD_HTTP_STATIC;
extern const struct workload WORKLOAD_HTTP_BATCH;
extern const struct workload WORKLOAD_HTTP_LIFE;
extern const struct workload WORKLOAD_HTTP_LIFE_SINGLE;
extern const struct workload WORKLOAD_HTTP_TAKE;
extern const struct workload WORKLOAD_HTTP_DRAIN;
extern const struct workload WORKLOAD_REDIS_LPUSH;
extern const struct workload WORKLOAD_REDIS_CLAIM;
extern const struct workload WORKLOAD_BEANSTALK_PUT;
extern const struct workload WORKLOAD_BEANSTALK_LIFE;
extern const struct workload WORKLOAD_REDIS_LIFE;
extern const struct workload WORKLOAD_NATS_LIFE;
extern const struct workload WORKLOAD_AMQP_LIFE;
extern const struct workload WORKLOAD_POOL_OFFER;
extern const struct workload WORKLOAD_POOL_PROPOSE;
extern const struct workload WORKLOAD_POOL_DUEL;
extern const struct workload WORKLOAD_LONG_SEND;
extern const struct workload WORKLOAD_LONG_SCATTER;
extern const struct workload WORKLOAD_LONG_DRAIN;
extern const struct workload WORKLOAD_SOAK_SEND;
extern const struct workload WORKLOAD_SOAK_WORK;

#endif
