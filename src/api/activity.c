#include "api/activity.h"

#include "api/memory_limit.h"
#include "api/state.h"
#include "base/accounted.h"
#include "base/memory.h"
#include "base/shown.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TEXT_COUNT 5u
#define BLOCK_OVERHEAD 16u /* what the allocator takes for a block besides, about */

static struct activity_item *item_of(struct list_link *link)
{
    return CONTAINER_OF(link, struct activity_item, link);
}

/* --- items -------------------------------------------------------------------------------------------------------- */

static void list_texts(struct activity_note *note, struct bytes *texts[TEXT_COUNT])
{
    struct bytes *all[TEXT_COUNT] = {&note->access_key, &note->address, &note->queue, &note->target, &note->text};
    memcpy(texts, all, sizeof(all));
}

static struct activity_item *item_create(const struct activity_note *note)
{
    struct activity_note copy = *note;
    struct bytes *texts[TEXT_COUNT];
    size_t size = sizeof(struct activity_item);
    list_texts(&copy, texts);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        *texts[i] = bytes_cut_text(*texts[i], ACTIVITY_TEXT_SIZE_MAX);
        size += texts[i]->size;
    }
    struct activity_item *item = memory_allocate(size);
    *item = (struct activity_item){.size = size + BLOCK_OVERHEAD};
    accounted_count_more(item->size);
    uint8_t *at = (uint8_t *)(item + 1);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        struct bytes rest = *texts[i];
        texts[i]->ptr = at;
        while (rest.size > 0) {
            const struct bytes character = shown_take(&rest);
            memcpy(at, character.ptr, character.size);
            at += character.size;
        }
        texts[i]->size = (size_t)(at - texts[i]->ptr);
    }
    item->note = copy;
    return item;
}

static void drop_oldest(struct activity *activity)
{
    struct activity_item *item = item_of(list_first(&activity->items));
    list_remove(&item->link);
    activity->count--;
    activity->size -= item->size;
    activity->gone = item->number;
    accounted_count_less(item->size);
    free(item);
}

/* Is there no room for `size` more bytes? */
static bool is_full(const struct api *api, const struct activity *activity, size_t size)
{
    return activity->count >= ACTIVITY_ITEMS_MAX || activity->size + size > ACTIVITY_SIZE_MAX ||
           memory_limit_is_reached(api->front);
}

static void put(struct api *api, struct activity *activity, uint64_t at_ms, const struct activity_note *note)
{
    struct activity_item *item = item_create(note);
    /* Of what it takes at a full memory, as much is freed before. */
    for (size_t freed = 0; activity->count > 0 && freed < item->size && is_full(api, activity, item->size);) {
        freed += item_of(list_first(&activity->items))->size;
        drop_oldest(activity);
    }
    item->at_ms = at_ms;
    item->number = at_ms * 1000 > activity->last ? at_ms * 1000 : activity->last + 1;
    activity->last = item->number;
    activity->count++;
    activity->size += item->size;
    list_append(&activity->items, &item->link);
    api->has_event_news = api->has_event_news || api->events_waiting > 0;
}

/* --- of a namespace ----------------------------------------------------------------------------------------------- */

static void put_start(struct api *api, struct activity *activity)
{
    char text[160] = "This node has taken the namespace over.";
    if (!api->is_taken_over)
        (void)snprintf(text, sizeof(text), "The namespace was read from its log in %u.%03u s.", api->recovery_ms / 1000,
                       api->recovery_ms % 1000);
    put(api, activity, api->since_ms,
        &(struct activity_note){.kind = ACTIVITY_SERVER,
                                .action = api->is_taken_over ? "TookOver" : "Recovered",
                                .text = bytes_from_string(text)});
}

static void write_time(uint64_t time_ms, char text[32])
{
    const time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    (void)gmtime_r(&seconds, &parts);
    (void)strftime(text, 32, "%Y-%m-%d %H:%M:%S UTC", &parts);
}

/* Since the newest snapshot. */
static void put_restore(struct api *api, struct activity *activity)
{
    const struct core_restore restore = core_restore(namespace_core(api->ns));
    char until[32], restored[32], text[200];
    if (restore.restored_at_ms == 0)
        return;
    write_time(restore.until_ms, until);
    write_time(restore.restored_at_ms, restored);
    (void)snprintf(text, sizeof(text),
                   "On %s the namespace was restored from a backup, as it was on %s. Numbers were raised, relays "
                   "paused.",
                   restored, until);
    put(api, activity, api->since_ms,
        &(struct activity_note){.kind = ACTIVITY_SERVER, .action = "Restored", .text = bytes_from_string(text)});
}

static struct activity *create(struct api *api)
{
    struct activity *activity = memory_allocate_zeroed(sizeof(*activity));
    accounted_count_more(sizeof(*activity));
    list_init(&activity->items);
    activity->gone = activity->last = api->since_ms * 1000;
    put_start(api, activity);
    put_restore(api, activity);
    return activity;
}

/* --- of the whole process ----------------------------------------------------------------------------------------- */

void front_notice(struct front *front, uint64_t now_ms, const char *action, const char *text)
{
    if (front->notices_owned == NULL)
        front->notices_owned = memory_allocate(FRONT_NOTICES_MAX * sizeof(*front->notices_owned));
    struct front_notice *notice = &front->notices_owned[front->notice_count++ % FRONT_NOTICES_MAX];
    const struct bytes kept = bytes_cut_text(bytes_from_string(text), FRONT_NOTICE_SIZE - 1);
    *notice = (struct front_notice){.at_ms = now_ms, .action = action};
    memcpy(notice->text, kept.ptr, kept.size);
    for (size_t i = 0; i < front->served_count; i++)
        if (front->served_owned[i]->events_waiting > 0)
            (void)activity_of(front->served_owned[i]);
}

/* As far as the front still has them. */
static void take_notices(struct api *api, struct activity *activity)
{
    const struct front *front = api->front;
    const uint64_t kept = front->notice_count < FRONT_NOTICES_MAX ? front->notice_count : FRONT_NOTICES_MAX;
    if (activity->notices_taken < front->notice_count - kept)
        activity->notices_taken = front->notice_count - kept;
    for (; activity->notices_taken < front->notice_count; activity->notices_taken++) {
        const struct front_notice *notice = &front->notices_owned[activity->notices_taken % FRONT_NOTICES_MAX];
        put(api, activity, notice->at_ms,
            &(struct activity_note){
                .kind = ACTIVITY_SERVER, .action = notice->action, .text = bytes_from_string(notice->text)});
    }
}

struct activity *activity_of(struct api *api)
{
    if (api->activity_owned == NULL)
        api->activity_owned = create(api);
    take_notices(api, api->activity_owned);
    return api->activity_owned;
}

void activity_add(struct api *api, uint64_t at_ms, const struct activity_note *note)
{
    put(api, activity_of(api), at_ms, note);
}

void api_note_event(struct api *api, uint64_t now_ms, const char *action, const char *text)
{
    activity_add(api, now_ms,
                 &(struct activity_note){.kind = ACTIVITY_SERVER, .action = action, .text = bytes_from_string(text)});
}

void api_note_start(struct api *api, uint64_t now_ms, uint64_t recovery_ms, bool is_taken_over)
{
    ASSERT(api->activity_owned == NULL);
    api->since_ms = now_ms;
    api->recovery_ms = recovery_ms < UINT32_MAX ? (uint32_t)recovery_ms : UINT32_MAX;
    api->is_taken_over = is_taken_over;
}

size_t activity_memory(const struct api *api)
{
    const struct activity *activity = api->activity_owned;
    return activity == NULL ? 0 : sizeof(*activity) + activity->size;
}

void activity_deinit(struct api *api)
{
    struct activity *activity = api->activity_owned;
    if (activity == NULL)
        return;
    while (activity->count > 0)
        drop_oldest(activity);
    accounted_count_less(sizeof(*activity));
    free(activity);
    api->activity_owned = NULL;
}

bool activity_has_news(const struct api *api)
{
    return api->has_event_news;
}
