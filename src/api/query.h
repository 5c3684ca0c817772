/* AWS Query requests: from the fields of a form to the JSON text that the same request would be as AWS JSON, so that
 * there is one decoder behind both. What a field becomes stands in one table (query.c). */
#ifndef TALLY_API_QUERY_H
#define TALLY_API_QUERY_H

#include "api/form.h"
#include "base/buffer.h"

/* Appends the text to `out`. `action` is the action's name, like "CreateQueue"; `queue_url`, or empty, stands for the
 * field QueueUrl where that is absent. Fields that mean nothing are passed over, as unknown members of JSON are. */
void query_to_json(const struct form *form, struct bytes action, struct bytes queue_url, struct arena *arena,
                   struct buffer *out);

#endif
