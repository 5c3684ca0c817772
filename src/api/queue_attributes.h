/* Queue attributes: tables of their names, ranges and defaults. They convert between the wire's strings and struct
 * queue_settings. Source: SQS API reference, CreateQueue. */
#ifndef TALLY_API_QUEUE_ATTRIBUTES_H
#define TALLY_API_QUEUE_ATTRIBUTES_H

#include "api/action.h"

/* Which queues have it. On another queue SQS answers that it is for FIFO queues, or that it is unknown. */
enum queue_attribute_kind { ON_ANY_QUEUE, ON_STANDARD_QUEUES, ON_FIFO_QUEUES, ON_FIFO_UNKNOWN_ELSEWHERE };

/* An attribute that is stored in struct queue_settings. */
struct queue_attribute {
    const char *name;
    enum queue_attribute_kind kind;
    /* Puts a value into *settings. ERROR_INVALID_ATTRIBUTE_VALUE, ERROR_INVALID_ATTRIBUTE_NAME,
     * ERROR_INVALID_PARAMETER_VALUE. */
    enum error (*read)(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                       struct queue_settings *settings);
    /* Its canonical text; empty if it is not set. An attribute that nobody set is shown only if it is asked for by
     * name. */
    struct bytes (*show)(struct arena *arena, const struct queue_attribute *attribute,
                         const struct queue_settings *settings, bool is_named);
    /* Of those that are a number. */
    uint32_t min;
    uint32_t max;
    uint32_t initial;
    size_t offset; /* of a number, or of a text that is shown as stored */
};

/* SQS's own for dead letters (redrive_attributes.c), for policy and encryption (access_attributes.c) and for FIFO
 * queues (fifo_attributes.c), and Tally's (tally_attributes.c). */
extern const struct queue_attribute redrive_attributes[];
extern const size_t redrive_attribute_count;
extern const struct queue_attribute access_attributes[];
extern const size_t access_attribute_count;
extern const struct queue_attribute fifo_attributes[];
extern const size_t fifo_attribute_count;
extern const struct queue_attribute tally_attributes[];
extern const size_t tally_attribute_count;

/* A boolean as SQS takes it, in either case of its first letter. */
bool queue_attribute_is_true(struct bytes text);
bool queue_attribute_is_false(struct bytes text);
enum error queue_attribute_read_boolean(struct call *call, const struct queue_attribute *attribute, struct bytes text,
                                        bool *value);
struct bytes queue_attribute_show_boolean(bool value);

/* The text of settings at the attribute's offset. */
struct bytes queue_attribute_show_text(struct arena *arena, const struct queue_attribute *attribute,
                                       const struct queue_settings *settings, bool is_named);

/* ERROR_INVALID_ATTRIBUTE_VALUE, for that reason. */
enum error queue_attribute_refuse(struct call *call, const struct queue_attribute *attribute, const char *reason);

/* A back-off as in Tally.Backoff; absent members get their defaults. False: it is not valid; BACKOFF_RULE says what
 * is. */
#define BACKOFF_RULE                                                                                                   \
    "It must be a JSON object like {\"min\": 1, \"max\": 900, \"factor\": 2, \"jitter\": 0.2}, with min from 0 and "   \
    "max from min to 43200 seconds, factor from 1 to 100 and jitter from 0 to 1"
bool queue_attribute_read_backoff(yyjson_val *object, struct backoff *backoff);

struct queue_settings queue_attributes_defaults(bool is_fifo);

/* For CreateQueue: does the map Attributes ask for a FIFO queue, and does it name any attribute of Tally's? */
enum error queue_attributes_read_kind(struct call *call, bool *is_fifo, bool *names_tally);

/* Applies the map Attributes of the request to *settings, whose views then point into the request. If `differing` is
 * not NULL it receives the name of the first attribute whose value is not what *settings had, else NULL. Errors:
 * ERROR_INVALID_ATTRIBUTE_NAME, ERROR_INVALID_ATTRIBUTE_VALUE, ERROR_INVALID_PARAMETER_VALUE, ERROR_SERIALIZATION. */
enum error queue_attributes_read(struct call *call, struct queue_settings *settings, const char **differing);

/* If the request sets a RedrivePolicy on the queue `name`: does the RedriveAllowPolicy of its target allow that?
 * Checked now and never again. ERROR_INVALID_PARAMETER_VALUE. */
enum error queue_attributes_check_source(struct call *call, struct bytes name, const struct queue_settings *settings);

/* Does the RedriveAllowPolicy of `target` allow the queue of this name to send it dead letters? */
bool queue_attributes_allow_source(const struct call *call, const struct queue *target, struct bytes name);

/* One kind of encryption at a time: a key that the request gives turns SQS's own off, unless the request names both.
 * ERROR_INVALID_ATTRIBUTE_NAME. */
enum error queue_attributes_check_encryption(struct call *call, struct queue_settings *settings);

/* Writes the attributes for which `names` (a list of texts) asks, as the object Attributes; nothing if there are none.
 * An unknown name: ERROR_INVALID_ATTRIBUTE_NAME. */
enum error queue_attributes_write(struct call *call, const struct queue *queue, yyjson_val *names);

#endif
