/* The fields of an AWS Query request: application/x-www-form-urlencoded. The URL's query string and the body are one
 * set. Source: WHATWG URL standard, 5.1. */
#ifndef TALLY_API_FORM_H
#define TALLY_API_FORM_H

#include "base/arena.h"
#include "base/error.h"

/* A batch of ten with everything they can have takes about 500. */
#define FORM_FIELDS_MAX 1000u

struct form_field {
    struct bytes name;
    struct bytes value;
};

struct form {
    struct form_field *fields;
    size_t count;
};

/* Splits the text into its fields, in their order; everything lives in the arena. ERROR_SERIALIZATION: too many fields,
 * or a percent sign without two hexadecimal digits. */
enum error form_parse(struct bytes query, struct bytes body, struct arena *arena, struct failure *failure,
                      struct form *form);

/* The value of the first field of that name; NULL in .ptr: there is none. */
struct bytes form_find(const struct form *form, struct bytes name);

#endif
