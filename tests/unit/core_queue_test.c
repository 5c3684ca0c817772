/* Queues at the borders of their life: deleted while other records still speak of them. */
#include "core/core.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/order/group_list.h"
#include "core/queues/decide_queue.h"
#include "core/state.h"
#include "support/core_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Makes "source", whose one message has gone to "dead". */
static void make_dead_letter(struct core_rig *rig)
{
    struct queue_settings settings = core_rig_settings();
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    core_rig_init(rig, 1);
    struct core *core = core_rig_begin(rig);
    decide_create_queue(core, BYTES("dead"), &settings);
    settings.receive_count_max = 1;
    settings.dead_letter_arn = BYTES("arn:aws:sqs:us-east-1:000000000000:dead");
    struct queue *source = decide_create_queue(core, BYTES("source"), &settings);
    assert_int_equal(core_rig_send(core, source, BYTES(""), BYTES("x"), 0), OK);
    assert_int_equal(decide_receive(core, source, 1, 0, 10, messages, &count), OK);
    assert_int_equal(count, 1);
    assert_int_equal(decide_receive(core, source, 1, 0, 10, messages, &count), OK);
    assert_int_equal(count, 0);
    core_rig_end(rig);
}

static void a_deleted_queue_that_is_an_origin_has_nothing_to_deliver(void **state)
{
    (void)state;
    struct core_rig rig;
    make_dead_letter(&rig);
    struct core *core = core_rig_begin(&rig);
    struct queue *source = core_find_queue(core, BYTES("source"));
    assert_int_equal(core_rig_send(core, source, BYTES(""), BYTES("y"), 0), OK);
    assert_int_equal(decide_delete_queue(core, source), OK);
    core_rig_end(&rig);
    for (struct queue *queue; (queue = core_take_ready_queue(core)) != NULL;)
        assert_true(bytes_equal(queue->name_owned, BYTES("dead")));
    core_check(core);
    core_rig_deinit(&rig);
}

static void an_origin_lives_as_long_as_its_messages_and_gives_its_name_away(void **state)
{
    (void)state;
    struct core_rig rig;
    make_dead_letter(&rig);
    struct queue_settings settings = core_rig_settings();
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    struct core *core = core_rig_begin(&rig);
    assert_int_equal(decide_delete_queue(core, core_find_queue(core, BYTES("source"))), OK);
    struct queue *again = decide_create_queue(core, BYTES("source"), &settings);
    struct queue *dead = core_find_queue(core, BYTES("dead"));
    assert_int_equal(decide_receive(core, dead, 1, 1000, 10, messages, &count), OK);
    assert_int_equal(count, 1);
    assert_true(bytes_equal(messages[0].origin, BYTES("source")) && again->origin_count == 0);
    char text[HANDLE_TEXT_SIZE];
    handle_to_text(core_digest(core), &messages[0].handle, text);
    assert_int_equal(decide_delete(core, dead, bytes_make(text, sizeof(text)), NULL), OK);
    core_rig_end(&rig);
    core_check(core);
    assert_int_equal(core_queue_count(core), 2);
    core_rig_deinit(&rig);
}

/* Settings as today's, with something in every text. */
static struct queue_settings full_settings(void)
{
    struct queue_settings settings = core_rig_settings();
    settings.receive_count_max = 3;
    settings.dead_letter_arn = BYTES("arn:aws:sqs:us-east-1:000000000000:dead");
    settings.is_content_deduplicated = true;
    settings.policy = BYTES("{\"Statement\":[]}");
    settings.redrive_allow_policy = BYTES("{\"redrivePermission\":\"denyAll\"}");
    settings.kms_key = BYTES("alias/key");
    settings.kms_reuse_s = 60;
    settings.refuses_stale = true;
    return settings;
}

static void settings_come_back_and_no_part_of_them_does(void **state)
{
    (void)state;
    struct queue_settings settings = full_settings(), decoded;
    struct buffer encoded;
    buffer_init(&encoded);
    queue_settings_encode(&settings, &encoded);
    size_t first_size = 6 * 4 + 4 + settings.dead_letter_arn.size; /* as the versions before wrote them */
    size_t second_size = first_size + 8 + 2 * 4 + 17 + 2 * 12, third_size = encoded.size - 1;
    unsigned decoded_count = 0;
    for (size_t size = 0; size < encoded.size; size++)
        if (queue_settings_decode(bytes_make(encoded.data_owned, size), &decoded)) {
            assert_true(size == first_size || size == second_size || size == third_size);
            assert_false(decoded.refuses_stale);
            decoded_count++;
        }
    assert_int_equal(decoded_count, 3);
    assert_true(queue_settings_decode(buffer_bytes(&encoded), &decoded));
    assert_true(decoded.refuses_stale);
#define EXPECT_SAME(name) assert_true(bytes_equal(decoded.name, settings.name));
    QUEUE_SETTINGS_TEXTS(EXPECT_SAME)
    assert_int_equal(decoded.kms_reuse_s, 60);
    assert_false(decoded.is_sse_managed);
    encoded.data_owned[third_size] = 0; /* said, and not so: nobody writes that */
    assert_false(queue_settings_decode(buffer_bytes(&encoded), &decoded));
    settings.refuses_stale = false;
    encoded.size = 0;
    queue_settings_encode(&settings, &encoded);
    assert_int_equal(encoded.size, third_size); /* which the version before reads */
    buffer_deinit(&encoded);
}

/* Logs of the versions before this one hold such settings. */
static void settings_of_older_versions_have_the_defaults_for_what_they_lack(void **state)
{
    (void)state;
    struct queue_settings settings = full_settings(), decoded;
    struct buffer encoded;
    buffer_init(&encoded);
    queue_settings_encode(&settings, &encoded);
    size_t first_size = 6 * 4 + 4 + settings.dead_letter_arn.size;
    size_t sizes[] = {first_size, first_size + 8 + 2 * 4 + 17 + 2 * 12};
    for (unsigned i = 0; i < 2; i++) {
        assert_true(queue_settings_decode(bytes_make(encoded.data_owned, sizes[i]), &decoded));
        assert_true(bytes_equal(decoded.dead_letter_arn, settings.dead_letter_arn));
        assert_int_equal(decoded.is_content_deduplicated, i == 1);
        assert_int_equal(decoded.policy.size + decoded.redrive_allow_policy.size + decoded.kms_key.size, 0);
        assert_int_equal(decoded.kms_reuse_s, KMS_REUSE_DEFAULT_S);
        assert_true(decoded.is_sse_managed);
    }
    buffer_deinit(&encoded);
}

/* A setting that has values is read up to the last of them, and not beyond; and comes back as it was. */
static void settings_have_the_values_that_there_are(void **state)
{
    (void)state;
    struct queue_settings settings = full_settings(), decoded;
    struct buffer encoded, again;
    buffer_init(&encoded);
    buffer_init(&again);
    for (unsigned scope = 0; scope <= SCOPE_GROUP + 1u; scope++)
        for (unsigned failure = 0; failure <= GROUP_FAILURE_CANCEL_REST + 1u; failure++) {
            settings.deduplication_scope = (uint8_t)scope;
            settings.group_failure = (uint8_t)failure;
            buffer_truncate(&encoded, 0);
            queue_settings_encode(&settings, &encoded);
            const bool is_good = scope <= SCOPE_GROUP && failure <= GROUP_FAILURE_CANCEL_REST;
            assert_int_equal(queue_settings_decode(buffer_bytes(&encoded), &decoded), is_good);
            if (!is_good)
                continue;
            buffer_truncate(&again, 0);
            queue_settings_encode(&decoded, &again);
            assert_true(bytes_equal(buffer_bytes(&encoded), buffer_bytes(&again)));
        }
    buffer_deinit(&encoded);
    buffer_deinit(&again);
}

/* Two deliveries at once, then one every 500 microseconds. */
static void a_rate_lets_a_burst_through_and_then_one_at_a_time(void **state)
{
    (void)state;
    const struct rate rate = {.interval_us = 500, .burst = 2}, none = {0}, no_burst = {.interval_us = 500};
    const uint64_t now_ms = 10;
    uint64_t tat_us = rate_after_delivery(&rate, 0, now_ms);
    assert_int_equal(tat_us, 10500);
    assert_int_equal(rate_allows_at_ms(&rate, tat_us), 10); /* the second of the burst */
    tat_us = rate_after_delivery(&rate, tat_us, now_ms);
    assert_int_equal(tat_us, 11000);
    assert_int_equal(rate_allows_at_ms(&rate, tat_us), 11);
    assert_int_equal(rate_allows_at_ms(&rate, 11001), 11);
    assert_int_equal(rate_allows_at_ms(&rate, 11500), 11);
    assert_int_equal(rate_allows_at_ms(&rate, 11501), 12);
    assert_int_equal(rate_allows_at_ms(&rate, 500), 0);
    assert_int_equal(rate_allows_at_ms(&rate, 501), 1);
    assert_int_equal(rate_allows_at_ms(&no_burst, 1000), 1);
    assert_int_equal(rate_allows_at_ms(&none, tat_us), 0);
    assert_int_equal(rate_after_delivery(&none, tat_us, now_ms), 0);
    assert_int_equal(rate_after_change(&rate, 99000, now_ms), 11000); /* no longer empty than from now on */
    assert_int_equal(rate_after_change(&rate, 10999, now_ms), 10999);
}

static void an_arn_ends_with_the_name_of_its_queue(void **state)
{
    (void)state;
    assert_true(bytes_equal(queue_name_of_arn(BYTES("arn:aws:sqs:us-east-1:000000000000:q")), BYTES("q")));
    assert_true(bytes_equal(queue_name_of_arn(BYTES("q")), BYTES("q")));
    assert_int_equal(queue_name_of_arn(BYTES("arn:")).size, 0);
    assert_int_equal(queue_name_of_arn(BYTES("")).size, 0);
}

static void set_settings(struct core_rig *rig, const struct queue_settings *settings)
{
    struct core *core = core_rig_begin(rig);
    decide_set_queue(core, core_find_queue(core, BYTES("q")), settings);
    core_rig_end(rig);
    core_check(core);
}

static void a_queue_owns_the_texts_of_its_settings(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = full_settings();
    uint8_t text[] = "a key of its own";
    settings.kms_key = bytes_make(text, sizeof(text) - 1);
    decide_create_queue(core_rig_begin(&rig), BYTES("q"), &settings);
    core_rig_end(&rig);
    memset(text, 'x', sizeof(text));
    const struct queue *queue = core_find_queue(rig.core, BYTES("q"));
    assert_true(bytes_equal(queue->settings.kms_key, BYTES("a key of its own")));
    settings = queue->settings; /* SetQueueAttributes starts from views into the queue itself */
    settings.policy = BYTES("");
    set_settings(&rig, &settings);
    assert_true(bytes_equal(queue->settings.kms_key, BYTES("a key of its own")));
    assert_int_equal(queue->settings.policy.size, 0);
    core_rig_deinit(&rig);
}

static void what_has_expired_ends_in_portions(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = core_rig_settings();
    settings.retention_s = 60;
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = decide_create_queue(core, BYTES("q"), &settings);
    for (unsigned i = 0; i < 700; i++)
        assert_int_equal(core_rig_send(core, queue, BYTES(""), BYTES("x"), 0), OK);
    core_rig_end(&rig);
    rig.now_ms += 60000;
    core = core_rig_begin(&rig);
    assert_int_equal(core->messages.items.used, 700);
    assert_true(decide_due(core));
    assert_int_equal(core->messages.items.used, 200);
    assert_false(decide_due(core));
    assert_int_equal(core->messages.items.used, 0);
    core_rig_end(&rig);
    core_rig_deinit(&rig);
}

static void send_to_group(struct core *core, struct queue *queue, struct bytes group)
{
    const struct send_command command = {
        .queue = queue,
        .content = {.body = BYTES("x"), .sender = core_name(core), .group = group},
        .priority = PRIORITY_DEFAULT,
    };
    struct send_result result;
    assert_int_equal(decide_send(core, &command, &result), OK);
}

static void ready_groups_are_listed_in_pages(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = core_rig_settings();
    settings.is_fifo = true;
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = decide_create_queue(core, BYTES("q.fifo"), &settings);
    for (unsigned i = 0; i < 5; i++) {
        const uint8_t group = (uint8_t)('a' + i);
        send_to_group(core, queue, bytes_make(&group, 1));
    }
    core_rig_end(&rig);
    bool is_listed[5] = {false};
    struct group_view views[2];
    uint64_t position = 0;
    unsigned count = 0, pages = 0;
    do {
        const unsigned found = group_list(core, queue, GROUP_READY, &position, views, 2);
        for (unsigned i = 0; i < found; i++) {
            const unsigned index = (unsigned)(views[i].id.ptr[0] - 'a');
            assert_true(index < 5 && !is_listed[index]);
            is_listed[index] = true;
        }
        count += found;
        pages++;
    } while (position != 0);
    assert_int_equal(count, 5);
    assert_in_range(pages, 3, 4);
    core_rig_deinit(&rig);
}

/* Other groups of the namespace, more than a page looks at, come before it. */
static void a_group_is_found_by_its_id_wherever_it_stands(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = core_rig_settings();
    struct core *core = core_rig_begin(&rig);
    struct queue *many = decide_create_queue(core, BYTES("many"), &settings);
    for (unsigned i = 0; i < GROUP_LIST_VISITS_MAX; i++) {
        char name[12];
        snprintf(name, sizeof name, "%u", i);
        send_to_group(core, many, bytes_from_string(name));
    }
    settings.is_fifo = true;
    struct queue *queue = decide_create_queue(core, BYTES("q.fifo"), &settings);
    send_to_group(core, queue, BYTES("last"));
    core_rig_end(&rig);
    struct group_view view;
    uint64_t position = 0;
    assert_int_equal(group_list(core, queue, GROUP_ANY, &position, &view, 1), 0);
    assert_int_not_equal(position, 0);
    assert_true(group_view_find(core, queue, BYTES("last"), GROUP_ANY, &view));
    assert_true(bytes_equal(view.id, BYTES("last")));
    assert_int_equal(view.message_count, 1);
    assert_true(group_view_find(core, queue, BYTES("last"), GROUP_READY, &view));
    assert_false(group_view_find(core, queue, BYTES("last"), GROUP_BUSY, &view));
    assert_false(group_view_find(core, queue, BYTES("1"), GROUP_ANY, &view));
    assert_false(group_view_find(core, many, BYTES("last"), GROUP_ANY, &view));
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deleted_queue_that_is_an_origin_has_nothing_to_deliver),
        cmocka_unit_test(an_origin_lives_as_long_as_its_messages_and_gives_its_name_away),
        cmocka_unit_test(settings_come_back_and_no_part_of_them_does),
        cmocka_unit_test(settings_of_older_versions_have_the_defaults_for_what_they_lack),
        cmocka_unit_test(settings_have_the_values_that_there_are),
        cmocka_unit_test(a_rate_lets_a_burst_through_and_then_one_at_a_time),
        cmocka_unit_test(an_arn_ends_with_the_name_of_its_queue),
        cmocka_unit_test(a_queue_owns_the_texts_of_its_settings),
        cmocka_unit_test(what_has_expired_ends_in_portions),
        cmocka_unit_test(ready_groups_are_listed_in_pages),
        cmocka_unit_test(a_group_is_found_by_its_id_wherever_it_stands),
    };
    return cmocka_run_group_tests_name("core queue", tests, NULL, NULL);
}
