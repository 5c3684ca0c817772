/* Commands about an existing batch: tally batch list, show, units, seal, cancel and delete. */
#include "base/assert.h"
#include "tally/selection.h"
#include <stdio.h>

static void print_line(yyjson_val *batch)
{
    const char *status = json_text(batch, "Status");
    uint64_t total = json_number(batch, "Total"), failed = json_number(batch, "Failed");
    printf("%-40s %-10s %-10s %llu of %llu ended", output_text_of(batch, "BatchId"), output_text_of(batch, "State"),
           status == NULL ? "-" : status, (unsigned long long)(total - json_number(batch, "Remaining")),
           (unsigned long long)total);
    if (failed > 0)
        printf(", %llu failed", (unsigned long long)failed);
    puts("");
}

static const char *const targets[][2] = {
    {"on complete", "OnComplete"}, {"on success", "OnSuccess"}, {"on failure", "OnFirstFailure"}};

static void print_batch(yyjson_val *batch)
{
    static const char *const texts[][2] = {{"batch", "BatchId"}, {"state", "State"}, {"status", "Status"}};
    static const char *const counts[][2] = {
        {"total", "Total"},         {"succeeded", "Succeeded"}, {"failed", "Failed"},
        {"cancelled", "Cancelled"}, {"remaining", "Remaining"},
    };
    static const char *const message[][2] = {{"message", "CompletionMessageId"}};
    static const char *const spec[][2] = {
        {"expected", "ExpectedTotal"}, {"tracking", "Tracking"}, {"parent", "Parent"}};
    output_members(batch, texts, ARRAY_LENGTH(texts));
    output_numbers(batch, counts, ARRAY_LENGTH(counts));
    output_members(batch, spec, ARRAY_LENGTH(spec));
    for (size_t i = 0; i < ARRAY_LENGTH(targets); i++)
        if (yyjson_obj_get(batch, targets[i][1]) != NULL)
            output_field(targets[i][0], output_text_of(yyjson_obj_get(batch, targets[i][1]), "QueueUrl"));
    output_time("created", json_real(batch, "CreatedAt"));
    output_time("sealed", json_real(batch, "SealedAt"));
    output_time("expires", json_real(batch, "ExpiresAt"));
    output_time("completed", json_real(batch, "CompletedAt"));
    output_members(batch, message, 1);
}

static void print_unit(yyjson_val *unit)
{
    const char *detail = json_text(unit, "Detail");
    printf("%-12s ", output_text_of(unit, "State"));
    output_in_line("", output_text_of(unit, "Unit"));
    output_in_line(detail == NULL ? "" : "  ", detail == NULL ? "" : detail);
    puts("");
}

static void print_sealed(yyjson_val *answer)
{
    printf("remaining %llu%s\n", (unsigned long long)json_number(answer, "Remaining"),
           json_is_true(answer, "Completed") ? ", the batch is complete" : "");
}

struct cancel_settings {
    bool is_dry_run;
};

static const struct setting cancel_table[] = {
    {"dry-run", offsetof(struct cancel_settings, is_dry_run)},
};

static int preview_cancel(struct invocation *invocation)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "BatchId", invocation->arguments[0]);
    return selection_call(invocation, &body, "Tally.CancelBatch", true);
}

/* The batch in the server's answer is not shown. */
static int run_cancel(struct invocation *invocation)
{
    const struct cancel_settings *settings = invocation->settings;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (settings->is_dry_run)
        return preview_cancel(invocation);
    if (tally_batch_cancel(invocation->client, invocation->arguments[0]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

struct settings {
    const char *state;
    const char *prefix;
};

static const struct setting list_table[] = {
    {"state", offsetof(struct settings, state)},
    {"prefix", offsetof(struct settings, prefix)},
};

static const struct setting units_table[] = {
    {"state", offsetof(struct settings, state)},
};

const struct command command_batch_list = {.settings = list_table,
                                           .setting_count = ARRAY_LENGTH(list_table),
                                           .settings_size = sizeof(struct settings),
                                           .action = "Tally.ListBatches",
                                           .list = "Batches",
                                           .print = print_line};
const struct command command_batch_show = {
    .action = "Tally.DescribeBatch", .members = {"BatchId"}, .print = print_batch};
const struct command command_batch_units = {.settings = units_table,
                                            .setting_count = ARRAY_LENGTH(units_table),
                                            .settings_size = sizeof(struct settings),
                                            .action = "Tally.ListUnits",
                                            .members = {"BatchId"},
                                            .list = "Units",
                                            .print = print_unit};
const struct command command_batch_seal = {.action = "Tally.SealBatch", .members = {"BatchId"}, .print = print_sealed};
const struct command command_batch_cancel = {.settings = cancel_table,
                                             .setting_count = ARRAY_LENGTH(cancel_table),
                                             .settings_size = sizeof(struct cancel_settings),
                                             .run = run_cancel};
const struct command command_batch_delete = {.action = "Tally.DeleteBatch", .members = {"BatchId"}};
