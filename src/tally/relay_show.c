/* tally relay show, pause, resume and delete: one request each, about one relay. */
#include "tally/output.h"
#include <stdio.h>

static void print_texts(yyjson_val *object, const char *const fields[][2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = json_text(object, fields[i][1]);
        if (text != NULL)
            output_field(fields[i][0], text);
    }
}

static void print_numbers(yyjson_val *relay)
{
    static const char *const fields[][2] = {
        {"epoch", "Epoch"},     {"position", "Position"}, {"delivered", "Delivered"}, {"duplicates", "Duplicates"},
        {"retries", "Retries"}, {"parked", "Parked"},     {"in doubt", "InDoubt"},    {"takeovers", "Takeovers"}};
    output_number("waiting", json_number(yyjson_obj_get(relay, "Lag"), "Rows"));
    output_number("lag s", json_number(yyjson_obj_get(relay, "Lag"), "Seconds"));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        output_number(fields[i][0], json_number(relay, fields[i][1]));
}

static void print_text(yyjson_val *relay)
{
    static const char *const texts[][2] = {{"relay", "RelayName"}, {"state", "State"}, {"order", "Order"}};
    static const char *const source[][2] = {
        {"source", "Type"}, {"connection", "Connection"}, {"table", "Table"}, {"from", "QueueUrl"}};
    static const char *const sink[][2] = {
        {"sink", "Type"}, {"queue", "QueueUrl"}, {"region", "Region"}, {"url", "Url"}, {"mode", "Mode"}};
    static const char *const troubles[][2] = {{"error", "LastError"}, {"warning", "Warning"}};
    print_texts(relay, texts, sizeof texts / sizeof texts[0]);
    output_time("since", json_real(relay, "Since"));
    print_texts(yyjson_obj_get(relay, "Source"), source, sizeof source / sizeof source[0]);
    print_texts(yyjson_obj_get(relay, "Sink"), sink, sizeof sink / sizeof sink[0]);
    print_numbers(relay);
    print_texts(relay, troubles, sizeof troubles / sizeof troubles[0]);
    output_time("error at", json_real(relay, "LastErrorAt"));
}

static int run_show(struct invocation *invocation)
{
    return output_named(invocation, "RelayName", "Tally.DescribeRelay", print_text);
}

static int run_pause(struct invocation *invocation)
{
    return output_named(invocation, "RelayName", "Tally.PauseRelay", NULL);
}

static int run_resume(struct invocation *invocation)
{
    return output_named(invocation, "RelayName", "Tally.ResumeRelay", NULL);
}

static int run_delete(struct invocation *invocation)
{
    return output_named(invocation, "RelayName", "Tally.DeleteRelay", NULL);
}

const struct command command_relay_show = {
    .arguments = "NAME",
    .text = "Prints what a relay does and how it is: its state, how many rows wait and for how long, how many were put "
            "aside,\n"
            "and the last error. No password and no secret is shown.\n",
    .examples = "  tally relay show orders\n"
                "  tally relay show orders --json | jq .Lag\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_show,
};

const struct command command_relay_pause = {
    .arguments = "NAME",
    .text =
        "Stops a relay until `tally relay resume`, also over a restart of the server. What is on its way is settled "
        "first.\n"
        "Another server's relay with the same source takes over, unless it is paused too.\n",
    .examples = "  tally relay pause orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_pause,
};

const struct command command_relay_resume = {
    .arguments = "NAME",
    .text = "Lets a paused relay go on.\n",
    .examples = "  tally relay resume orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_resume,
};

const struct command command_relay_delete = {
    .arguments = "NAME",
    .text = "Deletes a relay. Rows that wait stay in the outbox, and messages that it has sent stay where they are.\n",
    .examples = "  tally relay delete orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_delete,
};
