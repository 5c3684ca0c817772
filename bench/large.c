/* Workloads of the large run: sends, deletes in random order, a drain; a record (record.h) knows every message.
 *
 * long-scatter receives everything with leases that outlast the run. It keeps up to --hand receipt handles in hand,
 * takes random ones of them, and of what it takes deletes as many as leave --keep messages; the others it keeps, and
 * when all has been received it gives them back. So what is deleted is spread evenly over all that was sent. */
#include "envelope.h"
#include "http.h"
#include "lease.h"

#include <inttypes.h>
#include <stdlib.h>

enum { EMPTY_RECEIVES = 10 }; /* for each connection, until what hasn't come is believed not to be there */

enum step { STEP_NONE, STEP_RECEIVE, STEP_DELETE, STEP_GIVE_BACK };

/* What one connection has taken on. */
struct taken {
    struct lease leases[LEASES_MAX];
    unsigned count;
};

/* What all connections share. */
struct hand {
    struct lease *leases_owned;
    uint64_t count;
    struct lease *kept_owned;
    uint64_t kept_count;
    uint64_t undecided; /* messages of which it isn't settled whether they are deleted */
    bool has_received_all;
    uint64_t empty_receives; /* since the last one that brought something */
    uint64_t random;
};

struct large {
    const struct plan *plan;
    struct record *record;
    struct record_slot *slot;
    struct envelope send;
    struct text receive;
    struct taken *taken_owned; /* one for each connection */
    struct hand *hand_owned;
};

static void receive_build(struct text *out, const struct plan *plan)
{
    struct text body;
    text_init(&body);
    text_init(out);
    envelope_url_append(&body, plan, plan->queue);
    text_append(&body, VIEW(",\"MaxNumberOfMessages\":10,\"VisibilityTimeout\":43200}"));
    http_request_begin(out, "AmazonSQS.ReceiveMessage", plan->port);
    http_request_end(out, text_view(&body));
    text_deinit(&body);
}

static void *large_create(const struct plan *plan)
{
    struct large *large = allocate(sizeof(*large));
    large->plan = plan;
    large->record = record_open(plan->record, plan->messages, plan->body_size);
    large->slot = record_slot(large->record, plan->slot);
    envelope_init(&large->send, plan, plan->queue, ENVELOPE_MAX, 0);
    receive_build(&large->receive, plan);
    large->taken_owned = allocate(plan->connections * sizeof(struct taken));
    struct hand *hand = large->hand_owned = allocate(sizeof(*hand));
    hand->leases_owned = allocate((plan->hand + plan->connections * (uint64_t)LEASES_MAX) * sizeof(struct lease));
    hand->kept_owned = allocate(plan->keep * sizeof(struct lease));
    hand->undecided = record_counted(large->record, COUNT_SENT) - record_counted(large->record, COUNT_ENDED);
    hand->random = UINT64_C(88172645463325252);
    return large;
}

static void large_print(const void *state, FILE *file)
{
    record_counts_print(((const struct large *)state)->record, file);
}

/* --- Sends -------------------------------------------------------------------------------------------------------- */

static void send_ask(const void *state, struct connection *connection)
{
    const struct large *large = state;
    connection->first = record_take(large->record, ENVELOPE_MAX);
    envelope_ask(&large->send, connection, connection->first);
}

static size_t send_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    const struct large *large = state;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    if (lease_entries_read(reply.body, ENVELOPE_MAX) != (1u << ENVELOPE_MAX) - 1)
        fatal("a message was refused: %.*s", (int)reply.body.size, reply.body.ptr);
    for (unsigned index = 0; index < ENVELOPE_MAX; index++)
        record_sent(large->record, connection->first + index);
    counters->sent += ENVELOPE_MAX;
    return reply.size;
}

/* --- Receives and deletes ----------------------------------------------------------------------------------------- */

static void entries_ask(const struct large *large, struct connection *connection, const char *target,
                        struct view suffix)
{
    const struct taken *taken = &large->taken_owned[connection->index];
    leases_ask(connection, large->plan, large->plan->queue, target, taken->leases, taken->count, suffix);
}

static void receive_ask(const struct large *large, struct connection *connection)
{
    connection->step = STEP_RECEIVE;
    connection->out = text_view(&large->receive);
    connection->replies_due = 1;
}

static void delete_ask(const struct large *large, struct connection *connection)
{
    const struct taken *taken = &large->taken_owned[connection->index];
    for (unsigned index = 0; index < taken->count; index++)
        record_end_asked(large->record, taken->leases[index].number);
    connection->step = STEP_DELETE;
    entries_ask(large, connection, "AmazonSQS.DeleteMessageBatch", VIEW(""));
}

static unsigned receive_answer(const struct large *large, struct connection *connection, struct view body)
{
    struct taken *taken = &large->taken_owned[connection->index];
    taken->count = leases_read(large->record, large->slot, body, clock_now_ns(), true, taken->leases);
    return taken->count;
}

static unsigned delete_answer(const struct large *large, struct connection *connection, struct view body)
{
    struct taken *taken = &large->taken_owned[connection->index];
    unsigned count = taken->count;
    if (lease_entries_read(body, count) != (1u << count) - 1)
        fatal("a delete was refused: %.*s", (int)body.size, body.ptr);
    for (unsigned index = 0; index < count; index++)
        record_ended(large->record, taken->leases[index].number);
    taken->count = 0;
    return count;
}

static unsigned give_back_answer(const struct large *large, struct connection *connection, struct view body)
{
    struct taken *taken = &large->taken_owned[connection->index];
    unsigned count = taken->count;
    if (lease_entries_read(body, count) != (1u << count) - 1)
        fatal("a message could not be given back: %.*s", (int)body.size, body.ptr);
    record_count(large->record, COUNT_GIVEN_BACK, count);
    taken->count = 0;
    return count;
}

/* --- Half of them, in random order -------------------------------------------------------------------------------- */

static uint64_t random_below(struct hand *hand, uint64_t bound)
{
    hand->random ^= hand->random << 13;
    hand->random ^= hand->random >> 7;
    hand->random ^= hand->random << 17;
    return (hand->random >> 11) % bound;
}

/* Takes random leases out of the hand: keeps some, and fills `taken` with those that are to be deleted. */
static void hand_take(const struct large *large, struct taken *taken)
{
    struct hand *hand = large->hand_owned;
    while (taken->count < LEASES_MAX && hand->count > 0) {
        uint64_t at = random_below(hand, hand->count);
        struct lease lease = hand->leases_owned[at];
        hand->leases_owned[at] = hand->leases_owned[--hand->count];
        uint64_t keep_left = large->plan->keep - hand->kept_count;
        if (random_below(hand, hand->undecided--) < keep_left)
            hand->kept_owned[hand->kept_count++] = lease;
        else
            taken->leases[taken->count++] = lease;
    }
}

/* Takes the next kept leases, from the newest on. */
static void kept_take(const struct large *large, struct taken *taken)
{
    struct hand *hand = large->hand_owned;
    while (taken->count < LEASES_MAX && hand->kept_count > 0) {
        taken->leases[taken->count++] = hand->kept_owned[--hand->kept_count];
        record_given_back(large->record, taken->leases[taken->count - 1].number);
    }
}

/* A connection that has nothing to do while others still receive asks again. */
static void scatter_ask(const void *state, struct connection *connection)
{
    const struct large *large = state;
    struct hand *hand = large->hand_owned;
    struct taken *taken = &large->taken_owned[connection->index];
    if (hand->count >= large->plan->hand || hand->has_received_all)
        hand_take(large, taken);
    if (taken->count > 0) {
        delete_ask(large, connection);
        return;
    }
    if (hand->has_received_all && hand->undecided == 0)
        kept_take(large, taken);
    if (taken->count == 0) {
        receive_ask(large, connection);
        return;
    }
    connection->step = STEP_GIVE_BACK;
    entries_ask(large, connection, "AmazonSQS.ChangeMessageVisibilityBatch", VIEW(",\"VisibilityTimeout\":0"));
}

/* What is received goes into the hand. Where every message was there already, a receive that was under way has got one
 * that was given back meanwhile: it is given back again. */
static void scatter_receive_answer(const struct large *large, struct connection *connection, struct view body)
{
    struct hand *hand = large->hand_owned;
    struct taken *taken = &large->taken_owned[connection->index];
    unsigned count = receive_answer(large, connection, body);
    bool is_new = hand->undecided > hand->count;
    struct lease *leases = is_new ? hand->leases_owned + hand->count : hand->kept_owned + hand->kept_count;
    memcpy(leases, taken->leases, count * sizeof(struct lease));
    *(is_new ? &hand->count : &hand->kept_count) += count;
    taken->count = 0;
    hand->empty_receives = count == 0 ? hand->empty_receives + 1 : 0;
    hand->has_received_all = hand->has_received_all || count == 0;
    if (hand->empty_receives > large->plan->connections * (uint64_t)EMPTY_RECEIVES && hand->count == 0)
        hand->undecided = 0; /* what is missing is lost, as the record will say */
}

static size_t scatter_answer(const void *state, struct connection *connection, struct view in,
                             struct counters *counters)
{
    const struct large *large = state;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    switch ((enum step)connection->step) {
    case STEP_RECEIVE:
        scatter_receive_answer(large, connection, reply.body);
        break;
    case STEP_DELETE:
        counters->deleted += delete_answer(large, connection, reply.body);
        break;
    case STEP_GIVE_BACK:
        give_back_answer(large, connection, reply.body);
        break;
    case STEP_NONE:
        fatal("an answer that nothing asked for");
    }
    const struct hand *hand = large->hand_owned;
    connection->step = STEP_NONE;
    connection->is_drained = hand->has_received_all && hand->count == 0 && hand->kept_count == 0;
    return reply.size;
}

/* --- The rest ----------------------------------------------------------------------------------------------------- */

static void drain_ask(const void *state, struct connection *connection)
{
    const struct large *large = state;
    if (large->taken_owned[connection->index].count > 0)
        delete_ask(large, connection);
    else
        receive_ask(large, connection);
}

static size_t drain_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    const struct large *large = state;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    if (connection->step == STEP_DELETE) {
        counters->deleted += delete_answer(large, connection, reply.body);
    } else {
        unsigned count = receive_answer(large, connection, reply.body);
        counters->received += count;
        connection->is_drained = count == 0;
    }
    connection->step = STEP_NONE;
    return reply.size;
}

const struct workload WORKLOAD_LONG_SEND = {
    .name = "long-send",
    .help = "SendMessageBatch of ten of the record's next messages",
    .create = large_create,
    .ask = send_ask,
    .answer = send_answer,
    .print = large_print,
};

const struct workload WORKLOAD_LONG_SCATTER = {
    .name = "long-scatter",
    .help = "receive all, delete random ones until --keep are left, give those back",
    .counted = COUNTED_DELETED,
    .is_drain = true,
    .create = large_create,
    .ask = scatter_ask,
    .answer = scatter_answer,
    .print = large_print,
};

const struct workload WORKLOAD_LONG_DRAIN = {
    .name = "long-drain",
    .help = "receive and delete what the record knows, until nothing is left",
    .counted = COUNTED_DELETED,
    .is_drain = true,
    .create = large_create,
    .ask = drain_ask,
    .answer = drain_answer,
    .print = large_print,
};
