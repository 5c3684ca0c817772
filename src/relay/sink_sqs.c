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

/* A request must have ended before its lease has; four of five messages that wait for an answer for so long will never
 * get one. */
#define TIMEOUT_MS_MAX 15000u
#define TIMEOUT_MS_MIN 500u

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

static void close_sink(struct sink *sink)
{
    struct sink_sqs *sqs = sink_sqs_of(sink);
    for (size_t i = 0; i < SINK_SQS_SENDERS_MAX; i++)
        transport_destroy(sqs->transports_owned[i]);
    sqs_queues_deinit(&sqs->queues);
    free(sqs->endpoint_owned);
    free(sqs->own_owned);
    free(sqs);
}

static const struct sink_ops ops = {
    .open = open, .deliver = sink_sqs_deliver, .memory_ms = sink_sqs_memory_ms, .close = close_sink};

static const char *setting(const char *given, const char *variable)
{
    const char *value = given != NULL ? given : getenv(variable);
    return value == NULL || *value == '\0' ? NULL : value;
}

/* Of an endpoint of AWS it stands in the name of the host: sqs.REGION.amazonaws.com. */
static const char *find_region(const struct relay_spec *spec, char *text, size_t size)
{
    const char *region = setting(spec->region_owned, "AWS_REGION");
    if (region == NULL)
        region = setting(NULL, "AWS_DEFAULT_REGION");
    const char *host = strstr(spec->queue_owned, "://sqs.");
    if (spec->region_owned == NULL && host != NULL && strstr(host, ".amazonaws.com") != NULL) {
        host += strlen("://sqs.");
        snprintf(text, size, "%.*s", (int)strcspn(host, "."), host);
        region = text;
    }
    return region != NULL ? region : "us-east-1";
}

static struct transport *make_transport(const struct relay_spec *spec, const char *endpoint)
{
    char region[64];
    unsigned timeout_ms = spec->lease_ms / 4 * 3;
    bool is_given = spec->access_key_id_owned != NULL;
    struct transport_options options = {
        .url = endpoint,
        .region = find_region(spec, region, sizeof(region)),
        .access_key_id = setting(spec->access_key_id_owned, "AWS_ACCESS_KEY_ID"),
        .secret_access_key = setting(spec->secret_access_key_owned, "AWS_SECRET_ACCESS_KEY"),
        .session_token = is_given ? spec->session_token_owned : setting(NULL, "AWS_SESSION_TOKEN"),
    };
    timeout_ms = timeout_ms > TIMEOUT_MS_MAX ? TIMEOUT_MS_MAX : timeout_ms;
    options.timeout_ms = timeout_ms < TIMEOUT_MS_MIN ? TIMEOUT_MS_MIN : timeout_ms;
    if (options.secret_access_key == NULL)
        options.access_key_id = NULL;
    return transport_create(&options);
}

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
    struct sink_sqs *sqs = memory_allocate_zeroed(sizeof(*sqs));
    struct bytes endpoint = bytes_make(url, sqs_endpoint_size(url));
    sqs->endpoint_owned = memory_allocate(endpoint.size + 2);
    snprintf(sqs->endpoint_owned, endpoint.size + 2, "%.*s/", BYTES_FORMAT(endpoint));
    for (size_t i = 0; i < SINK_SQS_SENDERS_MAX; i++)
        sqs->transports_owned[i] = make_transport(spec, sqs->endpoint_owned);
    sqs->endpoint_owned[endpoint.size] = '\0'; /* drops the last slash */
    sqs->own_owned = strcpy(memory_allocate(strlen(url) + 1), url);
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
        .rows_max = repeats ? CALL_ROWS_MAX : CALL_ROWS_MAX_PARKED,
        .size_max = CALL_SIZE_MAX,
    };
    return &sqs->base;
}
