/* Message lists against a naive model: delivery is by number, expiry by age, whatever happened to the messages
 * before. */
#include "core/messages/message_list.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define SLOT_MAX 3000u

struct rig {
    struct slab messages;
    struct slab message_lists;
    struct heap timers;
    uint32_t message_list;
    uint64_t number;
    uint64_t now_ms;
    bool is_live[SLOT_MAX];
};

static struct message_list *message_list_of(struct rig *rig)
{
    return slab_at(&rig->message_lists, rig->message_list);
}

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){.now_ms = 1000};
    slab_init(&rig->messages, sizeof(struct message));
    slab_init(&rig->message_lists, sizeof(struct message_list));
    heap_init(&rig->timers, &rig->messages, offsetof(struct message, heap_index), offsetof(struct message, number));
    rig->message_list = slab_allocate(&rig->message_lists);
    message_list_init(message_list_of(rig), &rig->messages, 1, 1);
}

static void rig_deinit(struct rig *rig)
{
    message_list_deinit(message_list_of(rig));
    heap_deinit(&rig->timers);
    slab_deinit(&rig->messages);
    slab_deinit(&rig->message_lists);
}

/* A new message, or one that was sent `age_ms` ago to another queue. */
static uint32_t arrive(struct rig *rig, bool is_moved, uint64_t number, uint64_t age_ms, enum message_state state)
{
    uint32_t slot = slab_allocate(&rig->messages);
    assert_true(slot < SLOT_MAX);
    struct message *message = message_at(&rig->messages, slot);
    message->number = number;
    message->sent_at_ms = rig->now_ms - age_ms;
    message->is_moved = is_moved;
    message->message_list = rig->message_list;
    message->visible_at_ms = rig->now_ms + 10;
    message_list_link(message_list_of(rig), &rig->messages, slot, message->sent_at_ms);
    message_list_enter_state(message_list_of(rig), &rig->timers, &rig->messages, slot, state);
    rig->is_live[slot] = true;
    return slot;
}

static void change_state(struct rig *rig, uint32_t slot, enum message_state state)
{
    message_list_leave_state(message_list_of(rig), &rig->timers, &rig->messages, slot);
    message_list_enter_state(message_list_of(rig), &rig->timers, &rig->messages, slot, state);
}

static void leave(struct rig *rig, uint32_t slot)
{
    message_list_leave_state(message_list_of(rig), &rig->timers, &rig->messages, slot);
    message_list_unlink(message_list_of(rig), &rig->messages, slot, message_at(&rig->messages, slot)->sent_at_ms);
    slab_free(&rig->messages, slot);
    rig->is_live[slot] = false;
}

/* What the message list should say next: walking everything. */
static void expect_next(struct rig *rig)
{
    uint32_t next = 0, oldest = 0;
    for (uint32_t slot = 1; slot < SLOT_MAX; slot++) {
        if (!rig->is_live[slot])
            continue;
        const struct message *message = message_at(&rig->messages, slot);
        if (message_is_deliverable(message) &&
            (next == 0 || message->number < message_at(&rig->messages, next)->number))
            next = slot;
        if (oldest == 0 || message->sent_at_ms < message_at(&rig->messages, oldest)->sent_at_ms)
            oldest = slot;
    }
    assert_int_equal(message_list_next_deliverable(message_list_of(rig), &rig->messages), next);
    uint32_t found = message_list_oldest(message_list_of(rig), &rig->messages);
    assert_int_equal(found == 0, oldest == 0);
    if (oldest != 0)
        assert_int_equal(message_at(&rig->messages, found)->sent_at_ms, message_at(&rig->messages, oldest)->sent_at_ms);
    message_list_check(message_list_of(rig), &rig->messages, rig->message_list);
}

static uint32_t draw_live(struct rig *rig, struct random *random)
{
    uint32_t start = random_below(random, SLOT_MAX);
    for (uint32_t i = 0; i < SLOT_MAX; i++) {
        uint32_t slot = (start + i) % SLOT_MAX;
        if (rig->is_live[slot])
            return slot;
    }
    return 0;
}

static void delivery_is_oldest_first_and_expiry_by_age(void **state)
{
    (void)state;
    static struct rig rig;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct random random = {.state = seed};
        rig_init(&rig);
        for (unsigned step = 0; step < 400; step++) {
            rig.now_ms += random_below(&random, 3);
            uint32_t slot = draw_live(&rig, &random);
            switch (random_below(&random, 7)) {
            case 0:
            case 1:
                arrive(&rig, false, rig.number += 2, 0,
                       random_below(&random, 4) == 0 ? MESSAGE_DELAYED : MESSAGE_FRESH);
                break;
            case 2: /* its number is odd, somewhere between those of the others */
                if (rig.number > 0)
                    arrive(&rig, true, 1 + UINT64_C(100000) * step, random_below(&random, 500), MESSAGE_RETURNED);
                break;
            case 3:
                slot = message_list_next_deliverable(message_list_of(&rig), &rig.messages);
                if (slot != 0)
                    change_state(&rig, slot, MESSAGE_IN_FLIGHT);
                break;
            case 4:
            case 5:
                if (slot != 0 && message_at(&rig.messages, slot)->state != MESSAGE_FRESH)
                    change_state(&rig, slot, random_below(&random, 2) == 0 ? MESSAGE_RETURNED : MESSAGE_IN_FLIGHT);
                break;
            default:
                if (slot != 0)
                    leave(&rig, slot);
            }
            expect_next(&rig);
        }
        for (uint32_t slot; (slot = draw_live(&rig, &random)) != 0;)
            leave(&rig, slot);
        expect_next(&rig);
        assert_int_equal(message_list_of(&rig)->count, 0);
        rig_deinit(&rig);
    }
}

static void a_message_given_back_comes_before_those_that_wait(void **state)
{
    (void)state;
    static struct rig rig;
    rig_init(&rig);
    uint32_t first = arrive(&rig, false, 1, 0, MESSAGE_FRESH);
    uint32_t second = arrive(&rig, false, 2, 0, MESSAGE_FRESH);
    assert_int_equal(message_list_next_deliverable(message_list_of(&rig), &rig.messages), first);
    change_state(&rig, first, MESSAGE_IN_FLIGHT);
    assert_int_equal(message_list_next_deliverable(message_list_of(&rig), &rig.messages), second);
    change_state(&rig, first, MESSAGE_RETURNED);
    assert_int_equal(message_list_next_deliverable(message_list_of(&rig), &rig.messages), first);
    assert_int_equal(message_list_visible_count(message_list_of(&rig)), 2);
    rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delivery_is_oldest_first_and_expiry_by_age),
        cmocka_unit_test(a_message_given_back_comes_before_those_that_wait),
    };
    return cmocka_run_group_tests_name("core shelf", tests, NULL, NULL);
}
