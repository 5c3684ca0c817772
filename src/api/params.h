/* The parameters of an action: a tree of named values, read with limits and clear errors.
 *
 * An action reads this and never the wire form; the tree comes from AWS JSON, or from a form (query.h). Views live as
 * long as the exchange. */
#ifndef TALLY_API_PARAMS_H
#define TALLY_API_PARAMS_H

#include "base/arena.h"
#include "base/error.h"
#include <yyjson.h>

#define PARAMS_NAMES_MAX 1000u

/* An object of the request: the root, or an entry of a list. */
struct params {
    yyjson_val *object;
    struct failure *failure; /* where the first fault is described */
};

/* Reads a JSON object; an empty body counts as {}. ERROR_SERIALIZATION. */
enum error params_parse(struct bytes body, struct arena *arena, struct failure *failure, struct params *params);

/* Parses a text inside a request (RedrivePolicy) as a JSON object; NULL if it is not one. */
yyjson_val *params_parse_text(struct bytes text, struct arena *arena);

/* A text; absent or null: *value does not change. ERROR_SERIALIZATION for another type. */
enum error params_text(const struct params *params, const char *name, struct bytes *value);

/* The same, but ERROR_MISSING_PARAMETER if it is absent or empty. */
enum error params_required_text(const struct params *params, const char *name, struct bytes *value);

/* An integer; absent: *value does not change, and *is_given is false. ERROR_SERIALIZATION. */
enum error params_integer(const struct params *params, const char *name, int64_t *value, bool *is_given);

/* The same, in a range: otherwise ERROR_INVALID_PARAMETER_VALUE with SQS's `reason` ("Must be between 1 and 10 …"). */
enum error params_integer_in(const struct params *params, const char *name, int64_t min, int64_t max,
                             const char *reason, int64_t *value);

/* true or false (also as text); absent: *value does not change. ERROR_SERIALIZATION. */
enum error params_boolean(const struct params *params, const char *name, bool *value);

/* An array / object of that name; *value is NULL if it is absent. ERROR_SERIALIZATION for another type. */
enum error params_list(const struct params *params, const char *name, yyjson_val **value);
enum error params_object(const struct params *params, const char *name, yyjson_val **value);

/* The same for an array of strings: ERROR_SERIALIZATION if an item is not a string. ERROR_INVALID_PARAMETER_VALUE: it
 * has more than PARAMS_NAMES_MAX, because a reader may search it for each of its things. */
enum error params_names(const struct params *params, const char *name, yyjson_val **value);

/* How many bytes a copy of such a list takes, and the copy itself, which needs nothing of the request. `place` has that
 * many bytes, aligned like memory of malloc(). A NULL list takes none, and stays NULL. */
size_t params_names_size(yyjson_val *names);
yyjson_val *params_names_copy(yyjson_val *names, uint8_t *memory);

/* The text of a scalar: a string as it is, a number or boolean as JSON writes it. False for anything else. */
bool params_scalar_text(yyjson_val *value, struct arena *arena, struct bytes *text);

/* A string's bytes; empty for anything else (of an array, yyjson's length is the number of its items). */
static inline struct bytes params_bytes(yyjson_val *value)
{
    return yyjson_is_str(value) ? bytes_make(yyjson_get_str(value), yyjson_get_len(value)) : bytes_make(NULL, 0);
}

/* A fault of one value, in SQS's words: "Value V for parameter P is invalid. Reason: …" */
enum error params_invalid(const struct params *params, const char *name, struct bytes value, const char *reason);

#endif
