/* Typed calls for queues. */
#include "base/memory.h"
#include "client/client.h"
#include "client/json.h"

/* Ends the reply; its QueueUrl goes to `url` unless that is NULL. */
static enum tally_status take_url(struct tally_client *client, const char *target, struct tally_reply *reply,
                                  char **url)
{
    const char *text = json_text(json_root(reply), "QueueUrl");
    enum tally_status status = TALLY_OK;
    if (text == NULL)
        status = client_garbled(client, target);
    else if (url != NULL)
        *url = memory_duplicate_string(text);
    tally_reply_deinit(reply);
    return status;
}

enum tally_status tally_queue_create(struct tally_client *client, const char *name, const struct tally_pair *attributes,
                                     size_t attribute_count, char **url)
{
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueName", name);
    if (attribute_count > 0) {
        yyjson_mut_val *map = json_add_object(&body, body.root, "Attributes");
        for (size_t i = 0; i < attribute_count; i++)
            json_add_text(&body, map, attributes[i].name, attributes[i].value);
    }
    status = json_body_call(&body, client, "AmazonSQS.CreateQueue", &reply);
    return status != TALLY_OK ? status : take_url(client, "CreateQueue", &reply, url);
}

enum tally_status tally_queue_url(struct tally_client *client, const char *name, char **url)
{
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueName", name);
    status = json_body_call(&body, client, "AmazonSQS.GetQueueUrl", &reply);
    return status != TALLY_OK ? status : take_url(client, "GetQueueUrl", &reply, url);
}

static enum tally_status call_on_queue(struct tally_client *client, const char *target, const char *queue)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    return json_body_call(&body, client, target, NULL);
}

enum tally_status tally_queue_delete(struct tally_client *client, const char *queue)
{
    return call_on_queue(client, "AmazonSQS.DeleteQueue", queue);
}

enum tally_status tally_queue_purge(struct tally_client *client, const char *queue)
{
    return call_on_queue(client, "AmazonSQS.PurgeQueue", queue);
}

enum tally_status tally_queue_pause(struct tally_client *client, const char *queue)
{
    return call_on_queue(client, "Tally.PauseQueue", queue);
}

enum tally_status tally_queue_resume(struct tally_client *client, const char *queue)
{
    return call_on_queue(client, "Tally.ResumeQueue", queue);
}

enum tally_status tally_queue_count(struct tally_client *client, const char *queue, struct tally_queue_counts *counts)
{
    static const char *const names[] = {
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    };
    struct json_body body;
    struct tally_reply reply;
    enum tally_status status;
    yyjson_mut_val *list;
    yyjson_val *map;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    list = json_add_array(&body, body.root, "AttributeNames");
    for (size_t i = 0; i < 3; i++)
        yyjson_mut_arr_add_str(body.doc_owned, list, names[i]);
    status = json_body_call(&body, client, "AmazonSQS.GetQueueAttributes", &reply);
    if (status != TALLY_OK)
        return status;
    map = yyjson_obj_get(json_root(&reply), "Attributes");
    if (map == NULL) {
        status = client_garbled(client, "GetQueueAttributes");
    } else {
        counts->visible = json_number(map, names[0]);
        counts->in_flight = json_number(map, names[1]);
        counts->delayed = json_number(map, names[2]);
    }
    tally_reply_deinit(&reply);
    return status;
}
