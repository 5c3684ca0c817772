#include "oracle.h"

#include "base/assert.h"
#include "base/memory.h"
#include "fail.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

/* --- life, and going back ----------------------------------------------------------------------------------------- */

static void save(struct oracle *oracle)
{
    if (oracle->saved_count == SAVED_MAX)
        fail("more than %d frames wait to be durable: the simulator should have flushed.", SAVED_MAX);
    if (oracle->saved_owned[oracle->saved_count] == NULL)
        oracle->saved_owned[oracle->saved_count] = memory_allocate(sizeof(struct model));
    model_copy(oracle->saved_owned[oracle->saved_count],
               oracle->has_lapsed ? oracle->before_lapse_owned : &oracle->model);
    oracle->saved_sequences[oracle->saved_count++] = oracle->sequence;
}

struct oracle *oracle_create(unsigned in_flight_max)
{
    struct oracle *oracle = memory_allocate_zeroed(sizeof(*oracle));
    oracle->in_flight_max = in_flight_max;
    oracle->scratch_owned = memory_allocate(sizeof(*oracle->scratch_owned));
    oracle->before_lapse_owned = memory_allocate(sizeof(*oracle->before_lapse_owned));
    return oracle;
}

void oracle_destroy(struct oracle *oracle)
{
    for (unsigned i = 0; i < SAVED_MAX; i++)
        free(oracle->saved_owned[i]);
    free(oracle->scratch_owned);
    free(oracle->before_lapse_owned);
    free(oracle);
}

void oracle_begin(struct oracle *oracle, uint64_t now, uint64_t sequence)
{
    if (now < oracle->model.now)
        fail("log time went back from %" PRIu64 " to %" PRIu64, oracle->model.now, now);
    if (sequence > oracle->sequence) {
        save(oracle);
        oracle->sequence = sequence;
        oracle->has_lapsed = false;
    } else if (!oracle->has_lapsed && model_has_lapse(&oracle->model, now)) {
        model_copy(oracle->before_lapse_owned, &oracle->model);
        oracle->has_lapsed = true;
    }
    model_advance(&oracle->model, now);
}

/* Drops the saved models before the newest one that is not above `sequence`. */
void oracle_durable(struct oracle *oracle, uint64_t sequence)
{
    unsigned drop = 0;
    while (drop < oracle->saved_count &&
           (drop + 1 < oracle->saved_count ? oracle->saved_sequences[drop + 1] : oracle->sequence) <= sequence)
        drop++;
    struct model *dropped[SAVED_MAX];
    memcpy(dropped, oracle->saved_owned, drop * sizeof(dropped[0]));
    for (unsigned i = drop; i < oracle->saved_count; i++) {
        oracle->saved_sequences[i - drop] = oracle->saved_sequences[i];
        oracle->saved_owned[i - drop] = oracle->saved_owned[i];
    }
    oracle->saved_count -= drop;
    for (unsigned i = 0; i < drop; i++)
        oracle->saved_owned[oracle->saved_count + i] = dropped[i];
}

static void check_facts(const struct oracle *oracle)
{
    for (unsigned i = 0; i < oracle->fact_count; i++) {
        const struct fact *fact = &oracle->facts[i];
        const struct model *model = &oracle->model;
        switch (fact->kind) {
        case FACT_SENT:
            if (fact->subject >= model->message_count || strcmp(model->messages[fact->subject].id, fact->id) != 0)
                fail("the acknowledged message %s was lost in a crash", fact->id);
            break;
        case FACT_ENDED:
            if (fact->subject >= model->message_count || model->messages[fact->subject].is_alive)
                fail("message %s is back although its delete was acknowledged before the crash", fact->id);
            break;
        case FACT_COMPLETED:
            if (fact->subject >= model->batch_count ||
                (model->batches[fact->subject].is_record && model->batches[fact->subject].state != MODEL_COMPLETED))
                fail("the acknowledged completion of batch b%s was lost in a crash", fact->id);
            break;
        }
    }
}

void oracle_recover(struct oracle *oracle, uint64_t survived, uint64_t last_ms, uint64_t now_ms, uint64_t sequence)
{
    if (survived < oracle->sequence) {
        unsigned i = oracle->saved_count;
        while (i > 0 && oracle->saved_sequences[i - 1] > survived)
            i--;
        if (i == 0)
            fail("the log has come back to frame %" PRIu64 ", but frame %" PRIu64 " was durable", survived,
                 oracle->saved_count > 0 ? oracle->saved_sequences[0] : oracle->sequence);
        model_copy(&oracle->model, oracle->saved_owned[i - 1]);
    } else if (oracle->has_lapsed) {
        model_copy(&oracle->model, oracle->before_lapse_owned);
    }
    oracle->has_lapsed = false;
    oracle->saved_count = 0;
    oracle->sequence = sequence;
    model_advance(&oracle->model, last_ms);
    oracle->model.now = last_ms;
    check_facts(oracle);
    model_restart(&oracle->model, last_ms, now_ms);
}

void oracle_acknowledge(struct oracle *oracle, const struct lesson *lesson)
{
    for (unsigned i = 0; i < lesson->fact_count; i++) {
        const struct fact *fact = &lesson->facts[i];
        for (unsigned k = 0; k < oracle->fact_count; k++)
            if (fact->kind == FACT_COMPLETED && oracle->facts[k].kind == FACT_COMPLETED &&
                oracle->facts[k].subject == fact->subject)
                fail("two replies say that they completed batch b%s", fact->id);
        if (oracle->fact_count < FACTS_MAX)
            oracle->facts[oracle->fact_count++] = *fact;
    }
}

/* --- reading replies ------------------------------------------------------------------------------------------------ */

/* One reply being judged. */
struct reply_view {
    struct oracle *oracle;
    const struct operation *operation;
    enum error error;
    yyjson_val *root; /* NULL: empty */
    struct lesson *lesson;
};

static const char *name_of(enum error error)
{
    return error == OK ? "OK" : error_row(error)->name;
}

static void expect_error(const struct reply_view *view, enum error expected)
{
    if (view->error != expected)
        fail("%s answered %s; it should be %s", operation_target(view->operation), name_of(view->error),
             name_of(expected));
}

static int64_t number_in(const struct reply_view *view, yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (!yyjson_is_int(value))
        fail("%s: the reply has no number %s", operation_target(view->operation), name);
    return yyjson_get_sint(value);
}

static const char *text_in(const struct reply_view *view, yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (!yyjson_is_str(value))
        fail("%s: the reply has no text %s", operation_target(view->operation), name);
    return yyjson_get_str(value);
}

static bool boolean_in(const struct reply_view *view, yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (!yyjson_is_bool(value))
        fail("%s: the reply has no boolean %s", operation_target(view->operation), name);
    return yyjson_get_bool(value);
}

static void expect_number(const struct reply_view *view, yyjson_val *object, const char *name, int64_t expected)
{
    int64_t value = number_in(view, object, name);
    if (value != expected)
        fail("%s of b%d: %s is %" PRId64 "; it should be %" PRId64, operation_target(view->operation),
             view->operation->batch, name, value, expected);
}

static void expect_text(const struct reply_view *view, yyjson_val *object, const char *name, const char *expected)
{
    const char *value = text_in(view, object, name);
    if (strcmp(value, expected) != 0)
        fail("%s: %s is %s; it should be %s", operation_target(view->operation), name, value, expected);
}

static void expect_boolean(const struct reply_view *view, yyjson_val *object, const char *name, bool expected)
{
    if (boolean_in(view, object, name) != expected)
        fail("%s of b%d: %s should be %s", operation_target(view->operation), view->operation->batch, name,
             expected ? "true" : "false");
}

static void expect_time(const struct reply_view *view, yyjson_val *object, const char *name, uint64_t expected_ms)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (expected_ms == 0 ? value != NULL : (uint64_t)(yyjson_get_num(value) * 1000 + 0.5) != expected_ms)
        fail("%s of b%d: %s is %.3f; it should be %" PRIu64 " ms", operation_target(view->operation),
             view->operation->batch, name, yyjson_get_num(value), expected_ms);
}

static void teach(struct lesson *lesson, int kind, int subject, const char *id)
{
    if (lesson->fact_count == ENTRIES_MAX)
        return;
    struct fact *fact = &lesson->facts[lesson->fact_count++];
    *fact = (struct fact){.kind = kind, .subject = subject};
    snprintf(fact->id, sizeof(fact->id), "%s", id);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

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
             name_of(expected));
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

/* SequenceNumber: rising in its queue, and the same whenever it is said (O2). */
static void expect_sequence(const struct reply_view *view, yyjson_val *object, int index)
{
    struct model *model = &view->oracle->model;
    struct model_message *message = &model->messages[index];
    if (!model->queues[message->queue].traits.is_fifo && message->said_sequence == 0)
        return;
    uint64_t said = strtoull(text_in(view, object, "SequenceNumber"), NULL, 10);
    if (message->said_sequence == 0)
        for (int i = 0; i < model->message_count; i++)
            if (model->messages[i].queue == message->queue && model->messages[i].said_sequence >= said)
                fail("SequenceNumber %" PRIu64 " of message %s is not above that of an earlier one", said, message->id);
    if (message->said_sequence != 0 && message->said_sequence != said)
        fail("SequenceNumber of message %s is %" PRIu64 "; it was %" PRIu64, message->id, said, message->said_sequence);
    message->said_sequence = said;
}

static void expect_sent(const struct reply_view *view, yyjson_val *reply, int index, bool is_duplicate)
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

static void judge_send(const struct reply_view *view)
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

static const char *const event_names[] = {"", "complete", "success", "first-failure"};
static const char *const status_names[] = {"", "succeeded", "failed", "cancelled", "expired"};

static const char *attribute_of(yyjson_val *message, const char *name)
{
    yyjson_val *attributes = yyjson_obj_get(message, "MessageAttributes");
    return yyjson_get_str(yyjson_obj_get(yyjson_obj_get(attributes, name), "StringValue"));
}

/* How surely `item` is this message: not at all, perhaps (the message of a batch's event whose id nobody has seen yet), surely. */
enum likeness { LIKE_NONE, LIKE_PERHAPS, LIKE_SURE };

static enum likeness likeness(const struct oracle *oracle, int index, yyjson_val *item)
{
    const struct model *model = &oracle->model;
    const struct model_message *message = &model->messages[index];
    const char *id = yyjson_get_str(yyjson_obj_get(item, "MessageId"));
    if (id == NULL)
        fail("a received message has no MessageId");
    if (message->completes == 0)
        return strcmp(message->id, id) == 0 ? LIKE_SURE : LIKE_NONE;
    const char *batch_name = attribute_of(item, "Tally.Batch.Completed"),
               *event = attribute_of(item, "Tally.Batch.Event");
    int name = model->batches[message->batch].name;
    if (batch_name == NULL || event == NULL || strcmp(event_names[message->completes], event) != 0 ||
        name != atoi(batch_name + 1))
        return LIKE_NONE;
    bool is_known_batch = oracle->completion_names[message->batch] == name;
    const char *known = is_known_batch ? oracle->completion_ids[message->batch][message->completes - 1] : "";
    return known[0] == '\0' ? LIKE_PERHAPS : strcmp(known, id) == 0 ? LIKE_SURE : LIKE_NONE;
}

/* A completion message's id is a function of batch and event, whatever crashes lie between two deliveries (B16). */
static void check_completion_id(struct oracle *oracle, int record, unsigned event, const char *id)
{
    int name = oracle->model.batches[record].name;
    if (oracle->completion_names[record] != name) {
        oracle->completion_names[record] = name;
        memset(oracle->completion_ids[record], 0, sizeof(oracle->completion_ids[record]));
    }
    char *known = oracle->completion_ids[record][event - 1];
    if (known[0] == '\0')
        snprintf(known, MODEL_ID_SIZE, "%s", id);
    if (strcmp(known, id) != 0)
        fail("the %s message of b%d has the MessageId %s; before it was %s", event_names[event], name, id, known);
}

static void check_summary(const struct reply_view *view, const struct model_message *message, const char *body)
{
    yyjson_doc *doc = yyjson_read(body, strlen(body), 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    char name[16];
    snprintf(name, sizeof(name), "b%d", view->oracle->model.batches[message->batch].name);
    expect_text(view, root, "batch", name);
    expect_text(view, root, "status", status_names[message->said_status]);
    /* Of several units that fail in one turn of the clock, nobody knows which was the first. */
    if (message->completes != EVENT_FAILURE_ || !message->is_of_tick) {
        expect_number(view, root, "total", message->said.total);
        expect_number(view, root, "succeeded", message->said.succeeded);
        expect_number(view, root, "failed", message->said.failed);
        expect_number(view, root, "cancelled", message->said.cancelled);
    }
    yyjson_doc_free(doc);
}

static void check_body(const struct reply_view *view, const struct model_message *message, const char *body)
{
    struct buffer expected;
    buffer_init(&expected);
    const struct model_batch *batch = message->batch == NONE ? NULL : &view->oracle->model.batches[message->batch];
    if (message->completes == 0)
        operation_write_body(message->tag, message->body_size, &expected);
    else if (batch->has_body[message->completes - 1])
        operation_write_target_body(batch->name, message->completes, &expected);
    else
        check_summary(view, message, body);
    if (expected.size > 0 && !bytes_equal(buffer_bytes(&expected), bytes_from_string(body)))
        fail("the body of message %s has changed: %.60s", message->id, body);
    buffer_deinit(&expected);
}

/* The fencing token grows with every delivery (R4); the reason is that of the newest failure. */
static void check_attempt(const struct reply_view *view, yyjson_val *item, const struct model_message *message)
{
    struct model *model = &view->oracle->model;
    const char *token = attribute_of(item, "Tally.FencingToken"), *reason = attribute_of(item, "Tally.FailureReason");
    char expected[32];
    if (token == NULL || strtoull(token, NULL, 10) <= model->token)
        fail("message %s: Tally.FencingToken is %s; it should be above %" PRIu64, message->id, token, model->token);
    model->token = strtoull(token, NULL, 10);
    snprintf(expected, sizeof(expected), "reason %d", message->reason);
    if ((message->reason == NONE) != (reason == NULL) || (reason != NULL && strcmp(reason, expected) != 0))
        fail("message %s: Tally.FailureReason is %s; it should be %s", message->id, reason,
             message->reason == NONE ? "absent" : expected);
}

static void check_delivered(const struct reply_view *view, int index, yyjson_val *item)
{
    const struct model *model = &view->oracle->model;
    const struct model_message *message = &model->messages[index];
    yyjson_val *attributes = yyjson_obj_get(item, "Attributes");
    char expected[80];
    check_body(view, message, text_in(view, item, "Body"));
    snprintf(expected, sizeof(expected), "%" PRIu32, message->receive_count);
    expect_text(view, attributes, "ApproximateReceiveCount", expected);
    snprintf(expected, sizeof(expected), "%" PRIu64, message->sent_at);
    expect_text(view, attributes, "SentTimestamp", expected);
    if (message->group >= 0) {
        snprintf(expected, sizeof(expected), "g%d", message->group);
        expect_text(view, attributes, "MessageGroupId", expected);
    }
    if (message->group >= 0 && !message->is_moved && model->queues[message->queue].traits.is_fifo &&
        message->completes == 0)
        expect_sequence(view, attributes, index);
    check_attempt(view, item, message);
    if ((yyjson_obj_get(attributes, "DeadLetterQueueSourceArn") != NULL) != (message->origin != NONE))
        fail("message %s: DeadLetterQueueSourceArn is there and should not be, or the other way round", message->id);
    if (message->origin != NONE) {
        int origin = model->queues[message->origin].name;
        snprintf(expected, sizeof(expected), "arn:aws:sqs:sim:000000000000:q%d%s", origin,
                 operation_is_fifo(origin) ? ".fifo" : "");
        expect_text(view, attributes, "DeadLetterQueueSourceArn", expected);
    }
}

static void take_handle(const struct reply_view *view, int index, const char *text)
{
    struct oracle *oracle = view->oracle;
    if (oracle->handle_count == HANDLES_MAX)
        fail("the simulator's table of handles is full");
    int handle = oracle->handle_count++;
    if (strlen(text) >= HANDLE_SIZE)
        fail("the receipt handle %s is too long", text);
    snprintf(oracle->handles[handle], HANDLE_SIZE, "%s", text);
    oracle->handle_of[handle] = (struct handle_of){oracle->model.messages[index].queue, index};
    oracle->model.messages[index].handle = handle;
    view->lesson->handles[view->lesson->handle_count++] = handle;
}

static void describe_message(const struct model *model, int index, struct buffer *out)
{
    const struct model_message *message = &model->messages[index];
    if (message->completes != 0)
        buffer_append_format(out, "the %s message", event_names[message->completes]);
    else
        buffer_append_format(out, "message %s (m%" PRIu32 ")", message->id, message->tag);
    if (message->batch != NONE)
        buffer_append_format(out, " of b%d", model->batches[message->batch].name);
    if (message->group >= 0)
        buffer_append_format(out, " of g%d", message->group);
}

/* What the server did with a message is wrong because of the message's state. */
_Noreturn static void fail_message(const struct model *model, int index, const char *what, const char *why)
{
    struct buffer text;
    buffer_init(&text);
    describe_message(model, index, &text);
    fail("%.*s %s, but it %s", BYTES_FORMAT(buffer_bytes(&text)), what, why);
}

/* --- what the server did, one thing after the other ------------------------------------------------------------------ */

static int find_number(const struct model *model, uint64_t number)
{
    for (int i = model->message_count - 1; i >= 0; i--)
        if (model->messages[i].number == number)
            return i;
    return NONE;
}

/* Does the moved message take a place in a group? */
static bool takes_place(const struct oracle *oracle, const struct sight *moved)
{
    const struct model *model = &oracle->model;
    if (moved->queue < model->queue_count && model->queues[moved->queue].traits.is_fifo)
        return true;
    int index = find_number(model, moved->number);
    if (index != NONE)
        return model->messages[index].group >= 0;
    for (const struct sight *sent = oracle->witness.sights; sent < moved; sent++)
        if (sent->kind == SIGHT_SENT && sent->number == moved->number)
            return sent->group != NONE; /* in this very call */
    return false;
}

void oracle_look(struct oracle *oracle, const struct core *core)
{
    struct witness *witness = &oracle->witness;
    unsigned i = witness->count;
    witness_look(witness, core);
    for (; i < witness->count; i++) {
        struct sight *sight = &witness->sights[i];
        if (sight->kind != SIGHT_SENT && (sight->kind != SIGHT_MOVED || !takes_place(oracle, sight)))
            continue;
        sight->line = ++witness->message_number;
        if (sight->kind == SIGHT_SENT && sight->number != sight->line)
            fail("message number %" PRIu64 " was given out; %" PRIu64 " comes next", sight->number, sight->line);
    }
}

/* The message that a sight of a send is of, among those whose number is not known yet; or NONE. */
static int find_numberless(const struct model *model, const struct sight *sight)
{
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        bool is_like = sight->completes == 0
                           ? message->completes == 0
                           : message->completes == sight->completes && message->batch + 1 == (int)sight->batch;
        if (message->number == 0 && is_like)
            return i;
    }
    return NONE;
}

/* Gives what the model has accepted or moved the numbers that the server gave it. */
static void learn_numbers(struct oracle *oracle)
{
    struct model *model = &oracle->model;
    for (unsigned i = 0; i < oracle->witness.count; i++) {
        struct sight *sight = &oracle->witness.sights[i];
        if (sight->is_known || (sight->kind != SIGHT_SENT && (sight->kind != SIGHT_MOVED || sight->line == 0)))
            continue;
        int index = sight->kind == SIGHT_SENT ? find_numberless(model, sight) : find_number(model, sight->number);
        if (index == NONE || (sight->kind == SIGHT_MOVED && model->messages[index].queue != sight->queue))
            continue;
        sight->is_known = true;
        struct model_message *message = &model->messages[index];
        message->line = sight->line;
        if (sight->kind == SIGHT_SENT)
            message->number = message->order = sight->number;
    }
}

/* Has the model done so already, as part of what the call was for? */
static bool is_accounted(struct model *model, const struct sight *sight)
{
    if (sight->kind == SIGHT_HELD)
        return model_is_held(model, model_group(model, sight->queue, sight->group));
    int index = find_number(model, sight->number);
    if (index == NONE)
        return false;
    const struct model_message *message = &model->messages[index];
    if (sight->kind == SIGHT_MOVED)
        return message->is_moved && message->queue == sight->queue;
    return sight->kind == SIGHT_ENDED && !message->is_alive;
}

static void follow_moved(struct oracle *oracle, const struct sight *sight)
{
    struct model *model = &oracle->model;
    int index = find_number(model, sight->number);
    if (index == NONE)
        fail("message %" PRIu64 ", which no send made, was dead-lettered", sight->number);
    struct model_message *message = &model->messages[index];
    const char *why = model_put_aside(model, index);
    if (why != NULL)
        fail_message(model, index, "was dead-lettered", why);
    if (message->queue != sight->queue)
        fail_message(model, index, "went to the wrong queue", "should have gone elsewhere");
}

static void follow_ended(struct oracle *oracle, const struct sight *sight)
{
    struct model *model = &oracle->model;
    int index = find_number(model, sight->number);
    if (index == NONE)
        fail("message %" PRIu64 ", which no send made, was ended", sight->number);
    const char *why = model_put_aside(model, index);
    if (why != NULL)
        fail_message(model, index, "was ended", why);
    if (model->messages[index].is_alive)
        fail_message(model, index, "was ended", "should have been kept");
}

static void follow_held(struct oracle *oracle, const struct sight *sight)
{
    struct model *model = &oracle->model;
    struct model_group *group = model_group(model, sight->queue, sight->group);
    int head = NONE;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        if (message->is_alive && !message->is_condemned && message->queue == sight->queue &&
            message->group == sight->group && (head == NONE || message->line < model->messages[head].line))
            head = i;
    }
    if (head == NONE)
        fail("group g%d was held, which has no message", sight->group);
    const char *why = model_put_aside(model, head);
    if (why != NULL)
        fail_message(model, head, "holds its group up", why);
    if (!model_is_held(model, group))
        fail_message(model, head, "holds its group up", "should have made way");
}

/* The queue in which the sight's message stands by the model, or NONE where that does not matter. */
static int queue_of_sight(const struct model *model, const struct sight *sight)
{
    if (sight->kind == SIGHT_SENT || sight->kind == SIGHT_FAILED)
        return NONE;
    int index = sight->kind == SIGHT_HELD ? NONE : find_number(model, sight->number);
    return sight->kind == SIGHT_HELD ? sight->queue : index == NONE ? NONE : model->messages[index].queue;
}

#define ANY_QUEUE NONE

/* Follows the server to the next message that it took, and returns that; or, with a queue, to where it did something to
 * another one: NONE. */
static int follow(struct oracle *oracle, int queue)
{
    struct witness *witness = &oracle->witness;
    for (; witness->next < witness->count; witness->next++) {
        const struct sight *sight = &witness->sights[witness->next];
        learn_numbers(oracle);
        if (queue != ANY_QUEUE && sight->kind == SIGHT_LET_GO)
            return NONE; /* a receive ends with that */
        int here = queue_of_sight(&oracle->model, sight);
        if (queue != ANY_QUEUE && here != NONE && here != queue && !is_accounted(&oracle->model, sight))
            return NONE;
        if (sight->kind == SIGHT_TAKEN) {
            int index = find_number(&oracle->model, sight->number);
            if (index == NONE)
                fail("message number %" PRIu64 " was delivered, which no send made", sight->number);
            return index;
        }
        if (is_accounted(&oracle->model, sight))
            continue;
        if (sight->kind == SIGHT_MOVED)
            follow_moved(oracle, sight);
        else if (sight->kind == SIGHT_ENDED)
            follow_ended(oracle, sight);
        else if (sight->kind == SIGHT_HELD)
            follow_held(oracle, sight);
    }
    return NONE;
}

/* What a receive does begins behind what the one before let go. */
static void skip_let_go(struct witness *witness)
{
    while (witness->next < witness->count && witness->sights[witness->next].kind == SIGHT_LET_GO)
        witness->next++;
}

void oracle_settle(struct oracle *oracle)
{
    int taken = follow(oracle, ANY_QUEUE);
    if (taken != NONE)
        fail_message(&oracle->model, taken, "was taken", "is in no reply");
    learn_numbers(oracle);
    for (unsigned i = 0; i < oracle->witness.count; i++)
        if (oracle->witness.sights[i].kind == SIGHT_SENT && !oracle->witness.sights[i].is_known)
            fail("message number %" PRIu64 " was accepted, which nobody sent", oracle->witness.sights[i].number);
    oracle->witness.count = oracle->witness.next = 0;
}

/* --- receives ------------------------------------------------------------------------------------------------------- */

/* Nothing may be left that the receive should have dealt with. */
static void expect_no_more(struct oracle *oracle, const struct model_receive *receive,
                           const struct operation *operation)
{
    int left = model_left(&oracle->model, receive);
    if (left == NONE)
        return;
    struct buffer text;
    buffer_init(&text);
    describe_message(&oracle->model, left, &text);
    const struct model_message *message = &oracle->model.messages[left];
    fail("a receive of q%d gave %u of %u messages although %.*s is there (received %u times, %u not charged%s%s)",
         operation->queue, receive->count, receive->max, BYTES_FORMAT(buffer_bytes(&text)), message->receive_count,
         message->spared_count, model_is_dead(&oracle->model, message) ? ", cancelled" : "",
         message->is_final ? ", failed for good" : "");
}

/* A receive that found nothing, although it may have put messages aside. */
static void expect_nothing(struct oracle *oracle, const struct operation *operation, bool is_alone)
{
    struct model_receive receive = {
        .queue = model_find_queue(&oracle->model, operation->queue),
        .max = operation->receive_max,
        .in_flight_max = oracle->in_flight_max,
    };
    if (receive.queue == NONE)
        fail("a receive waits at q%d, which does not exist", operation->queue);
    skip_let_go(&oracle->witness);
    (void)follow(oracle, is_alone ? receive.queue : ANY_QUEUE);
    if (model_receive_begin(&oracle->model, &receive) == OK)
        expect_no_more(oracle, &receive, operation);
}

static void expect_delivered(const struct reply_view *view, int index, yyjson_val *item)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    if (likeness(oracle, index, item) == LIKE_NONE)
        fail_message(model, index, "was taken", "is not what the reply gives in its place");
    if (model->messages[index].completes != 0)
        check_completion_id(oracle, model->messages[index].batch, model->messages[index].completes,
                            text_in(view, item, "MessageId"));
    check_delivered(view, index, item);
    take_handle(view, index, text_in(view, item, "ReceiptHandle"));
}

/* Follows the server through the receive; of what it took, all is in the reply, unless the disk would not be read (R7). */
static void follow_receive(const struct reply_view *view, struct model_receive *receive, yyjson_val *items)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    size_t given = 0, count = yyjson_arr_size(items);
    while (receive->count < ENTRIES_MAX) {
        if (given == count && (!oracle->has_read_failed || receive->count >= receive->max))
            break;
        /* Before it others may have waited in vain, and put aside what they met. */
        int index = follow(oracle, given < count ? ANY_QUEUE : receive->queue);
        if (index == NONE)
            break;
        const char *why = model_take(model, receive, index);
        if (why != NULL)
            fail_message(model, index, "was delivered", why);
        oracle->witness.next++;
        yyjson_val *item = yyjson_arr_get(items, given);
        if (oracle->has_read_failed && (item == NULL || likeness(oracle, index, item) == LIKE_NONE)) {
            /* Nobody has its handle: it comes back after its timeout. */
            model->messages[index].handle = UNKNOWN_HANDLE;
            continue;
        }
        expect_delivered(view, index, item);
        given++;
    }
    if (given < count)
        fail("a receive of q%d gives %zu messages, but took %u", view->operation->queue, count, receive->count);
}

/* True: the receive gives again what one under the same attempt id gave. */
static bool judge_receive_again(const struct reply_view *view, int queue, yyjson_val *items)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    const struct operation *operation = view->operation;
    int messages[ENTRIES_MAX];
    unsigned count = 0;
    if (operation->attempt == NONE || !model->queues[queue].traits.is_fifo)
        return false;
    enum error error =
        model_receive_again(model, queue, operation->attempt, 1000 * (uint64_t)operation->lease_s, messages, &count);
    if (count == 0)
        return false;
    bool is_unreadable = oracle->has_read_failed && error == OK && yyjson_arr_size(items) == 0;
    expect_error(view, is_unreadable ? ERROR_INTERNAL_FAILURE : error);
    size_t given = 0;
    for (unsigned i = 0; i < count && error == OK; i++) {
        yyjson_val *item = yyjson_arr_get(items, given);
        bool is_here = item != NULL && likeness(oracle, messages[i], item) != LIKE_NONE;
        if (!is_here && !oracle->has_read_failed)
            fail_message(model, messages[i], "was given under an attempt id", "is not given again");
        if (!is_here)
            continue;
        given++;
        int handle = model->messages[messages[i]].handle;
        if (handle == UNKNOWN_HANDLE)
            take_handle(view, messages[i], text_in(view, item, "ReceiptHandle"));
        else if (strcmp(text_in(view, item, "ReceiptHandle"), oracle->handles[handle]) != 0)
            fail_message(model, messages[i], "was given again", "has another receipt handle");
    }
    if (error == OK && given != yyjson_arr_size(items))
        fail("a receive of q%d gives more again than it gave", operation->queue);
    return true;
}

static void judge_receive(const struct reply_view *view)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    const struct operation *operation = view->operation;
    int queue = model_find_queue(model, operation->queue);
    if (queue == NONE) {
        expect_error(view, ERROR_QUEUE_DOES_NOT_EXIST);
        return;
    }
    yyjson_val *items = yyjson_obj_get(view->root, "Messages");
    if (judge_receive_again(view, queue, items))
        return;
    struct model_receive receive = {
        .queue = queue,
        .max = operation->receive_max,
        .timeout_ms = 1000 * (uint64_t)operation->lease_s,
        .in_flight_max = oracle->in_flight_max,
    };
    skip_let_go(&oracle->witness);
    (void)follow(oracle, yyjson_arr_size(items) > 0 ? ANY_QUEUE : queue);
    enum error error = model_receive_begin(model, &receive);
    if (error == OK) {
        follow_receive(view, &receive, items);
        if (receive.count < receive.max)
            (void)follow(oracle, queue);
        expect_no_more(oracle, &receive, operation);
        model_receive_end(model, &receive);
        const struct queue_traits *traits = &model->queues[queue].traits;
        if (receive.count > 0 && operation->attempt != NONE && traits->is_fifo && !traits->is_at_most_once)
            model_remember_attempt(model, queue, operation->attempt, receive.taken, receive.count);
    }
    bool is_unreadable = oracle->has_read_failed && receive.count > 0 && yyjson_arr_size(items) == 0;
    expect_error(view, is_unreadable ? ERROR_INTERNAL_FAILURE : error);
}

static void judge_handles(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    if (is_whole_failure(view))
        return;
    for (unsigned i = 0; i < view->operation->count; i++) {
        const struct entry *entry = &view->operation->entries[i];
        struct handle_of of = view->oracle->handle_of[entry->handle];
        bool was_alive = model->messages[of.message].is_alive;
        enum error error = view->operation->kind == OPERATION_DELETE
                               ? model_delete(model, view->operation->queue, of.queue, of.message, entry->handle)
                               : model_change_visibility(model, view->operation->queue, of.queue, of.message,
                                                         entry->handle, (uint64_t)entry->timeout_s * 1000);
        expect_entry(view, i, error);
        if (was_alive && !model->messages[of.message].is_alive)
            teach(view->lesson, FACT_ENDED, of.message, model->messages[of.message].id);
    }
}

/* Whatever keeps a message back has a name (O13). */
static void judge_explain(const struct reply_view *view)
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

static void judge_list_groups(const struct reply_view *view)
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

/* --- several in one step ---------------------------------------------------------------------------------------------- */

static struct operation report_of(const struct operation *operation, unsigned unit)
{
    struct operation report = {
        .kind = OPERATION_COMPLETE_UNITS, .batch = operation->unit_batches[unit], .count = 1, .detail = NONE};
    report.keys[0] = operation->keys[unit];
    report.is_failed[0] = operation->is_failed[unit];
    return report;
}

/* What is wrong with a Commit before any of it is decided. */
static enum error check_commit(struct oracle *oracle, const struct operation *operation)
{
    struct model *model = &oracle->model;
    const struct entry *deletes = &operation->entries[operation->count];
    if (operation->count + operation->unit_count + operation->delete_count == 0)
        return ERROR_EMPTY_BATCH_REQUEST;
    for (unsigned i = 0; i < operation->count; i++)
        if (model_find_queue(model, operation->entries[i].queue) == NONE)
            return ERROR_QUEUE_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->unit_count; i++)
        if (model_find_batch(model, operation->unit_batches[i]) == NONE)
            return ERROR_BATCH_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->delete_count; i++)
        if (model_find_queue(model, deletes[i].queue) == NONE)
            return ERROR_QUEUE_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->delete_count; i++) {
        struct handle_of of = oracle->handle_of[deletes[i].handle];
        if (!model_is_held_by(model, deletes[i].queue, of.queue, of.message, deletes[i].handle))
            return ERROR_RECEIPT_HANDLE_IS_INVALID;
        for (unsigned k = 0; k < i; k++)
            if (oracle->handle_of[deletes[k].handle].message == of.message)
                return ERROR_INVALID_PARAMETER_VALUE;
    }
    return OK;
}

/* What a Commit has done so far. */
struct committed {
    int sent[ENTRIES_MAX];
    bool is_duplicate[ENTRIES_MAX];
    bool is_recorded[KEYS_MAX];
    int states_before[KEYS_MAX];
    int batches[KEYS_MAX];
};

static enum error commit(struct oracle *oracle, const struct operation *operation, struct committed *committed)
{
    struct model *model = &oracle->model;
    enum error error = check_commit(oracle, operation);
    for (unsigned i = 0; i < operation->unit_count && error == OK; i++) {
        committed->batches[i] = model_find_batch(model, operation->unit_batches[i]);
        committed->states_before[i] = model->batches[committed->batches[i]].state;
    }
    for (unsigned i = 0; i < operation->count && error == OK; i++)
        error = model_send(model, operation->entries[i].queue, &operation->entries[i], &committed->sent[i],
                           &committed->is_duplicate[i]);
    for (unsigned i = 0; i < operation->unit_count && error == OK; i++) {
        struct operation report = report_of(operation, i);
        error = model_complete_units(model, committed->batches[i], &report, &committed->is_recorded[i]);
    }
    for (unsigned i = 0; i < operation->delete_count && error == OK; i++) {
        const struct entry *entry = &operation->entries[operation->count + i];
        struct handle_of of = oracle->handle_of[entry->handle];
        error = model_delete(model, entry->queue, of.queue, of.message, entry->handle);
    }
    return error;
}

static void expect_committed(const struct reply_view *view, const struct committed *committed)
{
    const struct model *model = &view->oracle->model;
    const struct operation *operation = view->operation;
    for (unsigned i = 0; i < operation->count; i++)
        expect_sent(view, yyjson_arr_get(yyjson_obj_get(view->root, "Sends"), i), committed->sent[i],
                    committed->is_duplicate[i]);
    for (unsigned i = 0; i < operation->unit_count; i++) {
        const struct model_batch *batch = &model->batches[committed->batches[i]];
        yyjson_val *item = yyjson_arr_get(yyjson_obj_get(view->root, "Units"), i);
        bool is_completed = committed->states_before[i] != MODEL_COMPLETED && batch->state == MODEL_COMPLETED;
        bool is_first = true;
        for (unsigned k = 0; k < i; k++)
            is_first = is_first && committed->batches[k] != committed->batches[i];
        expect_boolean(view, item, "Recorded", committed->is_recorded[i]);
        expect_boolean(view, item, "Completed", is_completed);
        char name[16];
        snprintf(name, sizeof(name), "%d", batch->name);
        if (is_completed && is_first)
            teach(view->lesson, FACT_COMPLETED, committed->batches[i], name);
    }
    for (unsigned i = 0; i < operation->delete_count; i++) {
        int message = view->oracle->handle_of[operation->entries[operation->count + i].handle].message;
        teach(view->lesson, FACT_ENDED, message, model->messages[message].id);
    }
}

/* All of it or nothing. The server may refuse what it can't look through: sends that might wait for one another, and what may
 * need more room than a frame has. */
static void judge_commit(const struct reply_view *view)
{
    struct oracle *oracle = view->oracle;
    struct committed committed = {0};
    model_copy(oracle->scratch_owned, &oracle->model);
    enum error error = commit(oracle, view->operation, &committed);
    bool is_refused = (view->error == ERROR_UNSUPPORTED_OPERATION && view->operation->count > 1) ||
                      (view->error == ERROR_OVER_LIMIT && error == OK);
    /* Of sends that take more units together than a batch has left, the server says so of the first that is too many; one after
     * the other, the batch would be sealed by then. */
    if (error == ERROR_BATCH_SEALED && view->error == ERROR_BATCH_TOTAL_EXCEEDED && view->operation->count > 1)
        error = ERROR_BATCH_TOTAL_EXCEEDED;
    if (error != OK || is_refused)
        model_copy(&oracle->model, oracle->scratch_owned);
    if (is_refused)
        return;
    expect_error(view, error);
    if (error == OK)
        expect_committed(view, &committed);
}

/* Where the back-off has a jitter, the event says what was drawn; the model says whether that is within the bounds (R13). */
static void judge_fail(const struct reply_view *view)
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

static void judge_count_queue(const struct reply_view *view)
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
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

static void expect_batch(const struct reply_view *view, yyjson_val *object, int record)
{
    struct oracle *oracle = view->oracle;
    const struct model_batch *batch = &oracle->model.batches[record];
    struct model_counts counts = model_counts(batch);
    char name[16];
    snprintf(name, sizeof(name), "b%d", batch->name);
    expect_text(view, object, "BatchId", name);
    expect_text(view, object, "State", operation_batch_states[batch->state]);
    if (batch->state == MODEL_COMPLETED)
        expect_text(view, object, "Status", status_names[batch->status]);
    expect_number(view, object, "Total", counts.total);
    expect_number(view, object, "Succeeded", counts.succeeded);
    expect_number(view, object, "Failed", counts.failed);
    expect_number(view, object, "Cancelled", counts.cancelled);
    expect_number(view, object, "Remaining", counts.remaining);
    expect_time(view, object, "CreatedAt", batch->created_at);
    expect_time(view, object, "SealedAt", batch->sealed_at);
    expect_time(view, object, "CompletedAt", batch->completed_at);
    bool has_message = batch->state == MODEL_COMPLETED && batch->targets[EVENT_COMPLETE_ - 1] != NONE;
    if (has_message)
        check_completion_id(oracle, record, EVENT_COMPLETE_, text_in(view, object, "CompletionMessageId"));
}

/* Did this request complete the batch, and does the reply say so? */
static void expect_completed(const struct reply_view *view, int record, int state_before)
{
    const struct model_batch *batch = &view->oracle->model.batches[record];
    bool is_completed = state_before != MODEL_COMPLETED && batch->state == MODEL_COMPLETED;
    expect_boolean(view, view->root, "Completed", is_completed);
    char name[16];
    snprintf(name, sizeof(name), "%d", batch->name);
    if (is_completed)
        teach(view->lesson, FACT_COMPLETED, record, name);
}

static void judge_create_batch(const struct reply_view *view)
{
    int record = NONE;
    enum error error = model_create_batch(&view->oracle->model, view->operation, &record);
    expect_error(view, error);
    if (error == OK)
        expect_text(view, view->root, "State", operation_batch_states[view->oracle->model.batches[record].state]);
}

static void judge_add_units(const struct reply_view *view, int record)
{
    int added = 0;
    enum error error = model_add_units(&view->oracle->model, record, view->operation, &added);
    expect_error(view, error);
    if (error != OK)
        return;
    expect_number(view, view->root, "Added", added);
    expect_number(view, view->root, "Total", model_counts(&view->oracle->model.batches[record]).total);
}

static void judge_complete_units(const struct reply_view *view, int record)
{
    struct model_batch *batch = &view->oracle->model.batches[record];
    int state_before = batch->state;
    bool recorded[KEYS_MAX] = {false};
    enum error error = model_complete_units(&view->oracle->model, record, view->operation, recorded);
    expect_error(view, error);
    if (error != OK)
        return;
    for (unsigned i = 0; i < view->operation->count; i++)
        expect_boolean(view, yyjson_arr_get(yyjson_obj_get(view->root, "Results"), i), "Recorded", recorded[i]);
    expect_number(view, view->root, "Remaining", model_counts(batch).remaining);
    expect_completed(view, record, state_before);
}

static void judge_xor_units(const struct reply_view *view, int record)
{
    struct model_batch *batch = &view->oracle->model.batches[record];
    int state_before = batch->state;
    enum error error = model_xor_units(&view->oracle->model, record, view->operation);
    expect_error(view, error);
    if (error != OK)
        return;
    expect_boolean(view, view->root, "Zero", model_xor_is_zero(batch));
    expect_completed(view, record, state_before);
}

static void judge_seal(const struct reply_view *view, int record)
{
    struct model_batch *batch = &view->oracle->model.batches[record];
    int state_before = batch->state;
    model_seal(&view->oracle->model, record);
    expect_error(view, OK);
    expect_text(view, view->root, "State", operation_batch_states[batch->state]);
    expect_number(view, view->root, "Remaining", model_counts(batch).remaining);
    expect_completed(view, record, state_before);
}

static enum fate fate_of(const struct model_batch *batch, int unit)
{
    enum fate fate = batch->units[unit].fate;
    return fate == FATE_OUTSTANDING && batch->status == STATUS_CANCELLED ? FATE_CANCELLED : fate;
}

static void expect_unit(const struct reply_view *view, yyjson_val *item, const struct model_batch *batch, int unit)
{
    const struct model *model = &view->oracle->model;
    const struct model_unit *expected = &batch->units[unit];
    struct buffer name;
    buffer_init(&name);
    switch (expected->kind) {
    case UNIT_OF_KEY:
        operation_write_key(expected->key, &name);
        break;
    case UNIT_OF_MESSAGE:
        buffer_append_format(&name, "%s", model->messages[expected->key].id);
        break;
    case UNIT_OF_CHILD:
        buffer_append_format(&name, "b%d", model->batches[expected->key].name);
        break;
    }
    buffer_append_u8(&name, 0);
    expect_text(view, item, "Unit", (const char *)name.data_owned);
    expect_text(view, item, "State", operation_unit_states[fate_of(batch, unit)]);
    buffer_truncate(&name, 0);
    buffer_append_format(&name, "detail %d", expected->detail);
    buffer_append_u8(&name, 0);
    if (expected->detail != NONE)
        expect_text(view, item, "Detail", (const char *)name.data_owned);
    buffer_deinit(&name);
}

static void judge_list_units(const struct reply_view *view, int record)
{
    const struct model_batch *batch = &view->oracle->model.batches[record];
    expect_error(view, batch->is_xor ? ERROR_UNSUPPORTED_OPERATION : OK);
    if (batch->is_xor)
        return;
    yyjson_val *units = yyjson_obj_get(view->root, "Units");
    size_t place = 0;
    for (int i = 0; i < batch->unit_count; i++) {
        if (view->operation->only != NONE && (int)fate_of(batch, i) != view->operation->only)
            continue;
        yyjson_val *item = yyjson_arr_get(units, place++);
        if (item == NULL)
            fail("ListUnits of b%d leaves out unit %d", batch->name, i);
        expect_unit(view, item, batch, i);
    }
    if (place != yyjson_arr_size(units))
        fail("ListUnits of b%d gives %zu units; it should give %zu", batch->name, yyjson_arr_size(units), place);
}

static void judge_list_batches(const struct reply_view *view)
{
    const struct model *model = &view->oracle->model;
    yyjson_val *batches = yyjson_obj_get(view->root, "Batches");
    size_t place = 0;
    expect_error(view, OK);
    for (int i = 0; i < model->batch_count; i++) {
        const struct model_batch *batch = &model->batches[i];
        bool is_listed = batch->is_record && !batch->is_deleted &&
                         (view->operation->only == NONE || view->operation->only == batch->state);
        yyjson_val *item = is_listed ? yyjson_arr_get(batches, place++) : NULL;
        if (is_listed && item == NULL)
            fail("ListBatches does not list b%d", batch->name);
        if (is_listed)
            expect_batch(view, item, i);
    }
    if (place != yyjson_arr_size(batches))
        fail("ListBatches lists %zu batches; there are %zu", yyjson_arr_size(batches), place);
}

static void judge_of_batch(const struct reply_view *view)
{
    int record = model_find_batch(&view->oracle->model, view->operation->batch);
    if (record == NONE) {
        expect_error(view, ERROR_BATCH_DOES_NOT_EXIST);
        return;
    }
    switch (view->operation->kind) {
    case OPERATION_ADD_UNITS:
        judge_add_units(view, record);
        break;
    case OPERATION_COMPLETE_UNITS:
        judge_complete_units(view, record);
        break;
    case OPERATION_XOR_UNITS:
        judge_xor_units(view, record);
        break;
    case OPERATION_SEAL_BATCH:
        judge_seal(view, record);
        break;
    case OPERATION_LIST_UNITS:
        judge_list_units(view, record);
        break;
    case OPERATION_DELETE_BATCH:
        expect_error(view, model_delete_batch(&view->oracle->model, record));
        break;
    case OPERATION_CANCEL_BATCH:
        model_cancel(&view->oracle->model, record);
        expect_error(view, OK);
        expect_batch(view, view->root, record);
        break;
    default:
        expect_error(view, OK);
        expect_batch(view, view->root, record);
        break;
    }
}

/* A receive that waits keeps the visibility timeout that its queue had when it came. */
void oracle_ask(const struct oracle *oracle, struct operation *operation)
{
    if (operation->kind != OPERATION_RECEIVE)
        return;
    int queue = model_find_queue(&oracle->model, operation->queue);
    operation->lease_s = operation->timeout_s;
    if (operation->timeout_s == NONE && queue != NONE)
        operation->lease_s = oracle->model.queues[queue].numbers.visibility_s;
}

/* --- the judge ---------------------------------------------------------------------------------------------------- */

static void judge(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    const struct operation *operation = view->operation;
    switch (operation->kind) {
    case OPERATION_CREATE_QUEUE:
        expect_error(view, model_create_queue(model, operation->queue, &operation->numbers, &operation->traits));
        break;
    case OPERATION_SET_QUEUE:
        expect_error(view, model_set_queue(model, operation->queue, &operation->numbers,
                                           operation->has_traits ? &operation->traits : NULL));
        break;
    case OPERATION_DELETE_QUEUE:
        expect_error(view, model_delete_queue(model, operation->queue));
        break;
    case OPERATION_PURGE_QUEUE:
        expect_error(view, model_purge_queue(model, operation->queue));
        break;
    case OPERATION_COUNT_QUEUE:
        judge_count_queue(view);
        break;
    case OPERATION_SEND:
        judge_send(view);
        break;
    case OPERATION_RECEIVE:
        judge_receive(view);
        break;
    case OPERATION_DELETE:
    case OPERATION_CHANGE_VISIBILITY:
        judge_handles(view);
        break;
    case OPERATION_FAIL:
        judge_fail(view);
        break;
    case OPERATION_RELEASE_GROUP:
        expect_error(view, model_release_group(model, operation));
        break;
    case OPERATION_PAUSE:
        expect_error(view, model_pause(model, operation));
        break;
    case OPERATION_COMMIT:
        judge_commit(view);
        break;
    case OPERATION_EXPLAIN:
        judge_explain(view);
        break;
    case OPERATION_LIST_GROUPS:
        judge_list_groups(view);
        break;
    case OPERATION_PUT_TYPE_ORDER:
        expect_error(view, model_put_type_order(model, operation));
        break;
    case OPERATION_DELETE_TYPE_ORDER:
        expect_error(view, model_delete_type_order(model, operation));
        break;
    case OPERATION_CREATE_BATCH:
        judge_create_batch(view);
        break;
    case OPERATION_LIST_BATCHES:
        judge_list_batches(view);
        break;
    default:
        judge_of_batch(view);
        break;
    }
}

void oracle_judge(struct oracle *oracle, const struct operation *operation, enum error error, struct bytes body,
                  struct lesson *lesson)
{
    *lesson = (struct lesson){0};
    yyjson_doc *doc = body.size == 0 ? NULL : yyjson_read((const char *)body.ptr, body.size, 0);
    if (body.size > 0 && doc == NULL)
        fail("%s: the reply is not JSON", operation_target(operation));
    struct reply_view view = {oracle, operation, error, yyjson_doc_get_root(doc), lesson};
    if (error != OK) {
        const char *type = yyjson_get_str(yyjson_obj_get(view.root, "__type"));
        if (type == NULL || strcmp(type, error_row(error)->type) != 0)
            fail("%s: the reply has __type %s; it should be %s", operation_target(operation), type,
                 error_row(error)->type);
    }
    judge(&view);
    yyjson_doc_free(doc);
}

/* --- receives that wait --------------------------------------------------------------------------------------------- */

void oracle_judge_wait(struct oracle *oracle, const struct operation *operation, bool is_first)
{
    if (is_first)
        expect_nothing(oracle, operation, true);
}

void oracle_judge_waiting(struct oracle *oracle, const struct operation *operation)
{
    expect_nothing(oracle, operation, false);
}

void oracle_tick(struct oracle *oracle)
{
    model_tick(&oracle->model);
}
