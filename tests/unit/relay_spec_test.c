#include "relay/spec.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <yyjson.h>

#define POSTGRES "{'Type':'postgres','Connection':'postgres://db'}"
#define QUEUE "{'Type':'queue'}"
#define HERE "{'Type':'queue','QueueUrl':'here'}"

/* JSON with ' for ". */
static yyjson_doc *parse(const char *text)
{
    char json[600];
    assert_true(strlen(text) < sizeof json);
    strcpy(json, text);
    for (char *at = json; *at != '\0'; at++)
        if (*at == '\'')
            *at = '"';
    yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
    assert_non_null(doc);
    return doc;
}

static bool read_spec(struct relay_spec *spec, const char *source, const char *sink, const char *order,
                      struct fault *fault)
{
    yyjson_doc *source_doc = parse(source), *sink_doc = parse(sink);
    relay_spec_init(spec);
    bool is_read = relay_spec_read(spec, yyjson_doc_get_root(source_doc), yyjson_doc_get_root(sink_doc), order, fault);
    yyjson_doc_free(source_doc);
    yyjson_doc_free(sink_doc);
    return is_read;
}

static void assert_refused(const char *source, const char *sink, const char *order, const char *text)
{
    struct relay_spec spec;
    struct fault fault = {.text = ""};
    bool is_read = read_spec(&spec, source, sink, order, &fault);
    if (is_read || strstr(fault.text, text) == NULL)
        fail_msg("%s to %s gave \"%s\", not \"%s\"", source, sink, is_read ? "no error" : fault.text, text);
    relay_spec_deinit(&spec);
}

static void what_is_not_given_has_its_default(void **state)
{
    struct relay_spec spec;
    struct fault fault;
    (void)state;
    assert_true(read_spec(&spec, POSTGRES, QUEUE, NULL, &fault));
    assert_int_equal(spec.source, SOURCE_POSTGRES);
    assert_int_equal(spec.sink, SINK_QUEUE);
    assert_string_equal(spec.connection_owned, "postgres://db");
    assert_null(spec.table_owned);
    assert_null(spec.queue_owned);
    assert_false(spec.is_strict || spec.is_pooled || spec.blocks_group || spec.is_at_most_once);
    assert_int_equal(spec.doubts, DOUBTS_BY_QUEUE);
    assert_int_equal(spec.lease_ms, 3000);
    assert_int_equal(spec.replica_count, 0);
    relay_spec_deinit(&spec);
}

static void each_member_arrives_where_it_belongs(void **state)
{
    struct relay_spec spec;
    struct fault fault;
    (void)state;
    assert_true(
        read_spec(&spec,
                  "{'Type':'postgres','Connection':'c','Table':'box','Pooler':'transaction','LeaseSeconds':1.5,'"
                  "PublishAfterReplicas':0}",
                  "{'Type':'sqs','QueueUrl':'https://sqs.example/1/q','Region':'eu-west-1','Doubts':'park',"
                  "'Refused':'block','Credentials':{'AccessKeyId':'a','SecretAccessKey':'s','SessionToken':'t'}}",
                  "strict", &fault));
    assert_string_equal(spec.table_owned, "box");
    assert_true(spec.is_pooled && spec.doubts == DOUBTS_PARK && spec.blocks_group && spec.is_strict);
    assert_int_equal(spec.lease_ms, 1500);
    assert_string_equal(spec.queue_owned, "https://sqs.example/1/q");
    assert_string_equal(spec.region_owned, "eu-west-1");
    assert_string_equal(spec.access_key_id_owned, "a");
    assert_string_equal(spec.secret_access_key_owned, "s");
    assert_string_equal(spec.session_token_owned, "t");
    relay_spec_deinit(&spec);
    assert_true(read_spec(&spec, "{'Type':'queue','QueueUrl':'done'}",
                          "{'Type':'http','Url':'http://h/x','Secret':'sixteen-bytes-ok','Mode':'at-most-once'}",
                          "group", &fault));
    assert_string_equal(spec.source_queue_owned, "done");
    assert_string_equal(spec.url_owned, "http://h/x");
    assert_string_equal(spec.secret_owned, "sixteen-bytes-ok");
    assert_true(spec.is_at_most_once);
    relay_spec_deinit(&spec);
    assert_true(read_spec(&spec,
                          "{'Type':'sqs','QueueUrl':'https://sqs.example/1/q','Region':'eu-west-1',"
                          "'Credentials':{'AccessKeyId':'a','SecretAccessKey':'s'}}",
                          "{'Type':'queue','QueueUrl':'here'}", NULL, &fault));
    assert_int_equal(spec.source, SOURCE_SQS);
    assert_string_equal(spec.source_queue_owned, "https://sqs.example/1/q");
    assert_string_equal(spec.queue_owned, "here");
    assert_string_equal(spec.region_owned, "eu-west-1");
    assert_string_equal(spec.access_key_id_owned, "a");
    assert_int_equal(spec.lease_ms, 30000);
    relay_spec_deinit(&spec);
}

static void replicas_are_counted_where_there_can_be_some(void **state)
{
    struct relay_spec spec;
    struct fault fault;
    (void)state;
    assert_true(read_spec(&spec, "{'Type':'postgres','Connection':'c','PublishAfterReplicas':2}", QUEUE, NULL, &fault));
    assert_int_equal(spec.replica_count, 2);
    relay_spec_deinit(&spec);
    static const char *const wrong[] = {"-1", "101", "1.5", "'1'", "true"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        char source[100];
        snprintf(source, sizeof source, "{'Type':'postgres','Connection':'c','PublishAfterReplicas':%s}", wrong[i]);
        assert_refused(source, QUEUE, NULL, "Source.PublishAfterReplicas must be a whole number from 0 to 100");
    }
    assert_refused("{'Type':'postgres','Connection':'c','Pooler':'transaction','PublishAfterReplicas':1}", QUEUE, NULL,
                   "with PublishAfterReplicas connect to PostgreSQL itself");
    assert_refused("{'Type':'sqlite','Connection':'c','PublishAfterReplicas':1}", QUEUE, NULL,
                   "Source of type sqlite has no member PublishAfterReplicas");
    assert_refused("{'Type':'queue','QueueUrl':'q','PublishAfterReplicas':1}", QUEUE, NULL,
                   "Source of type queue has no member PublishAfterReplicas");
}

static void a_null_is_as_good_as_nothing(void **state)
{
    struct relay_spec spec;
    struct fault fault;
    (void)state;
    assert_true(read_spec(&spec, "{'Type':'sqlite','Connection':'a.db','Table':null}", QUEUE, NULL, &fault));
    assert_null(spec.table_owned);
    relay_spec_deinit(&spec);
    assert_refused("{'Type':'sqlite','Connection':null}", QUEUE, NULL, "needs the member Connection");
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    assert_refused("7", QUEUE, NULL, "Source is missing");
    assert_refused("{'Type':'oracle'}", QUEUE, NULL,
                   "Source.Type must be \"postgres\", \"sqlite\", \"mysql\", \"queue\" or \"sqs\", not oracle");
    assert_refused("{'Type':'mysql','Connection':'host=db'}", QUEUE, NULL,
                   "Source.Connection is no URL that begins with mysql://");
    assert_refused("{'Type':'mysql','Connection':'mysql://db/shop','Pooler':'session'}", QUEUE, NULL,
                   "it may have Type, Connection, Table, LeaseSeconds");
    assert_refused("{'Type':'postgres'}", QUEUE, NULL, "Source of type postgres needs the member Connection");
    assert_refused("{'Type':'postgres','Connection':''}", QUEUE, NULL, "Source.Connection must be a text");
    assert_refused("{'Type':'postgres','Connection':'c','Tabel':'t'}", QUEUE, NULL,
                   "no member Tabel; it may have Type, Connection, Table, Pooler, PublishAfterReplicas, LeaseSeconds");
    assert_refused("{'Type':'sqlite','Connection':'c','Pooler':'session'}", QUEUE, NULL, "no member Pooler");
    assert_refused("{'Type':'postgres','Connection':'c','Table':'a;b'}", QUEUE, NULL, "not a;b");
    assert_refused("{'Type':'postgres','Connection':'c','LeaseSeconds':61}", QUEUE, NULL, "from 1 to 60");
    assert_refused(POSTGRES, "{'Type':'http','Url':'ftp://x'}", NULL, "begins with http:// or https://, not ftp://x");
    assert_refused(POSTGRES, "{'Type':'http','Url':'http://x','Mode':'once'}", NULL,
                   "Sink.Mode must be \"at-least-once\" or \"at-most-once\"");
    assert_refused(POSTGRES, "{'Type':'http','Url':'http://x','Mode':'at-most-once','Refused':'block'}", NULL,
                   "it must be \"park\"");
    assert_refused(POSTGRES, "{'Type':'sqs','QueueUrl':'q'}", NULL, "the whole URL of the queue");
    assert_refused(POSTGRES, "{'Type':'sqs','QueueUrl':'http://q','Credentials':{'AccessKeyId':'a'}}", NULL,
                   "Sink.Credentials needs the member SecretAccessKey");
    assert_refused(POSTGRES, QUEUE, "none", "Order must be \"group\" or \"strict\", not none");
    assert_refused("{'Type':'queue','QueueUrl':'a'}", QUEUE, NULL, "needs the member QueueUrl");
    assert_refused("{'Type':'queue','QueueUrl':'a'}", "{'Type':'http','Url':'http://x'}", "strict", "strict");
    assert_refused("{'Type':'sqs','QueueUrl':'q'}", HERE, NULL, "Source.QueueUrl must be the whole URL of the queue");
    assert_refused("{'Type':'sqs','QueueUrl':'http://me:secret@h'}", HERE, NULL, "http:// or https://, not h");
    assert_refused("{'Type':'sqs','QueueUrl':'http://h/1/q'}", QUEUE, NULL, "needs the member QueueUrl");
    assert_refused("{'Type':'sqs','QueueUrl':'http://h/1/q'}", HERE, "strict", "strict");
    assert_refused("{'Type':'sqs','QueueUrl':'http://h/1/q','LeaseSeconds':4}", HERE, NULL, "5 to 60");
    assert_refused("{'Type':'sqs','QueueUrl':'http://h/1/q','Credentials':7}", HERE, NULL,
                   "Source.Credentials must be an object");
    assert_refused("{'Type':'sqs','QueueUrl':'http://h/1/q'}", "{'Type':'http','Url':'http://x'}", NULL,
                   "needs a sink of type queue");
}

static void a_copy_shares_nothing(void **state)
{
    struct relay_spec spec, copy;
    struct fault fault;
    (void)state;
    assert_true(read_spec(&spec, POSTGRES, "{'Type':'queue','QueueUrl':'q'}", "strict", &fault));
    relay_spec_copy(&copy, &spec);
    relay_spec_deinit(&spec);
    assert_string_equal(copy.connection_owned, "postgres://db");
    assert_string_equal(copy.queue_owned, "q");
    assert_true(copy.is_strict);
    relay_spec_deinit(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_given_has_its_default),
        cmocka_unit_test(each_member_arrives_where_it_belongs),
        cmocka_unit_test(replicas_are_counted_where_there_can_be_some),
        cmocka_unit_test(a_null_is_as_good_as_nothing),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_copy_shares_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
