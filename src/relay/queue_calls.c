#include "relay/queue_calls.h"

#include "base/assert.h"
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

bool queue_calls_is_of_message(const struct tally_client *client)
{
    static const char *const codes[] = {
        "InvalidMessageContents",            /* a character that no message may have */
        "InvalidParameterValueException",    /* too large for the queue, or an attribute or group it doesn't take */
        "MissingRequiredParameterException", /* the queue wants what this message lacks */
        "UnsupportedOperation",              /* the queue does not do what this message asks for */
        "BatchRequestTooLong",               /* with what the relay adds it has more than a mebibyte */
        "RequestTooLarge",                   /* as a request it has more than the server takes */
        "SerializationException",            /* an attribute is Binary, and its value is not base64 */
    };
    if (tally_client_error(client)->http_status == 413) /* of a proxy before the server */
        return true;
    for (size_t i = 0; i < ARRAY_LENGTH(codes); i++)
        if (queue_calls_is_refused(client, codes[i]))
            return true;
    return false;
}

enum step queue_calls_judge(const struct tally_client *client, const char *queue, struct fault *fault)
{
    const struct tally_error *error = tally_client_error(client);
    if (error->status != TALLY_REFUSED || error->http_status >= 500)
        return fault_set(fault, STEP_UNREACHABLE, "%.400s", error->message);
    return fault_set(fault, STEP_UNFIT, "%s, queue %.80s: %s: %.300s", tally_client_endpoint(client), queue,
                     error->code, error->message);
}

/* Of which entries an answer says that they were done. */
static void read_successful(const struct tally_reply *reply, bool *is_done, size_t count)
{
    size_t i, max;
    yyjson_val *entry;
    memset(is_done, 0, count * sizeof(*is_done));
    yyjson_arr_foreach(yyjson_obj_get(json_root(reply), "Successful"), i, max, entry)
    {
        const uint64_t index = json_number(entry, "Id");
        if (json_text(entry, "Id") != NULL && index < count)
            is_done[index] = true;
    }
}

/* What is done with each of some messages of a queue. */
struct batch_call {
    const char *target;
    const char *queue;
    const char *const *handles;
    bool has_visibility;
    unsigned visibility_s;
    bool *is_done; /* for each handle; NULL: nobody asks */
};

/* One request, for up to ten. */
static enum tally_status call_batch(struct tally_client *client, const struct batch_call *call, size_t at, size_t count)
{
    struct json_body body;
    struct tally_reply reply;
    char ids[QUEUE_CALL_ENTRIES_MAX][4];
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", call->queue);
    yyjson_mut_val *entries = json_add_array(&body, body.root, "Entries");
    for (size_t i = 0; i < count; i++) {
        yyjson_mut_val *entry = json_append_object(&body, entries);
        snprintf(ids[i], sizeof(ids[i]), "%zu", i);
        json_add_text(&body, entry, "Id", ids[i]);
        json_add_text(&body, entry, "ReceiptHandle", call->handles[at + i]);
        if (call->has_visibility)
            json_add_number(&body, entry, "VisibilityTimeout", call->visibility_s);
    }
    const enum tally_status status = json_body_call(&body, client, call->target, &reply);
    if (status != TALLY_OK)
        return status;
    if (call->is_done != NULL)
        read_successful(&reply, call->is_done + at, count);
    tally_reply_deinit(&reply);
    return TALLY_OK;
}

static enum step call_all(struct tally_client *client, const struct batch_call *call, size_t count, struct fault *fault)
{
    for (size_t at = 0; at < count; at += QUEUE_CALL_ENTRIES_MAX) {
        const size_t some = count - at < QUEUE_CALL_ENTRIES_MAX ? count - at : QUEUE_CALL_ENTRIES_MAX;
        if (call_batch(client, call, at, some) != TALLY_OK)
            return queue_calls_judge(client, call->queue, fault);
    }
    return STEP_OK;
}

enum step queue_calls_delete(struct tally_client *client, const char *queue, const char *const *handles, size_t count,
                             struct fault *fault)
{
    const struct batch_call call = {.target = "AmazonSQS.DeleteMessageBatch", .queue = queue, .handles = handles};
    return call_all(client, &call, count, fault);
}

enum step queue_calls_hide(struct tally_client *client, const char *queue, const char *const *handles, size_t count,
                           unsigned visibility_s, bool *is_hidden, struct fault *fault)
{
    const struct batch_call call = {.target = "AmazonSQS.ChangeMessageVisibilityBatch",
                                    .queue = queue,
                                    .handles = handles,
                                    .has_visibility = true,
                                    .visibility_s = visibility_s,
                                    .is_done = is_hidden};
    return call_all(client, &call, count, fault);
}
