/* CreateRelay, DescribeRelay, ListRelays, PauseRelay, ResumeRelay, DeleteRelay, ListDoubts and ResolveDoubt. */
#include "api/relay_view.h"
#include "api/text.h"
#include "auth/json_tree.h"
#include "core/publishers/decide_relay.h"

/* --- reading ------------------------------------------------------------------------------------------------------ */

static enum error read_name(struct call *call, struct bytes *name)
{
    enum error error = params_required_text(&call->params, "RelayName", name);
    if (error != OK || text_is_word(*name, RELAY_RECORD_NAME_SIZE_MAX))
        return error;
    return params_invalid(&call->params, "RelayName", *name,
                          "It must be 1 to 80 letters, digits, hyphens and underscores.");
}

static enum error find_relay(struct call *call, const struct relay_record **record)
{
    struct bytes name;
    enum error error = read_name(call, &name);
    if (error != OK)
        return error;
    *record = relay_record_find(call->core, name);
    return *record != NULL
               ? OK
               : call_fail(call, ERROR_RELAY_DOES_NOT_EXIST, "There is no relay '%.*s'.", BYTES_FORMAT(name));
}

static enum error read_order(struct call *call, const char **order)
{
    struct bytes text = BYTES("group");
    enum error error = params_text(&call->params, "Order", &text);
    if (error != OK)
        return error;
    *order = bytes_equal(text, BYTES("strict")) ? "strict" : "group";
    return bytes_equal(text, bytes_from_string(*order))
               ? OK
               : params_invalid(&call->params, "Order", text, "It must be group or strict.");
}

static enum error read_side(struct call *call, const char *name, yyjson_val **side)
{
    enum error error = params_object(&call->params, name, side);
    if (error == OK && *side == NULL)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter %s.", name);
    return error;
}

/* The settings of the relay as the request gives them. */
struct asked {
    yyjson_val *source, *sink;
    const char *order;
};

static enum error read_asked(struct call *call, struct asked *asked)
{
    enum error error = read_side(call, "Source", &asked->source);
    if (error == OK)
        error = read_side(call, "Sink", &asked->sink);
    if (error == OK)
        error = read_order(call, &asked->order);
    if (error != OK)
        return error;
    const struct relay_control *control = call_options(call)->relays;
    char reason[RELAY_REASON_SIZE];
    if (control != NULL && !control->check(control->context, asked->source, asked->sink, asked->order, reason))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "%s", reason);
    return OK;
}

/* The same as the text that is stored, in the arena. */
static enum error make_spec(struct call *call, const struct asked *asked, struct bytes *spec)
{
    yyjson_mut_doc *doc = json_tree_create(call->arena);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_val(doc, root, "Source", yyjson_val_mut_copy(doc, asked->source));
    yyjson_mut_obj_add_val(doc, root, "Sink", yyjson_val_mut_copy(doc, asked->sink));
    yyjson_mut_obj_add_str(doc, root, "Order", asked->order);
    *spec = json_tree_write(doc, call->arena);
    if (spec->size <= RELAY_RECORD_SPEC_SIZE_MAX)
        return OK;
    return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                     "Source and Sink are %zu bytes as JSON; the limit is %u. Leave out what a relay does not read.",
                     spec->size, RELAY_RECORD_SPEC_SIZE_MAX);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_brief(struct call *call, const struct relay_record *record)
{
    writer_text(call->reply, "RelayName", record->name_owned);
    writer_boolean(call->reply, "Paused", record->is_paused);
}

static void write_parked_row(struct writer *writer, const struct relay_parked_row *doubt)
{
    writer_object_begin(writer, NULL);
    writer_number(writer, "Id", doubt->id);
    writer_string(writer, "Uid", doubt->uid);
    if (doubt->queue.size > 0)
        writer_text(writer, "QueueName", doubt->queue);
    if (doubt->group.size > 0)
        writer_text(writer, "MessageGroupId", doubt->group);
    writer_text(writer, "Error", doubt->error);
    writer_boolean(writer, "IsInDoubt", doubt->is_in_doubt);
    writer_time(writer, "Since", doubt->since_ms);
    writer_object_end(writer);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* Are the arguments the same, whatever the order of their members? */
static bool is_same_spec(const struct call *call, struct bytes a, struct bytes b)
{
    return yyjson_equals(params_parse_text(a, call->arena), params_parse_text(b, call->arena));
}

/* Is there room for one more? */
static enum error admit(struct call *call, const struct asked *asked)
{
    const struct relay_control *control = call_options(call)->relays;
    char reason[RELAY_REASON_SIZE];
    if (relay_record_count(call->core) >= RELAY_RECORDS_MAX)
        return call_fail(call, ERROR_OVER_LIMIT, "There are %u relays, as many as there can be.", RELAY_RECORDS_MAX);
    if (control == NULL || control->admit(control->context, asked->source, asked->sink, asked->order, reason))
        return OK;
    return call_fail(call, ERROR_OVER_LIMIT, "%s", reason);
}

static void note_change(const struct call *call)
{
    const struct relay_control *control = call_options(call)->relays;
    if (control != NULL)
        control->note_change(control->context);
}

enum error action_create_relay(struct call *call)
{
    struct bytes name, spec;
    struct asked asked;
    enum error error = read_name(call, &name);
    if (error == OK)
        error = read_asked(call, &asked);
    if (error == OK)
        error = make_spec(call, &asked, &spec);
    if (error != OK)
        return error;
    const struct relay_record *record = relay_record_find(call->core, name);
    if (record != NULL && !is_same_spec(call, record->spec_owned, spec))
        return call_fail(call, ERROR_RELAY_ALREADY_EXISTS,
                         "There is a relay '%.*s' with another Source, Sink or Order: delete it first, or choose "
                         "another name.",
                         BYTES_FORMAT(name));
    if (record == NULL)
        error = admit(call, &asked);
    if (record == NULL && error == OK)
        error = decide_put_relay(call->core, name, spec, &record);
    if (error != OK)
        return error;
    note_change(call);
    write_brief(call, record);
    return OK;
}

enum error action_describe_relay(struct call *call)
{
    const struct relay_record *record;
    enum error error = find_relay(call, &record);
    if (error == OK)
        relay_view_write(call, record);
    return error;
}

static enum error pause(struct call *call, bool is_paused)
{
    const struct relay_record *record;
    enum error error = find_relay(call, &record);
    if (error != OK)
        return error;
    decide_pause_relay(call->core, record, is_paused);
    note_change(call);
    write_brief(call, record);
    return OK;
}

enum error action_pause_relay(struct call *call)
{
    return pause(call, true);
}

enum error action_resume_relay(struct call *call)
{
    const struct relay_record *record;
    const struct relay_control *control = call_options(call)->relays;
    char reason[RELAY_REASON_SIZE];
    enum error error = find_relay(call, &record);
    if (error == OK && control != NULL && !control->can_run(control->context, core_name(call->core), record, reason))
        return call_fail(call, ERROR_OVER_LIMIT, "%s", reason);
    return error == OK ? pause(call, false) : error;
}

enum error action_delete_relay(struct call *call)
{
    const struct relay_record *record;
    enum error error = find_relay(call, &record);
    if (error != OK)
        return error;
    decide_delete_relay(call->core, record);
    note_change(call);
    return OK;
}

/* Relays in order of name. */
enum error action_list_relays(struct call *call)
{
    struct bytes from = {NULL, 0};
    int64_t results_max;
    bool is_paged;
    enum error error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    uint32_t first = relay_record_index(call->core, from);
    uint32_t end = relay_record_count(call->core);
    uint32_t page_end = end - first > (uint64_t)results_max ? first + (uint32_t)results_max : end;
    writer_list_begin(call->reply, "Relays");
    for (uint32_t i = first; i < page_end; i++) {
        writer_object_begin(call->reply, NULL);
        relay_view_write(call, relay_record_at(call->core, i));
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
    if (page_end < end)
        call_seal_token(call, relay_record_at(call->core, page_end)->name_owned);
    return OK;
}

/* --- doubts ------------------------------------------------------------------------------------------------------- */

static void list_parked(struct call *call, const struct relay_record *record, struct relay_parked_row **doubts,
                        size_t *count)
{
    const struct relay_control *control = call_options(call)->relays;
    *count = 0;
    if (control != NULL)
        control->list_parked(control->context, core_name(call->core), record, call->arena, doubts, count);
}

/* A page starts at a position in the list. If a row is resolved between two pages, the others move up. */
enum error action_list_doubts(struct call *call)
{
    const struct relay_record *record;
    struct relay_parked_row *doubts;
    size_t count;
    uint64_t index = 0;
    int64_t results_max;
    enum error error = find_relay(call, &record);
    if (error == OK)
        error = call_page(call, &index, &results_max);
    if (error != OK)
        return error;
    list_parked(call, record, &doubts, &count);
    writer_list_begin(call->reply, "Doubts");
    for (; index < count && results_max > 0; index++, results_max--)
        write_parked_row(call->reply, &doubts[index]);
    writer_list_end(call->reply);
    if (index < count)
        call_write_token(call, &index, 1);
    return OK;
}

/* Which doubt the request means: named by Uid, or by Id if it gives no Uid. */
struct parked_row_name {
    struct bytes uid;
    int64_t id;
};

static enum error read_parked_row_name(struct call *call, struct parked_row_name *name)
{
    bool has_id;
    *name = (struct parked_row_name){.id = 0};
    enum error error = params_text(&call->params, "Uid", &name->uid);
    if (error == OK)
        error = params_integer(&call->params, "Id", &name->id, &has_id);
    if (error != OK || has_id != (name->uid.size > 0))
        return error;
    return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                     "The request must contain either Id or Uid, as ListDoubts shows them.");
}

static bool is_meant(const struct parked_row_name *name, const struct relay_parked_row *doubt)
{
    if (name->uid.size > 0)
        return bytes_equal(name->uid, bytes_from_string(doubt->uid));
    return name->id >= 0 && (uint64_t)name->id == doubt->id;
}

static enum error find_parked_row(struct call *call, const struct relay_record *record,
                                  const struct relay_parked_row **doubt)
{
    struct parked_row_name name;
    struct relay_parked_row *doubts;
    size_t count;
    enum error error = read_parked_row_name(call, &name);
    if (error != OK)
        return error;
    list_parked(call, record, &doubts, &count);
    for (size_t i = 0; i < count; i++) {
        if (!is_meant(&name, &doubts[i]))
            continue;
        *doubt = &doubts[i];
        return OK;
    }
    return call_fail(call, ERROR_DOUBT_DOES_NOT_EXIST,
                     "Relay '%.*s' has no parked row of that Id or Uid; ListDoubts shows those that it has.",
                     BYTES_FORMAT(record->name_owned));
}

static enum error read_resolution(struct call *call, bool *is_to_be_sent)
{
    struct bytes text;
    enum error error = params_required_text(&call->params, "Action", &text);
    if (error != OK)
        return error;
    *is_to_be_sent = bytes_equal(text, BYTES("send"));
    return *is_to_be_sent || bytes_equal(text, BYTES("drop"))
               ? OK
               : params_invalid(&call->params, "Action", text, "It must be send or drop.");
}

enum error action_resolve_doubt(struct call *call)
{
    const struct relay_record *record;
    const struct relay_parked_row *doubt = NULL;
    bool is_to_be_sent = false;
    enum error error = find_relay(call, &record);
    if (error == OK)
        error = read_resolution(call, &is_to_be_sent);
    if (error == OK)
        error = find_parked_row(call, record, &doubt);
    if (error != OK)
        return error;
    const struct relay_control *control = call_options(call)->relays;
    control->resolve(control->context, core_name(call->core), record, doubt, is_to_be_sent);
    call->has_acted = true;
    return OK;
}
