/* What SQS says of queues but for their messages: names, attributes, tags, permissions, sources (Q16 to Q25, Q50). */
#include "sqs.h"

#define ARN "arn:aws:sqs:us-east-1:000000000000:"

static void create(struct world *world, const char *body)
{
    struct answer answer = sqs_call(world, "CreateQueue", body);
    EXPECT(world, strncmp(answer_text(answer, "QueueUrl"), "http://localhost/000000000000/", 30) == 0);
}

/* --- creating ----------------------------------------------------------------------------------------------------- */

static void Q16_a_queue_that_is_there_is_created_again_by_what_it_has(void **state)
{
    struct world *world = sqs_open(state);
    create(world, "{'QueueName':'a','Attributes':{'DelaySeconds':'5','Policy':''},'tags':{'k':'v'}}");
    static const char *const equal[] = {
        "",
        "'DelaySeconds':'5'",
        "'VisibilityTimeout':'30','DelaySeconds':5",
        "'Policy':'','KmsMasterKeyId':'','RedrivePolicy':'','RedriveAllowPolicy':''",
        "'SqsManagedSseEnabled':'True','KmsDataKeyReusePeriodSeconds':'300'",
    };
    char body[300];
    for (size_t i = 0; i < ARRAY_LENGTH(equal); i++) {
        snprintf(body, sizeof(body), "{'QueueName':'a','Attributes':{%s},'tags':{'k':'other'}}", equal[i]);
        create(world, body);
    }
    create(world, "{'QueueName':'a'}");
    /* The tags of a queue that is there stay as they are. */
    struct answer answer = sqs_call(world, "ListQueueTags", "{'QueueUrl':'a'}");
    EXPECT(world, strcmp(sqs_text(yyjson_obj_get(answer.root, "Tags"), "k"), "v") == 0);
    static const char *const other[][2] = {
        {"'VisibilityTimeout':'30','DelaySeconds':'6'", "attribute DelaySeconds"},
        {"'KmsMasterKeyId':'alias/x'", "attribute KmsMasterKeyId"},
        {"'KmsDataKeyReusePeriodSeconds':'301'", "attribute KmsDataKeyReusePeriodSeconds"},
        {"'SqsManagedSseEnabled':'false'", "attribute SqsManagedSseEnabled"},
        {"'RedriveAllowPolicy':'{\\'redrivePermission\\':\\'denyAll\\'}'", "attribute RedriveAllowPolicy"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(other); i++) {
        snprintf(body, sizeof(body), "{'QueueName':'a','Attributes':{%s}}", other[i][0]);
        sqs_expect_error(world, "CreateQueue", body, "QueueNameExists",
                         "A queue already exists with the same name and a different value for attribute ");
        sqs_expect_error(world, "CreateQueue", body, "QueueNameExists", other[i][1]);
    }
    /* The present value counts, not the first one. */
    EXPECT(world, sqs_set(world, "a", "'DelaySeconds':'6'").error == NULL);
    create(world, "{'QueueName':'a','Attributes':{'DelaySeconds':'6'}}");
    sqs_expect_error(world, "CreateQueue", "{'QueueName':'a','Attributes':{'DelaySeconds':'5'}}", "QueueNameExists",
                     "");
    /* A JSON text counts by what it says. */
    EXPECT(world, sqs_set(world, "a", "'RedriveAllowPolicy':'{\\'redrivePermission\\':\\'denyAll\\'}'").error == NULL);
    create(world,
           "{'QueueName':'a','Attributes':{'RedriveAllowPolicy':'{ \\'redrivePermission\\' : \\'denyAll\\' }'}}");
    sqs_close(world);
}

#define STANDARD_NAME "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
#define FIFO_NAME                                                                                                      \
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo " \
    "suffix and be 1 to 80 in length."

static void Q17_names_and_types_of_queues(void **state)
{
    struct world *world = sqs_open(state);
    char name[90], body[400];
    memset(name, 'n', sizeof(name));
    static const struct {
        unsigned size;
        const char *end;
        const char *attributes;
        const char *error; /* NULL: it is created */
        const char *text;
    } rows[] = {
        {0, "", "", "InvalidParameterValueException", "Must specify a queue name."},
        {1, "", "", NULL, ""},
        {80, "", "", NULL, ""},
        {81, "", "", "InvalidParameterValueException", STANDARD_NAME},
        {3, "a.b", "", "InvalidParameterValueException", STANDARD_NAME},
        {3, "\xc3\xb8", "", "InvalidParameterValueException", STANDARD_NAME},
        {3, ".fifo", "", "InvalidParameterValueException", STANDARD_NAME},
        {3, ".fifo", "'FifoQueue':'true'", NULL, ""},
        {75, ".fifo", "'FifoQueue':'true'", NULL, ""}, /* the suffix counts */
        {76, ".fifo", "'FifoQueue':'true'", "InvalidParameterValueException", FIFO_NAME},
        {0, ".fifo", "'FifoQueue':'true'", "InvalidParameterValueException", FIFO_NAME},
        {4, "", "'FifoQueue':'true'", "InvalidParameterValueException", FIFO_NAME},
        {4, ".FIFO", "'FifoQueue':'true'", "InvalidParameterValueException", FIFO_NAME},
        {4, "", "'FifoQueue':'false'", "InvalidAttributeName", "Unknown Attribute FifoQueue."},
        {4, "", "'ContentBasedDeduplication':'true'", "InvalidAttributeName",
         "Unknown Attribute ContentBasedDeduplication."},
        {4, "", "'DeduplicationScope':'queue'", "InvalidAttributeName",
         "You can specify the DeduplicationScope only when FifoQueue is set to true."},
        {4, "", "'FifoThroughputLimit':'perQueue'", "InvalidAttributeName",
         "You can specify the FifoThroughputLimit only when FifoQueue is set to true."},
        {4, "", "'QueueArn':'x'", "InvalidAttributeName", "Unknown Attribute QueueArn."},
        {5, ".fifo", "'FifoQueue':'true','FifoThroughputLimit':'perMessageGroupId'", "InvalidParameterValueException",
         "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup"},
        {5, ".fifo", "'FifoQueue':'True','FifoThroughputLimit':'perMessageGroupId','DeduplicationScope':'messageGroup'",
         NULL, ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        snprintf(body, sizeof(body), "{'QueueName':'%.*s%s','Attributes':{%s}}", (int)rows[i].size, name, rows[i].end,
                 rows[i].attributes);
        if (rows[i].error == NULL)
            create(world, body);
        else
            sqs_expect_error(world, "CreateQueue", body, rows[i].error, rows[i].text);
    }
    /* A FIFO queue stays one; a standard queue knows nothing of the attribute. */
    EXPECT(world, sqs_set(world, "nnn.fifo", "'FifoQueue':'true'").error == NULL);
    EXPECT(world, answer_fails(sqs_set(world, "nnn.fifo", "'FifoQueue':'false'"), "InvalidAttributeValue"));
    EXPECT(world, answer_fails(sqs_set(world, "q", "'FifoQueue':'true'"), "InvalidAttributeName"));
    create(world, "{'QueueName':'nnn.fifo'}");
    sqs_close(world);
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

/* The numbers: at their bounds they are shown as they were set, beyond them nothing changes. */
static void Q18_each_number_is_taken_at_its_bounds_and_refused_beyond(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        const char *name;
        unsigned min, max, initial;
    } rows[] = {
        {"DelaySeconds", 0, 900, 0},
        {"MaximumMessageSize", 1024, 1048576, 1048576},
        {"MessageRetentionPeriod", 60, 1209600, 345600},
        {"ReceiveMessageWaitTimeSeconds", 0, 20, 0},
        {"VisibilityTimeout", 0, 43200, 30},
        {"KmsDataKeyReusePeriodSeconds", 60, 86400, 300},
    };
    static const char *const never[] = {"",     " 61", "61 ", "+61",  "-1",
                                        "61.0", "6e1", "x",   "0x61", "99999999999999999999"};
    char text[120], value[12];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const unsigned good[] = {rows[i].min, rows[i].max, rows[i].max - 1};
        for (size_t k = 0; k < ARRAY_LENGTH(good); k++) {
            snprintf(value, sizeof(value), "%u", good[k]);
            snprintf(text, sizeof(text), "'%s':'%s'", rows[i].name, value);
            EXPECT(world, sqs_set(world, "q", text).error == NULL);
            sqs_expect_attribute(world, "q", rows[i].name, value);
        }
        /* The text is the value that stands: what is refused changes nothing, not even what stands beside it. */
        snprintf(text, sizeof(text), "'DelaySeconds':'7','%s':'%u'", rows[i].name, rows[i].max + 1);
        EXPECT(world, i == 0 || answer_fails(sqs_set(world, "q", text), "InvalidAttributeValue"));
        snprintf(text, sizeof(text), "'%s':'%u'", rows[i].name, rows[i].min - 1);
        EXPECT(world, answer_fails(sqs_set(world, "q", text), "InvalidAttributeValue"));
        for (size_t k = 0; k < ARRAY_LENGTH(never); k++) {
            snprintf(text, sizeof(text), "'%s':'%s'", rows[i].name, never[k]);
            struct answer answer = sqs_set(world, "q", text);
            EXPECT(world, answer_fails(answer, "InvalidAttributeValue"));
            EXPECT(world, strstr(answer_text(answer, "message"), "Invalid value for the parameter ") != NULL);
        }
        sqs_expect_attribute(world, "q", rows[i].name, value);
        /* A number as JSON writes it is read as text. */
        snprintf(text, sizeof(text), "'%s':%u", rows[i].name, rows[i].initial);
        EXPECT(world, sqs_set(world, "q", text).error == NULL);
    }
    sqs_expect_attribute(world, "q", "DelaySeconds", "0");
    sqs_expect_error(world, "SetQueueAttributes", "{'QueueUrl':'q'}", "MissingRequiredParameterException",
                     "The request must contain the parameter Attribute.Name.");
    sqs_expect_error(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{}}",
                     "MissingRequiredParameterException", "Attribute.Name");
    sqs_close(world);
}

/* Receives one message with what the queue says; how many there were. */
static size_t receive_plainly(struct world *world)
{
    return yyjson_arr_size(yyjson_obj_get(sqs_call(world, "ReceiveMessage", "{'QueueUrl':'q'}").root, "Messages"));
}

static void Q18_the_longest_times_are_in_force(void **state)
{
    struct world *world = sqs_open(state);
    EXPECT(world, sqs_set(world, "q", "'DelaySeconds':'900','VisibilityTimeout':'43200'").error == NULL);
    EXPECT(world, world_send(world, "q", NULL, "x").error == NULL);
    world_pass_time(world, 899999);
    EXPECT(world, receive_plainly(world) == 0);
    world_pass_time(world, 1);
    EXPECT(world, receive_plainly(world) == 1);
    world_pass_time(world, 43199999);
    EXPECT(world, receive_plainly(world) == 0);
    world_pass_time(world, 1);
    EXPECT(world, sqs_set(world, "q", "'VisibilityTimeout':'0'").error == NULL);
    EXPECT(world, receive_plainly(world) == 1 && receive_plainly(world) == 1);
    EXPECT(world, sqs_set(world, "q", "'MessageRetentionPeriod':'44101'").error == NULL);
    EXPECT(world, world_count_messages(world, "q") == 1); /* it is 44,100 seconds old */
    world_pass_time(world, 1000);
    EXPECT(world, world_count_messages(world, "q") == 0);
    sqs_close(world);
}

/* Fails unless the answer has these attributes and no others. */
static void expect_names(struct world *world, const char *queue, const char *const *names, size_t count)
{
    struct answer answer = world_call(world, "GetQueueAttributes", "{'QueueUrl':'%s','AttributeNames':['All']}", queue);
    yyjson_val *shown = yyjson_obj_get(answer.root, "Attributes");
    for (size_t i = 0; i < count; i++)
        if (yyjson_obj_get(shown, names[i]) == NULL)
            fail_msg("%s shows no %s", queue, names[i]);
    EXPECT(world, yyjson_obj_size(shown) == count);
}

#define ON_EACH_QUEUE                                                                                                  \
    "DelaySeconds", "MaximumMessageSize", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds",                   \
        "VisibilityTimeout", "SqsManagedSseEnabled", "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp",          \
        "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"
#define ON_EACH_FIFO_QUEUE "FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"
#define ONCE_SET "Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds"

#define SOME_POLICY                                                                                                    \
    "{\\'Version\\':\\'2012-10-17\\',\\'Statement\\':[{\\'Effect\\':\\'Allow\\',\\'Principal\\':\\'*\\',"              \
    "\\'Action\\':\\'SQS:*\\',\\'Resource\\':\\'*\\'}]}"

static void Q18_the_list_of_attributes_is_complete(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const plain[] = {ON_EACH_QUEUE};
    static const char *const fifo[] = {ON_EACH_QUEUE, ON_EACH_FIFO_QUEUE};
    static const char *const full[] = {ON_EACH_QUEUE, ONCE_SET};
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    expect_names(world, "q", plain, ARRAY_LENGTH(plain));
    expect_names(world, "f.fifo", fifo, ARRAY_LENGTH(fifo));
    EXPECT(world, sqs_set(world, "q",
                          "'Policy':'" SOME_POLICY "','RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'" ARN
                          "q\\',\\'maxReceiveCount\\':3}','RedriveAllowPolicy':'{\\'redrivePermission\\':"
                          "\\'allowAll\\'}','KmsMasterKeyId':'alias/k','KmsDataKeyReusePeriodSeconds':'60'")
                          .error == NULL);
    expect_names(world, "q", full, ARRAY_LENGTH(full));
    /* Asked by name, what is not set is left out without an error; so is what the queue's type does not have. */
    struct answer answer = sqs_call(
        world, "GetQueueAttributes",
        "{'QueueUrl':'f.fifo','AttributeNames':['Policy','RedrivePolicy','KmsMasterKeyId','RedriveAllowPolicy',"
        "'KmsDataKeyReusePeriodSeconds']}");
    EXPECT(world, yyjson_obj_size(answer.root) == 0);
    answer =
        sqs_call(world, "GetQueueAttributes", "{'QueueUrl':'q','AttributeNames':['FifoQueue','DeduplicationScope']}");
    EXPECT(world, yyjson_obj_size(answer.root) == 0);
    answer = sqs_call(world, "GetQueueAttributes", "{'QueueUrl':'q'}");
    EXPECT(world, yyjson_obj_size(answer.root) == 0);
    sqs_expect_error(world, "GetQueueAttributes", "{'QueueUrl':'q','AttributeNames':['All','Odd']}",
                     "InvalidAttributeName", "Unknown Attribute Odd.");
    EXPECT(world, strcmp(sqs_attribute(world, "q", "QueueArn", "QueueArn"), ARN "q") == 0);
    EXPECT(world, strcmp(sqs_attribute(world, "q", "CreatedTimestamp", "CreatedTimestamp"), "1700000000") == 0);
    sqs_close(world);
}

static void a_list_of_names_has_a_bound(void **state)
{
    struct world *world = sqs_open(state);
    struct buffer names;
    buffer_init(&names);
    for (unsigned i = 0; i < 1001; i++)
        buffer_append_format(&names, "%s'All'", i == 0 ? "" : ",");
    struct bytes many = buffer_bytes(&names);
    struct answer answer =
        world_call(world, "GetQueueAttributes", "{'QueueUrl':'q','AttributeNames':[%.*s]}", BYTES_FORMAT(many));
    EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    EXPECT(world, strstr(answer_text(answer, "message"), "AttributeNames holds 1001 names") != NULL);
    many.size -= strlen(",'All'");
    answer = world_call(world, "GetQueueAttributes", "{'QueueUrl':'q','AttributeNames':[%.*s]}", BYTES_FORMAT(many));
    EXPECT(world, answer.error == NULL);
    buffer_deinit(&names);
    sqs_close(world);
}

/* --- policies and encryption -------------------------------------------------------------------------------------- */

static void Q19_an_empty_text_takes_an_attribute_away(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        const char *name;
        const char *value;
        const char *shown;
    } rows[] = {
        {"Policy", " {\\'Statement\\' : {\\'Effect\\':\\'Deny\\', \\'Principal\\':\\'*\\',\\'Action\\':\\'*\\'}}",
         "{\"Statement\":{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"*\"}}"},
        {"RedrivePolicy", "{\\'maxReceiveCount\\':\\'1000\\', \\'deadLetterTargetArn\\':\\'" ARN "q\\'}",
         "{\"deadLetterTargetArn\":\"" ARN "q\",\"maxReceiveCount\":1000}"},
        {"RedriveAllowPolicy",
         "{\\'sourceQueueArns\\':[\\'" ARN "a\\', \\'" ARN "b\\'], \\'redrivePermission\\' : \\'byQueue\\'}",
         "{\"redrivePermission\":\"byQueue\",\"sourceQueueArns\":[\"" ARN "a\",\"" ARN "b\"]}"},
        {"RedriveAllowPolicy", "{\\'redrivePermission\\':\\'denyAll\\',\\'sourceQueueArns\\':[]}",
         "{\"redrivePermission\":\"denyAll\"}"},
        {"KmsMasterKeyId", "arn:aws:kms:us-east-1:000000000000:key/1", "arn:aws:kms:us-east-1:000000000000:key/1"},
    };
    char text[400];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        sqs_expect_attribute(world, "q", rows[i].name, NULL);
        snprintf(text, sizeof(text), "'%s':'%s'", rows[i].name, rows[i].value);
        EXPECT(world, sqs_set(world, "q", text).error == NULL);
        sqs_expect_attribute(world, "q", rows[i].name, rows[i].shown);
        snprintf(text, sizeof(text), "'%s':''", rows[i].name);
        EXPECT(world, sqs_set(world, "q", text).error == NULL);
        sqs_expect_attribute(world, "q", rows[i].name, NULL);
        EXPECT(world, sqs_set(world, "q", text).error == NULL); /* and once more */
    }
    sqs_close(world);
}

static void Q19_one_kind_of_encryption_at_a_time(void **state)
{
    struct world *world = sqs_open(state);
    const char *both =
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE "
        "or SQS SSE.";
    sqs_expect_attribute(world, "q", "SqsManagedSseEnabled", "true");
    EXPECT(world, sqs_set(world, "q", "'KmsMasterKeyId':'alias/k'").error == NULL);
    sqs_expect_attribute(world, "q", "SqsManagedSseEnabled", "false");
    EXPECT(world, answer_fails(sqs_set(world, "q", "'SqsManagedSseEnabled':'true'"), "InvalidAttributeName"));
    EXPECT(world, sqs_set(world, "q", "'KmsMasterKeyId':''").error == NULL);
    sqs_expect_attribute(world, "q", "SqsManagedSseEnabled", "false"); /* where it stays */
    EXPECT(world, sqs_set(world, "q", "'SqsManagedSseEnabled':'True'").error == NULL);
    sqs_expect_attribute(world, "q", "SqsManagedSseEnabled", "true");
    sqs_expect_error(world, "SetQueueAttributes",
                     "{'QueueUrl':'q','Attributes':{'SqsManagedSseEnabled':'true','KmsMasterKeyId':'alias/k'}}",
                     "InvalidAttributeName", both);
    sqs_expect_error(world, "CreateQueue",
                     "{'QueueName':'k','Attributes':{'KmsMasterKeyId':'alias/k','SqsManagedSseEnabled':'true'}}",
                     "InvalidAttributeName", both);
    sqs_expect_attribute(world, "q", "KmsMasterKeyId", NULL);
    EXPECT(world, sqs_set(world, "q", "'SqsManagedSseEnabled':'false','KmsMasterKeyId':'alias/k'").error == NULL);
    EXPECT(world, sqs_set(world, "q", "'KmsMasterKeyId':'','SqsManagedSseEnabled':'true'").error == NULL);
    EXPECT(world, answer_fails(sqs_set(world, "q", "'SqsManagedSseEnabled':'yes'"), "InvalidAttributeValue"));
    EXPECT(world, answer_fails(sqs_set(world, "q", "'KmsMasterKeyId':'a\\nb'"), "InvalidAttributeValue"));
    sqs_close(world);
}

static void Q19_what_is_no_policy_is_refused(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const texts[] = {"x", "{}", "[]", "{\\'Statement\\':[]}",
                                        "{\\'Statement\\':[{\\'Effect\\':\\'Allow\\'}]}"};
    char body[200];
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'q','Attributes':{'Policy':'%s'}}", texts[i]);
        sqs_expect_error(world, "SetQueueAttributes", body, "InvalidAttributeValue",
                         "Invalid value for the parameter Policy.");
    }
    /* Blanks count: 32,768 bytes are the most that are read. */
    char *blanks = malloc(32769);
    assert_non_null(blanks);
    memset(blanks, ' ', 32768);
    blanks[32768] = '\0';
    struct answer answer =
        world_call(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'Policy':'%s" SOME_POLICY "'}}", blanks);
    EXPECT(world, answer_fails(answer, "InvalidAttributeValue"));
    blanks[32000] = '\0';
    answer =
        world_call(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'Policy':'%s" SOME_POLICY "'}}", blanks);
    EXPECT(world, answer.error == NULL);
    free(blanks);
    sqs_close(world);
}

/* --- dead-letter queues ------------------------------------------------------------------------------------------- */

static struct answer set_redrive(struct world *world, const char *queue, const char *target, const char *count)
{
    return world_call(world, "SetQueueAttributes",
                      "{'QueueUrl':'%s','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'" ARN
                      "%s\\',\\'maxReceiveCount\\':%s}'}}",
                      queue, target, count);
}

static void Q20_a_redrive_policy_that_can_not_hold_is_refused(void **state)
{
    struct world *world = sqs_open(state);
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    world_create_queue(world, "closed", "'RedriveAllowPolicy':'{\\'redrivePermission\\':\\'denyAll\\'}'");
    static const struct {
        const char *policy;
        const char *text;
    } rows[] = {
        {"{}", "Redrive policy does not contain mandatory attribute: maxReceiveCount."},
        {"{\\'maxReceiveCount\\':1}", "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."},
        {"{\\'deadLetterTargetArn\\':\\'" ARN "q\\',\\'maxReceiveCount\\':0}",
         "Invalid value for maxReceiveCount: 0, valid values are from 1 to 1000 both inclusive."},
        {"{\\'deadLetterTargetArn\\':\\'" ARN "q\\',\\'maxReceiveCount\\':\\'1001\\'}",
         "Invalid value for maxReceiveCount: 1001, valid values are from 1 to 1000 both inclusive."},
        {"{\\'deadLetterTargetArn\\':\\'" ARN "none\\',\\'maxReceiveCount\\':1}", "Dead letter target does not exist."},
        {"{\\'deadLetterTargetArn\\':\\'" ARN "f.fifo\\',\\'maxReceiveCount\\':1}",
         "Dead-letter queue must be same type of queue as the source."},
        {"{\\'deadLetterTargetArn\\':\\'" ARN "closed\\',\\'maxReceiveCount\\':1}", "RedriveAllowPolicy"},
        {"nothing", "Redrive policy is not a valid JSON map."},
    };
    char body[300];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'q','Attributes':{'RedrivePolicy':'%s'}}", rows[i].policy);
        sqs_expect_error(world, "SetQueueAttributes", body, "InvalidParameterValueException", rows[i].text);
        sqs_expect_error(world, "SetQueueAttributes", body, "InvalidParameterValueException",
                         "for parameter RedrivePolicy is invalid. Reason: ");
        snprintf(body, sizeof(body), "{'QueueName':'new','Attributes':{'RedrivePolicy':'%s'}}", rows[i].policy);
        sqs_expect_error(world, "CreateQueue", body, "InvalidParameterValueException", rows[i].text);
    }
    sqs_expect_attribute(world, "q", "RedrivePolicy", NULL);
    EXPECT(world, core_find_queue(world_core(world), BYTES("new")) == NULL);
    sqs_close(world);
}

static void Q50_a_dead_letter_queue_says_whose_messages_it_takes(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const wrong[] = {
        "x",
        "[]",
        "{}",
        "{\\'redrivePermission\\':\\'some\\'}",
        "{\\'redrivePermission\\':\\'byQueue\\'}",
        "{\\'redrivePermission\\':\\'byQueue\\',\\'sourceQueueArns\\':[]}",
        "{\\'redrivePermission\\':\\'byQueue\\',\\'sourceQueueArns\\':\\'" ARN "q\\'}",
        "{\\'redrivePermission\\':\\'byQueue\\',\\'sourceQueueArns\\':[7]}",
        "{\\'redrivePermission\\':\\'byQueue\\',\\'sourceQueueArns\\':[\\'q\\']}",
        "{\\'redrivePermission\\':\\'denyAll\\',\\'sourceQueueArns\\':[\\'" ARN "q\\']}",
        "{\\'redrivePermission\\':\\'byQueue\\',\\'sourceQueueArns\\':[\\'arn:1\\',\\'arn:2\\',\\'arn:3\\',\\'arn:4\\',"
        "\\'arn:5\\',\\'arn:6\\',\\'arn:7\\',\\'arn:8\\',\\'arn:9\\',\\'arn:10\\',\\'arn:11\\']}",
    };
    char body[400];
    world_create_queue(world, "dead", "");
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'dead','Attributes':{'RedriveAllowPolicy':'%s'}}", wrong[i]);
        sqs_expect_error(world, "SetQueueAttributes", body, "InvalidParameterValueException",
                         "it's in an unsupported format.");
    }
    /* Set before the source: the region of an ARN does not matter. */
    EXPECT(world, sqs_set(world, "dead",
                          "'RedriveAllowPolicy':'{\\'redrivePermission\\':\\'byQueue\\',\\'sourceQueueArns\\':["
                          "\\'arn:aws:sqs:eu-west-1:000000000000:q\\']}'")
                          .error == NULL);
    EXPECT(world, set_redrive(world, "q", "dead", "1").error == NULL);
    world_create_queue(world, "other", "");
    EXPECT(world, answer_fails(set_redrive(world, "other", "dead", "1"), "InvalidParameterValueException"));
    /* Set after it: sources stay as they are, and their messages still go there. */
    EXPECT(world,
           sqs_set(world, "dead", "'RedriveAllowPolicy':'{\\'redrivePermission\\':\\'denyAll\\'}'").error == NULL);
    struct taken taken;
    EXPECT(world, world_send(world, "q", NULL, "x").error == NULL);
    EXPECT(world, world_take(world, "q", 0, 1, &taken) == 1);
    EXPECT(world, world_take(world, "q", 0, 1, &taken) == 0);
    EXPECT(world, world_count_messages(world, "dead") == 1);
    /* Other attributes of the source may change; the policy itself may not be set again. */
    EXPECT(world, sqs_set(world, "q", "'VisibilityTimeout':'1'").error == NULL);
    EXPECT(world, answer_fails(set_redrive(world, "q", "dead", "2"), "InvalidParameterValueException"));
    EXPECT(world, sqs_set(world, "q", "'RedrivePolicy':''").error == NULL);
    EXPECT(world, sqs_set(world, "dead", "'RedriveAllowPolicy':''").error == NULL);
    EXPECT(world, set_redrive(world, "other", "dead", "1").error == NULL);
    sqs_close(world);
}

static void sources_of_a_dead_letter_queue_are_listed_in_pages(void **state)
{
    struct world *world = sqs_open(state);
    char body[200], name[8];
    world_create_queue(world, "dead", "");
    struct answer answer = sqs_call(world, "ListDeadLetterSourceQueues", "{'QueueUrl':'dead'}");
    EXPECT(world, yyjson_obj_size(answer.root) == 0);
    for (unsigned i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        world_create_queue(world, name, "");
        EXPECT(world, set_redrive(world, name, i == 3 ? "q" : "dead", "1").error == NULL);
    }
    answer = sqs_call(world, "ListDeadLetterSourceQueues", "{'QueueUrl':'dead'}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "queueUrls")) == 4 && !answer_has(answer, "NextToken"));
    static const char *const pages[][2] = {{"s0", "s1"}, {"s2", "s4"}};
    const char *token = "";
    for (unsigned page = 0; page < 2; page++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'dead','MaxResults':2,'NextToken':'%s'}", token);
        answer = sqs_call(world, "ListDeadLetterSourceQueues", body);
        yyjson_val *urls = yyjson_obj_get(answer.root, "queueUrls");
        EXPECT(world, yyjson_arr_size(urls) == 2);
        for (unsigned i = 0; i < 2; i++) {
            snprintf(body, sizeof(body), "http://localhost/000000000000/%s", pages[page][i]);
            EXPECT(world, strcmp(yyjson_get_str(yyjson_arr_get(urls, i)), body) == 0);
        }
        token = answer_text(answer, "NextToken");
        EXPECT(world, (token[0] == '\0') == (page == 1));
    }
    sqs_expect_error(world, "ListDeadLetterSourceQueues", "{'QueueUrl':'none'}", "QueueDoesNotExist", "");
    sqs_expect_error(world, "ListDeadLetterSourceQueues", "{'QueueUrl':'dead','MaxResults':0}",
                     "InvalidParameterValueException", "MaxResults must be an integer between 1 and 1000");
    sqs_close(world);
}

/* --- deleting, purging, listing ----------------------------------------------------------------------------------- */

static struct world *open_with_intervals(void)
{
    struct world *world = world_create(&(struct world_options){.seed = 1, .enforce_intervals = true});
    world_create_queue(world, "q", "");
    return world;
}

static void Q21_a_queue_that_is_created_again_is_another_one(void **state)
{
    struct world *world = sqs_open(state);
    struct taken taken;
    char body[200];
    EXPECT(world, sqs_set(world, "q", "'DelaySeconds':'0','KmsMasterKeyId':'alias/k'").error == NULL);
    sqs_call(world, "TagQueue", "{'QueueUrl':'q','Tags':{'a':'1'}}");
    EXPECT(world, world_send(world, "q", NULL, "x").error == NULL && world_send(world, "q", NULL, "y").error == NULL);
    world_hold(world, "q", 600, 1, &taken);
    struct answer answer = sqs_call(world, "DeleteQueue", "{'QueueUrl':'q'}");
    EXPECT(world, answer.root == NULL);
    sqs_expect_error(world, "DeleteQueue", "{'QueueUrl':'q'}", "QueueDoesNotExist", "");
    create(world, "{'QueueName':'q'}");
    EXPECT(world, world_count_messages(world, "q") == 0);
    snprintf(body, sizeof(body), "{'QueueUrl':'q','ReceiptHandle':'%s'}", taken.handle);
    sqs_expect_error(world, "DeleteMessage", body, "ReceiptHandleIsInvalid", "");
    sqs_expect_attribute(world, "q", "KmsMasterKeyId", NULL);
    EXPECT(world, yyjson_obj_size(sqs_call(world, "ListQueueTags", "{'QueueUrl':'q'}").root) == 0);
    sqs_close(world);

    world = open_with_intervals();
    sqs_call(world, "DeleteQueue", "{'QueueUrl':'q'}");
    sqs_expect_error(
        world, "CreateQueue", "{'QueueName':'q'}", "QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.");
    create(world, "{'QueueName':'other'}");
    world_pass_time(world, 59999);
    sqs_expect_error(world, "CreateQueue", "{'QueueName':'q'}", "QueueDeletedRecently", "");
    world_pass_time(world, 1);
    create(world, "{'QueueName':'q'}");
    sqs_close(world);
}

static void Q22_a_purge_takes_everything_and_keeps_the_queue(void **state)
{
    struct world *world = sqs_open(state);
    struct taken taken;
    char body[200];
    const char *send = "{'QueueUrl':'q','MessageBody':'x','MessageDeduplicationId':'d'}";
    sqs_call(world, "TagQueue", "{'QueueUrl':'q','Tags':{'a':'1'}}");
    sqs_call(world, "Tally.CreateBatch", "{'BatchId':'b'}");
    sqs_call(world, "SendMessage", send);
    EXPECT(world, answer_is_true(sqs_call(world, "SendMessage", send), "Duplicate"));
    world_hold(world, "q", 600, 1, &taken);
    EXPECT(world, world_send(world, "q", "b", "unit").error == NULL);
    sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x','DelaySeconds':900}");
    EXPECT(world, world_count_messages(world, "q") == 3);
    EXPECT(world, sqs_call(world, "PurgeQueue", "{'QueueUrl':'q'}").root == NULL);
    EXPECT(world, world_count_messages(world, "q") == 0);
    EXPECT(world, !answer_is_true(sqs_call(world, "SendMessage", send), "Duplicate"));
    world_pass_time(world, 1);
    EXPECT(world, answer_number(sqs_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}"), "Failed") == 1);
    EXPECT(world, yyjson_obj_size(sqs_call(world, "ListQueueTags", "{'QueueUrl':'q'}").root) == 1);
    /* The handle of a message that was purged deletes nothing, as of any that has ended. */
    snprintf(body, sizeof(body), "{'QueueUrl':'q','ReceiptHandle':'%s'}", taken.handle);
    sqs_call(world, "DeleteMessage", body);
    EXPECT(world, world_count_messages(world, "q") == 1);
    sqs_call(world, "PurgeQueue", "{'QueueUrl':'q'}"); /* at once again: the switch is off */
    sqs_expect_error(world, "PurgeQueue", "{'QueueUrl':'none'}", "QueueDoesNotExist", "");
    sqs_close(world);

    world = open_with_intervals();
    sqs_call(world, "PurgeQueue", "{'QueueUrl':'q'}");
    world_pass_time(world, 59999);
    sqs_expect_error(world, "PurgeQueue", "{'QueueUrl':'q'}", "PurgeQueueInProgress",
                     "Only one PurgeQueue operation on q is allowed every 60 seconds.");
    world_pass_time(world, 1);
    sqs_call(world, "PurgeQueue", "{'QueueUrl':'q'}");
    sqs_close(world);
}

#define MANY_QUEUES 1001u

/* Lists in pages; returns how many queues there were. Their names must rise. */
static unsigned list_in_pages(struct world *world, unsigned page_size)
{
    char body[300], token[200] = "", last[200] = "";
    unsigned count = 0;
    do {
        snprintf(body, sizeof(body), "{'QueueNamePrefix':'n','MaxResults':%u%s%s%s}", page_size,
                 token[0] == '\0' ? "" : ",'NextToken':'", token, token[0] == '\0' ? "" : "'");
        struct answer answer = sqs_call(world, "ListQueues", body);
        size_t index, size;
        yyjson_val *url;
        yyjson_arr_foreach(yyjson_obj_get(answer.root, "QueueUrls"), index, size, url)
        {
            EXPECT(world, strcmp(last, yyjson_get_str(url)) < 0);
            snprintf(last, sizeof(last), "%s", yyjson_get_str(url));
        }
        EXPECT(world, size > 0 && size <= page_size);
        count += (unsigned)size;
        snprintf(token, sizeof(token), "%s", answer_text(answer, "NextToken"));
        world_forget(world);
    } while (token[0] != '\0');
    return count;
}

static void Q23_queues_are_listed_once_in_pages(void **state)
{
    struct world *world = sqs_open(state);
    char body[60];
    for (unsigned i = 0; i < MANY_QUEUES; i++) {
        snprintf(body, sizeof(body), "{'QueueName':'n%04u'}", i);
        sqs_call(world, "CreateQueue", body);
        world_forget(world);
    }
    static const unsigned page_sizes[] = {1, 2, 1000};
    for (size_t i = 0; i < ARRAY_LENGTH(page_sizes); i++)
        EXPECT(world, list_in_pages(world, page_sizes[i]) == MANY_QUEUES);
    /* Without MaxResults 1,000 are the most, and there is no NextToken. */
    struct answer answer = sqs_call(world, "ListQueues", "{}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "QueueUrls")) == 1000);
    EXPECT(world, !answer_has(answer, "NextToken"));
    /* With it, there is one only if there is more to come. */
    answer = sqs_call(world, "ListQueues", "{'QueueNamePrefix':'n000','MaxResults':10}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "QueueUrls")) == 10 && !answer_has(answer, "NextToken"));
    answer = sqs_call(world, "ListQueues", "{'QueueNamePrefix':'none'}");
    EXPECT(world, yyjson_obj_size(answer.root) == 0);
    sqs_expect_error(world, "ListQueues", "{'MaxResults':0}", "InvalidParameterValueException",
                     "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and "
                     "1000.");
    sqs_expect_error(world, "ListQueues", "{'MaxResults':1,'NextToken':'x'}", "InvalidParameterValueException",
                     "Invalid or expired next token.");
    sqs_close(world);
}

static void a_queue_url_is_read_by_its_path(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const good[] = {
        "q",
        "http://localhost/000000000000/q",
        "https://sqs.eu-west-1.amazonaws.com/000000000000/q",
        "http://a:1/queue/q",
        "http://a/queue/us-east-1/000000000000/q",
        "/000000000000/q",
        "http://a:1/000000000000/q/",
        "q/",
    };
    static const char *const bad[] = {
        "",
        "http://nowhere",
        "http://q",
        "none",
        "http://a/000000000000/none",
        "http://a/111111111111/q",
        "http://a/q",
        "http://a/000000000000/",
        "http://a/000000000000/q//",
        "Q",
    };
    char body[120];
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'%s'}", good[i]);
        sqs_call(world, "GetQueueAttributes", body);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'%s'}", bad[i]);
        sqs_expect_error(world, "GetQueueAttributes", body, "QueueDoesNotExist", "The specified queue does not exist.");
    }
    sqs_call(world, "GetQueueUrl", "{'QueueName':'q','QueueOwnerAWSAccountId':'000000000000'}");
    sqs_expect_error(world, "GetQueueUrl", "{'QueueName':'q','QueueOwnerAWSAccountId':'111111111111'}",
                     "QueueDoesNotExist", "");
    sqs_expect_error(world, "GetQueueUrl", "{}", "InvalidParameterValueException", "Must specify a queue name.");
    sqs_close(world);
}

/* --- tags --------------------------------------------------------------------------------------------------------- */

static void expect_tags(struct world *world, const char *const tags[][2], size_t count)
{
    yyjson_val *shown = yyjson_obj_get(sqs_call(world, "ListQueueTags", "{'QueueUrl':'q'}").root, "Tags");
    EXPECT(world, yyjson_obj_size(shown) == count && (shown == NULL) == (count == 0));
    for (size_t i = 0; i < count; i++)
        EXPECT(world, yyjson_equals_str(yyjson_obj_get(shown, tags[i][0]), tags[i][1]));
}

static void Q24_tags_merge_and_go(void **state)
{
    struct world *world = sqs_open(state);
    expect_tags(world, NULL, 0);
    EXPECT(world, sqs_call(world, "TagQueue", "{'QueueUrl':'q','Tags':{'b':'1','a':''}}").root == NULL);
    expect_tags(world, (const char *const[][2]){{"a", ""}, {"b", "1"}}, 2);
    sqs_call(world, "TagQueue",
             "{'QueueUrl':'q','Tags':{'B':'2','a':'3','\xc3\xa9t\xc3\xa9 1_.:/=+-@':'\xe5\x90\x8d'}}");
    expect_tags(
        world,
        (const char *const[][2]){{"a", "3"}, {"b", "1"}, {"B", "2"}, {"\xc3\xa9t\xc3\xa9 1_.:/=+-@", "\xe5\x90\x8d"}},
        4);
    EXPECT(world, sqs_call(world, "UntagQueue", "{'QueueUrl':'q','TagKeys':['b','none','A','b']}").root == NULL);
    sqs_call(world, "UntagQueue", "{'QueueUrl':'q','TagKeys':['\xc3\xa9t\xc3\xa9 1_.:/=+-@']}");
    expect_tags(world, (const char *const[][2]){{"a", "3"}, {"B", "2"}}, 2);
    sqs_call(world, "UntagQueue", "{'QueueUrl':'q','TagKeys':['a','B']}");
    expect_tags(world, NULL, 0);
    create(world, "{'QueueName':'new','tags':{'x':'1','y':'2'}}");
    EXPECT(world,
           yyjson_obj_size(yyjson_obj_get(sqs_call(world, "ListQueueTags", "{'QueueUrl':'new'}").root, "Tags")) == 2);
    sqs_close(world);
}

/* A run of `count` times the text. */
static void repeat(char *out, const char *text, unsigned count)
{
    *out = '\0';
    for (unsigned i = 0; i < count; i++)
        strcat(out, text);
}

static void tags_have_their_limits(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        const char *action;
        const char *body;
        const char *error;
        const char *text;
    } rows[] = {
        {"TagQueue", "{'QueueUrl':'none','Tags':{'a':'1'}}", "QueueDoesNotExist", ""},
        {"TagQueue", "{'QueueUrl':'q'}", "MissingRequiredParameterException",
         "The request must contain the parameter Tags."},
        {"TagQueue", "{'QueueUrl':'q','Tags':{}}", "MissingRequiredParameterException", "Tags"},
        {"TagQueue", "{'QueueUrl':'q','Tags':[]}", "SerializationException", ""},
        {"TagQueue", "{'QueueUrl':'q','Tags':{'a':1}}", "SerializationException", ""},
        {"TagQueue", "{'QueueUrl':'q','Tags':{'':'1'}}", "InvalidParameterValueException",
         "Tag keys must be between 1 and 128 characters in length."},
        {"TagQueue", "{'QueueUrl':'q','Tags':{'a!':'1'}}", "InvalidParameterValueException", "letters"},
        {"TagQueue", "{'QueueUrl':'q','Tags':{'a':'\\u00a7'}}", "InvalidParameterValueException", "letters"},
        {"TagQueue", "{'QueueUrl':'q','Tags':{'a\\u0000':'1'}}", "InvalidParameterValueException", "letters"},
        {"UntagQueue", "{'QueueUrl':'q'}", "InvalidParameterValueException", "Tag keys must be between 1 and 128"},
        {"UntagQueue", "{'QueueUrl':'q','TagKeys':[]}", "InvalidParameterValueException", "Tag keys"},
        {"UntagQueue", "{'QueueUrl':'q','TagKeys':['']}", "InvalidParameterValueException", "Tag keys"},
        {"UntagQueue", "{'QueueUrl':'q','TagKeys':'a'}", "SerializationException", ""},
        {"UntagQueue", "{'TagKeys':['a']}", "QueueDoesNotExist", ""},
        {"ListQueueTags", "{}", "QueueDoesNotExist", ""},
        {"CreateQueue", "{'QueueName':'new','tags':{'':'1'}}", "InvalidParameterValueException", "Tag keys"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        sqs_expect_error(world, rows[i].action, rows[i].body, rows[i].error, rows[i].text);
    EXPECT(world, core_find_queue(world_core(world), BYTES("new")) == NULL);
    /* Characters, not bytes. */
    char body[2000], key[600], value[1000];
    for (unsigned more = 0; more < 2; more++) {
        repeat(key, "\xc3\xb8", 128 + more);
        repeat(value, "\xe5\x90\x8d", 256);
        snprintf(body, sizeof(body), "{'QueueUrl':'q','Tags':{'%s':'%s'}}", key, value);
        EXPECT(world, (world_call(world, "TagQueue", "%s", body).error == NULL) == (more == 0));
        repeat(value, "\xe5\x90\x8d", 256 + more);
        snprintf(body, sizeof(body), "{'QueueUrl':'q','Tags':{'a':'%s'}}", value);
        EXPECT(world, (world_call(world, "TagQueue", "%s", body).error == NULL) == (more == 0));
    }
    /* Fifty, in sum: two there are. */
    size_t size = 0;
    for (unsigned i = 0; i < 48; i++)
        size += (size_t)snprintf(body + size, sizeof(body) - size, "%s'k%u':''", i == 0 ? "" : ",", i);
    EXPECT(world, world_call(world, "TagQueue", "{'QueueUrl':'q','Tags':{%s,'one more':''}}", body).error != NULL);
    EXPECT(world, world_call(world, "TagQueue", "{'QueueUrl':'q','Tags':{%s}}", body).error == NULL);
    sqs_expect_error(world, "TagQueue", "{'QueueUrl':'q','Tags':{'one more':''}}", "InvalidParameterValueException",
                     "Too many tags added for queue q.");
    struct answer answer =
        world_call(world, "CreateQueue", "{'QueueName':'new','tags':{%s,'x':'','y':'','z':''}}", body);
    EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    size = 0;
    for (unsigned i = 0; i < 51; i++)
        size += (size_t)snprintf(body + size, sizeof(body) - size, "%s'k%u'", i == 0 ? "" : ",", i);
    answer = world_call(world, "UntagQueue", "{'QueueUrl':'q','TagKeys':[%s]}", body);
    EXPECT(world, strstr(answer_text(answer, "message"), "51 were found, maximum allowed is 50.") != NULL);
    sqs_close(world);
}

/* --- permissions -------------------------------------------------------------------------------------------------- */

#define GRANT(label, accounts, actions)                                                                                \
    "{'QueueUrl':'q','Label':'" label "','AWSAccountIds':[" accounts "],'Actions':[" actions "]}"

static void Q25_permissions_are_statements_of_the_policy(void **state)
{
    struct world *world = sqs_open(state);
    EXPECT(world, sqs_call(world, "AddPermission", GRANT("one", "'111111111111'", "'SendMessage'")).root == NULL);
    sqs_expect_attribute(
        world, "q", "Policy",
        "{\"Version\":\"2008-10-17\",\"Id\":\"" ARN "q/SQSDefaultPolicy\",\"Statement\":[{\"Sid\":\"one\",\"Effect\":"
        "\"Allow\",\"Principal\":{\"AWS\":\"arn:aws:iam::111111111111:root\"},\"Action\":\"SQS:SendMessage\","
        "\"Resource\":\"" ARN "q\"}]}");
    sqs_expect_error(world, "AddPermission", GRANT("one", "'222222222222'", "'ReceiveMessage'"),
                     "InvalidParameterValueException",
                     "Value one for parameter Label is invalid. Reason: Already exists.");
    sqs_call(world, "AddPermission",
             GRANT("two", "'111111111111','222222222222'",
                   "'*','ChangeMessageVisibility','DeleteMessage','GetQueueAttributes','GetQueueUrl',"
                   "'ListDeadLetterSourceQueues','PurgeQueue'"));
    sqs_call(world, "AddPermission", GRANT("three", "'111111111111'", "'ReceiveMessage'"));
    sqs_expect_error(world, "RemovePermission", "{'QueueUrl':'q','Label':'four'}", "InvalidParameterValueException",
                     "Value four for parameter Label is invalid. Reason: can't find label on existing policy.");
    static const char *const labels[] = {"two", "one", "three"};
    for (size_t i = 0; i < ARRAY_LENGTH(labels); i++) {
        EXPECT(world, sqs_attribute(world, "q", "Policy", "Policy") != NULL);
        struct answer answer = world_call(world, "RemovePermission", "{'QueueUrl':'q','Label':'%s'}", labels[i]);
        EXPECT(world, answer.error == NULL && answer.root == NULL);
    }
    sqs_expect_attribute(world, "q", "Policy", NULL);
    sqs_expect_error(world, "RemovePermission", "{'QueueUrl':'q','Label':'one'}", "InvalidParameterValueException",
                     "Value one for parameter Label is invalid. Reason: can't find label.");
    sqs_close(world);
}

static void Q25_permissions_that_can_not_be_given_are_refused(void **state)
{
    struct world *world = sqs_open(state);
    static const struct {
        const char *body;
        const char *error;
        const char *text;
    } rows[] = {
        {GRANT("x", "'111111111111'",
               "'*','ChangeMessageVisibility','DeleteMessage','GetQueueAttributes','GetQueueUrl','PurgeQueue',"
               "'ReceiveMessage','SendMessage'"),
         "OverLimit", "8 Actions were found, maximum allowed is 7."},
        {GRANT("x", "'111111111111'", "'CreateQueue'"), "InvalidParameterValueException",
         "Value SQS:CreateQueue for parameter ActionName is invalid. Reason: Only the queue owner is allowed to invoke "
         "this action."},
        {GRANT("x", "'111111111111'", "'SendMessageBatch'"), "InvalidParameterValueException", "ActionName"},
        {GRANT("x", "'1111'", "'SendMessage'"), "InvalidParameterValueException",
         "Value [1111] for parameter PrincipalId is invalid. Reason: Unable to verify."},
        {GRANT("x", "'11111111111x'", "'SendMessage'"), "InvalidParameterValueException", "PrincipalId"},
        {GRANT("", "'111111111111'", "'SendMessage'"), "MissingRequiredParameterException", "parameter Label."},
        {GRANT("a b", "'111111111111'", "'SendMessage'"), "InvalidParameterValueException", "Label"},
        {GRANT("x", "", "'SendMessage'"), "MissingRequiredParameterException", "parameter AWSAccountIds."},
        {GRANT("x", "'111111111111'", ""), "MissingRequiredParameterException", "parameter ActionName."},
        {"{'Label':'x'}", "QueueDoesNotExist", ""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        sqs_expect_error(world, "AddPermission", rows[i].body, rows[i].error, rows[i].text);
    sqs_expect_error(world, "RemovePermission", "{'QueueUrl':'q'}", "MissingRequiredParameterException", "Label");
    sqs_expect_attribute(world, "q", "Policy", NULL);
    char body[200];
    for (unsigned i = 0; i <= 20; i++) {
        snprintf(body, sizeof(body), GRANT("l%u", "'111111111111'", "'SendMessage'"), i);
        struct answer answer = world_call(world, "AddPermission", "%s", body);
        EXPECT(world, i < 20 ? answer.error == NULL : answer_fails(answer, "OverLimit"));
    }
    sqs_close(world);
}

/* --- what outlives the server (Q57) ------------------------------------------------------------------------------- */

static void Q57_tags_and_attributes_outlive_the_server(struct world *world)
{
    world_create_queue(world, "q", "'KmsDataKeyReusePeriodSeconds':'60'");
    world_call(world, "TagQueue", "{'QueueUrl':'q','Tags':{'a':'1','b':'2','c':''}}");
    EXPECT(world, sqs_set(world, "q",
                          "'KmsMasterKeyId':'alias/k','RedriveAllowPolicy':'{\\'redrivePermission\\':\\'denyAll\\'}',"
                          "'Policy':'" SOME_POLICY "'")
                          .error == NULL);
    world_call(world, "UntagQueue", "{'QueueUrl':'q','TagKeys':['b']}");
    struct answer answer = world_call(world, "RemovePermission", "{'QueueUrl':'q','Label':'none'}");
    EXPECT(world, answer_fails(answer, "InvalidParameterValueException"));
    sqs_expect_attribute(world, "q", "KmsMasterKeyId", "alias/k");
    sqs_expect_attribute(world, "q", "KmsDataKeyReusePeriodSeconds", "60");
    sqs_expect_attribute(world, "q", "SqsManagedSseEnabled", "false");
    sqs_expect_attribute(world, "q", "RedriveAllowPolicy", "{\"redrivePermission\":\"denyAll\"}");
    EXPECT(world, sqs_attribute(world, "q", "Policy", "Policy") != NULL);
    expect_tags(world, (const char *const[][2]){{"a", "1"}, {"c", ""}}, 2);
}

/* --- Tally's own attributes --------------------------------------------------------------------------------------- */

/* What is shown to who asks for it by name; among all of them where it says something. */
static void Tallys_attributes_are_shown_as_they_are_in_force(void **state)
{
    static const struct {
        const char *queue;
        const char *name;
        const char *value; /* that is set */
        const char *shown; /* NULL: nothing */
        bool is_among_all;
    } rows[] = {
        {"f.fifo", "Tally.StrictOrder", "false", "false", false},
        {"f.fifo", "Tally.OnGroupFailure", "skip", "skip", false},
        {"f.fifo", "Tally.StrictOrder", "true", "true", true},
        {"f.fifo", "Tally.OnGroupFailure", "skip", "skip", true}, /* all ways of ordering are shown beside one */
        {"f.fifo", "Tally.StrictOrder", "false", "false", false},
        {"f.fifo", "Tally.OnGroupFailure", "hold", "hold", true},
        {"f.fifo", "Tally.StrictOrder", "false", "false", true},
        {"f.fifo", "Tally.OnGroupFailure", "cancel-rest", "cancel-rest", true},
        {"f.fifo", "Tally.StaleReceipts", "refuse", "refuse", false},
        {"q", "Tally.StaleReceipts", "accept", "accept", false},
        {"q", "Tally.StaleReceipts", "refuse", "refuse", true},
        {"q", "Tally.DeliveryMode", "at-least-once", "at-least-once", false},
        {"q", "Tally.DeliveryMode", "at-most-once", "at-most-once", true},
        {"q", "Tally.GroupConcurrency", "0", "0", false},
        {"q", "Tally.GroupConcurrency", "1", "1", true},
        {"q", "Tally.GroupConcurrency", "120000", "120000", true},
        {"q", "Tally.DeduplicationWindow", "0", "0", true},
        {"q", "Tally.DeduplicationWindow", "315360000", "315360000", true},
        {"q", "Tally.DeduplicationWindow", "-1", "-1", true},
        {"q", "Tally.Backoff", "{}", "{'min':1,'max':900,'factor':2,'jitter':0.2}", true},
        {"q", "Tally.Backoff", "{'min':0,'max':43200,'factor':100,'jitter':1}",
         "{'min':0,'max':43200,'factor':100,'jitter':1}", true},
        {"q", "Tally.Backoff", "{'jitter':0,'factor':1,'max':2.5,'min':2.5}",
         "{'min':2.5,'max':2.5,'factor':1,'jitter':0}", true},
        {"q", "Tally.Backoff", "{'min':0.125,'max':10.05,'factor':1.5}",
         "{'min':0.125,'max':10.05,'factor':1.5,'jitter':0.2}", true},
        {"q", "Tally.Backoff", "{'min':0.0005,'max':0.0014}", "{'min':0.001,'max':0.001,'factor':2,'jitter':0.2}",
         true},
        {"q", "Tally.Backoff", "", NULL, false},
        {"q", "Tally.RateLimit", "{'queue':{'rate':100}}", "{'queue':{'rate':100,'burst':100}}", true},
        {"q", "Tally.RateLimit", "{'group':{'rate':0.5}}", "{'group':{'rate':0.5,'burst':1}}", true},
        {"q", "Tally.RateLimit", "{'group':{'rate':1.5,'burst':1},'queue':{'burst':1000000,'rate':1000000}}",
         "{'queue':{'rate':1000000,'burst':1000000},'group':{'rate':1.5,'burst':1}}", true},
        {"q", "Tally.RateLimit", "{'group':{'rate':2.25}}", "{'group':{'rate':2.25,'burst':3}}", true},
        {"q", "Tally.RateLimit", "{'group':{'rate':3}}", "{'group':{'rate':3,'burst':3}}", true},
        {"q", "Tally.RateLimit", "{'queue':{'rate':0.001,'burst':7}}", "{'queue':{'rate':0.001,'burst':7}}", true},
        {"q", "Tally.RateLimit", "{'queue':{'rate':400000,'burst':7}}", "{'queue':{'rate':333333,'burst':7}}", true},
        {"q", "Tally.RateLimit", "", NULL, false},
    };
    struct world *world = sqs_open(state);
    create(world, "{'QueueName':'f.fifo','Attributes':{'FifoQueue':'true'}}");
    char text[300], expected[200];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        size_t size = (size_t)snprintf(text, sizeof(text), "'%s':'", rows[i].name);
        for (const char *at = rows[i].value; *at != '\0'; at++)
            size += (size_t)snprintf(text + size, sizeof(text) - size, *at == '\'' ? "\\'" : "%c", *at);
        snprintf(text + size, sizeof(text) - size, "'");
        EXPECT(world, sqs_set(world, rows[i].queue, text).error == NULL);
        snprintf(expected, sizeof(expected), "%s", rows[i].shown == NULL ? "nothing" : rows[i].shown);
        for (char *at = expected; *at != '\0'; at++)
            *at = *at == '\'' ? '"' : *at;
        const char *shown = sqs_attribute(world, rows[i].queue, rows[i].name, rows[i].name);
        const char *among = sqs_attribute(world, rows[i].queue, "All", rows[i].name);
        shown = shown == NULL ? "nothing" : shown;
        if (strcmp(shown, expected) != 0 || (among != NULL) != rows[i].is_among_all ||
            (among != NULL && strcmp(among, expected) != 0))
            fail_msg("%s: '%s' is shown as %s, and among all as %s", rows[i].name, rows[i].value, shown,
                     among == NULL ? "nothing" : among);
    }
    sqs_close(world);
}

static void Tallys_attributes_beyond_their_bounds_change_nothing(void **state)
{
    static const struct {
        const char *queue;
        const char *name;
        const char *value;
        const char *text; /* in the message */
    } rows[] = {
        {"f.fifo", "Tally.StrictOrder", "yes", ""},
        {"f.fifo", "Tally.StrictOrder", "", ""},
        {"f.fifo", "Tally.OnGroupFailure", "cancel", "Must be skip, hold or cancel-rest."},
        {"f.fifo", "Tally.OnGroupFailure", "", "Must be skip, hold or cancel-rest."},
        {"f.fifo", "Tally.StaleReceipts", "accept", "must be refuse."},
        {"f.fifo", "Tally.StaleReceipts", "x", "Must be accept or refuse."},
        {"q", "Tally.StaleReceipts", "x", "Must be accept or refuse."},
        {"q", "Tally.DeliveryMode", "exactly-once", "Must be at-least-once or at-most-once."},
        {"q", "Tally.GroupConcurrency", "120001", "Must be an integer from 0 (no limit) to 120000."},
        {"q", "Tally.GroupConcurrency", "-1", "Must be an integer from 0 (no limit) to 120000."},
        {"q", "Tally.GroupConcurrency", "", "Must be an integer from 0 (no limit) to 120000."},
        {"q", "Tally.DeduplicationWindow", "315360001", "to 315360000 seconds, or -1 (for ever)."},
        {"q", "Tally.DeduplicationWindow", "-2", "to 315360000 seconds, or -1 (for ever)."},
        {"q", "Tally.DeduplicationWindow", "", "to 315360000 seconds, or -1 (for ever)."},
        {"q", "Tally.Backoff", "x", "or empty."},
        {"q", "Tally.Backoff", "[]", "or empty."},
        {"q", "Tally.Backoff", "{'min':-0.1}", "or empty."},
        {"q", "Tally.Backoff", "{'min':901}", "or empty."},
        {"q", "Tally.Backoff", "{'max':0.9}", "or empty."},
        {"q", "Tally.Backoff", "{'max':43200.1}", "or empty."},
        {"q", "Tally.Backoff", "{'min':43200.1,'max':43200.2}", "or empty."},
        {"q", "Tally.Backoff", "{'factor':0.9}", "or empty."},
        {"q", "Tally.Backoff", "{'factor':100.1}", "or empty."},
        {"q", "Tally.Backoff", "{'jitter':1.1}", "or empty."},
        {"q", "Tally.Backoff", "{'jitter':-0.1}", "or empty."},
        {"q", "Tally.Backoff", "{'jitter':true}", "or empty."},
        {"q", "Tally.Backoff", "{'jitter':'0'}", "or empty."},
        {"q", "Tally.Backoff", "{'odd':1}", "or empty."},
        {"q", "Tally.Backoff", "{'min':1,'min':1,'min':1,'min':1,'min':1}", "or empty."},
        {"q", "Tally.RateLimit", "x", "either or both"},
        {"q", "Tally.RateLimit", "{}", "either or both"},
        {"q", "Tally.RateLimit", "{'queue':{}}", "either or both"},
        {"q", "Tally.RateLimit", "{'queue':7}", "either or both"},
        {"q", "Tally.RateLimit", "{'queue':{'burst':1}}", "either or both"},
        {"q", "Tally.RateLimit", "{'queue':{'rate':1},'odd':{'rate':1}}", "either or both"},
        {"q", "Tally.RateLimit", "{'queue':{'rate':1},'queue':{'rate':1}}", "either or both"},
        {"q", "Tally.RateLimit", "{'queue':{'rate':1},'group':{'rate':0}}", "either or both"},
        {"q", "Tally.RateLimit", "{'group':{'rate':0.0009}}", "either or both"},
        {"q", "Tally.RateLimit", "{'group':{'rate':1000000.5}}", "either or both"},
        {"q", "Tally.RateLimit", "{'group':{'rate':1,'burst':0}}", "either or both"},
        {"q", "Tally.RateLimit", "{'group':{'rate':1,'burst':1.5}}", "either or both"},
        {"q", "Tally.RateLimit", "{'group':{'rate':1,'burst':1000001}}", "either or both"},
        {"q", "Tally.RateLimit", "{'group':{'rate':1,'burst':1,'odd':1}}", "either or both"},
    };
    struct world *world = sqs_open(state);
    create(world, "{'QueueName':'f.fifo','Attributes':{'FifoQueue':'true'}}");
    char text[300];
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        size_t size = (size_t)snprintf(text, sizeof(text), "'DelaySeconds':'7','%s':'", rows[i].name);
        for (const char *at = rows[i].value; *at != '\0'; at++)
            size += (size_t)snprintf(text + size, sizeof(text) - size, *at == '\'' ? "\\'" : "%c", *at);
        snprintf(text + size, sizeof(text) - size, "'");
        struct answer answer = sqs_set(world, rows[i].queue, text);
        if (!answer_fails(answer, "InvalidAttributeValue") ||
            strstr(answer_text(answer, "message"), rows[i].text) == NULL)
            fail_msg("%s: '%s': %s (%s)", rows[i].name, rows[i].value, answer.error == NULL ? "OK" : answer.error,
                     answer_text(answer, "message"));
    }
    sqs_expect_attribute(world, "q", "DelaySeconds", "0");
    sqs_expect_attribute(world, "f.fifo", "DelaySeconds", "0");
    static const char *const standard[] = {"'Tally.StrictOrder':'true'", "'Tally.OnGroupFailure':'hold'"};
    for (size_t i = 0; i < ARRAY_LENGTH(standard); i++)
        EXPECT(world, answer_fails(sqs_set(world, "q", standard[i]), "InvalidAttributeName"));
    EXPECT(world, answer_fails(sqs_set(world, "f.fifo", "'Tally.GroupConcurrency':'1'"), "InvalidAttributeName"));
    sqs_close(world);
}

/* AWS's 60 seconds: of the names that were deleted, the last thousand are remembered. */
static void the_oldest_of_a_thousand_deleted_names_is_forgotten(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1, .enforce_intervals = true});
    for (unsigned i = 0; i <= 1000; i++) {
        char name[20];
        snprintf(name, sizeof(name), "n%u", i);
        EXPECT(world, world_call(world, "CreateQueue", "{'QueueName':'%s'}", name).error == NULL);
        EXPECT(world, world_call(world, "DeleteQueue", "{'QueueUrl':'%s'}", name).error == NULL);
        if (i == 999)
            sqs_expect_error(world, "CreateQueue", "{'QueueName':'n0'}", "QueueDeletedRecently", "60 seconds");
    }
    EXPECT(world, world_call(world, "CreateQueue", "{'QueueName':'n0'}").error == NULL);
    static const char *const known[] = {"n1", "n2", "n500", "n999", "n1000"};
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        struct answer answer = world_call(world, "CreateQueue", "{'QueueName':'%s'}", known[i]);
        EXPECT(world, answer_fails(answer, "QueueDeletedRecently"));
    }
    world_pass_time(world, 60000);
    EXPECT(world, world_call(world, "CreateQueue", "{'QueueName':'n1'}").error == NULL);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_of_a_thousand_deleted_names_is_forgotten),
        cmocka_unit_test(Q16_a_queue_that_is_there_is_created_again_by_what_it_has),
        cmocka_unit_test(Q17_names_and_types_of_queues),
        cmocka_unit_test(Q18_each_number_is_taken_at_its_bounds_and_refused_beyond),
        cmocka_unit_test(Q18_the_longest_times_are_in_force),
        cmocka_unit_test(Q18_the_list_of_attributes_is_complete),
        cmocka_unit_test(a_list_of_names_has_a_bound),
        cmocka_unit_test(Q19_an_empty_text_takes_an_attribute_away),
        cmocka_unit_test(Q19_one_kind_of_encryption_at_a_time),
        cmocka_unit_test(Q19_what_is_no_policy_is_refused),
        cmocka_unit_test(Q20_a_redrive_policy_that_can_not_hold_is_refused),
        cmocka_unit_test(Q50_a_dead_letter_queue_says_whose_messages_it_takes),
        cmocka_unit_test(sources_of_a_dead_letter_queue_are_listed_in_pages),
        cmocka_unit_test(Q21_a_queue_that_is_created_again_is_another_one),
        cmocka_unit_test(Q22_a_purge_takes_everything_and_keeps_the_queue),
        cmocka_unit_test(Q23_queues_are_listed_once_in_pages),
        cmocka_unit_test(a_queue_url_is_read_by_its_path),
        cmocka_unit_test(Q24_tags_merge_and_go),
        cmocka_unit_test(tags_have_their_limits),
        cmocka_unit_test(Q25_permissions_are_statements_of_the_policy),
        cmocka_unit_test(Q25_permissions_that_can_not_be_given_are_refused),
        SCENARIO(Q57_tags_and_attributes_outlive_the_server),
        cmocka_unit_test(Tallys_attributes_are_shown_as_they_are_in_force),
        cmocka_unit_test(Tallys_attributes_beyond_their_bounds_change_nothing),
    };
    return cmocka_run_group_tests_name("api: queues", tests, NULL, NULL);
}
