/* Publishers as relays meet them: scenarios R12, R13, R15 to R17, R38, R39, R53 to R55 and R57, interrupted in every
 * way. What counts is which messages are in the queues. */
#include "scenario.h"

/* --- tools -------------------------------------------------------------------------------------------------------- */

#define OWNER_1 "aaaaaaaa-0000-4000-8000-000000000001"
#define OWNER_2 "aaaaaaaa-0000-4000-8000-000000000002"
#define SOURCE "5eed5eed-0000-4000-8000-000000000000"
#define UID "'Uid':'00000000-0000-4000-8000-%012u'"
#define DAY_MS UINT64_C(86400000)

/* Rows of a batch, gathered in a text. */
struct rows {
    char text[20000];
    size_t size;
};

static void add(struct rows *rows, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct rows *rows, const char *format, ...)
{
    va_list arguments;
    rows->size += (size_t)snprintf(rows->text + rows->size, sizeof(rows->text) - rows->size, rows->size > 0 ? "," : "");
    va_start(arguments, format);
    rows->size += (size_t)vsnprintf(rows->text + rows->size, sizeof(rows->text) - rows->size, format, arguments);
    va_end(arguments);
}

/* A row whose body is its uid. */
static void add_row(struct rows *rows, unsigned id, unsigned uid, const char *queue)
{
    add(rows, "{'Id':%u," UID ",'QueueUrl':'%s','MessageBody':'%u'}", id, uid, queue, uid);
}

static struct rows row_of(unsigned id, unsigned uid, const char *queue)
{
    struct rows rows = {.size = 0};
    add_row(&rows, id, uid, queue);
    return rows;
}

static struct answer open_as(struct world *world, unsigned long long epoch, const char *owner)
{
    return world_call(world, "Tally.OpenPublisher", "{'Publisher':'" SOURCE "','Epoch':%llu,'Owner':'%s'}", epoch,
                      owner);
}

static bool is_open(struct world *world, unsigned long long epoch, const char *owner)
{
    struct answer answer = open_as(world, epoch, owner);
    return answer.error == NULL && answer_is_true(answer, "Accepted") && answer_number(answer, "Epoch") == epoch;
}

static struct answer publish_as(struct world *world, unsigned long long epoch, const char *owner, unsigned batch,
                                unsigned confirmed, const struct rows *rows)
{
    return world_call(world, "Tally.Publish",
                      "{'Publisher':'" SOURCE "','Epoch':%llu,'Owner':'%s','Batch':%u,'ConfirmedBatch':%u,"
                      "'Rows':[%s]}",
                      epoch, owner, batch, confirmed, rows->text);
}

static struct answer publish(struct world *world, unsigned batch, unsigned confirmed, const struct rows *rows)
{
    return publish_as(world, 1, OWNER_1, batch, confirmed, rows);
}

/* How many rows have this status. */
static unsigned count_status(struct answer answer, const char *status)
{
    unsigned count = 0;
    size_t index, size;
    yyjson_val *item;
    yyjson_arr_foreach(yyjson_obj_get(answer.root, "Results"), index, size, item)
    {
        count += yyjson_equals_str(yyjson_obj_get(item, "Status"), status);
    }
    return count;
}

static const char *text_of(struct answer answer, unsigned id, const char *member)
{
    size_t index, size;
    yyjson_val *item;
    yyjson_arr_foreach(yyjson_obj_get(answer.root, "Results"), index, size, item)
    {
        if (yyjson_get_uint(yyjson_obj_get(item, "Id")) == id && yyjson_obj_get(item, member) != NULL)
            return yyjson_get_str(yyjson_obj_get(item, member));
    }
    return "";
}

/* Stored now, or by the try before, whose reply was lost. */
static bool is_stored(struct answer answer, unsigned count)
{
    if (answer.error != NULL)
        return false;
    return answer_number(answer, "Stored") == count || (answer.is_repeat && count_status(answer, "duplicate") >= count);
}

static bool has_status(struct answer answer, unsigned id, const char *status)
{
    return answer.error == NULL && strcmp(text_of(answer, id, "Status"), status) == 0;
}

static unsigned count_unconfirmed(struct answer answer)
{
    return (unsigned)yyjson_arr_size(yyjson_obj_get(answer.root, "Unconfirmed"));
}

/* How many messages of the queue have this body; they stay. */
static unsigned count_body(struct world *world, const char *queue, unsigned uid)
{
    unsigned total = (unsigned)world_count_messages(world, queue), count = 0;
    struct taken taken[10];
    char body[20];
    snprintf(body, sizeof(body), "%u", uid);
    EXPECT(world, total <= 10);
    world_hold(world, queue, 30, total, taken);
    for (unsigned i = 0; i < total; i++)
        count += strcmp(taken[i].body, body) == 0;
    world_pass_time(world, 31000);
    return count;
}

/* --- one effect --------------------------------------------------------------------------------------------------- */

static void R12_a_batch_whose_answer_is_unknown_is_stored_once(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows rows = row_of(7, 1, "q");
    add_row(&rows, 9, 2, "q");
    EXPECT(world, is_stored(publish(world, 1, 0, &rows), 2));
    for (unsigned i = 0; i < 3; i++) {
        world_kill(world);
        struct answer again = publish(world, 1, 0, &rows);
        EXPECT(world, again.error == NULL && answer_number(again, "Stored") == 0);
        EXPECT(world, count_status(again, "duplicate") == 2);
    }
    EXPECT(world, world_count_messages(world, "q") == 2);
    EXPECT(world, count_body(world, "q", 1) == 1 && count_body(world, "q", 2) == 1);
    struct answer open = open_as(world, 1, OWNER_1);
    EXPECT(world, answer_number(open, "LastBatch") == 1 && count_unconfirmed(open) == 2);
}

static void R13_a_confirmation_may_be_repeated(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows first = row_of(1, 1, "q"), second = row_of(2, 2, "q"), third = row_of(3, 3, "q");
    EXPECT(world, is_stored(publish(world, 1, 0, &first), 1));
    EXPECT(world, is_stored(publish(world, 2, 1, &second), 1));
    EXPECT(world, count_status(publish(world, 2, 1, &second), "duplicate") == 1);
    EXPECT(world, is_stored(publish(world, 3, 1, &third), 1)); /* the batch before it is not confirmed yet */
    struct answer open = open_as(world, 1, OWNER_1);
    EXPECT(world, answer_number(open, "LastBatch") == 3 && count_unconfirmed(open) == 2);
    EXPECT(world, count_status(publish(world, 4, 0, &first), "duplicate") == 1); /* says less than before */
    EXPECT(world, count_unconfirmed(open_as(world, 1, OWNER_1)) == 2);
    EXPECT(world, world_count_messages(world, "q") == 3);
}

static void R15_a_batch_that_was_heard_but_not_logged_is_stored(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows rows = row_of(1, 1, "q");
    uint64_t sent = core_metrics(world_core(world)).sent;
    world_together_begin(world);
    EXPECT(world, is_stored(publish(world, 1, 0, &rows), 1));
    world->is_together = false;
    world_kill(world);
    bool is_there = core_metrics(world_core(world)).sent > sent;
    struct answer again = publish(world, 1, 0, &rows);
    EXPECT(world, is_there ? count_status(again, "duplicate") == 1 : is_stored(again, 1));
    EXPECT(world, world_count_messages(world, "q") == 1);
}

static void R16_after_a_replay_everything_is_remembered_as_before(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 3, OWNER_1));
    struct rows rows = row_of(1, 1, "q");
    add_row(&rows, 2, 2, "missing");
    add(&rows, "{'Id':3," UID ",'QueueUrl':'q','MessageBody':''}", 3u);
    EXPECT(world, is_stored(publish_as(world, 3, OWNER_1, 1, 0, &rows), 1));
    struct rows next = row_of(4, 4, "q");
    EXPECT(world, is_stored(publish_as(world, 3, OWNER_1, 2, 1, &next), 1));
    const uint64_t publishers = core_metrics(world_core(world)).publishers;
    const uint64_t remembered = core_metrics(world_core(world)).published_rows;
    world_kill(world);
    EXPECT(world, core_metrics(world_core(world)).publishers == publishers);
    EXPECT(world, core_metrics(world_core(world)).published_rows == remembered && remembered == 2);
    EXPECT(world, answer_fails(publish_as(world, 2, OWNER_1, 3, 2, &next), "PublisherFenced"));
    EXPECT(world, answer_fails(publish_as(world, 3, OWNER_2, 3, 2, &next), "PublisherFenced"));
    EXPECT(world, answer_fails(publish_as(world, 3, OWNER_1, 1, 0, &rows), "PublisherBatchOutOfOrder"));
    EXPECT(world, count_status(publish_as(world, 3, OWNER_1, 2, 1, &next), "duplicate") == 1);
    struct answer again = publish_as(world, 3, OWNER_1, 3, 2, &rows);
    EXPECT(world, has_status(again, 1, "duplicate") && has_status(again, 2, "blocked"));
    EXPECT(world, has_status(again, 3, "refused"));
    EXPECT(world, world_count_messages(world, "q") == 2);
}

static void R17_after_a_week_of_silence_it_goes_on_where_it_was(struct world *world)
{
    world_create_queue(world, "q", "'MessageRetentionPeriod':'1209600'");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows first = row_of(1, 1, "q"), second = row_of(2, 2, "q"), third = row_of(3, 3, "q");
    EXPECT(world, is_stored(publish(world, 1, 0, &first), 1));
    EXPECT(world, is_stored(publish(world, 2, 1, &second), 1));
    world_pass_time(world, 7 * DAY_MS);
    EXPECT(world, count_status(publish(world, 2, 1, &second), "duplicate") == 1);
    /* What is not confirmed is not forgotten, and an id that is forgotten is not mistaken for a new one. */
    add_row(&third, 2, 2, "q");
    add_row(&third, 1, 1, "q");
    struct answer answer = publish(world, 3, 1, &third);
    EXPECT(world, is_stored(answer, 1));
    EXPECT(world, has_status(answer, 2, "duplicate") && has_status(answer, 1, "too-old"));
    EXPECT(world, world_count_messages(world, "q") == 3);
}

/* --- other rows under an old name --------------------------------------------------------------------------------- */

/* The source has lost its last commits in a failover and gives their ids to other rows. */
static void R38_an_id_with_another_uid_is_a_new_message(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows lost = row_of(5, 1, "q");
    add_row(&lost, 6, 2, "q");
    EXPECT(world, is_stored(publish(world, 1, 0, &lost), 2));
    EXPECT(world, is_open(world, 2, OWNER_2));
    struct rows rows = row_of(5, 11, "q");
    add_row(&rows, 6, 12, "q");
    add_row(&rows, 7, 2, "q"); /* and one that came back under a new id */
    struct answer answer = publish_as(world, 2, OWNER_2, 2, 0, &rows);
    EXPECT(world, is_stored(answer, 2) && has_status(answer, 7, "duplicate"));
    EXPECT(world, core_metrics(world_core(world)).reused_ids == 2);
    EXPECT(world, world_count_messages(world, "q") == 4);
}

/* --- the fence ---------------------------------------------------------------------------------------------------- */

static void R39_of_two_owners_with_one_epoch_one_is_heard(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 8, OWNER_1));
    struct answer open = open_as(world, 8, OWNER_2);
    EXPECT(world, open.error == NULL && !answer_is_true(open, "Accepted") && answer_number(open, "Epoch") == 8);
    EXPECT(world, strcmp(answer_text(open, "Owner"), OWNER_1) == 0);
    EXPECT(world, !answer_has(open, "Unconfirmed"));
    struct rows rows = row_of(1, 1, "q"), other = row_of(1, 2, "q");
    EXPECT(world, is_stored(publish_as(world, 8, OWNER_1, 1, 0, &rows), 1));
    EXPECT(world, answer_fails(publish_as(world, 8, OWNER_2, 1, 0, &rows), "PublisherFenced"));
    EXPECT(world, answer_fails(publish_as(world, 8, OWNER_2, 2, 0, &other), "PublisherFenced"));
    EXPECT(world, is_open(world, 8, OWNER_1)); /* a repeat */
    EXPECT(world, is_open(world, 9, OWNER_2));
    EXPECT(world, answer_fails(publish_as(world, 8, OWNER_1, 2, 0, &other), "PublisherFenced"));
    EXPECT(world, !answer_is_true(open_as(world, 8, OWNER_1), "Accepted"));
    EXPECT(world, is_stored(publish_as(world, 9, OWNER_2, 2, 0, &other), 1));
    EXPECT(world, world_count_messages(world, "q") == 2);
}

static void R55_an_epoch_of_two_to_the_fortieth_is_one(struct world *world)
{
    static const unsigned long long epochs[] = {
        32767, 65536, UINT64_C(1) << 32, UINT64_C(1) << 40, (UINT64_C(1) << 40) + 1, INT64_MAX};
    world_create_queue(world, "q", "");
    for (unsigned i = 0; i < sizeof(epochs) / sizeof(epochs[0]); i++) {
        struct rows rows = row_of(i + 1, i + 1, "q");
        const char *owner = i % 2 == 0 ? OWNER_1 : OWNER_2, *former = i % 2 == 0 ? OWNER_2 : OWNER_1;
        EXPECT(world, is_open(world, epochs[i], owner));
        if (i > 0)
            EXPECT(world, answer_fails(publish_as(world, epochs[i - 1], former, i + 1, 0, &rows), "PublisherFenced"));
        EXPECT(world, is_stored(publish_as(world, epochs[i], owner, i + 1, 0, &rows), 1));
    }
    EXPECT(world, world_count_messages(world, "q") == sizeof(epochs) / sizeof(epochs[0]));
}

/* --- the number of a batch ---------------------------------------------------------------------------------------- */

static void R53_a_batch_that_comes_late_is_never_taken_for_another(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows first = row_of(1, 1, "q"), second = row_of(2, 2, "q"), third = row_of(3, 3, "q");
    EXPECT(world, answer_fails(publish(world, 2, 0, &first), "PublisherBatchOutOfOrder"));
    EXPECT(world, is_stored(publish(world, 1, 0, &first), 1));
    EXPECT(world, is_stored(publish(world, 2, 1, &second), 1));
    EXPECT(world, answer_fails(publish(world, 1, 0, &first), "PublisherBatchOutOfOrder"));
    EXPECT(world, answer_fails(publish(world, 1, 0, &third), "PublisherBatchOutOfOrder"));
    EXPECT(world, answer_fails(publish(world, 2, 1, &third), "PublisherBatchConflict"));
    struct rows both = second;
    add_row(&both, 3, 3, "q");
    EXPECT(world, answer_fails(publish(world, 2, 1, &both), "PublisherBatchConflict"));
    EXPECT(world, answer_fails(publish(world, 4, 2, &third), "PublisherBatchOutOfOrder"));
    EXPECT(world, world_count_messages(world, "q") == 2);
    EXPECT(world, is_stored(publish(world, 3, 2, &third), 1));
    EXPECT(world, world_count_messages(world, "q") == 3);
}

static void R54_a_gap_does_not_write_anything_twice(struct world *world)
{
    world_create_queue(world, "q", "");
    world_create_queue(world, "r", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows first = row_of(1, 1, "q"), second;
    add_row(&first, 2, 2, "r");
    second = row_of(3, 3, "q");
    add_row(&second, 4, 4, "r");
    EXPECT(world, is_stored(publish(world, 1, 0, &first), 2));
    EXPECT(world, answer_fails(publish(world, 3, 1, &second), "PublisherBatchOutOfOrder"));
    /* The relay begins again: what is stored is named, the rest comes once more. */
    EXPECT(world, is_open(world, 2, OWNER_2));
    struct answer open = open_as(world, 2, OWNER_2);
    EXPECT(world, answer_number(open, "LastBatch") == 1 && count_unconfirmed(open) == 2);
    struct rows all = first;
    add_row(&all, 3, 3, "q");
    add_row(&all, 4, 4, "r");
    struct answer answer = publish_as(world, 2, OWNER_2, 2, 0, &all);
    EXPECT(world, is_stored(answer, 2) && has_status(answer, 1, "duplicate") && has_status(answer, 2, "duplicate"));
    EXPECT(world, world_count_messages(world, "q") == 2 && world_count_messages(world, "r") == 2);
}

/* --- one row is one row's fault ----------------------------------------------------------------------------------- */

static void a_row_that_is_refused_does_not_disturb_the_others(struct world *world)
{
    world_create_queue(world, "q", "");
    world_create_queue(world, "line.fifo", "'FifoQueue':'true'");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows rows = row_of(1, 1, "q");
    add(&rows, "{'Id':2," UID ",'QueueUrl':'q','MessageBody':'\\u0001'}", 2u);
    add_row(&rows, 3, 3, "gone");
    add_row(&rows, 4, 4, "line.fifo"); /* without a group */
    add(&rows, "{'Id':5," UID ",'QueueUrl':'line.fifo','MessageBody':'5','MessageGroupId':'g'}", 5u);
    add(&rows,
        "{'Id':6," UID ",'QueueUrl':'q','MessageBody':'6','MessageAttributes':{'Tally.Batch':{"
        "'DataType':'String','StringValue':'none'}}}",
        6u);
    add(&rows, "{'Id':7," UID ",'ReceiptHandle':'nonsense'}", 7u);
    add(&rows, "{'Id':9," UID ",'MessageBody':'to nowhere'}", 9u);
    add(&rows, "{'Id':8," UID ",'QueueUrl':'line.fifo','MessageBody':'5','MessageGroupId':'g'}", 8u);
    struct answer answer = publish(world, 1, 0, &rows);
    EXPECT(world, is_stored(answer, 3));
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(world, has_status(answer, 2, "refused") && has_status(answer, 4, "refused"));
        EXPECT(world, strcmp(text_of(answer, 2, "Code"), "InvalidMessageContents") == 0);
        EXPECT(world, strcmp(text_of(answer, 4, "Code"), "MissingParameter") == 0);
        EXPECT(world, has_status(answer, 3, "blocked"));
        EXPECT(world, strcmp(text_of(answer, 3, "Code"), "AWS.SimpleQueueService.NonExistentQueue") == 0);
        EXPECT(world, strcmp(text_of(answer, 6, "Code"), "BatchDoesNotExist") == 0);
        EXPECT(world, strstr(text_of(answer, 6, "Message"), "create it first") != NULL);
        EXPECT(world, strcmp(text_of(answer, 7, "Code"), "ReceiptHandleIsInvalid") == 0);
        EXPECT(world, has_status(answer, 9, "refused"));
        EXPECT(world, strcmp(text_of(answer, 9, "Code"), "MissingParameter") == 0);
        answer = publish(world, 1, 0, &rows); /* answered as it was */
        EXPECT(world, answer_number(answer, "Stored") == 0 && count_status(answer, "duplicate") == 3);
    }
    /* R32: two rows with one body are two messages. */
    EXPECT(world, world_count_messages(world, "q") == 1 && world_count_messages(world, "line.fifo") == 2);
    /* Once the queue is there, and the batch, what was blocked or refused goes through. */
    world_create_queue(world, "gone", "");
    struct rows later = row_of(3, 3, "gone");
    add_row(&later, 12, 2, "q");
    EXPECT(world, is_stored(publish(world, 2, 1, &later), 2));
}

/* Group g: blocked, then one that could go; group h: refused, then one that could go; and one without a group. */
static struct rows rows_of_groups(void)
{
    struct rows rows = {.size = 0};
    add(&rows, "{'Id':1," UID ",'QueueUrl':'gone','MessageBody':'1','MessageGroupId':'g'}", 1u);
    add(&rows, "{'Id':2," UID ",'QueueUrl':'q','MessageBody':'2','MessageGroupId':'g'}", 2u);
    add(&rows, "{'Id':3," UID ",'QueueUrl':'q','MessageBody':'\\u0001','MessageGroupId':'h'}", 3u);
    add(&rows, "{'Id':4," UID ",'QueueUrl':'q','MessageBody':'4','MessageGroupId':'h'}", 4u);
    add_row(&rows, 5, 5, "q");
    return rows;
}

/* P4: what stays behind is not overtaken by what comes after it in its group. */
static void a_row_that_stays_behind_holds_its_group(struct world *world)
{
    static const char *const head = "'Publisher':'" SOURCE "','Epoch':1,'Owner':'" OWNER_1 "','ConfirmedBatch':0";
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows rows = rows_of_groups();
    struct answer strict =
        world_call(world, "Tally.Publish", "{%s,'Batch':1,'Order':'strict','Rows':[%s]}", head, rows.text);
    EXPECT(world, is_stored(strict, 0) && has_status(strict, 1, "blocked") && count_status(strict, "held") == 4);
    struct answer block = world_call(world, "Tally.Publish",
                                     "{%s,'Batch':2,'Order':'group','Refused':'block','Rows':[%s]}", head, rows.text);
    EXPECT(world, is_stored(block, 1) && has_status(block, 2, "held") && has_status(block, 4, "held"));
    struct answer park =
        world_call(world, "Tally.Publish", "{%s,'Batch':3,'Refused':'park','Rows':[%s]}", head, rows.text);
    EXPECT(world, is_stored(park, 1) && has_status(park, 2, "held") && has_status(park, 3, "refused"));
    EXPECT(world, has_status(park, 5, "duplicate"));
    world_create_queue(world, "gone", "");
    struct answer rest = world_call(world, "Tally.Publish", "{%s,'Batch':4,'Rows':[%s]}", head, rows.text);
    EXPECT(world, is_stored(rest, 2) && count_status(rest, "held") == 0);
    EXPECT(world,
           answer_fails(world_call(world, "Tally.Publish", "{%s,'Batch':5,'Order':'any','Rows':[%s]}", head, rows.text),
                        "InvalidParameterValueException"));
    EXPECT(world, world_count_messages(world, "q") == 3 && world_count_messages(world, "gone") == 1);
}

static void a_row_with_a_receipt_handle_ends_that_message(struct world *world)
{
    world_create_queue(world, "in", "'Tally.StaleReceipts':'refuse'");
    world_create_queue(world, "out", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    world_send(world, "in", NULL, "first");
    struct taken old, taken;
    world_hold(world, "in", 10, 1, &old);
    world_pass_time(world, 11000);
    world_hold(world, "in", 600, 1, &taken);
    struct rows rows = row_of(1, 1, "out");
    add(&rows, "{'Id':2," UID ",'ReceiptHandle':'%s'}", 2u, old.handle);
    EXPECT(world, is_stored(publish(world, 1, 0, &rows), 1));
    EXPECT(world, has_status(publish(world, 1, 0, &rows), 2, "stale"));
    EXPECT(world, world_count_messages(world, "in") == 1);
    rows = row_of(3, 3, "out");
    add(&rows, "{'Id':4," UID ",'ReceiptHandle':'%s'}", 4u, taken.handle);
    EXPECT(world, is_stored(publish(world, 2, 1, &rows), 2));
    EXPECT(world, world_count_messages(world, "in") == 0 && world_count_messages(world, "out") == 2);
    struct rows again = row_of(5, 5, "out");
    add(&again, "{'Id':4," UID ",'ReceiptHandle':'%s'}", 4u, taken.handle);
    add(&again, "{'Id':6," UID ",'ReceiptHandle':'%s'}", 6u, taken.handle);
    struct answer answer = publish(world, 3, 2, &again);
    EXPECT(world, is_stored(answer, 1) && has_status(answer, 4, "duplicate") && has_status(answer, 6, "stale"));
}

/* Its transaction has done the work, and the queue accepts older handles: that is a delete like any other. */
static void a_row_with_an_older_receipt_handle_ends_the_message_too(struct world *world)
{
    world_create_queue(world, "in", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    world_send(world, "in", NULL, "first");
    struct taken old, taken;
    world_hold(world, "in", 10, 1, &old);
    world_pass_time(world, 11000);
    world_hold(world, "in", 600, 1, &taken);
    struct rows rows = {.size = 0};
    add(&rows, "{'Id':1," UID ",'ReceiptHandle':'%s'}", 1u, old.handle);
    EXPECT(world, is_stored(publish(world, 1, 0, &rows), 1));
    EXPECT(world, world_count_messages(world, "in") == 0);
    struct rows again = {.size = 0};
    add(&again, "{'Id':2," UID ",'ReceiptHandle':'%s'}", 2u, taken.handle);
    EXPECT(world, has_status(publish(world, 2, 1, &again), 2, "stale"));
}

static void rows_of_one_batch_with_one_uid_are_one_row(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows rows = row_of(1, 1, "q");
    add_row(&rows, 2, 1, "q");
    add_row(&rows, 3, 3, "gone");
    add_row(&rows, 4, 3, "q"); /* the one before it was blocked */
    struct answer answer = publish(world, 1, 0, &rows);
    EXPECT(world, is_stored(answer, 2) && has_status(answer, 2, "duplicate") && has_status(answer, 3, "blocked"));
    EXPECT(world, world_count_messages(world, "q") == 2);
}

/* The message's own deduplication id is heeded, and the row is done. */
static void a_row_may_be_a_duplicate_in_its_queue(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x','MessageDeduplicationId':'d'}");
    struct rows rows = {.size = 0};
    add(&rows, "{'Id':1," UID ",'QueueUrl':'q','MessageBody':'x','MessageDeduplicationId':'d'}", 1u);
    EXPECT(world, has_status(publish(world, 1, 0, &rows), 1, "duplicate"));
    EXPECT(world, count_unconfirmed(open_as(world, 1, OWNER_1)) == 1);
    EXPECT(world, world_count_messages(world, "q") == 1);
}

/* --- forgetting --------------------------------------------------------------------------------------------------- */

/* The server is down longer than confirmed rows are kept; then it replays what happened before. */
static void R57_a_long_downtime_forgets_what_a_long_silence_forgets(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows first = row_of(1, 1, "q"), second = row_of(2, 2, "q"), third = row_of(3, 3, "q");
    EXPECT(world, is_stored(publish(world, 1, 0, &first), 1));
    EXPECT(world, is_stored(publish(world, 2, 1, &second), 1));
    EXPECT(world, world_flush(world));
    world_stop(world, false);
    world->now_ms += 700000;
    world_start(world);
    add_row(&third, 1, 1, "q");
    add_row(&third, 2, 2, "q");
    add_row(&third, 1, 4, "q");
    struct answer answer = publish(world, 3, 2, &third);
    EXPECT(world, is_stored(answer, 1));
    EXPECT(world, count_status(answer, "too-old") == 2 && has_status(answer, 2, "duplicate"));
    EXPECT(world, world_count_messages(world, "q") == 3);
    world_audit(world);
}

static void a_confirmed_row_is_known_for_ten_minutes(struct world *world)
{
    world_create_queue(world, "q", "");
    EXPECT(world, is_open(world, 1, OWNER_1));
    struct rows first = row_of(1, 1, "q"), second = row_of(2, 2, "q");
    EXPECT(world, is_stored(publish(world, 1, 0, &first), 1));
    world_pass_time(world, 3600000);
    EXPECT(world, is_stored(publish(world, 2, 1, &second), 1));
    uint64_t confirmed_at_ms = world->now_ms;
    if (world->options.way == WORLD_STOPS)
        return; /* when it was confirmed depends on how often it was tried */
    world_pass_time(world, confirmed_at_ms + 599999 - world->now_ms);
    EXPECT(world, has_status(publish(world, 3, 2, &first), 1, "duplicate"));
    world_pass_time(world, confirmed_at_ms + 600000 - world->now_ms);
    EXPECT(world, has_status(publish(world, 4, 3, &first), 1, "too-old"));
    EXPECT(world, world_count_messages(world, "q") == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(R12_a_batch_whose_answer_is_unknown_is_stored_once),
        SCENARIO(R13_a_confirmation_may_be_repeated),
        SCENARIO(R15_a_batch_that_was_heard_but_not_logged_is_stored),
        SCENARIO(R16_after_a_replay_everything_is_remembered_as_before),
        SCENARIO(R17_after_a_week_of_silence_it_goes_on_where_it_was),
        SCENARIO(R38_an_id_with_another_uid_is_a_new_message),
        SCENARIO(R39_of_two_owners_with_one_epoch_one_is_heard),
        SCENARIO(R55_an_epoch_of_two_to_the_fortieth_is_one),
        SCENARIO(R53_a_batch_that_comes_late_is_never_taken_for_another),
        SCENARIO(R54_a_gap_does_not_write_anything_twice),
        SCENARIO(a_row_that_is_refused_does_not_disturb_the_others),
        SCENARIO(a_row_that_stays_behind_holds_its_group),
        SCENARIO(a_row_with_a_receipt_handle_ends_that_message),
        SCENARIO(a_row_with_an_older_receipt_handle_ends_the_message_too),
        SCENARIO(rows_of_one_batch_with_one_uid_are_one_row),
        SCENARIO(a_row_may_be_a_duplicate_in_its_queue),
        SCENARIO(R57_a_long_downtime_forgets_what_a_long_silence_forgets),
        SCENARIO(a_confirmed_row_is_known_for_ten_minutes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
