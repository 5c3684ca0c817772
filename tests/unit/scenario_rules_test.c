/* Rules of batches that no numbered scenario covers: invariants B7, B8, B16, B17 and B19, idempotency, and every
 * limit. */
#include "scenario.h"

static struct world *open_world(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "done", "");
    return world;
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

static bool create(struct world *world, const char *arguments)
{
    return world_call(world, "Tally.CreateBatch", "{%s}", arguments).error == NULL;
}

static struct answer describe(struct world *world, const char *batch)
{
    struct answer answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'%s'}", batch);
    EXPECT(world, answer.error == NULL);
    return answer;
}

static bool fails(struct world *world, const char *action, const char *body, const char *error)
{
    return answer_fails(world_call(world, action, "%s", body), error);
}

/* --- idempotency -------------------------------------------------------------------------------------------------- */

static void creating_twice_with_the_same_arguments_answers_the_same(void **state)
{
    struct world *world = open_world(state);
    static const char *const arguments =
        "'BatchId':'b','Total':3,'OnComplete':{'QueueUrl':'done','MessageBody':'hello','MessageGroupId':'g'}";
    EXPECT(world, create(world, arguments));
    EXPECT(world, create(world, arguments));
    EXPECT(world, core_metrics(world_core(world)).batches == 1);
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':'b'}", "BatchAlreadyExists"));
    EXPECT(world,
           fails(world, "Tally.CreateBatch",
                 "{'BatchId':'b','Total':3,'OnComplete':{'QueueUrl':'done','MessageBody':'other','MessageGroupId':"
                 "'g'}}",
                 "BatchAlreadyExists"));
    /* Also of a batch that is no longer open. */
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':3}").error == NULL);
    struct answer answer = world_call(world, "Tally.CreateBatch", "{%s}", arguments);
    EXPECT(world, answer.error == NULL && strcmp(answer_text(answer, "State"), "sealed") == 0);
    close_world(world);
}

static void a_child_created_again_needs_the_same_parent(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'p','Total':1"));
    EXPECT(world, create(world, "'BatchId':'c','Parent':'p'"));
    EXPECT(world, create(world, "'BatchId':'c','Parent':'p'")); /* though the parent is sealed by now */
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':'c'}", "BatchAlreadyExists"));
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':'d','Parent':'p'}", "BatchSealed"));
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':'d','Parent':'none'}", "BatchDoesNotExist"));
    EXPECT(world, answer_number(describe(world, "p"), "Total") == 1);
    close_world(world);
}

static void a_child_may_be_called_like_an_external_unit(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'p','OnComplete':{'QueueUrl':'done'}"));
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'p','Units':['x']}").error == NULL);
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'p','Count':3}").error == NULL);
    EXPECT(world, create(world, "'BatchId':'x','Parent':'p'"));
    EXPECT(world, create(world, "'BatchId':'2','Parent':'p'"));
    EXPECT(world, create(world, "'BatchId':'y','Parent':'p'"));
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'p','Units':['y']}").error == NULL);
    EXPECT(world, answer_number(describe(world, "p"), "Total") == 8);
    /* A report by key is for the external unit, never for the child. */
    EXPECT(world,
           world_call(world, "Tally.CompleteUnits",
                      "{'BatchId':'p','Units':[{'Unit':'x'},{'Unit':'2'},{'Unit':'y'},{'Unit':'0'},{'Unit':'1'}]}")
                   .error == NULL);
    EXPECT(world, answer_number(describe(world, "p"), "Remaining") == 3);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'p'}").error == NULL);
    static const char *const children[] = {"x", "2", "y"};
    for (unsigned i = 0; i < 3; i++) {
        EXPECT(world, world_count_messages(world, "done") == 0);
        EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'%s'}", children[i]).error == NULL);
    }
    EXPECT(world, world_drain(world, "done").complete == 1);
    close_world(world);
}

static void a_child_that_was_deleted_may_be_created_again(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'p'"));
    for (unsigned i = 1; i <= 3; i++) {
        EXPECT(world, create(world, "'BatchId':'c','Parent':'p'"));
        EXPECT(world, answer_number(describe(world, "p"), "Remaining") == 1);
        EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'c'}").error == NULL);
        EXPECT(world, world_call(world, "Tally.DeleteBatch", "{'BatchId':'c'}").error == NULL);
        EXPECT(world, answer_number(describe(world, "p"), "Succeeded") == i);
    }
    close_world(world);
}

static void batches_without_an_id_get_different_ones(void **state)
{
    struct world *world = open_world(state);
    struct answer first = world_call(world, "Tally.CreateBatch", "{}");
    struct answer second = world_call(world, "Tally.CreateBatch", "{}");
    EXPECT(world, strlen(answer_text(first, "BatchId")) == 36);
    EXPECT(world, strcmp(answer_text(first, "BatchId"), answer_text(second, "BatchId")) != 0);
    EXPECT(world, strcmp(answer_text(describe(world, answer_text(first, "BatchId")), "State"), "open") == 0);
    close_world(world);
}

/* Invariant B9. */
static void a_batch_expires_after_14_days_where_nothing_is_said(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b','OnComplete':{'QueueUrl':'done'}"));
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':1}").error == NULL);
    world_pass_time(world, UINT64_C(1209600000) - 1);
    EXPECT(world, strcmp(answer_text(describe(world, "b"), "State"), "open") == 0);
    world_pass_time(world, 1);
    EXPECT(world, strcmp(answer_text(describe(world, "b"), "Status"), "expired") == 0);
    EXPECT(world, world_drain(world, "done").complete == 1);
    close_world(world);
}

/* --- B8, B16, B17, B19 -------------------------------------------------------------------------------------------- */

static void B8_a_total_seals_when_it_is_reached_and_not_before(struct world *world)
{
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "done", "");
    EXPECT(world, create(world, "'BatchId':'b','Total':4,'OnComplete':{'QueueUrl':'done'}"));
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x']}").error == NULL);
    EXPECT(world, world_send(world, "jobs", "b", "message").error == NULL);
    EXPECT(world, create(world, "'BatchId':'c','Parent':'b'"));
    EXPECT(world, strcmp(answer_text(describe(world, "b"), "State"), "open") == 0);
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b','Units':['y','z']}", "BatchTotalExceeded"));
    EXPECT(world, answer_number(describe(world, "b"), "Total") == 3);
    struct answer answer = world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x','y','y']}");
    EXPECT(world, answer.is_repeat || (answer_number(answer, "Added") == 1 && answer_number(answer, "Total") == 4));
    EXPECT(world, strcmp(answer_text(describe(world, "b"), "State"), "sealed") == 0);
    answer = world_call(world, "Tally.SealBatch", "{'BatchId':'b'}");
    EXPECT(world, answer.error == NULL && answer_number(answer, "Remaining") == 4);
}

/* Everything that a receiver sees of a completion message, but for the handle. */
static void B16_a_completion_message_is_the_same_after_every_restart(struct world *world)
{
    world_create_queue(world, "done", "");
    EXPECT(world, create(world, "'BatchId':'b','OnComplete':{'QueueUrl':'done'}"));
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':3}").error == NULL);
    world_pass_time(world, 1234);
    EXPECT(world, world_call(world, "Tally.CompleteUnits",
                             "{'BatchId':'b','Units':[{'Unit':'0'},{'Unit':'1','Status':'failed'}]}")
                          .error == NULL);
    EXPECT(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}").error == NULL);
    struct taken first, again;
    world_hold(world, "done", 1, 1, &first);
    EXPECT(world,
           strstr(first.body, "\"status\":\"cancelled\",\"total\":3,\"succeeded\":1,\"failed\":1,\"cancelled\":1,"
                              "\"createdAt\":1700000000.000,\"completedAt\":1700000001.234}") != NULL);
    for (unsigned i = 0; i < 3; i++) {
        world_kill(world);
        world_pass_time(world, 2000);
        world_hold(world, "done", 1, 1, &again);
        EXPECT(world, strcmp(first.id, again.id) == 0 && strcmp(first.body, again.body) == 0);
        EXPECT(world, strcmp(again.of_batch, "b") == 0 && strcmp(again.event, "complete") == 0);
        EXPECT(world, first.sent_at_ms == again.sent_at_ms);
        EXPECT(world, strcmp(answer_text(describe(world, "b"), "CompletionMessageId"), first.id) == 0);
    }
}

static void B17_a_child_keeps_the_record_of_its_parent(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'p','RetentionSeconds':0,'ExpiresAfterSeconds':60"));
    EXPECT(world, create(world, "'BatchId':'c','Parent':'p','RetentionSeconds':100"));
    world_pass_time(world, 61000);
    EXPECT(world, strcmp(answer_text(describe(world, "p"), "Status"), "expired") == 0);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'c'}").error == NULL);
    EXPECT(world, answer_number(describe(world, "p"), "Succeeded") == 1);
    world_pass_time(world, 99000);
    EXPECT(world, strcmp(answer_text(describe(world, "p"), "Status"), "expired") == 0);
    world_pass_time(world, 2000);
    EXPECT(world, core_metrics(world_core(world)).batches == 0);
    close_world(world);
}

static void B19_a_send_that_fails_leaves_neither_message_nor_unit(void **state)
{
    struct world *world = open_world(state);
    world_create_queue(world, "small", "'MaximumMessageSize':'1024'");
    EXPECT(world, create(world, "'BatchId':'b'"));
    char body[1100];
    memset(body, 'x', sizeof(body) - 1);
    body[sizeof(body) - 1] = '\0';
    EXPECT(world, answer_fails(world_send(world, "small", "b", body), "InvalidParameterValueException"));
    EXPECT(world, answer_fails(world_send(world, "jobs", "none", "x"), "BatchDoesNotExist"));
    EXPECT(world, answer_number(describe(world, "b"), "Total") == 0);
    EXPECT(world, core_metrics(world_core(world)).messages == 0);
    close_world(world);
}

static void an_unknown_unit_fails_the_whole_report(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b'"));
    EXPECT(world, create(world, "'BatchId':'c','Parent':'b'"));
    EXPECT(world, world_send(world, "jobs", "b", "x").error == NULL);
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':10}").error == NULL);
    static const char *const unknown[] = {"10", "x", "01", "c", "-1", "4294967296", "99999999999999999999"};
    for (size_t i = 0; i < ARRAY_LENGTH(unknown); i++) {
        struct answer answer = world_call(world, "Tally.CompleteUnits",
                                          "{'BatchId':'b','Units':[{'Unit':'9'},{'Unit':'%s'}]}", unknown[i]);
        EXPECT(world, answer_fails(answer, "UnitDoesNotExist"));
    }
    EXPECT(world, answer_number(describe(world, "b"), "Remaining") == 12);
    close_world(world);
}

/* --- Count and Units together ------------------------------------------------------------------------------------- */

static uint64_t add(struct world *world, const char *what)
{
    struct answer answer = world_call(world, "Tally.AddUnits", "{'BatchId':'b',%s}", what);
    EXPECT(world, answer.error == NULL);
    EXPECT(world, answer_number(answer, "Total") == answer_number(describe(world, "b"), "Total"));
    return answer_number(answer, "Added");
}

static void counted_and_numeric_keys_are_the_same_units(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b'"));
    EXPECT(world, add(world, "'Units':['3','7','seven','07']") == 4);
    EXPECT(world, add(world, "'Count':5") == 4); /* "3" is there */
    EXPECT(world, add(world, "'Count':5") == 0);
    EXPECT(world, add(world, "'Count':2") == 0);
    EXPECT(world, add(world, "'Count':0") == 0);
    EXPECT(world, add(world, "'Units':['0','4','5','5']") == 1);
    EXPECT(world, add(world, "'Count':10") == 3); /* 6, 8, 9: not 5, not 7 */
    EXPECT(world, add(world, "'Units':['9','10']") == 1);
    EXPECT(world, answer_number(describe(world, "b"), "Total") == 13);
    static const char *const keys[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "seven", "07"};
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
        struct answer answer =
            world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'%s'}]}", keys[i]);
        EXPECT(world, answer.error == NULL && answer_number(answer, "Remaining") == 12 - i);
    }
    close_world(world);
}

static void keys_have_1_to_256_bytes_and_allowed_characters(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b'"));
    char key[258];
    memset(key, 'k', sizeof(key));
    key[257] = '\0';
    EXPECT(world, answer_fails(world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['%s']}", key),
                               "InvalidParameterValueException"));
    key[256] = '\0';
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['%s']}", key).error == NULL);
    EXPECT(world,
           world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['a file/with blanks \xc3\xa4.txt']}").error ==
               NULL);
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b','Units':['']}", "InvalidParameterValueException"));
    EXPECT(world,
           fails(world, "Tally.AddUnits", "{'BatchId':'b','Units':['\\u0001']}", "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b','Units':[]}", "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b'}", "MissingRequiredParameterException"));
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x'],'Count':1}",
                        "MissingRequiredParameterException"));
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b','Units':'x'}", "SerializationException"));
    EXPECT(world, answer_number(describe(world, "b"), "Total") == 2);
    close_world(world);
}

static void a_count_goes_up_to_a_hundred_million(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b','OnComplete':{'QueueUrl':'done'}"));
    EXPECT(world,
           fails(world, "Tally.AddUnits", "{'BatchId':'b','Count':100000001}", "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b','Count':-1}", "InvalidParameterValueException"));
    EXPECT(world, add(world, "'Units':['one more']") == 1);
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b','Count':100000000}", "OverLimit"));
    EXPECT(world, add(world, "'Count':99999999") == 99999999);
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'b','Units':['two more']}", "OverLimit"));
    EXPECT(world, answer_fails(world_send(world, "jobs", "b", "x"), "OverLimit"));
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':'c','Parent':'b'}", "OverLimit"));
    struct answer answer =
        world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'99999998'},{'Unit':'one more'}]}");
    EXPECT(world, answer_number(answer, "Remaining") == 99999998);
    world_destroy(world); /* an audit of it takes too long */
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void batches_nest_32_deep(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'0','OnComplete':{'QueueUrl':'done'}"));
    char arguments[80];
    for (unsigned depth = 1; depth < 32; depth++) {
        snprintf(arguments, sizeof(arguments), "'BatchId':'%u','Parent':'%u'", depth, depth - 1);
        EXPECT(world, create(world, arguments));
    }
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':'32','Parent':'31'}", "OverLimit"));
    /* One record finishes the whole chain upwards. */
    for (unsigned depth = 0; depth < 32; depth++)
        EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'%u'}", depth).error == NULL);
    EXPECT(world, strcmp(answer_text(describe(world, "0"), "Status"), "succeeded") == 0);
    EXPECT(world, world_drain(world, "done").complete == 1);
    close_world(world);
}

/* Each of ten deletes ends a unit 31 levels down, and each level above says that it failed, at length: together far
 * more than a frame takes. */
static void ten_deletes_of_one_request_may_fill_many_frames(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 1, .segment_size = 64u << 20, .frame_size_max = 9u << 20});
    world_create_queue(world, "done", "");
    world_create_queue(world, "failures", "");
    char *body = malloc(65001);
    assert_non_null(body);
    memset(body, 'b', 65000);
    body[65000] = '\0';
    for (unsigned chain = 0; chain < 10; chain++) {
        for (unsigned depth = 0; depth < 31; depth++) {
            char parent[40] = "";
            if (depth > 0)
                snprintf(parent, sizeof(parent), ",'Parent':'%u-%u'", chain, depth - 1);
            EXPECT(world,
                   world_call(world, "Tally.CreateBatch",
                              "{'BatchId':'%u-%u','OnFirstFailure':{'QueueUrl':'failures','MessageBody':'%s'}%s}",
                              chain, depth, body, parent)
                           .error == NULL);
        }
        EXPECT(world,
               world_call(world, "Tally.CreateBatch",
                          "{'BatchId':'%u','Parent':'%u-30','ExpiresAfterSeconds':1,'OnComplete':{'QueueUrl':'done'}}",
                          chain, chain)
                       .error == NULL);
    }
    world_pass_time(world, 2000);
    struct taken held[10];
    world_hold(world, "done", 300, 10, held);
    char entries[1000];
    size_t size = 0;
    for (unsigned i = 0; i < 10; i++)
        size += (size_t)snprintf(entries + size, sizeof(entries) - size, "%s{'Id':'%u','ReceiptHandle':'%s'}",
                                 i == 0 ? "" : ",", i, held[i].handle);
    struct answer answer = world_call(world, "DeleteMessageBatch", "{'QueueUrl':'done','Entries':[%s]}", entries);
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Successful")) == 10);
    EXPECT(world, world_count_messages(world, "failures") == 310);
    free(body);
    world_kill(world);
    close_world(world);
}

static void ids_have_1_to_128_printable_characters(void **state)
{
    struct world *world = open_world(state);
    char id[130];
    memset(id, '~', sizeof(id));
    id[129] = '\0';
    EXPECT(world, answer_fails(world_call(world, "Tally.CreateBatch", "{'BatchId':'%s'}", id),
                               "InvalidParameterValueException"));
    id[128] = '\0';
    EXPECT(world, world_call(world, "Tally.CreateBatch", "{'BatchId':'%s'}", id).error == NULL);
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':'a b'}", "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':'\xc3\xa4'}", "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'BatchId':7}", "SerializationException"));
    EXPECT(world, fails(world, "Tally.DescribeBatch", "{}", "MissingRequiredParameterException"));
    EXPECT(world, fails(world, "Tally.DescribeBatch", "{'BatchId':'a b'}", "BatchDoesNotExist"));
    /* Quotes and backslashes come through the body that is made. */
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'q\\'\\\\q','OnComplete':{'QueueUrl':'done'}}").error ==
               NULL);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'q\\'\\\\q'}").error == NULL);
    struct completions completions = world_drain(world, "done");
    yyjson_doc *body = yyjson_read(completions.body, strlen(completions.body), 0);
    EXPECT(world, strcmp(yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(body), "batch")), "q\"\\q") == 0);
    yyjson_doc_free(body);
    close_world(world);
}

static void numbers_of_a_batch_have_ranges(void **state)
{
    struct world *world = open_world(state);
    static const char *const refused[] = {
        "'Total':-1",
        "'Total':100000001",
        "'ExpiresAfterSeconds':0",
        "'ExpiresAfterSeconds':31536001",
        "'RetentionSeconds':-1",
        "'RetentionSeconds':31536001",
        "'Tracking':'sum'",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(refused); i++)
        EXPECT(world, answer_fails(world_call(world, "Tally.CreateBatch", "{%s}", refused[i]),
                                   "InvalidParameterValueException"));
    EXPECT(world,
           create(world, "'Total':100000000,'ExpiresAfterSeconds':31536000,'RetentionSeconds':31536000,'Tracking':"
                         "'exact'"));
    EXPECT(world, create(world, "'Total':1,'ExpiresAfterSeconds':1,'RetentionSeconds':0,'Tracking':'xor'"));
    close_world(world);
}

static void a_target_holds_64_KiB(void **state)
{
    struct world *world = open_world(state);
    world_create_queue(world, "small", "'MaximumMessageSize':'1024'");
    char *body = malloc(70000);
    assert_non_null(body);
    memset(body, 'b', 70000);
    body[65537] = '\0';
    EXPECT(world, answer_fails(world_call(world, "Tally.CreateBatch",
                                          "{'BatchId':'b','OnComplete':{'QueueUrl':'done','MessageBody':'%s'}}", body),
                               "InvalidParameterValueException"));
    body[65536] = '\0';
    EXPECT(world, world_call(world, "Tally.CreateBatch",
                             "{'BatchId':'b','OnComplete':{'QueueUrl':'done','MessageBody':'%s'}}", body)
                          .error == NULL);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'b'}").error == NULL);
    EXPECT(world, world_drain(world, "done").complete == 1);
    body[1025] = '\0';
    EXPECT(world, answer_fails(world_call(world, "Tally.CreateBatch",
                                          "{'OnComplete':{'QueueUrl':'small','MessageBody':'%s'}}", body),
                               "InvalidParameterValueException"));
    free(body);
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'OnComplete':{'QueueUrl':'none'}}", "QueueDoesNotExist"));
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'OnComplete':{}}", "QueueDoesNotExist"));
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'OnComplete':'done'}", "SerializationException"));
    EXPECT(world, fails(world, "Tally.CreateBatch", "{'OnComplete':{'QueueUrl':'done','MessageBody':'\\u0001'}}",
                        "InvalidMessageContents"));
    EXPECT(world, fails(world, "Tally.CreateBatch",
                        "{'OnComplete':{'QueueUrl':'done','MessageAttributes':{'Tally.Batch':{'DataType':'String',"
                        "'StringValue':'c'}}}}",
                        "InvalidParameterValueException"));
    close_world(world);
}

static void the_two_ledgers_refuse_each_others_calls(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b'"));
    EXPECT(world, create(world, "'BatchId':'x','Tracking':'xor'"));
    EXPECT(world, fails(world, "Tally.XorUnits", "{'BatchId':'b','Value':'0000000000000001','RequestToken':'t'}",
                        "UnsupportedOperation"));
    EXPECT(world, fails(world, "Tally.AddUnits", "{'BatchId':'x','Count':1}", "UnsupportedOperation"));
    EXPECT(world,
           fails(world, "Tally.CompleteUnits", "{'BatchId':'x','Units':[{'Unit':'0'}]}", "UnsupportedOperation"));
    EXPECT(world, fails(world, "Tally.ListUnits", "{'BatchId':'x'}", "UnsupportedOperation"));
    close_world(world);
}

static void an_xor_ledger_keeps_its_counts_in_order(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'x','Tracking':'xor','Total':2,'OnComplete':{'QueueUrl':'done'}"));
    static const char *const malformed[] = {
        "'Value':'123','RequestToken':'t'", "'Value':'000000000000000g','RequestToken':'t'",
        "'Value':'0000000000000001','RequestToken':'t','Registered':-1",
        "'Value':'0000000000000001','RequestToken':'t','Finished':100000001",
        "'Value':'0000000000000001','RequestToken':'t','Finished':1" /* more than were registered */};
    for (size_t i = 0; i < ARRAY_LENGTH(malformed); i++)
        EXPECT(world, answer_fails(world_call(world, "Tally.XorUnits", "{'BatchId':'x',%s}", malformed[i]),
                                   "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.XorUnits", "{'BatchId':'x','Value':'0000000000000001'}",
                        "MissingRequiredParameterException"));
    EXPECT(world,
           fails(world, "Tally.XorUnits",
                 "{'BatchId':'x','Value':'0000000000000001','Registered':3,'RequestToken':'t'}", "BatchTotalExceeded"));
    EXPECT(world, world_call(world, "Tally.XorUnits",
                             "{'BatchId':'x','Value':'000000000000000A','Registered':2,'RequestToken':'t'}")
                          .error == NULL);
    EXPECT(world, strcmp(answer_text(describe(world, "x"), "State"), "sealed") == 0);
    EXPECT(world, fails(world, "Tally.XorUnits",
                        "{'BatchId':'x','Value':'0000000000000001','Registered':1,'RequestToken':'u'}", "BatchSealed"));
    /* A repeat of the old token is still no error. */
    EXPECT(world, world_call(world, "Tally.XorUnits",
                             "{'BatchId':'x','Value':'000000000000000a','Registered':2,'RequestToken':'t'}")
                          .error == NULL);
    struct answer answer = world_call(world, "Tally.XorUnits",
                                      "{'BatchId':'x','Value':'000000000000000a','Finished':2,'RequestToken':'v'}");
    EXPECT(world, answer_is_true(answer, "Zero") && answer_is_true(answer, "Completed"));
    EXPECT(world, world_drain(world, "done").complete == 1);
    close_world(world);
}

/* As with CompleteUnits: what was outstanding ended by the cancel, and a unit ends once (invariant B3). */
static void what_an_xor_ledger_hears_after_a_cancel_changes_nothing(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'x','Tracking':'xor'"));
    EXPECT(world, world_call(world, "Tally.XorUnits",
                             "{'BatchId':'x','Value':'000000000000000a','Registered':2,'RequestToken':'t'}")
                          .error == NULL);
    EXPECT(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'x'}").error == NULL);
    struct answer answer = world_call(world, "Tally.XorUnits",
                                      "{'BatchId':'x','Value':'000000000000000a','Finished':1,'RequestToken':'u'}");
    EXPECT(world, answer.error == NULL && !answer_is_true(answer, "Zero") && !answer_is_true(answer, "Completed"));
    EXPECT(world, answer_number(describe(world, "x"), "Cancelled") == 2);
    EXPECT(world, answer_number(describe(world, "x"), "Succeeded") == 0);
    close_world(world);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

/* The events of one request stand in one record. */
static void so_many_ends_that_a_record_may_not_hold_them_are_refused_whole(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b'"));
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':10000}").error == NULL);
    struct buffer body;
    buffer_init(&body);
    for (unsigned count = 1000; count <= 10000; count += 9000) {
        buffer_truncate(&body, 0);
        buffer_append_format(&body, "{'BatchId':'b','Units':[{'Unit':'0'}");
        for (unsigned i = 1; i < count; i++)
            buffer_append_format(&body, ",{'Unit':'%u'}", i);
        buffer_append_format(&body, "]}");
        struct answer answer = world_call(world, "Tally.CompleteUnits", "%.*s", BYTES_FORMAT(buffer_bytes(&body)));
        EXPECT(world, count == 1000 ? answer.error == NULL : answer_fails(answer, "OverLimit"));
    }
    buffer_deinit(&body);
    struct answer batch = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    EXPECT(world, answer_number(batch, "Succeeded") == 1000 && answer_number(batch, "Remaining") == 9000);
    close_world(world);
}

static void units_are_listed_by_state_in_pages(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b'"));
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':25}").error == NULL);
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['last']}").error == NULL);
    EXPECT(world,
           world_call(world, "Tally.CompleteUnits",
                      "{'BatchId':'b','Units':[{'Unit':'3'},{'Unit':'last','Status':'failed','Detail':'no \\'x\\''}]}")
                   .error == NULL);
    unsigned count = 0;
    char token[80] = "";
    do {
        struct answer page =
            world_call(world, "Tally.ListUnits", "{'BatchId':'b','State':'outstanding','MaxResults':7%s%s%s}",
                       token[0] == '\0' ? "" : ",'NextToken':'", token, token[0] == '\0' ? "" : "'");
        EXPECT(world, page.error == NULL);
        size_t size = yyjson_arr_size(yyjson_obj_get(page.root, "Units"));
        EXPECT(world, size <= 7);
        count += (unsigned)size;
        snprintf(token, sizeof(token), "%s", answer_text(page, "NextToken"));
    } while (token[0] != '\0');
    EXPECT(world, count == 24);
    struct answer failed = world_call(world, "Tally.ListUnits", "{'BatchId':'b','State':'failed'}");
    yyjson_val *unit = yyjson_arr_get_first(yyjson_obj_get(failed.root, "Units"));
    EXPECT(world, strcmp(yyjson_get_str(yyjson_obj_get(unit, "Unit")), "last") == 0);
    EXPECT(world, strcmp(yyjson_get_str(yyjson_obj_get(unit, "Detail")), "no \"x\"") == 0);
    EXPECT(world, fails(world, "Tally.ListUnits", "{'BatchId':'b','State':'odd'}", "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.ListUnits", "{'BatchId':'b','MaxResults':0}", "InvalidParameterValueException"));
    EXPECT(world, fails(world, "Tally.ListUnits", "{'BatchId':'b','NextToken':'x'}", "InvalidParameterValueException"));
    close_world(world);
}

static void batches_are_listed_by_state_and_prefix_in_pages(void **state)
{
    struct world *world = open_world(state);
    for (unsigned i = 0; i < 10; i++) {
        char arguments[40];
        snprintf(arguments, sizeof(arguments), "'BatchId':'%s-%u'", i % 2 == 0 ? "even" : "odd", i);
        EXPECT(world, create(world, arguments));
    }
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'even-4'}").error == NULL);
    struct answer answer = world_call(world, "Tally.ListBatches", "{'State':'open','Prefix':'even'}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Batches")) == 4);
    answer = world_call(world, "Tally.ListBatches", "{'MaxResults':3}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Batches")) == 3 && answer_has(answer, "NextToken"));
    answer = world_call(world, "Tally.ListBatches", "{'NextToken':'%s'}", answer_text(answer, "NextToken"));
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Batches")) == 7 && !answer_has(answer, "NextToken"));
    EXPECT(world, fails(world, "Tally.ListBatches", "{'State':'odd'}", "InvalidParameterValueException"));
    close_world(world);
}

static void a_unit_of_a_cancelled_batch_is_listed_as_cancelled(void **state)
{
    struct world *world = open_world(state);
    EXPECT(world, create(world, "'BatchId':'b'"));
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':3}").error == NULL);
    EXPECT(world, world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'1'}]}").error == NULL);
    EXPECT(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}").error == NULL);
    struct answer answer = world_call(world, "Tally.ListUnits", "{'BatchId':'b','State':'cancelled'}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Units")) == 2);
    answer = world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'0'}]}");
    EXPECT(world, answer.error == NULL);
    EXPECT(world,
           yyjson_is_false(yyjson_obj_get(yyjson_arr_get_first(yyjson_obj_get(answer.root, "Results")), "Recorded")));
    EXPECT(world, answer_number(describe(world, "b"), "Cancelled") == 2);
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creating_twice_with_the_same_arguments_answers_the_same),
        cmocka_unit_test(a_child_created_again_needs_the_same_parent),
        cmocka_unit_test(a_child_may_be_called_like_an_external_unit),
        cmocka_unit_test(a_child_that_was_deleted_may_be_created_again),
        cmocka_unit_test(batches_without_an_id_get_different_ones),
        cmocka_unit_test(a_batch_expires_after_14_days_where_nothing_is_said),
        SCENARIO(B8_a_total_seals_when_it_is_reached_and_not_before),
        SCENARIO(B16_a_completion_message_is_the_same_after_every_restart),
        cmocka_unit_test(B17_a_child_keeps_the_record_of_its_parent),
        cmocka_unit_test(B19_a_send_that_fails_leaves_neither_message_nor_unit),
        cmocka_unit_test(an_unknown_unit_fails_the_whole_report),
        cmocka_unit_test(counted_and_numeric_keys_are_the_same_units),
        cmocka_unit_test(keys_have_1_to_256_bytes_and_allowed_characters),
        cmocka_unit_test(a_count_goes_up_to_a_hundred_million),
        cmocka_unit_test(batches_nest_32_deep),
        cmocka_unit_test(ten_deletes_of_one_request_may_fill_many_frames),
        cmocka_unit_test(ids_have_1_to_128_printable_characters),
        cmocka_unit_test(numbers_of_a_batch_have_ranges),
        cmocka_unit_test(a_target_holds_64_KiB),
        cmocka_unit_test(the_two_ledgers_refuse_each_others_calls),
        cmocka_unit_test(an_xor_ledger_keeps_its_counts_in_order),
        cmocka_unit_test(what_an_xor_ledger_hears_after_a_cancel_changes_nothing),
        cmocka_unit_test(so_many_ends_that_a_record_may_not_hold_them_are_refused_whole),
        cmocka_unit_test(units_are_listed_by_state_in_pages),
        cmocka_unit_test(batches_are_listed_by_state_and_prefix_in_pages),
        cmocka_unit_test(a_unit_of_a_cancelled_batch_is_listed_as_cancelled),
    };
    return cmocka_run_group_tests_name("rules of batches", tests, NULL, NULL);
}
