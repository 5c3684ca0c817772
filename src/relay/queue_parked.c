#include "relay/queue_parked.h"
#include "platform/monotonic.h"
#include "relay/keeper.h"

#include "base/assert.h"
#include "base/memory.h"
#include "base/trace_context.h"
#include "relay/queue_leases.h"
#include "relay/queue_row.h"
#include "relay/sqs_endpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SUFFIX "-parked"
#define QUEUE_NAME_SIZE_MAX 80u
#define RETENTION_S "1209600"
#define ATTRIBUTES_MAX 10u

/* How long messages are away from others while we look at a hundred of them, or through the whole queue for one. */
#define LIST_VISIBILITY_S 3u
#define RESOLVE_VISIBILITY_S 20u
#define WALK_MAX 10000u

/* After this time the list is read again even if no change is known. */
#define LIST_AGE_MAX_MS 15000u

void parked_queue_init(struct parked_queue *parked, struct tally_client *client, const struct relay_spec *spec)
{
    const char *name = spec->name_owned != NULL ? spec->name_owned : "relay";
    size_t size = strlen(name);
    if (size > QUEUE_NAME_SIZE_MAX - (sizeof(SUFFIX) - 1))
        size = QUEUE_NAME_SIZE_MAX - (sizeof(SUFFIX) - 1);
    const bool is_elsewhere = spec->source == SOURCE_SQS;
    *parked = (struct parked_queue){.client = client,
                                    .source = spec->source_queue_owned,
                                    .home = is_elsewhere ? spec->queue_owned : spec->source_queue_owned,
                                    .is_elsewhere = is_elsewhere};
    const char *slash = strrchr(parked->source, '/');
    parked->source_name = slash == NULL ? parked->source : slash + 1;
    parked->name_owned = memory_allocate(size + sizeof(SUFFIX));
    memcpy(parked->name_owned, name, size);
    memcpy(parked->name_owned + size, SUFFIX, sizeof(SUFFIX));
    arena_init(&parked->arena);
}

void parked_queue_deinit(struct parked_queue *parked)
{
    arena_deinit(&parked->arena);
    free(parked->name_owned);
}

/* --- putting ------------------------------------------------------------------------------------------------------ */

static bool is_missing(const struct parked_queue *parked)
{
    return queue_calls_is_refused(parked->client, "QueueDoesNotExist");
}

static enum step create(struct parked_queue *parked, struct fault *fault)
{
    const struct tally_pair retention = {.name = "MessageRetentionPeriod", .value = RETENTION_S};
    if (tally_queue_create(parked->client, parked->name_owned, &retention, 1, NULL) == TALLY_OK)
        return STEP_OK;
    return queue_calls_judge(parked->client, parked->name_owned, fault);
}

/* A Commit with one send, and one delete unless `handle` is NULL; the caller adds to the send, which it gets. */
static yyjson_mut_val *begin_commit(struct json_body *body, const char *queue, const char *handle)
{
    json_body_init(body);
    if (handle == NULL)
        return json_append_object(body, json_add_array(body, body->root, "Sends"));
    yyjson_mut_val *end = json_append_object(body, json_add_array(body, body->root, "Deletes"));
    json_add_text(body, end, "QueueUrl", queue);
    json_add_text(body, end, "ReceiptHandle", handle);
    return json_append_object(body, json_add_array(body, body->root, "Sends"));
}

/* How many of them count among the ten that a message may have. */
static size_t count_limited(yyjson_mut_val *attributes)
{
    static const char *const free_names[] = {ROW_UID_ATTRIBUTE, TRACE_PARENT, TRACE_STATE, TRACE_BAGGAGE};
    size_t count = yyjson_mut_obj_size(attributes);
    for (size_t i = 0; i < ARRAY_LENGTH(free_names); i++)
        count -= yyjson_mut_obj_get(attributes, free_names[i]) != NULL;
    return count;
}

/* What a message can't have beside the reason, or not at all, goes as one text. */
static void pack(struct json_body *body, yyjson_mut_val *attributes)
{
    char *text = yyjson_mut_val_write(attributes, 0, NULL);
    yyjson_mut_obj_clear(attributes);
    queue_row_add_attribute(body, attributes, PARKED_PACKED_ATTRIBUTE, text);
    free(text);
}

/* How a message is put there, in the order in which it is tried. */
enum parked_form {
    PARKED_WITH_REASON,
    PARKED_PACKED, /* and its attributes as one text: they are none that a message of Tally may have */
    PARKED_BARE,   /* as it is: one that is as large as one may be has no room for a reason */
    PARKED_FORMS,
};

/* Its own Tally.OutboxId is not the uid by which it is parked, if it comes from elsewhere. */
static bool has_other_uid(const struct parked_queue *parked, yyjson_mut_val *attributes)
{
    return parked->is_elsewhere && yyjson_mut_obj_get(attributes, ROW_UID_ATTRIBUTE) != NULL;
}

static void add_reason(const struct parked_queue *parked, struct json_body *body, yyjson_mut_val *attributes,
                       const char *uid, const char *error, bool is_doubted)
{
    char reason[ROW_REASON_SIZE];
    snprintf(reason, sizeof(reason), "%.*s", (int)sizeof(reason) - 1, error[0] == '\0' ? "(no reason)" : error);
    text_make_plain(reason); /* a Commit that is not UTF-8 would never be taken */
    queue_row_add_attribute(body, attributes, ROW_UID_ATTRIBUTE, uid);
    queue_row_add_attribute(body, attributes, PARKED_ERROR_ATTRIBUTE, reason);
    queue_row_add_attribute(body, attributes, PARKED_SOURCE_ATTRIBUTE, parked->source_name);
    if (is_doubted)
        queue_row_add_attribute(body, attributes, PARKED_DOUBT_ATTRIBUTE, "1");
}

static enum tally_status commit_put(struct parked_queue *parked, const struct row *row, const char *handle,
                                    enum parked_form form, const char *error, bool is_doubted)
{
    struct json_body body;
    yyjson_mut_val *send = begin_commit(&body, parked->source, parked->is_elsewhere ? NULL : handle);
    yyjson_mut_val *attributes = queue_row_add(&body, send, parked->name_owned, row);
    char uid[UID_TEXT_SIZE];
    uid_to_text(&row->uid, uid);
    if (parked->is_elsewhere)
        json_add_text(&body, send, "Uid", uid);
    if (form != PARKED_BARE) {
        if (form == PARKED_PACKED || count_limited(attributes) > ATTRIBUTES_MAX - 3 ||
            has_other_uid(parked, attributes))
            pack(&body, attributes);
        add_reason(parked, &body, attributes, uid, error, is_doubted);
    }
    return json_body_call(&body, parked->client, "Tally.Commit", NULL);
}

enum step parked_queue_put(struct parked_queue *parked, const struct row *row, const char *handle, const char *error,
                           bool is_doubted, bool *is_taken, struct fault *fault)
{
    parked->listed_ms = 0;
    enum tally_status status = commit_put(parked, row, handle, PARKED_WITH_REASON, error, is_doubted);
    if (status != TALLY_OK && is_missing(parked)) {
        enum step step = create(parked, fault);
        if (step != STEP_OK)
            return step;
        status = commit_put(parked, row, handle, PARKED_WITH_REASON, error, is_doubted);
    }
    for (enum parked_form form = PARKED_PACKED;
         form < PARKED_FORMS && status != TALLY_OK && queue_calls_is_of_message(parked->client); form++)
        status = commit_put(parked, row, handle, form, error, is_doubted);
    *is_taken = status == TALLY_OK || !queue_calls_is_of_message(parked->client);
    if (status == TALLY_OK || !*is_taken || queue_calls_is_refused(parked->client, "ReceiptHandleIsInvalid"))
        return STEP_OK;
    return queue_calls_judge(parked->client, parked->name_owned, fault);
}

enum step parked_queue_count(struct parked_queue *parked, uint64_t *count, struct fault *fault)
{
    struct tally_queue_counts counts;
    *count = 0;
    if (tally_queue_count(parked->client, parked->name_owned, &counts) == TALLY_OK)
        *count = counts.visible + counts.in_flight + counts.delayed;
    else if (!is_missing(parked))
        return queue_calls_judge(parked->client, parked->name_owned, fault);
    return STEP_OK;
}

/* --- looking through ---------------------------------------------------------------------------------------------- */

/* Was it parked by a relay of this queue? */
static bool is_ours(const struct parked_queue *parked, const struct tally_message *message)
{
    const char *source = tally_message_attribute(message, PARKED_SOURCE_ATTRIBUTE);
    return source == NULL || strcmp(source, parked->source_name) == 0;
}

/* Everything that can be received, hidden from others meanwhile. */
struct walk {
    struct tally_messages pages[WALK_MAX / QUEUE_CALL_ENTRIES_MAX];
    size_t page_count;
};

/* Gives back what was received. What can't be comes back by itself. */
static void end_walk(struct parked_queue *parked, struct walk *walk)
{
    struct fault fault;
    for (size_t i = 0; i < walk->page_count; i++) {
        const char *handles[QUEUE_CALL_ENTRIES_MAX];
        for (size_t j = 0; j < walk->pages[i].count; j++)
            handles[j] = walk->pages[i].items_owned[j].receipt_handle;
        queue_calls_hide(parked->client, parked->name_owned, handles, walk->pages[i].count, 0, NULL, &fault);
        tally_messages_deinit(&walk->pages[i]);
    }
    free(walk);
}

/* The caller ends it with end_walk(), in any case. */
static enum step begin_walk(struct parked_queue *parked, unsigned limit, unsigned visibility_s, struct walk *walk,
                            struct fault *fault)
{
    struct tally_receive_options options = {
        .max = QUEUE_CALL_ENTRIES_MAX, .has_wait = true, .has_visibility = true, .visibility_s = visibility_s};
    size_t count = 0;
    while (count < limit && walk->page_count < sizeof(walk->pages) / sizeof(walk->pages[0])) {
        struct tally_messages *page = &walk->pages[walk->page_count];
        if (tally_receive(parked->client, parked->name_owned, &options, page) != TALLY_OK)
            return is_missing(parked) ? STEP_OK : queue_calls_judge(parked->client, parked->name_owned, fault);
        walk->page_count++; /* an empty one has something to free, too */
        if (page->count == 0)
            break;
        count += page->count;
    }
    return STEP_OK;
}

static void read_parked(struct parked_queue *parked, const struct tally_message *message, struct parked *item)
{
    const char *error = tally_message_attribute(message, PARKED_ERROR_ATTRIBUTE);
    const char *uid = tally_message_attribute(message, ROW_UID_ATTRIBUTE);
    uint64_t now_ms = (uint64_t)time(NULL) * 1000;
    *item = (struct parked){
        .name.id = message->fencing_token,
        .queue = arena_copy(&parked->arena, bytes_from_string(sqs_shown(parked->source))),
        .error = arena_copy(&parked->arena, bytes_from_string(error != NULL ? error : "(no reason)")),
        /* Without the attribute nothing is known, so the row counts as in doubt. */
        .is_doubted = error == NULL || tally_message_attribute(message, PARKED_DOUBT_ATTRIBUTE) != NULL,
        .age_ms = now_ms > message->sent_at_ms ? now_ms - message->sent_at_ms : 0,
    };
    if (message->group_id != NULL)
        item->group = arena_copy(&parked->arena, bytes_from_string(message->group_id));
    if (uid == NULL || !uid_from_text(bytes_from_string(uid), &item->name.uid))
        uid_from_text(bytes_from_string(message->id), &item->name.uid);
}

static enum step read_list(struct parked_queue *parked, unsigned limit, struct fault *fault)
{
    struct walk *walk = memory_allocate_zeroed(sizeof(*walk));
    enum step step = begin_walk(parked, limit, LIST_VISIBILITY_S, walk, fault);
    if (step == STEP_OK) {
        arena_reset(&parked->arena);
        parked->items = arena_allocate(&parked->arena, (limit + QUEUE_CALL_ENTRIES_MAX) * sizeof(*parked->items));
        parked->count = 0;
        for (size_t i = 0; i < walk->page_count; i++)
            for (size_t j = 0; j < walk->pages[i].count; j++)
                if (is_ours(parked, &walk->pages[i].items_owned[j]))
                    read_parked(parked, &walk->pages[i].items_owned[j], &parked->items[parked->count++]);
        parked->listed_ms = boottime_ms();
    }
    end_walk(parked, walk);
    return step;
}

enum step parked_queue_list(struct parked_queue *parked, unsigned limit, struct arena *arena, struct parked **items,
                            size_t *count, struct fault *fault)
{
    uint64_t total;
    enum step step = parked_queue_count(parked, &total, fault);
    bool is_fresh = parked->listed_ms != 0 && boottime_ms() - parked->listed_ms < LIST_AGE_MAX_MS;
    if (step == STEP_OK && (!is_fresh || total != parked->total))
        step = read_list(parked, limit, fault);
    if (step != STEP_OK)
        return step;
    parked->total = total;
    *count = parked->count < limit ? parked->count : limit;
    *items = arena_allocate(arena, (*count + 1) * sizeof(**items));
    for (size_t i = 0; i < *count; i++) {
        struct parked item = parked->items[i];
        item.queue = arena_copy(arena, item.queue);
        item.group = item.group.ptr == NULL ? item.group : arena_copy(arena, item.group);
        item.error = arena_copy(arena, item.error);
        (*items)[i] = item;
    }
    return STEP_OK;
}

/* --- resolving ---------------------------------------------------------------------------------------------------- */

/* Puts what was packed in place of what it was packed into. */
static void unpack(const struct tally_message *message, struct row *row)
{
    const char *packed = tally_message_attribute(message, PARKED_PACKED_ATTRIBUTE);
    if (packed != NULL)
        row->attributes = bytes_from_string(packed);
}

/* Back to the end of its group, under its uid. Its deduplication id is a fresh one: under the old one it would be
 * known, and dropped. */
static enum tally_status send_back(struct parked_queue *parked, const struct tally_message *message)
{
    struct json_body body;
    struct arena arena;
    struct row row;
    struct uid message_id, deduplication;
    char text[UID_TEXT_SIZE];
    arena_init(&arena);
    queue_row_read(message, &arena, &row, &message_id);
    unpack(message, &row);
    yyjson_mut_val *send = begin_commit(&body, parked->name_owned, message->receipt_handle);
    yyjson_mut_val *attributes = queue_row_add(&body, send, parked->home, &row);
    uid_to_text(&row.uid, text);
    if (!has_other_uid(parked, attributes))
        queue_row_add_attribute(&body, attributes, ROW_UID_ATTRIBUTE, text);
    /* It may have come a second time and been taken, if the relay was killed before its delete. */
    if (parked->is_elsewhere)
        json_add_text(&body, send, "Uid", text);
    if (bytes_ends_with(bytes_from_string(parked->home), BYTES(".fifo"))) {
        uid_generate(&deduplication);
        uid_to_text(&deduplication, text);
        yyjson_mut_obj_add_strcpy(body.doc_owned, send, "MessageDeduplicationId", text);
    }
    arena_deinit(&arena);
    return json_body_call(&body, parked->client, "Tally.Commit", NULL);
}

static bool is_named(const struct tally_message *message, const struct uid *uid)
{
    const char *text = tally_message_attribute(message, ROW_UID_ATTRIBUTE);
    struct uid found;
    if (text == NULL || !uid_from_text(bytes_from_string(text), &found))
        return uid_from_text(bytes_from_string(message->id), &found) && memcmp(&found, uid, sizeof(found)) == 0;
    return memcmp(&found, uid, sizeof(found)) == 0;
}

static enum step resolve_in(struct parked_queue *parked, const struct walk *walk, const struct uid *uid,
                            enum resolution resolution, bool *is_found, struct fault *fault)
{
    for (size_t i = 0; i < walk->page_count; i++) {
        for (size_t j = 0; j < walk->pages[i].count; j++) {
            const struct tally_message *message = &walk->pages[i].items_owned[j];
            if (!is_ours(parked, message) || !is_named(message, uid))
                continue;
            enum tally_status status = resolution == RESOLUTION_SEND
                                           ? send_back(parked, message)
                                           : tally_delete(parked->client, parked->name_owned, message->receipt_handle);
            if (status != TALLY_OK)
                return queue_calls_judge(parked->client, parked->name_owned, fault);
            *is_found = true;
        }
    }
    return STEP_OK;
}

enum step parked_queue_resolve(struct parked_queue *parked, const struct uid *uid, enum resolution resolution,
                               bool *is_found, struct fault *fault)
{
    struct walk *walk = memory_allocate_zeroed(sizeof(*walk));
    *is_found = false;
    parked->listed_ms = 0;
    enum step step = begin_walk(parked, WALK_MAX, RESOLVE_VISIBILITY_S, walk, fault);
    if (step == STEP_OK)
        step = resolve_in(parked, walk, uid, resolution, is_found, fault);
    end_walk(parked, walk);
    return step;
}
