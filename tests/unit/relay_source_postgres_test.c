/* PostgreSQL as a source, at its own border: what a later owner leaves of an earlier one's requests, what a repeat
 * does, what a scan reads.
 *
 * Needs an outbox of its own in a server: TALLY_TEST_POSTGRES is its connection string, and
 * tests/system/test_relay_postgres.py gives it. Without it there is nothing to test. */
#include "platform/monotonic.h"
#include "relay/lease_postgres.h"
#include "relay/schema.h"
#include "relay/source_postgres.h"

#include <libpq-fe.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    PGconn *application;
    PGconn *late; /* has a transaction open; NULL: there is none */
    struct relay_spec spec;
    struct source *source;
    struct lease *lease;
    struct term term;
    struct rows rows;
    struct fault fault;
};

static const char *ask(struct fixture *fixture, const char *sql)
{
    static char answer[200];
    PGresult *result = PQexec(fixture->application, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(fixture->application));
    snprintf(answer, sizeof(answer), "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return answer;
}

static struct term take(struct fixture *fixture)
{
    struct lease_view view;
    struct term term;
    bool is_mine = false;
    const struct lease_ops *ops = fixture->lease->ops;
    if (ops->peek(fixture->lease, &view, &fixture->fault) != STEP_OK ||
        ops->take_over(fixture->lease, &view, 0, &term, &is_mine, &fixture->fault) != STEP_OK)
        fail_msg("%s", fixture->fault.text);
    assert_true(is_mine);
    return term;
}

static int setup_as(void **state, bool is_pooled)
{
    const char *uri = getenv("TALLY_TEST_POSTGRES");
    *state = NULL;
    if (uri == NULL)
        return 0;
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->application = PQconnectdb(uri);
    assert_int_equal(PQstatus(fixture->application), CONNECTION_OK);
    ask(fixture, "SET client_min_messages = warning");
    ask(fixture, "DROP SCHEMA IF EXISTS tally CASCADE");
    ask(fixture, relay_schema_text(SOURCE_POSTGRES));
    relay_spec_init(&fixture->spec);
    fixture->spec.connection_owned = strdup(uri);
    fixture->spec.is_pooled = is_pooled;
    fixture->spec.lease_ms = 3000;
    fixture->source = source_postgres_create(&fixture->spec);
    fixture->lease = lease_postgres_create(&fixture->spec);
    fixture->term = take(fixture);
    rows_init(&fixture->rows);
    *state = fixture;
    return 0;
}

static int setup(void **state)
{
    return setup_as(state, false);
}

static int setup_pooled(void **state)
{
    return setup_as(state, true);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    if (fixture == NULL)
        return 0;
    fixture->source->ops->close(fixture->source);
    fixture->lease->ops->close(fixture->lease);
    rows_deinit(&fixture->rows);
    relay_spec_deinit(&fixture->spec);
    PQfinish(fixture->late);
    PQfinish(fixture->application);
    free(fixture);
    return 0;
}

static struct fixture *fixture_of(void **state)
{
    if (*state == NULL)
        skip();
    return *state;
}

/* --- one call each ------------------------------------------------------------------------------------------------ */

static enum step scan(struct fixture *fixture, const struct term *term, const struct row_name *done, size_t done_count,
                      const struct row_name *in_flight, size_t count, unsigned limit, size_t size_max)
{
    const struct source_ops *ops = fixture->source->ops;
    enum step step =
        ops->begin_scan(fixture->source, term, done, done_count, in_flight, count, limit, size_max, &fixture->fault);
    return step == STEP_OK ? ops->end_scan(fixture->source, &fixture->rows, &fixture->fault) : step;
}

static struct row_name name_of(const struct row *row)
{
    return (struct row_name){.id = row->id, .uid = row->uid};
}

/* Writes `count` rows and reads them all. */
static void fill(struct fixture *fixture, int count, int size)
{
    char sql[200];
    snprintf(sql, sizeof(sql),
             "INSERT INTO tally.outbox(queue, body) SELECT 'q', repeat('x', %d) FROM generate_series(1, %d)", size,
             count);
    ask(fixture, sql);
    assert_int_equal(scan(fixture, &fixture->term, NULL, 0, NULL, 0, 1000, 1 << 20), STEP_OK);
    assert_int_equal(fixture->rows.count, count);
}

static enum step note(struct fixture *fixture, const struct term *term, uint64_t last, uint64_t next,
                      const struct row_name *names, size_t count)
{
    return fixture->source->ops->note(fixture->source, term, last, next, names, count, &fixture->fault);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void R46_an_earlier_owner_deletes_parks_and_notes_nothing(void **state)
{
    struct fixture *fixture = fixture_of(state);
    const struct source_ops *ops = fixture->source->ops;
    fill(fixture, 3, 1);
    struct row_name names[3];
    for (int i = 0; i < 3; i++)
        names[i] = name_of(&fixture->rows.items_owned[i]);
    struct row parked = fixture->rows.items_owned[0];
    assert_int_equal(note(fixture, &fixture->term, 0, 1, names, 3), STEP_OK);
    struct intent intent = {.epoch = fixture->term.epoch, .number = 1};

    struct term earlier = fixture->term;
    fixture->term = take(fixture);
    assert_int_equal(fixture->term.epoch, earlier.epoch + 1);
    assert_int_equal(scan(fixture, &earlier, names, 3, NULL, 0, 1000, 1 << 20), STEP_FENCED);
    assert_int_equal(ops->park(fixture->source, &earlier, &parked, "bad", false, &fixture->fault), STEP_FENCED);
    assert_int_equal(note(fixture, &earlier, 1, 2, names, 3), STEP_FENCED);
    assert_int_equal(ops->end_intent(fixture->source, &earlier, &intent, names, 3, &fixture->fault), STEP_FENCED);
    assert_int_equal(fixture->lease->ops->beat(fixture->lease, &earlier, &fixture->fault), STEP_FENCED);
    assert_string_equal(ask(fixture, "SELECT count(*) FROM tally.outbox"), "3");
    assert_string_equal(ask(fixture, "SELECT count(*) FROM tally.dead"), "0");
    assert_string_equal(ask(fixture, "SELECT string_agg(epoch || '/' || seq, ' ') FROM tally.intent"), "1/1");
    assert_int_equal(scan(fixture, &fixture->term, names, 3, NULL, 0, 1000, 1 << 20), STEP_OK);
    assert_string_equal(ask(fixture, "SELECT count(*) FROM tally.outbox"), "0");
}

static void R13_a_delete_may_be_repeated_and_takes_no_other_row_of_the_same_id(void **state)
{
    struct fixture *fixture = fixture_of(state);
    fill(fixture, 2, 1);
    struct row_name names[2] = {name_of(&fixture->rows.items_owned[0]), name_of(&fixture->rows.items_owned[1])};
    uid_generate(&names[1].uid); /* as a failover gives the id to another row */
    for (int i = 0; i < 2; i++) {
        do { /* where they are not all there, it may begin again and look at everything */
            assert_int_equal(scan(fixture, &fixture->term, names, 2, NULL, 0, 1000, 1 << 20), STEP_OK);
        } while (fixture->rows.count == 0);
        assert_int_equal(fixture->rows.count, 1);
        assert_int_equal(fixture->rows.items_owned[0].id, names[1].id);
    }
}

static void a_scan_leaves_out_what_is_in_flight_and_ends_at_its_bounds(void **state)
{
    struct fixture *fixture = fixture_of(state);
    fill(fixture, 50, 1000);
    struct row_name in_flight[2] = {name_of(&fixture->rows.items_owned[0]), name_of(&fixture->rows.items_owned[2])};
    assert_int_equal(scan(fixture, &fixture->term, NULL, 0, in_flight, 2, 3, 1 << 20), STEP_OK);
    assert_int_equal(fixture->rows.count, 3);
    assert_int_equal(fixture->rows.items_owned[0].id, in_flight[0].id + 1);
    assert_int_equal(fixture->rows.items_owned[1].id, in_flight[1].id + 1);
    assert_int_equal(scan(fixture, &fixture->term, NULL, 0, NULL, 0, 1000, 10000), STEP_OK);
    assert_in_range(fixture->rows.count, 9, 11);
    assert_int_equal(scan(fixture, &fixture->term, NULL, 0, NULL, 0, 1000, 1), STEP_OK);
    assert_int_equal(fixture->rows.count, 1); /* always one, however large it is */
}

static void an_intent_is_noted_once_and_found_until_it_is_over(void **state)
{
    struct fixture *fixture = fixture_of(state);
    const struct source_ops *ops = fixture->source->ops;
    fill(fixture, 6, 1);
    struct row_name names[6];
    for (int i = 0; i < 6; i++)
        names[i] = name_of(&fixture->rows.items_owned[i]);
    assert_int_equal(note(fixture, &fixture->term, 0, 1, names, 2), STEP_OK);
    assert_int_equal(note(fixture, &fixture->term, 0, 1, names, 2), STEP_OK); /* its answer was lost */
    for (int i = 0; i < 2; i++)
        assert_int_equal(note(fixture, &fixture->term, 1, 2, names + 2, 4), STEP_OK);
    assert_string_equal(ask(fixture, "SELECT count(*) FROM tally.outbox"), "4");

    fixture->term = take(fixture);
    struct intent intent, none;
    bool is_open = false;
    assert_int_equal(
        ops->find_intent(fixture->source, &fixture->term, NULL, &intent, &fixture->rows, &is_open, &fixture->fault),
        STEP_OK);
    assert_true(is_open);
    assert_int_equal(intent.epoch, 1);
    assert_int_equal(intent.number, 2);
    assert_int_equal(intent.count, 4);
    assert_memory_equal(&intent.names[3].uid, &names[5].uid, UID_SIZE);
    assert_int_equal(
        ops->find_intent(fixture->source, &fixture->term, &intent, &none, &fixture->rows, &is_open, &fixture->fault),
        STEP_OK);
    assert_false(is_open);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ops->end_intent(fixture->source, &fixture->term, &intent, names + 2, 3, &fixture->fault),
                         STEP_OK);
    assert_string_equal(ask(fixture, "SELECT count(*) FROM tally.intent"), "0");
    assert_string_equal(ask(fixture, "SELECT count(*) FROM tally.outbox"), "1");
    assert_int_equal(note(fixture, &fixture->term, 0, 0, NULL, 0), STEP_OK); /* nothing over, nothing next */
}

static void R58_a_parked_row_is_listed_and_sent_again_at_the_end_or_dropped(void **state)
{
    struct fixture *fixture = fixture_of(state);
    const struct source_ops *ops = fixture->source->ops;
    fill(fixture, 3, 1);
    struct row first = fixture->rows.items_owned[0], second = fixture->rows.items_owned[1];
    for (int i = 0; i < 2; i++)
        assert_int_equal(ops->park(fixture->source, &fixture->term, &first, "too long", false, &fixture->fault),
                         STEP_OK);
    assert_int_equal(ops->park(fixture->source, &fixture->term, &second, "no answer", true, &fixture->fault), STEP_OK);

    struct arena arena;
    arena_init(&arena);
    struct parked *parked;
    size_t count;
    assert_int_equal(ops->list_parked(fixture->source, 10, &arena, &parked, &count, &fixture->fault), STEP_OK);
    assert_int_equal(count, 2);
    assert_true(bytes_equal(parked[0].error, BYTES("too long")) && !parked[0].is_doubted && parked[1].is_doubted);
    arena_deinit(&arena);
    struct source_health health;
    assert_int_equal(ops->check_health(fixture->source, &health, &fixture->fault), STEP_OK);
    assert_int_equal(health.parked_count, 2);
    assert_int_equal(health.waiting_count, 1);

    bool is_found = false;
    assert_int_equal(ops->resolve(fixture->source, &first.uid, RESOLUTION_SEND, &is_found, &fixture->fault), STEP_OK);
    assert_true(is_found);
    assert_int_equal(ops->resolve(fixture->source, &first.uid, RESOLUTION_SEND, &is_found, &fixture->fault), STEP_OK);
    assert_false(is_found);
    assert_int_equal(ops->resolve(fixture->source, &second.uid, RESOLUTION_DROP, &is_found, &fixture->fault), STEP_OK);
    assert_true(is_found);
    assert_string_equal(ask(fixture, "SELECT count(*) FROM tally.dead"), "0");
    assert_int_equal(scan(fixture, &fixture->term, NULL, 0, NULL, 0, 1000, 1 << 20), STEP_OK);
    assert_int_equal(fixture->rows.count, 2);
    assert_memory_equal(&fixture->rows.items_owned[1].uid, &first.uid, UID_SIZE);
    assert_true(fixture->rows.items_owned[1].id > second.id + 1);
}

static void what_is_given_up_is_free_and_a_takeover_goes_above_what_a_sink_knows(void **state)
{
    struct fixture *fixture = fixture_of(state);
    const struct lease_ops *ops = fixture->lease->ops;
    struct lease_view view;
    struct uid nobody = {{0}};
    ops->give_up(fixture->lease, &fixture->term);
    assert_int_equal(ops->peek(fixture->lease, &view, &fixture->fault), STEP_OK);
    assert_memory_equal(&view.term.owner, &nobody, sizeof(nobody));
    assert_int_equal(ops->beat(fixture->lease, &fixture->term, &fixture->fault), STEP_FENCED);
    bool is_mine = false;
    struct term term;
    assert_int_equal(ops->take_over(fixture->lease, &view, UINT64_C(1) << 40, &term, &is_mine, &fixture->fault),
                     STEP_OK);
    assert_true(is_mine);
    assert_int_equal(term.epoch, (UINT64_C(1) << 40) + 1); /* R55 */
    assert_int_equal(ops->take_over(fixture->lease, &view, 0, &term, &is_mine, &fixture->fault), STEP_OK);
    assert_false(is_mine); /* P11: from the same view only one */
}

#define NAMES 1000u

/* Every third of the rows that wait, so that no range names them, and first a row that is gone. */
static void name_every_third(struct fixture *fixture, struct row_name *names)
{
    PGresult *result = PQexec(fixture->application, "SELECT id, uid FROM tally.outbox WHERE id % 3 = 0 ORDER BY id");
    assert_true(PQntuples(result) > (int)NAMES);
    names[0].id = 1;
    uid_generate(&names[0].uid);
    for (int i = 1; i < (int)NAMES; i++) {
        names[i].id = strtoull(PQgetvalue(result, i, 0), NULL, 10);
        assert_true(uid_from_text(bytes_make(PQgetvalue(result, i, 1), UID_TEXT_SIZE - 1), &names[i].uid));
    }
    PQclear(result);
}

/* The server takes the outbox for empty, as where VACUUM found only rows that were rolled back, and keeps the plans it
 * makes of that. */
static void make_statistics_wrong(struct fixture *fixture)
{
    ask(fixture, "ALTER TABLE tally.outbox SET (autovacuum_enabled = false)");
    ask(fixture, "BEGIN");
    ask(fixture, "INSERT INTO tally.outbox(queue, body) SELECT 'q', 'x' FROM generate_series(1, 20000)");
    ask(fixture, "ROLLBACK");
    ask(fixture, "VACUUM (TRUNCATE false) tally.outbox");
    assert_string_equal(ask(fixture, "SELECT reltuples FROM pg_class WHERE oid = 'tally.outbox'::regclass"), "0");
}

/* Behind each step: the time of the next one begins. */
static void check_quick(uint64_t *began_ms, const char *step)
{
    uint64_t took_ms = boottime_ms() - *began_ms;
    if (took_ms > 1000)
        fail_msg("%s took %llu ms", step, (unsigned long long)took_ms);
    *began_ms = boottime_ms();
}

/* A plan that compares every name with every row takes ten seconds here. */
static void R59_statistics_that_are_wrong_make_nothing_slow(void **state)
{
    struct fixture *fixture = fixture_of(state);
    const struct source_ops *ops = fixture->source->ops;
    static struct row_name names[NAMES];
    make_statistics_wrong(fixture);
    fixture->late = PQconnectdb(getenv("TALLY_TEST_POSTGRES"));
    PQclear(PQexec(fixture->late, "BEGIN; INSERT INTO tally.outbox(queue, body) VALUES ('q', 'late')"));
    ask(fixture, "INSERT INTO tally.outbox(queue, body) SELECT 'q', 'x' FROM generate_series(1, 20000)");
    name_every_third(fixture, names);

    uint64_t began_ms = boottime_ms();
    assert_int_equal(scan(fixture, &fixture->term, names, 400, NULL, 0, 1000, 1 << 20), STEP_OK);
    check_quick(&began_ms, "to delete and to scan");
    assert_int_equal(note(fixture, &fixture->term, 0, 1, names + 400, 600), STEP_OK);
    check_quick(&began_ms, "to note an intent");
    struct intent intent;
    bool is_open = false;
    assert_int_equal(
        ops->find_intent(fixture->source, &fixture->term, NULL, &intent, &fixture->rows, &is_open, &fixture->fault),
        STEP_OK);
    check_quick(&began_ms, "to read an intent");
    assert_true(is_open);
    assert_int_equal(intent.count, 600);
    assert_int_equal(note(fixture, &fixture->term, 1, 2, names, 1), STEP_OK);
    check_quick(&began_ms, "to delete what an intent names");
    assert_string_equal(ask(fixture, "SELECT 20000 - count(*) FROM tally.outbox"), "999"); /* and one that was gone */

    name_every_third(fixture, names);
    intent.number = 2;
    began_ms = boottime_ms();
    assert_int_equal(ops->end_intent(fixture->source, &fixture->term, &intent, names, NAMES, &fixture->fault), STEP_OK);
    check_quick(&began_ms, "to end an intent");
    assert_string_equal(ask(fixture, "SELECT 20000 - count(*) FROM tally.outbox"), "1998");
    assert_string_equal(ask(fixture, "SELECT reltuples FROM pg_class WHERE oid = 'tally.outbox'::regclass"), "0");
}

#define BOTH(test)                                                                                                     \
    cmocka_unit_test_setup_teardown(test, setup, teardown),                                                            \
        cmocka_unit_test_setup_teardown(test, setup_pooled, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(R46_an_earlier_owner_deletes_parks_and_notes_nothing),
        BOTH(R13_a_delete_may_be_repeated_and_takes_no_other_row_of_the_same_id),
        BOTH(a_scan_leaves_out_what_is_in_flight_and_ends_at_its_bounds),
        BOTH(an_intent_is_noted_once_and_found_until_it_is_over),
        BOTH(R58_a_parked_row_is_listed_and_sent_again_at_the_end_or_dropped),
        BOTH(R59_statistics_that_are_wrong_make_nothing_slow),
        BOTH(what_is_given_up_is_free_and_a_takeover_goes_above_what_a_sink_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
