/* See sink_sqs.h. The other parts of it are named in sink_sqs_parts.h. */
#include "relay/sink_sqs.h"

#include "base/assert.h"
#include "base/memory.h"
#include "relay/sink_sqs_parts.h"
#include <stdio.h>
#include <stdlib.h>

/* SQS FIFO knows a deduplication id for five minutes; the margin is for a request on its way and a step of the source's
 * clock. */
#define MEMORY_MS (270u * 1000)

/* If rows in doubt are parked, a killed relay leaves this many at most for a person to decide. */
#define CALL_ROWS_MAX_PARKED 50u
#define CALL_SIZE_MAX (8u << 20)
#define BATCH_SIZE_MAX (1024u << 10)

struct bytes sink_sqs_name_of(const struct sink_sqs *sqs, const struct row *row)
{
    return row->queue.size > 0 ? row->queue : sqs->own_name;
}

uint64_t sink_sqs_memory_ms(const struct sink *sink, const struct row *row)
{
    const struct sink_sqs *sqs = CONTAINER_OF(sink, struct sink_sqs, base);
    return sqs_is_fifo(sink_sqs_name_of(sqs, row)) ? MEMORY_MS : 0;
}

bool sink_sqs_is_url(struct bytes name)
{
    return bytes_starts_with(name, BYTES("http://")) || bytes_starts_with(name, BYTES("https://"));
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static enum step open(struct sink *sink, const struct term *term, uint64_t *epoch_known, struct row_name **stored,
                      size_t *stored_count, struct arena *arena, struct fault *fault)
{
    (void)sink;
    (void)term;
    (void)arena;
    (void)fault;
    *epoch_known = 0;
    *stored = NULL;
    *stored_count = 0;
    return STEP_OK;
}

static void interrupt(struct sink *sink)
{
    struct sink_sqs *sqs = sink_sqs_of(sink);
    for (size_t i = 0; i < SQS_CONNECTIONS_MAX; i++)
        transport_interrupt(sqs->transports_owned[i]);
}

static void close_sink(struct sink *sink)
{
    struct sink_sqs *sqs = sink_sqs_of(sink);
    for (size_t i = 0; i < SQS_CONNECTIONS_MAX; i++)
        transport_destroy(sqs->transports_owned[i]);
    sqs_queues_deinit(&sqs->queues);
    free(sqs->endpoint_owned);
    free(sqs->own_owned);
    free(sqs);
}

static const struct sink_ops ops = {.open = open,
                                    .deliver = sink_sqs_deliver,
                                    .memory_ms = sink_sqs_memory_ms,
                                    .interrupt = interrupt,
                                    .close = close_sink};

struct sink *sink_sqs_create(const struct relay_spec *spec, struct fault *fault)
{
    const char *url = spec->queue_owned;
    if (url == NULL || !sink_sqs_is_url(bytes_from_string(url))) {
        fault_set(fault, STEP_UNFIT,
                  "a sink of type sqs needs a URL that begins with http:// or https://: of a queue, or of an endpoint "
                  "where each row names its queue");
        return NULL;
    }
    bool repeats = !spec->is_at_most_once && spec->doubts != DOUBTS_PARK;
    const struct bytes own = sqs_queue_name(url);
    /* A FIFO queue knows a row for minutes only. A start that comes later would park what was given up. */
    bool is_interruptible = repeats && (spec->doubts != DOUBTS_BY_QUEUE || (own.size > 0 && !sqs_is_fifo(own)));
    struct sink_sqs *sqs = memory_allocate_zeroed(sizeof(*sqs));
    struct bytes endpoint = bytes_make(url, sqs_endpoint_size(url));
    sqs->endpoint_owned = memory_allocate(endpoint.size + 1);
    snprintf(sqs->endpoint_owned, endpoint.size + 1, "%.*s", BYTES_FORMAT(endpoint));
    for (size_t i = 0; i < SQS_CONNECTIONS_MAX; i++)
        sqs->transports_owned[i] = sqs_endpoint_connect(spec, url);
    sqs->own_owned = memory_duplicate_string(url);
    sqs->own_name = sqs_queue_name(sqs->own_owned);
    sqs_queues_init(&sqs->queues);
    sqs->batch_size_max = BATCH_SIZE_MAX;
    sqs->is_strict = spec->is_strict;
    sqs->blocks_group = spec->blocks_group;
    sqs->base = (struct sink){
        .ops = &ops,
        .memory = SINK_FORGETS,
        .memory_ms = MEMORY_MS,
        .repeats = repeats,
        .parks_forgotten = spec->doubts == DOUBTS_BY_QUEUE,
        .is_interruptible = is_interruptible,
        .rows_max = repeats ? CALL_ROWS_MAX : CALL_ROWS_MAX_PARKED,
        .size_max = CALL_SIZE_MAX,
    };
    return &sqs->base;
}
