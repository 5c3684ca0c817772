#include "api/holder_view.h"

#include "api/growth.h"
#include "core/state.h"

uint32_t holder_view_use(struct call *call)
{
    const struct request *request = &call->exchange->request;
    struct holder_name name = {.address = request->address, .worker = request->worker};
    if (call->caller != NULL)
        name.access_key = call->caller->access_key;
    uint32_t holder = request->holder_guess == NULL ? 0 : holder_use_again(call->core, &name, *request->holder_guess);
    if (holder != 0)
        return holder;
    holder = holder_use(call->core, &name, !growth_is_held(call->api));
    if (request->holder_guess != NULL)
        *request->holder_guess = holder;
    return holder;
}

void holder_view_write(struct call *call, uint32_t message)
{
    struct holder_name name;
    if (!holder_find(call->core, message, &name))
        return;
    writer_object_begin(call->reply, "Holder");
    if (name.access_key.size > 0)
        writer_text(call->reply, "AccessKeyId", name.access_key);
    if (name.address.size > 0)
        writer_text(call->reply, "Address", name.address);
    if (name.worker.size > 0)
        writer_text(call->reply, "Worker", name.worker);
    writer_object_end(call->reply);
}

uint32_t holder_view_find(const struct call *call, uint64_t number, uint64_t delivery)
{
    const uint32_t slot = core_find_message(call->core, number);
    return slot != 0 && core_message(call->core, slot)->delivery == delivery ? slot : 0;
}

struct bytes holder_view_words(const struct call *call, uint32_t message)
{
    struct holder_name name;
    if (message == 0 || !holder_find(call->core, message, &name))
        return BYTES("");
    struct bytes key =
        name.access_key.size == 0 ? BYTES("") : arena_format(call->arena, "key %.*s", BYTES_FORMAT(name.access_key));
    const struct bytes parts[] = {name.worker, name.address, key};
    struct bytes words = BYTES("");
    bool is_open = false;
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        if (parts[i].size == 0)
            continue;
        const char *before = words.size == 0 ? ", held by " : is_open ? ", " : " (";
        is_open = is_open || words.size > 0;
        words = arena_format(call->arena, "%.*s%s%.*s", BYTES_FORMAT(words), before, BYTES_FORMAT(parts[i]));
    }
    return is_open ? arena_format(call->arena, "%.*s)", BYTES_FORMAT(words)) : words;
}
