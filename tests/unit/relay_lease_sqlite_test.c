/* The lease of an outbox in SQLite, on real files: who may take over, and how soon a stand-by knows. */
#include "relay/lease_sqlite.h"
#include "relay/sqlite.h"
#include "sqlite_rig.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct lease_view see(struct lease *lease)
{
    struct lease_view view;
    struct fault fault = {.text = ""};
    if (lease->ops->peek(lease, &view, &fault) != STEP_OK)
        fail_msg("%s", fault.text);
    return view;
}

/* Takes over from `view`: whether it could. */
static bool take(struct lease *lease, const struct lease_view *view, uint64_t epoch_min, struct term *term)
{
    bool is_mine = false;
    struct fault fault = {.text = ""};
    if (lease->ops->take_over(lease, view, epoch_min, term, &is_mine, &fault) != STEP_OK)
        fail_msg("%s", fault.text);
    return is_mine;
}

static struct term take_now(struct lease *lease)
{
    struct term term;
    const struct lease_view view = see(lease);
    assert_true(take(lease, &view, 0, &term));
    return term;
}

static bool is_free(struct lease *lease, unsigned wait_ms)
{
    bool is = false;
    struct fault fault = {.text = ""};
    if (lease->ops->wait(lease, wait_ms, &is, &fault) != STEP_OK)
        fail_msg("%s", fault.text);
    return is;
}

static enum step beat(struct lease *lease, const struct term *term)
{
    struct fault fault = {.text = ""};
    return lease->ops->beat(lease, term, &fault);
}

static void a_lease_that_nobody_had_is_free_and_has_epoch_0(void **state)
{
    struct rig *rig = *state;
    struct lease *lease = lease_sqlite_create(&rig->spec);
    assert_int_equal(see(lease).term.epoch, 0);
    assert_true(is_free(lease, 0));
    const struct term term = take_now(lease);
    assert_int_equal(term.epoch, 1);
    char text[UID_TEXT_SIZE];
    uid_to_text(&term.owner, text);
    assert_string_equal(rig_ask(rig, "SELECT owner FROM tally_lease"), text);
    uid_to_text(&term.source_id, text);
    assert_string_equal(rig_ask(rig, "SELECT source_id FROM tally_lease"), text);
    lease->ops->close(lease);
}

static void of_two_takeovers_from_one_view_one_wins(void **state)
{
    struct rig *rig = *state;
    struct lease *a = lease_sqlite_create(&rig->spec), *b = lease_sqlite_create(&rig->spec);
    const struct lease_view view = see(a), same = see(b);
    struct term winner, loser;
    assert_true(take(a, &view, 0, &winner));
    assert_false(take(b, &same, 0, &loser));
    assert_int_equal(beat(a, &winner), STEP_OK);
    a->ops->close(a);
    b->ops->close(b);
}

/* R47, R26: all of them see at the same moment that the owner is gone. */
static void of_many_that_see_the_owner_gone_one_takes_over_and_stays(void **state)
{
    struct rig *rig = *state;
    struct lease *old = lease_sqlite_create(&rig->spec), *all[10];
    (void)take_now(old);
    for (unsigned i = 0; i < 10; i++) {
        all[i] = lease_sqlite_create(&rig->spec);
        assert_false(is_free(all[i], 0));
    }
    old->ops->close(old);
    unsigned owners = 0;
    struct term term, mine = {0};
    struct lease *owner = NULL;
    for (unsigned i = 0; i < 10; i++) {
        const bool is = is_free(all[i], 0);
        const struct lease_view view = see(all[i]);
        if (is && take(all[i], &view, 0, &term)) {
            owners++;
            owner = all[i];
            mine = term;
        }
    }
    assert_int_equal(owners, 1);
    assert_int_equal(beat(owner, &mine), STEP_OK);
    for (unsigned i = 0; i < 10; i++)
        all[i]->ops->close(all[i]);
}

static void who_saw_one_owner_gone_does_not_depose_the_next(void **state)
{
    struct rig *rig = *state;
    struct lease *gone = lease_sqlite_create(&rig->spec), *slow = lease_sqlite_create(&rig->spec),
                 *fast = lease_sqlite_create(&rig->spec);
    const struct term first = take_now(gone);
    gone->ops->close(gone);
    assert_true(is_free(slow, 0));
    struct lease_view view = see(fast); /* has waited for long enough */
    struct term second, third;
    assert_true(take(fast, &view, 0, &second));
    view = see(slow);
    assert_false(take(slow, &view, 0, &third));
    assert_int_equal(beat(fast, &second), STEP_OK);
    assert_int_equal(second.epoch, first.epoch + 1);
    slow->ops->close(slow);
    fast->ops->close(fast);
}

static void an_owner_that_beats_is_not_deposed(void **state)
{
    struct rig *rig = *state;
    struct lease *owner = lease_sqlite_create(&rig->spec), *other = lease_sqlite_create(&rig->spec);
    const struct term term = take_now(owner);
    const struct lease_view view = see(other);
    assert_int_equal(beat(owner, &term), STEP_OK);
    assert_true(see(other).beat > view.beat);
    struct term none;
    assert_false(take(other, &view, 0, &none));
    assert_int_equal(beat(owner, &term), STEP_OK);
    owner->ops->close(owner);
    other->ops->close(other);
}

/* R21: a stopped owner keeps its lock, and is deposed because it doesn't beat. */
static void a_deposed_owner_is_told_so_and_the_next_one_keeps_the_lease(void **state)
{
    struct rig *rig = *state;
    struct lease *a = lease_sqlite_create(&rig->spec), *b = lease_sqlite_create(&rig->spec);
    const struct term first = take_now(a);
    assert_false(is_free(b, 20));
    const struct term second = take_now(b); /* from a view that did not move for long enough */
    assert_int_equal(beat(a, &first), STEP_FENCED);
    assert_false(is_free(a, 20)); /* the lock of the first owner is free, that of the second is not */
    assert_int_equal(beat(b, &second), STEP_OK);
    a->ops->close(a);
    b->ops->close(b);
}

static void a_takeover_goes_above_the_epoch_of_the_sink(void **state)
{
    struct rig *rig = *state;
    struct lease *lease = lease_sqlite_create(&rig->spec);
    struct term term;
    struct lease_view view = see(lease);
    assert_true(take(lease, &view, (uint64_t)1 << 40, &term)); /* R55 */
    assert_true(term.epoch == ((uint64_t)1 << 40) + 1);
    view = see(lease);
    assert_true(take(lease, &view, 7, &term)); /* its own, again */
    assert_true(term.epoch == ((uint64_t)1 << 40) + 2);
    assert_int_equal(beat(lease, &term), STEP_OK);
    bool is_mine = false;
    struct fault fault;
    assert_int_equal(lease->ops->take_over(lease, &view, UINT64_MAX, &term, &is_mine, &fault), STEP_UNFIT);
    assert_false(is_mine);
    lease->ops->close(lease);
}

static void who_gives_up_is_followed_at_once(void **state)
{
    struct rig *rig = *state;
    struct lease *a = lease_sqlite_create(&rig->spec), *b = lease_sqlite_create(&rig->spec);
    const struct term first = take_now(a);
    assert_false(is_free(b, 0));
    a->ops->give_up(a, &first);
    static const struct uid nobody;
    const struct lease_view view = see(b);
    assert_memory_equal(view.term.owner.bytes, nobody.bytes, UID_SIZE);
    assert_true(is_free(b, 0));
    const struct term second = take_now(b);
    a->ops->give_up(a, &first); /* too late to mean anything */
    assert_int_equal(beat(b, &second), STEP_OK);
    a->ops->close(a);
    b->ops->close(b);
}

/* An owner in a process of its own, until it is killed. */
static pid_t start_owner(struct rig *rig)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct lease *lease = lease_sqlite_create(&rig->spec);
        (void)take_now(lease);
        (void)!write(ready[1], "x", 1);
        for (;;)
            (void)pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return pid;
}

static void the_death_of_an_owner_is_seen_at_once(void **state)
{
    struct rig *rig = *state;
    const pid_t pid = start_owner(rig);
    struct lease *lease = lease_sqlite_create(&rig->spec);
    assert_false(is_free(lease, 20));
    assert_int_equal(kill(pid, SIGKILL), 0);
    const uint64_t killed_ms = now_ms();
    assert_true(is_free(lease, 5000));
    assert_true(now_ms() - killed_ms < 1000); /* the lease would be a second */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)take_now(lease);
    lease->ops->close(lease);
}

static void a_long_transaction_of_the_application_deposes_nobody(void **state)
{
    struct rig *rig = *state;
    struct lease *owner = lease_sqlite_create(&rig->spec), *other = lease_sqlite_create(&rig->spec);
    const struct term term = take_now(owner);
    rig_run(rig, "BEGIN IMMEDIATE; INSERT INTO tally_outbox(body) VALUES ('x')");
    const uint64_t before = see(other).beat;
    assert_int_equal(beat(owner, &term), STEP_OK);
    assert_true(see(other).beat > before);
    struct fault fault = {.text = ""};
    struct lease_view view = see(other);
    struct term none;
    bool is_mine = false; /* nobody can take over now, also one that has waited for long enough */
    assert_int_equal(other->ops->take_over(other, &view, 0, &none, &is_mine, &fault), STEP_UNREACHABLE);
    assert_non_null(strstr(fault.text, "lock"));
    rig_run(rig, "COMMIT");
    assert_int_equal(beat(owner, &term), STEP_OK);
    owner->ops->close(owner);
    other->ops->close(other);
}

/* The same in the older journal modes, where a large transaction keeps readers out too. */
static void an_owner_beats_while_nobody_can_even_read(void **state)
{
    struct rig *rig = *state;
    rig_run(rig, "PRAGMA journal_mode = DELETE");
    struct lease *owner = lease_sqlite_create(&rig->spec), *other = lease_sqlite_create(&rig->spec);
    const struct term term = take_now(owner);
    rig_run(rig, "BEGIN EXCLUSIVE");
    assert_int_equal(beat(owner, &term), STEP_OK);
    struct fault fault = {.text = ""};
    struct lease_view view;
    assert_int_equal(other->ops->peek(other, &view, &fault), STEP_UNREACHABLE);
    rig_run(rig, "COMMIT");
    owner->ops->close(owner);
    other->ops->close(other);
}

static void a_removed_file_of_beats_is_made_again(void **state)
{
    struct rig *rig = *state;
    struct lease *owner = lease_sqlite_create(&rig->spec), *other = lease_sqlite_create(&rig->spec);
    const struct term term = take_now(owner);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s-tally", rig->path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(beat(owner, &term), STEP_OK);
    assert_false(is_free(other, 20));
    assert_int_equal(see(other).beat, 1);
    owner->ops->close(owner);
    other->ops->close(other);
}

static void a_replaced_database_is_seen(void **state)
{
    struct rig *rig = *state;
    struct lease *owner = lease_sqlite_create(&rig->spec);
    char command[600];
    rig_run(rig, "PRAGMA wal_checkpoint(TRUNCATE)");
    (void)snprintf(command, sizeof(command), "cp '%s' '%s.backup'", rig->path, rig->path);
    assert_int_equal(system(command), 0);
    const struct term term = take_now(owner);
    rig_close(rig);
    (void)snprintf(command, sizeof(command), "rm -f '%s-wal' '%s-shm'; mv '%s.backup' '%s'", rig->path, rig->path,
                   rig->path, rig->path);
    assert_int_equal(system(command), 0);
    assert_int_equal(beat(owner, &term), STEP_FENCED);
    assert_int_equal(see(owner).term.epoch, 0);
    owner->ops->close(owner);
}

static void copy_file(const char *from, const char *to)
{
    char command[600];
    (void)snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

/* R30: a copy has the identity of its original, and both would fence each other at a queue. */
static void a_copy_beside_its_original_is_refused(void **state)
{
    struct rig *rig = *state;
    struct lease *original = lease_sqlite_create(&rig->spec);
    const struct term term = take_now(original);
    rig_run(rig, "PRAGMA wal_checkpoint(TRUNCATE)");
    char path[96], aside[96];
    (void)snprintf(path, sizeof(path), "%s/copy.db", rig->folder);
    (void)snprintf(aside, sizeof(aside), "%s/aside.db", rig->folder);
    copy_file(rig->path, path);
    struct relay_spec spec = {.source = SOURCE_SQLITE, .connection_owned = path, .lease_ms = 1000};
    struct lease *copy = lease_sqlite_create(&spec);
    struct lease_view view = see(copy);
    struct term none;
    struct fault fault = {.text = ""};
    bool is_mine = false;
    assert_int_equal(copy->ops->take_over(copy, &view, 0, &none, &is_mine, &fault), STEP_UNFIT);
    assert_non_null(strstr(fault.text, "is a copy of"));
    assert_false(is_mine);
    assert_int_equal(beat(original, &term), STEP_OK);
    original->ops->close(original);
    rig_close(rig);
    assert_int_equal(rename(rig->path, aside), 0); /* it has followed it */
    const struct term second = take_now(copy);
    assert_int_equal(second.epoch, term.epoch + 1);
    copy->ops->close(copy);

    assert_int_equal(rename(path, rig->path), 0); /* moved: not refused either */
    copy = lease_sqlite_create(&rig->spec);
    assert_int_equal(take_now(copy).epoch, term.epoch + 2);
    copy->ops->close(copy);
    copy_file(rig->path, path); /* and with an identity of its own a copy may stay beside it */
    struct rig of_copy = {.folder = ""};
    (void)snprintf(of_copy.path, sizeof(of_copy.path), "%s", path);
    rig_open(&of_copy);
    rig_run(&of_copy, "UPDATE tally_lease SET path = NULL, source_id = '00112233-4455-6677-8899-aabbccddeeff'");
    rig_close(&of_copy);
    copy = lease_sqlite_create(&spec);
    (void)take_now(copy);
    copy->ops->close(copy);
}

static void what_does_not_fit_is_said(void **state)
{
    struct rig *rig = *state;
    struct fault fault;
    struct lease_view view;
    rig_run(rig, "DELETE FROM tally_lease");
    struct lease *lease = lease_sqlite_create(&rig->spec);
    assert_int_equal(lease->ops->peek(lease, &view, &fault), STEP_UNFIT);
    assert_non_null(strstr(fault.text, "tally relay schema --type sqlite"));
    lease->ops->close(lease);
}

static void network_file_systems_have_names(void **state)
{
    (void)state;
    assert_string_equal(sqlite_network_file_system(0x6969), "NFS");
    assert_string_equal(sqlite_network_file_system((long)0xff534d42), "CIFS");
    assert_string_equal(sqlite_network_file_system((int)0xfe534d42), "SMB2"); /* as it comes where f_type is an int */
    assert_null(sqlite_network_file_system(0xef53));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lease_that_nobody_had_is_free_and_has_epoch_0, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(of_two_takeovers_from_one_view_one_wins, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(of_many_that_see_the_owner_gone_one_takes_over_and_stays, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(who_saw_one_owner_gone_does_not_depose_the_next, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(an_owner_that_beats_is_not_deposed, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_deposed_owner_is_told_so_and_the_next_one_keeps_the_lease, rig_setup,
                                        rig_teardown),
        cmocka_unit_test_setup_teardown(a_takeover_goes_above_the_epoch_of_the_sink, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(who_gives_up_is_followed_at_once, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(the_death_of_an_owner_is_seen_at_once, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_long_transaction_of_the_application_deposes_nobody, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(an_owner_beats_while_nobody_can_even_read, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_removed_file_of_beats_is_made_again, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_replaced_database_is_seen, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(a_copy_beside_its_original_is_refused, rig_setup, rig_teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_said, rig_setup, rig_teardown),
        cmocka_unit_test(network_file_systems_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
