#include "tally/queue_arn.h"

#include "base/memory.h"
#include "client/json.h"
#include <string.h>

char *queue_arn(struct invocation *invocation, const char *queue)
{
    struct json_body body;
    struct tally_reply reply;
    const char *arn;
    char *copy;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue);
    yyjson_mut_arr_add_str(body.doc_owned, json_add_array(&body, body.root, "AttributeNames"), "QueueArn");
    if (json_body_call(&body, invocation->client, "AmazonSQS.GetQueueAttributes", &reply) != TALLY_OK)
        return NULL;
    arn = json_text(yyjson_obj_get(json_root(&reply), "Attributes"), "QueueArn");
    copy = memory_duplicate_string(arn == NULL ? "" : arn);
    tally_reply_deinit(&reply);
    return copy;
}

const char *queue_name_in(const char *queue)
{
    const char *mark = strrchr(queue, '/');
    if (mark == NULL)
        mark = strrchr(queue, ':');
    return mark == NULL ? queue : mark + 1;
}
