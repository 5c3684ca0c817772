/* AWS Query requests: turns the fields of a form into the JSON text of the same request in AWS JSON. So one decoder
 * serves both. One table (query.c) says what a field becomes. */
#ifndef TALLY_API_QUERY_H
#define TALLY_API_QUERY_H

#include "api/form.h"
#include "base/buffer.h"

/* Appends the text to `out`. `action` is the action's name, like "CreateQueue". `queue_url`, unless empty, replaces the
 * field QueueUrl if that is absent. Unknown fields are ignored, like unknown members of JSON. */
void query_to_json(const struct form *form, struct bytes action, struct bytes queue_url, struct arena *arena,
                   struct buffer *out);

#endif
