#include "relay/queue_calls.h"

#include <stdio.h>
#include <string.h>

/* Longer than the long poll of a scan. */
#define TIMEOUT_MS 10000u

/* "relay NAME", for whoever asks who has a message. */
static void name_worker(const struct relay_spec *spec, char name[TALLY_WORKER_SIZE_MAX + 1])
{
    (void)snprintf(name, TALLY_WORKER_SIZE_MAX + 1, "relay%s%.100s", spec->name_owned == NULL ? "" : " ",
                   spec->name_owned == NULL ? "" : spec->name_owned);
    for (char *at = name; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            *at = '_';
}

struct tally_client *queue_calls_connect(const struct relay_spec *spec, struct fault *fault)
{
    char worker[TALLY_WORKER_SIZE_MAX + 1];
    name_worker(spec, worker);
    struct tally_options options = {
        .worker = worker,
        .endpoint = spec->endpoint_owned,
        .access_key_id = spec->endpoint_key_id_owned,
        .secret_access_key = spec->endpoint_secret_owned,
        .attempts_max = 1, /* the relay itself repeats, and says so meanwhile */
        .timeout_ms = TIMEOUT_MS,
    };
    struct tally_client *client;
    struct tally_error error;
    if (tally_client_create(&options, &client, &error) == TALLY_OK)
        return client;
    fault_set(fault, STEP_UNFIT, "%.400s", error.message);
    return NULL;
}

bool queue_calls_is_refused(const struct tally_client *client, const char *code)
{
    const struct tally_error *error = tally_client_error(client);
    return error->status == TALLY_REFUSED && strcmp(error->code, code) == 0;
}

enum step queue_calls_judge(const struct tally_client *client, const char *queue, struct fault *fault)
{
    const struct tally_error *error = tally_client_error(client);
    if (error->status != TALLY_REFUSED || error->http_status >= 500)
        return fault_set(fault, STEP_UNREACHABLE, "%.400s", error->message);
    return fault_set(fault, STEP_UNFIT, "%s, queue %.80s: %s: %.300s", tally_client_endpoint(client), queue,
                     error->code, error->message);
}

/* One request for up to ten. */
static enum tally_status call_batch(struct tally_client *client, const char *target, const char *queue,
                                    const char *const *handles, size_t count, const unsigned *visibility_s)
{
    struct json_body body;
    char ids[QUEUE_CALL_ENTRIES_MAX][4];
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    yyjson_mut_val *entries = json_add_array(&body, body.root, "Entries");
    for (size_t i = 0; i < count; i++) {
        yyjson_mut_val *entry = json_append_object(&body, entries);
        snprintf(ids[i], sizeof(ids[i]), "%zu", i);
        json_add_text(&body, entry, "Id", ids[i]);
        json_add_text(&body, entry, "ReceiptHandle", handles[i]);
        if (visibility_s != NULL)
            json_add_number(&body, entry, "VisibilityTimeout", *visibility_s);
    }
    return json_body_call(&body, client, target, NULL);
}

static enum step call_all(struct tally_client *client, const char *target, const char *queue,
                          const char *const *handles, size_t count, const unsigned *visibility_s, struct fault *fault)
{
    for (size_t at = 0; at < count; at += QUEUE_CALL_ENTRIES_MAX) {
        size_t some = count - at < QUEUE_CALL_ENTRIES_MAX ? count - at : QUEUE_CALL_ENTRIES_MAX;
        if (call_batch(client, target, queue, handles + at, some, visibility_s) != TALLY_OK)
            return queue_calls_judge(client, queue, fault);
    }
    return STEP_OK;
}

enum step queue_calls_delete(struct tally_client *client, const char *queue, const char *const *handles, size_t count,
                             struct fault *fault)
{
    return call_all(client, "AmazonSQS.DeleteMessageBatch", queue, handles, count, NULL, fault);
}

enum step queue_calls_hide(struct tally_client *client, const char *queue, const char *const *handles, size_t count,
                           unsigned visibility_s, struct fault *fault)
{
    return call_all(client, "AmazonSQS.ChangeMessageVisibilityBatch", queue, handles, count, &visibility_s, fault);
}
