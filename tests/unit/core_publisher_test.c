/* What is remembered of published rows: limits, forgetting, ranges of ids, and that a replay and a snapshot remember
 * the same. */
#include "core/apply.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_receive.h"
#include "core/publishers/decide_publish.h"
#include "core/queues/decide_queue.h"
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

/* --- tools -------------------------------------------------------------------------------------------------------- */

#define TEN_MINUTES_MS 600000u

static const uint8_t source[PUBLISHER_ID_SIZE] = {5, 14, 14, 13};
static const uint8_t owner[PUBLISHER_ID_SIZE] = {1};

/* Rows that are acks of nothing would be stale, so rows are sends; of an empty body, to the one queue. */
struct bench {
    struct core_rig rig;
    struct queue *queue;
    uint64_t batch;
    struct buffer rows;
    struct buffer results; /* of the last batch */
};

static bool open_publisher(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t epoch)
{
    bool is_accepted = false;
    assert_int_equal(decide_open_publisher(core, id, epoch, owner, &is_accepted), OK);
    return is_accepted;
}

static void bench_init(struct bench *bench)
{
    *bench = (struct bench){.batch = 0};
    core_rig_init(&bench->rig, 1);
    struct queue_settings settings = core_rig_settings();
    core_rig_begin(&bench->rig);
    bench->queue = decide_create_queue(bench->rig.core, BYTES("q"), &settings);
    assert_true(open_publisher(bench->rig.core, source, 1));
    core_rig_end(&bench->rig);
    buffer_init(&bench->rows);
    buffer_init(&bench->results);
}

static void bench_deinit(struct bench *bench)
{
    buffer_deinit(&bench->rows);
    buffer_deinit(&bench->results);
    core_rig_deinit(&bench->rig);
}

static void add_named(struct bench *bench, uint64_t id, uint64_t uid)
{
    uint8_t text[PUBLISHER_ID_SIZE] = {0};
    bytes_put_u64(text + 8, uid);
    buffer_append_u64(&bench->rows, id);
    buffer_append(&bench->rows, text, sizeof(text));
}

/* A row whose uid is its id. */
static void add(struct bench *bench, uint64_t id)
{
    add_named(bench, id, id);
}

static void decide_rows(struct core *core, struct publication *publication, struct queue *queue)
{
    while (publication->next < publication->row_count) {
        if (decide_publish_known(core, publication, bytes_make(NULL, 0)))
            continue;
        struct send_command command = {
            .queue = queue, .content = {.body = BYTES("b"), .sender = core_name(core)}, .priority = PRIORITY_DEFAULT};
        struct send_result result;
        assert_int_equal(decide_publish_send(core, publication, &command, &result), OK);
    }
}

/* Publishes what was added, as the next batch; *stored: how many rows were not known. */
static enum error publish_confirming(struct bench *bench, uint64_t confirmed_batch, unsigned *stored)
{
    struct core *core = core_rig_begin(&bench->rig);
    struct publish_command command = {.epoch = 1,
                                      .batch = bench->batch + 1,
                                      .confirmed_batch = confirmed_batch,
                                      .rows = buffer_bytes(&bench->rows),
                                      .size_max = 1u << 20};
    memcpy(command.publisher, source, sizeof(source));
    memcpy(command.owner, owner, sizeof(owner));
    struct publication publication;
    bool is_repeat;
    enum error error = decide_publish_begin(core, &command, &publication, &is_repeat);
    if (error == OK) {
        assert_false(is_repeat);
        decide_rows(core, &publication, bench->queue);
        decide_publish_end(core, &publication);
        *stored = (unsigned)(publication.rows.size / PUBLISHER_ROW_SIZE);
        buffer_truncate(&bench->results, 0);
        buffer_append_bytes(&bench->results, buffer_bytes(&publication.results));
        decide_publish_deinit(&publication);
        bench->batch++;
    }
    core_rig_end(&bench->rig);
    buffer_truncate(&bench->rows, 0);
    return error;
}

/* All batches before it are confirmed. */
static unsigned publish(struct bench *bench)
{
    unsigned stored = 0;
    assert_int_equal(publish_confirming(bench, bench->batch, &stored), OK);
    return stored;
}

/* What became of the row with this index in the last batch; 0: it was stored. */
static unsigned fate_of(const struct bench *bench, uint32_t index)
{
    struct cursor cursor = cursor_make(buffer_bytes(&bench->results));
    while (cursor.rest.size > 0) {
        struct row_result result;
        assert_true(row_result_decode(&cursor, PUBLISHER_ROWS_MAX, &result));
        if (result.index == index)
            return result.fate;
    }
    return 0;
}

static unsigned publish_one(struct bench *bench, uint64_t id, uint64_t uid)
{
    add_named(bench, id, uid);
    publish(bench);
    return fate_of(bench, 0);
}

static struct publisher *publisher_of(const struct bench *bench)
{
    return publisher_at(bench->rig.core, publisher_find_slot(bench->rig.core, source));
}

static void pass_time(struct bench *bench, uint64_t ms)
{
    bench->rig.now_ms += ms;
    core_rig_begin(&bench->rig);
    core_rig_end(&bench->rig);
}

/* The live state, what a replay makes of the log, and what a snapshot makes of the state are one, swept or not. */
static void expect_one_state(const struct bench *bench)
{
    struct buffer live, other;
    buffer_init(&live);
    buffer_init(&other);
    core_check(bench->rig.core);
    core_rig_encode(bench->rig.core, &live);
    struct core *decoded = core_create();
    assert_true(core_bytes_decode(decoded, buffer_bytes(&live)));
    struct core *cores[] = {core_rig_replay(&bench->rig), decoded};
    for (size_t i = 0; i < 2; i++) {
        core_check(cores[i]);
        core_rig_encode(cores[i], &other);
        assert_true(bytes_equal(buffer_bytes(&live), buffer_bytes(&other)));
        core_destroy(cores[i]);
    }
    buffer_deinit(&live);
    buffer_deinit(&other);
}

static void sweep_all(struct bench *bench)
{
    core_rig_begin(&bench->rig);
    while (publisher_sweep(bench->rig.core, 7)) {
    }
    core_rig_end(&bench->rig);
}

/* --- forgetting --------------------------------------------------------------------------------------------------- */

static void a_confirmed_row_is_over_after_ten_minutes_swept_or_not(void **state)
{
    (void)state;
    for (unsigned is_swept = 0; is_swept < 2; is_swept++) {
        struct bench bench;
        bench_init(&bench);
        for (uint64_t id = 1; id <= 20; id++)
            add(&bench, id == 13 ? 1300 : id);
        assert_int_equal(publish(&bench), 20);
        pass_time(&bench, 5000);
        assert_int_equal(publish_one(&bench, 21, 21), 0); /* confirms the first */
        pass_time(&bench, TEN_MINUTES_MS - 1);
        expect_one_state(&bench);
        assert_int_equal(publisher_of(&bench)->confirmed_count, 20);
        pass_time(&bench, 1);
        expect_one_state(&bench);
        if (is_swept) {
            sweep_all(&bench);
            assert_int_equal(bench.rig.core->publishers.entries.used, 1);
            expect_one_state(&bench);
        }
        assert_int_equal(publish_one(&bench, 5, 5), ROW_TOO_OLD);
        assert_int_equal(publish_one(&bench, 5, 500), ROW_TOO_OLD);
        assert_int_equal(publish_one(&bench, 13, 13), 0);
        assert_int_equal(publish_one(&bench, 1300, 1300), ROW_TOO_OLD);
        assert_int_equal(publish_one(&bench, 21, 21), ROW_DUPLICATE);
        assert_int_equal(publisher_of(&bench)->forgotten.count, 3); /* 1 to 12, 14 to 20, 1300 */
        expect_one_state(&bench);
        bench_deinit(&bench);
    }
}

static void the_largest_id_is_one_like_others(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    assert_int_equal(publish_one(&bench, INT64_MAX, 1), 0);
    assert_int_equal(publish_one(&bench, INT64_MAX, 1), ROW_DUPLICATE);
    expect_one_state(&bench);
    bench_deinit(&bench);
}

static void a_row_that_is_not_confirmed_is_known_for_ever(void **state)
{
    (void)state;
    struct bench bench;
    unsigned stored;
    bench_init(&bench);
    add(&bench, 1);
    assert_int_equal(publish_confirming(&bench, 0, &stored), OK);
    add(&bench, 2);
    assert_int_equal(publish_confirming(&bench, 0, &stored), OK);
    pass_time(&bench, UINT64_C(1000) * 86400000);
    sweep_all(&bench);
    add(&bench, 1);
    add(&bench, 2);
    assert_int_equal(publish_confirming(&bench, 0, &stored), OK);
    assert_int_equal(stored, 0);
    expect_one_state(&bench);
    bench_deinit(&bench);
}

/* The run of one hash must not grow with the rows that have one id. */
static void rows_of_one_id_stand_once_in_the_table(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    for (uint64_t batch = 0; batch < 3; batch++) {
        for (uint64_t i = 0; i < 100; i++)
            add_named(&bench, 1, 100 * batch + i);
        assert_int_equal(publish(&bench), 100);
        pass_time(&bench, 1000);
    }
    const struct publishers *publishers = &bench.rig.core->publishers;
    assert_int_equal(publishers->entries.used, 300);
    assert_int_equal(publishers->reused_count, 299);
    assert_int_equal(table_count(&publishers->entry_by_id), 1);
    assert_int_equal(publish_one(&bench, 2, 301), 0); /* confirms the third batch */
    expect_one_state(&bench);
    pass_time(&bench, TEN_MINUTES_MS - 2000);
    sweep_all(&bench); /* of the first batch, and with it the row in the table */
    assert_int_equal(publishers->entries.used, 201);
    expect_one_state(&bench);
    assert_int_equal(publish_one(&bench, 1, 302), ROW_TOO_OLD);
    assert_int_equal(publish_one(&bench, 1, 299), ROW_DUPLICATE);
    pass_time(&bench, 2 * TEN_MINUTES_MS);
    sweep_all(&bench);
    assert_int_equal(publishers->entries.used, 0);
    assert_int_equal(table_count(&publishers->entry_by_id), 0);
    expect_one_state(&bench);
    bench_deinit(&bench);
}

#define SCALE_ROWS 1000u

static void publish_many(struct bench *bench, uint64_t first, unsigned batches, unsigned step)
{
    for (unsigned i = 0; i < batches; i++) {
        for (unsigned k = 0; k < SCALE_ROWS; k++)
            add(bench, first + (uint64_t)(i * SCALE_ROWS + k) * step);
        assert_int_equal(publish(bench), SCALE_ROWS);
        core_rig_forget_log(&bench->rig);
        core_rig_begin(&bench->rig);
        decide_purge_queue(bench->rig.core, bench->queue); /* the messages are of no interest here */
        while (decide_due(bench->rig.core)) {
        }
        core_rig_end(&bench->rig);
    }
}

static void of_more_than_a_million_confirmed_rows_the_oldest_are_forgotten(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct bench bench;
    bench_init(&bench);
    publish_many(&bench, 1, 1001, 1);
    assert_int_equal(publisher_of(&bench)->confirmed_count, PUBLISHER_CONFIRMED_MAX);
    assert_int_equal(publisher_of(&bench)->forgotten.count, 0);
    publish_many(&bench, 1001001, 1, 1);
    assert_int_equal(publisher_of(&bench)->confirmed_count, PUBLISHER_CONFIRMED_MAX);
    assert_int_equal(publisher_of(&bench)->forgotten.count, 1);
    assert_int_equal(publish_one(&bench, 1000, 1000), ROW_TOO_OLD);
    assert_int_equal(publish_one(&bench, 2000, 2000), ROW_TOO_OLD); /* the one before has confirmed a thousand more */
    assert_int_equal(publish_one(&bench, 2002, 2002), ROW_DUPLICATE);
    core_check(bench.rig.core);
    bench_deinit(&bench);
}

static void of_too_many_ranges_the_lowest_are_merged(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    publish_many(&bench, 10, 101, 2); /* 10, 12, …: each id a range of its own */
    assert_int_equal(publish_one(&bench, 9, 9), 0);
    pass_time(&bench, TEN_MINUTES_MS);
    sweep_all(&bench);
    struct publisher *publisher = publisher_of(&bench);
    assert_int_equal(publisher->forgotten.count, PUBLISHER_RANGES_MAX);
    assert_int_equal(id_ranges_at(&publisher->forgotten, 0)->first, 10);
    assert_int_equal(id_ranges_at(&publisher->forgotten, 0)->last, 10 + 2 * 1000);
    assert_int_equal(id_ranges_at(&publisher->forgotten, 1)->first, 10 + 2 * 1001);
    assert_int_equal(publish_one(&bench, 11, 11), ROW_TOO_OLD); /* nobody can say any more */
    assert_int_equal(publish_one(&bench, 10 + 2 * 1002 + 1, 1), 0);
    core_check(bench.rig.core);
    bench_deinit(&bench);
}

/* Nothing ends a publisher, so a loop that makes up sources must end somewhere; those that are there are never shut
 * out. */
static void at_their_number_no_new_publisher_is_opened_and_the_known_ones_are(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct core *core = core_rig_begin(&rig);
    const uint8_t second[PUBLISHER_ID_SIZE] = {2}, third[PUBLISHER_ID_SIZE] = {3};
    assert_true(open_publisher(core, source, 1));
    core->publishers.items.used += PUBLISHERS_MAX - 2; /* as if there were so many others */
    assert_true(open_publisher(core, second, 1));
    bool is_accepted;
    assert_int_equal(decide_open_publisher(core, third, 1, owner, &is_accepted), ERROR_OVER_LIMIT);
    assert_null(decide_find_publisher(core, third));
    assert_true(open_publisher(core, source, 2));
    assert_false(open_publisher(core, source, 1));
    core->publishers.items.used -= PUBLISHERS_MAX - 2;
    core_rig_end(&rig);
    core_check(core);
    core_rig_deinit(&rig);
}

/* R56: sources come and go; what is left of each is small, and what it confirmed is forgotten. */
static void R56_a_hundred_thousand_publishers_take_bounded_memory(void **state)
{
    (void)state;
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = core_rig_settings();
    struct queue *queue = decide_create_queue(core_rig_begin(&rig), BYTES("q"), &settings);
    core_rig_end(&rig);
    uint32_t count = (uint32_t)scaled(100000);
    for (uint32_t i = 0; i < count; i++) {
        struct core *core = core_rig_begin(&rig);
        uint8_t id[PUBLISHER_ID_SIZE] = {0};
        bytes_put_u32(id, i + 1);
        assert_true(open_publisher(core, id, 1));
        for (uint64_t batch = 1; batch <= 2; batch++) {
            uint8_t rows[3 * PUBLISHER_ROW_SIZE] = {0};
            for (unsigned k = 0; k < 3; k++) {
                bytes_put_u64(rows + k * PUBLISHER_ROW_SIZE, 10 * batch + k);
                bytes_put_u64(rows + k * PUBLISHER_ROW_SIZE + 8, 10 * batch + k);
            }
            struct publish_command command = {.epoch = 1,
                                              .batch = batch,
                                              .confirmed_batch = batch - 1,
                                              .rows = bytes_make(rows, sizeof(rows)),
                                              .size_max = 1u << 19};
            memcpy(command.publisher, id, sizeof(id));
            memcpy(command.owner, owner, sizeof(owner));
            struct publication publication;
            bool is_repeat;
            assert_int_equal(decide_publish_begin(core, &command, &publication, &is_repeat), OK);
            decide_rows(core, &publication, queue);
            decide_publish_end(core, &publication);
            decide_publish_deinit(&publication);
        }
        decide_purge_queue(core, queue);
        core_rig_end(&rig);
        core_rig_begin(&rig);
        while (decide_due(core)) {
        }
        core_rig_end(&rig);
        core_rig_forget_log(&rig);
        rig.now_ms += 100;
    }
    /* Of the last ten minutes, which are 6,000 publishers, all six rows are known; of the others the three that are not
     * confirmed. */
    struct core_metrics metrics = core_metrics(rig.core);
    assert_int_equal(metrics.publishers, count);
    assert_true(metrics.published_rows < 3 * count + 3 * 7000);
    assert_true(sizeof(struct publisher) <= 200);
    assert_true(sizeof(struct row_entry) == 40);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void too_many_unconfirmed_rows_are_refused_whole(void **state)
{
    (void)state;
    struct bench bench;
    unsigned stored;
    bench_init(&bench);
    for (unsigned i = 0; i < 100; i++) {
        for (unsigned k = 0; k < 1000; k++)
            add(&bench, 1 + i * 1000 + k);
        assert_int_equal(publish_confirming(&bench, 0, &stored), OK);
        core_rig_forget_log(&bench.rig);
    }
    uint64_t sent = core_metrics(bench.rig.core).sent;
    assert_int_equal(publisher_of(&bench)->unconfirmed_count, PUBLISHER_UNCONFIRMED_MAX);
    add(&bench, 200000);
    assert_int_equal(publish_confirming(&bench, 0, &stored), ERROR_PUBLISHER_IS_FULL);
    for (unsigned k = 0; k <= 1; k++)
        add(&bench, 300000 + k);
    assert_int_equal(publish_confirming(&bench, 0, &stored), ERROR_PUBLISHER_IS_FULL);
    assert_int_equal(core_metrics(bench.rig.core).sent, sent);
    assert_int_equal(publisher_of(&bench)->batch, 100);
    for (unsigned k = 0; k < 1000; k++)
        add(&bench, 400000 + k);
    assert_int_equal(publish_confirming(&bench, 1, &stored), OK); /* makes room for just as many */
    assert_int_equal(stored, 1000);
    core_check(bench.rig.core);
    bench_deinit(&bench);
}

/* What finds no room is put off, and all behind it; the first row always finds some. */
static void what_does_not_fit_a_record_is_put_off_in_order(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    struct core *core = core_rig_begin(&bench.rig);
    for (unsigned i = 0; i < 10; i++)
        add(&bench, 1 + i);
    struct publish_command command = {
        .epoch = 1, .batch = 1, .rows = buffer_bytes(&bench.rows), .size_max = 256 + 10 * 40 + 900};
    memcpy(command.publisher, source, sizeof(source));
    memcpy(command.owner, owner, sizeof(owner));
    struct publication publication;
    bool is_repeat;
    command.size_max = 100;
    assert_int_equal(decide_publish_begin(core, &command, &publication, &is_repeat), ERROR_OVER_LIMIT);
    command.size_max = 256 + 10 * 40 + 900;
    assert_int_equal(decide_publish_begin(core, &command, &publication, &is_repeat), OK);
    decide_rows(core, &publication, bench.queue);
    size_t size_before = publication.frame_size;
    decide_publish_end(core, &publication);
    assert_true(core->frame.events->size - size_before <= command.size_max);
    size_t stored = publication.rows.size / PUBLISHER_ROW_SIZE;
    assert_true(stored >= 2 && stored < 10);
    buffer_append_bytes(&bench.results, buffer_bytes(&publication.results));
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(fate_of(&bench, i), i < stored ? 0 : ROW_PUT_OFF);
    decide_publish_deinit(&publication);
    core_rig_end(&bench.rig);
    expect_one_state(&bench);
    bench_deinit(&bench);
}

/* --- what a log may say ------------------------------------------------------------------------------------------- */

static void events_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    assert_int_equal(publish_one(&bench, 1, 1), 0);
    uint8_t row[2 * PUBLISHER_ROW_SIZE] = {9};
    bytes_put_u64(row + PUBLISHER_ROW_SIZE, 10);
    row[PUBLISHER_ROW_SIZE + 8] = 2;
    struct event_published good = {
        .epoch = 1, .batch = 2, .row_count = 2, .rows = bytes_make(row, PUBLISHER_ROW_SIZE), .results = BYTES("")};
    memcpy(good.publisher, source, sizeof(source));
    memcpy(good.owner, owner, sizeof(owner));
    struct event_published bad[10];
    for (size_t i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].epoch = 2;
    bad[1].owner[0] = 2;
    bad[2].batch = 3;
    bad[3].confirmed_batch = 2;
    bad[4].row_count = 0;
    bad[5].row_count = PUBLISHER_ROWS_MAX + 1;
    bad[6].rows.size--;
    bad[7].results = BYTES("x");
    bad[8].publisher[0] = 77;
    bad[9].batch = 1;
    for (size_t i = 0; i < 10; i++)
        assert_false(apply_published(bench.rig.core, &bad[i]));
    struct event_publisher_opened opened = {.epoch = 1};
    memcpy(opened.publisher, source, sizeof(source));
    assert_false(apply_publisher_opened(bench.rig.core, &opened)); /* not above the one known */
    opened.epoch = (uint64_t)INT64_MAX + 1;
    assert_false(apply_publisher_opened(bench.rig.core, &opened));
    expect_one_state(&bench);
    assert_true(apply_published(bench.rig.core, &good));
    bench_deinit(&bench);
}

/* --- ranges ------------------------------------------------------------------------------------------------------- */

/* Against a plain array of flags. */
static void ranges_hold_what_was_added(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (unsigned round = 0; round < 50; round++) {
        struct id_ranges ranges = {0};
        bool is_in[302] = {false};
        for (unsigned i = 0; i < 250; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            uint64_t id = 1 + (random >> 33) % 300;
            id_ranges_add(&ranges, id, 1000);
            is_in[id] = true;
            id_ranges_check(&ranges, 1000);
        }
        unsigned count = 0;
        for (uint64_t id = 1; id <= 300; id++) {
            assert_int_equal(id_ranges_contain(&ranges, id), is_in[id]);
            count += is_in[id] && !is_in[id + 1];
        }
        assert_int_equal(ranges.count, count);
        id_ranges_deinit(&ranges);
    }
}

static void ranges_over_the_limit_hold_more_and_never_less(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct id_ranges ranges = {0};
    bool is_in[2002] = {false};
    for (unsigned i = 0; i < 600; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t id = 1 + (random >> 33) % 2000;
        id_ranges_add(&ranges, id, 20);
        is_in[id] = true;
        id_ranges_check(&ranges, 20);
        assert_true(id_ranges_contain(&ranges, id));
    }
    for (uint64_t id = 1; id <= 2000; id++)
        assert_true(!is_in[id] || id_ranges_contain(&ranges, id));
    assert_int_equal(ranges.count, 20);
    struct id_ranges copy;
    id_ranges_copy(&copy, &ranges);
    id_ranges_check(&copy, 20);
    struct id_ranges appended = {0};
    for (uint32_t i = 0; i < copy.count; i++)
        assert_true(id_ranges_append(&appended, *id_ranges_at(&copy, i)));
    uint64_t last = id_ranges_at(&copy, 19)->last;
    assert_false(id_ranges_append(&appended, (struct id_range){last + 1, last + 9}));
    assert_false(id_ranges_append(&appended, (struct id_range){last + 9, last + 8}));
    assert_true(id_ranges_append(&appended, (struct id_range){last + 2, last + 2}));
    id_ranges_deinit(&copy);
    id_ranges_deinit(&appended);
    id_ranges_deinit(&ranges);
}

/* A send and the end of a message as one batch, where the record has so much room. What became of the second row. */
static unsigned publish_end_within(uint64_t size_max)
{
    struct bench bench;
    bench_init(&bench);
    struct core *core = core_rig_begin(&bench.rig);
    assert_int_equal(core_rig_send(core, bench.queue, BYTES(""), BYTES("body"), 0), OK);
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    assert_int_equal(decide_receive(core, bench.queue, 1, 1000, UINT32_MAX, messages, &count), OK);
    char handle[HANDLE_TEXT_SIZE];
    handle_to_text(core_digest(core), &messages[0].handle, handle);
    core_rig_end(&bench.rig);
    bench.rig.now_ms += 5000; /* so the handle is late */
    core = core_rig_begin(&bench.rig);
    add(&bench, 1);
    add(&bench, 2);
    struct publish_command command = {.epoch = 1, .batch = 1, .rows = buffer_bytes(&bench.rows), .size_max = size_max};
    memcpy(command.publisher, source, sizeof(source));
    memcpy(command.owner, owner, sizeof(owner));
    struct publication publication;
    bool is_repeat;
    enum error error = decide_publish_begin(core, &command, &publication, &is_repeat);
    unsigned fate = UINT32_MAX;
    if (error == OK) {
        assert_false(decide_publish_known(core, &publication, bytes_make(NULL, 0)));
        const struct send_command send = {.queue = bench.queue,
                                          .content = {.body = BYTES("b"), .sender = core_name(core)},
                                          .priority = PRIORITY_DEFAULT};
        struct send_result result;
        assert_int_equal(decide_publish_send(core, &publication, &send, &result), OK);
        struct receipt_use use;
        if (!decide_publish_known(core, &publication, bytes_make(NULL, 0))) {
            decide_publish_delete(core, &publication, bench.queue, bytes_make(handle, sizeof(handle)), &use);
            bool is_done = core_find_message(core, messages[0].handle.message) == 0;
            assert_int_equal(use.is_late, is_done);
            assert_int_equal(use.late_ms, is_done ? 4000 : 0);
        }
        assert_int_equal(publication.next, 2);
        decide_publish_end(core, &publication);
        buffer_append_bytes(&bench.results, buffer_bytes(&publication.results));
        fate = fate_of(&bench, 1);
        assert_int_equal(publication.rows.size, (fate == 0 ? 2 : 1) * PUBLISHER_ROW_SIZE);
        assert_int_equal(core_find_message(core, messages[0].handle.message) != 0, fate == ROW_PUT_OFF);
        decide_publish_deinit(&publication);
    } else {
        assert_int_equal(error, ERROR_OVER_LIMIT);
    }
    core_rig_end(&bench.rig);
    core_check(bench.rig.core);
    bench_deinit(&bench);
    return fate;
}

static void the_end_of_a_message_that_does_not_fit_a_record_is_put_off(void **state)
{
    (void)state;
    unsigned counts[3] = {0}, before = UINT32_MAX;
    for (uint64_t size_max = 0; size_max < 1200; size_max++) {
        unsigned fate = publish_end_within(size_max);
        assert_true(fate == UINT32_MAX || fate == ROW_PUT_OFF || fate == 0);
        assert_true(before != 0 || fate == 0); /* with more room it fits as well */
        assert_true(before != ROW_PUT_OFF || fate != UINT32_MAX);
        counts[fate == UINT32_MAX ? 0 : fate == ROW_PUT_OFF ? 1 : 2]++;
        before = fate;
    }
    assert_true(counts[0] > 0 && counts[1] > 0 && counts[2] > 0);
}

static void only_a_publisher_that_has_published_nothing_is_claimed_and_once(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench);
    assert_int_equal(decide_find_publisher(bench.rig.core, source)->claim, 0);
    decide_claim_publisher(core_rig_begin(&bench.rig), source, 77);
    core_rig_end(&bench.rig);
    assert_int_equal(decide_find_publisher(bench.rig.core, source)->claim, 77);
    struct event_publisher_bound bound = {.claim = 78};
    memcpy(bound.publisher, source, sizeof(source));
    assert_false(apply_publisher_bound(bench.rig.core, &bound));
    assert_int_equal(decide_find_publisher(bench.rig.core, source)->claim, 77);
    assert_int_equal(publish_one(&bench, 1, 1), 0);
    expect_one_state(&bench);
    bench_deinit(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_confirmed_row_is_over_after_ten_minutes_swept_or_not),
        cmocka_unit_test(the_largest_id_is_one_like_others),
        cmocka_unit_test(a_row_that_is_not_confirmed_is_known_for_ever),
        cmocka_unit_test(rows_of_one_id_stand_once_in_the_table),
        cmocka_unit_test(of_more_than_a_million_confirmed_rows_the_oldest_are_forgotten),
        cmocka_unit_test(of_too_many_ranges_the_lowest_are_merged),
        cmocka_unit_test(at_their_number_no_new_publisher_is_opened_and_the_known_ones_are),
        cmocka_unit_test(R56_a_hundred_thousand_publishers_take_bounded_memory),
        cmocka_unit_test(too_many_unconfirmed_rows_are_refused_whole),
        cmocka_unit_test(what_does_not_fit_a_record_is_put_off_in_order),
        cmocka_unit_test(the_end_of_a_message_that_does_not_fit_a_record_is_put_off),
        cmocka_unit_test(only_a_publisher_that_has_published_nothing_is_claimed_and_once),
        cmocka_unit_test(events_that_do_not_fit_are_refused),
        cmocka_unit_test(ranges_hold_what_was_added),
        cmocka_unit_test(ranges_over_the_limit_hold_more_and_never_less),
    };
    return cmocka_run_group_tests_name("core publisher", tests, NULL, NULL);
}
