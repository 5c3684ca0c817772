/* GetSeries: what came and went in a queue, or in the namespace, period by period. */
#include "api/reach.h"
#include "api/state.h"

/* The lists of the reply, each with a value for each period: first the counters, in their order, then what was at the
 * end of it. */
enum member { MEMBER_VISIBLE = QUEUE_RATED_COUNT, MEMBER_IN_FLIGHT, MEMBER_OLDEST_AGE, MEMBER_COUNT };

static const char *const members[MEMBER_COUNT] = {
    [COUNTER_SENT] = "Sent",         [COUNTER_RECEIVED] = "Received",          [COUNTER_DELETED] = "Deleted",
    [COUNTER_FAILED] = "Failed",     [COUNTER_DEAD_LETTERED] = "DeadLettered", [MEMBER_VISIBLE] = "Visible",
    [MEMBER_IN_FLIGHT] = "InFlight", [MEMBER_OLDEST_AGE] = "OldestAge",
};

static uint64_t value_of(const struct trend_point *point, unsigned member, uint64_t end_s)
{
    if (member < QUEUE_RATED_COUNT)
        return point->counts[member];
    if (member == MEMBER_VISIBLE)
        return point->visible;
    if (member == MEMBER_IN_FLIGHT)
        return point->in_flight;
    return point->oldest_s == 0 || point->oldest_s > end_s ? 0 : end_s - point->oldest_s;
}

struct series_command {
    struct queue *queue; /* NULL: the namespace */
    enum trend_scale scale;
    int64_t points;
};

static enum error read_period(struct call *call, struct series_command *command)
{
    int64_t period_s = 0;
    bool is_given;
    enum error error = params_integer(&call->params, "Period", &period_s, &is_given);
    if (error != OK)
        return error;
    if (!is_given)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter Period.");
    if (period_s != TREND_FINE_S && period_s != TREND_COARSE_S)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Value %lld for parameter Period is invalid. Reason: It must be 5 or 60 seconds.",
                         (long long)period_s);
    command->scale = period_s == TREND_FINE_S ? TREND_FINE : TREND_COARSE;
    command->points = trends_points(command->scale);
    return params_integer_in(&call->params, "Points", 1, command->points,
                             command->scale == TREND_FINE ? "Must be between 1 and 720, if provided."
                                                          : "Must be between 1 and 1440, if provided.",
                             &command->points);
}

/* Of a queue the caller must cover that queue, of the namespace the whole of it. */
static enum error read_command(struct call *call, struct series_command *command)
{
    *command = (struct series_command){0};
    enum error error = call_url(call).size > 0 ? call_queue(call, &command->queue)
                                               : reach_check_namespace(call, "GetSeries without a QueueUrl");
    return error == OK ? read_period(call, command) : error;
}

/* The values of the last periods that are over; null where they are not known. */
static void write_member(struct call *call, unsigned member, const struct trend_series *series,
                         const struct series_command *command)
{
    const uint32_t end = call->api->trends.open[command->scale], period_s = trends_period_s(command->scale);
    const bool is_hidden =
        member == MEMBER_OLDEST_AGE && command->queue == NULL && core_queue_count(call->core) > TREND_OLDEST_QUEUES_MAX;
    uint32_t at = 0;
    writer_list_begin(call->reply, members[member]);
    for (uint32_t period = end - (uint32_t)command->points; period < end; period++) {
        struct trend_point point;
        if (series != NULL && !is_hidden && trends_read(series, command->scale, period, &at, &point))
            writer_number(call->reply, NULL, value_of(&point, member, ((uint64_t)period + 1) * period_s));
        else
            writer_json(call->reply, NULL, BYTES("null"));
    }
    writer_list_end(call->reply);
}

enum error action_get_series(struct call *call)
{
    struct series_command command;
    enum error error = read_command(call, &command);
    if (error != OK)
        return error;
    if (!call->front->options.keeps_history)
        return call_fail(call, ERROR_UNSUPPORTED_OPERATION,
                         "The server keeps no history: it was started with ui-history = off.");
    const struct trend_series *series = trends_find(call->api, call->core, command.queue, call->now_ms);
    const uint32_t period_s = trends_period_s(command.scale);
    writer_number(call->reply, "Period", period_s);
    writer_time(call->reply, "EndsAt", (uint64_t)call->api->trends.open[command.scale] * period_s * 1000);
    for (unsigned member = 0; member < MEMBER_COUNT; member++)
        write_member(call, member, series, &command);
    return OK;
}
