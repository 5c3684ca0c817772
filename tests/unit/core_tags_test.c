/* Tags of queues: runs of keys and values, and what becomes of them when the queue and the server go. */
#include "core/core.h"
#include "core/queues/decide_queue.h"
#include "core/queues/tags.h"

#include "support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A run of "a=1,b=2", or without '=' of keys only. */
static struct bytes run_of(struct buffer *run, const char *text)
{
    buffer_truncate(run, 0);
    for (const char *at = text; *text != '\0'; at++) {
        size_t size = strcspn(at, ",=");
        buffer_append_sized(run, bytes_make(at, size));
        at += size;
        if (*at == '\0')
            break;
    }
    return buffer_bytes(run);
}

static void expect_tags(struct bytes tags, const char *text)
{
    struct buffer expected;
    buffer_init(&expected);
    assert_true(bytes_equal(tags, run_of(&expected, text)));
    buffer_deinit(&expected);
}

static void runs_are_merged_and_taken_from(void **state)
{
    (void)state;
    static const struct {
        const char *tags, *added, *merged, *removed, *left;
    } rows[] = {
        {"", "", "", "a", ""},
        {"", "a=1,b=", "a=1,b=", "b", "a=1"},
        {"a=1,c=3", "b=2", "a=1,b=2,c=3", "c,a,x", "b=2"},
        {"a=1,c=3", "a=9,c=,d=4", "a=9,c=,d=4", "", "a=9,c=,d=4"},
        {"A=1", "a=2", "A=1,a=2", "a", "A=1"}, /* case counts */
    };
    struct buffer tags, added, merged, keys, left;
    struct buffer *buffers[] = {&tags, &added, &merged, &keys, &left};
    for (size_t i = 0; i < ARRAY_LENGTH(buffers); i++)
        buffer_init(buffers[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        buffer_truncate(&merged, 0);
        buffer_truncate(&left, 0);
        tags_merge(run_of(&tags, rows[i].tags), run_of(&added, rows[i].added), &merged);
        expect_tags(buffer_bytes(&merged), rows[i].merged);
        assert_true(tags_are_sound(buffer_bytes(&merged)));
        tags_remove(buffer_bytes(&merged), run_of(&keys, rows[i].removed), &left);
        expect_tags(buffer_bytes(&left), rows[i].left);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(buffers); i++)
        buffer_deinit(buffers[i]);
}

static void a_run_that_is_none_is_not_sound(void **state)
{
    (void)state;
    struct buffer run;
    buffer_init(&run);
    static const char *const unsound[] = {"b=1,a=2", "a=1,a=2", "=1"};
    for (size_t i = 0; i < ARRAY_LENGTH(unsound); i++)
        assert_false(tags_are_sound(run_of(&run, unsound[i])));
    struct bytes whole = run_of(&run, "a=1");
    for (size_t size = 1; size < whole.size; size++)
        assert_false(tags_are_sound(bytes_make(whole.ptr, size)));
    buffer_truncate(&run, 0);
    for (uint32_t i = 0; i <= TAGS_MAX; i++) {
        assert_true(tags_are_sound(buffer_bytes(&run)));
        assert_int_equal(tags_count(buffer_bytes(&run)), i);
        uint8_t key = (uint8_t)(i + 1);
        buffer_append_sized(&run, bytes_make(&key, 1));
        buffer_append_sized(&run, BYTES(""));
    }
    assert_false(tags_are_sound(buffer_bytes(&run)));
    buffer_deinit(&run);
}

static void a_queue_has_fifty_tags_at_most(void **state)
{
    (void)state;
    struct core_rig rig;
    struct buffer run;
    core_rig_init(&rig, 1);
    buffer_init(&run);
    struct queue_settings settings = core_rig_settings();
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = decide_create_queue(core, BYTES("q"), &settings);
    for (uint8_t key = 1; key <= TAGS_MAX; key++) {
        buffer_truncate(&run, 0);
        buffer_append_sized(&run, bytes_make(&key, 1));
        buffer_append_sized(&run, BYTES("x"));
        assert_int_equal(decide_tag_queue(core, queue, buffer_bytes(&run)), OK);
    }
    assert_int_equal(decide_tag_queue(core, queue, buffer_bytes(&run)), OK); /* the same once more */
    assert_int_equal(decide_tag_queue(core, queue, run_of(&run, "one more=")), ERROR_OVER_LIMIT);
    assert_int_equal(tags_count(queue->tags_owned), TAGS_MAX);
    core_rig_end(&rig);
    core_check(core);
    buffer_deinit(&run);
    core_rig_deinit(&rig);
}

/* What a log says of tags, of which each alone may be good. */
static bool is_replayed(struct core_rig *rig, const struct event *event)
{
    struct buffer payload;
    buffer_init(&payload);
    event_encode(event, &payload);
    struct failure failure;
    bool is_good = core_replay(rig->core, buffer_bytes(&payload), rig->position, rig->now_ms, &failure);
    buffer_deinit(&payload);
    return is_good;
}

static void tags_of_a_log_that_are_too_many_together_are_refused(void **state)
{
    (void)state;
    struct core_rig rig;
    struct buffer run, tag;
    core_rig_init(&rig, 1);
    buffer_init(&run);
    buffer_init(&tag);
    struct queue_settings settings = core_rig_settings();
    uint32_t queue = decide_create_queue(core_rig_begin(&rig), BYTES("q"), &settings)->id;
    core_rig_end(&rig);
    for (uint8_t key = 1; key <= TAGS_MAX; key++) {
        buffer_append_sized(&run, bytes_make(&key, 1));
        buffer_append_sized(&run, BYTES("x"));
    }
    struct event event = {.kind = EVENT_QUEUE_TAGGED, .queue_tagged = {.queue = queue, .tags = buffer_bytes(&run)}};
    assert_true(is_replayed(&rig, &event));
    event.queue_tagged.tags = run_of(&tag, "one more=1");
    assert_false(is_replayed(&rig, &event));
    const struct queue *tagged = core_find_queue(rig.core, BYTES("q"));
    assert_true(bytes_equal(tagged->tags_owned, buffer_bytes(&run)));
    event.queue_tagged.queue++;
    assert_false(is_replayed(&rig, &event));
    core_check(rig.core);
    buffer_deinit(&run);
    buffer_deinit(&tag);
    core_rig_deinit(&rig);
}

static void tags_go_with_their_queue_and_outlive_a_purge(void **state)
{
    (void)state;
    struct core_rig rig;
    struct buffer run;
    core_rig_init(&rig, 1);
    buffer_init(&run);
    struct queue_settings settings = core_rig_settings();
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = decide_create_queue(core, BYTES("q"), &settings);
    assert_int_equal(decide_tag_queue(core, queue, run_of(&run, "a=1")), OK);
    decide_purge_queue(core, queue);
    expect_tags(queue->tags_owned, "a=1");
    core_rig_end(&rig);
    size_t frames = rig.frame_count;
    core_rig_begin(&rig);
    decide_untag_queue(core, queue, run_of(&run, "x,y")); /* none of its own: nothing to say */
    core_rig_end(&rig);
    assert_int_equal(rig.frame_count, frames);
    core_rig_begin(&rig);
    assert_int_equal(decide_delete_queue(core, queue), OK);
    assert_int_equal(decide_create_queue(core, BYTES("q"), &settings)->tags_owned.size, 0);
    core_rig_end(&rig);
    core_check(core);
    buffer_deinit(&run);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_merged_and_taken_from),
        cmocka_unit_test(a_run_that_is_none_is_not_sound),
        cmocka_unit_test(a_queue_has_fifty_tags_at_most),
        cmocka_unit_test(tags_go_with_their_queue_and_outlive_a_purge),
        cmocka_unit_test(tags_of_a_log_that_are_too_many_together_are_refused),
    };
    return cmocka_run_group_tests_name("core tags", tests, NULL, NULL);
}
