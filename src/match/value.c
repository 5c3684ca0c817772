#include "match/value.h"

#include "base/accounted.h"
#include "base/assert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void *take(void *context, size_t size)
{
    (void)context;
    return accounted_allocate(size);
}

static void *retake(void *context, void *old, size_t old_size, size_t size)
{
    (void)context;
    (void)old_size;
    return accounted_resize(old, size);
}

static void give_back(void *context, void *memory)
{
    (void)context;
    accounted_free(memory);
}

const yyjson_alc value_memory = {.malloc = take, .realloc = retake, .free = give_back, .ctx = NULL};

void value_show(yyjson_val *value, char shown[VALUE_SHOWN_SIZE])
{
    if (yyjson_is_str(value))
        snprintf(shown, VALUE_SHOWN_SIZE, "\"%.64s%s\"", yyjson_get_str(value), yyjson_get_len(value) > 64 ? "…" : "");
    else if (yyjson_is_sint(value))
        snprintf(shown, VALUE_SHOWN_SIZE, "%lld", (long long)yyjson_get_sint(value));
    else if (yyjson_is_uint(value))
        snprintf(shown, VALUE_SHOWN_SIZE, "%llu", (unsigned long long)yyjson_get_uint(value));
    else if (yyjson_is_real(value))
        snprintf(shown, VALUE_SHOWN_SIZE, "%.17g", yyjson_get_real(value));
    else if (yyjson_is_bool(value))
        snprintf(shown, VALUE_SHOWN_SIZE, "%s", yyjson_get_bool(value) ? "true" : "false");
    else
        snprintf(shown, VALUE_SHOWN_SIZE, "%s",
                 yyjson_is_arr(value)   ? "a list"
                 : yyjson_is_obj(value) ? "an object"
                                        : "null");
}

enum error value_fault(struct failure *failure, const char *path, const char *wanted, yyjson_val *value)
{
    char shown[VALUE_SHOWN_SIZE];
    if (value == NULL)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s is missing: it must be %s.", path, wanted);
    value_show(value, shown);
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s must be %s, not %s.", path, wanted, shown);
}

bool value_number(yyjson_val *value, double *number)
{
    if (!yyjson_is_num(value) || !isfinite(yyjson_get_num(value)))
        return false;
    /* Minus zero becomes zero, because some code compares the bits. */
    *number = yyjson_get_num(value) + 0.0;
    return true;
}

bool value_whole(yyjson_val *value, uint32_t min, uint32_t max, uint32_t *number)
{
    double given;
    if (!value_number(value, &given) || given < min || given > max || given != (uint32_t)given)
        return false;
    *number = (uint32_t)given;
    return true;
}

/* "attr, max, min" for the fault of an unknown member. */
static void name_members(const char *const *names, uint32_t count, uint32_t allowed, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        if ((allowed & 1u << i) == 0 || used >= size)
            continue;
        int added = snprintf(out + used, size - used, "%s%s", used == 0 ? "" : ", ", names[i]);
        ASSERT(added > 0);
        used += (size_t)added;
    }
}

static uint32_t find_name(const char *const *names, uint32_t count, struct bytes name)
{
    for (uint32_t i = 0; i < count; i++)
        if (bytes_equal(name, bytes_from_string(names[i])))
            return i;
    return count;
}

enum error value_members(struct failure *failure, const char *path, yyjson_val *object, const char *const *names,
                         uint32_t count, uint32_t allowed, yyjson_val **values)
{
    size_t index, size;
    yyjson_val *key, *value;
    char shown[VALUE_SHOWN_SIZE], known[VALUE_PATH_SIZE];
    ASSERT(count <= 32);
    memset(values, 0, count * sizeof(*values));
    if (!yyjson_is_obj(object))
        return value_fault(failure, path, "an object", object);
    yyjson_obj_foreach(object, index, size, key, value)
    {
        uint32_t member = find_name(names, count, value_text(key));
        bool is_known = member < count && (allowed & 1u << member) != 0;
        if (is_known && values[member] == NULL) {
            values[member] = value;
            continue;
        }
        value_show(key, shown);
        name_members(names, count, allowed, known, sizeof(known));
        if (is_known)
            return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s has %s twice.", path, shown);
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "%s has %s, but can only have: %s.", path, shown,
                           known);
    }
    return OK;
}
