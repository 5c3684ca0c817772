#include "judge.h"

#include "base/assert.h"
#include "base/memory.h"
#include "fail.h"
#include "support/error_type.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

void oracle_begin(struct oracle *oracle, uint64_t now, uint64_t sequence, bool is_logged)
{
    if (now < oracle->model.now)
        fail("log time went back from %" PRIu64 " to %" PRIu64, oracle->model.now, now);
    if (sequence > oracle->sequence) {
        save(oracle);
        oracle->sequence = sequence;
        oracle->has_lapsed = false;
    } else if (!is_logged && !oracle->has_lapsed && model_has_lapse(&oracle->model, now)) {
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

/* Actions whose reply says no more than that it went well, or why not. */
static void judge_error(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    const struct operation *operation = view->operation;
    enum error expected = OK;
    switch (operation->kind) {
    case OPERATION_CREATE_QUEUE:
        expected = model_create_queue(model, operation->queue, &operation->numbers, &operation->traits);
        break;
    case OPERATION_SET_QUEUE:
        expected = model_set_queue(model, operation->queue, &operation->numbers,
                                   operation->has_traits ? &operation->traits : NULL);
        break;
    case OPERATION_DELETE_QUEUE:
        expected = model_delete_queue(model, operation->queue);
        break;
    case OPERATION_PURGE_QUEUE:
        expected = model_purge_queue(model, operation->queue);
        break;
    case OPERATION_TAG_QUEUE:
    case OPERATION_UNTAG_QUEUE:
        expected = model_tag_queue(model, operation);
        break;
    case OPERATION_ADD_PERMISSION:
    case OPERATION_REMOVE_PERMISSION:
        expected = model_permit(model, operation);
        break;
    case OPERATION_RELEASE_GROUP:
        expected = model_release_group(model, operation);
        break;
    case OPERATION_PAUSE:
        expected = model_pause(model, operation);
        break;
    case OPERATION_PUT_TYPE_ORDER:
        expected = model_put_type_order(model, operation);
        break;
    default:
        expected = model_delete_type_order(model, operation);
        break;
    }
    expect_error(view, expected);
}

static void (*const judges[OPERATION_KIND_COUNT])(const struct reply_view *view) = {
    [OPERATION_CREATE_QUEUE] = judge_error,
    [OPERATION_SET_QUEUE] = judge_error,
    [OPERATION_DELETE_QUEUE] = judge_error,
    [OPERATION_PURGE_QUEUE] = judge_error,
    [OPERATION_COUNT_QUEUE] = judge_count_queue,
    [OPERATION_TAG_QUEUE] = judge_error,
    [OPERATION_UNTAG_QUEUE] = judge_error,
    [OPERATION_LIST_TAGS] = judge_list_tags,
    [OPERATION_ADD_PERMISSION] = judge_error,
    [OPERATION_REMOVE_PERMISSION] = judge_error,
    [OPERATION_SEND] = judge_send,
    [OPERATION_RECEIVE] = judge_receive,
    [OPERATION_DELETE] = judge_handles,
    [OPERATION_CHANGE_VISIBILITY] = judge_handles,
    [OPERATION_FAIL] = judge_fail,
    [OPERATION_RELEASE_GROUP] = judge_error,
    [OPERATION_PAUSE] = judge_error,
    [OPERATION_COMMIT] = judge_commit,
    [OPERATION_OPEN_PUBLISHER] = judge_open_publisher,
    [OPERATION_PUBLISH] = judge_publish,
    [OPERATION_EXPLAIN] = judge_explain,
    [OPERATION_LIST_GROUPS] = judge_list_groups,
    [OPERATION_PUT_TYPE_ORDER] = judge_error,
    [OPERATION_DELETE_TYPE_ORDER] = judge_error,
    [OPERATION_START_MOVE] = judge_start_move,
    [OPERATION_DELETE_SOME] = judge_start_move,
    [OPERATION_REPLACE] = judge_replace,
    [OPERATION_CANCEL_MOVE] = judge_cancel_move,
    [OPERATION_LIST_MOVES] = judge_list_moves,
    [OPERATION_CREATE_BATCH] = judge_create_batch,
    [OPERATION_ADD_UNITS] = judge_of_batch,
    [OPERATION_COMPLETE_UNITS] = judge_of_batch,
    [OPERATION_XOR_UNITS] = judge_of_batch,
    [OPERATION_SEAL_BATCH] = judge_of_batch,
    [OPERATION_CANCEL_BATCH] = judge_of_batch,
    [OPERATION_DESCRIBE_BATCH] = judge_of_batch,
    [OPERATION_LIST_UNITS] = judge_of_batch,
    [OPERATION_LIST_BATCHES] = judge_list_batches,
    [OPERATION_DELETE_BATCH] = judge_of_batch,
};

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
        if (!error_has_type(operation_target(operation), error, type))
            fail("%s: the reply has __type %s; it should be that of %s", operation_target(operation), type,
                 error_row(error)->name);
    }
    judges[operation->kind](&view);
    yyjson_doc_free(doc);
}

/* --- receives that wait ------------------------------------------------------------------------------------------- */

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

void oracle_expect_moved(struct oracle *oracle)
{
    int task = model_find_late_task(&oracle->model);
    if (task != NONE)
        fail("the move task of q%d should have moved a message by now, or ended",
             oracle->model.queues[oracle->model.tasks[task].queue].name);
}
