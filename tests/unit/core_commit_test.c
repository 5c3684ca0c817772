/* Commit against random states: it does all or nothing, and all is what the same decisions one by one would have
 * done. */
#include "core/batches/decide_batch.h"
#include "core/messages/decide_commit.h"
#include "core/order/decide_type_order.h"
#include "core/queues/decide_queue.h"
#include "core/state.h"
#include "support/core_bytes.h"
#include "support/core_rig.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SENDS 4u
#define UNITS 3u
#define DELETES 3u
#define HOLDS 2u
#define CHILDREN 2u
#define ADDITIONS 2u

/* A commit in names, so that it can be asked of more than one core. */
struct wish {
    struct {
        char queue[8], group[8], batch[8], id[8], producer[8], type[8];
        char after[2][8];
        uint32_t after_count;
        enum after_failure after_failure;
        uint64_t sequence;
        uint8_t priority;
    } sends[SENDS];
    struct {
        char batch[8], key[8];
        enum unit_state outcome;
    } units[UNITS];
    struct {
        uint32_t queue;
        char handle[HANDLE_TEXT_SIZE];
    } deletes[DELETES], holds[HOLDS];
    struct {
        char id[8], parent[8], queue[8];
        bool has_total;
        uint32_t total;
    } children[CHILDREN];
    struct {
        char batch[8], key[8];
    } additions[ADDITIONS];
    uint32_t send_count, unit_count, delete_count, hold_count, child_count, addition_count;
};

/* The command of a wish, and what it points to. */
struct request {
    struct commit_command command;
    struct commit_send sends[SENDS];
    struct commit_unit units[UNITS];
    struct commit_message deletes[DELETES], holds[HOLDS];
    struct commit_child children[CHILDREN];
    struct commit_addition additions[ADDITIONS];
    struct bytes keys[ADDITIONS];
    struct antecedent_name after[SENDS][2];
};

static void draw_text(struct core_rig *rig, char text[8], char letter, uint32_t count, uint32_t chance)
{
    if (core_rig_draw(rig, chance) == 0)
        snprintf(text, 8, "%c%u", letter, core_rig_draw(rig, count));
    else
        text[0] = '\0';
}

static void draw_send(struct core_rig *rig, struct wish *wish, uint32_t i)
{
    bool is_fifo = core_rig_draw(rig, 2) == 0;
    draw_text(rig, wish->sends[i].queue, is_fifo ? 'f' : 'q', is_fifo ? 3 : 4, 1);
    draw_text(rig, wish->sends[i].group, 'g', 3, is_fifo ? 1 : 2);
    draw_text(rig, wish->sends[i].batch, 'b', 6, 2);
    draw_text(rig, wish->sends[i].id, 'd', 6, 3);
    draw_text(rig, wish->sends[i].producer, 'p', 2, 4);
    draw_text(rig, wish->sends[i].type, 't', 4, 4);
    wish->sends[i].sequence = core_rig_draw(rig, 400);
    wish->sends[i].priority = (uint8_t)core_rig_draw(rig, PRIORITY_MAX + 1);
    wish->sends[i].after_count = core_rig_draw(rig, 4) == 0 ? 1 + core_rig_draw(rig, 2) : 0;
    wish->sends[i].after_failure = (enum after_failure)core_rig_draw(rig, 3);
    for (uint32_t k = 0; k < wish->sends[i].after_count; k++)
        draw_text(rig, wish->sends[i].after[k], 'b', 6, 1);
}

/* The newest handles are the likeliest to hold something. */
static void draw_handle(struct core_rig *rig, uint32_t *queue, char text[HANDLE_TEXT_SIZE])
{
    unsigned kept = rig->handle_count < CORE_RIG_HANDLES ? rig->handle_count : CORE_RIG_HANDLES;
    uint32_t newest = rig->handle_count - 1 - core_rig_draw(rig, kept < 6 ? kept : 6);
    const struct handle *handle = &rig->handles[newest % CORE_RIG_HANDLES];
    *queue = handle->queue;
    handle_to_text(core_digest(rig->core), handle, text);
}

/* Batches to be made, often with a parent and with a message into a line, and units for these and others. */
static void draw_batches(struct core_rig *rig, struct wish *wish)
{
    wish->child_count = core_rig_draw(rig, CHILDREN + 1);
    for (uint32_t i = 0; i < wish->child_count; i++) {
        draw_text(rig, wish->children[i].id, 'c', 40, 1);
        draw_text(rig, wish->children[i].parent, 'b', 6, core_rig_draw(rig, 4) == 0 ? 1000 : 1);
        draw_text(rig, wish->children[i].queue, 'f', 3, 2);
        wish->children[i].has_total = core_rig_draw(rig, 3) == 0;
        wish->children[i].total = core_rig_draw(rig, 3);
    }
    wish->addition_count = core_rig_draw(rig, ADDITIONS + 1);
    for (uint32_t i = 0; i < wish->addition_count; i++) {
        draw_text(rig, wish->additions[i].batch, 'b', 6, 1);
        if (wish->child_count > 0 && core_rig_draw(rig, 3) == 0)
            memcpy(wish->additions[i].batch, wish->children[0].id, sizeof(wish->children[0].id));
        draw_text(rig, wish->additions[i].key, 'u', 12, 1);
    }
    if (wish->child_count > 0 && wish->send_count > 0 && core_rig_draw(rig, 2) == 0)
        memcpy(wish->sends[0].batch, wish->children[0].id, sizeof(wish->children[0].id));
}

static struct wish draw_wish(struct core_rig *rig)
{
    struct wish wish = {.send_count = core_rig_draw(rig, SENDS + 1),
                        .unit_count = core_rig_draw(rig, 3) == 0 ? core_rig_draw(rig, UNITS + 1) : 0};
    for (uint32_t i = 0; i < wish.send_count; i++)
        draw_send(rig, &wish, i);
    for (uint32_t i = 0; i < wish.unit_count; i++) {
        draw_text(rig, wish.units[i].batch, 'b', 6, 1);
        draw_text(rig, wish.units[i].key, 'u', 6, 1);
        memmove(wish.units[i].key, wish.units[i].key + core_rig_draw(rig, 2), sizeof(wish.units[i].key) - 1);
        wish.units[i].outcome = core_rig_draw(rig, 4) == 0 ? UNIT_FAILED : UNIT_SUCCEEDED;
    }
    wish.delete_count = rig->handle_count == 0 || core_rig_draw(rig, 2) == 0 ? 0 : 1 + core_rig_draw(rig, DELETES);
    for (uint32_t i = 0; i < wish.delete_count; i++)
        draw_handle(rig, &wish.deletes[i].queue, wish.deletes[i].handle);
    wish.hold_count = rig->handle_count == 0 || core_rig_draw(rig, 3) > 0 ? 0 : 1 + core_rig_draw(rig, HOLDS);
    for (uint32_t i = 0; i < wish.hold_count; i++)
        draw_handle(rig, &wish.holds[i].queue, wish.holds[i].handle);
    if (core_rig_draw(rig, 3) == 0)
        draw_batches(rig, &wish);
    return wish;
}

static struct bytes view(const char *text)
{
    return bytes_from_string(text);
}

static void request_send(const struct core *core, const struct wish *wish, uint32_t i, struct request *request)
{
    struct queue *queue = core_find_queue(core, view(wish->sends[i].queue));
    request->sends[i] = (struct commit_send){
        .command = {.queue = queue,
                    .content = {.body = BYTES("body"),
                                .sender = core_name(core),
                                .group = view(wish->sends[i].group),
                                .deduplication = view(wish->sends[i].id)},
                    .priority = wish->sends[i].priority,
                    .batch_id = view(wish->sends[i].batch),
                    .type = view(wish->sends[i].type),
                    .producer = view(wish->sends[i].producer),
                    .sequence = wish->sends[i].sequence,
                    .antecedents = request->after[i],
                    .antecedent_count = wish->sends[i].after_count,
                    .after_failure = wish->sends[i].after_failure},
    };
    for (uint32_t k = 0; k < wish->sends[i].after_count; k++)
        request->after[i][k] = (struct antecedent_name){.kind = NAMED_BATCH, .text = view(wish->sends[i].after[k])};
}

static bool request_child(const struct core *core, const struct wish *wish, uint32_t i, struct request *request)
{
    const bool has_target = wish->children[i].queue[0] != '\0';
    const struct queue *queue = has_target ? core_find_queue(core, view(wish->children[i].queue)) : NULL;
    request->children[i] = (struct commit_child){
        .command = {.id = view(wish->children[i].id),
                    .parent_id = view(wish->children[i].parent),
                    .spec = {.has_total = wish->children[i].has_total,
                             .total = wish->children[i].total,
                             .expires_after_s = 86400,
                             .retention_s = 86400}},
    };
    if (queue != NULL)
        request->children[i].command.spec.targets[0] = (struct batch_target){.queue = queue->id, .group = BYTES("g0")};
    return has_target == (queue != NULL);
}

static void request_addition(const struct wish *wish, uint32_t i, struct request *request)
{
    request->keys[i] = view(wish->additions[i].key);
    request->additions[i] = (struct commit_addition){.batch_id = view(wish->additions[i].batch),
                                                     .command = {.keys = &request->keys[i], .key_count = 1}};
}

/* False if it names a queue or batch that is not there, which the api would refuse. */
static bool make_request(const struct core *core, const struct wish *wish, struct request *request)
{
    bool is_good = true;
    request->command = (struct commit_command){.sends = request->sends,
                                               .units = request->units,
                                               .deletes = request->deletes,
                                               .holds = request->holds,
                                               .children = request->children,
                                               .additions = request->additions,
                                               .send_count = wish->send_count,
                                               .unit_count = wish->unit_count,
                                               .delete_count = wish->delete_count,
                                               .hold_count = wish->hold_count,
                                               .child_count = wish->child_count,
                                               .addition_count = wish->addition_count,
                                               .size_max = 1u << 19};
    for (uint32_t i = 0; i < wish->send_count; i++) {
        request_send(core, wish, i, request);
        is_good = is_good && request->sends[i].command.queue != NULL;
    }
    for (uint32_t i = 0; i < wish->unit_count; i++) {
        request->units[i] = (struct commit_unit){
            .batch = core_find_batch(core, view(wish->units[i].batch)),
            .report = {.key = view(wish->units[i].key), .outcome = wish->units[i].outcome, .detail = BYTES("")}};
        is_good = is_good && request->units[i].batch != NULL;
    }
    for (uint32_t i = 0; i < wish->delete_count; i++) {
        request->deletes[i] = (struct commit_message){.queue = core_find_queue_by_id(core, wish->deletes[i].queue),
                                                      .handle = bytes_make(wish->deletes[i].handle, HANDLE_TEXT_SIZE)};
        is_good = is_good && request->deletes[i].queue != NULL;
    }
    for (uint32_t i = 0; i < wish->hold_count; i++) {
        request->holds[i] = (struct commit_message){.queue = core_find_queue_by_id(core, wish->holds[i].queue),
                                                    .handle = bytes_make(wish->holds[i].handle, HANDLE_TEXT_SIZE)};
        is_good = is_good && request->holds[i].queue != NULL;
    }
    for (uint32_t i = 0; i < wish->child_count; i++)
        is_good = request_child(core, wish, i, request) && is_good;
    for (uint32_t i = 0; i < wish->addition_count; i++)
        request_addition(wish, i, request);
    return is_good;
}

/* Which batches may grow is the commit's to find out. */
static void copy_growth(const struct request *from, struct request *to)
{
    for (uint32_t i = 0; i < from->command.child_count; i++)
        to->children[i].command.is_growth = from->children[i].command.is_growth;
    for (uint32_t i = 0; i < from->command.addition_count; i++)
        to->additions[i].command.is_growth = from->additions[i].command.is_growth;
    for (uint32_t i = 0; i < from->command.send_count; i++)
        to->sends[i].command.is_growth = from->sends[i].command.is_growth;
}

/* Makes batches and adds units. No batch is made or added to twice. */
static enum error add_each(struct core *core, struct commit_command *command)
{
    enum error error = OK;
    const struct batch *batch;
    for (uint32_t i = 0; error == OK && i < command->child_count; i++) {
        for (uint32_t k = 0; k < i; k++)
            if (bytes_equal(command->children[k].command.id, command->children[i].command.id))
                return ERROR_INVALID_PARAMETER_VALUE;
        error = decide_create_batch(core, &command->children[i].command, &batch);
    }
    for (uint32_t i = 0; error == OK && i < command->addition_count; i++) {
        for (uint32_t k = 0; k < i; k++)
            if (bytes_equal(command->additions[k].batch_id, command->additions[i].batch_id))
                return ERROR_INVALID_PARAMETER_VALUE;
        batch = core_find_batch(core, command->additions[i].batch_id);
        error = batch == NULL
                    ? ERROR_BATCH_DOES_NOT_EXIST
                    : decide_add_units(core, batch, &command->additions[i].command, &command->additions[i].added);
    }
    return error;
}

static enum error check_handles(struct core *core, const struct commit_command *command)
{
    uint64_t numbers[DELETES + HOLDS];
    for (uint32_t i = 0; i < command->delete_count + command->hold_count; i++) {
        const bool is_hold = i >= command->delete_count;
        const struct commit_message *entry =
            is_hold ? &command->holds[i - command->delete_count] : &command->deletes[i];
        numbers[i] = decide_held_message(core, entry->queue, entry->handle, NULL);
        if (numbers[i] == 0 ||
            (is_hold && core_message(core, core_find_message(core, numbers[i]))->state != MESSAGE_IN_FLIGHT))
            return ERROR_RECEIPT_HANDLE_IS_INVALID;
        for (uint32_t k = 0; k < i; k++)
            if (numbers[k] == numbers[i])
                return ERROR_INVALID_PARAMETER_VALUE;
    }
    return OK;
}

/* What Units names must have been there before: a commit does not end what it adds. */
static enum error check_units(const struct commit_command *command)
{
    for (uint32_t i = 0; i < command->unit_count; i++)
        if (command->units[i].batch->spec.tracking != BATCH_XOR &&
            ledger_find(&command->units[i].batch->ledger, command->units[i].report.key) == LEDGER_NO_UNIT)
            return ERROR_UNIT_DOES_NOT_EXIST;
    return OK;
}

/* The same, decision by decision. */
static enum error decide_each(struct core *core, struct request *request)
{
    struct commit_command *command = &request->command;
    enum error error = check_handles(core, command);
    if (error == OK)
        error = check_units(command);
    if (error == OK)
        error = add_each(core, command);
    for (uint32_t i = 0; error == OK && i < command->send_count; i++)
        error = decide_send(core, &command->sends[i].command, &command->sends[i].result);
    for (uint32_t i = 0; error == OK && i < command->unit_count; i++) {
        uint32_t unknown;
        error = decide_complete_units(core, command->units[i].batch, &command->units[i].report, 1, UINT64_MAX, &unknown,
                                      &command->units[i].is_completed);
    }
    for (uint32_t i = 0; error == OK && i < command->delete_count; i++)
        error = decide_held_message(core, command->deletes[i].queue, command->deletes[i].handle, NULL) == 0
                    ? ERROR_INVALID_PARAMETER_VALUE
                    : decide_delete(core, command->deletes[i].queue, command->deletes[i].handle, NULL);
    return error;
}

/* A second core in the same state, with a frame open at the same place. */
static struct core *twin_of(const struct core_rig *rig, struct buffer *frame)
{
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig->core, &encoded);
    struct core *twin = core_create();
    assert_true(core_bytes_decode(twin, buffer_bytes(&encoded)));
    core_frame_open(twin, frame, rig->position, rig->now_ms, 1u << 20);
    buffer_deinit(&encoded);
    return twin;
}

static bool has_same_state(const struct core *one, const struct core *other)
{
    struct buffer a, b;
    buffer_init(&a);
    buffer_init(&b);
    core_rig_encode(one, &a);
    core_rig_encode(other, &b);
    bool is_same = bytes_equal(buffer_bytes(&a), buffer_bytes(&b));
    buffer_deinit(&a);
    buffer_deinit(&b);
    return is_same;
}

/* Commits a random wish. Returns what it came to; *is_asked false: it was none. */
static enum error commit_one(struct core_rig *rig, uint64_t seed, bool *is_asked)
{
    struct wish wish = draw_wish(rig);
    struct request request, again;
    core_rig_begin(rig);
    *is_asked = make_request(rig->core, &wish, &request);
    if (!*is_asked) {
        core_rig_end(rig);
        return OK;
    }
    struct buffer frame, untouched;
    buffer_init(&frame);
    buffer_init(&untouched);
    struct core *twin = twin_of(rig, &frame), *before = twin_of(rig, &untouched);
    (void)make_request(twin, &wish, &again);
    struct commit_fault fault;
    enum error error = decide_commit(rig->core, &request.command, &fault);
    copy_growth(&request, &again);
    enum error expected = decide_each(twin, &again);
    core_check(rig->core);
    if (error != OK && !has_same_state(rig->core, before))
        fail_msg("seed %llu: a refused commit did something", (unsigned long long)seed);
    if (error == OK && (expected != OK || !has_same_state(rig->core, twin)))
        fail_msg("seed %llu: the commit did something else than its parts", (unsigned long long)seed);
    if (error != OK && error != ERROR_UNSUPPORTED_OPERATION && expected == OK)
        fail_msg("seed %llu: refused with %s, though its parts are good", (unsigned long long)seed,
                 error_row(error)->name);
    core_frame_close(twin);
    core_frame_close(before);
    core_destroy(twin);
    core_destroy(before);
    buffer_deinit(&frame);
    buffer_deinit(&untouched);
    core_rig_end(rig);
    return error;
}

static void a_commit_does_what_its_parts_would_do_or_nothing(void **state)
{
    (void)state;
    unsigned good_count = 0, refused_count = 0, unsupported_count = 0;
    for (uint64_t seed = 1; seed <= scaled(150); seed++) {
        struct core_rig rig;
        core_rig_init(&rig, seed);
        for (unsigned step = 0; step < 300; step++) {
            core_rig_step(&rig);
            bool is_asked;
            enum error error = step < 40 ? OK : commit_one(&rig, seed, &is_asked);
            if (step < 40 || !is_asked)
                continue;
            good_count += error == OK;
            refused_count += error != OK;
            unsupported_count += error == ERROR_UNSUPPORTED_OPERATION;
        }
        struct core *replayed = core_rig_replay(&rig);
        assert_true(has_same_state(replayed, rig.core));
        core_destroy(replayed);
        core_rig_deinit(&rig);
    }
    print_message("%u done, %u refused, %u of them unsupported\n", good_count, refused_count, unsupported_count);
    assert_true(good_count > scaled(100) && refused_count > scaled(100));
}

static void put_order(struct core_rig *rig, const char *first, const char *second)
{
    struct type_order_command order = {.name = BYTES("order"), .types = {.count = 2}};
    order.types.names[0] = bytes_from_string(first);
    order.types.names[1] = bytes_from_string(second);
    struct buffer conflict;
    buffer_init(&conflict);
    assert_int_equal(decide_put_type_order(rig->core, &order, &conflict), OK);
    buffer_deinit(&conflict);
}

/* Only once the first message is accepted has the second something to wait for, and the search for a cycle something to
 * walk from: more than it may look at. */
static void a_commit_is_not_too_deep_once_it_was_checked(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    core_rig_begin(&rig);
    struct queue_settings settings = core_rig_settings();
    struct queue *queue = decide_create_queue(rig.core, BYTES("q"), &settings);
    put_order(&rig, "post", "comment");
    struct create_batch_command create = {.id = BYTES("b"), .spec = {.expires_after_s = 86400, .retention_s = 86400}};
    const struct batch *batch;
    assert_int_equal(decide_create_batch(rig.core, &create, &batch), OK);
    const struct antecedent_name after = {.kind = NAMED_BATCH, .text = BYTES("b")};
    struct send_command command = {.queue = queue,
                                   .content = {.body = BYTES("body"), .sender = core_name(rig.core)},
                                   .priority = PRIORITY_DEFAULT,
                                   .antecedents = &after,
                                   .antecedent_count = 1};
    struct send_result result;
    for (unsigned i = 0; i <= DEPENDENCY_VISITS_MAX; i++)
        assert_int_equal(decide_send(rig.core, &command, &result), OK);
    command.antecedent_count = 0;
    command.content.group = BYTES("g");
    command.type = BYTES("post");
    struct commit_send sends[2] = {{.command = command}, {.command = command}};
    sends[1].command.type = BYTES("comment");
    sends[1].command.batch_id = BYTES("b");
    struct commit_command commit = {.sends = sends, .send_count = 2, .size_max = 1u << 19};
    struct commit_fault fault;
    assert_int_equal(decide_commit(rig.core, &commit, &fault), OK);
    core_rig_end(&rig);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

/* The addition takes all places there are, so the send has none. */
static void a_batch_that_a_commit_makes_gets_no_more_units_than_any_other(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    core_rig_begin(&rig);
    struct queue_settings settings = core_rig_settings();
    struct commit_child child = {
        .command = {.id = BYTES("b"), .spec = {.expires_after_s = 86400, .retention_s = 86400}}};
    struct commit_addition addition = {.batch_id = BYTES("b"), .command = {.count = LEDGER_UNITS_MAX}};
    struct commit_send send = {.command = {.queue = decide_create_queue(rig.core, BYTES("q"), &settings),
                                           .content = {.body = BYTES("body"), .sender = core_name(rig.core)},
                                           .priority = PRIORITY_DEFAULT,
                                           .batch_id = BYTES("b")}};
    struct commit_command commit = {.children = &child,
                                    .additions = &addition,
                                    .sends = &send,
                                    .child_count = 1,
                                    .addition_count = 1,
                                    .send_count = 1,
                                    .size_max = 1u << 19};
    struct commit_fault fault;
    assert_int_equal(decide_commit(rig.core, &commit, &fault), ERROR_OVER_LIMIT);
    assert_int_equal(fault.part, COMMIT_SENDS);
    assert_null(core_find_batch(rig.core, BYTES("b")));
    addition.command.count--;
    assert_int_equal(decide_commit(rig.core, &commit, &fault), OK);
    assert_int_equal(batch_counts(core_find_batch(rig.core, BYTES("b"))).total, LEDGER_UNITS_MAX);
    core_rig_end(&rig);
    core_rig_deinit(&rig);
}

/* A line with two groups: in "w" a message waits, in "r" one is ready. */
static struct queue *make_line(struct core *core, const struct batch **parent)
{
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = true;
    struct queue *queue = decide_create_queue(core, BYTES("line.fifo"), &settings);
    struct create_batch_command create = {.spec = {.expires_after_s = 86400, .retention_s = 86400}};
    const struct batch *other;
    create.id = BYTES("p");
    assert_int_equal(decide_create_batch(core, &create, parent), OK);
    create.id = BYTES("o");
    assert_int_equal(decide_create_batch(core, &create, &other), OK);
    const struct antecedent_name after = {.kind = NAMED_BATCH, .text = BYTES("o")};
    for (unsigned i = 0; i < 2; i++) {
        const struct send_command command = {
            .queue = queue,
            .content = {.body = BYTES("body"), .sender = core_name(core), .group = i == 0 ? BYTES("w") : BYTES("r")},
            .priority = PRIORITY_DEFAULT,
            .antecedents = &after,
            .antecedent_count = i == 0};
        struct send_result result;
        assert_int_equal(decide_send(core, &command, &result), OK);
    }
    return queue;
}

/* Batches with a parent, whose completion messages go to those groups (0: to no queue), and a message of the parent to
 * that group, which waits for the batch "o" if `is_after`. */
static void what_the_searches_for_a_cycle_can_not_see_is_refused(void **state)
{
    (void)state;
    const struct {
        char children[3];
        char parent; /* of the last child */
        char group;  /* of the message; 0: none */
        bool is_after;
        enum error error;
        enum commit_part part;
        uint32_t index;
    } tries[] = {
        {"w", 'p', 0, false, OK, COMMIT_WHOLE, 0},
        {"ww", 'p', 0, false, ERROR_UNSUPPORTED_OPERATION, COMMIT_CHILDREN, 1},
        {"wr", 'p', 0, false, OK, COMMIT_WHOLE, 0},
        {"rr", 'p', 0, false, OK, COMMIT_WHOLE, 0},
        {"ww", 0, 0, false, OK, COMMIT_WHOLE, 0}, /* who has no parent holds up nobody */
        {"w", 'p', 'n', false, OK, COMMIT_WHOLE, 0},
        {"r", 'p', 'n', true, OK, COMMIT_WHOLE, 0},
        {"r", 'p', 'r', false, OK, COMMIT_WHOLE, 0},
        {"r", 'p', 'r', true, ERROR_UNSUPPORTED_OPERATION, COMMIT_SENDS, 0},
        {"w", 'p', 'n', true, ERROR_UNSUPPORTED_OPERATION, COMMIT_SENDS, 0},
        {"w", 0, 'n', true, OK, COMMIT_WHOLE, 0},
        {"w", 'p', 'w', false, ERROR_UNSUPPORTED_OPERATION, COMMIT_SENDS, 0},
        {"r", 'p', 'w', false, OK, COMMIT_WHOLE, 0}, /* it waits in its own group, and the batch in another */
    };
    for (unsigned i = 0; i < ARRAY_LENGTH(tries); i++) {
        struct core_rig rig;
        core_rig_init(&rig, 1);
        struct core *core = core_rig_begin(&rig);
        const struct batch *parent;
        struct queue *queue = make_line(core, &parent);
        struct commit_child children[2];
        uint32_t child_count = (uint32_t)strlen(tries[i].children);
        for (uint32_t k = 0; k < child_count; k++) {
            bool has_parent = tries[i].parent != 0 || k + 1 < child_count;
            children[k] = (struct commit_child){.command = {.id = k == 0 ? BYTES("c") : BYTES("d"),
                                                            .parent_id = has_parent ? BYTES("p") : BYTES(""),
                                                            .spec = {.expires_after_s = 86400, .retention_s = 86400}}};
            children[k].command.spec.targets[BATCH_EVENT_COMPLETE - 1] =
                (struct batch_target){.queue = queue->id, .group = bytes_make(&tries[i].children[k], 1)};
        }
        const struct antecedent_name after = {.kind = NAMED_BATCH, .text = BYTES("o")};
        struct commit_send send = {
            .command = {
                .queue = queue,
                .content = {.body = BYTES("body"), .sender = core_name(core), .group = bytes_make(&tries[i].group, 1)},
                .priority = PRIORITY_DEFAULT,
                .antecedents = &after,
                .antecedent_count = tries[i].is_after}};
        struct commit_command commit = {.children = children,
                                        .child_count = child_count,
                                        .sends = &send,
                                        .send_count = tries[i].group != 0,
                                        .size_max = 1u << 19};
        struct commit_fault fault;
        enum error error = decide_commit(core, &commit, &fault);
        if (error != tries[i].error || (error != OK && (fault.part != tries[i].part || fault.index != tries[i].index)))
            fail_msg("%u: %s, part %u, index %u", i, error_row(error)->name, fault.part, fault.index);
        assert_int_equal(core_find_batch(core, BYTES("c")) != NULL, error == OK);
        core_rig_end(&rig);
        core_check(core);
        core_rig_deinit(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_that_a_commit_makes_gets_no_more_units_than_any_other),
        cmocka_unit_test(a_commit_is_not_too_deep_once_it_was_checked),
        cmocka_unit_test(what_the_searches_for_a_cycle_can_not_see_is_refused),
        cmocka_unit_test(a_commit_does_what_its_parts_would_do_or_nothing),
    };
    return cmocka_run_group_tests_name("core commit", tests, NULL, NULL);
}
