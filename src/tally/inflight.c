/* tally inflight: which messages are in flight, and who has them. */
#include "base/assert.h"
#include "tally/pages.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

struct settings {
    const char *key;
    const char *worker;
    struct option_number limit;
};

static const struct setting settings_table[] = {
    {"key", offsetof(struct settings, key)},
    {"worker", offsetof(struct settings, worker)},
    {"limit", offsetof(struct settings, limit)},
};

static void print_age(double seconds)
{
    char age[OUTPUT_AGE_SIZE];
    output_age(seconds > 0 ? (uint64_t)seconds : 0, age);
    printf("%7s ", age);
}

static void print_line(yyjson_val *message)
{
    const double now_s = (double)time(NULL);
    const char *url = output_text_of(message, "QueueUrl"), *slash = strrchr(url, '/');
    char holder[OUTPUT_HOLDER_SIZE];
    print_age(now_s - json_real(message, "ReceivedAt"));
    print_age(json_real(message, "VisibleAt") - now_s);
    printf("%8llu  %s", (unsigned long long)json_number(message, "ReceiveCount"), output_text_of(message, "MessageId"));
    output_in_line("  ", slash == NULL ? url : slash + 1);
    output_holder(message, holder);
    if (holder[0] != '\0')
        output_in_line("  ", holder);
    puts("");
}

static void ask(void *context, struct json_body *body)
{
    const struct invocation *invocation = context;
    const struct settings *settings = invocation->settings;
    json_add_text(body, body->root, "QueueUrl", invocation->argument_count == 0 ? NULL : invocation->arguments[0]);
    json_add_text(body, body->root, "AccessKeyId", settings->key);
    json_add_text(body, body->root, "Worker", settings->worker);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (!invocation->is_json)
        printf("%7s %7s %8s  %-36s  %s\n", "HELD", "LEFT", "RECEIVED", "MESSAGE", "QUEUE AND HOLDER");
    return pages_run(&(struct pages){.invocation = invocation,
                                     .action = "Tally.ListInFlight",
                                     .list = "Messages",
                                     .limit = settings->limit.value,
                                     .ask = ask,
                                     .print = print_line,
                                     .context = invocation});
}

const struct command command_inflight = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
