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
        oracle->saved_owned[oracle->saved_count] = memory_allocate_zeroed(sizeof(struct model));
    model_copy(oracle->saved_owned[oracle->saved_count], &oracle->model);
    oracle->saved_sequences[oracle->saved_count++] = oracle->sequence;
}

struct oracle *oracle_create(unsigned in_flight_max)
{
    struct oracle *oracle = memory_allocate_zeroed(sizeof(*oracle));
    oracle->in_flight_max = in_flight_max;
    oracle->scratch_owned = memory_allocate_zeroed(sizeof(*oracle->scratch_owned));
    return oracle;
}

void oracle_destroy(struct oracle *oracle)
{
    for (unsigned i = 0; i < SAVED_MAX; i++)
        free(oracle->saved_owned[i]);
    free(oracle->scratch_owned);
    free(oracle);
}

void oracle_begin(struct oracle *oracle, uint64_t now, uint64_t sequence)
{
    if (now < oracle->model.now)
        fail("log time went back from %" PRIu64 " to %" PRIu64, oracle->model.now, now);
    if (sequence > oracle->sequence) {
        save(oracle);
        oracle->sequence = sequence;
    }
    oracle->model.now = now;
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
    }
    oracle->saved_count = 0;
    oracle->model.tie = 0;
    oracle->sequence = sequence;
    oracle->model.now = now_ms;
    check_facts(oracle);
    model_restart(&oracle->model, last_ms);
    oracle->model.now = last_ms;
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

static void judge_send(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    if (is_whole_failure(view))
        return;
    for (unsigned i = 0; i < view->operation->count; i++) {
        int sent = NONE;
        enum error error = model_send(model, view->operation->queue, &view->operation->entries[i], &sent);
        yyjson_val *good = expect_entry(view, i, error);
        if (error != OK)
            continue;
        const char *id = text_in(view, good, "MessageId");
        for (int k = 0; k < model->message_count; k++)
            if (strcmp(model->messages[k].id, id) == 0)
                fail("MessageId %s was given out twice", id);
        snprintf(model->messages[sent].id, MODEL_ID_SIZE, "%s", id);
        teach(view->lesson, FACT_SENT, sent, id);
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

/* The message that `item` is, or NONE. A batch's name may have had several lives: of messages that it may perhaps be, the one
 * that a receive of `queue` would give out first. */
static int find_message(const struct oracle *oracle, int queue, yyjson_val *item)
{
    const struct model *model = &oracle->model;
    int found = NONE, found_rank = 0;
    for (int i = 0; i < model->message_count; i++) {
        enum likeness like = likeness(oracle, i, item);
        if (like == LIKE_SURE)
            return i;
        if (like == LIKE_NONE || !model->messages[i].is_alive)
            continue;
        bool is_here = model->messages[i].queue == queue;
        int rank = !is_here ? 1 : model_is_deliverable(model, &model->messages[i]) ? 3 : 2;
        bool is_better =
            rank > found_rank || (rank == found_rank && model->messages[i].order < model->messages[found].order);
        if (is_better) {
            found = i;
            found_rank = rank;
        }
    }
    return found;
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
    if (message->completes != EVENT_FAILURE_ || message->tie == 0) {
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
    if ((yyjson_obj_get(attributes, "DeadLetterQueueSourceArn") != NULL) != (message->origin != NONE))
        fail("message %s: DeadLetterQueueSourceArn is there and should not be, or the other way round", message->id);
    if (message->origin != NONE) {
        snprintf(expected, sizeof(expected), "arn:aws:sqs:sim:000000000000:q%d", model->queues[message->origin].name);
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

/* Why the message may not be delivered, for people. */
static const char *why_not(const struct model *model, const struct model_message *message, int queue)
{
    if (!message->is_alive)
        return "has ended";
    if (message->is_condemned)
        return "was purged";
    if (model_is_dead(model, message))
        return "was cancelled with its batch";
    if (message->queue != queue)
        return "is in another queue";
    if (message->visible_at > model->now)
        return message->is_leased ? "is leased (perhaps by this very receive, in another place)" : "is delayed";
    return "is not next";
}

/* Is a turn under way, in which waiting receives are served? */
static bool is_in_turn(const struct oracle *oracle)
{
    return oracle->model.tie != 0;
}

/* A receive that waits at `queue` puts aside what is out of attempts, and then answers nothing. Those messages, and the
 * messages of batches that fail by it, may serve another receive at the same turn. */
static void put_aside(struct oracle *oracle, int queue)
{
    struct model *model = &oracle->model;
    if (queue == NONE || model->queues[queue].numbers.dead_letters == NONE)
        return;
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].queue == queue && model_is_deliverable(model, &model->messages[i]) &&
            !model_is_dead(model, &model->messages[i]) &&
            model->messages[i].receive_count < (uint32_t)model->queues[queue].numbers.receive_max)
            return; /* that one would have been given out first */
    struct model_receive receive = {.queue = queue, .max = 1, .timeout_ms = 1, .in_flight_max = oracle->in_flight_max};
    (void)model_receive(model, &receive);
    ASSERT(receive.count == 0);
}

/* The messages of a reply, for the model to look at. */
struct seen_messages {
    struct oracle *oracle;
    int queue;
    yyjson_val *items;
};

static int find_seen(void *context, unsigned place)
{
    struct seen_messages *seen = context;
    yyjson_val *item = yyjson_arr_get(seen->items, place);
    return item == NULL ? NONE : find_message(seen->oracle, seen->queue, item);
}

/* Would the model's receive, as things stand, give what the reply holds? */
static bool is_explained(const struct reply_view *view, const struct model_receive *receive, yyjson_val *items)
{
    struct oracle *oracle = view->oracle;
    struct model_receive trial = *receive;
    model_copy(oracle->scratch_owned, &oracle->model);
    enum error error = model_receive(&oracle->model, &trial);
    bool is_right = view->error == ERROR_INTERNAL_FAILURE ? trial.count > 0 : error == view->error;
    for (size_t i = 0; i < yyjson_arr_size(items) && is_right; i++) {
        yyjson_val *item = yyjson_arr_get(items, i);
        is_right = oracle->has_read_failed ? find_message(oracle, receive->queue, item) != NONE
                                           : i < trial.count && likeness(oracle, trial.taken[i], item) != LIKE_NONE;
    }
    model_copy(&oracle->model, oracle->scratch_owned);
    return is_right;
}

/* Lets other queues' waiting receives put aside what they may have put aside before this reply was made, until it fits. */
static void put_aside_before(const struct reply_view *view, const struct model_receive *receive, yyjson_val *items)
{
    struct oracle *oracle = view->oracle;
    for (int name = 0; name < QUEUE_NAMES && !is_explained(view, receive, items); name++) {
        int queue = model_find_queue(&oracle->model, name);
        if (oracle->waiting_counts[name] > 0 && queue != receive->queue)
            put_aside(oracle, queue);
    }
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
}

static void fail_receive(const struct reply_view *view, int given, int expected)
{
    const struct model *model = &view->oracle->model;
    struct buffer what;
    buffer_init(&what);
    buffer_append_format(&what, "a receive of q%d gave ", view->operation->queue);
    if (given != NONE) {
        describe_message(model, given, &what);
        int queue = model_find_queue(model, view->operation->queue);
        buffer_append_format(&what, ", which %s", why_not(model, &model->messages[given], queue));
    } else {
        buffer_append_format(&what, "nothing more");
    }
    buffer_append_format(&what, "; expected was ");
    if (expected != NONE)
        describe_message(model, expected, &what);
    else
        buffer_append_format(&what, "nothing more");
    fail("%.*s", BYTES_FORMAT(buffer_bytes(&what)));
}

/* The message was taken, but its body could not be read: nobody has its handle, and it comes back after its timeout. */
static void lose_handle(struct oracle *oracle, int index)
{
    oracle->model.messages[index].handle = UNKNOWN_HANDLE;
}

/* The reply holds what the model took, in that order; if the disk would not be read meanwhile, some may be missing (R7). */
static void expect_taken(const struct reply_view *view, const struct model_receive *receive, yyjson_val *items)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    unsigned place = 0;
    size_t i, count;
    yyjson_val *item;
    yyjson_arr_foreach(items, i, count, item)
    {
        while (oracle->has_read_failed && place < receive->count &&
               likeness(oracle, receive->taken[place], item) == LIKE_NONE)
            lose_handle(oracle, receive->taken[place++]);
        if (place >= receive->count || likeness(oracle, receive->taken[place], item) == LIKE_NONE) {
            int given = find_message(oracle, receive->queue, item);
            if (given == NONE)
                fail("message %s was delivered, which no send made: %s", text_in(view, item, "MessageId"),
                     text_in(view, item, "Body"));
            fail_receive(view, given, place < receive->count ? receive->taken[place] : NONE);
        }
        int given = receive->taken[place];
        /* Known from here on, so that the next place can't be taken for the same message of another life of its batch. */
        if (model->messages[given].completes != 0)
            check_completion_id(oracle, model->messages[given].batch, model->messages[given].completes,
                                text_in(view, item, "MessageId"));
        check_delivered(view, given, item);
        take_handle(view, given, text_in(view, item, "ReceiptHandle"));
        place++;
    }
    for (; place < receive->count; place++) {
        if (!oracle->has_read_failed)
            fail_receive(view, NONE, receive->taken[place]);
        lose_handle(oracle, receive->taken[place]);
    }
}

/* A receive that found nothing, although it may have put messages aside. */
static void expect_nothing(struct oracle *oracle, const struct operation *operation)
{
    struct model_receive receive = {
        .queue = model_find_queue(&oracle->model, operation->queue),
        .max = operation->receive_max,
        .timeout_ms = 1,
        .in_flight_max = oracle->in_flight_max,
    };
    if (receive.queue == NONE)
        fail("a receive waits at q%d, which does not exist", operation->queue);
    enum error error = model_receive(&oracle->model, &receive);
    if (error == OK && receive.count > 0)
        fail("a receive waits at q%d although message %s of tag %u, event %u is there", operation->queue,
             oracle->model.messages[receive.taken[0]].id, oracle->model.messages[receive.taken[0]].tag,
             oracle->model.messages[receive.taken[0]].completes);
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
    unsigned seen_count = (unsigned)yyjson_arr_size(items);
    struct seen_messages seen = {oracle, queue, items};
    struct model_receive receive = {
        .queue = queue,
        .max = operation->receive_max,
        .timeout_ms = 1000 * (uint64_t)operation->lease_s,
        .in_flight_max = oracle->in_flight_max,
        .seen = oracle->has_read_failed ? NULL : find_seen,
        .context = &seen,
    };
    if (seen_count > operation->receive_max)
        fail("a receive gave %u messages and was asked for %u", seen_count, operation->receive_max);
    /* One that may wait can have done so for a moment, until others put aside what it was then given. */
    bool has_waited = !is_in_turn(oracle) && operation->wait_s > 0 && !is_explained(view, &receive, items);
    if (has_waited) {
        expect_nothing(oracle, operation);
        oracle_turn_begin(oracle);
    }
    if (is_in_turn(oracle))
        put_aside_before(view, &receive, items);
    enum error error = model_receive(model, &receive);
    bool is_unreadable = oracle->has_read_failed && error == OK && receive.count > 0 && seen_count == 0;
    expect_error(view, is_unreadable ? ERROR_INTERNAL_FAILURE : error);
    if (error == OK)
        expect_taken(view, &receive, items);
    if (has_waited)
        oracle_turn_end(oracle);
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
        expect_error(view, model_create_queue(model, operation->queue, &operation->numbers));
        break;
    case OPERATION_SET_QUEUE:
        expect_error(view, model_set_queue(model, operation->queue, &operation->numbers));
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
        expect_nothing(oracle, operation);
}

void oracle_judge_waiting(struct oracle *oracle, const struct operation *operation)
{
    expect_nothing(oracle, operation);
}

void oracle_turn_begin(struct oracle *oracle)
{
    oracle->model.tie = ++oracle->model.tick_count;
}

void oracle_turn_end(struct oracle *oracle)
{
    oracle->model.tie = 0;
}

void oracle_tick(struct oracle *oracle)
{
    model_tick(&oracle->model);
}
