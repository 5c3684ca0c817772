/* CompleteUnits: how external units ended. */
#include "api/disk_limit.h"
#include "api/growth.h"
#include "api/text.h"

#define REPORTS_MAX 100000u
#define DETAIL_SIZE_MAX 1024u

enum error call_read_report(struct call *call, yyjson_val *item, size_t index, struct unit_report *report)
{
    struct params params = {.object = item, .failure = call->failure};
    struct bytes status = BYTES("succeeded");
    *report = (struct unit_report){0};
    if (!yyjson_is_obj(item))
        return call_fail(call, ERROR_SERIALIZATION, "Entry %zu of Units is not an object.", index);
    enum error error = params_required_text(&params, "Unit", &report->key);
    if (error == OK)
        error = params_text(&params, "Status", &status);
    if (error == OK)
        error = params_text(&params, "Detail", &report->detail);
    if (error != OK)
        return error;
    bool is_failed = bytes_equal(status, BYTES("failed"));
    if (!is_failed && !bytes_equal(status, BYTES("succeeded")))
        return params_invalid(&params, "Status", status, "It must be succeeded or failed.");
    if (report->detail.size > DETAIL_SIZE_MAX || !text_is_allowed(report->detail))
        return call_fail(
            call, ERROR_INVALID_PARAMETER_VALUE,
            "The Detail of entry %zu has %zu bytes; the limit is %u, of the characters a message body may have.", index,
            report->detail.size, DETAIL_SIZE_MAX);
    report->outcome = is_failed ? UNIT_FAILED : UNIT_SUCCEEDED;
    return report->detail.size > 0 ? growth_check(call, GROWTH_LITTLE) : OK; /* it stays with the batch */
}

static enum error read_reports(struct call *call, struct unit_report **reports, uint32_t *report_count)
{
    yyjson_val *list;
    enum error error = params_list(&call->params, "Units", &list);
    size_t count = yyjson_arr_size(list);
    if (error != OK)
        return error;
    if (count == 0)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter Units.");
    if (count > REPORTS_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Units holds %zu entries; give at most %u in one request.", count, REPORTS_MAX);
    *reports = arena_allocate(call->arena, count * sizeof(**reports));
    *report_count = (uint32_t)count;
    size_t index;
    yyjson_val *item;
    yyjson_arr_foreach(list, index, count, item)
    {
        error = call_read_report(call, item, index, &(*reports)[index]);
        if (error != OK)
            return error;
    }
    return OK;
}

static enum error explain(struct call *call, const struct batch *batch, enum error error, struct bytes unknown)
{
    if (error == ERROR_UNSUPPORTED_OPERATION)
        return call_fail(call, error, "Batch '%.*s' has Tracking xor, which knows no keys; use XorUnits.",
                         BYTES_FORMAT(batch->id_owned));
    if (error == ERROR_OVER_LIMIT && disk_limit_check_size(call) != OK)
        return ERROR_DISK_IS_FULL;
    if (error == ERROR_OVER_LIMIT)
        return call_fail(call, error,
                         "The events of so many units, with the messages of this batch and of its parents, may be "
                         "larger than a record of the log. Give fewer in one request, or start with a larger "
                         "--segment-size. Nothing was recorded.");
    return call_fail(call, error, "Batch '%.*s' has no external unit '%.*s'; nothing was recorded.",
                     BYTES_FORMAT(batch->id_owned), (int)(unknown.size < 256 ? unknown.size : 256),
                     (const char *)unknown.ptr);
}

enum error action_complete_units(struct call *call)
{
    const struct batch *batch;
    struct unit_report *reports = NULL;
    uint32_t report_count = 0, unknown = 0;
    enum error error = call_batch(call, &batch);
    if (error == OK)
        error = read_reports(call, &reports, &report_count);
    if (error != OK)
        return error;
    bool is_completed;
    error = decide_complete_units(call->core, batch, reports, report_count, namespace_decision_size_max(call->ns),
                                  &unknown, &is_completed);
    if (error != OK)
        return explain(call, batch, error, reports[unknown].key);
    writer_list_begin(call->reply, "Results");
    for (uint32_t i = 0; i < report_count; i++) {
        writer_object_begin(call->reply, NULL);
        writer_text(call->reply, "Unit", reports[i].key);
        writer_boolean(call->reply, "Recorded", reports[i].is_recorded);
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
    writer_number(call->reply, "Remaining", batch_counts(batch).remaining);
    writer_boolean(call->reply, "Completed", is_completed);
    return OK;
}
