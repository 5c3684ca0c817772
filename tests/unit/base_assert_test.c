/* What stops the program is tried in a child process. */
#include "base/assert.h"
#include "base/buffer.h"
#include "base/heap.h"
#include "base/slab.h"
#include "base/table.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Runs `action` in a child, which must die of SIGABRT having said `words` on standard error. */
static void assert_stops(void (*action)(void), const char *words)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        signal(SIGABRT, SIG_DFL);
        action();
        _exit(0);
    }
    close(ends[1]);
    char said[1000];
    size_t size = 0;
    ssize_t more;
    while (size < sizeof(said) - 1 && (more = read(ends[0], said + size, sizeof(said) - 1 - size)) > 0)
        size += (size_t)more;
    said[size] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, words));
}

static void claim_falsely(void)
{
    int messages = 3;
    ASSERT(messages == 4);
}

static void remove_what_is_not_in_the_table(void)
{
    struct table table;
    table_init(&table);
    table_insert(&table, 1, 1);
    table_remove(&table, 1, 2);
}

static void insert_slot_zero(void)
{
    struct table table;
    table_init(&table);
    table_insert(&table, 1, 0);
}

static void free_more_than_was_allocated(void)
{
    struct slab slab;
    slab_init(&slab, 8);
    slab_free(&slab, 1);
}

static void push_twice(void)
{
    struct record {
        uint64_t order;
        uint32_t index;
    };
    struct slab slab;
    slab_init(&slab, sizeof(struct record));
    uint32_t slot = slab_allocate(&slab);
    struct heap heap;
    heap_init(&heap, &slab, offsetof(struct record, index), offsetof(struct record, order));
    heap_push(&heap, 1, slot);
    heap_push(&heap, 2, slot);
}

static void truncate_to_more(void)
{
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_truncate(&buffer, 1);
}

static void a_false_claim_stops_the_program_and_says_what_was_claimed(void **state)
{
    (void)state;
    assert_stops(claim_falsely, "base_assert_test.c:");
    assert_stops(claim_falsely, "assertion failed: messages == 4");
}

static void a_broken_precondition_stops_the_program(void **state)
{
    (void)state;
    assert_stops(remove_what_is_not_in_the_table, "table.c");
    assert_stops(insert_slot_zero, "slot != 0");
    assert_stops(free_more_than_was_allocated, "slab.c");
    assert_stops(push_twice, "heap.c");
    assert_stops(truncate_to_more, "buffer.c");
}

/* The child's standard error is a pipe that is full and that nobody reads. */
static void a_false_claim_stops_the_program_though_nobody_reads_standard_error(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], "", 1) == 1)
        continue;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        (void)alarm(20);
        claim_falsely();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    close(ends[0]);
    close(ends[1]);
}

static void a_true_claim_is_evaluated_once(void **state)
{
    (void)state;
    int count = 0;
    ASSERT(++count == 1);
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_false_claim_stops_the_program_and_says_what_was_claimed),
        cmocka_unit_test(a_broken_precondition_stops_the_program),
        cmocka_unit_test(a_false_claim_stops_the_program_though_nobody_reads_standard_error),
        cmocka_unit_test(a_true_claim_is_evaluated_once),
    };
    return cmocka_run_group_tests_name("assert", tests, NULL, NULL);
}
