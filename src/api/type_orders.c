/* PutTypeOrder, ListTypeOrders and DeleteTypeOrder. */
#include "api/action.h"
#include "api/text.h"
#include "core/order/decide_type_order.h"

#define RETENTION_DEFAULT_S 1209600

static const char name_rule[] = "It must be 1 to 128 letters, digits or punctuation characters.";

static enum error read_name(struct call *call, struct bytes *name)
{
    enum error error = params_required_text(&call->params, "Name", name);
    if (error == OK && !text_is_identifier(*name, TYPE_NAME_SIZE_MAX))
        error = params_invalid(&call->params, "Name", *name, name_rule);
    return error;
}

/* One name of Types, checked against the names before it. */
static enum error read_type(struct call *call, struct bytes name, struct type_list *list)
{
    if (!text_is_identifier(name, TYPE_NAME_SIZE_MAX))
        return params_invalid(&call->params, "Types", name, name_rule);
    for (uint32_t i = 0; i < list->count; i++)
        if (bytes_equal(list->names[i], name))
            return params_invalid(&call->params, "Types", name, "It stands in the list twice.");
    list->names[list->count++] = name;
    return OK;
}

static enum error read_types(struct call *call, struct type_list *list)
{
    yyjson_val *names;
    enum error error = params_names(&call->params, "Types", &names);
    if (error != OK)
        return error;
    if (names == NULL)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter Types.");
    size_t count = yyjson_arr_size(names);
    if (count < 2 || count > TYPES_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Types has %zu names. Reason: It must have 2 to %u, the first to come first.", count,
                         TYPES_MAX);
    list->count = 0;
    size_t index, end;
    yyjson_val *name;
    yyjson_arr_foreach(names, index, end, name)
    {
        error = read_type(call, params_bytes(name), list);
        if (error != OK)
            return error;
    }
    return OK;
}

/* Require and RetentionSeconds: 0 if Require is absent. */
static enum error read_retention(struct call *call, uint32_t *retention_s)
{
    yyjson_val *require = yyjson_obj_get(call->params.object, "Require");
    if (require != NULL && !yyjson_is_null(require) && !yyjson_is_bool(require))
        return call_fail(call, ERROR_SERIALIZATION, "Require must be true or false.");
    int64_t retention = RETENTION_DEFAULT_S;
    yyjson_val *given = yyjson_obj_get(call->params.object, "RetentionSeconds");
    if (given != NULL && !yyjson_is_null(given) && !yyjson_is_true(require))
        return call_fail(
            call, ERROR_INVALID_PARAMETER_VALUE,
            "RetentionSeconds says how long a success counts for Require. Reason: It needs Require: true.");
    enum error error = params_integer_in(&call->params, "RetentionSeconds", 1, TYPE_RETENTION_S_MAX,
                                         "Must be between 1 and 31536000.", &retention);
    *retention_s = yyjson_is_true(require) ? (uint32_t)retention : 0;
    return error;
}

static void write_order(struct call *call, const struct type_order *order)
{
    writer_text(call->reply, "Name", order->name_owned);
    writer_list_begin(call->reply, "Types");
    for (uint32_t i = 0; i < order->count; i++)
        writer_text(call->reply, NULL, type_order_type(call->core, order, i));
    writer_list_end(call->reply);
    writer_boolean(call->reply, "Require", order->retention_s > 0);
    if (order->retention_s > 0)
        writer_number(call->reply, "RetentionSeconds", order->retention_s);
}

static enum error fail_full(struct call *call, const struct type_order_command *command)
{
    if (type_order_count(call->core) >= TYPE_ORDERS_MAX && type_order_find(call->core, command->name) == NULL)
        return call_fail(call, ERROR_OVER_LIMIT, "There are %u type orders, the limit. Delete one first.",
                         TYPE_ORDERS_MAX);
    return call_fail(call, ERROR_OVER_LIMIT,
                     "With type order '%.*s' more than %u types would be in use, the limit of a namespace: those that "
                     "orders name, and those of unfinished messages. Delete an order that is not needed.",
                     BYTES_FORMAT(command->name), TYPES_MAX);
}

enum error action_put_type_order(struct call *call)
{
    struct type_order_command command = {.name = {NULL, 0}};
    enum error error = read_name(call, &command.name);
    if (error == OK)
        error = read_types(call, &command.types);
    if (error == OK)
        error = read_retention(call, &command.retention_s);
    if (error != OK)
        return error;
    struct buffer *conflict = call_scratch(call);
    buffer_truncate(conflict, 0);
    error = decide_put_type_order(call->core, &command, conflict);
    if (error == ERROR_OVER_LIMIT)
        return fail_full(call, &command);
    if (error == ERROR_TYPE_ORDER_CONFLICT)
        return call_fail(
            call, error,
            "Type order '%.*s' contradicts what is in force: %.*s. Change the list, or delete that order first.",
            BYTES_FORMAT(command.name), BYTES_FORMAT(buffer_bytes(conflict)));
    if (error == OK)
        write_order(call, type_order_find(call->core, command.name));
    return error;
}

static void write_orders(struct call *call, uint32_t index, uint32_t end)
{
    writer_list_begin(call->reply, "TypeOrders");
    for (; index < end; index++) {
        writer_object_begin(call->reply, NULL);
        write_order(call, type_order_at(call->core, index));
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

/* In order of name. */
enum error action_list_type_orders(struct call *call)
{
    struct bytes from = {NULL, 0};
    int64_t results_max;
    bool is_paged;
    enum error error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    uint32_t index = type_order_index(call->core, from), count = type_order_count(call->core);
    uint32_t end = count - index > results_max ? index + (uint32_t)results_max : count;
    write_orders(call, index, end);
    if (end < count)
        call_seal_token(call, type_order_at(call->core, end)->name_owned);
    return OK;
}

enum error action_delete_type_order(struct call *call)
{
    struct bytes name = {NULL, 0};
    enum error error = read_name(call, &name);
    if (error == OK)
        error = decide_delete_type_order(call->core, name);
    if (error == ERROR_TYPE_ORDER_DOES_NOT_EXIST)
        return call_fail(call, error, "There is no type order '%.*s'.", BYTES_FORMAT(name));
    return error;
}
