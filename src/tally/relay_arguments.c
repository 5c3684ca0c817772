#include "tally/relay_arguments.h"

#include "base/assert.h"
#include "conninfo/conninfo.h"
#include "conninfo/mysql_url.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_SIZE_MAX 16384u
#define SQS_PREFIX "sqs:"

/* The text after "PREFIX:", or NULL. */
static const char *behind(const char *word, const char *prefix)
{
    size_t size = strlen(prefix);
    return strncmp(word, prefix, size) == 0 ? word + size : NULL;
}

static void add_copy(struct json_body *body, yyjson_mut_val *object, const char *name, const char *text)
{
    yyjson_mut_obj_add(object, yyjson_mut_str(body->doc_owned, name), yyjson_mut_strcpy(body->doc_owned, text));
}

/* The file's text without the blanks at its end; false, after telling the user, if it can't be read. */
static bool read_file(const char *path, char text[FILE_SIZE_MAX + 1])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        complain("can't read %s: %s", path, strerror(errno));
        return false;
    }
    size_t size = fread(text, 1, FILE_SIZE_MAX + 1, file);
    bool is_read = ferror(file) == 0;
    fclose(file);
    if (!is_read || size > FILE_SIZE_MAX) {
        complain(is_read ? "%s is larger than any secret" : "can't read %s", path);
        return false;
    }
    while (size > 0 && isspace((unsigned char)text[size - 1]))
        size--;
    text[size] = '\0';
    return true;
}

/* How much of an invalid word is repeated: only its kind, because a password may follow. */
static int shown_size(const char *word)
{
    return (int)strcspn(word, ":=@ ");
}

/* Region and credentials are of the side that is an endpoint of SQS. */
static bool is_sqs_source(const struct relay_arguments *words)
{
    return behind(words->source, SQS_PREFIX) != NULL;
}

/* "AKIA… secret [token]" */
static bool write_credentials(const struct relay_arguments *words, struct json_body *body, yyjson_mut_val *side)
{
    static const char *const names[] = {"AccessKeyId", "SecretAccessKey", "SessionToken"};
    char text[FILE_SIZE_MAX + 1];
    if (words->credentials_file == NULL)
        return true;
    if (!read_file(words->credentials_file, text))
        return false;
    yyjson_mut_val *credentials = json_add_object(body, side, "Credentials");
    char *rest = text, *word;
    size_t count = 0;
    for (; (word = strtok_r(rest, " \t\r\n", &rest)) != NULL; count++)
        if (count < ARRAY_LENGTH(names))
            add_copy(body, credentials, names[count], word);
    if (count == 2 || count == 3)
        return true;
    complain("%s must hold two words, or three: access key id, secret, session token; it has %zu",
             words->credentials_file, count);
    return false;
}

/* A file without a folder is one of this folder. The server stands in another one. */
static bool write_path(const char *path, struct json_body *body, yyjson_mut_val *source)
{
    char folder[PATH_MAX], whole[2 * PATH_MAX];
    if (*path == '/' || *path == '\0') {
        json_add_text(body, source, "Connection", path);
        return true;
    }
    if (getcwd(folder, sizeof(folder)) == NULL ||
        snprintf(whole, sizeof(whole), "%s/%s", folder, path) >= (int)sizeof(whole)) {
        complain("can't tell where %s is: name it with its folder, from / on", path);
        return false;
    }
    add_copy(body, source, "Connection", whole);
    return true;
}

static bool write_source(const struct invocation *invocation, const struct relay_arguments *words,
                         struct json_body *body)
{
    const char *word = words->source;
    yyjson_mut_val *source = json_add_object(body, body->root, "Source");
    const char *rest = conninfo_is_uri(word) ? word : behind(word, "postgres:");
    if (rest != NULL) {
        json_add_text(body, source, "Type", "postgres");
        json_add_text(body, source, "Connection", rest);
    } else if ((rest = behind(word, "sqlite:")) != NULL) {
        json_add_text(body, source, "Type", "sqlite");
        if (!write_path(rest, body, source))
            return false;
    } else if (mysql_url_is_one(word)) {
        json_add_text(body, source, "Type", "mysql");
        json_add_text(body, source, "Connection", word);
    } else if ((rest = behind(word, "queue:")) != NULL) {
        json_add_text(body, source, "Type", "queue");
        json_add_text(body, source, "QueueUrl", rest);
    } else if ((rest = behind(word, SQS_PREFIX)) != NULL) {
        json_add_text(body, source, "Type", "sqs");
        json_add_text(body, source, "QueueUrl", rest);
    } else {
        (void)complain_usage(
            invocation, "--source takes postgres://…, sqlite:PATH, mysql://…, queue:NAME or sqs:URL, not \"%.*s…\"",
            shown_size(word), word);
        return false;
    }
    if (is_sqs_source(words)) {
        json_add_text(body, source, "Region", words->region);
        if (!write_credentials(words, body, source))
            return false;
    }
    json_add_text(body, source, "Table", words->table);
    json_add_text(body, source, "Pooler", words->pooler);
    if (words->replicas.is_given)
        json_add_number(body, source, "PublishAfterReplicas", words->replicas.value);
    if (words->lease.is_given)
        json_add_number(body, source, "LeaseSeconds", words->lease.value);
    return true;
}

static bool write_secret(const struct relay_arguments *words, struct json_body *body, yyjson_mut_val *sink)
{
    char text[FILE_SIZE_MAX + 1];
    if (words->secret_file == NULL)
        return true;
    if (!read_file(words->secret_file, text))
        return false;
    if (*text == '\0') {
        complain("%s must hold a secret: a line for each key", words->secret_file);
        return false;
    }
    add_copy(body, sink, "Secret", text);
    return true;
}

/* False if the word is not valid. */
static bool write_sink_type(const char *word, struct json_body *body, yyjson_mut_val *sink)
{
    const char *queue = behind(word, "queue:"), *sqs = behind(word, SQS_PREFIX);
    bool is_web = behind(word, "http://") != NULL || behind(word, "https://") != NULL;
    bool is_queue = queue != NULL || strcmp(word, "queue") == 0;
    json_add_text(body, sink, "Type", is_queue ? "queue" : sqs != NULL ? "sqs" : "http");
    json_add_text(body, sink, "QueueUrl", sqs != NULL ? sqs : queue);
    json_add_text(body, sink, "Url", is_web ? word : NULL);
    return is_queue || sqs != NULL || is_web;
}

static bool write_sink(const struct relay_arguments *words, struct json_body *body)
{
    yyjson_mut_val *sink = json_add_object(body, body->root, "Sink");
    if (!write_sink_type(words->sink, body, sink)) {
        complain("--sink takes queue, queue:NAME, sqs:URL, http://… or https://…, not \"%.*s…\"",
                 shown_size(words->sink), words->sink);
        return false;
    }
    if (!is_sqs_source(words))
        json_add_text(body, sink, "Region", words->region);
    json_add_text(body, sink, "Mode", words->mode);
    if (words->timeout.is_given)
        json_add_number(body, sink, "TimeoutSeconds", words->timeout.value);
    json_add_text(body, sink, "Doubts", words->doubts);
    json_add_text(body, sink, "Refused", words->refused);
    return (is_sqs_source(words) || write_credentials(words, body, sink)) && write_secret(words, body, sink);
}

bool relay_arguments_write(const struct invocation *invocation, const struct relay_arguments *words,
                           struct json_body *body, int *status)
{
    *status = EXIT_USAGE;
    if (words->source == NULL || words->sink == NULL) {
        (void)complain_usage(invocation, "a relay needs --source and --sink");
        return false;
    }
    if (!write_source(invocation, words, body) || !write_sink(words, body))
        return false;
    json_add_text(body, body->root, "Order", words->order);
    *status = EXIT_DONE;
    return true;
}
