#include "base/heap.h"

#include "random.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct timer {
    uint64_t key; /* what the model believes; the heap has its own */
    uint64_t order;
    uint32_t heap_index;
};

#define TIMER_COUNT 300

struct timers {
    struct slab pool;
    struct heap heap;
    uint32_t slots[TIMER_COUNT];
    struct random random;
};

static struct timer *timers_at(const struct timers *timers, uint32_t slot)
{
    return slab_at(&timers->pool, slot);
}

/* Orders run against the slots, so that a heap which compared slots would fail. */
static void timers_init(struct timers *timers, uint64_t seed)
{
    memset(timers, 0, sizeof(*timers));
    timers->random.state = seed;
    slab_init(&timers->pool, sizeof(struct timer));
    heap_init(&timers->heap, &timers->pool, offsetof(struct timer, heap_index), offsetof(struct timer, order));
    for (uint32_t i = 0; i < TIMER_COUNT; i++) {
        timers->slots[i] = slab_allocate(&timers->pool);
        timers_at(timers, timers->slots[i])->order = UINT64_C(1) << 40 | (TIMER_COUNT - i);
    }
}

static void timers_deinit(struct timers *timers)
{
    heap_deinit(&timers->heap);
    slab_deinit(&timers->pool);
}

static void timers_push(struct timers *timers, uint32_t slot, uint64_t key)
{
    timers_at(timers, slot)->key = key;
    heap_push(&timers->heap, key, slot);
}

/* The slot with the least (key, order), by looking at all. */
static uint32_t timers_least(const struct timers *timers)
{
    const struct timer *least = NULL;
    uint32_t least_slot = 0;
    for (uint32_t i = 0; i < TIMER_COUNT; i++) {
        const struct timer *timer = timers_at(timers, timers->slots[i]);
        if (timer->heap_index == 0)
            continue;
        if (least == NULL || timer->key < least->key || (timer->key == least->key && timer->order < least->order)) {
            least = timer;
            least_slot = timers->slots[i];
        }
    }
    return least_slot;
}

static void entries_leave_in_order_of_key(void **state)
{
    (void)state;
    struct timers timers;
    timers_init(&timers, 41);
    for (uint32_t i = 0; i < TIMER_COUNT; i++) {
        timers_push(&timers, timers.slots[i], random_u64(&timers.random));
        heap_check(&timers.heap);
    }
    uint64_t last = 0;
    while (timers.heap.count > 0) {
        struct heap_entry top = heap_top(&timers.heap);
        assert_true(top.key >= last);
        last = top.key;
        heap_remove(&timers.heap, top.slot);
        assert_int_equal(timers_at(&timers, top.slot)->heap_index, 0);
        heap_check(&timers.heap);
    }
    timers_deinit(&timers);
}

static void equal_keys_leave_in_order_of_their_order(void **state)
{
    (void)state;
    struct timers timers;
    timers_init(&timers, 42);
    for (uint32_t i = 0; i < TIMER_COUNT; i++)
        timers_push(&timers, timers.slots[i], UINT64_MAX);
    for (uint32_t i = TIMER_COUNT; i > 0; i--) {
        assert_int_equal(heap_top(&timers.heap).slot, timers.slots[i - 1]);
        heap_remove(&timers.heap, timers.slots[i - 1]);
    }
    timers_deinit(&timers);
}

static void random_operations_agree_with_the_model(void **state)
{
    (void)state;
    struct timers timers;
    timers_init(&timers, 43);
    uint32_t count = 0;
    for (int step = 0; step < 20000; step++) {
        uint32_t slot = timers.slots[random_below(&timers.random, TIMER_COUNT)];
        struct timer *timer = timers_at(&timers, slot);
        /* Few keys, so that ties are common. */
        uint64_t key = random_below(&timers.random, 50);
        if (timer->heap_index == 0) {
            timers_push(&timers, slot, key);
            count++;
        } else if (random_below(&timers.random, 2) == 0) {
            timer->key = key;
            heap_update(&timers.heap, key, slot);
        } else {
            heap_remove(&timers.heap, slot);
            count--;
        }
        assert_int_equal(timers.heap.count, count);
        if (count > 0) {
            struct heap_entry top = heap_top(&timers.heap);
            assert_int_equal(top.slot, timers_least(&timers));
            assert_int_equal(top.key, timers_at(&timers, top.slot)->key);
        }
        if (step % 16 == 0)
            heap_check(&timers.heap);
    }
    timers_deinit(&timers);
}

static void an_update_moves_an_entry_both_ways(void **state)
{
    (void)state;
    struct timers timers;
    timers_init(&timers, 44);
    for (uint32_t i = 0; i < TIMER_COUNT; i++)
        timers_push(&timers, timers.slots[i], 1000 + i);
    heap_update(&timers.heap, 1, timers.slots[200]);
    assert_int_equal(heap_top(&timers.heap).slot, timers.slots[200]);
    heap_update(&timers.heap, 5000, timers.slots[200]);
    assert_int_equal(heap_top(&timers.heap).slot, timers.slots[0]);
    heap_update(&timers.heap, 5000, timers.slots[200]);
    heap_check(&timers.heap);
    timers_deinit(&timers);
}

static void a_note_moves_with_its_entry_and_goes_with_it(void **state)
{
    (void)state;
    struct timers timers;
    timers_init(&timers, 47);
    for (uint32_t i = 0; i < TIMER_COUNT; i++) {
        timers_push(&timers, timers.slots[i], random_below(&timers.random, 50));
        assert_int_equal(heap_note(&timers.heap, timers.slots[i]), 0);
        assert_int_equal(heap_exchange_note(&timers.heap, timers.slots[i], i + 1), 0);
    }
    for (uint32_t i = 0; i < TIMER_COUNT; i += 2)
        heap_update(&timers.heap, random_below(&timers.random, 50), timers.slots[i]);
    for (uint32_t i = 0; i < TIMER_COUNT; i += 3) {
        heap_remove(&timers.heap, timers.slots[i]);
        timers_push(&timers, timers.slots[i], random_below(&timers.random, 50));
    }
    for (uint32_t i = 0; i < TIMER_COUNT; i++)
        assert_int_equal(heap_note(&timers.heap, timers.slots[i]), i % 3 == 0 ? 0 : i + 1);
    timers_deinit(&timers);
}

static void the_same_content_leaves_in_the_same_order_however_it_came(void **state)
{
    (void)state;
    uint32_t first[TIMER_COUNT];
    for (int round = 0; round < 5; round++) {
        struct timers timers;
        timers_init(&timers, 45);
        /* 7 and 300 have no common divisor: each round is another permutation of the pushes. */
        for (uint32_t i = 0; i < TIMER_COUNT; i++) {
            uint32_t which = (i * 7 + (uint32_t)round * 31) % TIMER_COUNT;
            timers_push(&timers, timers.slots[which], which % 10);
        }
        for (uint32_t i = 0; i < TIMER_COUNT; i++) {
            uint32_t slot = heap_top(&timers.heap).slot;
            if (round == 0)
                first[i] = slot;
            assert_int_equal(slot, first[i]);
            heap_remove(&timers.heap, slot);
        }
        timers_deinit(&timers);
    }
}

static void a_set_puts_in_moves_and_takes_out(void **state)
{
    (void)state;
    struct timers timers;
    timers_init(&timers, 45);
    uint32_t first = timers.slots[0], second = timers.slots[1];
    heap_set(&timers.heap, HEAP_NEVER, first); /* it is in no heap: nothing happens */
    assert_int_equal(timers.heap.count, 0);
    heap_set(&timers.heap, 5, first);
    heap_set(&timers.heap, 7, second);
    assert_int_equal(heap_top(&timers.heap).slot, first);
    heap_set(&timers.heap, 9, first);
    assert_int_equal(timers.heap.count, 2);
    assert_int_equal(heap_top(&timers.heap).slot, second);
    heap_set(&timers.heap, HEAP_NEVER, second);
    assert_int_equal(timers.heap.count, 1);
    assert_int_equal(timers_at(&timers, second)->heap_index, 0);
    heap_check(&timers.heap);
    timers_deinit(&timers);
}

/* Of 25 million messages that were given back a heap that doubles would keep 130 MB for nothing. */
static void a_large_heap_keeps_little_room_that_it_does_not_use(void **state)
{
    (void)state;
    const uint32_t count = 2000000;
    struct slab slab;
    struct heap heap;
    slab_init(&slab, sizeof(struct timer));
    heap_init(&heap, &slab, offsetof(struct timer, heap_index), offsetof(struct timer, order));
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t slot = slab_allocate(&slab);
        ((struct timer *)slab_at(&slab, slot))->order = i;
        heap_push(&heap, i, slot);
        assert_true(heap.capacity <= (1u << 19) || heap.capacity <= i + i / 8 + 1);
    }
    heap_deinit(&heap);
    slab_deinit(&slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_leave_in_order_of_key),
        cmocka_unit_test(equal_keys_leave_in_order_of_their_order),
        cmocka_unit_test(random_operations_agree_with_the_model),
        cmocka_unit_test(an_update_moves_an_entry_both_ways),
        cmocka_unit_test(a_note_moves_with_its_entry_and_goes_with_it),
        cmocka_unit_test(a_set_puts_in_moves_and_takes_out),
        cmocka_unit_test(the_same_content_leaves_in_the_same_order_however_it_came),
        cmocka_unit_test(a_large_heap_keeps_little_room_that_it_does_not_use),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
