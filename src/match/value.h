/* JSON values from outside as rules and tickets give them: read with their type and limits, and a fault that names
 * place and value, like "rules[2].max must be a number from 0 on, not \"x\"". Pure. */
#ifndef TALLY_MATCH_VALUE_H
#define TALLY_MATCH_VALUE_H

#include "base/error.h"
#include <yyjson.h>

/* Longer values are shown by their beginning. */
#define VALUE_SHOWN_SIZE 100u
#define VALUE_PATH_SIZE 192u

/* Memory from base/memory.h, for yyjson. */
extern const yyjson_alc value_memory;

/* A string's bytes; empty for anything else. */
static inline struct bytes value_text(yyjson_val *value)
{
    return yyjson_is_str(value) ? bytes_make(yyjson_get_str(value), yyjson_get_len(value)) : bytes_make(NULL, 0);
}

/* The value as a person is shown it: as JSON writes it, or "a list", "an object". NUL-terminated. */
void value_show(yyjson_val *value, char shown[VALUE_SHOWN_SIZE]);

/* "PATH must be WANTED, not VALUE", or "PATH is missing: it must be WANTED" without a value.
 * ERROR_INVALID_PARAMETER_VALUE. */
enum error value_fault(struct failure *failure, const char *path, const char *wanted, yyjson_val *value);

/* A finite number / a whole one from `min` to `max`. False, with *number untouched, if it is none. */
bool value_number(yyjson_val *value, double *number);
bool value_whole(yyjson_val *value, uint32_t min, uint32_t max, uint32_t *number);

/* The members of an object: values[i] is that of names[i], NULL if it is absent. Faults: no object; a member that is
 * not among those of `allowed` (bit i: names[i]), or that stands twice. O(members x count). */
enum error value_members(struct failure *failure, const char *path, yyjson_val *object, const char *const *names,
                         uint32_t count, uint32_t allowed, yyjson_val **values);

#endif
