/* Tally's own queue attributes (docs/reference/queue-attributes.md). */
#include "api/queue_attributes.h"

#include <stdio.h>
#include <stdlib.h>

#define WINDOW_S_MAX 315360000u /* ten years */
#define GROUP_CONCURRENCY_MAX 120000u
#define BACKOFF_S_MAX 43200.0
#define FACTOR_MAX 100.0
#define RATE_MIN 0.001
#define RATE_MAX 1000000.0
#define BURST_MAX 1000000.0

static const struct bytes nothing = {NULL, 0};

/* Does the queue use any of Tally's ways to order its groups? Then all of them are shown. */
static bool has_own_order(const struct queue_settings *settings)
{
    return settings->is_strict || settings->group_failure != GROUP_FAILURE_SKIP;
}

/* --- choices ------------------------------------------------------------------------------------------------------ */

static enum error read_strict(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                              struct queue_settings *settings)
{
    return queue_attribute_read_boolean(call, attribute, value, &settings->is_strict);
}

static struct bytes show_strict(struct arena *arena, const struct queue_attribute *attribute,
                                const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    if (!is_named && !has_own_order(settings))
        return nothing;
    return queue_attribute_show_boolean(settings->is_strict);
}

static const char *const group_failures[] = {
    [GROUP_FAILURE_SKIP] = "skip", [GROUP_FAILURE_HOLD] = "hold", [GROUP_FAILURE_CANCEL_REST] = "cancel-rest"};

static enum error read_group_failure(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                                     struct queue_settings *settings)
{
    for (size_t i = 0; i < ARRAY_LENGTH(group_failures); i++) {
        if (bytes_equal(value, bytes_from_string(group_failures[i]))) {
            settings->group_failure = (uint8_t)i;
            return OK;
        }
    }
    return queue_attribute_refuse(call, attribute, "Must be skip, hold or cancel-rest.");
}

static struct bytes show_group_failure(struct arena *arena, const struct queue_attribute *attribute,
                                       const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    return is_named || has_own_order(settings) ? bytes_from_string(group_failures[settings->group_failure]) : nothing;
}

static enum error read_delivery_mode(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                                     struct queue_settings *settings)
{
    bool is_at_most_once = bytes_equal(value, BYTES("at-most-once"));
    if (!is_at_most_once && !bytes_equal(value, BYTES("at-least-once")))
        return queue_attribute_refuse(call, attribute, "Must be at-least-once or at-most-once.");
    settings->is_at_most_once = is_at_most_once;
    return OK;
}

static struct bytes show_delivery_mode(struct arena *arena, const struct queue_attribute *attribute,
                                       const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    if (settings->is_at_most_once)
        return BYTES("at-most-once");
    return is_named ? BYTES("at-least-once") : nothing;
}

/* A FIFO queue has no choice, so nothing is stored. */
static enum error read_stale_receipts(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                                      struct queue_settings *settings)
{
    bool refuses = bytes_equal(value, BYTES("refuse"));
    if (!refuses && !bytes_equal(value, BYTES("accept")))
        return queue_attribute_refuse(call, attribute, "Must be accept or refuse.");
    if (!refuses && settings->is_fifo)
        return queue_attribute_refuse(call, attribute,
                                      "A FIFO queue refuses receipt handles that are not the newest; must be refuse.");
    settings->refuses_stale = refuses && !settings->is_fifo;
    return OK;
}

static struct bytes show_stale_receipts(struct arena *arena, const struct queue_attribute *attribute,
                                        const struct queue_settings *settings, bool is_named)
{
    (void)arena;
    (void)attribute;
    if (settings->refuses_stale || (is_named && settings->is_fifo))
        return BYTES("refuse");
    return is_named ? BYTES("accept") : nothing;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static enum error read_group_concurrency(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                                         struct queue_settings *settings)
{
    uint64_t number;
    if (!bytes_to_u64(value, &number) || number > GROUP_CONCURRENCY_MAX)
        return queue_attribute_refuse(call, attribute, "Must be an integer from 0 (no limit) to 120000.");
    settings->group_concurrency = (uint32_t)number;
    return OK;
}

static struct bytes show_group_concurrency(struct arena *arena, const struct queue_attribute *attribute,
                                           const struct queue_settings *settings, bool is_named)
{
    (void)attribute;
    return is_named || settings->group_concurrency > 0 ? arena_format(arena, "%u", settings->group_concurrency)
                                                       : nothing;
}

static enum error read_window(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                              struct queue_settings *settings)
{
    uint64_t number = DEDUPLICATION_WINDOW_EVER;
    bool is_for_ever = bytes_equal(value, BYTES("-1"));
    if (!is_for_ever && (!bytes_to_u64(value, &number) || number > WINDOW_S_MAX))
        return queue_attribute_refuse(call, attribute,
                                      "Must be an integer from 0 (none) to 315360000 seconds, or -1 (for ever).");
    settings->has_window = true;
    settings->deduplication_window_s = (uint32_t)number;
    return OK;
}

static struct bytes show_window(struct arena *arena, const struct queue_attribute *attribute,
                                const struct queue_settings *settings, bool is_named)
{
    (void)attribute;
    if (!is_named && !settings->has_window)
        return nothing;
    if (settings->deduplication_window_s == DEDUPLICATION_WINDOW_EVER)
        return BYTES("-1");
    return arena_format(arena, "%u", settings->deduplication_window_s);
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

/* A number that an object may have, in [min, max]; absent: *value does not change. */
struct member {
    const char *name;
    double min;
    double max;
    double *value;
};

/* Reads an object with these members, each at most once, and no others. False if it is not one, or a number is out of
 * range. */
static bool read_members(yyjson_val *object, const struct member *members, size_t member_count)
{
    if (!yyjson_is_obj(object))
        return false;
    size_t index, count, known = 0;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, index, count, key, value)
    {
        size_t i = 0;
        while (i < member_count && !yyjson_equals_str(key, members[i].name))
            i++;
        if (i == member_count || !yyjson_is_num(value) || known >= member_count)
            return false;
        double number = yyjson_get_num(value);
        if (!(number >= members[i].min && number <= members[i].max))
            return false;
        *members[i].value = number;
        known++;
    }
    return true;
}

static uint32_t thousandths(double value)
{
    return (uint32_t)(value * 1000 + 0.5);
}

/* A number of thousandths as JSON writes it: 2, 0.2, 0.125. */
static struct bytes decimal(struct arena *arena, uint32_t value)
{
    struct bytes text = arena_format(arena, "%u.%03u", value / 1000, value % 1000);
    while (text.ptr[text.size - 1] == '0')
        text.size--;
    if (text.ptr[text.size - 1] == '.')
        text.size--;
    return text;
}

bool queue_attribute_read_backoff(yyjson_val *object, struct backoff *backoff)
{
    double min = 1, max = 900, factor = 2, jitter = 0.2;
    const struct member members[] = {{"min", 0, BACKOFF_S_MAX, &min},
                                     {"max", 0, BACKOFF_S_MAX, &max},
                                     {"factor", 1, FACTOR_MAX, &factor},
                                     {"jitter", 0, 1, &jitter}};
    if (!read_members(object, members, ARRAY_LENGTH(members)) || max < min)
        return false;
    *backoff = (struct backoff){.is_set = true,
                                .min_ms = thousandths(min),
                                .max_ms = thousandths(max),
                                .factor = thousandths(factor),
                                .jitter = thousandths(jitter)};
    return true;
}

static enum error read_backoff(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                               struct queue_settings *settings)
{
    settings->backoff = (struct backoff){0};
    if (value.size == 0)
        return OK;
    if (!queue_attribute_read_backoff(params_parse_text(value, call->arena), &settings->backoff))
        return queue_attribute_refuse(call, attribute, BACKOFF_RULE "; or empty.");
    return OK;
}

static struct bytes show_backoff(struct arena *arena, const struct queue_attribute *attribute,
                                 const struct queue_settings *settings, bool is_named)
{
    (void)attribute;
    (void)is_named;
    const struct backoff *backoff = &settings->backoff;
    if (!backoff->is_set)
        return nothing;
    struct bytes min = decimal(arena, backoff->min_ms), max = decimal(arena, backoff->max_ms);
    struct bytes factor = decimal(arena, backoff->factor), jitter = decimal(arena, backoff->jitter);
    return arena_format(arena, "{\"min\":%.*s,\"max\":%.*s,\"factor\":%.*s,\"jitter\":%.*s}", BYTES_FORMAT(min),
                        BYTES_FORMAT(max), BYTES_FORMAT(factor), BYTES_FORMAT(jitter));
}

static uint64_t interval_us_of(double rate)
{
    uint64_t interval_us = (uint64_t)(1e6 / rate + 0.5);
    return interval_us < 1 ? 1 : interval_us;
}

/* The shortest rate with this interval, so that a client sees the value that it set. */
static struct bytes show_rate(struct arena *arena, uint64_t interval_us)
{
    char text[40];
    int size = 0;
    for (int digits = 0; digits <= 9; digits++) {
        size = snprintf(text, sizeof(text), "%.*f", digits, 1e6 / (double)interval_us);
        if (strtod(text, NULL) > 0 && interval_us_of(strtod(text, NULL)) == interval_us)
            break;
    }
    return arena_copy(arena, bytes_make(text, (size_t)size));
}

/* The member "queue" or "group"; absent: *rate does not change. */
static bool read_rate(yyjson_val *object, const char *name, struct rate *rate)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (value == NULL)
        return true;
    double per_second = 0, burst = 0;
    const struct member members[] = {{"rate", RATE_MIN, RATE_MAX, &per_second}, {"burst", 1, BURST_MAX, &burst}};
    if (!read_members(value, members, ARRAY_LENGTH(members)) || per_second == 0 || burst != (uint32_t)burst)
        return false;
    uint32_t whole = (uint32_t)per_second;
    uint32_t rounded_up = whole + (per_second > whole);
    *rate =
        (struct rate){.interval_us = interval_us_of(per_second), .burst = burst == 0 ? rounded_up : (uint32_t)burst};
    return true;
}

#define RATE_RULE                                                                                                      \
    "It must be a JSON object like {\"queue\": {\"rate\": 100, \"burst\": 100}, \"group\": {\"rate\": 0.5, "           \
    "\"burst\": "                                                                                                      \
    "1}}, either or both, with rate from 0.001 to 1000000 messages a second and burst, a whole number, from 1 to "     \
    "1000000; or empty."

static enum error read_rate_limit(struct call *call, const struct queue_attribute *attribute, struct bytes value,
                                  struct queue_settings *settings)
{
    settings->queue_rate = settings->group_rate = (struct rate){0};
    if (value.size == 0)
        return OK;
    yyjson_val *object = params_parse_text(value, call->arena);
    size_t known = (yyjson_obj_get(object, "queue") != NULL) + (yyjson_obj_get(object, "group") != NULL);
    if (known == 0 || yyjson_obj_size(object) != known || !read_rate(object, "queue", &settings->queue_rate) ||
        !read_rate(object, "group", &settings->group_rate))
        return queue_attribute_refuse(call, attribute, RATE_RULE);
    return OK;
}

static struct bytes show_one_rate(struct arena *arena, const char *name, const struct rate *rate)
{
    if (rate->interval_us == 0)
        return nothing;
    struct bytes per_second = show_rate(arena, rate->interval_us);
    return arena_format(arena, "\"%s\":{\"rate\":%.*s,\"burst\":%u}", name, BYTES_FORMAT(per_second), rate->burst);
}

static struct bytes show_rate_limit(struct arena *arena, const struct queue_attribute *attribute,
                                    const struct queue_settings *settings, bool is_named)
{
    (void)attribute;
    (void)is_named;
    struct bytes queue = show_one_rate(arena, "queue", &settings->queue_rate);
    struct bytes group = show_one_rate(arena, "group", &settings->group_rate);
    if (queue.size + group.size == 0)
        return nothing;
    return arena_format(arena, "{%.*s%s%.*s}", BYTES_FORMAT(queue), queue.size > 0 && group.size > 0 ? "," : "",
                        BYTES_FORMAT(group));
}

const struct queue_attribute tally_attributes[] = {
    {.name = "Tally.StrictOrder", .kind = ON_FIFO_QUEUES, .read = read_strict, .show = show_strict},
    {.name = "Tally.OnGroupFailure", .kind = ON_FIFO_QUEUES, .read = read_group_failure, .show = show_group_failure},
    {.name = "Tally.GroupConcurrency",
     .kind = ON_STANDARD_QUEUES,
     .read = read_group_concurrency,
     .show = show_group_concurrency},
    {.name = "Tally.StaleReceipts", .kind = ON_ANY_QUEUE, .read = read_stale_receipts, .show = show_stale_receipts},
    {.name = "Tally.DeduplicationWindow", .kind = ON_ANY_QUEUE, .read = read_window, .show = show_window},
    {.name = "Tally.DeliveryMode", .kind = ON_ANY_QUEUE, .read = read_delivery_mode, .show = show_delivery_mode},
    {.name = "Tally.Backoff", .kind = ON_ANY_QUEUE, .read = read_backoff, .show = show_backoff},
    {.name = "Tally.RateLimit", .kind = ON_ANY_QUEUE, .read = read_rate_limit, .show = show_rate_limit},
};

const size_t tally_attribute_count = ARRAY_LENGTH(tally_attributes);
