/* tally queue redrive, redrives and redrive-stop: a move task of the server moves dead letters back. And tally
 * delete-messages: such a task deletes messages. */
#include "base/assert.h"
#include "platform/monotonic.h"
#include "tally/queue_arn.h"
#include "tally/selection.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS_MAX 10u
#define LOOK_PAUSE_MS 100u

struct settings {
    struct selection_settings selection; /* first, for its rows */
    const char *to;
};

static const struct setting settings_table[] = {
    {"to", offsetof(struct settings, to)},
    SELECTION_SETTINGS,
};

static const struct setting delete_table[] = {
    SELECTION_SETTINGS,
};

/* Lists the queue's tasks, at most `count`, newest first. False: invocation_failed() tells why. */
static bool list_tasks(struct invocation *invocation, uint64_t count, struct tally_reply *reply)
{
    struct json_body body;
    char *source = queue_arn(invocation, invocation->arguments[0]);
    bool is_good;

    if (source == NULL)
        return false;
    json_body_init(&body);
    json_add_text(&body, body.root, "SourceArn", source);
    json_add_number(&body, body.root, "MaxResults", count);
    is_good = json_body_call(&body, invocation->client, "AmazonSQS.ListMessageMoveTasks", reply) == TALLY_OK;
    free(source);
    return is_good;
}

/* What the newest task of the queue came to. False: it is not known, or not over. */
static bool has_matched_nothing(struct invocation *invocation, bool *is_running)
{
    struct tally_reply reply;
    *is_running = false;
    if (!list_tasks(invocation, 1, &reply))
        return false;
    yyjson_val *task = yyjson_arr_get_first(yyjson_obj_get(json_root(&reply), "Results"));
    const char *status = json_text(task, "Status");
    const bool is_untouched = json_number(task, "ApproximateNumberOfMessagesMoved") == 0 &&
                              json_number(task, "ApproximateNumberOfMessagesToMove") == 0 &&
                              json_number(task, "Refused") == 0;
    const bool is_completed = status != NULL && strcmp(status, "COMPLETED") == 0;
    *is_running = is_untouched && status != NULL && strcmp(status, "RUNNING") == 0;
    tally_reply_deinit(&reply);
    return is_untouched && is_completed;
}

/* A reason with a typing error is answered as a right one is. So what was started is looked at, until it has found
 * something or for a moment. */
static void say_if_nothing_matched(struct invocation *invocation)
{
    bool is_running = true;
    for (unsigned looks = 0; is_running && looks < LOOKS_MAX; looks++) {
        if (looks > 0)
            sleep_for(LOOK_PAUSE_MS);
        if (has_matched_nothing(invocation, &is_running))
            puts("0 messages match");
    }
}

static int start(struct invocation *invocation, struct json_body *body, const char *action, bool is_dry_run)
{
    const int status = output_call(invocation, body, action, is_dry_run ? selection_print : NULL);
    if (status == EXIT_DONE && !is_dry_run && !invocation->is_json)
        say_if_nothing_matched(invocation);
    return status;
}

static int start_task(struct invocation *invocation, const char *source, const char *destination)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;

    json_body_init(&body);
    json_add_text(&body, body.root, "SourceArn", source);
    json_add_text(&body, body.root, "DestinationArn", destination);
    selection_add(&settings->selection, &body);
    return start(invocation, &body, "AmazonSQS.StartMessageMoveTask", settings->selection.is_dry_run);
}

static int run_redrive(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    char *source, *destination = NULL;
    int status = invocation_connect(invocation);

    if (status == EXIT_DONE && selection_needs_server(&settings->selection))
        status = selection_check_server(invocation);
    if (status != EXIT_DONE)
        return status;
    source = queue_arn(invocation, invocation->arguments[0]);
    if (source != NULL && settings->to != NULL)
        destination = queue_arn(invocation, settings->to);
    if (source == NULL || (settings->to != NULL && destination == NULL))
        status = invocation_failed(invocation, invocation->client);
    else
        status = start_task(invocation, source, destination);
    free(source);
    free(destination);
    return status;
}

static int run_delete(struct invocation *invocation)
{
    const struct selection_settings *settings = invocation->settings;
    struct json_body body;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    selection_add(settings, &body);
    return start(invocation, &body, "Tally.DeleteMessages", settings->is_dry_run);
}

static void print_refusals(yyjson_val *task)
{
    size_t i, max;
    yyjson_val *refusal;
    yyjson_arr_foreach(yyjson_obj_get(task, "Refusals"), i, max, refusal)
    {
        printf("  %s %s\n", output_text_of(refusal, "MessageId"), output_text_of(refusal, "Reason"));
    }
}

static void print_task(yyjson_val *task)
{
    const char *status = json_text(task, "Status");
    const char *destination = json_text(task, "DestinationArn");
    const char *reason = json_text(task, "FailureReason"), *kind = json_text(task, "Kind");
    const uint64_t refused = json_number(task, "Refused");
    printf("%-9s %8llu of %llu", status == NULL ? "" : status,
           (unsigned long long)json_number(task, "ApproximateNumberOfMessagesMoved"),
           (unsigned long long)json_number(task, "ApproximateNumberOfMessagesToMove"));
    if (kind != NULL && strcmp(kind, "delete") == 0)
        printf("  deleted");
    if (destination != NULL)
        printf("  to %s", queue_name_in(destination));
    if (reason != NULL)
        printf("  %s", reason);
    if (refused > 0)
        printf("  %llu stayed", (unsigned long long)refused);
    puts("");
    print_refusals(task);
}

static int run_redrives(struct invocation *invocation)
{
    struct tally_reply reply;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    if (!list_tasks(invocation, 10, &reply))
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json) {
        output_reply(&reply);
    } else {
        size_t i, max;
        yyjson_val *task;
        yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Results"), i, max, task)
        {
            print_task(task);
        }
    }
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static int run_stop(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply tasks;
    const char *handle;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    if (!list_tasks(invocation, 1, &tasks))
        return invocation_failed(invocation, invocation->client);
    handle = json_text(yyjson_arr_get_first(yyjson_obj_get(json_root(&tasks), "Results")), "TaskHandle");
    if (handle == NULL) {
        tally_reply_deinit(&tasks);
        complain("no redrive of %s is running, and no task that deletes", invocation->arguments[0]);
        return EXIT_REFUSED;
    }
    json_body_init(&body);
    json_add_text(&body, body.root, "TaskHandle", handle);
    status = output_call(invocation, &body, "AmazonSQS.CancelMessageMoveTask", NULL);
    tally_reply_deinit(&tasks);
    return status;
}

const struct command command_queue_redrive = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run_redrive,
};

const struct command command_queue_redrives = {
    .run = run_redrives,
};

const struct command command_queue_redrive_stop = {
    .run = run_stop,
};

const struct command command_delete_messages = {
    .settings = delete_table,
    .setting_count = ARRAY_LENGTH(delete_table),
    .settings_size = sizeof(struct selection_settings),
    .run = run_delete,
};
