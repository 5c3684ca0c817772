/* A client of a campaign of pools: one connection with one request under way, as a producer of tickets, as a matcher,
 * as the reader of the feed of a view, or as a consumer of results.
 *
 * When the daemon goes away under a request, the client connects again and repeats it byte by byte, as an SDK would: an
 * offer is recognised by its ticket, a proposal by its id, a delete by its receipt handle. A receive and the feed are
 * asked anew. */
#ifndef TALLY_CAMPAIGN_POOL_CLIENT_H
#define TALLY_CAMPAIGN_POOL_CLIENT_H

#include "pool_record.h"
#include "pool_view.h"
#include "text.h"

enum { RESULTS_MAX = 10, PROPOSALS_MAX = 100, MATCH_ID_MAX = 64 };

/* What all clients share. */
struct pool_campaign {
    uint16_t port;
    const char *pool;
    const char *queue;
    uint32_t tickets;
    unsigned size;      /* of a match */
    unsigned proposals; /* in a request */
    unsigned window;    /* of the oldest waiting tickets a matcher takes any */
    unsigned offers;    /* in a request */
    uint32_t backlog;   /* tickets that are offered and not over; then producers rest */
    uint32_t lease_ms;
    double put_back_share; /* of the results that are seen the first time */
    bool is_built_in;      /* the daemon looks for matches too */
    uint64_t random;       /* state of the generator; never 0 */
    uint64_t started_at_ms;
    uint32_t next_ticket; /* to be offered */
    uint64_t offered;     /* answered */
    uint64_t asked;       /* proposals that were answered, by answer */
    uint64_t accepted;
    uint64_t conflicts;
    uint64_t stale;
    uint64_t put_backs;
    uint64_t events;
    uint64_t resyncs;
    uint64_t lost_replies;
    struct pool_record record;
};

enum pool_client_kind { PRODUCER, MATCHER, READER, CONSUMER };

enum pool_step {
    POOL_STEP_IDLE, /* nothing under way: nothing is to be done now */
    POOL_STEP_OFFER,
    POOL_STEP_PROPOSE,
    POOL_STEP_FEED,
    POOL_STEP_LIST,
    POOL_STEP_RECEIVE,
    POOL_STEP_PUT_BACK,
    POOL_STEP_DELETE,
};

struct pool_result {
    uint64_t match;
    char match_id[MATCH_ID_MAX];
    struct text handle; /* as it is escaped in JSON */
    bool is_put_back;
    bool is_done;
};

struct pool_client {
    struct pool_campaign *campaign;
    struct pool_view *view; /* matcher, reader */
    enum pool_client_kind kind;
    enum pool_step step;
    int fd; /* -1: not connected */
    unsigned number;
    uint32_t asked_at_ms; /* the receive, of a consumer */
    uint64_t sequence;    /* matcher: of its next proposal */
    unsigned count;       /* entries of the request under way */
    uint32_t proposed[PROPOSALS_MAX][GROUP_MAX];
    unsigned held;
    struct pool_result results[RESULTS_MAX];
    struct text list_token;
    struct text body;
    struct text request;
    struct text in;
};

void pool_client_init(struct pool_client *client, struct pool_campaign *campaign, enum pool_client_kind kind,
                      unsigned number, struct pool_view *view);
void pool_client_deinit(struct pool_client *client);

/* Connects, and asks what is to be asked: the request that was lost, or the next one. False while nobody listens. */
bool pool_client_connect(struct pool_client *client);

/* The socket can be read; a connection that is over leaves fd at -1. */
void pool_client_read(struct pool_client *client);

/* It may have something to do now. */
void pool_client_wake(struct pool_client *client);

/* The tickets from `first` on, `count` of them, as OfferTickets wants them. */
void pool_offer_write(struct text *body, const struct pool_campaign *campaign, uint32_t first, uint32_t count);

/* A digest of a match id; never 0. */
uint64_t pool_match_digest(struct view id);

uint32_t pool_campaign_now_ms(const struct pool_campaign *campaign);

#endif
