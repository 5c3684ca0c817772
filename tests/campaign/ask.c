#include "ask.h"

#include "wire.h"

#include <stdlib.h>

void ask(struct daemon *daemon, const char *target, const struct text *body, struct text *reply)
{
    if (wire_call(daemon->port, target, text_view(body), reply) != 200)
        fatal("%s: %.*s", target, (int)reply->size, reply->ptr_owned);
    daemon_found(daemon, clock_now_ms());
    text_append(reply, (struct view){"", 1});
}

uint64_t ask_sum(const struct text *reply, const struct view *keys, unsigned count)
{
    uint64_t sum = 0;
    for (unsigned at = 0; at < count; at++) {
        const char *key = view_find(text_view(reply), keys[at]);
        if (key == NULL)
            fatal("no %.*s in: %s", (int)keys[at].size, keys[at].ptr, reply->ptr_owned);
        key += keys[at].size;
        sum += strtoull(*key == '"' ? key + 1 : key, NULL, 10);
    }
    return sum;
}

uint64_t ask_queue_count(struct daemon *daemon, const char *queue)
{
    static const struct view KEYS[] = {{"\"ApproximateNumberOfMessages\":", 30},
                                       {"\"ApproximateNumberOfMessagesNotVisible\":", 40},
                                       {"\"ApproximateNumberOfMessagesDelayed\":", 37}};
    struct text body, reply;
    text_init(&body);
    text_init(&reply);
    text_append_format(&body, "{\"QueueUrl\":\"%s\",\"AttributeNames\":[\"All\"]}", queue);
    ask(daemon, "AmazonSQS.GetQueueAttributes", &body, &reply);
    uint64_t count = ask_sum(&reply, KEYS, 3);
    text_deinit(&body);
    text_deinit(&reply);
    return count;
}
