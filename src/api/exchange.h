/* One request and its reply, from the moment when the server has read the whole request until its reply was written.
 *
 * Owned by the server. The api fills `reply` and says from which frame on it may be shown (`hold_sequence`). A request
 * that waits for messages stays with the api until api_take_finished() returns it. */
#ifndef TALLY_API_EXCHANGE_H
#define TALLY_API_EXCHANGE_H

#include "api/reply_budget.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/list.h"
#include "engine/grant.h"

struct request {
    struct bytes method;       /* "POST", "GET" */
    struct bytes path;         /* without the query string */
    struct bytes query;        /* the query string, without its question mark; empty if none */
    struct bytes head;         /* the header lines as they came, for signatures */
    struct bytes host;         /* Host header, host and port (server/authority.h); empty if none */
    struct bytes target;       /* X-Amz-Target header; empty if none */
    struct bytes trace_header; /* X-Amzn-Trace-Id header; empty if none */
    struct bytes traceparent;  /* traceparent header; empty if none */
    struct bytes tracestate;   /* tracestate header; empty if none */
    struct bytes origin;       /* Origin header; empty if none */
    struct bytes fetch_site;   /* Sec-Fetch-Site header; empty if none */
    struct bytes forwarded_by; /* Tally-Forwarded-By header (server/forward.h); empty if none */
    struct bytes worker;       /* X-Tally-Worker header: what the client calls itself; empty if none */
    struct bytes address;      /* of the client, "10.0.0.2"; empty over a Unix socket, or if it is not known */
    uint32_t *holder_guess;    /* of the connection: who it was at the newest receive (holder.h); NULL: it forgets */
    struct bytes body;         /* whole */
    int64_t wall_s;            /* when it came, in seconds since the epoch by the wall clock */
    bool is_https;             /* URLs that we make for this client begin with https:// */
    bool is_form;              /* Content-Type is that of a form */
    bool takes_json;           /* Accept names JSON, and no XML before it */
};

struct reply {
    int status;
    const char *content_type; /* static text */
    const char *fields;       /* more header lines, each with CR LF behind it; static text. NULL: none */
    enum error error;         /* OK, or the error: sets the header x-amzn-query-error */
    bool is_not_owner;        /* for the node that has passed the request on: this one does not serve it */
    struct buffer body;
};

#define REQUEST_ID_SIZE 36u

/* How a request is written, and so its reply. */
enum wire_form {
    WIRE_JSON,       /* AWS JSON 1.0 */
    WIRE_QUERY,      /* AWS Query: a form, answered in XML */
    WIRE_QUERY_JSON, /* AWS Query, answered in JSON */
};

/* A form is Query, whatever X-Amz-Target says; every other request with a target is JSON. */
enum wire_form request_form(const struct request *request);

/* Does its path ask for ListMessages in the form of a receive? */
#define RECEIVED_PATH "/_aws/sqs/messages"
bool request_is_as_received(const struct request *request);

struct action;
struct api;
struct credential;

enum exchange_state {
    EXCHANGE_NEW,
    EXCHANGE_WAITING,  /* in the api, waiting for messages or tickets */
    EXCHANGE_FINISHED, /* reply is complete; show it when hold_sequence is durable */
};

struct exchange {
    struct request request;           /* borrowed from the server until the exchange is finished */
    char request_id[REQUEST_ID_SIZE]; /* the server's, for the reply's head and for XML */
    enum wire_form form;              /* the api's, like the next; for a refused request the server's */
    const struct action *row;         /* the action asked for; NULL: not known */
    const struct credential *caller;  /* who asks, or NULL; valid while it waits (access_renew()) */
    uint32_t credentials_number;      /* of the front's credentials that the caller is one of */
    uint32_t queue_id;                /* of the queue that the request names; 0: none was found */
    const char *action;               /* without its service, like "SendMessage"; static; NULL: not known */
    bool is_own;                      /* the action is one of Tally's own, or would be one */
    bool is_as_received;              /* ListMessages in the form of a receive (list_received.h) */
    struct reply reply;
    struct arena arena;        /* for the api, until the exchange is finished */
    uint64_t hold_sequence;    /* 0: nothing to wait for */
    struct grant *grant_owned; /* the leases that the reply gives (engine/grant.h), or NULL */
    enum exchange_state state;
    struct api *api;           /* the api of its namespace, which has it or had it; NULL: it was refused before */
    struct list_link api_link; /* in the api: among the waiting or the finished */
    uint32_t waiter_slot;      /* in the api, while EXCHANGE_WAITING */
};

/* Notes in which form the request came, and whether it is about an action of Tally's own: for what is refused. */
void exchange_note_form(struct exchange *exchange);

void exchange_init(struct exchange *exchange);
void exchange_deinit(struct exchange *exchange);

/* The action that replies are named after: <SendMessageResponse>. */
static inline const char *exchange_shown_action(const struct exchange *exchange)
{
    return exchange->is_as_received ? "ReceiveMessage" : exchange->action;
}

/* Is the action one that may look at thousands of things (REPLY_WALK in action.h)? */
bool exchange_walks(const struct exchange *exchange);

/* Does the exchange give a lease in a reply that has not left yet? */
static inline bool exchange_gives_lease(const struct exchange *exchange)
{
    return grant_is_held(exchange->grant_owned);
}

/* The memory of an exchange besides its arena and the body of its reply: itself, what its owner adds
 * (server/pending_request.c asserts that), and the allocator's headers. */
#define EXCHANGE_SIZE ((size_t)616)

/* The memory of a finished exchange: EXCHANGE_SIZE, its grant, and all memory of its reply's body. */
size_t exchange_reply_memory(const struct exchange *exchange);

/* Counts a finished exchange in the budget. If half of the budget is spent, the body first gives back the memory that
 * it does not need. */
void exchange_count_reply(struct exchange *exchange, struct reply_budget *budget);

/* The exchange waits, and keeps nothing of the request but what its owner has copied. The request and everything
 * written are gone. It then takes EXCHANGE_SIZE and at most EXCHANGE_WAITING_BODY_MAX. */
#define EXCHANGE_WAITING_BODY_MAX ((size_t)256)
void exchange_rest(struct exchange *exchange);

/* Makes it ready for the next request of the connection; keeps its memory. */
void exchange_reset(struct exchange *exchange);

#endif
