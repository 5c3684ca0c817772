/* Judges what is sent, given back, counted and explained. */
#include "judge.h"

#include "base/assert.h"
#include "fail.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry's part of a reply of many: in Successful or Failed. */
static yyjson_val *find_entry(const struct reply_view *view, const char *list, unsigned entry)
{
    char id[16];
    snprintf(id, sizeof(id), "e%u", entry);
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(yyjson_obj_get(view->root, list), index, count, item)
    {
        if (yyjson_equals_str(yyjson_obj_get(item, "Id"), id))
            return item;
    }
    return NULL;
}

/* Compares an entry's outcome; returns its part of the reply if it went well. */
static yyjson_val *expect_entry(const struct reply_view *view, unsigned entry, enum error expected)
{
    if (!view->operation->is_many) {
        expect_error(view, expected);
        return expected == OK ? view->root : NULL;
    }
    yyjson_val *good = find_entry(view, "Successful", entry), *bad = find_entry(view, "Failed", entry);
    if ((good == NULL) == (bad == NULL))
        fail("%s: entry %u is in both lists of the reply, or in none", operation_target(view->operation), entry);
    if (expected == OK && good == NULL)
        fail("%s: entry %u failed with %s; it should succeed", operation_target(view->operation), entry,
             text_in(view, bad, "Code"));
    if (expected != OK && good != NULL)
        fail("%s: entry %u succeeded; it should fail with %s", operation_target(view->operation), entry,
             reply_name_of(expected));
    if (expected != OK)
        expect_text(view, bad, "Code", error_row(expected)->query);
    return good;
}

/* A request of many to a queue that is not there fails as a whole. */
static bool is_whole_failure(const struct reply_view *view)
{
    if (!view->operation->is_many)
        return false;
    bool exists = model_find_queue(&view->oracle->model, view->operation->queue) != NONE;
    expect_error(view, exists ? OK : ERROR_QUEUE_DOES_NOT_EXIST);
    return !exists;
}

void expect_sent(const struct reply_view *view, yyjson_val *reply, int index, bool is_duplicate)
{
    struct model *model = &view->oracle->model;
    if (is_duplicate != yyjson_is_true(yyjson_obj_get(reply, "Duplicate")))
        fail("%s: a send should %sbe a duplicate", operation_target(view->operation), is_duplicate ? "" : "not ");
    if (index == NONE) {
        if (yyjson_obj_get(reply, "MessageId") != NULL)
            fail("a duplicate whose first message is not known has a MessageId");
        return;
    }
    struct model_message *message = &model->messages[index];
    const char *id = text_in(view, reply, "MessageId");
    if (is_duplicate && strcmp(message->id, id) != 0)
        fail("a duplicate has the MessageId %s; the first had %s", id, message->id);
    for (int i = 0; i < model->message_count && !is_duplicate; i++)
        if (strcmp(model->messages[i].id, id) == 0)
            fail("MessageId %s was given out twice", id);
    snprintf(message->id, MODEL_ID_SIZE, "%s", id);
    expect_sequence(view, reply, index);
    teach(view->lesson, FACT_SENT, index, id);
}

void judge_send(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    if (is_whole_failure(view))
        return;
    for (unsigned i = 0; i < view->operation->count; i++) {
        int sent = NONE;
        bool is_duplicate = false;
        enum error error =
            model_send(model, view->operation->queue, &view->operation->entries[i], &sent, &is_duplicate);
        yyjson_val *good = expect_entry(view, i, error);
        if (error == OK)
            expect_sent(view, good, sent, is_duplicate);
    }
}

void judge_handles(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    if (is_whole_failure(view))
        return;
    for (unsigned i = 0; i < view->operation->count; i++) {
        const struct entry *entry = &view->operation->entries[i];
        struct handle_of of = view->oracle->handle_of[entry->handle];
        bool was_alive = model->messages[of.message].is_alive;
        uint64_t lease = model->messages[of.message].lease;
        enum error error = view->operation->kind == OPERATION_DELETE
                               ? model_delete(model, view->operation->queue, of.queue, of.message, entry->handle)
                               : model_change_visibility(model, view->operation->queue, of.queue, of.message,
                                                         entry->handle, (uint64_t)entry->timeout_s * 1000);
        expect_entry(view, i, error);
        if (model->messages[of.message].lease != lease)
            teach_lease(view, of.message);
        if (was_alive && !model->messages[of.message].is_alive)
            teach(view->lesson, FACT_ENDED, of.message, model->messages[of.message].id);
    }
}

/* Whatever keeps a message back has a name (O13). */
void judge_explain(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    int queue = model_find_queue(model, view->operation->queue), message = NONE;
    expect_error(view, queue == NONE ? ERROR_QUEUE_DOES_NOT_EXIST : OK);
    for (int i = 0; i < model->message_count && queue != NONE; i++)
        if (strcmp(model->messages[i].id, view->operation->id) == 0)
            message = i;
    if (message == NONE)
        return;
    bool has_reason = false;
    const char *state = model_explain(model, queue, message, &has_reason);
    if (state != NULL)
        expect_text(view, view->root, "State", state);
    if (state != NULL && has_reason && strcmp(state, "unknown") != 0 &&
        yyjson_arr_size(yyjson_obj_get(view->root, "Why")) == 0)
        fail_message(model, message, "has no reason given", "has one");
}

void judge_list_groups(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    int queue = model_find_queue(model, view->operation->queue);
    expect_error(view, queue == NONE ? ERROR_QUEUE_DOES_NOT_EXIST : OK);
    if (queue == NONE)
        return;
    yyjson_val *groups = yyjson_obj_get(view->root, "Groups");
    size_t expected = 0;
    for (int i = 0; i < model->group_count; i++)
        expected += model->groups[i].queue == queue && model_is_held(model, &model->groups[i]);
    if (yyjson_arr_size(groups) != expected)
        fail("ListGroups of q%d lists %zu held groups; there are %zu", view->operation->queue, yyjson_arr_size(groups),
             expected);
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(groups, index, count, item)
    {
        const struct model_group *group = model_group(model, queue, atoi(text_in(view, item, "MessageGroupId") + 1));
        if (!model_is_held(model, group))
            fail("ListGroups of q%d lists g%d, which is not held", view->operation->queue, group->name);
        if (model->messages[group->held].completes == 0)
            expect_text(view, item, "HeadMessageId", model->messages[group->held].id);
    }
}

/* Where the back-off has a jitter, the event says what was drawn; the model says whether that is within the bounds
 * (R13). */
void judge_fail(const struct reply_view *view)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    struct handle_of of = oracle->handle_of[view->operation->entries[0].handle];
    uint64_t seen_visible_at = 0;
    bool has_failed = false;
    for (unsigned i = 0; i < oracle->witness.count; i++) {
        const struct sight *sight = &oracle->witness.sights[i];
        has_failed = has_failed || sight->kind == SIGHT_FAILED;
        if (sight->kind == SIGHT_FAILED)
            seen_visible_at = sight->visible_at;
    }
    uint32_t fenced_before = model->messages[of.message].is_fenced;
    enum error error = model_fail(model, view->operation, of.queue, of.message, seen_visible_at);
    expect_error(view, error);
    const struct model_message *message = &model->messages[of.message];
    uint64_t expected = message->visible_at > model->now ? message->visible_at : 0;
    if (has_failed && message->is_alive && !message->is_moved && !message->is_final && expected != seen_visible_at)
        fail("message %s comes back at %" PRIu64 "; it should at %" PRIu64, message->id, seen_visible_at, expected);
    if (has_failed != (error == OK && message->is_fenced && !fenced_before))
        fail("FailMessage of %s should %sdo something", message->id, has_failed ? "not " : "");
}

/* Every label that was given and not taken back is in the policy; without one there is none. */
static void judge_policy(const struct reply_view *view, const struct model_queue *queue)
{
    const char *policy = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(view->root, "Attributes"), "Policy"));
    bool is_any = false;
    for (unsigned i = 0; i < LABELS; i++) {
        char label[24];
        snprintf(label, sizeof(label), "\"Sid\":\"l%u\"", i);
        bool is_shown = policy != NULL && strstr(policy, label) != NULL;
        if (is_shown != queue->has_label[i])
            fail("the policy of q%d has %s label l%u", queue->name, is_shown ? "the" : "no", i);
        is_any = is_any || is_shown;
    }
    if (policy != NULL && !is_any)
        fail("q%d has a policy without statements", queue->name);
}

void judge_count_queue(const struct reply_view *view)
{
    const struct model *model = &view->oracle->model;
    int queue = model_find_queue(model, view->operation->queue);
    expect_error(view, queue == NONE ? ERROR_QUEUE_DOES_NOT_EXIST : OK);
    if (queue == NONE)
        return;
    struct queue_counts counts = model_count_queue(model, queue);
    const struct {
        const char *name;
        unsigned count;
    } rows[] = {{"ApproximateNumberOfMessages", counts.visible},
                {"ApproximateNumberOfMessagesNotVisible", counts.in_flight},
                {"ApproximateNumberOfMessagesDelayed", counts.delayed}};
    for (unsigned i = 0; i < ARRAY_LENGTH(rows); i++) {
        char text[16];
        snprintf(text, sizeof(text), "%u", rows[i].count);
        expect_text(view, yyjson_obj_get(view->root, "Attributes"), rows[i].name, text);
    }
    judge_policy(view, &model->queues[queue]);
}

void judge_list_tags(const struct reply_view *view)
{
    const struct model *model = &view->oracle->model;
    int queue = model_find_queue(model, view->operation->queue);
    expect_error(view, queue == NONE ? ERROR_QUEUE_DOES_NOT_EXIST : OK);
    if (queue == NONE)
        return;
    yyjson_val *shown = yyjson_obj_get(view->root, "Tags");
    size_t count = 0;
    for (unsigned i = 0; i < TAGS; i++) {
        char key[8], value[16];
        if (model->queues[queue].tags[i] == 0)
            continue;
        snprintf(key, sizeof(key), "t%u", i);
        snprintf(value, sizeof(value), "v%d", model->queues[queue].tags[i]);
        expect_text(view, shown, key, value);
        count++;
    }
    if (yyjson_obj_size(shown) != count)
        fail("ListQueueTags of q%d shows %zu tags; it has %zu", view->operation->queue, yyjson_obj_size(shown), count);
}
