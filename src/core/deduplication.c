#include "core/deduplication.h"

#include "core/apply.h"
#include "core/snapshot.h"

void deduplication_init(struct deduplication *deduplication)
{
    (void)deduplication;
}
void deduplication_deinit(struct deduplication *deduplication)
{
    (void)deduplication;
}
uint64_t deduplication_find(const struct core *core, const struct queue *queue, struct bytes group, struct bytes id)
{
    (void)core;
    (void)queue;
    (void)group;
    (void)id;
    return 0;
}
bool deduplication_find_produced(const struct core *core, const struct queue *queue, struct bytes producer,
                                 uint64_t sequence, uint64_t *number)
{
    (void)core;
    (void)queue;
    (void)producer;
    (void)sequence;
    (void)number;
    return false;
}
struct bytes deduplication_find_attempt(const struct core *core, const struct queue *queue, struct bytes attempt)
{
    (void)core;
    (void)queue;
    (void)attempt;
    return bytes_make(NULL, 0);
}
void deduplication_forget_queue(struct core *core, const struct queue *queue, bool is_deleted)
{
    (void)core;
    (void)queue;
    (void)is_deleted;
}
bool deduplication_sweep(struct core *core, unsigned portion)
{
    (void)core;
    (void)portion;
    return false;
}
uint64_t deduplication_due_ms(const struct core *core)
{
    (void)core;
    return UINT64_MAX;
}
void deduplication_encode(const struct core *core, struct core_writer *writer)
{
    (void)core;
    (void)writer;
}
bool deduplication_decode(struct core *core, struct cursor *cursor)
{
    (void)core;
    (void)cursor;
    return true;
}
void deduplication_check(const struct core *core)
{
    (void)core;
}
bool apply_deduplicated(struct core *core, const struct event_deduplicated *deduplicated)
{
    (void)core;
    (void)deduplicated;
    return false;
}
bool apply_produced(struct core *core, const struct event_produced *produced)
{
    (void)core;
    (void)produced;
    return false;
}
bool apply_attempted(struct core *core, const struct event_attempted *attempted)
{
    (void)core;
    (void)attempted;
    return false;
}
