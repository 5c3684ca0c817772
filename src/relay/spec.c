/* The Source, Sink and Order of a CreateRelay: which members each type has, stands in tables; what they must be, in
 * relay_spec_check(). */
#include "relay/spec.h"

#include "base/assert.h"
#include "base/memory.h"
#include "conninfo/mysql_url.h"
#include "relay/schema.h"
#include "relay/sqs_endpoint.h"
#include "relay/sqs_queues.h"
#include "relay/webhook.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#define LEASE_DEFAULT_MS 3000u
#define LEASE_SQS_MS 30000u /* it is the visibility timeout, and requests may go around the world */
#define LEASE_SQS_MS_MIN 5000u
#define SECONDS_MIN 1u
#define SECONDS_MAX 60u
#define COUNT_MAX 100u
#define TEXT_SIZE_MAX 4096u

enum member_kind {
    MEMBER_TEXT,        /* a char * */
    MEMBER_CHOICE,      /* a bool: false for the first of two words, true for the second */
    MEMBER_DOUBTS,      /* an enum doubt_policy: of two words */
    MEMBER_SECONDS,     /* 1 to 60 of them, into an unsigned of milliseconds */
    MEMBER_COUNT,       /* 0 to 100, into an unsigned */
    MEMBER_CREDENTIALS, /* an object of texts, which credentials_members tells */
};

struct member {
    const char *name;
    enum member_kind kind;
    size_t offset; /* in struct relay_spec */
    bool is_required;
    const char *choices[2];
};

static const struct member postgres_members[] = {
    {"Connection", MEMBER_TEXT, offsetof(struct relay_spec, connection_owned), true, {NULL}},
    {"Table", MEMBER_TEXT, offsetof(struct relay_spec, table_owned), false, {NULL}},
    {"Pooler", MEMBER_CHOICE, offsetof(struct relay_spec, is_pooled), false, {"session", "transaction"}},
    {"PublishAfterReplicas", MEMBER_COUNT, offsetof(struct relay_spec, replica_count), false, {NULL}},
    {"LeaseSeconds", MEMBER_SECONDS, offsetof(struct relay_spec, lease_ms), false, {NULL}},
};

static const struct member sqlite_members[] = {
    {"Connection", MEMBER_TEXT, offsetof(struct relay_spec, connection_owned), true, {NULL}},
    {"Table", MEMBER_TEXT, offsetof(struct relay_spec, table_owned), false, {NULL}},
    {"LeaseSeconds", MEMBER_SECONDS, offsetof(struct relay_spec, lease_ms), false, {NULL}},
};

static const struct member mysql_members[] = {
    {"Connection", MEMBER_TEXT, offsetof(struct relay_spec, connection_owned), true, {NULL}},
    {"Table", MEMBER_TEXT, offsetof(struct relay_spec, table_owned), false, {NULL}},
    {"LeaseSeconds", MEMBER_SECONDS, offsetof(struct relay_spec, lease_ms), false, {NULL}},
};

static const struct member source_queue_members[] = {
    {"QueueUrl", MEMBER_TEXT, offsetof(struct relay_spec, source_queue_owned), true, {NULL}},
    {"LeaseSeconds", MEMBER_SECONDS, offsetof(struct relay_spec, lease_ms), false, {NULL}},
};

static const struct member source_sqs_members[] = {
    {"QueueUrl", MEMBER_TEXT, offsetof(struct relay_spec, source_queue_owned), true, {NULL}},
    {"Region", MEMBER_TEXT, offsetof(struct relay_spec, region_owned), false, {NULL}},
    {"Credentials", MEMBER_CREDENTIALS, 0, false, {NULL}},
    {"LeaseSeconds", MEMBER_SECONDS, offsetof(struct relay_spec, lease_ms), false, {NULL}},
};

static const struct member sink_queue_members[] = {
    {"QueueUrl", MEMBER_TEXT, offsetof(struct relay_spec, queue_owned), false, {NULL}},
    {"Refused", MEMBER_CHOICE, offsetof(struct relay_spec, blocks_group), false, {"park", "block"}},
};

static const struct member sqs_members[] = {
    {"QueueUrl", MEMBER_TEXT, offsetof(struct relay_spec, queue_owned), true, {NULL}},
    {"Region", MEMBER_TEXT, offsetof(struct relay_spec, region_owned), false, {NULL}},
    {"Credentials", MEMBER_CREDENTIALS, 0, false, {NULL}},
    {"Doubts", MEMBER_DOUBTS, offsetof(struct relay_spec, doubts), false, {"send", "park"}},
    {"Refused", MEMBER_CHOICE, offsetof(struct relay_spec, blocks_group), false, {"park", "block"}},
};

static const struct member http_members[] = {
    {"Url", MEMBER_TEXT, offsetof(struct relay_spec, url_owned), true, {NULL}},
    {"Secret", MEMBER_TEXT, offsetof(struct relay_spec, secret_owned), false, {NULL}},
    {"TimeoutSeconds", MEMBER_SECONDS, offsetof(struct relay_spec, timeout_ms), false, {NULL}},
    {"Mode", MEMBER_CHOICE, offsetof(struct relay_spec, is_at_most_once), false, {"at-least-once", "at-most-once"}},
    {"Refused", MEMBER_CHOICE, offsetof(struct relay_spec, blocks_group), false, {"park", "block"}},
};

static const struct member credentials_members[] = {
    {"AccessKeyId", MEMBER_TEXT, offsetof(struct relay_spec, access_key_id_owned), true, {NULL}},
    {"SecretAccessKey", MEMBER_TEXT, offsetof(struct relay_spec, secret_access_key_owned), true, {NULL}},
    {"SessionToken", MEMBER_TEXT, offsetof(struct relay_spec, session_token_owned), false, {NULL}},
};

/* What the member Type may be, and which members stand beside it. */
struct type {
    const char *name;
    const struct member *members;
    size_t member_count;
};

static const struct type source_types[] = {
    [SOURCE_POSTGRES] = {"postgres", postgres_members, ARRAY_LENGTH(postgres_members)},
    [SOURCE_SQLITE] = {"sqlite", sqlite_members, ARRAY_LENGTH(sqlite_members)},
    [SOURCE_MYSQL] = {"mysql", mysql_members, ARRAY_LENGTH(mysql_members)},
    [SOURCE_QUEUE] = {"queue", source_queue_members, ARRAY_LENGTH(source_queue_members)},
    [SOURCE_SQS] = {"sqs", source_sqs_members, ARRAY_LENGTH(source_sqs_members)},
};

static const struct type sink_types[] = {
    [SINK_QUEUE] = {"queue", sink_queue_members, ARRAY_LENGTH(sink_queue_members)},
    [SINK_SQS] = {"sqs", sqs_members, ARRAY_LENGTH(sqs_members)},
    [SINK_HTTP] = {"http", http_members, ARRAY_LENGTH(http_members)},
};

/* --- texts -------------------------------------------------------------------------------------------------------- */

static const size_t texts[] = {
    offsetof(struct relay_spec, name_owned),
    offsetof(struct relay_spec, connection_owned),
    offsetof(struct relay_spec, table_owned),
    offsetof(struct relay_spec, source_queue_owned),
    offsetof(struct relay_spec, queue_owned),
    offsetof(struct relay_spec, region_owned),
    offsetof(struct relay_spec, access_key_id_owned),
    offsetof(struct relay_spec, secret_access_key_owned),
    offsetof(struct relay_spec, session_token_owned),
    offsetof(struct relay_spec, url_owned),
    offsetof(struct relay_spec, secret_owned),
    offsetof(struct relay_spec, endpoint_owned),
    offsetof(struct relay_spec, endpoint_key_id_owned),
    offsetof(struct relay_spec, endpoint_secret_owned),
};

static char **text_at(struct relay_spec *spec, size_t offset)
{
    return (char **)(void *)((char *)spec + offset);
}

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : memory_duplicate_string(text);
}

void relay_spec_init(struct relay_spec *spec)
{
    *spec = (struct relay_spec){.lease_ms = LEASE_DEFAULT_MS};
}

void relay_spec_deinit(struct relay_spec *spec)
{
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        free(*text_at(spec, texts[i]));
    *spec = (struct relay_spec){0};
}

void relay_spec_copy(struct relay_spec *to, const struct relay_spec *from)
{
    *to = *from;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        char **text = text_at(to, texts[i]);
        *text = copy_text(*text);
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* What is being read: "Source" or "Sink.Credentials", for the errors. */
struct reader {
    struct relay_spec *spec;
    const char *path;
    struct fault *fault;
};

static bool read_members(const struct reader *reader, yyjson_val *object, const char *type,
                         const struct member *members, size_t count);

static bool read_text(const struct reader *reader, const struct member *member, yyjson_val *value)
{
    size_t size = yyjson_get_len(value);
    if (!yyjson_is_str(value) || size == 0 || size > TEXT_SIZE_MAX || strlen(yyjson_get_str(value)) != size) {
        fault_set(reader->fault, STEP_UNFIT, "%s.%s must be a text of 1 to %u bytes, without a NUL", reader->path,
                  member->name, TEXT_SIZE_MAX);
        return false;
    }
    char **text = text_at(reader->spec, member->offset);
    free(*text); /* a member may stand there twice */
    *text = copy_text(yyjson_get_str(value));
    return true;
}

static bool read_choice(const struct reader *reader, const struct member *member, yyjson_val *value)
{
    void *field = (char *)reader->spec + member->offset;
    for (size_t i = 0; i < ARRAY_LENGTH(member->choices); i++)
        if (yyjson_equals_str(value, member->choices[i])) {
            if (member->kind == MEMBER_DOUBTS)
                *(enum doubt_policy *)field = i == 0 ? DOUBTS_SEND : DOUBTS_PARK;
            else
                *(bool *)field = i == 1;
            return true;
        }
    fault_set(reader->fault, STEP_UNFIT, "%s.%s must be \"%s\" or \"%s\"", reader->path, member->name,
              member->choices[0], member->choices[1]);
    return false;
}

static bool read_seconds(const struct reader *reader, const struct member *member, yyjson_val *value)
{
    double seconds = yyjson_get_num(value);
    if (!yyjson_is_num(value) || !(seconds >= SECONDS_MIN && seconds <= SECONDS_MAX)) {
        fault_set(reader->fault, STEP_UNFIT, "%s.%s must be a number of seconds from %u to %u", reader->path,
                  member->name, SECONDS_MIN, SECONDS_MAX);
        return false;
    }
    *(unsigned *)(void *)((char *)reader->spec + member->offset) = (unsigned)(seconds * 1000);
    return true;
}

static bool read_count(const struct reader *reader, const struct member *member, yyjson_val *value)
{
    if (!yyjson_is_uint(value) || yyjson_get_uint(value) > COUNT_MAX) {
        fault_set(reader->fault, STEP_UNFIT, "%s.%s must be a whole number from 0 to %u", reader->path, member->name,
                  COUNT_MAX);
        return false;
    }
    *(unsigned *)(void *)((char *)reader->spec + member->offset) = (unsigned)yyjson_get_uint(value);
    return true;
}

static bool read_credentials(const struct reader *reader, yyjson_val *value)
{
    char path[sizeof("Source.Credentials")];
    const struct reader inner = {.spec = reader->spec, .path = path, .fault = reader->fault};
    snprintf(path, sizeof(path), "%s.Credentials", reader->path);
    if (yyjson_is_obj(value))
        return read_members(&inner, value, NULL, credentials_members, ARRAY_LENGTH(credentials_members));
    fault_set(reader->fault, STEP_UNFIT, "%s must be an object with AccessKeyId and SecretAccessKey", path);
    return false;
}

static bool read_member(const struct reader *reader, const struct member *member, yyjson_val *value)
{
    switch (member->kind) {
    case MEMBER_TEXT:
        return read_text(reader, member, value);
    case MEMBER_CHOICE:
    case MEMBER_DOUBTS:
        return read_choice(reader, member, value);
    case MEMBER_SECONDS:
        return read_seconds(reader, member, value);
    case MEMBER_COUNT:
        return read_count(reader, member, value);
    case MEMBER_CREDENTIALS:
        return read_credentials(reader, value);
    }
    return false;
}

/* "Type, Connection, Table": what there may be. */
static void list_members(const char *type, const struct member *members, size_t count, char *list, size_t size)
{
    size_t used = 0;
    if (type != NULL)
        used = (size_t)snprintf(list, size, "Type, ");
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s", members[i].name, i + 1 < count ? ", " : "");
}

/* A member that nobody knows is refused: a wish that is misspelt and silently dropped would be found out much later. */
static bool check_names(const struct reader *reader, yyjson_val *object, const char *type, const struct member *members,
                        size_t count)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(object);
    yyjson_val *name;
    while ((name = yyjson_obj_iter_next(&iter)) != NULL) {
        bool is_known = type != NULL && yyjson_equals_str(name, "Type");
        for (size_t i = 0; i < count; i++)
            is_known = is_known || yyjson_equals_str(name, members[i].name);
        if (!is_known) {
            char list[200];
            list_members(type, members, count, list, sizeof list);
            fault_set(reader->fault, STEP_UNFIT, "%s%s%s has no member %.60s; it may have %s", reader->path,
                      type == NULL ? "" : " of type ", type == NULL ? "" : type, yyjson_get_str(name), list);
            return false;
        }
    }
    return true;
}

static bool read_members(const struct reader *reader, yyjson_val *object, const char *type,
                         const struct member *members, size_t count)
{
    if (!check_names(reader, object, type, members, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        yyjson_val *value = yyjson_obj_get(object, members[i].name);
        bool is_given = value != NULL && !yyjson_is_null(value);
        if (!is_given && members[i].is_required) {
            fault_set(reader->fault, STEP_UNFIT, "%s%s%s needs the member %s", reader->path,
                      type == NULL ? "" : " of type ", type == NULL ? "" : type, members[i].name);
            return false;
        }
        if (is_given && !read_member(reader, &members[i], value))
            return false;
    }
    return true;
}

/* "postgres", "sqlite", "mysql", "queue" or "sqs": what there may be. */
static void list_types(const struct type *types, unsigned count, char *list, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(list + used, size - used, "%s\"%s\"",
                                 i == 0           ? ""
                                 : i + 1 == count ? " or "
                                                  : ", ",
                                 types[i].name);
}

/* Source or Sink: its type, and the members of that. */
static bool read_typed(const struct reader *reader, yyjson_val *object, const struct type *types, unsigned count,
                       unsigned *type)
{
    yyjson_val *name = yyjson_obj_get(object, "Type");
    char list[100];
    if (!yyjson_is_obj(object)) {
        fault_set(reader->fault, STEP_UNFIT, "%s is missing, or no object with a member Type", reader->path);
        return false;
    }
    for (unsigned i = 0; i < count; i++)
        if (yyjson_equals_str(name, types[i].name)) {
            *type = i;
            return read_members(reader, object, types[i].name, types[i].members, types[i].member_count);
        }
    list_types(types, count, list, sizeof(list));
    fault_set(reader->fault, STEP_UNFIT, "%s.Type must be %s%s%.60s", reader->path, list,
              yyjson_is_str(name) ? ", not " : "", yyjson_is_str(name) ? yyjson_get_str(name) : "");
    return false;
}

bool relay_spec_read(struct relay_spec *spec, struct yyjson_val *source, struct yyjson_val *sink, const char *order,
                     struct fault *fault)
{
    const struct reader source_reader = {.spec = spec, .path = "Source", .fault = fault};
    const struct reader sink_reader = {.spec = spec, .path = "Sink", .fault = fault};
    unsigned type;
    if (yyjson_equals_str(yyjson_obj_get(source, "Type"), source_types[SOURCE_SQS].name))
        spec->lease_ms = LEASE_SQS_MS;
    if (!read_typed(&source_reader, source, source_types, ARRAY_LENGTH(source_types), &type))
        return false;
    spec->source = (enum source_type)type;
    if (!read_typed(&sink_reader, sink, sink_types, ARRAY_LENGTH(sink_types), &type))
        return false;
    spec->sink = (enum sink_type)type;
    if (order != NULL && strcmp(order, "group") != 0 && strcmp(order, "strict") != 0) {
        fault_set(fault, STEP_UNFIT, "Order must be \"group\" or \"strict\", not %.60s", order);
        return false;
    }
    spec->is_strict = order != NULL && strcmp(order, "strict") == 0;
    return relay_spec_check(spec, fault);
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
    size_t size = strlen(text);
    size_t sound = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    return size > 0 && size <= RELAY_NAME_SIZE_MAX && sound == size;
}

static bool is_web_address(const char *url)
{
    return (strncmp(url, "http://", 7) == 0 && url[7] != '\0' && url[7] != '/') ||
           (strncmp(url, "https://", 8) == 0 && url[8] != '\0' && url[8] != '/');
}

static bool refuse(struct fault *fault, const char *text, const char *value)
{
    fault_set(fault, STEP_UNFIT, "%s, not %.100s", text, value);
    return false;
}

static bool is_secret_sound(const char *secret, struct fault *fault)
{
    struct webhook_keys keys;
    struct fault why;
    bool is_sound = webhook_keys_read(&keys, bytes_from_string(secret), &why);
    webhook_keys_deinit(&keys);
    if (!is_sound)
        fault_set(fault, STEP_UNFIT, "Sink.Secret: %s", why.text);
    return is_sound;
}

static bool is_mysql_sound(const char *connection, struct fault *fault)
{
    struct mysql_url url;
    char wrong[MYSQL_URL_WRONG_SIZE];
    const bool is_sound = mysql_url_parse(&url, connection, wrong);
    mysql_url_deinit(&url);
    if (!is_sound)
        fault_set(fault, STEP_UNFIT, "Source.Connection %s", wrong);
    return is_sound;
}

/* An endpoint of SQS as the source is for moving in. */
static bool check_sqs_source(const struct relay_spec *spec, struct fault *fault)
{
    const char *url = spec->source_queue_owned;
    if (!is_web_address(url) || sqs_queue_name(url).size == 0)
        return refuse(fault, "Source.QueueUrl must be the whole URL of the queue, http:// or https://", sqs_shown(url));
    if (spec->sink != SINK_QUEUE) {
        fault_set(fault, STEP_UNFIT,
                  "a source of type sqs needs a sink of type queue: it moves messages into this Tally, from where "
                  "another relay can carry them on");
        return false;
    }
    if (spec->lease_ms < LEASE_SQS_MS_MIN) {
        fault_set(fault, STEP_UNFIT,
                  "Source.LeaseSeconds of type sqs is the visibility timeout of what is in hand: 5 to %u", SECONDS_MAX);
        return false;
    }
    return true;
}

bool relay_spec_check(const struct relay_spec *spec, struct fault *fault)
{
    const bool is_of_queue = relay_spec_is_of_queue(spec);
    if (spec->source == SOURCE_SQS && !check_sqs_source(spec, fault))
        return false;
    if (spec->source == SOURCE_MYSQL && !is_mysql_sound(spec->connection_owned, fault))
        return false;
    if (spec->secret_owned != NULL && !is_secret_sound(spec->secret_owned, fault))
        return false;
    if (spec->name_owned != NULL && !is_name(spec->name_owned))
        return refuse(fault, "RelayName must be 1 to 80 letters, digits, hyphens and underscores", spec->name_owned);
    if (spec->table_owned != NULL && !schema_name_is_sound(spec->table_owned))
        return refuse(fault,
                      "Source.Table must be the schema that holds the outbox, or the prefix of its tables, lower-case "
                      "letters, digits and underscores, no digit first",
                      spec->table_owned);
    if (spec->is_pooled && spec->replica_count > 0) {
        fault_set(
            fault, STEP_UNFIT,
            "Pooler \"transaction\" may put another server behind a connection, and what replicas of the one have "
            "flushed says nothing of the other: with PublishAfterReplicas connect to PostgreSQL itself, or let "
            "PgBouncer pool in session mode");
        return false;
    }
    if (spec->url_owned != NULL && !is_web_address(spec->url_owned))
        return refuse(fault, "Sink.Url must be an address that begins with http:// or https://", spec->url_owned);
    if (spec->sink == SINK_SQS && spec->queue_owned != NULL && !is_web_address(spec->queue_owned))
        return refuse(fault, "Sink.QueueUrl must be the whole URL of the queue, http:// or https://",
                      spec->queue_owned);
    if (is_of_queue && spec->sink == SINK_QUEUE && spec->queue_owned == NULL) {
        fault_set(fault, STEP_UNFIT,
                  "Sink of type queue needs the member QueueUrl: messages of a queue do not say where they go");
        return false;
    }
    if (spec->is_at_most_once && spec->blocks_group) {
        fault_set(
            fault, STEP_UNFIT,
            "Refused \"block\" tries a refused row again, which Mode \"at-most-once\" forbids: it must be \"park\"");
        return false;
    }
    if (is_of_queue && spec->is_strict) {
        fault_set(fault, STEP_UNFIT,
                  "Order \"strict\" is for tables: a queue as the source is read in the order of its own groups");
        return false;
    }
    return true;
}
