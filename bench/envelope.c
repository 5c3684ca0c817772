#include "envelope.h"
#include "http.h"

enum { NUMBER_WIDTH = 10 };

void envelope_url_append(struct text *out, const struct plan *plan, const char *queue)
{
    text_append_format(out, "{\"QueueUrl\":\"http://127.0.0.1:%u/000000000000/%s\"", plan->port, queue);
}

/* Appends a field that holds so many zeros; returns where they stand. */
static size_t field_append(struct text *out, const char *key, unsigned size)
{
    text_append_format(out, ",\"%s\":\"", key);
    size_t at = out->size;
    text_append_format(out, "%0*u\"", (int)size, 0);
    return at;
}

static void message_append(struct envelope *envelope, unsigned index, struct text *body)
{
    envelope->body_at[index] = field_append(body, "MessageBody", envelope->body_size);
    if (envelope->groups > 0) {
        envelope->group_at[index] = field_append(body, "MessageGroupId", NUMBER_WIDTH);
        envelope->id_at[index] = field_append(body, "MessageDeduplicationId", NUMBER_WIDTH);
    }
    text_append(body, VIEW("}"));
}

void envelope_init(struct envelope *envelope, const struct plan *plan, const char *queue, unsigned count,
                   uint64_t groups)
{
    struct text body;
    *envelope = (struct envelope){.count = count, .body_size = plan->body_size, .groups = groups};
    text_init(&body);
    envelope_url_append(&body, plan, queue);
    if (count > 1)
        text_append(&body, VIEW(",\"Entries\":["));
    for (unsigned index = 0; index < count; index++) {
        if (count > 1)
            text_append_format(&body, "%s{\"Id\":\"%u\"", index > 0 ? "," : "", index);
        message_append(envelope, index, &body);
    }
    if (count > 1)
        text_append(&body, VIEW("]}"));
    text_init(&envelope->request_owned);
    http_request_begin(&envelope->request_owned, count > 1 ? "AmazonSQS.SendMessageBatch" : "AmazonSQS.SendMessage",
                       plan->port);
    http_request_end(&envelope->request_owned, text_view(&body));
    size_t head_size = envelope->request_owned.size - body.size;
    for (unsigned index = 0; index < count; index++) {
        envelope->body_at[index] += head_size;
        envelope->group_at[index] += head_size;
        envelope->id_at[index] += head_size;
    }
    text_deinit(&body);
}

static void number_write(char *at, uint64_t number)
{
    for (unsigned digit = NUMBER_WIDTH; digit-- > 0; number /= 10)
        at[digit] = (char)('0' + number % 10);
}

void envelope_ask(const struct envelope *envelope, struct connection *connection, uint64_t first)
{
    connection->own.size = 0;
    text_append(&connection->own, text_view(&envelope->request_owned));
    char *request = connection->own.ptr_owned;
    for (unsigned index = 0; index < envelope->count; index++) {
        record_body_write(request + envelope->body_at[index], envelope->body_size, first + index,
                          connection->asked_at_ns);
        if (envelope->groups == 0)
            continue;
        number_write(request + envelope->group_at[index], (first + index) % envelope->groups);
        number_write(request + envelope->id_at[index], first + index);
    }
    connection->out = text_view(&connection->own);
    connection->replies_due = 1;
}
