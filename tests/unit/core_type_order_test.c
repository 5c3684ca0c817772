/* Type orders in the core alone: who waits for whom, against a naive rule; indexes given back; successes remembered and
 * forgotten; and the state as bytes. */
#include "support/core_bytes.h"
#include "support/core_rig.h"
#include "support/scale.h"

#include "core/decide_namespace.h"
#include "core/messages/decide_send.h"
#include "core/order/decide_type_order.h"
#include "core/queues/decide_queue.h"
#include "core/snapshot.h"
#include "core/state.h"
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define DAY_S 86400u

static struct bytes text(const char *string)
{
    return bytes_from_string(string);
}

static struct queue *create(struct core_rig *rig, const char *name, bool is_fifo)
{
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = is_fifo;
    settings.retention_s = 14 * DAY_S;
    struct queue *queue = decide_create_queue(core_rig_begin(rig), text(name), &settings);
    core_rig_end(rig);
    return queue;
}

/* `types` is a list like "a b c". */
static enum error put_with(struct core_rig *rig, const char *name, const char *types, uint32_t retention_s,
                           struct buffer *conflict)
{
    struct type_order_command command = {.name = text(name), .retention_s = retention_s};
    for (const char *at = types; *at != 0; at += strspn(at, " ")) {
        size_t size = strcspn(at, " ");
        command.types.names[command.types.count++] = bytes_make(at, size);
        at += size;
    }
    enum error error = decide_put_type_order(core_rig_begin(rig), &command, conflict);
    core_rig_end(rig);
    return error;
}

static enum error put(struct core_rig *rig, const char *name, const char *types)
{
    return put_with(rig, name, types, 0, NULL);
}

static enum error drop(struct core_rig *rig, const char *name)
{
    enum error error = decide_delete_type_order(core_rig_begin(rig), text(name));
    core_rig_end(rig);
    return error;
}

static uint64_t send(struct core_rig *rig, struct queue *queue, const char *group, const char *type)
{
    const struct send_command command = {
        .queue = queue,
        .content = {.body = text("body"), .sender = text("000000000000"), .group = text(group)},
        .priority = PRIORITY_DEFAULT,
        .type = text(type),
    };
    struct send_result result;
    assert_int_equal(decide_send(core_rig_begin(rig), &command, &result), OK);
    core_rig_end(rig);
    return result.number;
}

static bool waits(const struct core_rig *rig, uint64_t number)
{
    uint32_t slot = core_find_message(rig->core, number);
    assert_int_not_equal(slot, 0);
    assert_int_equal(core_message(rig->core, slot)->state == MESSAGE_WAITING, type_order_is_blocked(rig->core, slot));
    return core_message(rig->core, slot)->state == MESSAGE_WAITING;
}

/* Ends a message by an event of its own, whatever state it is in. */
static void end(struct core_rig *rig, uint64_t number, enum end_reason reason)
{
    core_emit(core_rig_begin(rig),
              &(struct event){.kind = EVENT_ENDED, .ended = {.number = number, .reason = (uint8_t)reason}});
    core_rig_end(rig);
}

static void pass(struct core_rig *rig, uint64_t ms)
{
    rig->now_ms += ms;
    while (decide_due(core_rig_begin(rig)))
        core_rig_end(rig);
    core_rig_end(rig);
}

static void expect_same(const struct core_rig *rig, struct core *other)
{
    struct buffer a, b;
    buffer_init(&a);
    buffer_init(&b);
    core_rig_encode(rig->core, &a);
    core_rig_encode(other, &b);
    assert_true(bytes_equal(buffer_bytes(&a), buffer_bytes(&b)));
    core_check(other);
    core_destroy(other);
    buffer_deinit(&a);
    buffer_deinit(&b);
}

/* A replay, which forgets nothing on the way, and a snapshot give the same state. */
static void audit(const struct core_rig *rig)
{
    core_check(rig->core);
    expect_same(rig, core_rig_replay(rig));
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig->core, &encoded);
    struct core *decoded = core_create();
    assert_true(core_bytes_decode(decoded, buffer_bytes(&encoded)));
    expect_same(rig, decoded);
    buffer_deinit(&encoded);
}

static void finish(struct core_rig *rig)
{
    audit(rig);
    core_rig_deinit(rig);
}

/* --- the orders --------------------------------------------------------------------------------------------------- */

static void T65_a_contradicting_order_is_refused_and_the_way_round_is_said(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct buffer conflict;
    buffer_init(&conflict);
    assert_int_equal(put(&rig, "one", "a b c"), OK);
    assert_int_equal(put(&rig, "two", "c d"), OK);
    assert_int_equal(put(&rig, "same way", "a d x"), OK);
    assert_int_equal(put_with(&rig, "back", "b a", 0, &conflict), ERROR_TYPE_ORDER_CONFLICT);
    assert_true(bytes_equal(buffer_bytes(&conflict), BYTES("\"a\" before \"b\" (order \"one\")")));
    buffer_truncate(&conflict, 0);
    assert_int_equal(put_with(&rig, "back", "new d other a", 0, &conflict), ERROR_TYPE_ORDER_CONFLICT);
    assert_true(bytes_equal(buffer_bytes(&conflict), BYTES("\"a\" before \"d\" (order \"same way\")")));
    buffer_truncate(&conflict, 0);
    assert_int_equal(put_with(&rig, "back", "d b", 0, &conflict), ERROR_TYPE_ORDER_CONFLICT);
    assert_true(bytes_equal(buffer_bytes(&conflict),
                            BYTES("\"b\" before \"c\" (order \"one\"), \"c\" before \"d\" (order \"two\")")));
    assert_int_equal(rig.core->type_orders.order.count, 3);
    /* What an order said before does not stand against what it says now. */
    assert_int_equal(put(&rig, "one", "c b a"), OK);
    assert_int_equal(put(&rig, "one", "d c"), ERROR_TYPE_ORDER_CONFLICT);
    assert_int_equal(drop(&rig, "two"), OK);
    assert_int_equal(put(&rig, "one", "d c"), OK);
    buffer_deinit(&conflict);
    finish(&rig);
}

static void putting_the_same_list_again_does_nothing(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    assert_int_equal(put(&rig, "order", "a b"), OK);
    size_t frames = rig.frame_count;
    assert_int_equal(put(&rig, "order", "a b"), OK);
    assert_int_equal(rig.frame_count, frames);
    assert_int_equal(put(&rig, "order", "a b c"), OK);
    assert_int_equal(put_with(&rig, "order", "a b c", DAY_S, NULL), OK);
    assert_int_equal(rig.frame_count, frames + 2);
    assert_int_equal(drop(&rig, "none"), ERROR_TYPE_ORDER_DOES_NOT_EXIST);
    finish(&rig);
}

static void a_namespace_has_64_types_and_gets_back_those_that_nothing_uses(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *queue = create(&rig, "q", false);
    char types[512] = "";
    for (unsigned i = 0; i < 64; i++)
        snprintf(types + strlen(types), 8, "t%u ", i);
    assert_int_equal(put(&rig, "all", types), OK);
    assert_int_equal(put(&rig, "more", "t0 x"), ERROR_OVER_LIMIT);
    assert_int_equal(put(&rig, "all", "x y"), OK);
    assert_int_equal(put(&rig, "all", types), OK);
    uint64_t held = send(&rig, queue, "g", "t63");
    assert_int_equal(put(&rig, "all", "x y"), OK);
    char others[512] = "";
    for (unsigned i = 0; i < 62; i++)
        snprintf(others + strlen(others), 8, "o%u ", i);
    assert_int_equal(put(&rig, "others", others), ERROR_OVER_LIMIT); /* with x, y and the message's type there are 65 */
    audit(&rig);
    end(&rig, held, END_DELETED);
    assert_int_equal(put(&rig, "others", others), OK);
    assert_int_equal(drop(&rig, "others"), OK);
    assert_int_equal(drop(&rig, "all"), OK);
    for (unsigned i = 0; i < TYPES_MAX; i++)
        assert_null(rig.core->type_orders.types[i].name_owned.ptr);
    finish(&rig);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void T59_what_was_sent_before_goes_first_in_whatever_queue(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *posts = create(&rig, "posts", false), *comments = create(&rig, "comments", false);
    assert_int_equal(put(&rig, "blog", "post comment like"), OK);
    uint64_t early = send(&rig, comments, "g", "comment");
    uint64_t first = send(&rig, posts, "g", "post");
    uint64_t second = send(&rig, posts, "g", "post");
    uint64_t comment = send(&rig, comments, "g", "comment");
    uint64_t like = send(&rig, posts, "g", "like");
    uint64_t stranger = send(&rig, comments, "h", "comment");
    uint64_t free_type = send(&rig, comments, "g", "share");
    assert_false(waits(&rig, early) || waits(&rig, first) || waits(&rig, second));
    assert_true(waits(&rig, comment) && waits(&rig, like));
    assert_false(waits(&rig, stranger) || waits(&rig, free_type));
    struct type_blocker blockers[TYPES_MAX];
    assert_int_equal(type_order_blockers(rig.core, core_find_message(rig.core, like), blockers), 2);
    assert_true(bytes_equal(blockers[0].type, BYTES("post")) && bytes_equal(blockers[1].type, BYTES("comment")));
    assert_int_equal(core_message(rig.core, blockers[0].message)->number, first);
    assert_int_equal(core_message(rig.core, blockers[1].message)->number, early);
    audit(&rig);
    end(&rig, second, END_DELETED);
    assert_true(waits(&rig, comment));
    end(&rig, first, END_FAILED); /* it is finished, however */
    assert_false(waits(&rig, comment));
    assert_true(waits(&rig, like));
    end(&rig, early, END_EXPIRED);
    assert_true(waits(&rig, like));
    end(&rig, comment, END_PURGED);
    assert_false(waits(&rig, like));
    finish(&rig);
}

static void one_end_lets_go_of_ten_thousand(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *queues[] = {create(&rig, "a", false), create(&rig, "b", true)};
    assert_int_equal(put(&rig, "order", "post comment"), OK);
    uint64_t post = send(&rig, queues[0], "g", "post");
    uint64_t numbers[10000];
    for (unsigned i = 0; i < 10000; i++)
        numbers[i] = send(&rig, queues[i % 2], "g", "comment");
    assert_int_equal(rig.core->messages.delayed_count, 10000);
    audit(&rig);
    end(&rig, post, END_DELETED);
    assert_int_equal(rig.core->messages.delayed_count, 0);
    for (unsigned i = 0; i < 10000; i += 100)
        assert_false(waits(&rig, numbers[i]));
    finish(&rig);
}

static void a_change_binds_what_is_accepted_after_it(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *queue = create(&rig, "q", false);
    uint64_t unbound = send(&rig, queue, "g", "a");
    assert_int_equal(put(&rig, "order", "a b"), OK);
    assert_false(waits(&rig, send(&rig, queue, "g", "b"))); /* the `a` was sent when no order named it */
    uint64_t a = send(&rig, queue, "g", "a"), b = send(&rig, queue, "g", "b");
    assert_true(waits(&rig, b));
    assert_int_equal(put(&rig, "order", "b a"), OK);
    assert_true(waits(&rig, b));
    uint64_t later_a = send(&rig, queue, "g", "a"), later_b = send(&rig, queue, "g", "b");
    assert_true(waits(&rig, later_a));
    assert_false(waits(&rig, later_b));
    assert_int_equal(drop(&rig, "order"), OK);
    assert_false(waits(&rig, send(&rig, queue, "g", "b")));
    assert_true(waits(&rig, b) && waits(&rig, later_a));
    audit(&rig);
    end(&rig, a, END_DELETED);
    assert_false(waits(&rig, b));
    assert_true(waits(&rig, later_a));
    end(&rig, unbound, END_DELETED);
    finish(&rig);
}

/* --- Require ------------------------------------------------------------------------------------------------------ */

static void a_required_type_must_have_succeeded(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *queue = create(&rig, "q", false);
    assert_int_equal(put_with(&rig, "order", "a b", 100, NULL), OK);
    uint64_t b = send(&rig, queue, "g", "b");
    assert_true(waits(&rig, b));
    uint64_t failing = send(&rig, queue, "g", "a"), foreign = send(&rig, queue, "h", "a");
    end(&rig, failing, END_FAILED);
    end(&rig, foreign, END_DELETED);
    assert_true(waits(&rig, b));
    struct type_blocker blockers[TYPES_MAX];
    assert_int_equal(type_order_blockers(rig.core, core_find_message(rig.core, b), blockers), 1);
    assert_true(blockers[0].needs_a_success && blockers[0].message == 0);
    audit(&rig);
    end(&rig, send(&rig, queue, "g", "a"), END_DELETED);
    assert_false(waits(&rig, b));
    pass(&rig, 99999);
    uint64_t in_time = send(&rig, queue, "g", "b");
    assert_false(waits(&rig, in_time));
    audit(&rig);
    pass(&rig, 1);
    assert_false(waits(&rig, in_time));
    assert_true(waits(&rig, send(&rig, queue, "g", "b")));
    finish(&rig);
}

static void a_success_still_counts_after_its_order_was_deleted(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *queue = create(&rig, "q", false);
    assert_int_equal(put_with(&rig, "order", "a b c", 100, NULL), OK);
    uint64_t c = send(&rig, queue, "g", "c");
    assert_int_equal(drop(&rig, "order"), OK);
    audit(&rig);
    end(&rig, send(&rig, queue, "g", "b"), END_DELETED);
    assert_true(waits(&rig, c));
    audit(&rig);
    uint64_t a = send(&rig, queue, "g", "a");
    assert_true(waits(&rig, c));
    end(&rig, a, END_DELETED);
    assert_false(waits(&rig, c));
    end(&rig, c, END_DELETED);
    assert_int_equal(rig.core->type_orders.groups.used, 0);
    /* What succeeded is forgotten with the last order that names the type. */
    assert_int_equal(put_with(&rig, "order", "a b", 100, NULL), OK);
    end(&rig, send(&rig, queue, "g", "a"), END_DELETED);
    assert_int_equal(put_with(&rig, "order", "a b", 50, NULL), OK);
    assert_false(waits(&rig, send(&rig, queue, "g", "b")));
    assert_int_equal(drop(&rig, "order"), OK);
    assert_int_equal(put_with(&rig, "order", "a b", 100, NULL), OK);
    assert_true(waits(&rig, send(&rig, queue, "g", "b")));
    finish(&rig);
}

static void a_success_that_is_over_leaves_nothing(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue *queue = create(&rig, "q", false);
    assert_int_equal(put_with(&rig, "order", "a b", 100, NULL), OK);
    char group[16];
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(group, sizeof(group), "g%u", i);
        end(&rig, send(&rig, queue, group, "a"), END_DELETED);
    }
    assert_int_equal(rig.core->type_orders.groups.used, 2000);
    assert_true(core_due_ms(rig.core) <= rig.now_ms + 100000);
    pass(&rig, 100000);
    assert_int_equal(rig.core->type_orders.groups.used, 0);
    assert_int_equal(rig.core->type_orders.lanes.used, 0);
    finish(&rig);
}

/* --- against a naive rule ----------------------------------------------------------------------------------------- */

#define MODEL_MESSAGES 120
#define MODEL_TYPES 6u
#define MODEL_GROUPS 3u
#define MODEL_ORDERS 3u

/* A message as the rule sees it. */
struct model_message {
    uint64_t number;
    unsigned group;
    unsigned type;
    bool is_bound;
    bool is_done;
    bool before[MODEL_TYPES];  /* types that had to come before when it was accepted */
    bool wanted[MODEL_TYPES];  /* required types that had not succeeded then */
    bool lacking[MODEL_TYPES]; /* and have not since */
};

struct model_order {
    unsigned count; /* 0: there is none */
    unsigned types[MODEL_TYPES];
    uint32_t retention_s;
};

struct model {
    struct core_rig rig;
    struct queue *queues[3];
    struct model_message messages[MODEL_MESSAGES];
    unsigned count;
    struct model_order orders[MODEL_ORDERS];
    uint64_t success_ms[MODEL_GROUPS][MODEL_TYPES]; /* 0: none since an order names it */
    uint64_t until_ms[MODEL_GROUPS][MODEL_TYPES];
};

static unsigned model_draw(struct model *model, unsigned end_of)
{
    return core_rig_draw(&model->rig, end_of);
}

static unsigned order_position(const struct model_order *order, unsigned type)
{
    unsigned position = 0;
    while (position < order->count && order->types[position] != type)
        position++;
    return position;
}

static bool model_names(const struct model *model, unsigned type)
{
    for (unsigned i = 0; i < MODEL_ORDERS; i++)
        if (order_position(&model->orders[i], type) < model->orders[i].count)
            return true;
    return false;
}

static bool model_is_wanted(const struct model *model, unsigned type)
{
    for (unsigned i = 0; i < model->count; i++)
        if (!model->messages[i].is_done && model->messages[i].wanted[type])
            return true;
    return false;
}

static void model_accept(struct model *model, struct model_message *message)
{
    uint64_t now_ms = model->rig.now_ms;
    message->is_bound = model_names(model, message->type) || model_is_wanted(model, message->type);
    for (unsigned i = 0; message->is_bound && i < MODEL_ORDERS; i++) {
        const struct model_order *order = &model->orders[i];
        unsigned position = order_position(order, message->type);
        for (unsigned k = 0; position < order->count && k < position; k++) {
            unsigned earlier = order->types[k];
            uint64_t success_ms = model->success_ms[message->group][earlier];
            message->before[earlier] = true;
            if (order->retention_s > 0 &&
                (success_ms == 0 || success_ms + (uint64_t)order->retention_s * 1000 <= now_ms ||
                 model->until_ms[message->group][earlier] <= now_ms))
                message->lacking[earlier] = message->wanted[earlier] = true;
        }
    }
}

static bool model_waits(const struct model *model, const struct model_message *message)
{
    for (unsigned type = 0; type < MODEL_TYPES; type++)
        if (message->lacking[type])
            return true;
    for (unsigned i = 0; i < model->count; i++) {
        const struct model_message *other = &model->messages[i];
        if (other->is_bound && !other->is_done && other->group == message->group && other->number < message->number &&
            message->before[other->type])
            return true;
    }
    return false;
}

static void model_end(struct model *model, struct model_message *message, bool is_success)
{
    message->is_done = true;
    if (!message->is_bound || !is_success)
        return;
    for (unsigned i = 0; i < model->count; i++)
        if (model->messages[i].group == message->group)
            model->messages[i].lacking[message->type] = false;
    uint32_t longest_s = 0;
    for (unsigned i = 0; i < MODEL_ORDERS; i++) {
        const struct model_order *order = &model->orders[i];
        bool is_earlier = order_position(order, message->type) + 1 < order->count;
        longest_s = is_earlier && order->retention_s > longest_s ? order->retention_s : longest_s;
    }
    if (longest_s == 0)
        return;
    model->success_ms[message->group][message->type] = model->rig.now_ms;
    model->until_ms[message->group][message->type] = model->rig.now_ms + (uint64_t)longest_s * 1000;
}

static const char *const model_names_of_types[] = {"a", "b", "c", "d", "e", "f"};
static const char *const model_names_of_orders[] = {"x", "y", "z"};
static const char *const model_names_of_groups[] = {"g", "h", "i"};

static void model_step_send(struct model *model)
{
    if (model->count == MODEL_MESSAGES)
        return;
    struct model_message *message = &model->messages[model->count];
    message->group = model_draw(model, MODEL_GROUPS);
    message->type = model_draw(model, MODEL_TYPES);
    model_accept(model, message);
    message->number = send(&model->rig, model->queues[model_draw(model, 3)], model_names_of_groups[message->group],
                           model_names_of_types[message->type]);
    model->count++;
}

static void model_step_end(struct model *model)
{
    if (model->count == 0)
        return;
    struct model_message *message = &model->messages[model_draw(model, model->count)];
    if (message->is_done)
        return;
    static const enum end_reason reasons[] = {END_DELETED, END_DELETED, END_TAKEN, END_FAILED, END_EXPIRED};
    unsigned drawn = model_draw(model, 6);
    if (drawn == 5)
        core_emit(core_rig_begin(&model->rig),
                  &(struct event){.kind = EVENT_DEAD_LETTERED,
                                  .dead_lettered = {.number = message->number, .queue = model->queues[0]->id}});
    else
        core_emit(core_rig_begin(&model->rig),
                  &(struct event){.kind = EVENT_ENDED, .ended = {.number = message->number, .reason = reasons[drawn]}});
    core_rig_end(&model->rig);
    model_end(model, message, drawn < 3);
}

static void model_forget_unnamed(struct model *model)
{
    for (unsigned type = 0; type < MODEL_TYPES; type++)
        for (unsigned group = 0; !model_names(model, type) && group < MODEL_GROUPS; group++)
            model->success_ms[group][type] = 0;
}

/* Puts a random order; whether it contradicts is judged by trying every chain. */
static void model_step_put(struct model *model)
{
    struct model_order order = {.count = 2 + model_draw(model, 3),
                                .retention_s = model_draw(model, 2) * (1 + model_draw(model, 100))};
    unsigned which = model_draw(model, MODEL_ORDERS);
    char types[32] = "";
    for (unsigned i = 0; i < order.count; i++) {
        do
            order.types[i] = model_draw(model, MODEL_TYPES);
        while (
            order_position(&(struct model_order){.count = i, .types = {order.types[0], order.types[1], order.types[2]}},
                           order.types[i]) < i);
        snprintf(types + strlen(types), 4, "%s ", model_names_of_types[order.types[i]]);
    }
    struct model_order old = model->orders[which];
    model->orders[which] = order;
    bool reaches[MODEL_TYPES][MODEL_TYPES] = {{false}};
    for (unsigned i = 0; i < MODEL_ORDERS; i++)
        for (unsigned k = 1; k < model->orders[i].count; k++)
            reaches[model->orders[i].types[k - 1]][model->orders[i].types[k]] = true;
    bool has_ring = false;
    for (unsigned via = 0; via < MODEL_TYPES; via++)
        for (unsigned from = 0; from < MODEL_TYPES; from++)
            for (unsigned to = 0; to < MODEL_TYPES; to++)
                reaches[from][to] |= reaches[from][via] && reaches[via][to];
    for (unsigned i = 0; i < MODEL_TYPES; i++)
        has_ring |= reaches[i][i];
    enum error error = put_with(&model->rig, model_names_of_orders[which], types, order.retention_s, NULL);
    assert_int_equal(error, has_ring ? ERROR_TYPE_ORDER_CONFLICT : OK);
    if (has_ring)
        model->orders[which] = old;
    model_forget_unnamed(model);
}

static void model_step_drop(struct model *model)
{
    unsigned which = model_draw(model, MODEL_ORDERS);
    enum error error = drop(&model->rig, model_names_of_orders[which]);
    assert_int_equal(error, model->orders[which].count > 0 ? OK : ERROR_TYPE_ORDER_DOES_NOT_EXIST);
    model->orders[which].count = 0;
    model_forget_unnamed(model);
}

static void model_play(uint64_t seed)
{
    struct model *model = calloc(1, sizeof(*model));
    core_rig_init(&model->rig, seed);
    model->queues[0] = create(&model->rig, "standard", false);
    model->queues[1] = create(&model->rig, "other", false);
    model->queues[2] = create(&model->rig, "line", true);
    for (unsigned step = 0; step < 100; step++) {
        unsigned drawn = model_draw(model, 20);
        if (drawn < 9)
            model_step_send(model);
        else if (drawn < 15)
            model_step_end(model);
        else if (drawn < 17)
            model_step_put(model);
        else if (drawn < 18)
            model_step_drop(model);
        else
            pass(&model->rig, model_draw(model, 60000));
        for (unsigned i = 0; i < model->count; i++)
            if (!model->messages[i].is_done &&
                waits(&model->rig, model->messages[i].number) != model_waits(model, &model->messages[i]))
                fail_msg("seed %llu, step %u: message %u", (unsigned long long)seed, step, i);
        core_check(model->rig.core);
    }
    finish(&model->rig);
    free(model);
}

static void two_thousand_random_histories_follow_the_rule(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= scaled(2000); seed++)
        model_play(seed);
}

/* --- damaged bytes ------------------------------------------------------------------------------------------------ */

/* Orders, waiting messages, messages that want a success, and a success that is remembered. */
static void make_rich(struct core_rig *rig)
{
    core_rig_init(rig, 1);
    struct queue *queues[] = {create(rig, "q", false), create(rig, "line", true)};
    assert_int_equal(put(rig, "plain", "a b c"), OK);
    assert_int_equal(put_with(rig, "required", "b c d", 5000, NULL), OK);
    end(rig, send(rig, queues[0], "g", "b"), END_DELETED);
    static const char *const types[] = {"a", "b", "c", "d", "b", "c"};
    for (unsigned i = 0; i < 24; i++)
        send(rig, queues[i % 2], i % 3 == 0 ? "g" : "h", types[i % 6]);
    assert_int_equal(drop(rig, "plain"), OK);
}

/* True if it is accepted; it must then be sound, and say the same when it is written again. */
static bool is_accepted(struct bytes encoded, struct buffer *again)
{
    struct core *core = core_create();
    bool is_good = core_bytes_decode(core, encoded);
    if (is_good) {
        core_check(core);
        core_rig_encode(core, again);
        assert_true(bytes_equal(encoded, buffer_bytes(again)));
    }
    core_destroy(core);
    return is_good;
}

static void damaged_bytes_are_refused_or_make_a_sound_state(void **state)
{
    (void)state;
    struct core_rig rig;
    make_rich(&rig);
    struct buffer encoded, again;
    buffer_init(&encoded);
    buffer_init(&again);
    core_rig_encode(rig.core, &encoded);
    struct bytes orders = core_rig_find_part(rig.core, &encoded, type_order_encode);
    size_t first = (size_t)(orders.ptr - encoded.data_owned);
    unsigned accepted_count = 0;
    for (size_t at = first; at < first + orders.size; at += is_scaled_down() ? 7 : 1) {
        for (unsigned bit = 0; bit < 8; bit++) {
            encoded.data_owned[at] ^= (uint8_t)(1u << bit);
            accepted_count += is_accepted(buffer_bytes(&encoded), &again);
            encoded.data_owned[at] ^= (uint8_t)(1u << bit);
        }
        assert_false(is_accepted(bytes_make(encoded.data_owned, at), &again));
    }
    assert_true(accepted_count > 0); /* a name with another letter is a name */
    buffer_deinit(&encoded);
    buffer_deinit(&again);
    finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T65_a_contradicting_order_is_refused_and_the_way_round_is_said),
        cmocka_unit_test(putting_the_same_list_again_does_nothing),
        cmocka_unit_test(a_namespace_has_64_types_and_gets_back_those_that_nothing_uses),
        cmocka_unit_test(T59_what_was_sent_before_goes_first_in_whatever_queue),
        cmocka_unit_test(one_end_lets_go_of_ten_thousand),
        cmocka_unit_test(a_change_binds_what_is_accepted_after_it),
        cmocka_unit_test(a_required_type_must_have_succeeded),
        cmocka_unit_test(a_success_still_counts_after_its_order_was_deleted),
        cmocka_unit_test(a_success_that_is_over_leaves_nothing),
        cmocka_unit_test(damaged_bytes_are_refused_or_make_a_sound_state),
        cmocka_unit_test(two_thousand_random_histories_follow_the_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
