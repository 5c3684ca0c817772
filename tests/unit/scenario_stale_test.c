/* What a receipt handle does that is not the newest of its message: what Tally.StaleReceipts says
 * (docs/reference/receipt-handles.md), whatever is interrupted. */
#include "scenario.h"

#define REFUSE "'Tally.StaleReceipts':'refuse'"

static struct answer change(struct world *world, const char *handle, unsigned timeout_s)
{
    return world_call(world, "ChangeMessageVisibility",
                      "{'QueueUrl':'jobs','ReceiptHandle':'%s','VisibilityTimeout':%u}", handle, timeout_s);
}

static struct answer end(struct world *world, const char *handle)
{
    return world_call(world, "DeleteMessage", "{'QueueUrl':'jobs','ReceiptHandle':'%s'}", handle);
}

static struct answer give_up(struct world *world, const char *handle, const char *more)
{
    return world_call(world, "Tally.FailMessage", "{'QueueUrl':'jobs','ReceiptHandle':'%s'%s}", handle, more);
}

static struct answer commit(struct world *world, const char *handle)
{
    return world_call(world, "Tally.Commit", "{'Deletes':[{'QueueUrl':'jobs','ReceiptHandle':'%s'}]}", handle);
}

static bool is_good(struct answer answer)
{
    return answer.error == NULL;
}

static bool is_stale(struct answer answer)
{
    return answer_fails(answer, "ReceiptHandleIsInvalid") && strstr(answer_text(answer, "message"), "newest") != NULL;
}

static uint64_t count_of(struct world *world, const char *name)
{
    struct answer answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    EXPECT(world, is_good(answer));
    return answer_number(answer, name);
}

static bool gives_nothing(struct world *world)
{
    struct taken taken;
    return world_take(world, "jobs", 30, 1, &taken) == 0;
}

/* A message, the one unit of a sealed batch, that `old` was too slow for and that `holder` has. */
static void overtake(struct world *world, const char *attributes, struct taken *old, struct taken *holder)
{
    world_create_queue(world, "jobs", attributes);
    world_create_queue(world, "done", "");
    EXPECT(world, is_good(world_call(world, "Tally.CreateBatch",
                                     "{'BatchId':'b','Total':1,'OnComplete':{'QueueUrl':'done'}}")));
    EXPECT(world, is_good(world_send(world, "jobs", "b", "work")));
    world_hold(world, "jobs", 30, 1, old);
    world_pass_time(world, 31000);
    world_hold(world, "jobs", 300, 1, holder);
    EXPECT(world, strcmp(old->handle, holder->handle) != 0);
}

static void an_older_handle_deletes_and_the_unit_ends_once(struct world *world)
{
    struct taken old, holder;
    overtake(world, "", &old, &holder);
    EXPECT(world, is_good(end(world, old.handle)));
    EXPECT(world, world_count_messages(world, "jobs") == 0);
    EXPECT(world, count_of(world, "Succeeded") == 1 && world_count_messages(world, "done") == 1);
    /* Whoever has the message finds it ended, and ends nothing twice. */
    EXPECT(world, answer_fails(commit(world, holder.handle), "ReceiptHandleIsInvalid"));
    EXPECT(world, answer_fails(change(world, holder.handle, 30), "InvalidParameterValueException"));
    struct answer failed = give_up(world, holder.handle, ",'Final':true");
    EXPECT(world, is_good(failed) && strcmp(answer_text(failed, "Outcome"), "ignored") == 0);
    EXPECT(world, is_good(end(world, holder.handle)));
    EXPECT(world, count_of(world, "Succeeded") == 1 && count_of(world, "Failed") == 0);
    EXPECT(world, world_drain(world, "done").complete == 1);
}

static void an_older_handle_changes_the_lease_of_the_newest(struct world *world)
{
    struct taken old, holder;
    overtake(world, "", &old, &holder);
    EXPECT(world, is_good(change(world, old.handle, 3600)));
    world_pass_time(world, 400000);
    EXPECT(world, gives_nothing(world)); /* it is longer than the 300 s */
    EXPECT(world, is_good(change(world, old.handle, 1)));
    world_pass_time(world, 31000); /* over a restart a lease begins again */
    world_hold(world, "jobs", 300, 1, &holder);
    EXPECT(world, is_good(end(world, holder.handle)));
    EXPECT(world, world_count_messages(world, "jobs") == 0);
}

static void where_older_handles_are_refused_they_change_nothing(struct world *world)
{
    struct taken old, holder;
    overtake(world, REFUSE, &old, &holder);
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(world, is_stale(end(world, old.handle)));
        EXPECT(world, is_stale(change(world, old.handle, 0)));
        EXPECT(world, is_stale(change(world, old.handle, 600)));
        EXPECT(world, is_stale(give_up(world, old.handle, ",'Final':true")));
        EXPECT(world, answer_fails(commit(world, old.handle), "ReceiptHandleIsInvalid"));
        EXPECT(world, gives_nothing(world) && world_count_messages(world, "jobs") == 1);
        world_pass_time(world, 200000 * i); /* the lease of the newest is not longer, and not shorter */
    }
    EXPECT(world, count_of(world, "Remaining") == 1 && world_count_messages(world, "done") == 0);
    EXPECT(world, is_good(end(world, holder.handle)));
    EXPECT(world, is_good(end(world, old.handle))); /* it has ended, as SQS has it */
    EXPECT(world, count_of(world, "Succeeded") == 1 && world_drain(world, "done").complete == 1);
}

static void a_handle_that_nobody_has_overtaken_is_not_old(struct world *world)
{
    struct taken held;
    world_create_queue(world, "jobs", REFUSE);
    EXPECT(world, is_good(world_send(world, "jobs", NULL, "work")));
    world_hold(world, "jobs", 5, 1, &held);
    world_pass_time(world, 40000);
    EXPECT(world, is_good(change(world, held.handle, 300)));
    EXPECT(world, gives_nothing(world));
    EXPECT(world, is_good(end(world, held.handle)));
    EXPECT(world, world_count_messages(world, "jobs") == 0);
}

static void Commit_takes_no_older_handle_where_a_delete_does(struct world *world)
{
    struct taken old, holder;
    overtake(world, "", &old, &holder);
    EXPECT(world, answer_fails(commit(world, old.handle), "ReceiptHandleIsInvalid"));
    EXPECT(world, world_count_messages(world, "jobs") == 1 && count_of(world, "Remaining") == 1);
    struct answer answer = commit(world, holder.handle);
    EXPECT(world, is_good(answer) || (answer.is_repeat && answer_fails(answer, "ReceiptHandleIsInvalid")));
    EXPECT(world, count_of(world, "Succeeded") == 1 && world_drain(world, "done").complete == 1);
}

static void FailMessage_ends_the_attempt_of_its_handle_and_no_other(struct world *world)
{
    struct taken old, holder;
    overtake(world, "'Tally.Backoff':'{\\'min\\':600,\\'max\\':600,\\'jitter\\':0}'", &old, &holder);
    EXPECT(world, is_stale(give_up(world, old.handle, "")));
    EXPECT(world, is_stale(give_up(world, old.handle, ",'Final':true")));
    EXPECT(world, is_good(change(world, holder.handle, 300)) && gives_nothing(world));
    EXPECT(world, is_good(give_up(world, holder.handle, "")));
    struct answer again = give_up(world, holder.handle, ""); /* the same once more */
    EXPECT(world, is_good(again) && strcmp(answer_text(again, "Outcome"), "returned") == 0);
    EXPECT(world, answer_number(again, "Attempt") >= 2);
    EXPECT(world, yyjson_get_num(yyjson_obj_get(again.root, "RetryAfterSeconds")) > 0);
    EXPECT(world, is_stale(give_up(world, holder.handle, ",'Final':true")));
    EXPECT(world, is_stale(give_up(world, holder.handle, ",'MaxAttempts':2")));
    /* The back-off is the queue's: a heartbeat that comes late neither shortens nor prolongs it. */
    EXPECT(world, answer_fails(change(world, holder.handle, 0), "InvalidParameterValueException"));
    EXPECT(world, answer_fails(change(world, old.handle, 43000), "InvalidParameterValueException"));
    EXPECT(world, gives_nothing(world));
    EXPECT(world, is_good(end(world, holder.handle)));
    EXPECT(world, count_of(world, "Succeeded") == 1 && world_drain(world, "done").complete == 1);
}

static void FailMessage_of_an_attempt_that_has_timed_out_is_refused(struct world *world)
{
    struct taken held;
    world_create_queue(world, "jobs", "");
    EXPECT(world, is_good(world_send(world, "jobs", NULL, "work")));
    world_hold(world, "jobs", 5, 1, &held);
    world_pass_time(world, 40000);
    EXPECT(world, answer_fails(give_up(world, held.handle, ""), "InvalidParameterValueException"));
    EXPECT(world, world_count_messages(world, "jobs") == 1);
    world_delete(world, "jobs", held.handle);
}

/* Set and changed while the message is there; kept over restarts and snapshots. */
static void the_attribute_holds_at_once_and_for_ever(struct world *world)
{
    struct taken old, holder;
    overtake(world, REFUSE, &old, &holder);
    EXPECT(world, is_stale(end(world, old.handle)));
    EXPECT(world, is_good(world_call(world, "SetQueueAttributes",
                                     "{'QueueUrl':'jobs','Attributes':{'Tally.StaleReceipts':'accept'}}")));
    EXPECT(world, is_good(end(world, old.handle)));
    EXPECT(world, world_count_messages(world, "jobs") == 0 && world_drain(world, "done").complete == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(an_older_handle_deletes_and_the_unit_ends_once),
        SCENARIO(an_older_handle_changes_the_lease_of_the_newest),
        SCENARIO(where_older_handles_are_refused_they_change_nothing),
        SCENARIO(a_handle_that_nobody_has_overtaken_is_not_old),
        SCENARIO(Commit_takes_no_older_handle_where_a_delete_does),
        SCENARIO(FailMessage_ends_the_attempt_of_its_handle_and_no_other),
        SCENARIO(FailMessage_of_an_attempt_that_has_timed_out_is_refused),
        SCENARIO(the_attribute_holds_at_once_and_for_ever),
    };
    return cmocka_run_group_tests_name("scenarios of old receipt handles", tests, NULL, NULL);
}
