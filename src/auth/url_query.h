/* The query string of a URL as parameters, percent-encoded as signatures want it: everything but A-Z a-z 0-9 - . _ ~ as
 * %XX with capitals, whatever the client wrote (a + is a space). The memory is kept from request to request. Source:
 * AWS, "Create a signed AWS API request", step 1. */
#ifndef TALLY_AUTH_URL_QUERY_H
#define TALLY_AUTH_URL_QUERY_H

#include "base/buffer.h"

struct url_param {
    struct bytes name;
    struct bytes value; /* empty also where there was no = */
    struct bytes plain; /* the value as it is meant */
};

struct url_query {
    struct url_param *params_owned; /* in order of their names, then of their values */
    size_t count;
    size_t capacity;
    struct buffer text; /* what the views point into */
};

void url_query_init(struct url_query *query);
void url_query_deinit(struct url_query *query);

/* Takes apart what stands behind the ? of a URL. O(n log n). */
void url_query_read(struct url_query *query, struct bytes wire);

/* How many parameters have that name, which needs no encoding; *plain is the value of the first as it is meant, empty
 * if there is none. */
size_t url_query_find(const struct url_query *query, struct bytes name, struct bytes *plain);

/* Appends "name=value&name=value…" without the parameters named `but`. */
void url_query_append(const struct url_query *query, struct bytes but, struct buffer *out);

/* Appends `text`, percent-encoded. */
void url_query_append_encoded(struct buffer *out, struct bytes text);

#endif
