/* What the api keeps and shows of relays. */
#include "relay_runner.h"

static struct world *open_world(struct runner *runner)
{
    runner_init(runner);
    return world_create(&(struct world_options){.seed = 1, .relays = &runner->control});
}

#define TWO_SIDES "'Source':{'Type':'sqlite','Connection':'/a'},'Sink':{'Type':'queue'}"

/* Fails unless the whole reply is this, with ' for ". */
static void expect_reply(struct world *world, const char *action, const char *body, const char *expected)
{
    struct answer answer = sqs_call(world, action, body);
    char *text = yyjson_val_write(answer.root, 0, NULL);
    assert_non_null(text);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '"' ? '\'' : *at;
    if (strcmp(text, expected) != 0)
        fail_msg("%s %s: %s\nand not %s", action, body, text, expected);
    free(text);
}

static void a_relay_lives_from_its_creation_to_its_deletion(void **state)
{
    (void)state;
    struct runner runner;
    struct world *world = open_world(&runner);
    expect_reply(world, "Tally.CreateRelay", "{'RelayName':'r'," TWO_SIDES "}", "{'RelayName':'r','Paused':false}");
    EXPECT(world, runner.changes == 1);
    /* Again, in another order of members: the same. */
    expect_reply(
        world, "Tally.CreateRelay",
        "{'RelayName':'r','Order':'group','Sink':{'Type':'queue'},'Source':{'Connection':'/a','Type':'sqlite'}}",
        "{'RelayName':'r','Paused':false}");
    EXPECT(world, relay_record_count(world_core(world)) == 1);
    const unsigned changes = runner.changes;
    sqs_expect_error(world, "Tally.CreateRelay", "{'RelayName':'r','Order':'strict'," TWO_SIDES "}",
                     "RelayAlreadyExists", "There is a relay 'r' with another Source, Sink or Order");
    EXPECT(world, runner.changes == changes);
    expect_reply(world, "Tally.PauseRelay", "{'RelayName':'r'}", "{'RelayName':'r','Paused':true}");
    EXPECT(world, runner.changes == changes + 1);
    expect_reply(world, "Tally.CreateRelay", "{'RelayName':'r'," TWO_SIDES "}", "{'RelayName':'r','Paused':true}");
    runner.refused_run = "no room for it";
    sqs_expect_error(world, "Tally.ResumeRelay", "{'RelayName':'r'}", "OverLimit", "no room for it");
    EXPECT(world, answer_is_true(sqs_call(world, "Tally.DescribeRelay", "{'RelayName':'r'}"), "Paused"));
    runner.refused_run = NULL;
    expect_reply(world, "Tally.ResumeRelay", "{'RelayName':'r'}", "{'RelayName':'r','Paused':false}");
    const unsigned before = runner.changes;
    EXPECT(world, sqs_call(world, "Tally.DeleteRelay", "{'RelayName':'r'}").root == NULL);
    EXPECT(world, runner.changes == before + 1 && relay_record_count(world_core(world)) == 0);
    static const char *const actions[] = {"Tally.DescribeRelay", "Tally.PauseRelay", "Tally.ResumeRelay",
                                          "Tally.DeleteRelay",   "Tally.ListDoubts", "Tally.ResolveDoubt"};
    for (size_t i = 0; i < ARRAY_LENGTH(actions); i++) {
        sqs_expect_error(world, actions[i], "{'RelayName':'r'}", "RelayDoesNotExist", "There is no relay 'r'.");
        sqs_expect_error(world, actions[i], "{'RelayName':'r!'}", "InvalidParameterValueException",
                         "It must be 1 to 80 letters, digits, hyphens and underscores.");
        sqs_expect_error(world, actions[i], "{}", "MissingRequiredParameterException", "RelayName");
    }
    EXPECT(world, runner.changes == before + 1);
    sqs_close(world);
}

static void a_relay_that_can_not_be_created_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *error; /* NULL: it is created */
        const char *text;
    } rows[] = {
        {"{" TWO_SIDES "}", "MissingRequiredParameterException", "RelayName"},
        {"{'RelayName':''," TWO_SIDES "}", "MissingRequiredParameterException", "RelayName"},
        {"{'RelayName':'a b'," TWO_SIDES "}", "InvalidParameterValueException", "1 to 80"},
        {"{'RelayName':'r','Sink':{}}", "MissingRequiredParameterException", "the parameter Source."},
        {"{'RelayName':'r','Source':{}}", "MissingRequiredParameterException", "the parameter Sink."},
        {"{'RelayName':'r','Source':7,'Sink':{}}", "SerializationException", ""},
        {"{'RelayName':'r','Source':{},'Sink':'x'}", "SerializationException", ""},
        {"{'RelayName':'r','Order':'loose'," TWO_SIDES "}", "InvalidParameterValueException",
         "It must be group or strict."},
        {"{'RelayName':'r','Order':7," TWO_SIDES "}", "SerializationException", ""},
        {"{'RelayName':'r','Order':'strict'," TWO_SIDES "}", NULL, ""},
        {"{'RelayName':'none','Source':{},'Sink':{}}", NULL, ""},
    };
    struct runner runner;
    struct world *world = open_world(&runner);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (rows[i].error != NULL)
            sqs_expect_error(world, "Tally.CreateRelay", rows[i].body, rows[i].error, rows[i].text);
        else
            sqs_call(world, "Tally.CreateRelay", rows[i].body);
    runner.refused_check = "Source.Table: 'x' is no table";
    sqs_expect_error(world, "Tally.CreateRelay", "{'RelayName':'s'," TWO_SIDES "}", "InvalidParameterValueException",
                     "Source.Table: 'x' is no table");
    runner.refused_check = NULL;
    runner.refused_admit = "no descriptors are left";
    sqs_expect_error(world, "Tally.CreateRelay", "{'RelayName':'s'," TWO_SIDES "}", "OverLimit",
                     "no descriptors are left");
    /* One that is there has its place already. */
    sqs_call(world, "Tally.CreateRelay", "{'RelayName':'none','Source':{},'Sink':{}}");
    EXPECT(world, relay_record_count(world_core(world)) == 2);
    sqs_close(world);
}

/* {"Source":{"Table":"…"},"Sink":{},"Order":"group"} around a text of 16,336 bytes is 16,384. */
static void what_a_relay_is_to_do_has_a_size(void **state)
{
    (void)state;
    struct runner runner;
    struct world *world = open_world(&runner);
    const size_t fixed = strlen("{\"Source\":{\"Table\":\"\"},\"Sink\":{},\"Order\":\"group\"}");
    char *table = malloc(RELAY_RECORD_SPEC_SIZE_MAX);
    assert_non_null(table);
    memset(table, 't', RELAY_RECORD_SPEC_SIZE_MAX);
    for (size_t more = 0; more < 2; more++) {
        struct answer answer =
            world_call(world, "Tally.CreateRelay", "{'RelayName':'r%zu','Source':{'Table':'%.*s'},'Sink':{}}", more,
                       (int)(RELAY_RECORD_SPEC_SIZE_MAX - fixed + more), table);
        EXPECT(world, more == 0 ? answer.error == NULL : answer_fails(answer, "InvalidParameterValueException"));
        EXPECT(world, more == 0 || strstr(answer_text(answer, "message"),
                                          "are 16385 bytes as JSON; the limit is 16384") != NULL);
    }
    free(table);
    sqs_close(world);
}

static void a_relay_is_shown_whole_but_for_what_is_secret(void **state)
{
    (void)state;
    struct runner runner;
    struct world *world = open_world(&runner);
    sqs_call(world, "Tally.CreateRelay",
             "{'RelayName':'r','Order':'strict','Source':{'Type':'postgres','Connection':'secret','Table':'t',"
             "'Pooler':true,'PublishAfterReplicas':2,'LeaseSeconds':30,'Odd':'x'},'Sink':{'Type':'sqs',"
             "'QueueUrl':'https://user:pw@host:1/a@b?k=v','Region':'r','Credentials':{'AccessKeyId':'AK','Secret':'S'},"
             "'Doubts':'park','Refused':'park','Url':'http://h','Mode':'m','TimeoutSeconds':7.5,'Connection':'/f'}}");
    expect_reply(world, "Tally.DescribeRelay", "{'RelayName':'r'}",
                 "{'RelayName':'r','State':'active','Paused':false,'Source':{'Type':'postgres','Connection':'6 bytes',"
                 "'Table':'t','Pooler':'true','PublishAfterReplicas':2,'LeaseSeconds':30},'Sink':{'Type':'sqs',"
                 "'Connection':'/f','QueueUrl':'https://host:1/a@b?…','Region':'r','Credentials':{'AccessKeyId':'AK'},"
                 "'Doubts':'park','Refused':'park','Url':'http://h','Mode':'m','TimeoutSeconds':7.5},'Order':'strict',"
                 "'Position':0,'Lag':{'Rows':0,'Seconds':0},'InDoubt':0,'Parked':0,'Delivered':0,'Duplicates':0,"
                 "'Retries':0,'Takeovers':0}");
    runner.report = (struct relay_report){.state = "standby",
                                          .since_ms = 1700000000123,
                                          .epoch = 3,
                                          .position = 4,
                                          .lag_rows = 5,
                                          .lag_s = 6,
                                          .parked_count = 7,
                                          .in_doubt_count = 8,
                                          .delivered = 9,
                                          .duplicates = 10,
                                          .retries = 11,
                                          .parked = 12,
                                          .takeovers = 13,
                                          .last_error = "lost",
                                          .last_error_ms = 1700000000456,
                                          .warning = "slow"};
    sqs_call(world, "Tally.CreateRelay", "{'RelayName':'q','Source':{},'Sink':{}}");
    expect_reply(world, "Tally.DescribeRelay", "{'RelayName':'q'}",
                 "{'RelayName':'q','State':'standby','Since':1700000000.123,'Paused':false,'Source':{},'Sink':{},"
                 "'Order':'group','Epoch':3,'Position':4,'Lag':{'Rows':5,'Seconds':6},'InDoubt':8,'Parked':7,"
                 "'Delivered':9,'Duplicates':10,'Retries':11,'Takeovers':13,'LastError':'lost',"
                 "'LastErrorAt':1700000000.456,'Warning':'slow'}");
    sqs_close(world);
}

static void a_url_is_shown_without_user_password_and_query(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"http://h/p", "http://h/p"},
        {"http://u@h/p", "http://h/p"},
        {"http://u:p@w@h/p", "http://h/p"},
        {"http://h/p@q", "http://h/p@q"},
        {"http://u@h?x=/@", "http://h?…"},
        {"u@h/p", "h/p"},
        {"://u@h", "://h"},
        {"?", "?…"},
        {"a?b?c", "a?…"},
        {"h:/x@y", "h:/x@y"},
    };
    struct runner runner;
    struct world *world = open_world(&runner);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct answer answer = world_call(world, "Tally.CreateRelay",
                                          "{'RelayName':'r%zu','Source':{'Url':'%s'},'Sink':{}}", i, rows[i][0]);
        EXPECT(world, answer.error == NULL);
        answer = world_call(world, "Tally.DescribeRelay", "{'RelayName':'r%zu'}", i);
        const char *shown = sqs_text(yyjson_obj_get(answer.root, "Source"), "Url");
        if (strcmp(shown, rows[i][1]) != 0)
            fail_msg("%s: %s", rows[i][0], shown);
    }
    sqs_close(world);
}

static void relays_are_listed_in_pages_by_name(void **state)
{
    (void)state;
    struct runner runner;
    struct world *world = open_world(&runner);
    for (unsigned i = 0; i < 5; i++)
        EXPECT(world,
               world_call(world, "Tally.CreateRelay", "{'RelayName':'%c'," TWO_SIDES "}", "dbeac"[i]).error == NULL);
    for (unsigned size = 1; size <= 6; size++) {
        char names[8] = "", token[80] = "";
        unsigned pages = 0;
        do {
            struct answer answer = token[0] == '\0' ? world_call(world, "Tally.ListRelays", "{'MaxResults':%u}", size)
                                                    : world_call(world, "Tally.ListRelays",
                                                                 "{'MaxResults':%u,'NextToken':'%s'}", size, token);
            yyjson_val *relays = yyjson_obj_get(answer.root, "Relays");
            EXPECT(world, yyjson_arr_size(relays) >= 1 && yyjson_arr_size(relays) <= size);
            for (size_t i = 0; i < yyjson_arr_size(relays); i++)
                strcat(names, sqs_text(yyjson_arr_get(relays, i), "RelayName"));
            snprintf(token, sizeof(token), "%s", answer_text(answer, "NextToken"));
            pages++;
        } while (token[0] != '\0');
        EXPECT(world, strcmp(names, "abcde") == 0 && pages == (5 + size - 1) / size);
    }
    sqs_expect_error(world, "Tally.ListRelays", "{'MaxResults':0}", "InvalidParameterValueException", "MaxResults");
    sqs_expect_error(world, "Tally.ListRelays", "{'MaxResults':1001}", "InvalidParameterValueException", "MaxResults");
    EXPECT(world, yyjson_arr_size(
                      yyjson_obj_get(sqs_call(world, "Tally.ListRelays", "{'MaxResults':1000}").root, "Relays")) == 5);
    static const char *const bad[] = {"6", "6x", "zz", "616"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        EXPECT(world, answer_fails(world_call(world, "Tally.ListRelays", "{'NextToken':'%s'}", bad[i]),
                                   "InvalidParameterValueException"));
    sqs_close(world);
}

#define FIRST                                                                                                          \
    "{'Id':0,'Uid':'00000000-0000-0000-0000-00000000000a','QueueName':'jobs','MessageGroupId':'g','Error':'timeout',"  \
    "'IsInDoubt':true,'Since':1700000000.123}"
#define SECOND "{'Id':8,'Uid':'00000000-0000-0000-0000-00000000000b','Error':'refused','IsInDoubt':false,'Since':5.0}"
#define THIRD "{'Id':9,'Uid':'00000000-0000-0000-0000-00000000000c','Error':'refused','IsInDoubt':false,'Since':5.001}"

static void parked_rows_are_listed_in_pages(void **state)
{
    (void)state;
    struct runner runner;
    struct world *world = open_world(&runner);
    sqs_call(world, "Tally.CreateRelay", "{'RelayName':'r'," TWO_SIDES "}");
    expect_reply(world, "Tally.ListDoubts", "{'RelayName':'r'}", "{'Doubts':[" FIRST "," SECOND "," THIRD "]}");
    expect_reply(world, "Tally.ListDoubts", "{'RelayName':'r','MaxResults':3}",
                 "{'Doubts':[" FIRST "," SECOND "," THIRD "]}");
    struct answer first = world_call(world, "Tally.ListDoubts", "{'RelayName':'r','MaxResults':2}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(first.root, "Doubts")) == 2);
    char next[100];
    snprintf(next, sizeof(next), "{'RelayName':'r','NextToken':'%s'}", answer_text(first, "NextToken"));
    expect_reply(world, "Tally.ListDoubts", next, "{'Doubts':[" THIRD "]}");
    sqs_expect_error(world, "Tally.ListDoubts", "{'RelayName':'r','NextToken':'x'}", "InvalidParameterValueException",
                     "Invalid or expired next token.");
    sqs_expect_error(world, "Tally.ListDoubts", "{'RelayName':'r','MaxResults':0}", "InvalidParameterValueException",
                     "MaxResults must be an integer between 1 and 1000.");
    sqs_close(world);
}

static void a_parked_row_is_resolved_by_its_id_or_its_uid(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *error; /* NULL: it is resolved */
        const char *text;
        uint64_t id;
        bool is_to_be_sent;
    } rows[] = {
        {"'Action':'send','Id':8", NULL, "", 8, true},
        {"'Action':'drop','Id':9", NULL, "", 9, false},
        {"'Action':'drop','Id':0", NULL, "", 0, false},
        {"'Action':'send','Uid':'00000000-0000-0000-0000-00000000000c'", NULL, "", 9, true},
        {"'Action':'send','Uid':'00000000-0000-0000-0000-00000000000a'", NULL, "", 0, true},
        {"'Action':'send','Uid':'00000000-0000-0000-0000-00000000000d'", "DoubtDoesNotExist", "has no parked row", 0,
         0},
        {"'Action':'send','Id':7", "DoubtDoesNotExist", "has no parked row of that Id or Uid", 0, 0},
        {"'Action':'send','Id':-8", "DoubtDoesNotExist", "has no parked row", 0, 0},
        {"'Action':'send'", "InvalidParameterValueException", "either Id or Uid", 0, 0},
        {"'Action':'send','Id':8,'Uid':'00000000-0000-0000-0000-00000000000b'", "InvalidParameterValueException",
         "either Id or Uid", 0, 0},
        {"'Action':'keep','Id':8", "InvalidParameterValueException", "It must be send or drop.", 0, 0},
        {"'Id':8", "MissingRequiredParameterException", "Action", 0, 0},
        {"'Action':'send','Id':'x'", "SerializationException", "", 0, 0},
    };
    struct runner runner;
    struct world *world = open_world(&runner);
    sqs_call(world, "Tally.CreateRelay", "{'RelayName':'r'," TWO_SIDES "}");
    char body[160];
    unsigned resolved = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        snprintf(body, sizeof(body), "{'RelayName':'r',%s}", rows[i].body);
        if (rows[i].error != NULL) {
            sqs_expect_error(world, "Tally.ResolveDoubt", body, rows[i].error, rows[i].text);
        } else {
            EXPECT(world, sqs_call(world, "Tally.ResolveDoubt", body).root == NULL);
            resolved++;
            EXPECT(world, runner.resolved_id == rows[i].id && runner.is_to_be_sent == rows[i].is_to_be_sent);
        }
        EXPECT(world, runner.resolved_count == resolved);
    }
    sqs_close(world);
}

/* A server that runs no relays keeps what they are to do. */
static void where_nobody_runs_relays_they_are_stopped(void **state)
{
    struct world *world = sqs_open(state);
    sqs_call(world, "Tally.CreateRelay",
             "{'RelayName':'r','Source':{'Type':'postgres','Connection':'secret'},'Sink':{'Connection':'/f'}}");
    sqs_call(world, "Tally.PauseRelay", "{'RelayName':'r'}");
    sqs_call(world, "Tally.ResumeRelay", "{'RelayName':'r'}");
    expect_reply(world, "Tally.DescribeRelay", "{'RelayName':'r'}",
                 "{'RelayName':'r','State':'stopped','Paused':false,'Source':{'Type':'postgres'},'Sink':{"
                 "'Connection':'/f'},'Order':'group','Position':0,'Lag':{'Rows':0,'Seconds':0},'InDoubt':0,'Parked':0,"
                 "'Delivered':0,'Duplicates':0,'Retries':0,'Takeovers':0}");
    expect_reply(world, "Tally.ListDoubts", "{'RelayName':'r'}", "{'Doubts':[]}");
    sqs_expect_error(world, "Tally.ResolveDoubt", "{'RelayName':'r','Action':'send','Id':1}", "DoubtDoesNotExist", "");
    EXPECT(world, sqs_call(world, "Tally.DeleteRelay", "{'RelayName':'r'}").root == NULL);
    sqs_close(world);
}

static void each_relay_has_its_metrics(void **state)
{
    (void)state;
    static const char expected[] = "tally_relay_state{relay=\"r\",state=\"active\"} 1\n"
                                   "tally_relay_lag_rows{relay=\"r\"} 5\n"
                                   "tally_relay_lag_seconds{relay=\"r\"} 6\n"
                                   "tally_relay_parked{relay=\"r\"} 7\n"
                                   "tally_relay_in_doubt{relay=\"r\"} 8\n"
                                   "tally_relay_delivered_total{relay=\"r\"} 9\n"
                                   "tally_relay_duplicates_total{relay=\"r\"} 10\n"
                                   "tally_relay_retries_total{relay=\"r\"} 11\n"
                                   "tally_relay_parked_total{relay=\"r\"} 12\n"
                                   "tally_relay_takeovers_total{relay=\"r\"} 13\n";
    struct runner runner;
    struct world *world = open_world(&runner);
    struct arena arena;
    struct buffer text, found;
    arena_init(&arena);
    buffer_init(&text);
    buffer_init(&found);
    front_metrics_write(world->front, &arena, &text);
    buffer_append_u8(&text, 0);
    EXPECT(world, strstr((const char *)text.data_owned, "tally_relay") == NULL);
    buffer_truncate(&text, 0);
    sqs_call(world, "Tally.CreateRelay", "{'RelayName':'r'," TWO_SIDES "}");
    runner.report = (struct relay_report){.state = "active",
                                          .lag_rows = 5,
                                          .lag_s = 6,
                                          .parked_count = 7,
                                          .in_doubt_count = 8,
                                          .delivered = 9,
                                          .duplicates = 10,
                                          .retries = 11,
                                          .parked = 12,
                                          .takeovers = 13};
    front_metrics_write(world->front, &arena, &text);
    buffer_append_u8(&text, 0);
    for (const char *line = (const char *)text.data_owned; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, "tally_relay_", 12) == 0)
            buffer_append(&found, line, (size_t)(strchr(line, '\n') + 1 - line));
    buffer_append_u8(&found, 0);
    assert_string_equal((const char *)found.data_owned, expected);
    buffer_deinit(&text);
    buffer_deinit(&found);
    arena_deinit(&arena);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relay_lives_from_its_creation_to_its_deletion),
        cmocka_unit_test(a_relay_that_can_not_be_created_is_refused),
        cmocka_unit_test(what_a_relay_is_to_do_has_a_size),
        cmocka_unit_test(a_relay_is_shown_whole_but_for_what_is_secret),
        cmocka_unit_test(a_url_is_shown_without_user_password_and_query),
        cmocka_unit_test(relays_are_listed_in_pages_by_name),
        cmocka_unit_test(parked_rows_are_listed_in_pages),
        cmocka_unit_test(a_parked_row_is_resolved_by_its_id_or_its_uid),
        cmocka_unit_test(where_nobody_runs_relays_they_are_stopped),
        cmocka_unit_test(each_relay_has_its_metrics),
    };
    return cmocka_run_group_tests_name("api: relays", tests, NULL, NULL);
}
