#include "api/pool_spec.h"

#include "auth/json_tree.h"

#define TTL_MAX_S 31536000
#define WINDOW_MAX_MS 10000
#define CONFIRM_MAX_S 600
#define RESULTS_MAX 1000000000
#define RETENTION_LEAST_S 60
#define RETENTION_MAX_S 1209600
#define RETENTION_DEFAULT_S 86400
#define SIZE_DEFAULT 2

static const char *const matcher_names[] = {
    [MATCHER_BUILT_IN] = "built-in",
    [MATCHER_EXTERNAL] = "external",
    [MATCHER_BOTH] = "both",
};

/* --- queues, choices and numbers ---------------------------------------------------------------------------------- */

/* *id does not change if the member is absent, and is 0 if it is empty. */
static enum error read_queue(struct call *call, const char *member, uint32_t *id)
{
    struct bytes url = {NULL, 0};
    struct queue *queue;
    enum error error = params_text(&call->params, member, &url);
    if (error != OK || url.ptr == NULL)
        return error;
    if (url.size == 0) {
        *id = 0;
        return OK;
    }
    error = call_find_queue_at(call, url, &queue);
    if (error != OK)
        return error;
    if (queue->settings.is_fifo)
        return params_invalid(&call->params, member, url, "It must be a standard queue.");
    *id = queue->id;
    return OK;
}

static enum error read_queues(struct call *call, struct pool_spec *spec)
{
    enum error error = read_queue(call, "ResultQueueUrl", &spec->result_queue);
    if (error == OK && spec->result_queue == 0)
        error = call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter ResultQueueUrl.");
    return error == OK ? read_queue(call, "OnExpiryQueueUrl", &spec->expiry_queue) : error;
}

static enum error read_matcher(struct call *call, struct pool_spec *spec)
{
    struct bytes text = bytes_from_string(matcher_names[spec->matcher]);
    enum error error = params_text(&call->params, "Matcher", &text);
    if (error != OK)
        return error;
    for (enum matcher_kind kind = MATCHER_BUILT_IN; kind <= MATCHER_BOTH; kind++) {
        if (!bytes_equal(text, bytes_from_string(matcher_names[kind])))
            continue;
        spec->matcher = kind;
        return OK;
    }
    return params_invalid(&call->params, "Matcher", text, "It must be built-in, external or both.");
}

/* A number that the spec keeps in smaller units: the request's unit is `unit` of them. */
static enum error read_number(struct call *call, const char *member, int64_t least, int64_t most, uint64_t unit,
                              uint64_t *value)
{
    int64_t number = (int64_t)(*value / unit);
    struct bytes reason =
        arena_format(call->arena, "It must be from %lld to %lld.%c", (long long)least, (long long)most, '\0');
    enum error error = params_integer_in(&call->params, member, least, most, (const char *)reason.ptr, &number);
    if (error == OK)
        *value = (uint64_t)number * unit;
    return error;
}

static enum error read_numbers(struct call *call, struct pool_spec *spec)
{
    uint64_t retention_s = spec->retention_s;
    enum error error = read_number(call, "WindowMilliseconds", 0, WINDOW_MAX_MS, 1, &spec->window_ms);
    if (error == OK)
        error = read_number(call, "TicketTtlSeconds", 0, TTL_MAX_S, 1000, &spec->ttl_ms);
    if (error == OK)
        error = read_number(call, "ConfirmSeconds", 0, CONFIRM_MAX_S, 1000, &spec->confirm_ms);
    if (error == OK)
        error = read_number(call, "ResultsMax", 0, RESULTS_MAX, 1, &spec->results_max);
    if (error == OK)
        error = read_number(call, "RetentionSeconds", RETENTION_LEAST_S, RETENTION_MAX_S, 1, &retention_s);
    if (error == OK)
        error = params_boolean(&call->params, "Verify", &spec->verifies);
    spec->retention_s = (uint32_t)retention_s;
    return error;
}

/* --- the rules ---------------------------------------------------------------------------------------------------- */

/* The members of the rules' text, from the request or from the existing pool. */
struct rules_parts {
    yyjson_val *attributes;
    yyjson_val *rules;
    yyjson_val *size;
    yyjson_val *teams;
    yyjson_val *pick;
};

static yyjson_val *given(const struct call *call, const char *name)
{
    yyjson_val *value = yyjson_obj_get(call->params.object, name);
    return yyjson_is_null(value) ? NULL : value;
}

/* Checks only the types; rules_create() reads their contents. */
static enum error read_parts(struct call *call, struct rules_parts *parts)
{
    int64_t size;
    bool has_size;
    struct bytes pick;
    *parts = (struct rules_parts){.size = given(call, "Size"), .pick = given(call, "Pick")};
    enum error error = params_object(&call->params, "Attributes", &parts->attributes);
    if (error == OK)
        error = params_list(&call->params, "Rules", &parts->rules);
    if (error == OK)
        error = params_list(&call->params, "Teams", &parts->teams);
    if (error == OK)
        error = params_integer(&call->params, "Size", &size, &has_size);
    if (error == OK)
        error = params_text(&call->params, "Pick", &pick);
    if (error == OK && has_size && parts->teams != NULL)
        error = call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                          "The request can't contain both Size and Teams: the teams' sizes are the size.");
    return error;
}

/* Attributes are only added: existing ones keep their position. */
static enum error add_attributes(struct call *call, yyjson_mut_doc *doc, yyjson_mut_val *all, yyjson_val *more)
{
    size_t index, count;
    yyjson_val *name, *type;
    yyjson_obj_foreach(more, index, count, name, type)
    {
        yyjson_mut_val *old = yyjson_mut_obj_getn(all, yyjson_get_str(name), yyjson_get_len(name));
        if (old == NULL)
            yyjson_mut_obj_add(all, yyjson_val_mut_copy(doc, name), yyjson_val_mut_copy(doc, type));
        else if (!yyjson_is_str(type) || !yyjson_mut_equals_strn(old, yyjson_get_str(type), yyjson_get_len(type)))
            return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                             "The attribute '%.*s' is a \"%s\" in this pool and can't become another: attributes can "
                             "only be added.",
                             BYTES_FORMAT(params_bytes(name)), yyjson_mut_get_str(old));
    }
    return OK;
}

static void add_part(yyjson_mut_doc *doc, const char *name, yyjson_val *part)
{
    yyjson_mut_obj_add_val(doc, yyjson_mut_doc_get_root(doc), name, yyjson_val_mut_copy(doc, part));
}

/* Size or Teams: from the request, else from the pool, else two. */
static void add_size(yyjson_mut_doc *doc, const struct rules_parts *parts, yyjson_val *old)
{
    bool is_new = parts->size != NULL || parts->teams != NULL;
    yyjson_val *size = is_new ? parts->size : yyjson_obj_get(old, "size");
    yyjson_val *teams = is_new ? parts->teams : yyjson_obj_get(old, "teams");
    if (teams != NULL)
        add_part(doc, "teams", teams);
    else if (size != NULL)
        add_part(doc, "size", size);
    else
        yyjson_mut_obj_add_uint(doc, yyjson_mut_doc_get_root(doc), "size", SIZE_DEFAULT);
}

/* The whole text, even if its rules are wrong. `old` is the tree of the pool's rules, or NULL. */
static enum error write_rules(struct call *call, const struct rules_parts *parts, yyjson_val *old, struct bytes *text)
{
    yyjson_mut_doc *doc = json_tree_create(call->arena);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_val *rules = parts->rules != NULL ? parts->rules : yyjson_obj_get(old, "rules");
    yyjson_val *pick = parts->pick != NULL ? parts->pick : yyjson_obj_get(old, "pick");
    yyjson_mut_val *attributes =
        old == NULL ? yyjson_mut_obj(doc) : yyjson_val_mut_copy(doc, yyjson_obj_get(old, "attrs"));
    yyjson_mut_obj_add_val(doc, root, "attrs", attributes);
    enum error error = add_attributes(call, doc, attributes, parts->attributes);
    if (error != OK)
        return error;
    if (rules != NULL)
        add_part(doc, "rules", rules);
    else
        yyjson_mut_obj_add_val(doc, root, "rules", yyjson_mut_arr(doc));
    add_size(doc, parts, old);
    if (pick != NULL)
        add_part(doc, "pick", pick);
    else
        yyjson_mut_obj_add_str(doc, root, "pick", "oldest");
    *text = json_tree_write(doc, call->arena);
    return OK;
}

static enum error check_rules(struct call *call, const struct ticket_pool *old, const struct pool_spec *spec)
{
    if (spec->rules.size > RULES_TEXT_SIZE_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Attributes, Rules, Teams and Pick are %zu bytes as JSON; the limit is %u.", spec->rules.size,
                         RULES_TEXT_SIZE_MAX);
    struct rules *rules = rules_create(spec->rules, call->failure);
    if (rules == NULL)
        return call->failure->error;
    enum error error = OK;
    if (rules->weight == 0 && spec->matcher != MATCHER_EXTERNAL)
        error = call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                          "Size can be 0, groups of any weight, only where Matcher is external: the built-in matcher "
                          "must know when a group is whole.");
    else if (old != NULL && !rules_extend(rules, old->rules_owned))
        error = call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Attributes can only be added.");
    rules_destroy(rules);
    return error;
}

static enum error read_rules(struct call *call, const struct ticket_pool *old, struct pool_spec *spec)
{
    struct rules_parts parts;
    struct bytes text;
    yyjson_val *before = old == NULL ? NULL : params_parse_text(old->spec.rules, call->arena);
    enum error error = read_parts(call, &parts);
    if (error == OK)
        error = write_rules(call, &parts, before, &text);
    if (error != OK)
        return error;
    if (before == NULL || !yyjson_equals(params_parse_text(text, call->arena), before))
        spec->rules = text;
    return check_rules(call, old, spec);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

enum error pool_spec_read(struct call *call, const struct ticket_pool *old, struct pool_spec *spec)
{
    static const struct pool_spec defaults = {.matcher = MATCHER_BUILT_IN, .retention_s = RETENTION_DEFAULT_S};
    struct pool_spec read = old == NULL ? defaults : old->spec;
    enum error error = read_queues(call, &read);
    if (error == OK)
        error = read_matcher(call, &read);
    if (error == OK)
        error = read_numbers(call, &read);
    if (error == OK)
        error = read_rules(call, old, &read);
    if (error == OK)
        *spec = read;
    return error;
}

bool pool_spec_equal(const struct call *call, const struct pool_spec *a, const struct pool_spec *b)
{
    bool is_equal = a->result_queue == b->result_queue && a->expiry_queue == b->expiry_queue &&
                    a->matcher == b->matcher && a->verifies == b->verifies && a->retention_s == b->retention_s &&
                    a->window_ms == b->window_ms && a->ttl_ms == b->ttl_ms && a->confirm_ms == b->confirm_ms &&
                    a->results_max == b->results_max;
    return is_equal &&
           yyjson_equals(params_parse_text(a->rules, call->arena), params_parse_text(b->rules, call->arena));
}

static void write_queue(struct call *call, const char *member, uint32_t id)
{
    const struct queue *queue = id == 0 ? NULL : core_find_queue_by_id(call->core, id);
    if (queue != NULL)
        writer_text(call->reply, member, call_queue_url(call, queue));
}

void pool_spec_write(struct call *call, const struct pool_spec *spec)
{
    struct writer *writer = call->reply;
    write_queue(call, "ResultQueueUrl", spec->result_queue);
    write_queue(call, "OnExpiryQueueUrl", spec->expiry_queue);
    writer_string(writer, "Matcher", matcher_names[spec->matcher]);
    writer_number(writer, "WindowMilliseconds", spec->window_ms);
    writer_number(writer, "TicketTtlSeconds", spec->ttl_ms / 1000);
    writer_number(writer, "ConfirmSeconds", spec->confirm_ms / 1000);
    writer_boolean(writer, "Verify", spec->verifies);
    writer_number(writer, "ResultsMax", spec->results_max);
    writer_number(writer, "RetentionSeconds", spec->retention_s);
}
