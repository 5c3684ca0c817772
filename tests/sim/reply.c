#include "judge.h"

#include "fail.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const reply_event_names[] = {"", "complete", "success", "first-failure"};
const char *const reply_status_names[] = {"", "succeeded", "failed", "cancelled", "expired"};

const char *reply_name_of(enum error error)
{
    return error == OK ? "OK" : error_row(error)->name;
}

void expect_error(const struct reply_view *view, enum error expected)
{
    if (view->error != expected)
        fail("%s answered %s; it should be %s", operation_target(view->operation), reply_name_of(view->error),
             reply_name_of(expected));
}

int64_t number_in(const struct reply_view *view, yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (!yyjson_is_int(value))
        fail("%s: the reply has no number %s", operation_target(view->operation), name);
    return yyjson_get_sint(value);
}

const char *text_in(const struct reply_view *view, yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (!yyjson_is_str(value))
        fail("%s: the reply has no text %s", operation_target(view->operation), name);
    return yyjson_get_str(value);
}

bool boolean_in(const struct reply_view *view, yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (!yyjson_is_bool(value))
        fail("%s: the reply has no boolean %s", operation_target(view->operation), name);
    return yyjson_get_bool(value);
}

void expect_number(const struct reply_view *view, yyjson_val *object, const char *name, int64_t expected)
{
    int64_t value = number_in(view, object, name);
    if (value != expected)
        fail("%s of b%d: %s is %" PRId64 "; it should be %" PRId64, operation_target(view->operation),
             view->operation->batch, name, value, expected);
}

void expect_text(const struct reply_view *view, yyjson_val *object, const char *name, const char *expected)
{
    const char *value = text_in(view, object, name);
    if (strcmp(value, expected) != 0)
        fail("%s: %s is %s; it should be %s", operation_target(view->operation), name, value, expected);
}

void expect_boolean(const struct reply_view *view, yyjson_val *object, const char *name, bool expected)
{
    if (boolean_in(view, object, name) != expected)
        fail("%s of b%d: %s should be %s", operation_target(view->operation), view->operation->batch, name,
             expected ? "true" : "false");
}

void expect_time(const struct reply_view *view, yyjson_val *object, const char *name, uint64_t expected_ms)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (expected_ms == 0 ? value != NULL : (uint64_t)(yyjson_get_num(value) * 1000 + 0.5) != expected_ms)
        fail("%s of b%d: %s is %.3f; it should be %" PRIu64 " ms", operation_target(view->operation),
             view->operation->batch, name, yyjson_get_num(value), expected_ms);
}

void teach(struct lesson *lesson, int kind, int subject, const char *id)
{
    if (lesson->fact_count == ENTRIES_MAX)
        return;
    struct fact *fact = &lesson->facts[lesson->fact_count++];
    *fact = (struct fact){.kind = kind, .subject = subject};
    snprintf(fact->id, sizeof(fact->id), "%s", id);
}

void describe_message(const struct model *model, int index, struct buffer *out)
{
    const struct model_message *message = &model->messages[index];
    if (message->completes != 0)
        buffer_append_format(out, "the %s message", reply_event_names[message->completes]);
    else
        buffer_append_format(out, "message %s (m%" PRIu32 ")", message->id, message->tag);
    if (message->batch != NONE)
        buffer_append_format(out, " of b%d", model->batches[message->batch].name);
    if (message->group >= 0)
        buffer_append_format(out, " of g%d", message->group);
}

/* What the server did with a message is wrong because of the message's state. */
_Noreturn void fail_message(const struct model *model, int index, const char *what, const char *why)
{
    struct buffer text;
    buffer_init(&text);
    describe_message(model, index, &text);
    fail("%.*s %s, but it %s", BYTES_FORMAT(buffer_bytes(&text)), what, why);
}
