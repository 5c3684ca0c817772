/* AWS Query requests as the JSON text that the same request would be. Source: reference, SQS, 4.2. */
#include "api/query.h"

#include "base/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Expects the fields of `body` to become `expected`, in which ' stands for ". */
static void expect_on(const char *action, const char *queue_url, const char *body, const char *expected)
{
    struct arena arena;
    struct failure failure;
    struct form form;
    struct buffer out;
    char text[2000];
    snprintf(text, sizeof(text), "%s", expected);
    for (char *at = text; *at != '\0'; at++)
        if (*at == '\'')
            *at = '"';
    arena_init(&arena);
    buffer_init(&out);
    assert_int_equal(form_parse(BYTES(""), bytes_from_string(body), &arena, &failure, &form), OK);
    query_to_json(&form, bytes_from_string(action), bytes_from_string(queue_url), &arena, &out);
    if (!bytes_equal(buffer_bytes(&out), bytes_from_string(text)))
        fail_msg("%s: %s\n gave %.*s\n  not %s", action, body, BYTES_FORMAT(buffer_bytes(&out)), text);
    buffer_deinit(&out);
    arena_deinit(&arena);
}

static void expect(const char *body, const char *expected)
{
    expect_on("SendMessage", "", body, expected);
}

static void plain_fields_are_members(void **state)
{
    (void)state;
    expect("", "{}");
    expect("QueueUrl=http%3A%2F%2Fh%2F0%2Fq&MessageBody=a+%22b%22&Unknown=",
           "{'QueueUrl':'http://h/0/q','MessageBody':'a \\\"b\\\"','Unknown':''}");
}

static void numbers_are_numbers_and_what_is_none_stays_text(void **state)
{
    (void)state;
    expect("DelaySeconds=5&MaxNumberOfMessages=10&WaitTimeSeconds=0&VisibilityTimeout=-1",
           "{'DelaySeconds':5,'MaxNumberOfMessages':10,'WaitTimeSeconds':0,'VisibilityTimeout':-1}");
    expect("MaxResults=9223372036854775807&MaxNumberOfMessagesPerSecond=500",
           "{'MaxResults':9223372036854775807,'MaxNumberOfMessagesPerSecond':500}");
    expect("DelaySeconds=&MaxResults=1.5&WaitTimeSeconds=x&VisibilityTimeout=007",
           "{'DelaySeconds':'','MaxResults':'1.5','WaitTimeSeconds':'x','VisibilityTimeout':'007'}");
    expect("MaxResults=-&DelaySeconds=%2B1&WaitTimeSeconds=9223372036854775808",
           "{'MaxResults':'-','DelaySeconds':'+1','WaitTimeSeconds':'9223372036854775808'}");
    expect("MessageBody=5", "{'MessageBody':'5'}");
}

static void maps_are_pairs(void **state)
{
    (void)state;
    static const struct {
        const char *field, *member;
    } rows[] = {
        {"Attribute", "Attributes"},
        {"MessageAttribute", "MessageAttributes"},
        {"MessageSystemAttribute", "MessageSystemAttributes"},
        {"Tag", "Tags"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const char *f = rows[i].field, *m = rows[i].member;
        char body[400], json[200];
        snprintf(json, sizeof(json), "{'%s':{'a':'1','b':'2'}}", m);
        snprintf(body, sizeof(body), "%s.1.Name=a&%s.1.Value=1&%s.2.Name=b&%s.2.Value=2", f, f, f, f);
        expect(body, json);
        snprintf(body, sizeof(body), "%s.2.Key=b&%s.2.Value=2&%s.1.Value=1&%s.1.Key=a", f, f, f, f);
        expect(body, json);
        snprintf(json, sizeof(json), "{'%s':{'a':''}}", m); /* a name without a value */
        snprintf(body, sizeof(body), "%s.7.Name=a", f);
        expect(body, json);
        snprintf(json, sizeof(json), "{'%s':{'':'1'}}", m); /* and a value without a name */
        snprintf(body, sizeof(body), "%s.1.Value=1", f);
        expect(body, json);
    }
    /* Clients that want one attribute leave the number out. */
    expect("Attribute.Name=VisibilityTimeout&Attribute.Value=30", "{'Attributes':{'VisibilityTimeout':'30'}}");
    expect("Attribute.Name=a&Attribute.Value=1&Attribute.1.Name=b&Attribute.1.Value=2",
           "{'Attributes':{'a':'1','b':'2'}}");
    /* The values of attributes stay texts, also those that are numbers elsewhere. */
    expect("Attribute.1.Name=DelaySeconds&Attribute.1.Value=5", "{'Attributes':{'DelaySeconds':'5'}}");
}

static void the_tags_of_a_new_queue_have_a_small_name(void **state)
{
    (void)state;
    expect_on("CreateQueue", "", "QueueName=q&Tag.1.Key=a&Tag.1.Value=b", "{'QueueName':'q','tags':{'a':'b'}}");
    expect_on("TagQueue", "", "Tag.1.Key=a&Tag.1.Value=b", "{'Tags':{'a':'b'}}");
}

static void values_of_message_attributes_are_objects(void **state)
{
    (void)state;
    expect("MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType=Number&MessageAttribute.1.Value.StringValue=3"
           "&MessageAttribute.2.Name=b&MessageAttribute.2.Value.BinaryValue=AQID&MessageAttribute.2.Value.DataType="
           "Binary",
           "{'MessageAttributes':{'n':{'DataType':'Number','StringValue':'3'},'b':{'BinaryValue':'AQID','DataType':"
           "'Binary'}}}");
    expect("MessageAttribute.1.Name=l&MessageAttribute.1.Value.StringListValue.1=x&MessageAttribute.1.Value."
           "BinaryListValue.1=eA==",
           "{'MessageAttributes':{'l':{'StringListValues':['x'],'BinaryListValues':['eA==']}}}");
}

static void lists_are_numbered_fields(void **state)
{
    (void)state;
    static const struct {
        const char *field, *member;
    } rows[] = {
        {"AttributeName", "AttributeNames"},
        {"MessageAttributeName", "MessageAttributeNames"},
        {"MessageSystemAttributeName", "MessageSystemAttributeNames"},
        {"TagKey", "TagKeys"},
        {"AWSAccountId", "AWSAccountIds"},
        {"ActionName", "Actions"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const char *f = rows[i].field, *m = rows[i].member;
        char body[300], json[200];
        snprintf(json, sizeof(json), "{'%s':['a','b']}", m);
        snprintf(body, sizeof(body), "%s.1=a&%s.2=b", f, f);
        expect(body, json);
        snprintf(body, sizeof(body), "%s.10=b&%s.9=a", f, f); /* by number, not as they come nor as text */
        expect(body, json);
        snprintf(json, sizeof(json), "{'%s':['a']}", m);
        snprintf(body, sizeof(body), "%s=a", f); /* kombu's form of a list of one */
        expect(body, json);
        snprintf(json, sizeof(json), "{'%s':[]}", m);
        snprintf(body, sizeof(body), "%s.x=a", f);
        expect(body, json);
    }
}

static void entries_are_numbered_objects(void **state)
{
    (void)state;
    static const char *const fields[] = {"SendMessageBatchRequestEntry", "DeleteMessageBatchRequestEntry",
                                         "ChangeMessageVisibilityBatchRequestEntry"};
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        char body[300];
        snprintf(body, sizeof(body), "%s.2.Id=b&%s.1.Id=a&%s.1.VisibilityTimeout=7&%s.3=x", fields[i], fields[i],
                 fields[i], fields[i]);
        expect(body, "{'Entries':[{'Id':'a','VisibilityTimeout':7},{'Id':'b'}]}");
    }
    expect("SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageAttribute.1.Name=n&"
           "SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.StringValue=v&SendMessageBatchRequestEntry.1."
           "MessageSystemAttribute.1.Name=AWSTraceHeader&SendMessageBatchRequestEntry.1.MessageSystemAttribute.1.Value."
           "DataType=String",
           "{'Entries':[{'Id':'a','MessageAttributes':{'n':{'StringValue':'v'}},'MessageSystemAttributes':{"
           "'AWSTraceHeader':{'DataType':'String'}}}]}");
}

static void empty_lists_that_sdks_send_by_the_name_of_the_member_are_absent(void **state)
{
    (void)state;
    static const char *const members[] = {"Attributes",
                                          "MessageAttributes",
                                          "MessageSystemAttributes",
                                          "Tags",
                                          "AttributeNames",
                                          "MessageAttributeNames",
                                          "TagKeys",
                                          "AWSAccountIds",
                                          "Actions",
                                          "Entries",
                                          "MessageSystemAttributeNames"};
    for (size_t i = 0; i < ARRAY_LENGTH(members); i++) {
        char body[100];
        snprintf(body, sizeof(body), "%s=&a=b", members[i]);
        expect(body, "{'a':'b'}");
    }
}

static void of_a_field_that_stands_twice_the_first_counts(void **state)
{
    (void)state;
    expect("a=1&a=2", "{'a':'1'}");
    expect("AttributeName.1=a&AttributeName.1=b", "{'AttributeNames':['a']}");
    expect("Attribute.1.Name=a&Attribute.1.Value=1&Attribute.1.Value=2", "{'Attributes':{'a':'1'}}");
}

static void fields_of_a_queue_path_stand_behind_those_of_the_request(void **state)
{
    (void)state;
    expect_on("SendMessage", "/000000000000/q", "MessageBody=a", "{'MessageBody':'a','QueueUrl':'/000000000000/q'}");
    expect_on("SendMessage", "/000000000000/q", "QueueUrl=other", "{'QueueUrl':'other'}");
    expect_on("SendMessage", "/000000000000/q", "QueueUrl=", "{'QueueUrl':''}");
}

/* Whatever the names of fields are, the text is an object; what is nested deeper than SQS nests means nothing. */
static void odd_names_do_no_harm(void **state)
{
    (void)state;
    expect(".=a&..=b", "{'':'a'}");
    expect("a.=b", "{'a':'b'}"); /* a dot at the end names nothing more */
    expect("a.b.c=d", "{}");
    expect("Attribute=x", "{'Attributes':{}}");
    expect("Attribute.1=x", "{'Attributes':{'':''}}");
    expect("Attribute.18446744073709551616.Name=x&Attribute.-1.Name=y&Attribute.01.Name=z", "{'Attributes':{}}");
    expect("a.b.c.d.e.f.g.h.i=1&b=2", "{'b':'2'}");
    expect("SendMessageBatchRequestEntry.1.SendMessageBatchRequestEntry.1.SendMessageBatchRequestEntry.1.a=1",
           "{'Entries':[{'Entries':[{'Entries':[{'a':'1'}]}]}]}");
    expect("%22=%0A%00", "{'\\\"':'\\n\\u0000'}");
}

static void names_longer_than_any_that_means_something_are_passed_over(void **state)
{
    (void)state;
    char name[130], body[300], json[300];
    memset(name, 'a', sizeof(name));
    name[128] = '\0';
    snprintf(body, sizeof(body), "%s=1&b=2", name);
    snprintf(json, sizeof(json), "{'%s':'1','b':'2'}", name);
    expect(body, json);
    snprintf(body, sizeof(body), "%sa=1&b=2", name);
    expect(body, "{'b':'2'}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_fields_are_members),
        cmocka_unit_test(numbers_are_numbers_and_what_is_none_stays_text),
        cmocka_unit_test(maps_are_pairs),
        cmocka_unit_test(the_tags_of_a_new_queue_have_a_small_name),
        cmocka_unit_test(values_of_message_attributes_are_objects),
        cmocka_unit_test(lists_are_numbered_fields),
        cmocka_unit_test(entries_are_numbered_objects),
        cmocka_unit_test(empty_lists_that_sdks_send_by_the_name_of_the_member_are_absent),
        cmocka_unit_test(of_a_field_that_stands_twice_the_first_counts),
        cmocka_unit_test(fields_of_a_queue_path_stand_behind_those_of_the_request),
        cmocka_unit_test(odd_names_do_no_harm),
        cmocka_unit_test(names_longer_than_any_that_means_something_are_passed_over),
    };
    return cmocka_run_group_tests_name("api query", tests, NULL, NULL);
}
