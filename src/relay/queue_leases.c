#include "relay/queue_leases.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include <stdlib.h>

/* How often a visibility timeout is renewed within its length: one or two renewals may fail. */
#define BEATS 4u

/* A call of a sink takes as long as two requests, and a worker that waits for a sink that is down half a minute. */
#define IDLE_MS 40000u
#define REQUEST_MS 10000u

/* A lease lasts nine tenths of its timeout at least from when the reply leaves; it was asked for a little earlier. */
static uint64_t lease_end_ms(const struct leased_rows *leases, uint64_t asked_ms)
{
    return asked_ms + leases->visibility_s * 900u;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Is the message still this relay's alone? */
static bool is_held(const struct leased_row *item, uint64_t now_ms)
{
    return item->held_until_ms > now_ms;
}

/* Copies of the handles of what is held, to be used without the mutex. */
static char **copy_handles(const struct leased_rows *leases, uint64_t now_ms, size_t *count)
{
    char **handles = memory_allocate((leases->count + 1) * sizeof(*handles));
    *count = 0;
    for (size_t i = 0; i < leases->count; i++) {
        const char *handle = leases->items_owned[i]->handle_owned;
        if (is_held(leases->items_owned[i], now_ms))
            handles[(*count)++] = (char *)memory_duplicate(bytes_make(handle, strlen(handle) + 1)).ptr;
    }
    return handles;
}

/* Where the handle stands, looked for from `from` on; `count` if it is not there. */
static size_t find_handle(char *const *handles, size_t count, size_t from, const char *handle)
{
    for (size_t i = 0; i < count; i++) {
        const size_t at = (from + i) % count;
        if (strcmp(handles[at], handle) == 0)
            return at;
    }
    return count;
}

/* Their leases last longer now. One that the queue did not renew is another's when its timeout is over. */
static void note_renewed(struct leased_rows *leases, char *const *handles, const bool *is_hidden, size_t count,
                         uint64_t end_ms)
{
    const uint64_t now_ms = boottime_ms();
    for (size_t i = 0, next = 0; i < leases->count; i++) { /* the handles stand in the order of the items */
        struct leased_row *item = leases->items_owned[i];
        const size_t at = find_handle(handles, count, next, item->handle_owned);
        if (at == count)
            continue;
        next = at + 1;
        if (is_hidden[at] && is_held(item, now_ms) && item->held_until_ms < end_ms)
            item->held_until_ms = end_ms;
    }
}

/* Renews the leases that still run. A message whose lease is over comes back with a new handle, here or elsewhere;
 * renewing it with the old handle would change the lease of its new owner. A failure is not reported: the worker's own
 * calls meet it as well. Called with the mutex, which is released meanwhile. */
static void beat(struct leased_rows *leases)
{
    size_t count;
    struct fault fault;
    uint64_t asked_ms = boottime_ms();
    if (leases->count == 0 || asked_ms - leases->used_ms > leases->idle_ms)
        return;
    char **handles = copy_handles(leases, asked_ms, &count);
    bool *is_hidden = memory_allocate_zeroed(count + 1);
    pthread_mutex_unlock(&leases->mutex);
    leases->access_owned->ops->hide(leases->access_owned, (const char *const *)handles, count, leases->visibility_s,
                                    is_hidden, &fault);
    pthread_mutex_lock(&leases->mutex);
    note_renewed(leases, handles, is_hidden, count, lease_end_ms(leases, asked_ms));
    for (size_t i = 0; i < count; i++)
        free(handles[i]);
    free(handles);
    free(is_hidden);
}

static void *keep_lease(void *context)
{
    struct leased_rows *leases = context;
    pthread_mutex_lock(&leases->mutex);
    while (!leases->is_ending) {
        uint64_t due_ms = boottime_ms() + leases->visibility_s * 1000u / BEATS;
        uint64_t now_ms;
        while (!leases->is_ending && (now_ms = boottime_ms()) < due_ms)
            (void)condition_wait_for(&leases->changed, &leases->mutex, due_ms - now_ms);
        if (!leases->is_ending)
            beat(leases);
    }
    pthread_mutex_unlock(&leases->mutex);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

bool leased_rows_init(struct leased_rows *leases, const struct relay_spec *spec, unsigned visibility_s,
                      struct fault *fault)
{
    *leases = (struct leased_rows){.visibility_s = visibility_s, .used_ms = boottime_ms()};
    leases->idle_ms = IDLE_MS + 2 * (spec->timeout_ms > REQUEST_MS ? spec->timeout_ms : REQUEST_MS);
    pthread_mutex_init(&leases->mutex, NULL);
    condition_init(&leases->changed);
    leases->access_owned = queue_access_create(spec, 1, fault);
    if (leases->access_owned == NULL)
        return false;
    int failure = pthread_create(&leases->thread, NULL, keep_lease, leases);
    ASSERT(failure == 0);
    leases->is_started = true;
    return true;
}

static void free_item(struct leased_row *item)
{
    free(item->handle_owned);
    free(item);
}

static void drop_all(struct leased_rows *leases)
{
    for (size_t i = 0; i < leases->count; i++)
        free_item(leases->items_owned[i]);
    leases->count = 0;
    leases->size = 0;
}

void leased_rows_deinit(struct leased_rows *leases)
{
    if (leases->is_started) {
        pthread_mutex_lock(&leases->mutex);
        leases->is_ending = true;
        pthread_cond_signal(&leases->changed);
        pthread_mutex_unlock(&leases->mutex);
        leases->access_owned->ops->interrupt(leases->access_owned);
        pthread_join(leases->thread, NULL);
    }
    if (leases->access_owned != NULL)
        leases->access_owned->ops->close(leases->access_owned);
    drop_all(leases);
    free(leases->items_owned);
    pthread_cond_destroy(&leases->changed);
    pthread_mutex_destroy(&leases->mutex);
}

/* --- the rows ----------------------------------------------------------------------------------------------------- */

void leased_rows_use(struct leased_rows *leases)
{
    pthread_mutex_lock(&leases->mutex);
    uint64_t now_ms = boottime_ms();
    if (now_ms - leases->used_ms > leases->idle_ms)
        drop_all(leases);
    leases->used_ms = now_ms;
    pthread_mutex_unlock(&leases->mutex);
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

static struct leased_row *make_item(const struct row *row, const struct uid *message_id, uint64_t held_until_ms)
{
    size_t size = row->queue.size + row->group.size + row->deduplication_id.size + row->attributes.size +
                  row->body.size + row->trace_header.size;
    struct leased_row *item = memory_allocate(sizeof(*item) + size + 6);
    uint8_t *at = (uint8_t *)(item + 1);
    *item = (struct leased_row){
        .row = *row,
        .message_id = *message_id,
        .read_ms = boottime_ms(),
        .held_until_ms = held_until_ms,
        .handle_owned = copy_handle(row),
    };
    item->row.queue = copy(&at, row->queue);
    item->row.group = copy(&at, row->group);
    item->row.deduplication_id = copy(&at, row->deduplication_id);
    item->row.attributes = copy(&at, row->attributes);
    item->row.body = copy(&at, row->body);
    item->row.trace_header = copy(&at, row->trace_header);
    item->row.handle = bytes_from_string(item->handle_owned);
    return item;
}

/* Inserts by id. Each receipt has a higher id than those before, so it nearly always goes to the end. */
static void insert(struct leased_rows *leases, struct leased_row *item)
{
    ARRAY_GROW(leases->items_owned, leases->count, leases->capacity);
    size_t at = leases->count++;
    for (; at > 0 && leases->items_owned[at - 1]->row.id > item->row.id; at--)
        leases->items_owned[at] = leases->items_owned[at - 1];
    leases->items_owned[at] = item;
    leases->size += item->row.body.size + item->row.attributes.size;
}

static void renew(struct leased_row *item, const struct row *row, uint64_t held_until_ms)
{
    item->held_until_ms = held_until_ms;
    free(item->handle_owned);
    item->handle_owned = copy_handle(row);
    item->row.handle = bytes_from_string(item->handle_owned);
}

bool leased_rows_take(struct leased_rows *leases, const struct row *row, const struct uid *message_id,
                      uint64_t asked_ms)
{
    struct leased_row *known = NULL;
    bool has_other = false;
    pthread_mutex_lock(&leases->mutex);
    for (size_t i = 0; i < leases->count && known == NULL; i++) {
        struct leased_row *item = leases->items_owned[i];
        const bool has_id = memcmp(&item->message_id, message_id, UID_SIZE) == 0;
        if (has_id && bytes_equal(item->row.body, row->body))
            known = item;
        else
            has_other = has_other || has_id;
    }
    if (known != NULL)
        renew(known, row, lease_end_ms(leases, asked_ms));
    else
        insert(leases, make_item(row, message_id, lease_end_ms(leases, asked_ms)));
    pthread_mutex_unlock(&leases->mutex);
    return known != NULL || !has_other;
}

size_t leased_rows_list_held(struct leased_rows *leases, const char **handles)
{
    pthread_mutex_lock(&leases->mutex);
    size_t count = 0;
    uint64_t now_ms = boottime_ms();
    for (size_t i = 0; i < leases->count; i++)
        if (is_held(leases->items_owned[i], now_ms))
            handles[count++] = leases->items_owned[i]->handle_owned;
    pthread_mutex_unlock(&leases->mutex);
    return count;
}

struct leased_row *leased_rows_find(const struct leased_rows *leases, uint64_t id, const struct uid *uid)
{
    for (size_t i = 0; i < leases->count; i++)
        if (leases->items_owned[i]->row.id == id && memcmp(&leases->items_owned[i]->row.uid, uid, UID_SIZE) == 0)
            return leases->items_owned[i];
    return NULL;
}

void leased_rows_drop(struct leased_rows *leases, struct leased_row *item)
{
    size_t at = 0;
    pthread_mutex_lock(&leases->mutex);
    while (leases->items_owned[at] != item)
        at++;
    leases->size -= item->row.body.size + item->row.attributes.size;
    memmove(&leases->items_owned[at], &leases->items_owned[at + 1],
            (--leases->count - at) * sizeof(*leases->items_owned));
    pthread_mutex_unlock(&leases->mutex);
    free_item(item);
}
