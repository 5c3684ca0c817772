/* The outbox in SQLite as a source, on real files: what is read, what is deleted, and by whom. */
#include "platform/monotonic.h"
#include "relay/lease_sqlite.h"
#include "relay/source_sqlite.h"
#include "sqlite_rig.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct fixture {
    struct rig *rig;
    struct source *source;
    struct lease *lease;
    struct term term;
    struct rows rows;
    struct fault fault;
};

static struct term take(struct lease *lease)
{
    struct lease_view view;
    struct term term;
    bool is_mine = false;
    struct fault fault = {.text = ""};
    if (lease->ops->peek(lease, &view, &fault) != STEP_OK ||
        lease->ops->take_over(lease, &view, 0, &term, &is_mine, &fault) != STEP_OK)
        fail_msg("%s", fault.text);
    assert_true(is_mine);
    return term;
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    void *rig;
    assert_int_equal(rig_setup(&rig), 0);
    fixture->rig = rig;
    fixture->source = source_sqlite_create(&fixture->rig->spec);
    fixture->lease = lease_sqlite_create(&fixture->rig->spec);
    fixture->term = take(fixture->lease);
    rows_init(&fixture->rows);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    void *rig = fixture->rig;
    fixture->source->ops->close(fixture->source);
    fixture->lease->ops->close(fixture->lease);
    rows_deinit(&fixture->rows);
    free(fixture);
    return rig_teardown(&rig);
}

static void send(struct fixture *fixture, const char *body)
{
    char *sql = sqlite3_mprintf("INSERT INTO tally_outbox(queue, body) VALUES ('q', %Q)", body);
    rig_run(fixture->rig, sql);
    sqlite3_free(sql);
}

static enum step scan(struct fixture *fixture, const struct row_name *done, size_t done_count,
                      const struct row_name *in_flight, size_t in_flight_count, unsigned limit)
{
    const struct source_ops *ops = fixture->source->ops;
    enum step step = ops->begin_scan(fixture->source, &fixture->term, done, done_count, in_flight, in_flight_count,
                                     limit, 1u << 20, &fixture->fault);
    return step == STEP_OK ? ops->end_scan(fixture->source, &fixture->rows, &fixture->fault) : step;
}

/* What a scan with nothing in flight finds, as the bodies with a blank behind each. */
static const char *found(struct fixture *fixture)
{
    static char text[500];
    if (scan(fixture, NULL, 0, NULL, 0, 100) != STEP_OK)
        fail_msg("%s", fixture->fault.text);
    size_t size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < fixture->rows.count; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%.*s ",
                                 BYTES_FORMAT(fixture->rows.items_owned[i].body));
    return text;
}

static struct row_name name_at(const struct fixture *fixture, size_t index)
{
    assert_true(index < fixture->rows.count);
    return (struct row_name){fixture->rows.items_owned[index].id, fixture->rows.items_owned[index].uid};
}

static void rows_come_in_the_order_of_their_ids_with_all_they_have(void **state)
{
    struct fixture *fixture = *state;
    rig_run(fixture->rig, "INSERT INTO tally_outbox(uid, queue, group_id, dedup_id, attributes, delay_s, body) VALUES "
                          "('00112233-4455-6677-8899-aabbccddeeff', 'orders.fifo', 'g', 'd', '{\"a\":1}', 7, 'é');"
                          "INSERT INTO tally_outbox(kind, body) VALUES (1, 'handle')");
    assert_string_equal(found(fixture), "é handle ");
    const struct row *row = fixture->rows.items_owned;
    char uid[UID_TEXT_SIZE];
    uid_to_text(&row->uid, uid);
    assert_string_equal(uid, "00112233-4455-6677-8899-aabbccddeeff");
    assert_int_equal(row->id, 1);
    assert_int_equal(row->kind, ROW_SEND);
    assert_int_equal(row->delay_s, 7);
    assert_true(bytes_equal(row->queue, BYTES("orders.fifo")));
    assert_true(bytes_equal(row->group, BYTES("g")));
    assert_true(bytes_equal(row->deduplication_id, BYTES("d")));
    assert_true(bytes_equal(row->attributes, BYTES("{\"a\":1}")));
    assert_true(row->age_ms < 60000);
    assert_int_equal(row->receive_count, 0);
    row++;
    assert_int_equal(row->kind, ROW_ACK);
    assert_null(row->group.ptr);
    assert_null(row->deduplication_id.ptr);
    assert_null(row->attributes.ptr);
    assert_int_equal(row->queue.size, 0);
}

/* R01, as far as it can be here: an open transaction has no id that others could pass. */
static void what_is_not_committed_is_not_found_and_what_rolls_back_never(void **state)
{
    struct fixture *fixture = *state;
    rig_run(fixture->rig, "BEGIN IMMEDIATE");
    send(fixture, "a");
    assert_string_equal(found(fixture), "");
    rig_run(fixture->rig, "ROLLBACK");
    assert_string_equal(found(fixture), "");
    send(fixture, "b");
    assert_string_equal(found(fixture), "b ");
}

static void what_is_in_flight_is_left_out_and_limits_hold(void **state)
{
    struct fixture *fixture = *state;
    for (const char *body = "1\0002\0003\0004\0005\0"; *body != '\0'; body += 2)
        send(fixture, body);
    assert_string_equal(found(fixture), "1 2 3 4 5 ");
    struct row_name in_flight[] = {name_at(fixture, 3), name_at(fixture, 0)};
    assert_int_equal(scan(fixture, NULL, 0, in_flight, 2, 2), STEP_OK);
    assert_int_equal(fixture->rows.count, 2);
    assert_int_equal(fixture->rows.items_owned[0].id, 2);
    assert_int_equal(fixture->rows.items_owned[1].id, 3);
    uid_generate(&in_flight[0].uid); /* the row that was in flight is gone, and its id another's */
    assert_int_equal(scan(fixture, NULL, 0, in_flight, 2, 100), STEP_OK);
    assert_int_equal(fixture->rows.count, 4);
}

static void a_scan_ends_after_about_as_many_bytes_as_asked_for(void **state)
{
    struct fixture *fixture = *state;
    rig_run(fixture->rig,
            "INSERT INTO tally_outbox(body) VALUES (hex(zeroblob(300000))), (hex(zeroblob(300000))), ('x')");
    assert_int_equal(scan(fixture, NULL, 0, NULL, 0, 100), STEP_OK); /* 1 MiB */
    assert_int_equal(fixture->rows.count, 2);
}

static void done_deletes_and_may_be_repeated(void **state)
{
    struct fixture *fixture = *state;
    send(fixture, "a");
    send(fixture, "b");
    (void)found(fixture);
    const struct row_name done = name_at(fixture, 0);
    assert_int_equal(scan(fixture, &done, 1, NULL, 0, 100), STEP_OK);
    assert_int_equal(scan(fixture, &done, 1, NULL, 0, 100), STEP_OK);
    assert_string_equal(found(fixture), "b ");
    send(fixture, "c");
    assert_string_equal(rig_ask(fixture->rig, "SELECT max(id) FROM tally_outbox"),
                        "3"); /* an id is never given twice */
}

static void the_same_id_with_another_uid_is_not_deleted(void **state)
{
    struct fixture *fixture = *state;
    send(fixture, "a");
    (void)found(fixture);
    struct row_name done = name_at(fixture, 0);
    uid_generate(&done.uid);
    assert_int_equal(scan(fixture, &done, 1, NULL, 0, 100), STEP_OK);
    assert_string_equal(found(fixture), "a ");
}

/* R46. */
static void R46_an_earlier_owner_deletes_parks_and_notes_nothing(void **state)
{
    struct fixture *fixture = *state;
    send(fixture, "a");
    (void)found(fixture);
    const struct row_name name = name_at(fixture, 0);
    const struct source_ops *ops = fixture->source->ops;
    assert_int_equal(ops->note(fixture->source, &fixture->term, 0, 1, &name, 1, &fixture->fault), STEP_OK);
    const struct term old = fixture->term;
    struct lease *other = lease_sqlite_create(&fixture->rig->spec);
    (void)take(other);
    const int changes = atoi(rig_ask(fixture->rig, "PRAGMA data_version"));
    struct intent intent = {.epoch = old.epoch, .number = 1};
    bool is_open;
    assert_int_equal(scan(fixture, &name, 1, NULL, 0, 100), STEP_FENCED);
    assert_int_equal(scan(fixture, NULL, 0, NULL, 0, 100), STEP_FENCED); /* nor does it go on with what it reads */
    assert_int_equal(ops->park(fixture->source, &old, fixture->rows.items_owned, "x", false, &fixture->fault),
                     STEP_FENCED);
    assert_int_equal(ops->note(fixture->source, &old, 1, 2, NULL, 0, &fixture->fault), STEP_FENCED);
    assert_int_equal(ops->end_intent(fixture->source, &old, &intent, &name, 1, &fixture->fault), STEP_FENCED);
    assert_int_equal(ops->find_intent(fixture->source, &old, NULL, &intent, &fixture->rows, &is_open, &fixture->fault),
                     STEP_FENCED);
    assert_int_equal(atoi(rig_ask(fixture->rig, "PRAGMA data_version")), changes);
    assert_string_equal(rig_ask(fixture->rig, "SELECT count(*) FROM tally_outbox"), "1");
    other->ops->close(other);
}

static void a_scan_that_was_left_out_would_have_found_nothing(void **state)
{
    struct fixture *fixture = *state;
    assert_string_equal(found(fixture), "");
    assert_string_equal(found(fixture), ""); /* from here on the outbox is only read if somebody has written */
    send(fixture, "a");
    assert_string_equal(found(fixture), "a ");
    const struct row_name done = name_at(fixture, 0);
    assert_int_equal(scan(fixture, &done, 1, NULL, 0, 100), STEP_OK);
    assert_int_equal(fixture->rows.count, 0);
    assert_string_equal(found(fixture), "");
    send(fixture, "b");
    (void)found(fixture);
    const struct row_name held = name_at(fixture, 0);
    assert_int_equal(scan(fixture, NULL, 0, &held, 1, 100), STEP_OK);
    assert_int_equal(fixture->rows.count, 0);
    assert_string_equal(found(fixture), "b "); /* what was in flight then is not any more */
    assert_int_equal(fixture->source->ops->park(fixture->source, &fixture->term, fixture->rows.items_owned, "x", false,
                                                &fixture->fault),
                     STEP_OK);
    assert_string_equal(found(fixture), "");
    bool is_found = false;
    assert_int_equal(
        fixture->source->ops->resolve(fixture->source, &held.uid, RESOLUTION_SEND, &is_found, &fixture->fault),
        STEP_OK);
    assert_string_equal(found(fixture), "b ");
    struct lease *other = lease_sqlite_create(&fixture->rig->spec);
    (void)take(other);
    assert_int_equal(scan(fixture, NULL, 0, NULL, 0, 100), STEP_FENCED);
    other->ops->close(other);
}

/* R58. */
static void a_parked_row_is_listed_and_comes_back_at_the_end_under_its_uid(void **state)
{
    struct fixture *fixture = *state;
    const struct source_ops *ops = fixture->source->ops;
    rig_run(fixture->rig,
            "INSERT INTO tally_outbox(queue, group_id, attributes, body) VALUES ('q', 'g', '{\"n\":1}', 'a')");
    send(fixture, "b");
    (void)found(fixture);
    const struct row_name name = name_at(fixture, 0);
    struct row row = fixture->rows.items_owned[0];
    for (int i = 0; i < 2; i++) /* a repeat is harmless */
        assert_int_equal(ops->park(fixture->source, &fixture->term, &row, "no such", true, &fixture->fault), STEP_OK);
    assert_string_equal(found(fixture), "b ");
    struct arena arena;
    arena_init(&arena);
    struct parked *parked;
    size_t count;
    assert_int_equal(ops->list_parked(fixture->source, 10, &arena, &parked, &count, &fixture->fault), STEP_OK);
    assert_int_equal(count, 1);
    assert_memory_equal(parked->name.uid.bytes, name.uid.bytes, UID_SIZE);
    assert_true(bytes_equal(parked->queue, BYTES("q")) && bytes_equal(parked->group, BYTES("g")));
    assert_true(bytes_equal(parked->error, BYTES("no such")) && parked->is_doubted);
    arena_deinit(&arena);
    bool is_found = false;
    assert_int_equal(ops->resolve(fixture->source, &name.uid, RESOLUTION_SEND, &is_found, &fixture->fault), STEP_OK);
    assert_true(is_found);
    assert_string_equal(found(fixture), "b a ");
    assert_memory_equal(name_at(fixture, 1).uid.bytes, name.uid.bytes, UID_SIZE);
    assert_true(bytes_equal(fixture->rows.items_owned[1].attributes, BYTES("{\"n\":1}")));
    assert_int_equal(ops->resolve(fixture->source, &name.uid, RESOLUTION_SEND, &is_found, &fixture->fault), STEP_OK);
    assert_false(is_found);
}

static void a_parked_row_can_be_dropped(void **state)
{
    struct fixture *fixture = *state;
    const struct source_ops *ops = fixture->source->ops;
    send(fixture, "a");
    (void)found(fixture);
    const struct row_name name = name_at(fixture, 0);
    assert_int_equal(ops->park(fixture->source, &fixture->term, fixture->rows.items_owned, "x", false, &fixture->fault),
                     STEP_OK);
    bool is_found = false;
    assert_int_equal(ops->resolve(fixture->source, &name.uid, RESOLUTION_DROP, &is_found, &fixture->fault), STEP_OK);
    assert_true(is_found);
    assert_string_equal(rig_ask(fixture->rig, "SELECT count(*) FROM tally_dead"), "0");
    assert_string_equal(found(fixture), "");
}

static void an_intent_is_noted_found_and_ended(void **state)
{
    struct fixture *fixture = *state;
    const struct source_ops *ops = fixture->source->ops;
    for (const char *body = "1\0002\0003\0004\0"; *body != '\0'; body += 2)
        send(fixture, body);
    (void)found(fixture);
    struct row_name names[4];
    for (size_t i = 0; i < 4; i++)
        names[i] = name_at(fixture, i);
    for (int i = 0; i < 2; i++) /* each may be repeated */
        assert_int_equal(ops->note(fixture->source, &fixture->term, 0, 1, names, 2, &fixture->fault), STEP_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ops->note(fixture->source, &fixture->term, 1, 2, names + 2, 1, &fixture->fault), STEP_OK);
    assert_string_equal(found(fixture), "3 4 ");
    assert_int_equal(ops->note(fixture->source, &fixture->term, 0, 3, names + 3, 1, &fixture->fault), STEP_OK);

    fixture->term = take(fixture->lease); /* the next owner */
    struct intent intent, second;
    bool is_open = false;
    assert_int_equal(
        ops->find_intent(fixture->source, &fixture->term, NULL, &intent, &fixture->rows, &is_open, &fixture->fault),
        STEP_OK);
    assert_true(is_open);
    assert_int_equal(intent.number, 2);
    assert_int_equal(intent.epoch, fixture->term.epoch - 1);
    assert_int_equal(intent.count, 1);
    assert_memory_equal(&intent.names[0], &names[2], sizeof(names[2]));
    assert_int_equal(fixture->rows.count, 1);
    assert_true(bytes_equal(fixture->rows.items_owned[0].body, BYTES("3")));
    assert_true(intent.age_ms < 60000);
    assert_int_equal(
        ops->find_intent(fixture->source, &fixture->term, &intent, &second, &fixture->rows, &is_open, &fixture->fault),
        STEP_OK);
    assert_true(is_open);
    assert_int_equal(second.number, 3);
    assert_int_equal(
        ops->find_intent(fixture->source, &fixture->term, &second, &second, &fixture->rows, &is_open, &fixture->fault),
        STEP_OK);
    assert_false(is_open);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ops->end_intent(fixture->source, &fixture->term, &intent, &names[2], 1, &fixture->fault),
                         STEP_OK);
    assert_int_equal(ops->end_intent(fixture->source, &fixture->term, &second, NULL, 0, &fixture->fault), STEP_OK);
    assert_int_equal(
        ops->find_intent(fixture->source, &fixture->term, NULL, &intent, &fixture->rows, &is_open, &fixture->fault),
        STEP_OK);
    assert_false(is_open);
    assert_string_equal(found(fixture), "4 "); /* goes back to waiting */
}

#define NAMES 1000u

/* A plan that compares every name with every row takes ten seconds here. */
static void R59_statistics_that_are_wrong_make_nothing_slow(void **state)
{
    struct fixture *fixture = *state;
    const struct source_ops *ops = fixture->source->ops;
    static struct row_name names[NAMES];
    send(fixture, "the only one");
    rig_run(fixture->rig, "ANALYZE");
    rig_run(fixture->rig, "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 100000) "
                          "INSERT INTO tally_outbox(queue, body) SELECT 'q', n FROM n");
    assert_int_equal(scan(fixture, NULL, 0, NULL, 0, NAMES), STEP_OK);
    for (size_t i = 0; i < NAMES; i++)
        names[i] = name_at(fixture, i);

    uint64_t began_ms = boottime_ms();
    assert_int_equal(ops->note(fixture->source, &fixture->term, 0, 1, names, NAMES, &fixture->fault), STEP_OK);
    struct intent intent;
    bool is_open = false;
    assert_int_equal(
        ops->find_intent(fixture->source, &fixture->term, NULL, &intent, &fixture->rows, &is_open, &fixture->fault),
        STEP_OK);
    assert_true(is_open);
    assert_int_equal(fixture->rows.count, NAMES);
    assert_int_equal(ops->note(fixture->source, &fixture->term, 1, 2, NULL, 0, &fixture->fault), STEP_OK);
    assert_in_range(boottime_ms() - began_ms, 0, 2000);
    assert_int_equal(scan(fixture, NULL, 0, NULL, 0, 1), STEP_OK);
    assert_int_equal(name_at(fixture, 0).id, names[NAMES - 1].id + 1);
}

/* SQLite takes any bytes as text; a message is of characters. */
static void a_row_that_is_not_utf8_is_parked_alone(void **state)
{
    struct fixture *fixture = *state;
    send(fixture, "a");
    rig_run(fixture->rig, "INSERT INTO tally_outbox(body) VALUES (CAST(x'61ff62' AS TEXT)), (CAST(x'eda080' AS TEXT))");
    send(fixture, "b");
    assert_string_equal(found(fixture), "a ");
    assert_string_equal(found(fixture), "a ");
    assert_string_equal(found(fixture), "a b ");
    assert_string_equal(rig_ask(fixture->rig, "SELECT group_concat(hex(body)) FROM tally_dead"), "61FF62,EDA080");
}

static void health_counts_and_warns(void **state)
{
    struct fixture *fixture = *state;
    const struct source_ops *ops = fixture->source->ops;
    struct source_health health;
    assert_int_equal(ops->check_health(fixture->source, &health, &fixture->fault), STEP_OK);
    assert_int_equal(health.waiting_count, 0);
    assert_string_equal(health.warning, "");
    rig_run(fixture->rig,
            "INSERT INTO tally_outbox(created, body) VALUES (strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour'), 'x')");
    (void)found(fixture);
    rig_run(fixture->rig, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) "
                          "INSERT INTO tally_outbox(body) SELECT 'x' FROM n");
    assert_int_equal(ops->check_health(fixture->source, &health, &fixture->fault), STEP_OK);
    assert_int_equal(health.waiting_count, 5001);
    assert_in_range(health.oldest_age_ms, 3600000, 3660000);
    assert_int_equal(ops->park(fixture->source, &fixture->term, fixture->rows.items_owned, "x", false, &fixture->fault),
                     STEP_OK);
    rig_run(fixture->rig, "DELETE FROM tally_outbox WHERE id > 5");
    assert_int_equal(ops->check_health(fixture->source, &health, &fixture->fault), STEP_OK);
    assert_int_equal(health.waiting_count, 4);
    assert_int_equal(health.parked_count, 1);
}

static void another_journal_mode_works_and_is_warned_of(void **state)
{
    struct fixture *fixture = *state;
    fixture->source->ops->close(fixture->source);
    fixture->lease->ops->close(fixture->lease);
    rig_run(fixture->rig, "PRAGMA journal_mode = DELETE");
    fixture->source = source_sqlite_create(&fixture->rig->spec);
    fixture->lease = lease_sqlite_create(&fixture->rig->spec);
    fixture->term = take(fixture->lease);
    send(fixture, "a");
    assert_string_equal(found(fixture), "a ");
    const struct row_name done = name_at(fixture, 0);
    assert_int_equal(scan(fixture, &done, 1, NULL, 0, 100), STEP_OK);
    assert_int_equal(fixture->rows.count, 0);
    struct source_health health;
    assert_int_equal(fixture->source->ops->check_health(fixture->source, &health, &fixture->fault), STEP_OK);
    assert_non_null(strstr(health.warning, "PRAGMA journal_mode = WAL"));
    assert_string_equal(rig_ask(fixture->rig, "PRAGMA journal_mode"), "delete");
}

static void a_writer_that_holds_on_makes_it_unreachable_for_a_while(void **state)
{
    struct fixture *fixture = *state;
    send(fixture, "a");
    (void)found(fixture);
    const struct row_name done = name_at(fixture, 0);
    rig_run(fixture->rig, "BEGIN IMMEDIATE");
    assert_int_equal(scan(fixture, &done, 1, NULL, 0, 100), STEP_UNREACHABLE);
    assert_non_null(strstr(fixture->fault.text, "keep transactions that write short"));
    assert_string_equal(found(fixture), "a "); /* reading goes on */
    rig_run(fixture->rig, "COMMIT");
    assert_int_equal(scan(fixture, &done, 1, NULL, 0, 100), STEP_OK);
    assert_string_equal(found(fixture), "");
}

static void a_full_disk_is_unreachable_and_passes(void **state)
{
    struct fixture *fixture = *state;
    send(fixture, "a");
    (void)found(fixture);
    const struct row_name done = name_at(fixture, 0);
    /* No file may grow any more: what a disk that is full does to a writer. */
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const enum step step = scan(fixture, &done, 1, NULL, 0, 100);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(step, STEP_UNREACHABLE);
    assert_string_equal(rig_ask(fixture->rig, "SELECT count(*) FROM tally_outbox"), "1");
    assert_int_equal(scan(fixture, &done, 1, NULL, 0, 100), STEP_OK);
    assert_string_equal(found(fixture), "");
}

static void check_unfit(struct rig *rig, const char *path, const char *part)
{
    struct relay_spec spec = rig->spec;
    char copy[128];
    (void)snprintf(copy, sizeof(copy), "%s", path);
    spec.connection_owned = copy;
    struct source *source = source_sqlite_create(&spec);
    struct source_health health;
    struct fault fault = {.text = ""};
    for (int i = 0; i < 2; i++) { /* again: nothing is left half open */
        assert_int_equal(source->ops->check_health(source, &health, &fault), STEP_UNFIT);
        if (strstr(fault.text, part) == NULL)
            fail_msg("'%s' does not say '%s'", fault.text, part);
    }
    source->ops->close(source);
}

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs(content, file);
    assert_int_equal(fclose(file), 0);
}

static void what_does_not_fit_is_said_and_what_to_do(void **state)
{
    struct rig *rig = ((struct fixture *)*state)->rig;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/none.db", rig->folder);
    check_unfit(rig, path, "there is no SQLite database");
    assert_int_not_equal(access(path, F_OK), 0); /* nor was one made */
    write_file(path, "");
    check_unfit(rig, path, "tally relay schema --type sqlite");
    write_file(
        path,
        "This is a letter and no database at all, and it is long enough to be one, since a head has a hundred bytes.");
    check_unfit(rig, path, "is no SQLite database");
    check_unfit(rig, rig->folder, "is no file");
    rig_run(rig, "DROP VIEW tally_version; CREATE VIEW tally_version AS SELECT 2 AS version");
    check_unfit(rig, rig->path, "version 2");
    rig->spec.table_owned = (char *)(uintptr_t) "x; y";
    check_unfit(rig, rig->path, "is no prefix");
    rig->spec.table_owned = (char *)(uintptr_t) "shop";
    check_unfit(rig, rig->path, "shop_outbox");
    rig->spec.table_owned = NULL;
}

static void a_damaged_database_is_said_to_be_one(void **state)
{
    struct rig *rig = ((struct fixture *)*state)->rig;
    rig_run(rig, "PRAGMA wal_checkpoint(TRUNCATE)");
    char path[128], command[600];
    (void)snprintf(path, sizeof(path), "%s/torn.db", rig->folder);
    /* The head is whole, the pages behind it are not. */
    (void)snprintf(command, sizeof(command),
                   "cp '%s' '%s' && dd if=/dev/zero of='%s' bs=1 seek=100 count=12000 conv=notrunc 2>/dev/null",
                   rig->path, path, path);
    assert_int_equal(system(command), 0);
    check_unfit(rig, path, "damaged");
}

/* In a process that is nobody special: root writes everything. The text of the fault says what is found. */
static bool is_unfit_for_nobody(struct rig *rig, const char *part)
{
    const pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(1);
        struct source *source = source_sqlite_create(&rig->spec);
        struct source_health health;
        struct fault fault = {.text = ""};
        const enum step step = source->ops->check_health(source, &health, &fault);
        if (step != STEP_UNFIT || strstr(fault.text, part) == NULL)
            (void)fprintf(stderr, "step %d: %s\n", (int)step, fault.text);
        source->ops->close(source); /* what is left behind is a leak to valgrind, which ends with a status of its own */
        _exit(step == STEP_UNFIT && strstr(fault.text, part) != NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

static void a_database_that_cannot_be_written_is_unfit(void **state)
{
    struct fixture *fixture = *state;
    struct rig *rig = fixture->rig;
    fixture->source->ops->close(fixture->source);
    fixture->lease->ops->close(fixture->lease);
    rig_run(rig, "PRAGMA journal_mode = DELETE");
    assert_int_equal(chmod(rig->folder, 0555), 0);
    assert_int_equal(chmod(rig->path, 0444), 0);
    assert_true(is_unfit_for_nobody(rig, "let the relay's user write"));
    assert_int_equal(chmod(rig->path, 0), 0);
    assert_true(is_unfit_for_nobody(rig, "let the relay's user read and write"));
    assert_int_equal(chmod(rig->path, 0666), 0);
    assert_int_equal(chmod(rig->folder, 0700), 0);
    fixture->source = source_sqlite_create(&rig->spec);
    fixture->lease = lease_sqlite_create(&rig->spec);
}

static void another_prefix_is_another_outbox(void **state)
{
    struct fixture *fixture = *state;
    struct buffer sql;
    buffer_init(&sql);
    schema_write(relay_schema_text(SOURCE_SQLITE), "shop", &sql);
    buffer_append_u8(&sql, 0);
    rig_run(fixture->rig, (const char *)sql.data_owned);
    buffer_deinit(&sql);
    rig_run(fixture->rig, "INSERT INTO shop_outbox(body) VALUES ('s')");
    fixture->source->ops->close(fixture->source);
    fixture->lease->ops->close(fixture->lease);
    fixture->rig->spec.table_owned = (char *)(uintptr_t) "shop";
    fixture->source = source_sqlite_create(&fixture->rig->spec);
    fixture->lease = lease_sqlite_create(&fixture->rig->spec);
    fixture->term = take(fixture->lease);
    assert_int_equal(fixture->term.epoch, 1);
    assert_string_equal(found(fixture), "s ");
    fixture->rig->spec.table_owned = NULL;
}

/* The tables may be made again at any time; what is there stays. */
static void the_schema_may_be_repeated(void **state)
{
    struct fixture *fixture = *state;
    send(fixture, "a");
    rig_run(fixture->rig, relay_schema_text(SOURCE_SQLITE));
    rig_run(fixture->rig, "BEGIN");
    rig_run(fixture->rig, relay_schema_text(SOURCE_SQLITE));
    rig_run(fixture->rig, "COMMIT");
    assert_string_equal(found(fixture), "a ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_come_in_the_order_of_their_ids_with_all_they_have, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_committed_is_not_found_and_what_rolls_back_never, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_in_flight_is_left_out_and_limits_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_ends_after_about_as_many_bytes_as_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(done_deletes_and_may_be_repeated, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_id_with_another_uid_is_not_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(R46_an_earlier_owner_deletes_parks_and_notes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_that_was_left_out_would_have_found_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_parked_row_is_listed_and_comes_back_at_the_end_under_its_uid, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_parked_row_can_be_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(an_intent_is_noted_found_and_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(R59_statistics_that_are_wrong_make_nothing_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_that_is_not_utf8_is_parked_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(health_counts_and_warns, setup, teardown),
        cmocka_unit_test_setup_teardown(another_journal_mode_works_and_is_warned_of, setup, teardown),
        cmocka_unit_test_setup_teardown(a_writer_that_holds_on_makes_it_unreachable_for_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_unreachable_and_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_said_and_what_to_do, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_database_is_said_to_be_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_database_that_cannot_be_written_is_unfit, setup, teardown),
        cmocka_unit_test_setup_teardown(another_prefix_is_another_outbox, setup, teardown),
        cmocka_unit_test_setup_teardown(the_schema_may_be_repeated, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
