/* A queue of a Tally, over libtally. */
#include "base/assert.h"
#include "base/memory.h"
#include "relay/queue_access.h"
#include "relay/queue_calls.h"
#include "relay/queue_row.h"
#include <stdlib.h>

struct queue_access_tally {
    struct queue_access base;
    struct tally_client *client_owned;
    char *name_owned;
    /* names a receive until it is answered, so that a repeat gives the same messages (FIFO queues) */
    struct uid attempt;
};

static struct queue_access_tally *access_of(struct queue_access *access)
{
    return CONTAINER_OF(access, struct queue_access_tally, base);
}

/* False: these are no messages of a Tally. */
static bool append(const struct tally_messages *answer, struct received_messages *messages)
{
    for (size_t i = 0; i < answer->count; i++) {
        struct row row;
        struct uid message_id;
        if (!queue_row_read(&answer->items_owned[i], &messages->arena, &row, &message_id))
            return false;
        received_append(messages, &row, &message_id);
    }
    return true;
}

static enum step receive_some(struct queue_access *base, unsigned max, unsigned wait_s, unsigned visibility_s,
                              struct received_messages *messages, struct fault *fault)
{
    struct queue_access_tally *access = access_of(base);
    char attempt[UID_TEXT_SIZE];
    uid_to_text(&access->attempt, attempt);
    struct tally_receive_options options = {
        .max = max < TALLY_SEND_BATCH_MAX ? max : TALLY_SEND_BATCH_MAX,
        .has_wait = true,
        .wait_s = wait_s,
        .has_visibility = true,
        .visibility_s = visibility_s,
        .attempt_id = attempt,
    };
    struct tally_messages answer;
    if (tally_receive(access->client_owned, access->name_owned, &options, &answer) != TALLY_OK) {
        /* A repeat of this receive is no longer possible, and what it gave comes back by its timeout. */
        if (tally_client_error(access->client_owned)->status == TALLY_REFUSED)
            uid_generate(&access->attempt);
        return queue_calls_judge(access->client_owned, access->name_owned, fault);
    }
    uid_generate(&access->attempt);
    bool is_tally = append(&answer, messages);
    tally_messages_deinit(&answer);
    if (is_tally)
        return STEP_OK;
    return fault_set(fault, STEP_UNFIT, "%s gives messages without a Tally.FencingToken: it is no Tally queue",
                     tally_client_endpoint(access->client_owned));
}

static enum step remove_all(struct queue_access *base, const char *const *handles, size_t count, struct fault *fault)
{
    struct queue_access_tally *access = access_of(base);
    return queue_calls_delete(access->client_owned, access->name_owned, handles, count, fault);
}

static enum step hide_all(struct queue_access *base, const char *const *handles, size_t count, unsigned visibility_s,
                          bool *is_hidden, struct fault *fault)
{
    struct queue_access_tally *access = access_of(base);
    return queue_calls_hide(access->client_owned, access->name_owned, handles, count, visibility_s, is_hidden, fault);
}

static enum step count_all(struct queue_access *base, uint64_t *waiting, uint64_t *delayed, struct fault *fault)
{
    struct queue_access_tally *access = access_of(base);
    struct tally_queue_counts counts;
    if (tally_queue_count(access->client_owned, access->name_owned, &counts) != TALLY_OK)
        return queue_calls_judge(access->client_owned, access->name_owned, fault);
    *waiting = counts.visible + counts.in_flight + counts.delayed;
    *delayed = counts.delayed;
    return STEP_OK;
}

static void interrupt(struct queue_access *base)
{
    tally_client_interrupt(access_of(base)->client_owned);
}

static void close(struct queue_access *base)
{
    struct queue_access_tally *access = access_of(base);
    tally_client_destroy(access->client_owned);
    free(access->name_owned);
    free(access);
}

static const struct queue_access_ops tally_ops = {.receive = receive_some,
                                                  .remove = remove_all,
                                                  .hide = hide_all,
                                                  .count = count_all,
                                                  .interrupt = interrupt,
                                                  .close = close};

struct queue_access *queue_access_tally_create(const struct relay_spec *spec, struct fault *fault)
{
    struct tally_client *client = queue_calls_connect(spec, fault);
    if (client == NULL)
        return NULL;
    struct queue_access_tally *access = memory_allocate_zeroed(sizeof(*access));
    access->base.ops = &tally_ops;
    access->client_owned = client;
    access->name_owned = memory_duplicate_string(spec->source_queue_owned);
    uid_generate(&access->attempt);
    return &access->base;
}
