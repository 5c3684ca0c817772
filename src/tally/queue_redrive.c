/* tally queue redrive, redrives and redrive-stop: a move task of the server moves dead letters back. */
#include "base/assert.h"
#include "tally/output.h"
#include "tally/queue_arn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    const char *to;
    struct option_number rate;
};

static const struct setting settings_table[] = {
    {"to", offsetof(struct settings, to)},
    {"rate", offsetof(struct settings, rate)},
};

static int start_task(struct invocation *invocation, const char *source, const char *destination)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;

    json_body_init(&body);
    json_add_text(&body, body.root, "SourceArn", source);
    json_add_text(&body, body.root, "DestinationArn", destination);
    if (settings->rate.is_given)
        json_add_number(&body, body.root, "MaxNumberOfMessagesPerSecond", settings->rate.value);
    return output_call(invocation, &body, "AmazonSQS.StartMessageMoveTask", NULL);
}

static int run_redrive(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    char *source, *destination = NULL;
    int status = invocation_connect(invocation);

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

/* The last part of an ARN. */
static const char *name_of(const char *arn)
{
    const char *colon = strrchr(arn, ':');
    return colon == NULL ? arn : colon + 1;
}

static void print_task(yyjson_val *task)
{
    const char *status = json_text(task, "Status");
    const char *destination = json_text(task, "DestinationArn");
    const char *reason = json_text(task, "FailureReason");
    printf("%-9s %8llu of %llu", status == NULL ? "" : status,
           (unsigned long long)json_number(task, "ApproximateNumberOfMessagesMoved"),
           (unsigned long long)json_number(task, "ApproximateNumberOfMessagesToMove"));
    if (destination != NULL)
        printf("  to %s", name_of(destination));
    if (reason != NULL)
        printf("  %s", reason);
    puts("");
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
        complain("no redrive of %s is running", invocation->arguments[0]);
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
