/* Workloads of the soak: producers of a mixed load, and workers that may be killed at any moment.
 *
 * Half of the load goes to the queue NAME, half to NAME.fifo with groups; batches of ten and single messages in turn.
 * Workers receive by long polls, give a few messages back, leave a few alone until their lease ends, and delete the
 * rest. */
#include "envelope.h"
#include "http.h"
#include "lease.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    GROUPS = 1000,
    GIVEN_BACK_OF_1000 = 20, /* receives of which one message is given back */
    LET_GO_OF_1000 = 5,      /* receives of which one message is left alone */
    WAIT_S = 5,
    SHORT_POLL_EACH = 16, /* such receives don't wait, so their time is the server's alone */
};

enum queue { QUEUE_STANDARD, QUEUE_FIFO, QUEUE_COUNT };
enum form { FORM_BATCH, FORM_BATCH_FIFO, FORM_SINGLE, FORM_SINGLE_FIFO, FORM_COUNT };

/* What producers send in turn: 53 messages in eight requests. */
static const enum form TURNS[] = {FORM_BATCH,  FORM_BATCH_FIFO, FORM_SINGLE,     FORM_BATCH,
                                  FORM_SINGLE, FORM_BATCH_FIFO, FORM_BATCH_FIFO, FORM_SINGLE_FIFO};
enum { TURN_COUNT = sizeof(TURNS) / sizeof(TURNS[0]) };

enum step { STEP_NONE, STEP_SEND, STEP_RECEIVE, STEP_GIVE_BACK, STEP_DELETE };

/* What one connection has under way. */
struct work {
    struct lease leases[LEASES_MAX];
    unsigned count;
    unsigned give_back_count; /* the last ones of them, 0 or 1 */
    bool is_short_poll;
    uint64_t polls;
    uint64_t received_at_ns;
    enum form form;
};

struct soak {
    const struct plan *plan;
    struct record *record;
    struct record_slot *slot;
    char *queue_names[QUEUE_COUNT];
    struct envelope envelopes[FORM_COUNT];
    struct text long_poll[QUEUE_COUNT];
    struct text short_poll[QUEUE_COUNT];
    struct work *works_owned; /* one for each connection */
    uint64_t turn;
    uint64_t random;
    struct histogram told[KIND_COUNT]; /* what was told of before */
};

static void receive_build(const struct soak *soak, struct text *out, enum queue queue, unsigned wait_s)
{
    struct text body;
    text_init(&body);
    text_init(out);
    envelope_url_append(&body, soak->plan, soak->queue_names[queue]);
    text_append_format(&body, ",\"MaxNumberOfMessages\":10,\"VisibilityTimeout\":%u,\"WaitTimeSeconds\":%u}",
                       soak->plan->lease_s, wait_s);
    http_request_begin(out, "AmazonSQS.ReceiveMessage", soak->plan->port);
    http_request_end(out, text_view(&body));
    text_deinit(&body);
}

static void *soak_create(const struct plan *plan)
{
    static const char *const SUFFIXES[QUEUE_COUNT] = {"", ".fifo"};
    struct soak *soak = allocate(sizeof(*soak));
    soak->plan = plan;
    soak->record = record_open(plan->record, plan->messages, plan->body_size);
    soak->slot = record_slot(soak->record, plan->slot);
    soak->works_owned = allocate(plan->connections * sizeof(struct work));
    soak->random = clock_now_ns() ^ (uint64_t)getpid() << 40;
    for (unsigned queue = 0; queue < QUEUE_COUNT; queue++) {
        struct text name;
        text_init(&name);
        text_append_format(&name, "%s%s", plan->queue, SUFFIXES[queue]);
        soak->queue_names[queue] = name.ptr_owned;
        receive_build(soak, &soak->long_poll[queue], queue, WAIT_S);
        receive_build(soak, &soak->short_poll[queue], queue, 0);
    }
    for (unsigned form = 0; form < FORM_COUNT; form++) {
        bool is_fifo = form == FORM_BATCH_FIFO || form == FORM_SINGLE_FIFO;
        bool is_batch = form == FORM_BATCH || form == FORM_BATCH_FIFO;
        envelope_init(&soak->envelopes[form], plan, soak->queue_names[is_fifo ? QUEUE_FIFO : QUEUE_STANDARD],
                      is_batch ? ENVELOPE_MAX : 1, is_fifo ? GROUPS : 0);
    }
    return soak;
}

static uint32_t random_below(struct soak *soak, uint32_t bound)
{
    soak->random ^= soak->random << 13;
    soak->random ^= soak->random >> 7;
    soak->random ^= soak->random << 17;
    return (uint32_t)((soak->random >> 32) * bound >> 32);
}

/* --- Producers ---------------------------------------------------------------------------------------------------- */

static void send_ask(const void *state, struct connection *connection)
{
    struct soak *soak = (struct soak *)state;
    struct work *work = &soak->works_owned[connection->index];
    work->form = TURNS[soak->turn++ % TURN_COUNT];
    const struct envelope *envelope = &soak->envelopes[work->form];
    connection->first = record_take(soak->record, envelope->count);
    connection->step = STEP_SEND;
    envelope_ask(envelope, connection, connection->first);
}

static size_t send_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    const struct soak *soak = state;
    unsigned count = soak->envelopes[soak->works_owned[connection->index].form].count;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    bool is_accepted = count == 1 ? view_find(reply.body, VIEW("\"MessageId\"")) != NULL
                                  : lease_entries_read(reply.body, count) == (1u << count) - 1;
    if (!is_accepted)
        fatal("a message was refused: %.*s", (int)reply.body.size, reply.body.ptr);
    for (unsigned index = 0; index < count; index++)
        record_sent(soak->record, connection->first + index);
    counters->sent += count;
    histogram_add(&soak->slot->latency[KIND_SEND], clock_now_ns() - connection->asked_at_ns);
    connection->step = STEP_NONE;
    return reply.size;
}

static bool send_must_wait(const void *state)
{
    const struct soak *soak = state;
    return soak->plan->window > 0 &&
           record_counted(soak->record, COUNT_ASKED) > record_counted(soak->record, COUNT_ENDED) + soak->plan->window;
}

/* Counts, and percentiles of what all processes have added since the last time. */
static void soak_print(const void *state, FILE *file)
{
    static struct histogram all, since; /* large for a stack */
    struct soak *soak = (struct soak *)state;
    record_counts_print(soak->record, file);
    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        struct histogram *told = &soak->told[kind];
        record_latency(soak->record, kind, &all);
        since = all;
        since.count -= told->count;
        for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
            since.buckets[bucket] -= told->buckets[bucket];
        *told = all;
        record_percentiles_print(kind, &since, file);
    }
}

/* --- Workers ------------------------------------------------------------------------------------------------------ */

static enum queue queue_of(const struct connection *connection)
{
    return connection->index % QUEUE_COUNT;
}

static void receive_ask(const struct soak *soak, struct connection *connection, struct work *work)
{
    enum queue queue = queue_of(connection);
    work->is_short_poll = work->polls++ % SHORT_POLL_EACH == 0;
    connection->step = STEP_RECEIVE;
    connection->out = text_view(work->is_short_poll ? &soak->short_poll[queue] : &soak->long_poll[queue]);
    connection->replies_due = 1;
}

static void entries_ask(const struct soak *soak, struct connection *connection, const char *target,
                        const struct lease *leases, unsigned count, struct view suffix)
{
    leases_ask(connection, soak->plan, soak->queue_names[queue_of(connection)], target, leases, count, suffix);
}

static void work_ask(const void *state, struct connection *connection)
{
    const struct soak *soak = state;
    struct work *work = &soak->works_owned[connection->index];
    if (work->give_back_count > 0) {
        connection->step = STEP_GIVE_BACK;
        entries_ask(soak, connection, "AmazonSQS.ChangeMessageVisibilityBatch", &work->leases[work->count], 1,
                    VIEW(",\"VisibilityTimeout\":0"));
    } else if (work->count > 0) {
        for (unsigned index = 0; index < work->count; index++)
            record_end_asked(soak->record, work->leases[index].number);
        connection->step = STEP_DELETE;
        entries_ask(soak, connection, "AmazonSQS.DeleteMessageBatch", work->leases, work->count, VIEW(""));
    } else {
        receive_ask(soak, connection, work);
    }
}

/* A failed attempt is one with the last message, which nothing of its group stands behind. */
static void receive_answer(struct soak *soak, const struct connection *connection, struct work *work, struct view body)
{
    uint64_t now_ns = clock_now_ns();
    if (work->is_short_poll)
        histogram_add(&soak->slot->latency[KIND_RECEIVE], now_ns - connection->asked_at_ns);
    work->count = leases_read(soak->record, soak->slot, body, now_ns, false, work->leases);
    work->received_at_ns = now_ns;
    uint32_t fate = random_below(soak, 1000);
    if (work->count == 0 || fate >= GIVEN_BACK_OF_1000 + LET_GO_OF_1000)
        return;
    work->count--;
    work->give_back_count = fate < GIVEN_BACK_OF_1000 ? 1 : 0;
    record_count(soak->record, work->give_back_count > 0 ? COUNT_GIVEN_BACK : COUNT_LET_GO, 1);
}

/* A queue without order confirms the delete of whom it has given the message to somebody else since. So a confirmation
 * counts only while the lease can't have ended, however late this process came to read. */
static void delete_answer(const struct soak *soak, const struct connection *connection, struct work *work,
                          struct view body)
{
    uint64_t now_ns = clock_now_ns();
    unsigned succeeded = lease_entries_read(body, work->count);
    bool is_certain = now_ns - work->received_at_ns < soak->plan->lease_s * UINT64_C(500000000);
    histogram_add(&soak->slot->latency[KIND_DELETE], now_ns - connection->asked_at_ns);
    for (unsigned index = 0; index < work->count; index++)
        if ((succeeded & 1u << index) == 0)
            record_end_refused(soak->record, work->leases[index].number);
        else if (is_certain)
            record_ended(soak->record, work->leases[index].number);
        else
            record_end_late(soak->record);
    work->count = 0;
}

static size_t work_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    struct soak *soak = (struct soak *)state;
    struct work *work = &soak->works_owned[connection->index];
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    switch ((enum step)connection->step) {
    case STEP_RECEIVE:
        receive_answer(soak, connection, work, reply.body);
        counters->received += work->count;
        break;
    case STEP_GIVE_BACK:
        lease_entries_read(reply.body, work->give_back_count);
        work->give_back_count = 0;
        break;
    case STEP_DELETE:
        counters->deleted += work->count;
        delete_answer(soak, connection, work, reply.body);
        break;
    case STEP_NONE:
    case STEP_SEND:
        fatal("an answer that nothing asked for");
    }
    connection->step = STEP_NONE;
    return reply.size;
}

const struct workload WORKLOAD_SOAK_SEND = {
    .name = "soak-send",
    .help = "batches and single messages to the queue and to NAME.fifo, in turn",
    .create = soak_create,
    .ask = send_ask,
    .answer = send_answer,
    .must_wait = send_must_wait,
    .print = soak_print,
};

const struct workload WORKLOAD_SOAK_WORK = {
    .name = "soak-work",
    .help = "long polls on both queues; a few messages are given back or left alone, the rest deleted",
    .counted = COUNTED_DELETED,
    .create = soak_create,
    .ask = work_ask,
    .answer = work_answer,
};
