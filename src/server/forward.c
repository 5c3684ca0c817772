#include "server/forward.h"

#include "auth/credentials.h"
#include "auth/sha256.h"
#include "base/assert.h"
#include "base/memory.h"
#include "server/metric.h"
#include "server/onward_request.h"
#include "server/report.h"
#include "server/upstream.h"

#include <stdlib.h>

#define TRY_MS 20u      /* between two looks at who serves, and between the first two tries; */
#define TRY_MAX_MS 160u /* each further one comes after twice that, up to this */
#define CONNECT_MS 500u /* a node that does not take a connection for so long is given up; */
#define SECURE_MS 1500u /* over TLS, where three answers have to come, this */
#define IDLE_MS 20000u  /* a connection without a request is closed: well before the other node would */
#define MOVED_MS 500u   /* a node that is the owner no more says so within this */
#define ANSWER_MS 60000u
#define ANSWER_SIZE_MAX ((size_t)64 << 20)
#define SHARED_HEAD_MAX ((size_t)4 * 1024)

/* A request that is being passed on. */
struct forwarded {
    struct forwarder *forwarder;
    struct list_link link;      /* among all */
    struct list_link room_link; /* among those that wait for room */
    struct pending_request *pending;
    char name[NAMESPACE_NAME_SIZE]; /* of the namespace that it is about */
    size_t name_size;
    uint64_t key;          /* for upstream_send() */
    struct buffer request; /* as it is sent */
    size_t counted;        /* of it, in the budget */
    uint64_t begun_ms;     /* loop time, like the next */
    uint64_t tried_ms;
    uint64_t pause_ms;            /* from that try to the next */
    struct upstream_call *call;   /* NULL: it waits to be tried again */
    struct forward_target target; /* of the newest try */
    bool may_wait;                /* for what is not there yet */
    bool was_refused;             /* its newest answer was that it is not the owner */
    uint64_t moved_ms; /* since when another node is the owner than the one that has the request; 0: none is */
};

/* Who serves a namespace, as it was found in one round of the timer. */
struct owner_look {
    uint64_t round;
    char name[NAMESPACE_NAME_SIZE];
    size_t name_size;
    enum forward_owner owner;
    struct forward_target target;
};

#define LOOKS 64u /* a power of two */

#define PROVEN_MAX 8u
#define PROVEN_SIZE_MAX (FORWARD_NODE_MAX + 1 + SHA256_HEX_SIZE)

/* A name of a node with its proof, which was right. */
struct proven {
    uint8_t field[PROVEN_SIZE_MAX];
    size_t size; /* 0: none */
    bool is_https;
};

struct forwarder {
    struct forward_options options;
    struct owner_look looks[LOOKS]; /* at the place of their names' hashes */
    uint64_t round;
    uv_loop_t *loop;
    uv_timer_t timer;      /* runs while it has requests, or idle connections */
    uv_timer_t room_timer; /* runs once where there may be room again */
    struct upstreams upstreams;
    struct peers peers;
    struct list all;
    struct list without_room; /* those of them for which there was no connection: whoever came first is the first */
    size_t count;             /* of all */
    struct sha256 sha256;
    struct hmac_key key;
    char macs[2][SHA256_HEX_SIZE + 1]; /* this node's, by whether its client speaks HTTPS */
    struct proven proven[PROVEN_MAX];  /* the newest, so that not each request costs a MAC */
    unsigned proven_next;
    uint64_t answered, unknown, refused, tried_again;
    uint64_t reported_forged_ms; /* report.h */
};

static void report(struct forwarder *forwarder, uint64_t *reported_ms, const char *text)
{
    if (report_may(reported_ms, uv_now(forwarder->loop)))
        forwarder->options.report(forwarder->options.context, text);
}

void forwarder_note_forged(struct forwarder *forwarder)
{
    report(forwarder, &forwarder->reported_forged_ms,
           "A request came that another node has passed on, and its proof is wrong: have all nodes the same "
           "cluster-secret?");
}

/* --- who passes on ------------------------------------------------------------------------------------------------ */

/* The proof for a node of that name. */
static void make_mac(struct forwarder *forwarder, struct bytes node, bool is_https, char text[SHA256_HEX_SIZE + 1])
{
    struct buffer said;
    buffer_init(&said);
    buffer_append_format(&said, "tally forwards %s %.*s", is_https ? "https" : "http", BYTES_FORMAT(node));
    uint8_t mac[SHA256_SIZE];
    sha256_hmac(&forwarder->sha256, &forwarder->key, buffer_bytes(&said), mac);
    buffer_deinit(&said);
    bytes_to_hex(bytes_make(mac, sizeof(mac)), text);
    text[SHA256_HEX_SIZE] = '\0';
}

static bool is_known(const struct forwarder *forwarder, struct bytes field, bool *is_https)
{
    for (size_t i = 0; i < PROVEN_MAX; i++) {
        const struct proven *known = &forwarder->proven[i];
        if (known->size != field.size || !bytes_equal_constant_time(bytes_make(known->field, known->size), field))
            continue;
        *is_https = known->is_https;
        return true;
    }
    return false;
}

static void remember(struct forwarder *forwarder, struct bytes field, bool is_https)
{
    struct proven *known = &forwarder->proven[forwarder->proven_next++ % PROVEN_MAX];
    memcpy(known->field, field.ptr, field.size);
    known->size = field.size;
    known->is_https = is_https;
}

bool forwarder_trusts(struct forwarder *forwarder, const struct request *request, bool *is_https)
{
    const struct bytes field = request->forwarded_by;
    if (field.size <= SHA256_HEX_SIZE + 1 || field.size > PROVEN_SIZE_MAX)
        return false;
    if (is_known(forwarder, field, is_https))
        return true;
    const struct bytes node = bytes_make(field.ptr, field.size - SHA256_HEX_SIZE - 1);
    for (int i = 0; i < 2; i++) {
        char mac[SHA256_HEX_SIZE + 1];
        make_mac(forwarder, node, i == 1, mac);
        if (!bytes_equal_constant_time(bytes_make(mac, SHA256_HEX_SIZE), bytes_skip(field, node.size + 1)))
            continue;
        *is_https = i == 1;
        remember(forwarder, field, *is_https);
        return true;
    }
    return false;
}

/* --- the end of one ----------------------------------------------------------------------------------------------- */

static void leave_line(struct forwarded *forwarded)
{
    if (list_is_linked(&forwarded->room_link))
        list_remove(&forwarded->room_link);
}

static void drop(struct forwarded *forwarded)
{
    reply_budget_subtract(forwarded->forwarder->options.replies, forwarded->counted);
    list_remove(&forwarded->link);
    leave_line(forwarded);
    forwarded->forwarder->count--;
    buffer_deinit(&forwarded->request);
    free(forwarded);
}

/* The exchange is the front's again. */
static struct exchange *give_back(struct forwarded *forwarded)
{
    struct pending_request *pending = forwarded->pending;
    pending->forwarded = NULL;
    pending->state = PENDING_IN_API;
    drop(forwarded);
    return &pending->exchange;
}

static void refuse(struct forwarded *forwarded, const char *text)
{
    struct front *front = forwarded->forwarder->options.front;
    front_refuse(front, give_back(forwarded), ERROR_SERVICE_UNAVAILABLE, text);
}

static void refuse_unknown(struct forwarded *forwarded)
{
    char text[sizeof(forwarded->target.said) + 128];
    (void)snprintf(text, sizeof(text),
                   "Node %s got this request, and its answer did not come, so nobody knows whether it took effect. Try "
                   "again.",
                   forwarded->target.said);
    forwarded->forwarder->unknown++;
    refuse(forwarded, text);
}

/* The reason is for operators: clients need not know who has which certificate. */
static void report_unreached(struct forwarder *forwarder, const struct forward_target *target)
{
    struct peer *peer = peers_get(&forwarder->peers, target->address);
    char text[sizeof(target->said) + sizeof(peer->trouble) + 128];
    (void)snprintf(text, sizeof(text), "Node %s serves, and this node could not reach it for %u s%s%s", target->said,
                   FORWARD_WAIT_MS / 1000, peer->trouble[0] == '\0' ? "" : ": ", peer->trouble);
    report(forwarder, &peer->reported_ms, text);
}

/* In all the time that it may wait, nobody took it. */
static void refuse_unsent(struct forwarded *forwarded, enum forward_owner owner, const struct forward_target *target)
{
    char text[sizeof(target->said) + 192];
    forwarded->forwarder->refused++;
    if (target->trouble[0] != '\0') {
        (void)snprintf(text, sizeof(text), "%s", target->trouble);
    } else if (owner == FORWARD_TO_ADDRESS) {
        (void)snprintf(text, sizeof(text), "Node %s %s, and this node could not reach it for %u s%s. Try again.",
                       target->said, forwarded->was_refused ? "should serve" : "serves", FORWARD_WAIT_MS / 1000,
                       forwarded->was_refused ? ", or it does not serve yet" : "");
        report_unreached(forwarded->forwarder, target);
    } else if (owner == FORWARD_TO_NOBODY) {
        (void)snprintf(text, sizeof(text), "Node %s serves, and says nowhere how to reach it. Try again, or ask it.",
                       target->said);
    } else {
        (void)snprintf(text, sizeof(text), "No node serves this at the moment. Try again.");
    }
    refuse(forwarded, text);
}

static void deliver(struct forwarded *forwarded, const struct upstream_answer *answer)
{
    struct forwarder *forwarder = forwarded->forwarder;
    forwarder->answered++;
    front_answer(forwarder->options.front, give_back(forwarded), &answer->reply);
}

/* --- tries -------------------------------------------------------------------------------------------------------- */

static void on_done(void *context, enum upstream_outcome outcome, const struct upstream_answer *answer)
{
    struct forwarded *forwarded = context;
    forwarded->call = NULL;
    forwarded->was_refused = outcome == UPSTREAM_ANSWERED && answer->is_not_owner;
    if (outcome == UPSTREAM_ANSWERED && !answer->is_not_owner) {
        deliver(forwarded, answer);
        return;
    }
    if (outcome == UPSTREAM_UNKNOWN) {
        refuse_unknown(forwarded);
        return;
    }
    forwarded->forwarder->tried_again++; /* by the timer */
    if (outcome == UPSTREAM_NOT_BEGUN)
        forwarded->key = 0; /* alone, because one of those with which it shared is refused */
}

/* Of many requests most are about a few namespaces. */
static const struct owner_look *find_owner(struct forwarder *forwarder, struct bytes name)
{
    struct owner_look *look = &forwarder->looks[bytes_hash(name) % LOOKS];
    if (look->round == forwarder->round && bytes_equal(bytes_make(look->name, look->name_size), name))
        return look;
    *look = (struct owner_look){.round = forwarder->round, .name_size = name.size};
    memcpy(look->name, name.ptr, name.size);
    look->owner = forwarder->options.find_owner(forwarder->options.context, name, &look->target);
    return look;
}

static struct bytes name_of(const struct forwarded *forwarded)
{
    return bytes_make(forwarded->name, forwarded->name_size);
}

/* False: there is no room. */
static bool try_once(struct forwarded *forwarded, const struct forward_target *target)
{
    struct forwarder *forwarder = forwarded->forwarder;
    struct peer *peer = peers_get(&forwarder->peers, target->address);
    if (!peer_may_try(peer))
        return true;
    forwarded->call = upstream_send(&forwarder->upstreams, peer, forwarded->key, buffer_bytes(&forwarded->request),
                                    on_done, forwarded);
    if (forwarded->call == NULL)
        return false;
    leave_line(forwarded);
    forwarded->tried_ms = uv_now(forwarder->loop);
    forwarded->pause_ms = forwarded->pause_ms == 0 ? TRY_MS : 2 * forwarded->pause_ms;
    forwarded->pause_ms = forwarded->pause_ms < TRY_MAX_MS ? forwarded->pause_ms : TRY_MAX_MS;
    forwarded->target = *target;
    forwarded->moved_ms = 0;
    return true;
}

static void try_or_wait(struct forwarded *forwarded, const struct forward_target *target)
{
    if (!try_once(forwarded, target) && !list_is_linked(&forwarded->room_link))
        list_append(&forwarded->forwarder->without_room, &forwarded->room_link);
}

/* There may be room for those that wait for it. Who leaves the line here without being sent is looked after by the
 * other timer. */
static void on_room(uv_timer_t *timer)
{
    struct forwarder *forwarder = timer->data;
    struct list_link *link;
    forwarder->round++;
    while ((link = list_first(&forwarder->without_room)) != NULL) {
        struct forwarded *forwarded = CONTAINER_OF(link, struct forwarded, room_link);
        const struct owner_look *look = find_owner(forwarder, name_of(forwarded));
        list_remove(link);
        if (look->owner == FORWARD_TO_ADDRESS && !try_once(forwarded, &look->target)) {
            list_prepend(&forwarder->without_room, link);
            break;
        }
    }
}

static void on_freed(void *context)
{
    struct forwarder *forwarder = context;
    if (!list_is_empty(&forwarder->without_room))
        uv_timer_start(&forwarder->room_timer, on_room, 0, 0);
}

static void stop_call(struct forwarded *forwarded)
{
    upstream_stop(forwarded->call);
    forwarded->call = NULL;
}

/* Has the node that has the request not answered, though it should have? Where another one is the owner by now, it
 * would have said that it is not. */
static bool is_overdue(struct forwarded *forwarded, bool has_moved, bool is_gone, uint64_t now_ms)
{
    const uint64_t since_ms = now_ms - forwarded->tried_ms;
    if (!has_moved)
        forwarded->moved_ms = 0;
    else if (forwarded->moved_ms == 0)
        forwarded->moved_ms = now_ms;
    return (has_moved && now_ms - forwarded->moved_ms > MOVED_MS) || (is_gone && since_ms > FORWARD_WAIT_MS) ||
           since_ms > ANSWER_MS;
}

/* One that is under way: is another node the owner by now, and does this one take the connection, and answer? */
static void check(struct forwarded *forwarded, enum forward_owner owner, const struct forward_target *target,
                  uint64_t now_ms)
{
    const bool has_moved = owner == FORWARD_TO_ADDRESS && strcmp(target->address, forwarded->target.address) != 0;
    const bool has_sent = upstream_has_sent(forwarded->call);
    const uint64_t since_ms = now_ms - forwarded->tried_ms;
    if (has_sent && is_overdue(forwarded, has_moved, owner == FORWARD_LATER, now_ms)) {
        stop_call(forwarded);
        refuse_unknown(forwarded);
    } else if (!has_sent && has_moved) {
        stop_call(forwarded);
        forwarded->forwarder->tried_again++;
    } else if (!has_sent && since_ms > (forwarded->forwarder->options.tls == NULL ? CONNECT_MS : SECURE_MS)) {
        upstream_give_up(forwarded->call);
        forwarded->call = NULL;
        forwarded->forwarder->tried_again++;
    }
}

static void look_after(struct forwarded *forwarded)
{
    const uint64_t now_ms = uv_now(forwarded->forwarder->loop);
    const struct owner_look *look = find_owner(forwarded->forwarder, name_of(forwarded));
    if (forwarded->call != NULL) {
        check(forwarded, look->owner, &look->target, now_ms);
        return;
    }
    const bool is_another = strcmp(look->target.address, forwarded->target.address) != 0;
    if (look->owner == FORWARD_TO_NOBODY || now_ms - forwarded->begun_ms >= FORWARD_WAIT_MS)
        refuse_unsent(forwarded, look->owner, &look->target);
    else if (look->owner == FORWARD_TO_ADDRESS && (is_another || now_ms - forwarded->tried_ms >= forwarded->pause_ms))
        try_or_wait(forwarded, &look->target);
}

static void look_after_all(struct forwarder *forwarder)
{
    struct list_link *next;
    forwarder->round++;
    for (struct list_link *link = list_first(&forwarder->all); link != NULL; link = next) {
        next = list_next(&forwarder->all, link);
        look_after(CONTAINER_OF(link, struct forwarded, link));
    }
}

static void on_timer(uv_timer_t *timer);

/* A name was looked up, for which requests wait. */
static void on_looked_up(void *context)
{
    look_after_all(context);
}

void forwarder_note_served(struct forwarder *forwarder)
{
    if (!list_is_empty(&forwarder->all))
        uv_timer_start(&forwarder->timer, on_timer, 0, TRY_MS);
}

static void on_timer(uv_timer_t *timer)
{
    struct forwarder *forwarder = timer->data;
    look_after_all(forwarder);
    upstreams_close_idle(&forwarder->upstreams, IDLE_MS);
    if (list_is_empty(&forwarder->all) && forwarder->upstreams.count == 0)
        uv_timer_stop(timer);
}

static void write_request(struct forwarded *forwarded, const struct request *request)
{
    struct forwarder *forwarder = forwarded->forwarder;
    onward_request_write(&forwarded->request, request, forwarder->options.node, forwarder->macs[request->is_https]);
    forwarded->counted = forwarded->request.capacity;
    reply_budget_add(forwarder->options.replies, forwarded->counted);
}

/* Requests that wait for nothing but the log of their namespace may share a connection to its owner. Those with long
 * replies may wait (action.h). One with a large head may be too large for the owner, whose header-max may be less. */
static uint64_t key_of(const struct forwarder *forwarder, const struct request *request, struct bytes name)
{
    const bool may_share =
        request->head.size <= SHARED_HEAD_MAX && front_reply_is_short(forwarder->options.front, request);
    return may_share ? bytes_hash(name) | 1 : 0;
}

bool forwarder_take(struct forwarder *forwarder, struct pending_request *pending, struct bytes name)
{
    ASSERT(name.size <= NAMESPACE_NAME_SIZE);
    if (pending->exchange.request.forwarded_by.size > 0) { /* or two nodes would pass it to and fro */
        forwarder_note_forged(forwarder);
        return false;
    }
    forwarder->round++; /* who serves is asked anew */
    const struct owner_look *look = find_owner(forwarder, name);
    if (look->owner == FORWARD_TO_NOBODY)
        return false;
    struct forwarded *forwarded = memory_allocate_zeroed(sizeof(*forwarded));
    forwarded->forwarder = forwarder;
    forwarded->pending = pending;
    forwarded->begun_ms = uv_now(forwarder->loop);
    forwarded->name_size = name.size;
    memcpy(forwarded->name, name.ptr, name.size);
    forwarded->may_wait = front_may_wait(forwarder->options.front, &pending->exchange.request);
    forwarded->key = key_of(forwarder, &pending->exchange.request, name);
    buffer_init(&forwarded->request);
    write_request(forwarded, &pending->exchange.request);
    list_append(&forwarder->all, &forwarded->link);
    forwarder->count++;
    pending->forwarded = forwarded;
    pending->state = PENDING_FORWARDED;
    exchange_note_form(&pending->exchange);
    pending->exchange.state = EXCHANGE_WAITING;
    pending->exchange.caller = NULL; /* credentials may be replaced meanwhile */
    exchange_rest(&pending->exchange);
    if (look->owner == FORWARD_TO_ADDRESS)
        try_or_wait(forwarded, &look->target);
    if (!uv_is_active((uv_handle_t *)&forwarder->timer))
        uv_timer_start(&forwarder->timer, on_timer, TRY_MS, TRY_MS);
    return true;
}

void forwarder_flush(struct forwarder *forwarder)
{
    upstreams_flush(&forwarder->upstreams);
}

bool forwarder_may_wait(const struct pending_request *pending)
{
    return pending->forwarded->may_wait;
}

void forwarder_abandon(struct pending_request *pending)
{
    struct forwarded *forwarded = pending->forwarded;
    pending->forwarded = NULL;
    if (forwarded->call != NULL)
        upstream_stop(forwarded->call);
    drop(forwarded);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* It keeps no loop running. */
static void init_timer(struct forwarder *forwarder, uv_timer_t *timer)
{
    const int status = uv_timer_init(forwarder->loop, timer);
    ASSERT(status == 0);
    timer->data = forwarder;
    uv_unref((uv_handle_t *)timer);
}

struct forwarder *forwarder_create(uv_loop_t *loop, const struct forward_options *options)
{
    ASSERT(options->secret.size > 0);
    struct forwarder *forwarder = memory_allocate_zeroed(sizeof(*forwarder));
    forwarder->options = *options;
    forwarder->loop = loop;
    list_init(&forwarder->all);
    list_init(&forwarder->without_room);
    sha256_init(&forwarder->sha256);
    forwarder->key = sha256_hmac_key(&forwarder->sha256, options->secret);
    for (int i = 0; i < 2; i++)
        make_mac(forwarder, bytes_from_string(options->node), i == 1, forwarder->macs[i]);
    upstreams_init(&forwarder->upstreams, loop, options->tls, options->replies, ANSWER_SIZE_MAX, on_freed, forwarder);
    peers_init(&forwarder->peers, loop, on_looked_up, forwarder);
    init_timer(forwarder, &forwarder->timer);
    init_timer(forwarder, &forwarder->room_timer);
    return forwarder;
}

void forwarder_close(struct forwarder *forwarder)
{
    ASSERT(list_is_empty(&forwarder->all));
    upstreams_close(&forwarder->upstreams);
    peers_close(&forwarder->peers);
    uv_close((uv_handle_t *)&forwarder->timer, NULL);
    uv_close((uv_handle_t *)&forwarder->room_timer, NULL);
}

void forwarder_destroy(struct forwarder *forwarder)
{
    ASSERT(forwarder->upstreams.count == 0);
    peers_deinit(&forwarder->peers);
    sha256_deinit(&forwarder->sha256);
    free(forwarder);
}

void forwarder_write_metrics(const struct forwarder *forwarder, struct buffer *text)
{
    metric_write(text, "tally_forwarded_total", "counter", "Requests that another node has answered.",
                 forwarder->answered);
    metric_write(text, "tally_forwarded_unknown_total", "counter",
                 "Requests that were sent to another node and not answered: a 503.", forwarder->unknown);
    metric_write(text, "tally_forwarded_refused_total", "counter",
                 "Requests for which no node was found in time: a 503.", forwarder->refused);
    metric_write(text, "tally_forwarded_retries_total", "counter", "Times that a request had to be tried again.",
                 forwarder->tried_again);
    metric_write(text, "tally_forward_requests", "gauge", "Requests that wait for an answer of another node.",
                 forwarder->count);
    metric_write(text, "tally_forward_connections", "gauge", "Open connections to other nodes.",
                 forwarder->upstreams.count);
    metric_write(text, "tally_forward_connections_opened_total", "counter", "Connections begun to other nodes.",
                 forwarder->upstreams.opened_total);
    metric_write(text, "tally_forward_writes_total", "counter",
                 "Writes of requests to other nodes: those of a namespace that come at once go in one.",
                 forwarder->upstreams.written_total);
    metric_write(text, "tally_forward_connects_failed_total", "counter",
                 "Connections to other nodes that could not be made, for whatever reason.",
                 forwarder->peers.connects_failed);
    metric_write(text, "tally_forward_handshakes_failed_total", "counter",
                 "Those of them that failed because of a certificate, or without TLS at the other end.",
                 forwarder->upstreams.handshakes_failed);
    metric_write(text, "tally_forward_pause_milliseconds", "gauge",
                 "How long requests wait between two tries to reach a node that could not be reached; 0: all are.",
                 peers_pause_ms(&forwarder->peers));
    metric_write(text, "tally_forward_lookups_total", "counter", "Look-ups of names of other nodes.",
                 forwarder->peers.lookups);
    metric_write(text, "tally_forward_lookups_failed_total", "counter", "Those of them that found nothing.",
                 forwarder->peers.lookups_failed);
}
