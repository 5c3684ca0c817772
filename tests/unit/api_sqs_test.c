/* What SQS says of attributes, digests, errors and their order, for standard queues and the actions there are. */
#include "sqs.h"

/* The first message of a queue, read with a request of its own. */
static yyjson_val *receive(struct world *world, const char *more)
{
    struct answer answer = world_call(world, "ReceiveMessage", "{'QueueUrl':'q','VisibilityTimeout':0%s}", more);
    EXPECT(world, answer.error == NULL);
    return yyjson_arr_get_first(yyjson_obj_get(answer.root, "Messages"));
}

/* --- digests and attributes --------------------------------------------------------------------------------------- */

#define THREE_ATTRIBUTES                                                                                               \
    "'count':{'DataType':'Number','StringValue':'3'},'blob':{'DataType':'Binary','BinaryValue':'AQID'},"               \
    "'color':{'DataType':'String','StringValue':'blue'}"

static void digests_are_those_of_aws(void **state)
{
    struct world *world = sqs_open(state);
    struct answer answer = world_call(
        world, "SendMessage",
        "{'QueueUrl':'q','MessageBody':'hello','MessageAttributes':{%s},'MessageSystemAttributes':{'AWSTraceHeader':"
        "{'DataType':'String','StringValue':'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;"
        "Sampled=1'}}}",
        THREE_ATTRIBUTES);
    EXPECT(world, strcmp(answer_text(answer, "MD5OfMessageBody"), "5d41402abc4b2a76b9719d911017c592") == 0);
    EXPECT(world, strcmp(answer_text(answer, "MD5OfMessageAttributes"), "d838729972a4b70e2d2acd9d59ac847c") == 0);
    EXPECT(world, strcmp(answer_text(answer, "MD5OfMessageSystemAttributes"), "5ae4d5d7636402d80f4eb6d213245a88") == 0);
    yyjson_val *message =
        receive(world, ",'MessageAttributeNames':['blob','c.*'],'MessageSystemAttributeNames':['AWSTraceHeader']");
    EXPECT(world, strcmp(sqs_text(message, "MD5OfBody"), "5d41402abc4b2a76b9719d911017c592") == 0);
    EXPECT(world, strcmp(sqs_text(message, "MD5OfMessageAttributes"), "d838729972a4b70e2d2acd9d59ac847c") == 0);
    EXPECT(world, strcmp(sqs_text(message, "MessageId"), answer_text(answer, "MessageId")) == 0);
    yyjson_val *attributes = yyjson_obj_get(message, "MessageAttributes");
    EXPECT(world, yyjson_obj_size(attributes) == 3);
    EXPECT(world, strcmp(sqs_text(yyjson_obj_get(attributes, "blob"), "BinaryValue"), "AQID") == 0);
    EXPECT(world, strcmp(sqs_text(yyjson_obj_get(attributes, "count"), "StringValue"), "3") == 0);
    EXPECT(world, strcmp(sqs_text(yyjson_obj_get(attributes, "count"), "DataType"), "Number") == 0);
    EXPECT(world, yyjson_obj_size(yyjson_obj_get(message, "Attributes")) == 1);
    sqs_close(world);
}

static void the_digest_of_a_receive_covers_what_it_asked_for(void **state)
{
    struct world *world = sqs_open(state);
    EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{%s}}",
                             THREE_ATTRIBUTES)
                          .error == NULL);
    static const struct {
        const char *names;
        unsigned count;
        const char *md5;
    } rows[] = {
        {"'color'", 1, "da1b33cc3cbfe8b1630921e78e6b9880"},
        {"'col.*'", 1, "da1b33cc3cbfe8b1630921e78e6b9880"},
        {"'blob','c.*','c.*'", 3, "d838729972a4b70e2d2acd9d59ac847c"},
        {"'Color','colo','','?!','x.*'", 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char more[200];
        snprintf(more, sizeof(more), ",'MessageAttributeNames':[%s]", rows[i].names);
        yyjson_val *message = receive(world, more);
        EXPECT(world, yyjson_obj_size(yyjson_obj_get(message, "MessageAttributes")) == rows[i].count);
        EXPECT(world, strcmp(sqs_text(message, "MD5OfMessageAttributes"), rows[i].md5) == 0);
        EXPECT(world, (yyjson_obj_get(message, "MessageAttributes") == NULL) == (rows[i].count == 0));
    }
    EXPECT(world, yyjson_obj_get(receive(world, ""), "MessageAttributes") == NULL);
    /* All that were sent, and nothing that the receive adds. */
    static const char *const all[] = {"'All'", "'.*'", "'*'"};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        char more[200];
        snprintf(more, sizeof(more), ",'MessageAttributeNames':[%s]", all[i]);
        yyjson_val *message = receive(world, more);
        EXPECT(world, yyjson_obj_size(yyjson_obj_get(message, "MessageAttributes")) == 3);
        EXPECT(world, strcmp(sqs_text(message, "MD5OfMessageAttributes"), "d838729972a4b70e2d2acd9d59ac847c") == 0);
    }
    sqs_close(world);
}

static void attributes_that_sqs_refuses_are_refused(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        const char *attributes;
        const char *error;
        const char *text;
    } rows[] = {
        {"'':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "name"},
        {"'.a':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "name"},
        {"'a.':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "name"},
        {"'a..b':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "name"},
        {"'aWs.b':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "name"},
        {"'AMAZON.b':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "name"},
        {"'a b':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "name"},
        {"'a!':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "name"},
        {"'\xc3\xb8':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "A-Z, a-z, 0-9"},
        {"'a':{'DataType':'string','StringValue':'x'}", "InvalidParameterValueException", "type"},
        {"'a':{'DataType':'Strings','StringValue':'x'}", "InvalidParameterValueException", "type"},
        {"'a':{'StringValue':'x'}", "InvalidParameterValueException", "type"},
        {"'X':{'DataType':'String','StringValue':''}", "InvalidParameterValueException",
         "Message (user) attribute 'X' must contain a non-empty value of type 'String'."},
        {"'X':{'DataType':'Binary','StringValue':'x'}", "InvalidParameterValueException", "non-empty"},
        {"'X':{'DataType':'String','BinaryValue':'AQID'}", "InvalidParameterValueException", "non-empty"},
        {"'X':{'DataType':'Number','StringValue':'ten'}", "InvalidParameterValueException",
         "Can't cast the value of message (user) attribute 'X' to a number."},
        {"'X':{'DataType':'Number','StringValue':'1e'}", "InvalidParameterValueException", "Can't cast"},
        {"'X':{'DataType':'Number','StringValue':'.'}", "InvalidParameterValueException", "Can't cast"},
        {"'X':{'DataType':'String','StringValue':'\\u0001'}", "InvalidParameterValueException", "characters"},
        {"'X':{'DataType':'Binary','BinaryValue':'A'}", "SerializationException", "base64"},
        {"'X':{'DataType':'String','StringValue':7}", "SerializationException", "String"},
        {"'X':'x'", "SerializationException", "object"},
        {"'X':{'DataType':'String','StringListValues':['x']}", "UnsupportedOperation", "list values"},
        {"'X':{'DataType':'String','StringValue':'x'},'X':{'DataType':'String','StringValue':'y'}",
         "InvalidParameterValueException", "twice"},
        {"'Tally.After':{'DataType':'String','StringValue':'batch'}", "InvalidParameterValueException", "Tally.After"},
        {"'Tally.After':{'DataType':'String','StringValue':'x'}", "InvalidParameterValueException", "Tally.After"},
        {"'Tally.After':{'DataType':'Binary','BinaryValue':'AQ=='}", "InvalidParameterValueException", "Tally.After"},
        {"'Tally.AfterFailure':{'DataType':'String','StringValue':'wait'}", "InvalidParameterValueException",
         "It must be cancel, run or hold."},
        {"'Tally.AfterFailure':{'DataType':'Binary','BinaryValue':'AQ=='}", "InvalidParameterValueException",
         "Tally.AfterFailure"},
        {"'Tally.Type':{'DataType':'Binary','BinaryValue':'AQ=='}", "InvalidParameterValueException", "Tally.Type"},
        {"'Tally.Type':{'DataType':'String','StringValue':'a b'}", "InvalidParameterValueException",
         "It can only include ASCII letters"},
        {"'Tally.Priority':{'DataType':'Binary','BinaryValue':'AQ=='}", "InvalidParameterValueException",
         "Tally.Priority"},
        {"'Tally.Batch':{'DataType':'Binary','BinaryValue':'AQ=='}", "InvalidParameterValueException", "Tally.Batch"},
        {"'Tally.OutboxId':{'DataType':'Binary','BinaryValue':'AQ=='}", "InvalidParameterValueException",
         "Tally.OutboxId"},
        {"'Tally.Producer':{'DataType':'Binary','BinaryValue':'AQ=='},"
         "'Tally.Sequence':{'DataType':'Number','StringValue':'1'}",
         "InvalidParameterValueException", "String or Number"},
        {"'Tally.Producer':{'DataType':'String','StringValue':'a b'},"
         "'Tally.Sequence':{'DataType':'Number','StringValue':'1'}",
         "InvalidParameterValueException", "It can only include ASCII letters"},
        {"'Tally.Producer':{'DataType':'String','StringValue':'p'},"
         "'Tally.Sequence':{'DataType':'Binary','BinaryValue':'AQ=='}",
         "InvalidParameterValueException", "String or Number"},
        {"'Tally.Producer':{'DataType':'String','StringValue':'p'}", "InvalidParameterValueException",
         "go together: the message has only Tally.Producer"},
        {"'Tally.Sequence':{'DataType':'Number','StringValue':'1'}", "InvalidParameterValueException",
         "go together: the message has only Tally.Sequence"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char body[400];
        snprintf(body, sizeof(body), "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{%s}}", rows[i].attributes);
        sqs_expect_error(world, "SendMessage", body, rows[i].error, rows[i].text);
    }
    EXPECT(world, core_metrics(world_core(world)).messages == 0);
    /* And what it takes is taken. */
    static const char *const good[] = {
        "'a.b-c_9':{'DataType':'String.label','StringValue':'x'}",
        "'o':{'DataType':'Number.int','StringValue':'-12.5e+3'}",
        "'awsome':{'DataType':'Binary.png','BinaryValue':'AQ=='}",
        "'n':{'DataType':'Number','StringValue':'12345678901234567890123456789012345678'}",
        "'l':{'DataType':'String','StringValue':'\\t\\n\\r','StringListValues':[]}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        EXPECT(world,
               world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{%s}}", good[i])
                       .error == NULL);
    sqs_close(world);
}

static void ten_attributes_are_the_most(void **state)
{
    struct world *world = sqs_open(state);
    char attributes[1000] = "";
    size_t size = 0;
    for (unsigned i = 0; i < 11; i++) {
        size += (size_t)snprintf(attributes + size, sizeof(attributes) - size,
                                 "%s'a%u':{'DataType':'String','StringValue':'x'}", i == 0 ? "" : ",", i);
        struct answer answer =
            world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{%s}}", attributes);
        EXPECT(world, (answer.error == NULL) == (i < 10));
        EXPECT(world, i < 10 || strstr(answer_text(answer, "message"),
                                       "Number of message attributes [11] exceeds the allowed maximum [10].") != NULL);
    }
    sqs_close(world);
}

/* Relays add the uid of the row to what the application gave. It is handed on, and counts for the size and the digest
 * alone. */
static void the_uid_of_a_row_is_not_one_of_the_ten(void **state)
{
    struct world *world = sqs_open(state);
    static const char uid[] = "0e7a1c52-3b1f-4c39-9a51-1f0e5f3ad001";
    char attributes[1000] = "";
    size_t size = 0;
    for (unsigned i = 0; i < 10; i++)
        size += (size_t)snprintf(attributes + size, sizeof(attributes) - size,
                                 "'a%u':{'DataType':'String','StringValue':'x'},", i);
    static const char format[] = "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{%s'Tally.OutboxId':{"
                                 "'DataType':'String','StringValue':'%s'}%s}}";
    EXPECT(world, world_call(world, "SendMessage", format, attributes, uid, "").error == NULL);
    EXPECT(world,
           world_call(world, "SendMessage", format, attributes, uid, ",'b':{'DataType':'String','StringValue':'x'}")
                   .error != NULL);
    EXPECT(world, world_call(world, "SendMessage",
                             "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{'Tally.OutboxId':{"
                             "'DataType':'Binary','BinaryValue':'AQ=='}}}")
                          .error != NULL);
    struct answer answer = world_call(world, "ReceiveMessage",
                                      "{'QueueUrl':'q','MaxNumberOfMessages':10,'MessageAttributeNames':['All']}");
    yyjson_val *messages = yyjson_obj_get(answer.root, "Messages");
    EXPECT(world, yyjson_arr_size(messages) == 1);
    yyjson_val *received = yyjson_obj_get(yyjson_arr_get_first(messages), "MessageAttributes");
    EXPECT(world, yyjson_equals_str(yyjson_obj_get(yyjson_obj_get(received, "Tally.OutboxId"), "StringValue"), uid));
    EXPECT(world, yyjson_obj_size(received) == 11);
    sqs_close(world);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void each_fault_has_its_error_and_its_words(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        const char *action;
        const char *body;
        const char *error;
        const char *text;
    } rows[] = {
        {"SendMessage", "{'QueueUrl':'none','MessageBody':'x'}", "QueueDoesNotExist",
         "The specified queue does not exist."},
        {"SendMessage", "{'MessageBody':'x'}", "QueueDoesNotExist", "does not exist"},
        {"SendMessage", "{'QueueUrl':'','MessageBody':'x'}", "QueueDoesNotExist", "does not exist"},
        {"SendMessage", "{'QueueUrl':'http://h/111111111111/q','MessageBody':'x'}", "QueueDoesNotExist",
         "does not exist"},
        {"SendMessage", "{'QueueUrl':7,'MessageBody':'x'}", "SerializationException", "String"},
        {"SendMessage", "{'QueueUrl':'q'", "SerializationException", "not valid JSON"},
        {"SendMessage", "[]", "SerializationException", "not an object"},
        {"SendMessage", "{'QueueUrl':'q'}", "MissingRequiredParameterException",
         "The request must contain the parameter MessageBody."},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':''}", "MissingRequiredParameterException", "MessageBody"},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'\\u000b'}", "InvalidMessageContents", "#x9"},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'\\uffff'}", "InvalidMessageContents", "#x9"},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'x','DelaySeconds':901}", "InvalidParameterValueException",
         "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'x','DelaySeconds':-1}", "InvalidParameterValueException",
         "DelaySeconds"},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'x','MessageGroupId':''}", "InvalidParameterValueException",
         "MessageGroupId can only include"},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'x','MessageGroupId':'a b'}", "InvalidParameterValueException",
         "MessageGroupId can only include"},
        {"SendMessageBatch", "{'QueueUrl':'q','Entries':[]}", "EmptyBatchRequest",
         "There should be at least one SendMessageBatchRequestEntry in the request."},
        {"SendMessageBatch", "{'QueueUrl':'q'}", "EmptyBatchRequest", "SendMessageBatchRequestEntry"},
        {"DeleteMessageBatch", "{'QueueUrl':'q','Entries':[]}", "EmptyBatchRequest", "DeleteMessageBatchRequestEntry"},
        {"SendMessageBatch", "{'QueueUrl':'q','Entries':[{'Id':'a b','MessageBody':'x'}]}", "InvalidBatchEntryId",
         "can only contain alphanumeric"},
        {"SendMessageBatch", "{'QueueUrl':'q','Entries':[{'MessageBody':'x'}]}", "InvalidBatchEntryId", "alphanumeric"},
        {"SendMessageBatch",
         "{'QueueUrl':'q','Entries':[{'Id':'1','MessageBody':'x'},{'Id':'2','MessageBody':'x'},{'Id':'1','MessageBody':"
         "'x'}]}",
         "BatchEntryIdsNotDistinct", "Id 1 repeated."},
        {"SendMessageBatch", "{'QueueUrl':'q','Entries':'x'}", "SerializationException", "List"},
        {"SendMessageBatch", "{'QueueUrl':'q','Entries':['x']}", "SerializationException", "object"},
        {"ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':0}", "InvalidParameterValueException",
         "Must be between 1 and 10, if provided."},
        {"ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':11}", "InvalidParameterValueException",
         "between 1 and 10"},
        {"ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':'x'}", "SerializationException", "Integer"},
        {"ReceiveMessage", "{'QueueUrl':'q','WaitTimeSeconds':21}", "InvalidParameterValueException",
         "Must be >= 0 and <= 20, if provided."},
        {"ReceiveMessage", "{'QueueUrl':'q','VisibilityTimeout':43201}", "InvalidParameterValueException",
         "Must be >= 0 and <= 43200, if provided."},
        {"DeleteMessage", "{'QueueUrl':'q'}", "MissingRequiredParameterException", "ReceiptHandle"},
        {"DeleteMessage", "{'QueueUrl':'q','ReceiptHandle':'garbage'}", "ReceiptHandleIsInvalid",
         "The input receipt handle \"garbage\" is not a valid receipt handle."},
        {"ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'garbage'}", "MissingRequiredParameterException",
         "VisibilityTimeout"}, /* before the handle is looked at */
        {"ChangeMessageVisibility", "{'QueueUrl':'none','ReceiptHandle':'garbage'}", "QueueDoesNotExist", ""},
        {"ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'garbage','VisibilityTimeout':43201}",
         "InvalidParameterValueException", "Must be between 0 and 43200."},
        {"ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'garbage','VisibilityTimeout':1}",
         "ReceiptHandleIsInvalid", "garbage"},
        {"CreateQueue", "{'QueueName':'q','Attributes':{'DelaySeconds':'1'}}", "QueueNameExists",
         "attribute DelaySeconds"},
        {"CreateQueue", "{'QueueName':'a b'}", "InvalidParameterValueException", "alphanumeric"},
        {"CreateQueue", "{}", "InvalidParameterValueException", "Must specify a queue name."},
        {"SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'Odd':'1'}}", "InvalidAttributeName",
         "Unknown Attribute Odd."},
        {"SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'DelaySeconds':'901'}}", "InvalidAttributeValue",
         "Invalid value for the parameter DelaySeconds."},
        {"SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'RedrivePolicy':'{}'}}", "InvalidParameterValueException",
         "Redrive policy does not contain mandatory attribute: maxReceiveCount."},
        {"SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'RedrivePolicy':'x'}}", "InvalidParameterValueException",
         "RedrivePolicy"},
        {"GetQueueAttributes", "{'QueueUrl':'q','AttributeNames':['Odd']}", "InvalidAttributeName",
         "Unknown Attribute Odd."},
        {"GetQueueUrl", "{'QueueName':'none'}", "QueueDoesNotExist", "does not exist"},
        {"ListQueues", "{'MaxResults':1001}", "InvalidParameterValueException",
         "MaxResults must be an integer between 1 and 1000"},
        {"FooBar", "{}", "UnknownOperationException", ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        sqs_expect_error(world, rows[i].action, rows[i].body, rows[i].error, rows[i].text);
    EXPECT(world, core_metrics(world_core(world)).messages == 0);
    sqs_close(world);
}

static void eleven_entries_are_refused_as_a_whole(void **state)
{
    struct world *world = sqs_open(state);
    char entries[1000];
    size_t size = 0;
    for (unsigned i = 0; i < 11; i++) /* the same id, too: the count comes first (7) */
        size += (size_t)snprintf(entries + size, sizeof(entries) - size, "%s{'Id':'1','MessageBody':'x'}",
                                 i == 0 ? "" : ",");
    struct answer answer = world_call(world, "SendMessageBatch", "{'QueueUrl':'q','Entries':[%s]}", entries);
    EXPECT(world, answer_fails(answer, "TooManyEntriesInBatchRequest"));
    EXPECT(world, strcmp(answer_text(answer, "message"),
                         "Maximum number of entries per request are 10. You have sent 11.") == 0);
    EXPECT(world, core_metrics(world_core(world)).messages == 0);
    sqs_close(world);
}

static void a_fault_of_one_entry_fails_that_entry(void **state)
{
    struct world *world = sqs_open(state);
    struct answer answer =
        world_call(world, "SendMessageBatch",
                   "{'QueueUrl':'q','Entries':[{'Id':'bad','MessageBody':'\\u0001'},{'Id':'good','MessageBody':'x'},"
                   "{'Id':'late','MessageBody':'x','DelaySeconds':901},{'Id':'better','MessageBody':'y'}]}");
    EXPECT(world, answer.error == NULL);
    yyjson_val *good = yyjson_obj_get(answer.root, "Successful"), *bad = yyjson_obj_get(answer.root, "Failed");
    EXPECT(world, yyjson_arr_size(good) == 2 && yyjson_arr_size(bad) == 2);
    EXPECT(world, strcmp(sqs_text(yyjson_arr_get(good, 0), "Id"), "good") == 0);
    EXPECT(world, strcmp(sqs_text(yyjson_arr_get(bad, 0), "Code"), "InvalidMessageContents") == 0);
    EXPECT(world, strcmp(sqs_text(yyjson_arr_get(bad, 1), "Code"), "InvalidParameterValue") == 0);
    EXPECT(world, yyjson_is_true(yyjson_obj_get(yyjson_arr_get(bad, 1), "SenderFault")));
    EXPECT(world, core_metrics(world_core(world)).messages == 2);
    struct taken taken[2];
    world_hold(world, "q", 30, 2, taken);
    answer =
        world_call(world, "DeleteMessageBatch",
                   "{'QueueUrl':'q','Entries':[{'Id':'1','ReceiptHandle':'garbage'},{'Id':'2','ReceiptHandle':'%s'}]}",
                   taken[0].handle);
    bad = yyjson_obj_get(answer.root, "Failed");
    EXPECT(world, strcmp(sqs_text(yyjson_arr_get(bad, 0), "Code"), "ReceiptHandleIsInvalid") == 0);
    EXPECT(world, world_count_messages(world, "q") == 1);
    sqs_close(world);
}

/* Sends a body of `size` bytes in a batch of `entries`, or alone if 0. */
static struct answer send_size(struct world *world, size_t size, unsigned entries)
{
    char *body = malloc(size + 1);
    assert_non_null(body);
    memset(body, 'x', size);
    body[size] = '\0';
    struct answer answer;
    if (entries == 0)
        answer = world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'%s'}", body);
    else if (entries == 1)
        answer =
            world_call(world, "SendMessageBatch", "{'QueueUrl':'q','Entries':[{'Id':'1','MessageBody':'%s'}]}", body);
    else
        answer = world_call(world, "SendMessageBatch",
                            "{'QueueUrl':'q','Entries':[{'Id':'1','MessageBody':'%s'},{'Id':'2','MessageBody':'%s'}]}",
                            body, body);
    free(body);
    return answer;
}

static void exactly_the_limit_is_accepted(void **state)
{
    struct world *world = sqs_open(state);
    EXPECT(world, send_size(world, 1048576, 0).error == NULL);
    struct answer answer = send_size(world, 1048577, 0);
    EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    EXPECT(world,
           strcmp(answer_text(answer, "message"),
                  "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.") == 0);
    EXPECT(world, send_size(world, 524288, 2).error == NULL);
    answer = send_size(world, 524289, 2);
    EXPECT(world, answer_fails(answer, "BatchRequestTooLong"));
    EXPECT(world, strcmp(answer_text(answer, "message"),
                         "Batch requests cannot be longer than 1048576 bytes. You have sent 1048578 bytes.") == 0);
    EXPECT(world, answer_fails(send_size(world, 1048577, 1), "BatchRequestTooLong"));
    EXPECT(
        world,
        world_call(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'MaximumMessageSize':'1024'}}").error ==
            NULL);
    EXPECT(world, send_size(world, 1024, 0).error == NULL);
    answer = send_size(world, 1025, 1);
    EXPECT(world, answer.error == NULL && yyjson_arr_size(yyjson_obj_get(answer.root, "Failed")) == 1);
    EXPECT(world, strstr(sqs_text(yyjson_arr_get_first(yyjson_obj_get(answer.root, "Failed")), "Message"),
                         "cannot be validated") != NULL);
    /* Attributes count: name, type and value. */
    answer = send_size(world, 1020, 0);
    EXPECT(world, answer.error == NULL);
    char body[1100];
    memset(body, 'x', sizeof(body));
    body[1024 - 1 - 6 - 2] = '\0';
    for (unsigned more = 0; more < 2; more++) {
        answer = world_call(
            world, "SendMessage",
            "{'QueueUrl':'q','MessageBody':'%s%s','MessageAttributes':{'a':{'DataType':'String','StringValue':"
            "'bb'}}}",
            body, more == 0 ? "" : "x");
        EXPECT(world, (answer.error == NULL) == (more == 0));
    }
    sqs_close(world);
}

/* The pairs of section 7 that AWS was seen to decide: size before characters; the queue before the handle. */
static void of_two_faults_the_first_in_order_is_told(void **state)
{
    struct world *world = sqs_open(state);
    EXPECT(
        world,
        world_call(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'MaximumMessageSize':'1024'}}").error ==
            NULL);
    char body[1200];
    memset(body, 'x', sizeof(body));
    body[1100] = '\0';
    EXPECT(world, answer_fails(world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'\\u0001%s'}", body),
                               "InvalidParameterValueException"));
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'none','MessageBody':''}", "QueueDoesNotExist", "");
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'\\u0001','DelaySeconds':901}",
                     "InvalidMessageContents", "");
    sqs_expect_error(world, "DeleteMessageBatch",
                     "{'QueueUrl':'q','Entries':[{'Id':'1','ReceiptHandle':'x'},{'Id':'1','ReceiptHandle':'x'}]}",
                     "BatchEntryIdsNotDistinct", "");
    sqs_close(world);
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void a_delay_of_its_own_overrides_that_of_the_queue(void **state)
{
    struct world *world = sqs_open(state);
    struct taken taken;
    world_create_queue(world, "slow", "'DelaySeconds':'10'");
    EXPECT(world,
           world_call(world, "SendMessage", "{'QueueUrl':'slow','MessageBody':'now','DelaySeconds':0}").error == NULL);
    EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'slow','MessageBody':'later'}").error == NULL);
    EXPECT(world, world_take(world, "slow", 30, 1, &taken) == 1 && strcmp(taken.body, "now") == 0);
    EXPECT(world, world_take(world, "slow", 30, 1, &taken) == 0);
    world_pass_time(world, 9999);
    EXPECT(world, world_take(world, "slow", 30, 1, &taken) == 0);
    world_pass_time(world, 1);
    EXPECT(world, world_take(world, "slow", 30, 1, &taken) == 1 && strcmp(taken.body, "later") == 0);
    sqs_close(world);
}

/* A header is bytes; the reply that hands it on is JSON. */
static void a_trace_header_that_is_no_text_is_not_taken(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        struct bytes header;
        const char *taken;
    } cases[] = {
        {BYTES("Root=1-5759e988-bd862e3fe1be46a994272793"), "Root=1-5759e988-bd862e3fe1be46a994272793"},
        {BYTES("Root=1-\xff\xfe"), ""},
        {BYTES("Root=1-\xc3\xa9"), ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct exchange exchange;
        struct taken taken;
        exchange_init(&exchange);
        exchange.request = (struct request){.target = BYTES("AmazonSQS.SendMessage"),
                                            .trace_header = cases[i].header,
                                            .body = BYTES("{\"QueueUrl\":\"q\",\"MessageBody\":\"x\"}")};
        front_submit(world->front, &exchange, world->now_ms);
        EXPECT(world, exchange.reply.status == 200 && front_take_finished(world->front) == &exchange);
        exchange_deinit(&exchange);
        yyjson_val *message = receive(world, ",'MessageSystemAttributeNames':['AWSTraceHeader']");
        EXPECT(world, strcmp(sqs_text(yyjson_obj_get(message, "Attributes"), "AWSTraceHeader"), cases[i].taken) == 0);
        world_hold(world, "q", 30, 1, &taken);
        world_delete(world, "q", taken.handle);
    }
    sqs_close(world);
}

static void a_dead_letter_target_is_a_queue_of_this_namespace(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const arns[] = {
        "arn:aws:sqs:us-east-1:999999999999:q",
        "arn:aws:sqs:q",
        "arn:aws:sqs:us-east-1:000000000000:none",
        "arn:aws:sqs:us\\\\\\'east:000000000000:q",
        "q",
    };
    char body[400];
    for (size_t i = 0; i < ARRAY_LENGTH(arns); i++) {
        snprintf(body, sizeof(body),
                 "{'QueueUrl':'q','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'%s\\',"
                 "\\'maxReceiveCount\\':1}'}}",
                 arns[i]);
        sqs_expect_error(world, "SetQueueAttributes", body, "InvalidParameterValueException",
                         "Dead letter target does not exist.");
    }
    sqs_close(world);
}

static void a_receive_with_a_timeout_of_zero_counts_and_leaves_the_message(void **state)
{
    struct world *world = sqs_open(state);
    struct taken taken;
    EXPECT(world, world_send(world, "q", NULL, "x").error == NULL);
    for (unsigned i = 1; i <= 5; i++)
        EXPECT(world, world_take(world, "q", 0, 10, &taken) == 1 && taken.receive_count == i);
    /* The newest handle still deletes (6.3). */
    world_delete(world, "q", taken.handle);
    EXPECT(world, world_count_messages(world, "q") == 0);
    sqs_close(world);
}

static void Q38_retention_also_ends_messages_in_flight(void **state)
{
    struct world *world = sqs_open(state);
    struct taken taken;
    world_create_queue(world, "short", "'MessageRetentionPeriod':'60'");
    EXPECT(world, world_send(world, "short", NULL, "x").error == NULL);
    world_hold(world, "short", 600, 1, &taken);
    world_pass_time(world, 59999);
    EXPECT(world, world_count_messages(world, "short") == 1);
    world_pass_time(world, 1);
    EXPECT(world, world_count_messages(world, "short") == 0);
    world_delete(world, "short", taken.handle);
    sqs_close(world);
}

static void Q38_a_shorter_retention_holds_for_what_is_there(void **state)
{
    struct world *world = sqs_open(state);
    struct taken taken;
    world_create_queue(world, "long", "'MessageRetentionPeriod':'3600'");
    EXPECT(world, world_send(world, "long", NULL, "held").error == NULL);
    world_hold(world, "long", 600, 1, &taken);
    EXPECT(world, world_send(world, "long", NULL, "waiting").error == NULL);
    world_pass_time(world, 61000);
    EXPECT(world, world_count_messages(world, "long") == 2);
    const char *shorter = "{'QueueUrl':'long','Attributes':{'MessageRetentionPeriod':'60'}}";
    EXPECT(world, world_call(world, "SetQueueAttributes", "%s", shorter).error == NULL);
    world_pass_time(world, 1);
    EXPECT(world, world_count_messages(world, "long") == 0);
    world_delete(world, "long", taken.handle);
    sqs_close(world);
}

/* --- sizes of replies --------------------------------------------------------------------------------------------- */

static void which_replies_are_short_is_known_before_a_request_is_read(void **state)
{
    static const struct {
        const char *target, *query, *body;
        bool is_short;
    } rows[] = {
        {"AmazonSQS.SendMessage", "", "{}", true},
        {"AmazonSQS.DeleteMessage", "", "{}", true},
        {"AmazonSQS.ReceiveMessage", "", "{}", false},
        {"Tally.ListTickets", "", "{}", false},
        {"Tally.Nothing", "", "{}", false},
        {"", "", "Action=SendMessage&QueueUrl=q", true},
        {"", "", "Action=SendMessage", true},
        {"", "", "Action=ReceiveMessage&QueueUrl=q", false},
        {"", "Action=DeleteMessage&QueueUrl=q", "", true},
        {"", "Action=ReceiveMessage", "Action=DeleteMessage", false}, /* the query string's is the one that counts */
        {"", "QueueUrl=q", "Action=DeleteMessage", false},            /* where it isn't the first it isn't looked for */
        {"", "", "QueueUrl=q&Action=SendMessage", false},
        {"", "", "Action=&QueueUrl=q", false},
        {"", "", "Action=SendMessageSendMessageSendMessageSendMessageSendMessageSendMessageSendMessage", false},
        {"", "", "", false},
    };
    struct world *world = sqs_open(state);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const struct request request = {
            .target = bytes_from_string(rows[i].target),
            .query = bytes_from_string(rows[i].query),
            .body = bytes_from_string(rows[i].body),
        };
        if (front_reply_is_short(world->front, &request) != rows[i].is_short)
            fail_msg("%s %s %s", rows[i].target, rows[i].query, rows[i].body);
    }
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_aws),
        cmocka_unit_test(the_digest_of_a_receive_covers_what_it_asked_for),
        cmocka_unit_test(attributes_that_sqs_refuses_are_refused),
        cmocka_unit_test(ten_attributes_are_the_most),
        cmocka_unit_test(the_uid_of_a_row_is_not_one_of_the_ten),
        cmocka_unit_test(each_fault_has_its_error_and_its_words),
        cmocka_unit_test(eleven_entries_are_refused_as_a_whole),
        cmocka_unit_test(a_fault_of_one_entry_fails_that_entry),
        cmocka_unit_test(exactly_the_limit_is_accepted),
        cmocka_unit_test(of_two_faults_the_first_in_order_is_told),
        cmocka_unit_test(a_delay_of_its_own_overrides_that_of_the_queue),
        cmocka_unit_test(a_trace_header_that_is_no_text_is_not_taken),
        cmocka_unit_test(a_dead_letter_target_is_a_queue_of_this_namespace),
        cmocka_unit_test(a_receive_with_a_timeout_of_zero_counts_and_leaves_the_message),
        cmocka_unit_test(Q38_retention_also_ends_messages_in_flight),
        cmocka_unit_test(Q38_a_shorter_retention_holds_for_what_is_there),
        cmocka_unit_test(which_replies_are_short_is_known_before_a_request_is_read),
    };
    return cmocka_run_group_tests_name("api: SQS", tests, NULL, NULL);
}
