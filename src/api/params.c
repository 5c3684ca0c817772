#include "api/params.h"

#include "auth/json_tree.h"
#include <stdalign.h>

/* A message repeats a value whole, as SQS does. Of a longer value it shows the beginning and the size. */
#define SHOWN_SIZE_MAX 1500u

enum error params_parse(struct bytes body, struct arena *arena, struct failure *failure, struct params *params)
{
    static const struct bytes empty_object = {(const uint8_t *)"{}", 2};
    yyjson_doc *doc = json_tree_parse(body.size == 0 ? empty_object : body, arena);
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (!yyjson_is_obj(root))
        return failure_set(failure, ERROR_SERIALIZATION,
                           doc == NULL ? "The body is not valid JSON." : "The body is JSON, but not an object.");
    *params = (struct params){.object = root, .failure = failure};
    return OK;
}

yyjson_val *params_parse_text(struct bytes text, struct arena *arena)
{
    yyjson_val *root = yyjson_doc_get_root(json_tree_parse(text, arena));
    return yyjson_is_obj(root) ? root : NULL;
}

/* The member; NULL if it is absent or null. */
static yyjson_val *find(const struct params *params, const char *name)
{
    yyjson_val *value = yyjson_obj_get(params->object, name);
    return yyjson_is_null(value) ? NULL : value;
}

static enum error wrong_type(const struct params *params, const char *name, const char *wanted)
{
    return failure_set(params->failure, ERROR_SERIALIZATION, "The value of %s can not be converted to %s.", name,
                       wanted);
}

enum error params_text(const struct params *params, const char *name, struct bytes *value)
{
    yyjson_val *found = find(params, name);
    if (found == NULL)
        return OK;
    if (!yyjson_is_str(found))
        return wrong_type(params, name, "a String");
    *value = params_bytes(found);
    return OK;
}

enum error params_required_text(const struct params *params, const char *name, struct bytes *value)
{
    struct bytes text = {NULL, 0};
    enum error error = params_text(params, name, &text);
    if (error != OK)
        return error;
    if (text.size == 0)
        return failure_set(params->failure, ERROR_MISSING_PARAMETER, "The request must contain the parameter %s.",
                           name);
    *value = text;
    return OK;
}

enum error params_integer(const struct params *params, const char *name, int64_t *value, bool *is_given)
{
    yyjson_val *found = find(params, name);
    *is_given = found != NULL;
    if (found == NULL)
        return OK;
    if (yyjson_is_uint(found)) {
        uint64_t number = yyjson_get_uint(found);
        *value = number > INT64_MAX ? INT64_MAX : (int64_t)number;
        return OK;
    }
    if (yyjson_is_sint(found)) {
        *value = yyjson_get_sint(found);
        return OK;
    }
    return wrong_type(params, name, "an Integer");
}

enum error params_integer_in(const struct params *params, const char *name, int64_t min, int64_t max,
                             const char *reason, int64_t *value)
{
    int64_t number = 0;
    bool is_given;
    enum error error = params_integer(params, name, &number, &is_given);
    if (error != OK || !is_given)
        return error;
    if (number < min || number > max)
        return failure_set(params->failure, ERROR_INVALID_PARAMETER_VALUE,
                           "Value %lld for parameter %s is invalid. Reason: %s", (long long)number, name, reason);
    *value = number;
    return OK;
}

enum error params_boolean(const struct params *params, const char *name, bool *value)
{
    yyjson_val *found = find(params, name);
    if (found == NULL)
        return OK;
    bool is_true = yyjson_is_true(found) || yyjson_equals_str(found, "true");
    if (!is_true && !yyjson_is_false(found) && !yyjson_equals_str(found, "false"))
        return wrong_type(params, name, "a Boolean");
    *value = is_true;
    return OK;
}

enum error params_list(const struct params *params, const char *name, yyjson_val **value)
{
    *value = find(params, name);
    return *value == NULL || yyjson_is_arr(*value) ? OK : wrong_type(params, name, "a List");
}

enum error params_object(const struct params *params, const char *name, yyjson_val **value)
{
    *value = find(params, name);
    return *value == NULL || yyjson_is_obj(*value) ? OK : wrong_type(params, name, "a Map");
}

enum error params_names(const struct params *params, const char *name, yyjson_val **value)
{
    enum error error = params_list(params, name, value);
    if (error == OK && yyjson_arr_size(*value) > PARAMS_NAMES_MAX)
        error = failure_set(params->failure, ERROR_INVALID_PARAMETER_VALUE, "%s holds %zu names; at most %u are taken.",
                            name, yyjson_arr_size(*value), PARAMS_NAMES_MAX);
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(*value, index, count, item)
    {
        if (error == OK && !yyjson_is_str(item))
            error = wrong_type(params, name, "a List of Strings");
    }
    return error;
}

/* Its values, then the texts, rounded up so that another list may follow. */
size_t params_names_size(yyjson_val *names)
{
    if (names == NULL)
        return 0;
    size_t size = (yyjson_arr_size(names) + 1) * sizeof(yyjson_val);
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(names, index, count, item) size += yyjson_get_len(item);
    return (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

yyjson_val *params_names_copy(yyjson_val *names, uint8_t *memory)
{
    if (names == NULL)
        return NULL;
    /* A list of scalars is contiguous: first its own value, then theirs. */
    yyjson_val *copy = (yyjson_val *)(void *)memory;
    size_t count = yyjson_arr_size(names);
    memcpy(copy, names, (count + 1) * sizeof(*copy));
    uint8_t *text = memory + (count + 1) * sizeof(*copy);
    for (yyjson_val *item = copy + 1; item <= copy + count; item++) {
        size_t size = yyjson_get_len(item);
        memcpy(text, yyjson_get_str(item), size);
        item->uni.str = (const char *)text;
        text += size;
    }
    return copy;
}

bool params_scalar_text(yyjson_val *value, struct arena *arena, struct bytes *text)
{
    if (yyjson_is_str(value))
        *text = params_bytes(value);
    else if (yyjson_is_bool(value))
        *text = yyjson_get_bool(value) ? BYTES("true") : BYTES("false");
    else if (yyjson_is_uint(value))
        *text = arena_format(arena, "%llu", (unsigned long long)yyjson_get_uint(value));
    else if (yyjson_is_sint(value))
        *text = arena_format(arena, "%lld", (long long)yyjson_get_sint(value));
    else
        return false;
    return true;
}

enum error params_invalid(const struct params *params, const char *name, struct bytes value, const char *reason)
{
    if (value.size > SHOWN_SIZE_MAX)
        return failure_set(params->failure, ERROR_INVALID_PARAMETER_VALUE,
                           "Value %.*s... (%zu bytes) for parameter %s is invalid. Reason: %s", (int)SHOWN_SIZE_MAX,
                           (const char *)value.ptr, value.size, name, reason);
    return failure_set(params->failure, ERROR_INVALID_PARAMETER_VALUE,
                       "Value %.*s for parameter %s is invalid. Reason: %s", BYTES_FORMAT(value), name, reason);
}
