/* Requests of many entries: SendMessageBatch and its kin. A fault of the structure refuses the whole request. A fault
 * of an entry fails only that entry. Order of the checks: count, form of the ids, repeats, sum. */
#include "api/action.h"

#include "api/text.h"
#include "base/memory.h"

#define ENTRIES_MAX 10u
#define ENTRY_ID_SIZE_MAX 80u

static struct bytes entry_id(yyjson_val *entry)
{
    yyjson_val *id = yyjson_obj_get(entry, "Id");
    return yyjson_is_str(id) ? params_bytes(id) : bytes_make(NULL, 0);
}

/* At most ENTRIES_MAX entries: each id is read once, and compared with those before it. */
static enum error check_ids(struct call *call, yyjson_val *entries)
{
    struct bytes ids[ENTRIES_MAX];
    size_t index, count;
    yyjson_val *entry;
    yyjson_arr_foreach(entries, index, count, entry)
    {
        if (!yyjson_is_obj(entry))
            return call_fail(call, ERROR_SERIALIZATION, "An entry of Entries is not an object.");
        ids[index] = entry_id(entry);
        if (!text_is_word(ids[index], ENTRY_ID_SIZE_MAX))
            return call_fail(call, ERROR_INVALID_BATCH_ENTRY_ID, "%s", error_row(ERROR_INVALID_BATCH_ENTRY_ID)->text);
    }
    for (size_t i = 1; i < count; i++)
        for (size_t earlier = 0; earlier < i; earlier++)
            if (bytes_equal(ids[earlier], ids[i]))
                return call_fail(call, ERROR_BATCH_IDS_NOT_DISTINCT, "Id %.*s repeated.", BYTES_FORMAT(ids[i]));
    return OK;
}

static enum error check_structure(struct call *call, const char *entry_name, yyjson_val *entries)
{
    size_t count = yyjson_arr_size(entries);
    if (count == 0)
        return call_fail(call, ERROR_EMPTY_BATCH_REQUEST, "There should be at least one %s in the request.",
                         entry_name);
    if (count > ENTRIES_MAX)
        return call_fail(call, ERROR_TOO_MANY_ENTRIES,
                         "Maximum number of entries per request are 10. You have sent %zu.", count);
    return check_ids(call, entries);
}

struct failed_entry {
    struct bytes id;
    enum error error;
    struct failure failure;
};

static void write_failed(struct call *call, const struct failed_entry *failed, unsigned count)
{
    if (count == 0)
        return;
    writer_list_begin(call->reply, "Failed");
    for (unsigned i = 0; i < count; i++) {
        const struct error_row *row = error_row(failed[i].error);
        writer_object_begin(call->reply, NULL);
        writer_text(call->reply, "Id", failed[i].id);
        writer_boolean(call->reply, "SenderFault", row->status < 500);
        writer_string(call->reply, "Code", row->query);
        writer_string(call->reply, "Message", failed[i].failure.text[0] != '\0' ? failed[i].failure.text : row->text);
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

enum error entries_run(struct call *call, const char *entry_name,
                       enum error (*check)(struct call *call, yyjson_val *entries),
                       enum error (*run)(struct call *call, const struct params *entry))
{
    yyjson_val *entries;
    enum error error = params_list(&call->params, "Entries", &entries);
    if (error == OK)
        error = check_structure(call, entry_name, entries);
    if (error == OK && check != NULL)
        error = check(call, entries);
    if (error != OK)
        return error;
    struct failed_entry *failed = NULL;
    unsigned failed_count = 0, good_count = 0;
    size_t index, count;
    yyjson_val *entry;
    yyjson_arr_foreach(entries, index, count, entry)
    {
        struct writer_mark before = writer_mark(call->reply);
        if (good_count == 0)
            writer_list_begin(call->reply, "Successful");
        writer_object_begin(call->reply, NULL);
        writer_text(call->reply, "Id", entry_id(entry));
        struct params fields = {.object = entry, .failure = call->failure};
        call->failure->text[0] = '\0';
        /* Each entry is a decision of its own. What ten of them make due together may be more than one frame can
         * hold. */
        call->core = namespace_begin(call->ns, call->now_ms);
        error = run(call, &fields);
        if (error == OK) {
            writer_object_end(call->reply);
            good_count++;
            continue;
        }
        writer_take_back(call->reply, before);
        if (failed == NULL)
            failed = arena_allocate(call->arena, ENTRIES_MAX * sizeof(*failed));
        failed[failed_count++] =
            (struct failed_entry){.id = entry_id(entry), .error = error, .failure = *call->failure};
    }
    if (good_count > 0)
        writer_list_end(call->reply);
    write_failed(call, failed, failed_count);
    return OK;
}
