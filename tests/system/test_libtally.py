"""libtally as another program sees it: the public header and the shared library, nothing else."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import BIN, ROOT, clean_environment

PROGRAM = r"""
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tally/tally.h>

#define CHECK(call) check((call), #call, client)

static void check(enum tally_status status, const char *what, const struct tally_client *client)
{
    if (status == TALLY_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, tally_client_error(client)->code, tally_client_error(client)->message);
    exit(1);
}

static void messages(struct tally_client *client)
{
    const struct tally_pair attributes[] = {{"VisibilityTimeout", "60"}};
    const struct tally_attribute colour = {"colour", NULL, "blue"};
    const struct tally_receive_options options = {.max = 10, .has_wait = true, .wait_s = 1};
    struct tally_outgoing pair[2] = {{.body = "two"}, {.body = "three", .has_delay = true, .delay_s = 900}};
    struct tally_messages received;
    struct tally_queue_counts counts;
    struct tally_sent sent[2];
    char id[TALLY_MESSAGE_ID_SIZE];
    char *url, *found;

    CHECK(tally_queue_create(client, "orders", attributes, 1, &url));
    CHECK(tally_queue_url(client, "orders", &found));
    assert(strcmp(url, found) == 0);
    CHECK(tally_send(client, url,
                     &(struct tally_outgoing){.body = "one", .attributes = &colour, .attribute_count = 1}, id));
    CHECK(tally_send_batch(client, "orders", pair, 2, sent));
    assert(sent[0].is_sent && sent[1].is_sent && strcmp(sent[0].id, id) != 0);
    CHECK(tally_receive(client, "orders", &options, &received));
    assert(received.count == 2);
    assert(strcmp(received.items_owned[0].id, id) == 0);
    assert(strcmp(tally_message_attribute(&received.items_owned[0], "colour"), "blue") == 0);
    assert(tally_message_attribute(&received.items_owned[1], "colour") == NULL);
    assert(received.items_owned[1].receive_count == 1 && received.items_owned[1].body_size == 3);
    CHECK(tally_change_visibility(client, "orders", received.items_owned[0].receipt_handle, 0));
    CHECK(tally_delete(client, "orders", received.items_owned[1].receipt_handle));
    CHECK(tally_queue_count(client, "orders", &counts));
    assert(counts.visible == 1 && counts.in_flight == 0 && counts.delayed == 1);
    tally_messages_deinit(&received);
    tally_messages_deinit(&received);
    CHECK(tally_queue_purge(client, "orders"));
    CHECK(tally_receive(client, "orders", NULL, &received));
    assert(received.count == 0);
    tally_messages_deinit(&received);
    free(url);
    free(found);
}

static void batches(struct tally_client *client)
{
    static char names[2500][8];
    static const char *keys[2500];
    static struct tally_unit_end ends[2500];
    static bool recorded[2500];
    const struct tally_target target = {.queue = "orders"};
    const struct tally_batch_options options = {.on_complete = &target, .has_retention = true, .retention_s = 60};
    struct tally_completed completed;
    struct tally_added added;
    struct tally_batch batch;
    struct tally_units units;
    char id[TALLY_BATCH_ID_SIZE];
    size_t listed = 0;

    for (int i = 0; i < 2500; i++) {
        snprintf(names[i], sizeof names[i], "%d", i + 10000);
        keys[i] = names[i];
        ends[i] = (struct tally_unit_end){.key = names[i], .is_failed = i == 7, .detail = i == 7 ? "why" : NULL};
    }
    CHECK(tally_batch_create(client, &options, id));
    CHECK(tally_batch_add(client, id, keys, 2500, &added));
    assert(added.added == 2500 && added.total == 2500);
    CHECK(tally_batch_add_count(client, id, 10, &added));
    assert(added.added == 10 && added.total == 2510);
    CHECK(tally_batch_seal(client, id, &completed));
    assert(completed.remaining == 2510 && !completed.is_completed);
    CHECK(tally_batch_complete(client, id, ends, 2500, recorded, &completed));
    assert(recorded[0] && recorded[2499] && completed.remaining == 10 && !completed.is_completed);
    CHECK(tally_batch_units(client, id, "failed", NULL, &units));
    assert(units.count == 1 && units.next_token == NULL && strcmp(units.items_owned[0].detail, "why") == 0);
    tally_units_deinit(&units);
    for (char *token = NULL;; ) {
        CHECK(tally_batch_units(client, id, NULL, token, &units));
        free(token);
        listed += units.count;
        token = units.next_token == NULL ? NULL : strdup(units.next_token);
        tally_units_deinit(&units);
        if (token == NULL)
            break;
    }
    assert(listed == 2510);
    assert(tally_batch_delete(client, id) == TALLY_REFUSED);
    assert(strcmp(tally_client_error(client)->code, "BatchNotCompleted") == 0);
    CHECK(tally_batch_cancel(client, id));
    CHECK(tally_batch_describe(client, id, &batch));
    assert(strcmp(batch.state, "completed") == 0 && strcmp(batch.status, "cancelled") == 0);
    assert(batch.total == 2510 && batch.succeeded == 2499 && batch.failed == 1 && batch.cancelled == 10);
    assert(batch.completed_at >= batch.created_at && batch.completion_message_id[0] != '\0');
    CHECK(tally_batch_delete(client, id));
}

static struct tally_messages receive_one(struct tally_client *client, const char *queue, const char *attempt_id)
{
    const struct tally_receive_options options = {.has_wait = true, .wait_s = 1, .attempt_id = attempt_id};
    struct tally_messages received;
    CHECK(tally_receive(client, queue, &options, &received));
    assert(received.count == 1);
    return received;
}

static void order(struct tally_client *client)
{
    const struct tally_pair attributes[] = {{"FifoQueue", "true"}, {"Tally.OnGroupFailure", "hold"}};
    const struct tally_outgoing first = {.body = "first", .group_id = "g", .deduplication_id = "1"};
    const struct tally_outgoing second = {.body = "second", .group_id = "g", .deduplication_id = "2",
                                          .has_priority = true, .priority = 9};
    struct tally_sent sent[2], again;
    struct tally_messages received, same;
    struct tally_explanation explanation;
    struct tally_groups groups;

    CHECK(tally_queue_create(client, "line.fifo", attributes, 2, NULL));
    CHECK(tally_send_one(client, "line.fifo", &first, &sent[0]));
    CHECK(tally_send_one(client, "line.fifo", &second, &sent[1]));
    CHECK(tally_send_one(client, "line.fifo", &first, &again));
    assert(sent[0].is_sent && !sent[0].is_duplicate && strcmp(sent[0].sequence_number, sent[1].sequence_number) < 0);
    assert(again.is_sent && again.is_duplicate && strcmp(again.id, sent[0].id) == 0);
    assert(strcmp(again.sequence_number, sent[0].sequence_number) == 0);

    received = receive_one(client, "line.fifo", "attempt");
    same = receive_one(client, "line.fifo", "attempt");
    assert(strcmp(received.items_owned[0].body, "first") == 0 && strcmp(received.items_owned[0].group_id, "g") == 0);
    assert(strcmp(received.items_owned[0].sequence_number, sent[0].sequence_number) == 0);
    assert(strcmp(received.items_owned[0].deduplication_id, "1") == 0 && received.items_owned[0].fencing_token > 0);
    assert(received.items_owned[0].attribute_count == 0); /* so they can be sent on as they came */
    assert(strcmp(received.items_owned[0].receipt_handle, same.items_owned[0].receipt_handle) == 0);
    CHECK(tally_fail(client, "line.fifo", received.items_owned[0].receipt_handle, "no such page", true));
    assert(tally_fail(client, "line.fifo", received.items_owned[0].receipt_handle, NULL, false) == TALLY_REFUSED);
    tally_messages_deinit(&received);
    tally_messages_deinit(&same);

    CHECK(tally_groups(client, "line.fifo", "held", NULL, &groups));
    assert(groups.count == 1 && groups.next_token == NULL && groups.items_owned[0].messages == 2);
    assert(strcmp(groups.items_owned[0].id, "g") == 0 && strcmp(groups.items_owned[0].state, "held") == 0);
    assert(strcmp(groups.items_owned[0].reason, "no such page") == 0 && groups.items_owned[0].since > 0);
    assert(strcmp(groups.items_owned[0].head_message_id, sent[0].id) == 0);
    tally_groups_deinit(&groups);
    tally_groups_deinit(&groups);
    CHECK(tally_explain(client, "line.fifo", sent[1].id, &explanation));
    assert(strcmp(explanation.state, "held") == 0 && explanation.reason_count > 0);
    assert(strstr(explanation.reasons_owned[0], sent[0].id) != NULL);
    tally_explanation_deinit(&explanation);
    tally_explanation_deinit(&explanation);
    CHECK(tally_group_release(client, "line.fifo", "g", TALLY_RELEASE_SKIP));
    assert(tally_group_release(client, "line.fifo", "g", TALLY_RELEASE_SKIP) == TALLY_REFUSED);
    assert(strcmp(tally_client_error(client)->code, "GroupNotHeld") == 0);

    CHECK(tally_queue_pause(client, "line.fifo"));
    CHECK(tally_receive(client, "line.fifo", NULL, &received));
    assert(received.count == 0);
    tally_messages_deinit(&received);
    CHECK(tally_group_pause(client, "line.fifo", "g"));
    CHECK(tally_queue_resume(client, "line.fifo"));
    CHECK(tally_receive(client, "line.fifo", NULL, &received));
    assert(received.count == 0);
    tally_messages_deinit(&received);
    CHECK(tally_group_resume(client, "line.fifo", "g"));
    received = receive_one(client, "line.fifo", NULL);
    assert(strcmp(received.items_owned[0].body, "second") == 0);
    tally_messages_deinit(&received);
    CHECK(tally_explain(client, "line.fifo", "nonsense", &explanation));
    assert(strcmp(explanation.state, "unknown") == 0);
    tally_explanation_deinit(&explanation);
}

static void effects(struct tally_client *client)
{
    struct tally_outgoing numbered = {.body = "n", .producer = "meter", .sequence = 41, .type = "reading"};
    const char *const keys[] = {"unit"};
    struct tally_committed_unit ended[1];
    struct tally_commit_delete delete = {.queue = "steps"};
    struct tally_commit_send send = {.queue = "steps", .message = {.body = "next"}};
    struct tally_commit_unit unit = {.batch_id = "effects", .key = "unit"};
    const struct tally_commit commit = {
        .deletes = &delete, .delete_count = 1, .sends = &send, .send_count = 1, .units = &unit, .unit_count = 1,
    };
    struct tally_outgoing waiting = {.body = "after", .after = "batch:effects", .after_failure = "run"};
    struct tally_messages received, later;
    struct tally_sent sent, again;
    struct tally_batch batch;

    CHECK(tally_queue_create(client, "steps", NULL, 0, NULL));
    CHECK(tally_send_one(client, "steps", &numbered, &sent));
    CHECK(tally_send_one(client, "steps", &numbered, &again));
    assert(!sent.is_duplicate && again.is_duplicate && strcmp(sent.id, again.id) == 0);
    assert(sent.sequence_number[0] == '\0');
    numbered.sequence = 40; /* never sent, and below the last one */
    CHECK(tally_send_one(client, "steps", &numbered, &again));
    assert(again.is_duplicate && again.id[0] == '\0');
    CHECK(tally_batch_create(client, &(struct tally_batch_options){.id = "effects"}, NULL));
    CHECK(tally_batch_add(client, "effects", keys, 1, NULL));
    CHECK(tally_batch_seal(client, "effects", NULL));
    CHECK(tally_send(client, "steps", &waiting, NULL));

    received = receive_one(client, "steps", NULL);
    CHECK(tally_change_visibility(client, "steps", received.items_owned[0].receipt_handle, 0));
    later = receive_one(client, "steps", NULL);
    assert(strcmp(received.items_owned[0].id, later.items_owned[0].id) == 0);
    assert(later.items_owned[0].fencing_token > received.items_owned[0].fencing_token);
    delete.receipt_handle = received.items_owned[0].receipt_handle;
    assert(tally_commit(client, &commit, &sent, ended) == TALLY_REFUSED);
    assert(strcmp(tally_client_error(client)->code, "ReceiptHandleIsInvalid") == 0);
    CHECK(tally_batch_describe(client, "effects", &batch));
    assert(batch.remaining == 1); /* nothing of it was done */
    delete.receipt_handle = later.items_owned[0].receipt_handle;
    CHECK(tally_commit(client, &commit, &sent, ended));
    assert(sent.is_sent && !sent.is_duplicate && ended[0].is_recorded && ended[0].is_completed);
    tally_messages_deinit(&received);
    tally_messages_deinit(&later);
    received = receive_one(client, "steps", NULL);
    later = receive_one(client, "steps", NULL);
    /* What waited for the batch was told with the commit; what the commit sent is younger. */
    assert(strcmp(received.items_owned[0].body, "after") == 0 && strcmp(later.items_owned[0].body, "next") == 0);
    tally_messages_deinit(&received);
    tally_messages_deinit(&later);
    assert(tally_commit(client, &(struct tally_commit){.sends = &send, .send_count = 11}, NULL, NULL) == TALLY_INVALID);
}

/* A message with ten attributes whose first attempt failed is sent on as it was sent. */
static void forwarding(struct tally_client *client)
{
    const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    const struct tally_failure failure = {.reason = "no such page", .has_retry_after = true};
    struct tally_attribute ten[10];
    struct tally_failed failed;
    struct tally_messages received;

    for (size_t i = 0; i < 10; i++)
        ten[i] = (struct tally_attribute){.name = names[i], .value = "v"};
    CHECK(tally_queue_create(client, "here", NULL, 0, NULL));
    CHECK(tally_queue_create(client, "there", NULL, 0, NULL));
    const struct tally_outgoing first = {.body = "x", .attributes = ten, .attribute_count = 10};
    CHECK(tally_send(client, "here", &first, NULL));
    received = receive_one(client, "here", NULL);
    assert(received.items_owned[0].failure_reason == NULL);
    CHECK(tally_fail_attempt(client, "here", received.items_owned[0].receipt_handle, &failure, &failed));
    tally_messages_deinit(&received);
    received = receive_one(client, "here", NULL);
    assert(strcmp(received.items_owned[0].failure_reason, "no such page") == 0);
    const struct tally_outgoing same = {.body = received.items_owned[0].body,
                                        .attributes = received.items_owned[0].attributes,
                                        .attribute_count = received.items_owned[0].attribute_count};
    CHECK(tally_send(client, "there", &same, NULL));
    tally_messages_deinit(&received);
    received = receive_one(client, "there", NULL);
    assert(received.items_owned[0].attribute_count == 10);
    assert(strcmp(tally_message_attribute(&received.items_owned[0], "j"), "v") == 0);
    tally_messages_deinit(&received);
}

/* A message that is held, and a unit that ends, let others join their sealed batch. */
static void growth(struct tally_client *client)
{
    const char *const keys[] = {"x", "y"};
    struct tally_outgoing first = {.body = "first", .batch_id = "growing"};
    struct tally_commit_delete hold = {.queue = "grown"};
    struct tally_commit_send send = {.queue = "grown", .message = {.body = "second", .batch_id = "growing"}};
    struct tally_commit_unit unit = {.batch_id = "growing", .key = "y"};
    struct tally_commit_addition named = {.batch_id = "growing", .keys = keys, .count = 2};
    struct tally_commit_addition counted = {.batch_id = "growing", .count = 3};
    const struct tally_commit commits[] = {
        {.holds = &hold, .hold_count = 1, .sends = &send, .send_count = 1, .additions = &named, .addition_count = 1},
        {.units = &unit, .unit_count = 1, .additions = &counted, .addition_count = 1},
        {.sends = &send, .send_count = 1},
        {.holds = &hold, .hold_count = 11},
    };
    struct tally_messages received;
    struct tally_batch batch;

    CHECK(tally_queue_create(client, "grown", NULL, 0, NULL));
    CHECK(tally_batch_create(client, &(struct tally_batch_options){.id = "growing", .has_total = true, .total = 1},
                             NULL));
    CHECK(tally_send(client, "grown", &first, NULL));
    received = receive_one(client, "grown", NULL);
    hold.receipt_handle = received.items_owned[0].receipt_handle;
    CHECK(tally_commit(client, &commits[0], NULL, NULL));
    CHECK(tally_commit(client, &commits[1], NULL, NULL));
    assert(tally_commit(client, &commits[2], NULL, NULL) == TALLY_REFUSED);
    assert(strcmp(tally_client_error(client)->code, "BatchSealed") == 0);
    assert(tally_commit(client, &commits[3], NULL, NULL) == TALLY_INVALID);
    CHECK(tally_batch_describe(client, "growing", &batch));
    assert(batch.total == 7 && batch.succeeded == 1 && strcmp(batch.state, "sealed") == 0);
    tally_messages_deinit(&received);
}

static void pools(struct tally_client *client)
{
    const struct tally_ticket tickets[] = {
        {.id = "ann", .attributes = "{\"mmr\": 1500}", .body = "hello"},
        {.id = "bob", .attributes = "{\"mmr\": 1600}", .need = "{\"mmr\": {\"max\": 1550}}", .weight = 1,
         .priority = 9},
        {.id = "cem", .attributes = "{\"height\": 3}"},
    };
    const struct tally_ticket broken = {.id = "dan", .attributes = "mmr"};
    struct tally_offered offered[3];
    struct tally_proposed proposed[2];
    struct tally_member members[2] = {{"ann", 1}, {"bob", 1}};
    const struct tally_proposal proposals[2] = {{.id = "first", .members = members, .member_count = 2},
                                                {.id = "second", .members = members, .member_count = 2}};
    struct tally_feed feed;
    uint64_t from;

    CHECK(tally_queue_create(client, "duels", NULL, 0, NULL));
    CHECK(tally_call(client, "Tally.CreatePool",
                     "{\"PoolName\": \"duel\", \"ResultQueueUrl\": \"duels\", \"Matcher\": \"external\","
                     " \"Attributes\": {\"mmr\": \"num\"}}", NULL));
    CHECK(tally_pool_feed(client, "duel", 0, 0, &feed));
    assert(!feed.must_read_tickets && feed.count == 0 && feed.next == 1);
    from = feed.next;
    tally_feed_deinit(&feed);
    CHECK(tally_pool_offer(client, "duel", tickets, 3, offered));
    assert(strcmp(offered[0].status, "waiting") == 0 && offered[0].version == 1 && !offered[0].was_offered);
    assert(strcmp(offered[2].status, "invalid") == 0 && strstr(offered[2].why, "height") != NULL);
    CHECK(tally_pool_offer(client, "duel", tickets, 1, offered));
    assert(offered[0].was_offered);
    assert(tally_pool_offer(client, "duel", &broken, 1, NULL) == TALLY_INVALID);

    CHECK(tally_pool_tickets(client, "duel", NULL, &feed));
    assert(feed.count == 2 && strcmp(feed.items_owned[1].ticket, "bob") == 0 && feed.next_token == NULL);
    members[0].version = feed.items_owned[0].version;
    tally_feed_deinit(&feed);
    CHECK(tally_pool_propose(client, "duel", proposals, 2, proposed));
    assert(strcmp(proposed[0].status, "matched") == 0 && strlen(proposed[0].match_id) == TALLY_MATCH_ID_SIZE - 1);
    assert(strcmp(proposed[1].status, "conflict") == 0);

    CHECK(tally_pool_feed(client, "duel", from, 1, &feed));
    assert(feed.count == 4 && strcmp(feed.items_owned[3].type, "retire") == 0);
    assert(strcmp(feed.items_owned[3].reason, "match") == 0);
    assert(strcmp(feed.items_owned[3].match_id, proposed[0].match_id) == 0 && feed.next == from + 4);
    tally_feed_deinit(&feed);
    CHECK(tally_call(client, "Tally.DeletePool", "{\"PoolName\": \"duel\"}", NULL));
}

static void errors(struct tally_client *client)
{
    struct tally_messages received = {.count = 77};
    struct tally_sent sent[1];
    struct tally_reply reply;

    assert(tally_receive(client, "nowhere", NULL, &received) == TALLY_REFUSED);
    assert(received.count == 77); /* untouched on failure */
    assert(tally_client_error(client)->http_status == 400);
    assert(tally_send(client, "orders", &(struct tally_outgoing){.body = NULL}, NULL) == TALLY_INVALID);
    assert(tally_send(client, "orders", &(struct tally_outgoing){.body = "\xff"}, NULL) == TALLY_INVALID);
    assert(tally_send_batch(client, "orders", NULL, 11, sent) == TALLY_INVALID);
    CHECK(tally_call(client, "AmazonSQS.PurgeQueue", "{\"QueueUrl\":\"orders\"}", &reply));
    assert(reply.json_owned == NULL && reply.body_size == 0 && reply.body_owned[0] == '\0');
    tally_reply_deinit(&reply);
    tally_client_interrupt(client);
    assert(tally_receive(client, "orders", NULL, &received) == TALLY_INTERRUPTED);
    tally_client_resume(client);
    CHECK(tally_receive(client, "orders", NULL, &received));
    tally_messages_deinit(&received);
    CHECK(tally_queue_delete(client, "orders"));
}

int main(void)
{
    struct tally_client *client;
    struct tally_error error;
    assert(tally_client_create(&(struct tally_options){.endpoint = "nonsense"}, &client, &error) == TALLY_INVALID);
    assert(tally_client_create(&(struct tally_options){.access_key_id = "a"}, &client, NULL) == TALLY_INVALID);
    assert(tally_client_create(&(struct tally_options){.worker = ""}, &client, NULL) == TALLY_INVALID);
    assert(tally_client_create(&(struct tally_options){.worker = "a\nb"}, &client, &error) == TALLY_INVALID);
    assert(strstr(error.message, "it must be 1 to 128 characters of printable ASCII") != NULL);
    assert(tally_client_create(NULL, &client, &error) == TALLY_OK);
    messages(client);
    batches(client);
    order(client);
    effects(client);
    forwarding(client);
    growth(client);
    pools(client);
    errors(client);
    tally_client_destroy(client);
    tally_client_destroy(NULL);
    puts("done");
}
"""


@pytest.fixture
def library():
    """The folder of libtally.so of the build whose programs are tested."""
    folders = [BIN, BIN.parent / "release" / "src"]
    for folder in folders:
        if (folder / "libtally.so").exists():
            return (folder / "libtally.so").resolve().parent
    pytest.skip(f"no libtally.so in {', '.join(map(str, folders))}")


def sanitizers_of(library):
    """What a program needs besides, where the library was built with a sanitizer: its runtime must come first."""
    needed = subprocess.run(["ldd", library / "libtally.so"], capture_output=True, text=True, check=True).stdout
    return [f"-fsanitize={name}" for runtime, name in [("libasan", "address"), ("libtsan", "thread")]
            if runtime in needed]


def test_a_program_needs_the_public_header_and_the_shared_library_only(daemon, library, tmp_path):
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    compiler = shutil.which("cc") or shutil.which("gcc")
    subprocess.run(
        [
            compiler, "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
            f"-I{ROOT}/include", source, f"-L{library}", "-ltally", f"-Wl,-rpath,{library}", "-o", tmp_path / "program",
            "-Wl,--allow-shlib-undefined", *sanitizers_of(library),
        ],
        check=True,
    )  # fmt: skip
    wrapper = os.environ.get("TALLY_WRAPPER", "").split()
    done = subprocess.run(
        [*wrapper, tmp_path / "program"], env=clean_environment(TALLY_ENDPOINT=daemon.endpoint), capture_output=True
    )
    assert (done.returncode, done.stdout) == (0, b"done\n"), done.stderr.decode()


def test_the_header_is_c_plus_plus_too(tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "program.cc"
    source.write_text("#include <tally/tally.h>\nint main() { tally_client_destroy(nullptr); }\n")
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}/include", "-fsyntax-only", source],
        check=True)  # fmt: skip


def test_programs_that_are_built_already_run_with_the_library():
    """docs/reference/libtally.md says what may change, and how that is written down."""
    if shutil.which("abidiff") is None:
        pytest.skip("no abidiff")
    done = subprocess.run([ROOT / "tests" / "abi" / "run"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_functions_have_a_symbol_version(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library / "libtally.so"], capture_output=True, check=True)
    declared = set(re.findall(r"\b(tally_\w+)\(", (ROOT / "include/tally/tally.h").read_text().replace("()", "")))
    shown = dict(line.split()[-1].split("@@") for line in lines.stdout.decode().splitlines() if "@@" in line)
    assert {name for name in shown if name.startswith("tally_")} == declared
    assert {version.split(".")[0] for name, version in shown.items() if name in declared} == {"LIBTALLY_0"}


def test_the_shared_library_shows_nothing_but_its_own_names(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library / "libtally.so"], capture_output=True, check=True)
    names = [line.split()[-1].split("@")[0] for line in lines.stdout.decode().splitlines()]
    shown = [name for name in names if not name.startswith("tally_")]
    assert "tally_send" in names
    assert all(name.upper() == name for name in shown), shown  # a version's name, at most
