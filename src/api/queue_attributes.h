/* Queue attributes: their names, ranges and defaults, as a table; between the wire's strings and struct queue_settings.
 * Source: SQS API reference, CreateQueue. */
#ifndef TALLY_API_QUEUE_ATTRIBUTES_H
#define TALLY_API_QUEUE_ATTRIBUTES_H

#include "api/action.h"

struct queue_settings queue_attributes_defaults(void);

/* Applies the map Attributes of the request to *settings. If `differing` is
 * not NULL it receives the name of the first attribute whose value is not what *settings had, else NULL.
 * Errors: ERROR_INVALID_ATTRIBUTE_NAME, ERROR_INVALID_ATTRIBUTE_VALUE, ERROR_INVALID_PARAMETER_VALUE,
 * ERROR_UNSUPPORTED_OPERATION, ERROR_SERIALIZATION. Views in *settings point into the request. */
enum error queue_attributes_read(struct call *call, struct queue_settings *settings, const char **differing);

/* Writes those that `names` (a list of texts) asks for, as the object Attributes; nothing if there are none. An unknown name:
 * ERROR_INVALID_ATTRIBUTE_NAME. */
enum error queue_attributes_write(struct call *call, const struct queue *queue, yyjson_val *names);

#endif
