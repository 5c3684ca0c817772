#include "relay/queue_hand.h"

#include "base/assert.h"
#include "base/memory.h"
#include "relay/keeper.h"
#include <stdlib.h>

/* How often a visibility timeout is renewed within its length: one or two renewals may fail. */
#define BEATS 4u

/* A call of a sink takes as long as two requests, and a worker that waits for a sink that is down half a minute. */
#define IDLE_MS 40000u
#define REQUEST_MS 10000u

/* A lease lasts nine tenths of its timeout at least from when the reply leaves; it was asked for a little earlier. */
static uint64_t lease_end_ms(const struct hand *hand, uint64_t asked_ms)
{
    return asked_ms + hand->visibility_s * 900u;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Is the message still this relay's alone? */
static bool is_held(const struct hand_row *item, uint64_t now_ms)
{
    return item->held_until_ms > now_ms;
}

/* Copies of the handles of what is held, to be used without the mutex. */
static char **copy_handles(const struct hand *hand, uint64_t now_ms, size_t *count)
{
    char **handles = memory_allocate((hand->count + 1) * sizeof(*handles));
    *count = 0;
    for (size_t i = 0; i < hand->count; i++) {
        const char *handle = hand->items_owned[i]->handle_owned;
        if (is_held(hand->items_owned[i], now_ms))
            handles[(*count)++] = (char *)memory_duplicate(bytes_make(handle, strlen(handle) + 1)).ptr;
    }
    return handles;
}

/* Renews the leases that still run. A message whose lease is over comes back with a new handle, here or elsewhere;
 * renewing it with the old handle would change the lease of its new owner. A failure is not reported: the worker's own
 * calls meet it as well. Called with the mutex, which is released meanwhile. */
static void beat(struct hand *hand)
{
    size_t count;
    struct fault fault;
    uint64_t asked_ms = keeper_now_ms();
    if (hand->count == 0 || asked_ms - hand->used_ms > hand->idle_ms)
        return;
    char **handles = copy_handles(hand, asked_ms, &count);
    pthread_mutex_unlock(&hand->mutex);
    enum step step = queue_calls_hide(hand->client_owned, hand->queue, (const char *const *)handles, count,
                                      hand->visibility_s, &fault);
    for (size_t i = 0; i < count; i++)
        free(handles[i]);
    free(handles);
    pthread_mutex_lock(&hand->mutex);
    uint64_t end_ms = lease_end_ms(hand, asked_ms), now_ms = keeper_now_ms();
    for (size_t i = 0; i < hand->count && step == STEP_OK; i++) {
        struct hand_row *item = hand->items_owned[i];
        if (is_held(item, now_ms) && item->held_until_ms < end_ms)
            item->held_until_ms = end_ms;
    }
}

static void *keep_in_hand(void *context)
{
    struct hand *hand = context;
    pthread_mutex_lock(&hand->mutex);
    while (!hand->is_ending) {
        uint64_t due_ms = keeper_now_ms() + hand->visibility_s * 1000u / BEATS;
        while (!hand->is_ending && keeper_now_ms() < due_ms) {
            struct timespec due = keeper_wake_time(due_ms);
            pthread_cond_timedwait(&hand->changed, &hand->mutex, &due);
        }
        if (!hand->is_ending)
            beat(hand);
    }
    pthread_mutex_unlock(&hand->mutex);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

bool hand_init(struct hand *hand, const struct relay_spec *spec, const char *queue, unsigned visibility_s,
               struct fault *fault)
{
    pthread_condattr_t monotonic;
    *hand = (struct hand){.queue = queue, .visibility_s = visibility_s, .used_ms = keeper_now_ms()};
    hand->idle_ms = IDLE_MS + 2 * (spec->timeout_ms > REQUEST_MS ? spec->timeout_ms : REQUEST_MS);
    pthread_mutex_init(&hand->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&hand->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    hand->client_owned = queue_calls_connect(spec, fault);
    if (hand->client_owned == NULL)
        return false;
    int failure = pthread_create(&hand->thread, NULL, keep_in_hand, hand);
    ASSERT(failure == 0);
    hand->is_started = true;
    return true;
}

static void free_item(struct hand_row *item)
{
    free(item->handle_owned);
    free(item);
}

static void drop_all(struct hand *hand)
{
    for (size_t i = 0; i < hand->count; i++)
        free_item(hand->items_owned[i]);
    hand->count = 0;
    hand->size = 0;
}

void hand_deinit(struct hand *hand)
{
    if (hand->is_started) {
        pthread_mutex_lock(&hand->mutex);
        hand->is_ending = true;
        pthread_cond_signal(&hand->changed);
        pthread_mutex_unlock(&hand->mutex);
        tally_client_interrupt(hand->client_owned);
        pthread_join(hand->thread, NULL);
    }
    tally_client_destroy(hand->client_owned);
    drop_all(hand);
    free(hand->items_owned);
    pthread_cond_destroy(&hand->changed);
    pthread_mutex_destroy(&hand->mutex);
}

/* --- the rows ----------------------------------------------------------------------------------------------------- */

void hand_use(struct hand *hand)
{
    pthread_mutex_lock(&hand->mutex);
    uint64_t now_ms = keeper_now_ms();
    if (now_ms - hand->used_ms > hand->idle_ms)
        drop_all(hand);
    hand->used_ms = now_ms;
    pthread_mutex_unlock(&hand->mutex);
}

/* Copies a view behind what stands at *at, with a NUL; NULL stays NULL. */
static struct bytes copy(uint8_t **at, struct bytes view)
{
    if (view.ptr == NULL)
        return view;
    struct bytes copied = bytes_make(*at, view.size);
    memcpy(*at, view.ptr, view.size);
    (*at)[view.size] = 0;
    *at += view.size + 1;
    return copied;
}

static char *copy_handle(const struct row *row)
{
    char *handle = memory_allocate(row->handle.size + 1);
    memcpy(handle, row->handle.ptr, row->handle.size);
    handle[row->handle.size] = '\0';
    return handle;
}

static struct hand_row *make_item(const struct row *row, const struct uid *message_id, uint64_t held_until_ms)
{
    size_t size =
        row->queue.size + row->group.size + row->deduplication_id.size + row->attributes.size + row->body.size;
    struct hand_row *item = memory_allocate(sizeof(*item) + size + 5);
    uint8_t *at = (uint8_t *)(item + 1);
    *item = (struct hand_row){
        .row = *row,
        .message_id = *message_id,
        .read_ms = keeper_now_ms(),
        .held_until_ms = held_until_ms,
        .handle_owned = copy_handle(row),
    };
    item->row.queue = copy(&at, row->queue);
    item->row.group = copy(&at, row->group);
    item->row.deduplication_id = copy(&at, row->deduplication_id);
    item->row.attributes = copy(&at, row->attributes);
    item->row.body = copy(&at, row->body);
    item->row.handle = bytes_from_string(item->handle_owned);
    return item;
}

/* Inserts by id. Each receipt has a higher id than those before, so it nearly always goes to the end. */
static void insert(struct hand *hand, struct hand_row *item)
{
    ARRAY_GROW(hand->items_owned, hand->count, hand->capacity);
    size_t at = hand->count++;
    for (; at > 0 && hand->items_owned[at - 1]->row.id > item->row.id; at--)
        hand->items_owned[at] = hand->items_owned[at - 1];
    hand->items_owned[at] = item;
    hand->size += item->row.body.size + item->row.attributes.size;
}

static void renew(struct hand_row *item, const struct row *row, uint64_t held_until_ms)
{
    item->held_until_ms = held_until_ms;
    free(item->handle_owned);
    item->handle_owned = copy_handle(row);
    item->row.handle = bytes_from_string(item->handle_owned);
}

void hand_take(struct hand *hand, const struct row *row, const struct uid *message_id, uint64_t asked_ms)
{
    pthread_mutex_lock(&hand->mutex);
    size_t known = 0;
    while (known < hand->count && memcmp(&hand->items_owned[known]->message_id, message_id, UID_SIZE) != 0)
        known++;
    if (known < hand->count)
        renew(hand->items_owned[known], row, lease_end_ms(hand, asked_ms));
    else
        insert(hand, make_item(row, message_id, lease_end_ms(hand, asked_ms)));
    pthread_mutex_unlock(&hand->mutex);
}

size_t hand_list_held(struct hand *hand, const char **handles)
{
    pthread_mutex_lock(&hand->mutex);
    size_t count = 0;
    uint64_t now_ms = keeper_now_ms();
    for (size_t i = 0; i < hand->count; i++)
        if (is_held(hand->items_owned[i], now_ms))
            handles[count++] = hand->items_owned[i]->handle_owned;
    pthread_mutex_unlock(&hand->mutex);
    return count;
}

struct hand_row *hand_find(const struct hand *hand, uint64_t id, const struct uid *uid)
{
    for (size_t i = 0; i < hand->count; i++)
        if (hand->items_owned[i]->row.id == id && memcmp(&hand->items_owned[i]->row.uid, uid, UID_SIZE) == 0)
            return hand->items_owned[i];
    return NULL;
}

void hand_drop(struct hand *hand, struct hand_row *item)
{
    size_t at = 0;
    pthread_mutex_lock(&hand->mutex);
    while (hand->items_owned[at] != item)
        at++;
    hand->size -= item->row.body.size + item->row.attributes.size;
    memmove(&hand->items_owned[at], &hand->items_owned[at + 1], (--hand->count - at) * sizeof(*hand->items_owned));
    pthread_mutex_unlock(&hand->mutex);
    free_item(item);
}
