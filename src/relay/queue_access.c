#include "relay/queue_access.h"

#include "base/memory.h"
#include <stdlib.h>

void received_init(struct received_messages *messages)
{
    *messages = (struct received_messages){0};
    arena_init(&messages->arena);
}

void received_deinit(struct received_messages *messages)
{
    arena_deinit(&messages->arena);
    free(messages->items_owned);
}

void received_append(struct received_messages *messages, const struct row *row, const struct uid *message_id)
{
    ARRAY_GROW(messages->items_owned, messages->count, messages->capacity);
    struct received *received = &messages->items_owned[messages->count++];
    *received = (struct received){.row = row_copy(&messages->arena, row), .message_id = *message_id};
    received->row.handle = arena_format(&messages->arena, "%.*s", BYTES_FORMAT(row->handle));
}

struct queue_access *queue_access_create(const struct relay_spec *spec, unsigned connections, struct fault *fault)
{
    return spec->source == SOURCE_SQS ? queue_access_sqs_create(spec, connections)
                                      : queue_access_tally_create(spec, fault);
}
