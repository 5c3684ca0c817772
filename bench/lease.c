#include "lease.h"

#include "envelope.h"
#include "http.h"

unsigned leases_read(struct record *record, struct record_slot *slot, struct view body, uint64_t now_ns, bool is_held,
                     struct lease leases[LEASES_MAX])
{
    unsigned count = 0;
    struct view handle, text;
    while (count < LEASES_MAX && view_text_next(&body, VIEW("\"ReceiptHandle\":\""), &handle) &&
           view_text_next(&body, VIEW("\"Body\":\""), &text)) {
        struct lease *lease = &leases[count];
        uint64_t number;
        if (handle.size > HANDLE_SIZE_MAX)
            fatal("a receipt handle of %zu bytes: %.*s", handle.size, (int)handle.size, handle.ptr);
        if (!record_delivered(record, slot, text, now_ns, &number))
            continue;
        if (is_held)
            record_held(record, number);
        lease->number = (uint32_t)number;
        lease->handle_size = (uint8_t)handle.size;
        memcpy(lease->handle, handle.ptr, handle.size);
        count++;
    }
    return count;
}

static void entries_append(struct text *body, const struct lease *leases, unsigned count, struct view suffix)
{
    text_append(body, VIEW(",\"Entries\":["));
    for (unsigned index = 0; index < count; index++) {
        text_append_format(body, "%s{\"Id\":\"%u\",\"ReceiptHandle\":\"", index > 0 ? "," : "", index);
        text_append(body, (struct view){leases[index].handle, leases[index].handle_size});
        text_append(body, VIEW("\""));
        text_append(body, suffix);
        text_append(body, VIEW("}"));
    }
    text_append(body, VIEW("]}"));
}

void leases_ask(struct connection *connection, const struct plan *plan, const char *queue, const char *target,
                const struct lease *leases, unsigned count, struct view suffix)
{
    struct text body;
    text_init(&body);
    envelope_url_append(&body, plan, queue);
    entries_append(&body, leases, count, suffix);
    connection->own.size = 0;
    http_request_begin(&connection->own, target, plan->port);
    http_request_end(&connection->own, text_view(&body));
    text_deinit(&body);
    connection->out = text_view(&connection->own);
    connection->replies_due = 1;
}

/* The entries named in one list of the reply, as bits. */
static unsigned list_read(struct view body, struct view key, struct view other)
{
    unsigned named = 0;
    const char *begin = view_find(body, key);
    if (begin == NULL)
        return 0;
    struct view list = view_from(body, begin), id;
    const char *end = view_find(list, other);
    if (end != NULL)
        list.size = (size_t)(end - begin);
    while (view_text_next(&list, VIEW("\"Id\":\""), &id))
        named |= 1u << (unsigned)(id.ptr[0] - '0');
    return named;
}

unsigned lease_entries_read(struct view body, unsigned count)
{
    unsigned succeeded = list_read(body, VIEW("\"Successful\":["), VIEW("\"Failed\":["));
    unsigned failed = list_read(body, VIEW("\"Failed\":["), VIEW("\"Successful\":["));
    if ((succeeded | failed) != (1u << count) - 1)
        fatal("%u entries were asked for, and this was the answer: %.*s", count, (int)body.size, body.ptr);
    return succeeded;
}
