/* StartBackup, DescribeBackup and DeleteBackup: copies of all namespaces at one instant (docs/how-to/backup.md). */
#include "api/backup_control.h"
#include "api/state.h"

static const char *const state_names[] = {
    [BACKUP_RUNNING] = "running", [BACKUP_FINISHED] = "finished", [BACKUP_FAILED] = "failed"};

/* ERROR_UNSUPPORTED_OPERATION: nobody here makes backups. */
static enum error find_control(struct call *call, const struct backup_control **control)
{
    *control = call_options(call)->backups;
    return *control != NULL ? OK : call_fail(call, ERROR_UNSUPPORTED_OPERATION, "This server makes no backups.");
}

static enum error fail_absent(struct call *call, struct bytes id)
{
    return id.size == 0 ? call_fail(call, ERROR_BACKUP_DOES_NOT_EXIST, "There is no backup.")
                        : call_fail(call, ERROR_BACKUP_DOES_NOT_EXIST, "There is no backup '%.*s'.",
                                    (int)(id.size < 100 ? id.size : 100), (const char *)id.ptr);
}

static void write_report(struct writer *reply, const struct backup_report *report)
{
    writer_string(reply, "BackupId", report->id);
    writer_string(reply, "State", state_names[report->state]);
    writer_time(reply, "StartedAt", report->started_ms);
    if (report->instant_ms > 0)
        writer_time(reply, "Instant", report->instant_ms);
    if (report->finished_ms > 0)
        writer_time(reply, "FinishedAt", report->finished_ms);
    if (report->state == BACKUP_FAILED)
        writer_string(reply, "FailureReason", report->failure);
    if (report->state != BACKUP_FINISHED)
        return;
    writer_string(reply, "Folder", report->folder);
    writer_number(reply, "Files", report->files);
    writer_number(reply, "Bytes", report->bytes);
}

enum error action_start_backup(struct call *call)
{
    const struct backup_control *control;
    struct backup_report report;
    enum error error = find_control(call, &control);
    if (error == OK)
        error = control->start(control->context, &report, call->failure);
    if (error != OK)
        return error;
    call->has_acted = true;
    write_report(call->reply, &report);
    return OK;
}

enum error action_describe_backup(struct call *call)
{
    const struct backup_control *control;
    struct backup_report report;
    struct bytes id = {NULL, 0};
    enum error error = params_text(&call->params, "BackupId", &id);
    if (error == OK)
        error = find_control(call, &control);
    if (error != OK)
        return error;
    if (!control->describe(control->context, id, &report))
        return fail_absent(call, id);
    write_report(call->reply, &report);
    return OK;
}

enum error action_delete_backup(struct call *call)
{
    const struct backup_control *control;
    struct bytes id;
    enum error error = params_required_text(&call->params, "BackupId", &id);
    if (error == OK)
        error = find_control(call, &control);
    if (error != OK)
        return error;
    if (!control->remove(control->context, id))
        return fail_absent(call, id);
    call->has_acted = true;
    return OK;
}
