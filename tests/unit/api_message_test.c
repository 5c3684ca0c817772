/* What SQS says of the form of messages: sizes, batches, attributes, characters, and what a receive is asked to show
 * (Q26 to Q30, Q33). */
#include "sqs.h"

/* A text of `size` times `byte`, in memory of the test's. */
static char *filled(size_t size, char byte)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, byte, size);
    text[size] = '\0';
    return text;
}

static void set_limit(struct world *world, unsigned size)
{
    char attributes[60];
    snprintf(attributes, sizeof(attributes), "'MaximumMessageSize':'%u'", size);
    EXPECT(world, sqs_set(world, "q", attributes).error == NULL);
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

static void Q26_body_and_attributes_count_in_bytes(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        const char *attributes;
        unsigned size; /* what they count */
    } rows[] = {
        {"", 0},
        {"'a':{'DataType':'String','StringValue':'bb'}", 1 + 6 + 2},
        {"'a':{'DataType':'Number.label','StringValue':'12'}", 1 + 12 + 2},
        {"'a':{'DataType':'Binary','BinaryValue':'AQID'}", 1 + 6 + 3},
        {"'a':{'DataType':'Binary','BinaryValue':'AQ=='}", 1 + 6 + 1},
        {"'aa':{'DataType':'String','StringValue':'\xe5\x90\x8d'}", 2 + 6 + 3},
        {"'a':{'DataType':'String','StringValue':'b'},'c':{'DataType':'String','StringValue':'d'}", 16},
    };
    static const unsigned limits[] = {1024, 2000};
    for (size_t l = 0; l < ARRAY_LENGTH(limits); l++) {
        set_limit(world, limits[l]);
        for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
            for (unsigned more = 0; more < 2; more++) {
                char *body = filled(limits[l] - rows[i].size + more, 'x');
                struct answer answer =
                    world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'%s','MessageAttributes':{%s}}",
                               body, rows[i].attributes);
                EXPECT(world,
                       more == 0 ? answer.error == NULL : answer_fails(answer, "InvalidParameterValueException"));
                free(body);
            }
    }
    /* 341 letters of three bytes and one of one are 1,024. */
    set_limit(world, 1024);
    char body[1100] = "";
    for (unsigned i = 0; i < 341; i++)
        strcat(body, "\xe5\x90\x8d");
    EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'%sx'}", body).error == NULL);
    EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'%sxx'}", body).error != NULL);
    /* Neither escapes nor system attributes count. */
    char *rest = filled(1023, 'x');
    EXPECT(world, world_call(world, "SendMessage",
                             "{'QueueUrl':'q','MessageBody':'\\u0041%s','MessageSystemAttributes':{'AWSTraceHeader':"
                             "{'DataType':'String','StringValue':'Root=1'}}}",
                             rest)
                          .error == NULL);
    free(rest);
    sqs_close(world);
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

static void Q27_of_ten_entries_seven_are_stored(void **state)
{
    struct world *world = sqs_open(state);
    set_limit(world, 1024);
    char *long_body = filled(1025, 'x');
    struct answer answer =
        world_call(world, "SendMessageBatch",
                   "{'QueueUrl':'q','Entries':[{'Id':'0','MessageBody':'x'},{'Id':'1','MessageBody':'\\u0002'},"
                   "{'Id':'2','MessageBody':'x'},{'Id':'3','MessageBody':'x'},{'Id':'4','MessageBody':'%s'},"
                   "{'Id':'5','MessageBody':'x'},{'Id':'6','MessageBody':'x'},"
                   "{'Id':'7','MessageBody':'x','MessageAttributes':{'a':{'DataType':'Text','StringValue':'x'}}},"
                   "{'Id':'8','MessageBody':'x'},{'Id':'9','MessageBody':'x'}]}",
                   long_body);
    free(long_body);
    EXPECT(world, answer.error == NULL && answer.status == 200);
    yyjson_val *failed = yyjson_obj_get(answer.root, "Failed");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Successful")) == 7 && yyjson_arr_size(failed) == 3);
    static const char *const expected[][3] = {
        {"1", "InvalidMessageContents", "Invalid characters found."},
        {"4", "InvalidParameterValue",
         "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes."},
        {"7", "InvalidParameterValue", "The type of message (user) attribute 'a' is invalid."},
    };
    for (size_t i = 0; i < 3; i++) {
        yyjson_val *entry = yyjson_arr_get(failed, i);
        EXPECT(world, strcmp(sqs_text(entry, "Id"), expected[i][0]) == 0);
        EXPECT(world, strcmp(sqs_text(entry, "Code"), expected[i][1]) == 0);
        EXPECT(world, strncmp(sqs_text(entry, "Message"), expected[i][2], strlen(expected[i][2])) == 0);
        EXPECT(world, yyjson_is_true(yyjson_obj_get(entry, "SenderFault")));
    }
    EXPECT(world, world_count_messages(world, "q") == 7);
    answer = sqs_call(world, "SendMessageBatch", "{'QueueUrl':'q','Entries':[{'Id':'a','MessageBody':'x'}]}");
    EXPECT(world, !answer_has(answer, "Failed"));
    answer = sqs_call(world, "SendMessageBatch", "{'QueueUrl':'q','Entries':[{'Id':'a','MessageBody':''}]}");
    EXPECT(world, !answer_has(answer, "Successful"));
    sqs_close(world);
}

#define WORD80 "0123456789012345678901234567890123456789abcdefghijABCDEFGHIJ_-____----__________"

static void Q28_a_batch_with_a_fault_in_its_structure_is_refused_whole(void **state)
{
    struct world *world = sqs_open(state);
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    static const struct {
        const char *entries; /* behind one good entry */
        const char *error;
        const char *text;
    } rows[] = {
        {",{'Id':'0','MessageBody':'x'}", "BatchEntryIdsNotDistinct", "Id 0 repeated."},
        {",{'Id':'1','MessageBody':'x'},{'Id':'2','MessageBody':'x'},{'Id':'2','MessageBody':'x'},{'Id':'1',"
         "'MessageBody':'x'}",
         "BatchEntryIdsNotDistinct", "Id 2 repeated."}, /* the first repeat in order */
        {",{'Id':'','MessageBody':'x'}", "InvalidBatchEntryId", ""},
        {",{'Id':'a.b','MessageBody':'x'}", "InvalidBatchEntryId",
         "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 "
         "letters "
         "long."},
        {",{'Id':'\xc3\xb8','MessageBody':'x'}", "InvalidBatchEntryId", ""},
        {",{'Id':'x" WORD80 "','MessageBody':'x'}", "InvalidBatchEntryId", ""},
        {",{'Id':'0','MessageBody':'x'},{'Id':'!','MessageBody':'x'}", "InvalidBatchEntryId", ""}, /* before repeats */
    };
    char body[700];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'q','Entries':[{'Id':'0','MessageBody':'x'}%s]}", rows[i].entries);
        sqs_expect_error(world, "SendMessageBatch", body, rows[i].error, rows[i].text);
    }
    static const char *const kinds[] = {"SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"};
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        snprintf(body, sizeof(body), "There should be at least one %sRequestEntry in the request.", kinds[i]);
        sqs_expect_error(world, kinds[i], "{'QueueUrl':'q','Entries':[]}", "EmptyBatchRequest", body);
        sqs_expect_error(world, kinds[i], "{'QueueUrl':'q'}", "EmptyBatchRequest", body);
        sqs_expect_error(world, kinds[i], "{'QueueUrl':'none','Entries':[]}", "QueueDoesNotExist", "");
        sqs_expect_error(world, kinds[i], "{'QueueUrl':'q','Entries':[{},{},{},{},{},{},{},{},{},{},{}]}",
                         "TooManyEntriesInBatchRequest",
                         "Maximum number of entries per request are 10. You have sent 11.");
        /* Ids before handles. */
        sqs_expect_error(world, kinds[i],
                         "{'QueueUrl':'q','Entries':[{'Id':'1','ReceiptHandle':'x','VisibilityTimeout':0},"
                         "{'Id':'1','ReceiptHandle':'x','VisibilityTimeout':0}]}",
                         "BatchEntryIdsNotDistinct", "");
    }
    sqs_expect_error(world, "SendMessageBatch",
                     "{'QueueUrl':'f.fifo','Entries':[{'Id':'1','MessageBody':'x','MessageGroupId':'g',"
                     "'MessageDeduplicationId':'d'},{'Id':'2','MessageBody':'x','MessageDeduplicationId':'e'}]}",
                     "InvalidParameterValueException", "The request must contain the parameter MessageGroupId.");
    sqs_expect_error(
        world, "SendMessageBatch",
        "{'QueueUrl':'f.fifo','Entries':[{'Id':'1','MessageBody':'x','MessageGroupId':'g'}]}",
        "InvalidParameterValueException",
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided "
        "explicitly");
    EXPECT(world, core_metrics(world_core(world)).messages == 0);
    snprintf(body, sizeof(body), "{'QueueUrl':'q','Entries':[{'Id':'%s','MessageBody':'x'}]}", WORD80);
    sqs_call(world, "SendMessageBatch", body);
    sqs_close(world);
}

/* What can't be stored counts too: the sum is looked at before any entry is. */
static void Q28_the_sum_of_a_batch_counts_entries_that_have_faults(void **state)
{
    struct world *world = sqs_open(state);
    set_limit(world, 1024);
    for (unsigned more = 0; more < 2; more++) {
        char *body = filled(524288 - 1 - 4 - 1 + more, 'x');
        char *other = filled(524288, 'y');
        struct answer answer =
            world_call(world, "SendMessageBatch",
                       "{'QueueUrl':'q','Entries':[{'Id':'1','MessageBody':'%s','MessageAttributes':"
                       "{'!':{'DataType':'Text','StringValue':'x'}}},{'Id':'2','MessageBody':'%s'}]}",
                       body, other);
        if (more == 0)
            EXPECT(world, answer.error == NULL && yyjson_arr_size(yyjson_obj_get(answer.root, "Failed")) == 2);
        else
            EXPECT(world, answer_fails(answer, "BatchRequestTooLong") &&
                              strstr(answer_text(answer, "message"), "You have sent 1048577 bytes.") != NULL);
        free(body);
        free(other);
    }
    sqs_close(world);
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

static void expect_number(struct world *world, const char *number, bool is_one)
{
    struct answer answer = world_call(
        world, "SendMessage",
        "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{'X':{'DataType':'Number','StringValue':'%s'}}}",
        number);
    if (is_one != (answer.error == NULL))
        fail_msg("'%s' is %s", number, is_one ? "a number, and refused" : "no number, and taken");
    EXPECT(world, is_one || strcmp(answer_text(answer, "message"),
                                   "Can't cast the value of message (user) attribute 'X' to a number.") == 0);
}

static void Q29_numbers_have_a_range_and_38_digits(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const good[] = {
        "0",
        "-0",
        "7",
        "007",
        "+1.5",
        "-.5",
        "1.",
        "1e126",
        "10e125",
        "0.1E127",
        "1.000e+126",
        "-1e126",
        "9.99e125",
        "1e-128",
        "0.01e-126",
        "10e-129",
        "0e9999",
        "0e-9999",
        "0.000",
        "12345678901234567890123456789012345678",
        "0.12345678901234567890123456789012345678",
        "0012345678901234567890123456789012345678",
        "1234567890123456789012345678901234567800",
        "1e00000000000000000001",
    };
    static const char *const bad[] = {
        "abc",
        ".",
        "-",
        "+",
        "e1",
        "1e",
        "1e+",
        "1 ",
        " 1",
        "1,5",
        "1.2.3",
        "--1",
        "0x1",
        "1e1.5",
        "NaN",
        "Infinity",
        "1.1e126",
        "1e127",
        "10e126",
        "-1e127",
        "9.9e-129",
        "1e-129",
        "0.1e-128",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "123456789012345678901234567890123456789",
        "1.23456789012345678901234567890123456789",
        "\xd9\xa1",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        expect_number(world, good[i], true);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        expect_number(world, bad[i], false);
    /* It comes back as it was sent. */
    world_create_queue(world, "one", "");
    sqs_call(world, "SendMessage",
             "{'QueueUrl':'one','MessageBody':'x','MessageAttributes':{'n':{'DataType':'Number.float','StringValue':"
             "'+007.50E0'}}}");
    struct answer answer = sqs_call(world, "ReceiveMessage", "{'QueueUrl':'one','MessageAttributeNames':['n']}");
    yyjson_val *message = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Messages"));
    yyjson_val *number = yyjson_obj_get(yyjson_obj_get(message, "MessageAttributes"), "n");
    EXPECT(world, strcmp(sqs_text(number, "StringValue"), "+007.50E0") == 0);
    EXPECT(world, strcmp(sqs_text(number, "DataType"), "Number.float") == 0);
    sqs_close(world);
}

static void Q29_names_and_types_of_attributes(void **state)
{
    struct world *world = sqs_open(state);
    char *long_name = filled(256, 'n'), *longer_name = filled(257, 'n');
    char long_type[260], longer_type[260];
    snprintf(long_type, sizeof(long_type), "String.%.248s", long_name); /* 255 bytes */
    snprintf(longer_type, sizeof(longer_type), "String.%.249s", long_name);
    const struct {
        const char *name;
        const char *type;
        bool is_good;
    } rows[] = {
        {"a", "String", true},
        {"A-b_c.9", "String", true},
        {"AWSx", "String", true},
        {"Amazonx", "String", true},
        {"x.AWS.y", "String", true},
        {long_name, "String", true},
        {longer_name, "String", false},
        {"", "String", false},
        {".a", "String", false},
        {"a.", "String", false},
        {"a..b", "String", false},
        {".", "String", false},
        {"AWS.x", "String", false},
        {"aws.x", "String", false},
        {"Amazon.x", "String", false},
        {"aMaZoN.x", "String", false},
        {"a!", "String", false},
        {"a\\\"", "String", false},
        {"\xc3\xb8", "String", false},          /* a letter, but not of ASCII */
        {"\xc2\xa7", "String", false},          /* the sign for a section */
        {"a\xe2\x82\xac", "String", false},     /* the euro sign */
        {"a\xf0\x9f\x98\x80", "String", false}, /* an emoji */
        {"a(b", "String", false},
        {"a?", "String", false},
        {"a b", "String", false},
        {"a", long_type, true},
        {"a", longer_type, false},
        {"a", "String.", true},
        {"a", "string", false},
        {"a", "STRING", false},
        {"a", "Stringy", false},
        {"a", "Bool", false},
        {"a", "", false},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct answer answer = world_call(
            world, "SendMessage",
            "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{'%s':{'DataType':'%s','StringValue':'x'}}}",
            rows[i].name, rows[i].type);
        if (rows[i].is_good != (answer.error == NULL))
            fail_msg("name '%s', type '%s': %s", rows[i].name, rows[i].type,
                     answer.error == NULL ? "taken" : answer_text(answer, "message"));
        EXPECT(world, rows[i].is_good || answer_fails(answer, "InvalidParameterValueException"));
    }
    free(long_name);
    free(longer_name);
    sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{}}");
    sqs_close(world);
}

static void system_attributes_are_the_trace_header_and_nothing_else(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const bad[] = {
        "'Other':{'DataType':'String','StringValue':'x'}",
        "'AWSTraceHeader':{'DataType':'Number','StringValue':'1'}",
        "'AWSTraceHeader':{'DataType':'String.x','StringValue':'x'}",
        "'AWSTraceHeader':{'DataType':'String','StringValue':''}",
        "'AWSTraceHeader':{'DataType':'String','StringValue':'x'},'Other':{'DataType':'String','StringValue':'x'}",
    };
    char body[300];
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'q','MessageBody':'x','MessageSystemAttributes':{%s}}", bad[i]);
        sqs_expect_error(world, "SendMessage", body, "InvalidParameterValueException", "");
    }
    sqs_close(world);
}

/* --- characters --------------------------------------------------------------------------------------------------- */

static void Q30_forbidden_characters_have_two_errors_and_their_neighbours_none(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        unsigned code_point; /* of the basic plane */
        bool is_allowed;
    } rows[] = {
        {0x0, false},   {0x1, false},   {0x8, false},    {0x9, true},     {0xa, true},    {0xb, false},
        {0xc, false},   {0xd, true},    {0xe, false},    {0x1f, false},   {0x20, true},   {0x7f, true},
        {0x80, true},   {0x9f, true},   {0xa0, true},    {0xd7ff, true},  {0xe000, true}, {0xfdd0, true},
        {0xfeff, true}, {0xfffd, true}, {0xfffe, false}, {0xffff, false},
    };
    char body[300];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char text[16];
        snprintf(text, sizeof(text), "a\\u%04xb", rows[i].code_point);
        snprintf(body, sizeof(body), "{'QueueUrl':'q','MessageBody':'%s'}", text);
        struct answer answer = world_call(world, "SendMessage", "%s", body);
        EXPECT(world, rows[i].is_allowed ? answer.error == NULL : answer_fails(answer, "InvalidMessageContents"));
        snprintf(
            body, sizeof(body),
            "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{'a':{'DataType':'String','StringValue':'%s'}}}",
            text);
        answer = world_call(world, "SendMessage", "%s", body);
        EXPECT(world,
               rows[i].is_allowed ? answer.error == NULL : answer_fails(answer, "InvalidParameterValueException"));
    }
    /* Beyond the basic plane everything is allowed; half a pair is no JSON. */
    sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'\\ud800\\udc00 \\udbff\\udfff'}");
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'\\ud800'}", "SerializationException", "");
    sqs_close(world);
}

/* Of two faults the first in the order of section 7 is told. */
static void the_size_is_looked_at_first_then_characters_then_attributes(void **state)
{
    struct world *world = sqs_open(state);
    set_limit(world, 1024);
    char *body = filled(1025, 'x');
    struct answer answer =
        world_call(world, "SendMessage",
                   "{'QueueUrl':'q','MessageBody':'%s','MessageAttributes':{'!':{'DataType':'String',"
                   "'StringValue':'x'}}}",
                   body);
    EXPECT(world, strstr(answer_text(answer, "message"), "Message must be shorter than 1024 bytes.") != NULL);
    free(body);
    sqs_expect_error(
        world, "SendMessage",
        "{'QueueUrl':'q','MessageBody':'\\u0001','MessageAttributes':{'!':{'DataType':'String','StringValue':"
        "'x'}}}",
        "InvalidMessageContents", "");
    sqs_expect_error(
        world, "SendMessage",
        "{'QueueUrl':'q','MessageBody':'x','DelaySeconds':901,'MessageAttributes':{'!':{'DataType':'String',"
        "'StringValue':'x'}}}",
        "InvalidParameterValueException", "The name of message (user) attribute '!' is invalid.");
    sqs_close(world);
}

/* --- what a receive is asked to show ------------------------------------------------------------------------------ */

static void Q33_names_of_both_lists_are_one_set(void **state)
{
    struct world *world = sqs_open(state);
    sqs_call(world, "SendMessage",
             "{'QueueUrl':'q','MessageBody':'x','MessageGroupId':'g','MessageAttributes':{"
             "'color':{'DataType':'String','StringValue':'blue'},'col':{'DataType':'String','StringValue':'x'},"
             "'count':{'DataType':'Number','StringValue':'3'}}}");
    static const struct {
        const char *asked;
        unsigned system; /* how many of each are shown */
        unsigned message;
    } rows[] = {
        {"", 0, 0},
        {",'AttributeNames':['SenderId']", 1, 0},
        {",'MessageSystemAttributeNames':['SenderId'],'AttributeNames':['SentTimestamp','SenderId']", 2, 0},
        {",'AttributeNames':['All']", 5, 0},
        {",'MessageSystemAttributeNames':['All','SenderId']", 5, 0},
        /* What does not apply, queues' attributes and what nobody knows. */
        {",'AttributeNames':['SequenceNumber','AWSTraceHeader','VisibilityTimeout','Odd','','*','.*']", 0, 0},
        {",'MessageAttributeNames':[]", 0, 0},
        {",'MessageAttributeNames':['color']", 0, 1},
        {",'MessageAttributeNames':['col.*']", 0, 2}, /* col and color */
        {",'MessageAttributeNames':['co.*','count']", 0, 3},
        {",'MessageAttributeNames':['col*','c.+','Color','','!','color.*.*']", 0, 0},
        {",'MessageAttributeNames':['*']", 0, 3},
        {",'MessageAttributeNames':['.*']", 0, 3},
        {",'MessageAttributeNames':['All']", 0, 3},
        {",'MessageAttributeNames':['all']", 0, 0},
        {",'AttributeNames':['All'],'MessageAttributeNames':['All']", 5, 3},
        /* The fencing token comes to who names it. */
        {",'MessageAttributeNames':['Tally.FencingToken']", 0, 1},
        {",'MessageAttributeNames':['Tally.*']", 0, 1},
        {",'MessageAttributeNames':['All','Tally.*']", 0, 4},
        {",'MessageAttributeNames':['T.*','Tall.*','Tally','tally.*','Tally.FencingToken.*']", 0, 0},
        {",'AttributeNames':['Tally.FencingToken']", 1, 0},
        {",'MessageSystemAttributeNames':['All','Tally.FencingToken']", 6, 0},
        {",'AttributeNames':['Tally.*','.*','Tally.FailureReason']", 0, 0},
    };
    char body[300];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'q','VisibilityTimeout':0%s}", rows[i].asked);
        yyjson_val *message =
            yyjson_arr_get_first(yyjson_obj_get(sqs_call(world, "ReceiveMessage", body).root, "Messages"));
        yyjson_val *system = yyjson_obj_get(message, "Attributes"), *own = yyjson_obj_get(message, "MessageAttributes");
        if (yyjson_obj_size(system) != rows[i].system || yyjson_obj_size(own) != rows[i].message)
            fail_msg("%s: %zu and %zu attributes", rows[i].asked, yyjson_obj_size(system), yyjson_obj_size(own));
        EXPECT(world, (system == NULL) == (rows[i].system == 0) && (own == NULL) == (rows[i].message == 0));
        EXPECT(world, (yyjson_obj_get(message, "MD5OfMessageAttributes") == NULL) == (rows[i].message == 0));
    }
    sqs_expect_error(world, "ReceiveMessage", "{'QueueUrl':'q','AttributeNames':'All'}", "SerializationException", "");
    sqs_expect_error(world, "ReceiveMessage", "{'QueueUrl':'q','MessageAttributeNames':[7]}", "SerializationException",
                     "");
    sqs_close(world);
}

/* A receive drops nothing where the policy's queue is not there, so neither does a worker that counts attempts. */
static void a_policy_whose_queue_is_gone_gives_nothing_up(void **state)
{
    struct world *world = sqs_open(state);
    world_create_queue(world, "dead", "'VisibilityTimeout':'30'");
    world_create_queue(world, "jobs",
                       "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead\\',"
                       "\\'maxReceiveCount\\':5}'");
    EXPECT(world, world_call(world, "DeleteQueue", "{'QueueUrl':'dead'}").error == NULL);
    EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'jobs','MessageBody':'m'}").error == NULL);
    struct taken taken;
    EXPECT(world, world_take(world, "jobs", 30, 1, &taken) == 1);
    struct answer failed = world_call(world, "Tally.FailMessage",
                                      "{'QueueUrl':'jobs','ReceiptHandle':'%s','MaxAttempts':1}", taken.handle);
    EXPECT(world, failed.error == NULL && strcmp(sqs_text(failed.root, "Outcome"), "returned") == 0);
    EXPECT(world, world_take(world, "jobs", 30, 1, &taken) == 1);
    failed =
        world_call(world, "Tally.FailMessage", "{'QueueUrl':'jobs','ReceiptHandle':'%s','Final':true}", taken.handle);
    EXPECT(world, failed.error == NULL && strcmp(sqs_text(failed.root, "Outcome"), "dropped") == 0);
    sqs_close(world);
}

/* --- what a receive tells of a message that it ends --------------------------------------------------------------- */

#define SOURCE "a-source-queue-with-a-long-name-of-its-own-0123456789"

/* `count` dead letters of SOURCE, which failed for a reason, in the at-most-once queue "dead". SOURCE is deleted. */
static void leave_dead_letters(struct world *world, unsigned count, const char *suffix, const char *kind)
{
    char attributes[300], dead[40], source[80];
    snprintf(dead, sizeof(dead), "dead%s", suffix);
    snprintf(source, sizeof(source), SOURCE "%s", suffix);
    snprintf(attributes, sizeof(attributes), "'Tally.DeliveryMode':'at-most-once'%s", kind);
    world_create_queue(world, dead, attributes);
    snprintf(attributes, sizeof(attributes),
             "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:%s\\',"
             "\\'maxReceiveCount\\':1}'%s",
             dead, kind);
    world_create_queue(world, source, attributes);
    for (unsigned i = 0; i < count; i++) {
        struct answer sent =
            suffix[0] == '\0'
                ? world_call(world, "SendMessage", "{'QueueUrl':'%s','MessageBody':'m%u'}", source, i)
                : world_call(
                      world, "SendMessage",
                      "{'QueueUrl':'%s','MessageBody':'m%u','MessageGroupId':'g%u','MessageDeduplicationId':'%u'}",
                      source, i, i, i);
        EXPECT(world, sent.error == NULL);
        struct taken taken;
        EXPECT(world, world_take(world, source, 30, 1, &taken) == 1);
        EXPECT(world, world_call(world, "Tally.FailMessage",
                                 "{'QueueUrl':'%s','ReceiptHandle':'%s','Reason':'there is no such customer'}", source,
                                 taken.handle)
                              .error == NULL);
    }
    EXPECT(world, world_count_messages(world, dead) == count);
    EXPECT(world, world_call(world, "DeleteQueue", "{'QueueUrl':'%s'}", source).error == NULL);
}

static void expect_dead_letters(struct world *world, yyjson_val *messages, unsigned count, const char *suffix)
{
    char arn[140];
    snprintf(arn, sizeof(arn), "arn:aws:sqs:us-east-1:000000000000:" SOURCE "%s", suffix);
    EXPECT(world, yyjson_arr_size(messages) == count);
    size_t index, end;
    yyjson_val *message;
    yyjson_arr_foreach(messages, index, end, message)
    {
        yyjson_val *system = yyjson_obj_get(message, "Attributes");
        yyjson_val *reason = yyjson_obj_get(yyjson_obj_get(message, "MessageAttributes"), "Tally.FailureReason");
        assert_string_equal(sqs_text(system, "DeadLetterQueueSourceArn"), arn);
        assert_string_equal(sqs_text(reason, "StringValue"), "there is no such customer");
    }
}

#define ASK "'AttributeNames':['All'],'MessageAttributeNames':['Tally.*']"

/* The last of them is the last thing that remembered the deleted queue. */
static void the_last_dead_letters_of_a_deleted_queue_say_where_they_come_from_and_why(void **state)
{
    static const unsigned counts[] = {1, 3, 10};
    static const char *const kinds[][2] = {{"", ""}, {".fifo", ",'FifoQueue':'true'"}};
    for (size_t kind = 0; kind < ARRAY_LENGTH(kinds); kind++)
        for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
            struct world *world = sqs_open(state);
            leave_dead_letters(world, counts[i], kinds[kind][0], kinds[kind][1]);
            struct answer answer = world_call(world, "ReceiveMessage",
                                              "{'QueueUrl':'dead%s','MaxNumberOfMessages':10," ASK "}", kinds[kind][0]);
            expect_dead_letters(world, yyjson_obj_get(answer.root, "Messages"), counts[i], kinds[kind][0]);
            sqs_close(world);
        }
}

static void a_receive_that_waited_for_the_last_dead_letter_says_so_too(void **state)
{
    struct world *world = sqs_open(state);
    leave_dead_letters(world, 1, "", "");
    sqs_call(world, "Tally.PauseQueue", "{'QueueUrl':'dead'}");
    struct exchange poll;
    exchange_init(&poll);
    poll.request =
        (struct request){.target = BYTES("AmazonSQS.ReceiveMessage"),
                         .body = BYTES("{\"QueueUrl\":\"dead\",\"WaitTimeSeconds\":20,\"AttributeNames\":[\"All\"],"
                                       "\"MessageAttributeNames\":[\"Tally.FailureReason\"]}")};
    front_submit(world->front, &poll, world->now_ms);
    EXPECT(world, poll.state == EXCHANGE_WAITING);
    struct exchange resume;
    exchange_init(&resume);
    resume.request = (struct request){.target = BYTES("Tally.ResumeQueue"), .body = BYTES("{\"QueueUrl\":\"dead\"}")};
    front_submit(world->front, &resume, world->now_ms);
    while (front_take_finished(world->front) != NULL)
        ;
    EXPECT(world, poll.state == EXCHANGE_FINISHED);
    yyjson_doc *doc = yyjson_read((const char *)poll.reply.body.data_owned, poll.reply.body.size, 0);
    expect_dead_letters(world, yyjson_obj_get(yyjson_doc_get_root(doc), "Messages"), 1, "");
    yyjson_doc_free(doc);
    exchange_deinit(&poll);
    exchange_deinit(&resume);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(Q26_body_and_attributes_count_in_bytes),
        cmocka_unit_test(Q27_of_ten_entries_seven_are_stored),
        cmocka_unit_test(Q28_a_batch_with_a_fault_in_its_structure_is_refused_whole),
        cmocka_unit_test(Q28_the_sum_of_a_batch_counts_entries_that_have_faults),
        cmocka_unit_test(Q29_numbers_have_a_range_and_38_digits),
        cmocka_unit_test(Q29_names_and_types_of_attributes),
        cmocka_unit_test(system_attributes_are_the_trace_header_and_nothing_else),
        cmocka_unit_test(Q30_forbidden_characters_have_two_errors_and_their_neighbours_none),
        cmocka_unit_test(the_size_is_looked_at_first_then_characters_then_attributes),
        cmocka_unit_test(Q33_names_of_both_lists_are_one_set),
        cmocka_unit_test(a_policy_whose_queue_is_gone_gives_nothing_up),
        cmocka_unit_test(the_last_dead_letters_of_a_deleted_queue_say_where_they_come_from_and_why),
        cmocka_unit_test(a_receive_that_waited_for_the_last_dead_letter_says_so_too),
    };
    return cmocka_run_group_tests_name("api: messages", tests, NULL, NULL);
}
