/* PutSchedule, DescribeSchedule, ListSchedules, PauseSchedule, ResumeSchedule, FireSchedule and DeleteSchedule. */
#include "api/reach.h"
#include "api/state.h"
#include "api/text.h"
#include "core/schedules/decide_schedule.h"
#include "engine/calendar.h"
#include "engine/cron.h"

/* Body and attributes together, because the core keeps them. */
#define MESSAGE_SIZE_MAX 65536u

static const char *const catch_up_names[] = {
    [CATCH_UP_ONE] = "one",
    [CATCH_UP_NONE] = "none",
    [CATCH_UP_ALL] = "all",
};

/* --- reading ------------------------------------------------------------------------------------------------------ */

static enum error read_name(struct call *call, struct bytes *name)
{
    enum error error = params_required_text(&call->params, "Name", name);
    if (error != OK)
        return error;
    bool is_good = name->size <= SCHEDULE_NAME_SIZE_MAX;
    for (size_t i = 0; is_good && i < name->size; i++)
        is_good = name->ptr[i] == '.' || text_is_word(bytes_make(name->ptr + i, 1), 1);
    return is_good ? OK
                   : params_invalid(&call->params, "Name", *name,
                                    "It must be 1 to 80 letters, digits, hyphens, underscores and dots.");
}

static const struct queue *queue_of(const struct call *call, const struct schedule *schedule)
{
    return core_find_queue_by_id(call->core, schedule->spec.queue);
}

static enum error find_schedule(struct call *call, const struct schedule **schedule)
{
    struct bytes name;
    enum error error = read_name(call, &name);
    if (error != OK)
        return error;
    *schedule = schedule_find(call->core, name);
    if (*schedule != NULL && reach_schedule(call, *schedule))
        return OK;
    return call_fail(call, ERROR_SCHEDULE_DOES_NOT_EXIST, "There is no schedule '%.*s'%s.", BYTES_FORMAT(name),
                     reach_words(call));
}

static enum error read_times(struct call *call, struct schedule_spec *spec)
{
    struct cron cron;
    char reason[CRON_REASON_SIZE];
    spec->zone = BYTES("UTC");
    enum error error = params_required_text(&call->params, "Cron", &spec->cron);
    if (error == OK)
        error = params_text(&call->params, "TimeZone", &spec->zone);
    if (error != OK)
        return error;
    if (!cron_parse(spec->cron, &cron, reason))
        return params_invalid(&call->params, "Cron", spec->cron, reason);
    if (!calendar_knows(call->front->calendar_owned, spec->zone))
        return params_invalid(&call->params, "TimeZone", spec->zone,
                              "It must be a zone of the system's time-zone data, like UTC or Europe/Berlin.");
    return OK;
}

static enum error read_catch_up(struct call *call, struct schedule_spec *spec)
{
    struct bytes text = BYTES("one");
    enum error error = params_text(&call->params, "CatchUp", &text);
    if (error != OK)
        return error;
    for (enum catch_up rule = CATCH_UP_ONE; rule <= CATCH_UP_ALL; rule++) {
        if (!bytes_equal(text, bytes_from_string(catch_up_names[rule])))
            continue;
        spec->catch_up = rule;
        return OK;
    }
    return params_invalid(&call->params, "CatchUp", text, "It must be one, none or all.");
}

/* The message's attributes, with the schedule's name as one that Tally adds. */
static enum error read_attributes(struct call *call, struct bytes name, struct attributes *attributes)
{
    enum error error = attributes_parse(&call->params, "MessageAttributes", call->arena, attributes);
    if (error != OK)
        return error;
    for (uint32_t i = 0; i < attributes->count; i++)
        if (bytes_starts_with(attributes->items[i].name, BYTES("Tally.")))
            return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                             "A schedule's MessageAttributes can't contain %.*s: names that begin with Tally. are set "
                             "by Tally.",
                             BYTES_FORMAT(attributes->items[i].name));
    attributes_add(attributes, BYTES("Tally.Schedule"), name);
    attributes_sort(attributes);
    return OK;
}

static enum error check_message(struct call *call, const struct queue *queue, const struct schedule_spec *spec,
                                const struct attributes *attributes)
{
    size_t size = spec->body.size + attributes->size;
    size_t limit =
        queue->settings.message_size_max < MESSAGE_SIZE_MAX ? queue->settings.message_size_max : MESSAGE_SIZE_MAX;
    if (size > limit)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "The message is too long: body and attributes are %zu bytes; the limit is %zu.", size, limit);
    if (!text_is_allowed(spec->body))
        return call_fail(call, ERROR_INVALID_MESSAGE_CONTENTS, "%s", error_row(ERROR_INVALID_MESSAGE_CONTENTS)->text);
    if (queue->settings.is_fifo && spec->group.size == 0)
        return call_fail(call, ERROR_MISSING_PARAMETER,
                         "The request must contain the parameter MessageGroupId: messages of a FIFO queue have one.");
    return call_check_group(&call->params, spec->group);
}

static enum error read_message(struct call *call, struct bytes name, struct schedule_spec *spec)
{
    struct queue *queue;
    struct attributes attributes;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_required_text(&call->params, "MessageBody", &spec->body);
    if (error == OK)
        error = params_text(&call->params, "MessageGroupId", &spec->group);
    if (error == OK)
        error = read_attributes(call, name, &attributes);
    if (error == OK)
        error = check_message(call, queue, spec, &attributes);
    if (error != OK)
        return error;
    spec->queue = queue->id;
    struct buffer encoded;
    buffer_init(&encoded);
    attributes_encode(&attributes, &encoded);
    spec->attributes = arena_copy(call->arena, buffer_bytes(&encoded));
    buffer_deinit(&encoded);
    attributes_md5(&attributes, call_digest(call), call_scratch(call), spec->attributes_md5);
    return OK;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* A deployment or a person that looks at it sees why nothing is sent. */
static void write_warning(struct call *call, const struct schedule *schedule)
{
    struct bytes warning = firings_warning(call->api, schedule, call->arena);
    if (warning.size > 0)
        writer_text(call->reply, "Warning", warning);
}

static void write_next(struct call *call, const struct schedule *schedule)
{
    writer_text(call->reply, "Name", schedule->name_owned);
    if (schedule->next_at_ms != SCHEDULE_NEVER)
        writer_time(call->reply, "NextAt", schedule->next_at_ms);
    writer_boolean(call->reply, "Paused", schedule->spec.is_paused);
}

/* The part of a schedule that a list shows. */
static void write_schedule(struct call *call, const struct schedule *schedule)
{
    const struct schedule_spec *spec = &schedule->spec;
    struct writer *writer = call->reply;
    write_next(call, schedule);
    writer_text(writer, "Cron", spec->cron);
    writer_text(writer, "TimeZone", spec->zone);
    writer_text(writer, "QueueUrl", call_queue_url(call, queue_of(call, schedule)));
    writer_string(writer, "CatchUp", catch_up_names[spec->catch_up]);
    write_warning(call, schedule);
    if (schedule->last_message == 0)
        return;
    uint8_t id[MESSAGE_ID_SIZE];
    char text[IDENTITY_TEXT_SIZE];
    identity_message(call_digest(call), schedule->last_message, id);
    identity_to_text(id, text);
    writer_time(writer, "LastAt", schedule->last_at_ms);
    writer_text(writer, "LastMessageId", bytes_make(text, sizeof(text)));
}

static void write_message(struct call *call, const struct schedule_spec *spec)
{
    struct writer *writer = call->reply;
    writer_text(writer, "MessageBody", spec->body);
    if (spec->group.size > 0)
        writer_text(writer, "MessageGroupId", spec->group);
    attributes_write_all(spec->attributes, spec->attributes_md5, writer);
}

/* --- the actions -------------------------------------------------------------------------------------------------- */

enum error action_put_schedule(struct call *call)
{
    struct bytes name;
    struct schedule_spec spec = {0};
    enum error error = read_name(call, &name);
    if (error == OK)
        error = read_times(call, &spec);
    if (error == OK)
        error = read_catch_up(call, &spec);
    if (error == OK)
        error = read_message(call, name, &spec);
    if (error != OK)
        return error;
    /* A schedule that was paused stays paused, even if a deployment puts it again. */
    const struct schedule *schedule = schedule_find(call->core, name);
    if (schedule != NULL && !reach_schedule(call, schedule))
        return call_fail(call, ERROR_ACCESS_DENIED,
                         "Access is denied: there is a schedule '%.*s' that sends to a queue which the credential %.*s "
                         "does not cover. Choose another name.",
                         BYTES_FORMAT(name), BYTES_FORMAT(call->caller->access_key));
    spec.is_paused = schedule != NULL && schedule->spec.is_paused;
    uint64_t next_ms;
    bool is_readable = firings_find_next(call->api, &spec, &next_ms);
    ASSERT(is_readable); /* read_times() has read it, and it is valid */
    error = decide_put_schedule(call->core, name, &spec, next_ms, &schedule);
    if (error != OK)
        return call_fail(call, error, "There are %u schedules, as many as there can be.", SCHEDULES_MAX);
    write_next(call, schedule);
    return OK;
}

enum error action_describe_schedule(struct call *call)
{
    const struct schedule *schedule;
    enum error error = find_schedule(call, &schedule);
    if (error != OK)
        return error;
    write_schedule(call, schedule);
    write_message(call, &schedule->spec);
    return OK;
}

enum error action_pause_schedule(struct call *call)
{
    const struct schedule *schedule;
    enum error error = find_schedule(call, &schedule);
    if (error != OK)
        return error;
    decide_pause_schedule(call->core, schedule);
    write_next(call, schedule);
    return OK;
}

enum error action_resume_schedule(struct call *call)
{
    const struct schedule *schedule;
    enum error error = find_schedule(call, &schedule);
    if (error != OK)
        return error;
    uint64_t next_ms = SCHEDULE_NEVER;
    if (schedule->spec.is_paused && !firings_find_next(call->api, &schedule->spec, &next_ms))
        return call_fail(call, ERROR_SERVICE_UNAVAILABLE,
                         "Schedule '%.*s' stays paused: its time zone %.*s can't be read from %s on the server, so "
                         "nobody can tell when it is next due. Install the time-zone data there (package tzdata), then "
                         "try again.",
                         BYTES_FORMAT(schedule->name_owned), BYTES_FORMAT(schedule->spec.zone),
                         calendar_folder(call->front->calendar_owned));
    decide_resume_schedule(call->core, schedule, next_ms);
    write_next(call, schedule);
    return OK;
}

enum error action_fire_schedule(struct call *call)
{
    const struct schedule *schedule;
    enum error error = find_schedule(call, &schedule);
    if (error != OK)
        return error;
    uint8_t id[MESSAGE_ID_SIZE];
    char text[IDENTITY_TEXT_SIZE];
    decide_fire_schedule_now(call->core, schedule, id);
    identity_to_text(id, text);
    write_next(call, schedule);
    writer_text(call->reply, "MessageId", bytes_make(text, sizeof(text)));
    return OK;
}

enum error action_delete_schedule(struct call *call)
{
    const struct schedule *schedule;
    enum error error = find_schedule(call, &schedule);
    if (error == OK)
        decide_delete_schedule(call->core, schedule);
    return error;
}

/* Schedules in order of name. */
enum error action_list_schedules(struct call *call)
{
    struct bytes prefix = {NULL, 0};
    int64_t results_max;
    bool is_paged;
    enum error error = params_text(&call->params, "Prefix", &prefix);
    struct bytes from = prefix;
    if (error == OK)
        error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    int64_t count = 0;
    const struct schedule *next = NULL;
    writer_list_begin(call->reply, "Schedules");
    for (uint32_t i = schedule_index(call->core, from); i < schedule_count(call->core); i++) {
        const struct schedule *schedule = schedule_at(call->core, i);
        if (!bytes_starts_with(schedule->name_owned, prefix))
            break;
        if (!reach_schedule(call, schedule))
            continue;
        if (count++ == results_max) {
            next = schedule;
            break;
        }
        writer_object_begin(call->reply, NULL);
        write_schedule(call, schedule);
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
    if (next != NULL)
        call_seal_token(call, next->name_owned);
    return OK;
}
