/* What is taken back is out of bounds: under AddressSanitizer a look at it, tried in a
 * child process, must be reported. */
#include "base/arena.h"
#include "base/buffer.h"
#include "base/heap.h"
#include "base/slab.h"
#include "server/input.h"
#include "server/pending_request.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef POISON_IS_SEEN
#include <sanitizer/asan_interface.h>

static void end_with_42(const char *report)
{
    (void)report;
    _exit(42);
}

static bool is_reported(void (*look)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        __sanitizer_set_report_path("stderr"); /* not where the suite looks for reports */
        __asan_set_error_report_callback(end_with_42);
        look();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}
#else
static bool is_reported(void (*look)(void))
{
    (void)look;
    return true; /* nobody watches */
}
#endif

struct record {
    uint64_t number;
    uint64_t rest[7];
};

static volatile uint64_t seen;

static void read_a_freed_record(void)
{
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    const struct record *record = slab_at(&slab, slab_allocate(&slab));
    slab_allocate(&slab);
    slab_free(&slab, 1);
    seen = record->rest[3];
}

static void write_a_record_that_was_never_given_out(void)
{
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    struct record *record = slab_at(&slab, slab_allocate(&slab));
    record[1].number = 1;
}

static void free_a_record_twice(void)
{
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    for (unsigned i = 0; i < 3; i++)
        slab_allocate(&slab);
    slab_free(&slab, 1);
    slab_free(&slab, 2);
    slab_free(&slab, 1);
}

static void read_an_arena_after_its_reset(void)
{
    struct arena arena;
    arena_init(&arena);
    const uint64_t *kept = arena_allocate(&arena, sizeof(*kept));
    arena_reset(&arena);
    seen = *kept;
}

static void write_past_the_end_in_an_arena(void)
{
    struct arena arena;
    arena_init(&arena);
    uint8_t *first = arena_allocate(&arena, 8);
    (void)arena_allocate(&arena, 8);
    first[8] = 1;
}

static void read_what_an_arena_has_moved(void)
{
    struct arena arena;
    arena_init(&arena);
    uint64_t *old = arena_allocate(&arena, sizeof(*old));
    *old = 1;
    (void)arena_resize(&arena, old, sizeof(*old), 64);
    seen = *old;
}

static void read_what_a_buffer_has_forgotten(void)
{
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append_bytes(&buffer, BYTES("a view that somebody keeps"));
    struct bytes view = buffer_bytes(&buffer);
    buffer_truncate(&buffer, 0);
    buffer_append_bytes(&buffer, BYTES("other"));
    seen = view.ptr[view.size - 1];
}

static void print_what_a_buffer_has_forgotten(void)
{
    char text[64];
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append_bytes(&buffer, BYTES("a view that somebody keeps"));
    struct bytes view = buffer_bytes(&buffer);
    buffer_truncate(&buffer, 0);
    seen = (uint64_t)snprintf(text, sizeof(text), "%.*s", BYTES_FORMAT(view));
}

static void read_the_top_of_an_empty_heap(void)
{
    struct timer {
        uint64_t order;
        uint32_t index;
    };
    struct slab slab;
    struct heap heap;
    slab_init(&slab, sizeof(struct timer));
    heap_init(&heap, &slab, offsetof(struct timer, index), offsetof(struct timer, order));
    uint32_t slot = slab_allocate(&slab);
    heap_push(&heap, 1, slot);
    heap_remove(&heap, slot);
    seen = heap.entries_owned[0].slot;
}

static void read_a_turn_that_was_given_back(void)
{
    struct pending_request_cache cache;
    pending_request_cache_init(&cache);
    struct pending_request *pending = pending_request_take(&cache, NULL);
    pending_request_give_back(&cache, pending);
    seen = pending->exchange.hold_sequence;
}

static void read_a_block_of_input_that_was_given_back(void)
{
    struct input_cache cache;
    struct input input = {0};
    size_t room;
    input_cache_init(&cache);
    const uint8_t *at = input_room(&input, &cache, 0, false, &room);
    input_release(&input, &cache);
    seen = at[100];
}

static void a_look_at_what_was_taken_back_is_reported(void **state)
{
    (void)state;
    assert_true(is_reported(read_a_freed_record));
    assert_true(is_reported(write_a_record_that_was_never_given_out));
    assert_true(is_reported(free_a_record_twice));
    assert_true(is_reported(read_an_arena_after_its_reset));
    assert_true(is_reported(write_past_the_end_in_an_arena));
    assert_true(is_reported(read_what_an_arena_has_moved));
    assert_true(is_reported(read_what_a_buffer_has_forgotten));
    assert_true(is_reported(read_the_top_of_an_empty_heap));
    assert_true(is_reported(read_a_turn_that_was_given_back));
    assert_true(is_reported(read_a_block_of_input_that_was_given_back));
}

/* AddressSanitizer passes over the text of a "%.*s". */
static void a_view_that_is_printed_is_looked_at_too(void **state)
{
    (void)state;
    assert_true(is_reported(print_what_a_buffer_has_forgotten));
}

static void what_is_given_out_again_may_be_used(void **state)
{
    (void)state;
    struct slab slab;
    slab_init(&slab, 12); /* borders inside the sanitizer's units of eight bytes */
    for (uint32_t slot = 1; slot <= 3000; slot++)
        memset(slab_at(&slab, slab_allocate(&slab)), 1, 12);
    for (uint32_t slot = 1; slot <= 3000; slot += 2)
        slab_free(&slab, slot);
    for (uint32_t slot = 2; slot <= 3000; slot += 2)
        memset(slab_at(&slab, slot), 2, 12);
    for (unsigned i = 0; i < 1500; i++)
        memset(slab_at(&slab, slab_allocate(&slab)), 3, 12);
    for (uint32_t slot = 1; slot <= 3000; slot++)
        assert_int_equal(*(const uint8_t *)slab_at(&slab, slot), slot % 2 == 0 ? 2 : 3);
    for (uint32_t slot = 1; slot <= 3000; slot++)
        slab_free(&slab, slot);
    slab_trim(&slab);
    memset(slab_at(&slab, slab_allocate(&slab)), 4, 12);
    slab_deinit(&slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_at_what_was_taken_back_is_reported),
        cmocka_unit_test(a_view_that_is_printed_is_looked_at_too),
        cmocka_unit_test(what_is_given_out_again_may_be_used),
    };
    return cmocka_run_group_tests_name("poison", tests, NULL, NULL);
}
