/* A client of a campaign: one connection with one request under way, as a producer or as a worker.
 *
 * When the daemon goes away under a request, the client connects again and repeats it byte by byte, as an SDK would: a
 * send is recognised by its deduplication id or its producer's number, a delete by its receipt handle. Only a receive
 * is not repeated but asked anew. */
#ifndef TALLY_CAMPAIGN_CLIENT_H
#define TALLY_CAMPAIGN_CLIENT_H

#include "record.h"
#include "text.h"

/* What all clients share. */
struct campaign {
    uint16_t port;
    const char *queue;
    bool is_numbered;         /* sends carry a producer and a number; else a deduplication id makes them exact */
    double failure_share;     /* of the attempts */
    uint64_t random;          /* state of the generator; never 0 */
    uint64_t started_at_ms;   /* the record's times count from here */
    uint64_t attempts;        /* messages that a worker took on */
    uint64_t failed_attempts; /* that it did not finish */
    uint64_t fence_probes;    /* deletes with handles that had been taken away */
    uint64_t refused_deletes;
    uint64_t lost_replies;
    uint64_t requests;
    struct record record;
};

enum client_step {
    STEP_IDLE, /* nothing under way */
    STEP_SEND, /* a producer's only one */
    STEP_RECEIVE,
    STEP_GIVE_BACK,
    STEP_DELETE,
    STEP_DONE, /* a producer that has sent all of its groups' messages */
};

/* What a worker does with a message that it holds. */
enum fate {
    FATE_DELETE,
    FATE_FAIL,    /* FailMessage */
    FATE_RELEASE, /* ChangeMessageVisibility to 0 */
    FATE_LAPSE,   /* nothing, until its lease ends; so do those behind it */
    FATE_PROBE,   /* behind one that was given back: a delete must be refused */
};

struct held {
    struct delivery delivery;
    enum fate fate;
    bool is_done;
    struct text handle; /* as it is escaped in JSON */
};

struct client {
    struct campaign *campaign;
    int fd; /* -1: not connected */
    enum client_step step;
    bool is_producer;
    bool is_repeat;           /* the request under way was asked before, and not answered */
    bool is_give_back_unsure; /* one was repeated: whether it took effect the first time is not known */
    bool is_delete_first;     /* before the ones that are given back */
    uint32_t asked_at_ms;
    uint32_t group_first; /* producer: its groups */
    uint32_t group_end;
    uint32_t next;                 /* producer: messages of its groups sent so far, round by round */
    unsigned entry_count;          /* of the request under way */
    uint32_t entries[RECEIVE_MAX]; /* messages; of a delete: indexes of `held` */
    unsigned held_count;
    struct held held[RECEIVE_MAX];
    struct text request;
    struct text in;
};

void client_init(struct client *client, struct campaign *campaign, bool is_producer, uint32_t group_first,
                 uint32_t group_end);
void client_deinit(struct client *client);

/* Connects, and asks what is to be asked: the request that was lost, or the next one. False while nobody listens. */
bool client_connect(struct client *client);

/* The socket can be read; a connection that is over leaves fd at -1. */
void client_read(struct client *client);

/* Closes the connection; a request under way counts as lost. */
void client_disconnect(struct client *client);

uint32_t campaign_now_ms(const struct campaign *campaign);

/* Below `bound`. */
uint32_t campaign_random(struct campaign *campaign, uint32_t bound);

#endif
