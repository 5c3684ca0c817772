#include "relay/sqs_queues.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdlib.h>

void sqs_queues_init(struct sqs_queues *queues)
{
    *queues = (struct sqs_queues){0};
}

static void destroy(struct sqs_queue *queue)
{
    free((void *)queue->name_owned.ptr);
    free(queue->url_owned);
    free(queue);
}

void sqs_queues_deinit(struct sqs_queues *queues)
{
    for (size_t i = 0; i < queues->count; i++)
        destroy(queues->items_owned[i]);
    free(queues->items_owned);
}

struct sqs_queue *sqs_queues_find(const struct sqs_queues *queues, struct bytes name)
{
    for (size_t i = 0; i < queues->count; i++)
        if (bytes_equal(queues->items_owned[i]->name_owned, name))
            return queues->items_owned[i];
    return NULL;
}

struct sqs_queue *sqs_queues_add(struct sqs_queues *queues, struct bytes name, const char *url)
{
    ARRAY_GROW(queues->items_owned, queues->count, queues->capacity);
    struct sqs_queue *queue = memory_allocate(sizeof(*queue));
    *queue = (struct sqs_queue){.name_owned = memory_duplicate(name), .is_fifo = sqs_is_fifo(bytes_from_string(url))};
    queue->url_owned = memory_duplicate_string(url);
    queues->items_owned[queues->count++] = queue;
    return queue;
}

void sqs_queues_forget(struct sqs_queues *queues, struct bytes name)
{
    for (size_t i = 0; i < queues->count; i++)
        if (bytes_equal(queues->items_owned[i]->name_owned, name)) {
            destroy(queues->items_owned[i]);
            queues->items_owned[i] = queues->items_owned[--queues->count];
            return;
        }
}

size_t sqs_endpoint_size(const char *url)
{
    const char *scheme = strstr(url, "://");
    ASSERT(scheme != NULL);
    return (size_t)(scheme + 3 - url) + strcspn(scheme + 3, "/?#");
}

struct bytes sqs_queue_name(const char *url)
{
    const char *path = url + sqs_endpoint_size(url);
    const char *slash = strrchr(path, '/');
    return slash == NULL ? BYTES("") : bytes_from_string(slash + 1);
}

bool sqs_is_fifo(struct bytes name)
{
    return bytes_ends_with(name, BYTES(".fifo"));
}
