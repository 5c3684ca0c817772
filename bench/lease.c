#include "lease.h"

/* The text behind the next `key`, up to its quote; moves *rest behind it. What stands in a body or handle here needs no escape. */
static bool value_next(struct view *rest, struct view key, struct view *value)
{
    const char *at = view_find(*rest, key);
    if (at == NULL)
        return false;
    struct view from = view_from(*rest, at + key.size);
    const char *end = memchr(from.ptr, '"', from.size);
    if (end == NULL)
        fatal("no end of the text behind %.*s", (int)key.size, key.ptr);
    *value = (struct view){from.ptr, (size_t)(end - from.ptr)};
    *rest = view_from(*rest, end);
    return true;
}

unsigned leases_read(struct record *record, struct record_slot *slot, struct view body, uint64_t now_ns, bool is_held,
                     struct lease leases[LEASES_MAX])
{
    unsigned count = 0;
    struct view handle, text;
    while (count < LEASES_MAX && value_next(&body, VIEW("\"ReceiptHandle\":\""), &handle) &&
           value_next(&body, VIEW("\"Body\":\""), &text)) {
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

void lease_entries_append(struct text *body, const struct lease *leases, unsigned count, struct view suffix)
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
    while (value_next(&list, VIEW("\"Id\":\""), &id))
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
