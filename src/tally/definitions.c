#include "tally/definitions.h"

#include "base/assert.h"
#include "tally/pages.h"
#include "tally/queue_arn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- kinds -------------------------------------------------------------------------------------------------------- */

static const struct definition_member queue_members[] = {{"Attributes", NULL}, {"tags", NULL}};
static const struct definition_member type_order_members[] = {
    {"Types", NULL}, {"Require", "false"}, {"RetentionSeconds", NULL}};
static const struct definition_member schedule_members[] = {
    {"Cron", NULL},           {"TimeZone", "\"UTC\""},     {"QueueUrl", NULL},     {"MessageBody", NULL},
    {"MessageGroupId", NULL}, {"MessageAttributes", NULL}, {"CatchUp", "\"one\""},
};
static const struct definition_member pool_members[] = {{"ResultQueueUrl", NULL},
                                                        {"Attributes", NULL},
                                                        {"Rules", NULL},
                                                        {"Size", NULL},
                                                        {"Teams", NULL},
                                                        {"Pick", NULL},
                                                        {"Matcher", NULL},
                                                        {"WindowMilliseconds", NULL},
                                                        {"TicketTtlSeconds", NULL},
                                                        {"OnExpiryQueueUrl", NULL},
                                                        {"ConfirmSeconds", NULL},
                                                        {"Verify", NULL},
                                                        {"ResultsMax", NULL},
                                                        {"RetentionSeconds", NULL}};
static const struct definition_member relay_members[] = {{"Source", NULL}, {"Sink", NULL}, {"Order", "\"group\""}};

#define MEMBERS(rows) .members = (rows), .member_count = ARRAY_LENGTH(rows)

const struct definition_kind definition_kinds[] = {
    {"queues", "queue", "QueueName", "AmazonSQS.ListQueues", "QueueUrls", NULL, "AmazonSQS.CreateQueue",
     "AmazonSQS.SetQueueAttributes", true, "Tally.PauseQueue", "Tally.ResumeQueue", MEMBERS(queue_members)},
    {"typeOrders", "type order", "Name", "Tally.ListTypeOrders", "TypeOrders", NULL, "Tally.PutTypeOrder",
     "Tally.PutTypeOrder", false, NULL, NULL, MEMBERS(type_order_members)},
    {"schedules", "schedule", "Name", "Tally.ListSchedules", "Schedules", "Tally.DescribeSchedule", "Tally.PutSchedule",
     "Tally.PutSchedule", false, "Tally.PauseSchedule", "Tally.ResumeSchedule", MEMBERS(schedule_members)},
    {"pools", "pool", "PoolName", "Tally.ListPools", "Pools", "Tally.DescribePool", "Tally.CreatePool",
     "Tally.UpdatePool", true, NULL, NULL, MEMBERS(pool_members)},
    {"relays", "relay", "RelayName", "Tally.ListRelays", "Relays", "Tally.DescribeRelay", "Tally.CreateRelay", NULL,
     false, "Tally.PauseRelay", "Tally.ResumeRelay", MEMBERS(relay_members)},
};
const size_t definition_kind_count = ARRAY_LENGTH(definition_kinds);

static bool is_queue_kind(const struct definition_kind *kind)
{
    return kind == &definition_kinds[0];
}

bool definition_is_missing(const struct invocation *invocation)
{
    const struct tally_error *error = tally_client_error(invocation->client);
    const struct bytes code = bytes_from_string(error->code);
    return error->status == TALLY_REFUSED &&
           (bytes_ends_with(code, BYTES("DoesNotExist")) || bytes_ends_with(code, BYTES("NonExistentQueue")));
}

/* --- values ------------------------------------------------------------------------------------------------------- */

/* Puts the name of a queue in the place of its URL or ARN. */
static yyjson_mut_val *name_queue(yyjson_mut_doc *doc, yyjson_val *value)
{
    return yyjson_is_str(value) ? yyjson_mut_strcpy(doc, queue_name_in(yyjson_get_str(value)))
                                : yyjson_val_mut_copy(doc, value);
}

/* A copy of an object whose member `name` is a queue, or a list of them. */
static yyjson_mut_val *copy_naming(yyjson_mut_doc *doc, yyjson_val *object, const char *name)
{
    size_t i, max, k, count;
    yyjson_val *key, *value, *item;
    yyjson_mut_val *copy = yyjson_mut_obj(doc);
    yyjson_obj_foreach(object, i, max, key, value)
    {
        yyjson_mut_val *made = NULL;
        if (!yyjson_equals_str(key, name)) {
            made = yyjson_val_mut_copy(doc, value);
        } else if (yyjson_is_arr(value)) {
            made = yyjson_mut_arr(doc);
            yyjson_arr_foreach(value, k, count, item)
            {
                yyjson_mut_arr_append(made, name_queue(doc, item));
            }
        } else {
            made = name_queue(doc, value);
        }
        yyjson_mut_obj_add(copy, yyjson_val_mut_copy(doc, key), made);
    }
    return copy;
}

/* Tally sends the name of a schedule along; nobody has put it there. */
static yyjson_mut_val *copy_message_attributes(yyjson_mut_doc *doc, yyjson_val *attributes)
{
    yyjson_mut_val *copy = yyjson_val_mut_copy(doc, attributes);
    yyjson_mut_obj_remove_key(copy, "Tally.Schedule");
    return copy;
}

yyjson_mut_val *definition_value(yyjson_mut_doc *doc, const char *member, yyjson_val *value)
{
    const char *type = json_text(value, "Type");
    if (bytes_ends_with(bytes_from_string(member), BYTES("QueueUrl")))
        return name_queue(doc, value);
    if (strcmp(member, "MessageAttributes") == 0 && yyjson_is_obj(value))
        return copy_message_attributes(doc, value);
    if (type != NULL && strcmp(type, "queue") == 0) /* the source or sink of a relay; others have URLs of their own */
        return copy_naming(doc, value, "QueueUrl");
    return yyjson_val_mut_copy(doc, value);
}

/* Attributes are texts. A person may write a number or a boolean. */
static yyjson_mut_val *copy_as_text(yyjson_mut_doc *doc, yyjson_val *value)
{
    char *text = json_write_value(value, NULL);
    yyjson_mut_val *copy = yyjson_mut_strcpy(doc, text);
    free(text);
    return copy;
}

yyjson_mut_val *definition_attribute(yyjson_mut_doc *doc, const char *name, yyjson_val *value)
{
    if (yyjson_is_num(value) || yyjson_is_bool(value))
        return copy_as_text(doc, value);
    const char *text = yyjson_get_str(value);
    yyjson_doc *parsed = text != NULL && *text == '{' ? json_read(text, yyjson_get_len(value)) : NULL;
    yyjson_val *object = parsed == NULL ? value : yyjson_doc_get_root(parsed);
    const char *naming = strcmp(name, "RedriveAllowPolicy") == 0 ? "sourceQueueArns" : "deadLetterTargetArn";
    yyjson_mut_val *copy = yyjson_is_obj(object) ? copy_naming(doc, object, naming) : yyjson_val_mut_copy(doc, object);
    yyjson_doc_free(parsed);
    return copy;
}

/* --- a queue ------------------------------------------------------------------------------------------------------ */

/* What is no part of a definition: what Tally counts, and says itself. */
static bool is_attribute_of_definition(const char *name, yyjson_val *attributes)
{
    static const char *const others[] = {"QueueArn",
                                         "CreatedTimestamp",
                                         "LastModifiedTimestamp",
                                         "ApproximateNumberOfMessages",
                                         "ApproximateNumberOfMessagesNotVisible",
                                         "ApproximateNumberOfMessagesDelayed",
                                         "Tally.OldestMessageAge",
                                         "Tally.Paused"};
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        if (strcmp(name, others[i]) == 0)
            return false;
    /* It follows from a key, and can't be said beside one. */
    return strcmp(name, "SqsManagedSseEnabled") != 0 || yyjson_obj_get(attributes, "KmsMasterKeyId") == NULL;
}

static void add_attributes(yyjson_mut_doc *doc, yyjson_mut_val *definition, yyjson_val *attributes)
{
    size_t i, max;
    yyjson_val *key, *value;
    yyjson_mut_val *map = yyjson_mut_obj_add_obj(doc, definition, "Attributes");
    yyjson_obj_foreach(attributes, i, max, key, value)
    {
        if (is_attribute_of_definition(yyjson_get_str(key), attributes))
            yyjson_mut_obj_add(map, yyjson_val_mut_copy(doc, key),
                               definition_attribute(doc, yyjson_get_str(key), value));
    }
    if (yyjson_equals_str(yyjson_obj_get(attributes, "Tally.Paused"), "true"))
        yyjson_mut_obj_add_bool(doc, definition, "Paused", true);
}

static enum tally_status ask_about_queue(struct invocation *invocation, const char *action, const char *queue,
                                         struct tally_reply *reply)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    yyjson_mut_val *names = json_add_array(&body, body.root, "AttributeNames");
    yyjson_mut_arr_add_str(body.doc_owned, names, "All");
    yyjson_mut_arr_add_str(body.doc_owned, names, "Tally.StrictOrder"); /* of a FIFO queue it is not always shown */
    return json_body_call(&body, invocation->client, action, reply);
}

static int fail_or_miss(const struct invocation *invocation)
{
    return definition_is_missing(invocation) ? EXIT_DONE : invocation_failed(invocation, invocation->client);
}

static int read_queue(struct invocation *invocation, const char *name, yyjson_mut_doc *doc, yyjson_mut_val **definition)
{
    struct tally_reply reply;
    if (ask_about_queue(invocation, "AmazonSQS.GetQueueAttributes", name, &reply) != TALLY_OK)
        return fail_or_miss(invocation);
    yyjson_mut_val *made = yyjson_mut_obj(doc);
    yyjson_mut_obj_add_strcpy(doc, made, "QueueName", name);
    add_attributes(doc, made, yyjson_obj_get(json_root(&reply), "Attributes"));
    tally_reply_deinit(&reply);
    if (ask_about_queue(invocation, "AmazonSQS.ListQueueTags", name, &reply) != TALLY_OK)
        return fail_or_miss(invocation);
    yyjson_val *tags = yyjson_obj_get(json_root(&reply), "Tags");
    if (yyjson_obj_size(tags) > 0)
        yyjson_mut_obj_add_val(doc, made, "tags", yyjson_val_mut_copy(doc, tags));
    tally_reply_deinit(&reply);
    *definition = made;
    return EXIT_DONE;
}

/* --- the others --------------------------------------------------------------------------------------------------- */

static yyjson_mut_val *make_definition(const struct definition_kind *kind, yyjson_val *answer, yyjson_mut_doc *doc)
{
    yyjson_mut_val *made = yyjson_mut_obj(doc);
    yyjson_mut_obj_add_strcpy(doc, made, kind->name, output_text_of(answer, kind->name));
    for (size_t i = 0; i < kind->member_count; i++) {
        yyjson_val *value = yyjson_obj_get(answer, kind->members[i].name);
        if (value != NULL)
            yyjson_mut_obj_add_val(doc, made, kind->members[i].name,
                                   definition_value(doc, kind->members[i].name, value));
    }
    if (kind->pause_action != NULL && json_is_true(answer, "Paused"))
        yyjson_mut_obj_add_bool(doc, made, "Paused", true);
    return made;
}

static int describe(struct invocation *invocation, const struct definition_kind *kind, const char *name,
                    yyjson_mut_doc *doc, yyjson_mut_val **definition)
{
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, kind->name, name);
    if (json_body_call(&body, invocation->client, kind->describe_action, &reply) != TALLY_OK)
        return fail_or_miss(invocation);
    *definition = make_definition(kind, json_root(&reply), doc);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

/* A search in the list for those that nothing describes. */
struct search {
    const struct definition_kind *kind;
    const char *name;
    yyjson_mut_doc *doc;
    yyjson_mut_val *found;
};

static void compare_name(void *context, yyjson_val *item)
{
    struct search *search = context;
    if (strcmp(output_text_of(item, search->kind->name), search->name) == 0)
        search->found = make_definition(search->kind, item, search->doc);
}

static int find_in_list(struct invocation *invocation, struct search *search)
{
    return pages_run(&(struct pages){.invocation = invocation,
                                     .action = search->kind->list_action,
                                     .list = search->kind->list_member,
                                     .take = compare_name,
                                     .context = search});
}

int definition_read(struct invocation *invocation, const struct definition_kind *kind, const char *name,
                    yyjson_mut_doc *doc, yyjson_mut_val **definition)
{
    struct search search = {.kind = kind, .name = name, .doc = doc};
    *definition = NULL;
    if (is_queue_kind(kind))
        return read_queue(invocation, name, doc, definition);
    if (kind->describe_action != NULL)
        return describe(invocation, kind, name, doc, definition);
    const int status = find_in_list(invocation, &search);
    *definition = search.found;
    return status;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

struct name_list {
    const struct definition_kind *kind;
    struct buffer *names;
};

static void add_name(void *context, yyjson_val *item)
{
    const struct name_list *list = context;
    const char *name =
        yyjson_is_str(item) ? queue_name_in(yyjson_get_str(item)) : output_text_of(item, list->kind->name);
    buffer_append(list->names, name, strlen(name) + 1);
}

int definition_names(struct invocation *invocation, const struct definition_kind *kind, struct buffer *names)
{
    struct name_list list = {.kind = kind, .names = names};
    return pages_run(&(struct pages){.invocation = invocation,
                                     .action = kind->list_action,
                                     .list = kind->list_member,
                                     .take = add_name,
                                     .context = &list});
}

static int add_each(struct invocation *invocation, const struct definition_kind *kind, const struct buffer *names,
                    struct json_body *document)
{
    int status = EXIT_DONE;
    yyjson_mut_val *list = json_add_array(document, document->root, kind->list);
    for (size_t at = 0; at < names->size && status == EXIT_DONE;) {
        const char *name = (const char *)names->data_owned + at;
        yyjson_mut_val *definition = NULL;
        status = definition_read(invocation, kind, name, document->doc_owned, &definition);
        if (definition != NULL)
            yyjson_mut_arr_append(list, definition);
        at += strlen(name) + 1;
    }
    return status;
}

/* What the credential may not list is left out, and told of. */
static int add_kind(struct invocation *invocation, const struct definition_kind *kind, struct json_body *document)
{
    struct buffer names;
    buffer_init(&names);
    int status = definition_names(invocation, kind, &names);
    if (status == EXIT_DONE)
        status = add_each(invocation, kind, &names, document);
    if (names.size > 0 && strcmp(kind->list, "relays") == 0)
        complain(
            "secrets of relays are not exported: write them in before you apply it (passwords in Connection, Secret, "
            "Credentials, what stands behind the ? of a Url)");
    buffer_deinit(&names);
    if (status != EXIT_REFUSED || strncmp(tally_client_error(invocation->client)->code, "AccessDenied", 12) != 0)
        return status;
    complain("%s are left out", kind->list);
    return EXIT_DONE;
}

int definitions_print(struct invocation *invocation)
{
    struct json_body document;
    int status = EXIT_DONE;
    json_body_init(&document);
    json_add_number(&document, document.root, "version", DEFINITIONS_VERSION);
    for (size_t i = 0; i < definition_kind_count && status == EXIT_DONE; i++)
        status = add_kind(invocation, &definition_kinds[i], &document);
    char *text = status == EXIT_DONE ? json_write(document.doc_owned, YYJSON_WRITE_PRETTY, NULL) : NULL;
    if (text != NULL)
        puts(text);
    free(text);
    yyjson_mut_doc_free(document.doc_owned);
    return status;
}
