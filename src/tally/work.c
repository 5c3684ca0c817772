/* tally work: a command for each message of a queue. */
#include "base/assert.h"
#include "tally/process.h"
#include "tally/text.h"
#include "tally/worker.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTRIBUTE_PREFIX "TALLY_ATTRIBUTE_"

struct settings {
    const char *queue;
    struct option_number concurrency;
    struct option_number visibility;
    struct option_number retry_after;
    struct option_number time_limit;
    struct option_number grace;
    bool is_until_empty;
    bool is_quiet;
};

static const struct option_row options[] = {
    {"queue", "QUEUE", "where the messages come from; required", OPTION_TEXT, offsetof(struct settings, queue), 0, 0,
     NULL},
    {"concurrency", "N", "run the command for up to N messages at a time", OPTION_NUMBER,
     offsetof(struct settings, concurrency), 1, 1024, "1"},
    {"visibility", "SECONDS", "after a crash of this machine others get its messages so late", OPTION_NUMBER,
     offsetof(struct settings, visibility), 1, 43200, "30"},
    {"retry-after", "SECONDS", "a failed message may be tried again so much later", OPTION_NUMBER,
     offsetof(struct settings, retry_after), 0, 43200, "0"},
    {"time-limit", "SECONDS", "end a command that runs longer; that is a failure", OPTION_NUMBER,
     offsetof(struct settings, time_limit), 1, 43200, NULL},
    {"grace", "SECONDS", "when told to stop, let running commands go on so long", OPTION_NUMBER,
     offsetof(struct settings, grace), 0, 43200, "20"},
    {"until-empty", NULL, "stop when no message is left to receive", OPTION_FLAG,
     offsetof(struct settings, is_until_empty), 0, 0, NULL},
    {"quiet", NULL, "do not report failed commands on standard error", OPTION_FLAG, offsetof(struct settings, is_quiet),
     0, 0, NULL},
};

struct work {
    const struct invocation *invocation;
    const struct settings *settings;
    char path[PATH_MAX];
};

/* The name of the variable for an attribute: TALLY_ATTRIBUTE_ and its name, with _ for what a variable's name can't
 * have. */
static char *attribute_variable(struct arena *arena, const struct tally_attribute *attribute)
{
    char *text =
        text_format(arena, ATTRIBUTE_PREFIX "%s=%s", attribute->name, attribute->value == NULL ? "" : attribute->value);
    for (char *at = text; *at != '='; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
    return text;
}

static char **make_environment(const struct work *work, struct worker_slot *slot, const struct tally_message *message,
                               struct arena *arena)
{
    size_t count = 0;
    char **own = arena_allocate(arena, (message->attribute_count + 7) * sizeof *own);

    own[count++] = text_format(arena, "TALLY_ENDPOINT=%s", tally_client_endpoint(worker_slot_client(slot)));
    own[count++] = text_format(arena, "TALLY_QUEUE=%s", work->settings->queue);
    own[count++] = text_format(arena, "TALLY_MESSAGE_ID=%s", message->id);
    own[count++] = text_format(arena, "TALLY_RECEIPT_HANDLE=%s", message->receipt_handle);
    own[count++] = text_format(arena, "TALLY_RECEIVE_COUNT=%llu", (unsigned long long)message->receive_count);
    own[count++] = text_format(arena, "TALLY_SENT_AT_MS=%llu", (unsigned long long)message->sent_at_ms);
    own[count++] = text_format(arena, "TALLY_FENCING_TOKEN=%llu", (unsigned long long)message->fencing_token);
    for (size_t i = 0; i < message->attribute_count; i++)
        own[count++] = attribute_variable(arena, &message->attributes[i]);
    return process_environment(arena, own, count, ATTRIBUTE_PREFIX);
}

static enum worker_verdict accept_message(void *context, struct worker_slot *slot, const struct tally_message *message,
                                          struct worker_job *job)
{
    struct work *work = context;
    job->input = process_file_of(bytes_make(message->body, message->body_size));
    if (job->input < 0) {
        complain("message %s: no room for its body: %s", message->id, strerror(errno));
        return WORKER_RETRY;
    }
    job->path = work->path;
    job->argv = work->invocation->program;
    job->environment = make_environment(work, slot, message, job->arena);
    return WORKER_RUN;
}

static void report(const struct work *work, const struct tally_message *message, const struct worker_end *end)
{
    const char *name = work->invocation->program[0];
    unsigned long long retry_s = work->settings->retry_after.value;
    if (work->settings->is_quiet)
        return;
    if (end->start_errno != 0)
        complain("message %s: %s could not be started: %s", message->id, name, strerror(end->start_errno));
    else if (end->was_stopped)
        complain("message %s: %s was ended because we stop; the message is given back", message->id, name);
    else if (end->was_too_slow)
        complain("message %s: %s ran longer than %llu s and was ended; next try in %llu s", message->id, name,
                 (unsigned long long)work->settings->time_limit.value, retry_s);
    else if (WIFSIGNALED(end->wait_status))
        complain("message %s: %s was ended by signal %d; next try in %llu s", message->id, name,
                 WTERMSIG(end->wait_status), retry_s);
    else
        complain("message %s: %s ended with status %d; next try in %llu s", message->id, name,
                 WEXITSTATUS(end->wait_status), retry_s);
}

static enum worker_verdict finish_message(void *context, struct worker_slot *slot, const struct tally_message *message,
                                          struct worker_job *job, const struct worker_end *end)
{
    struct work *work = context;
    (void)slot;
    close(job->input);
    if (end->start_errno == 0 && WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == 0)
        return WORKER_DELETE;
    report(work, message, end);
    return end->was_stopped ? WORKER_GIVE_BACK : WORKER_RETRY;
}

static void do_nothing(void *context)
{
    (void)context;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct work work = {.invocation = invocation, .settings = settings};
    const struct worker_handler handler = {.context = &work, .accept = accept_message, .finish = finish_message};
    const struct worker_options pool_options = {
        .invocation = invocation,
        .queue = settings->queue,
        .concurrency = (unsigned)settings->concurrency.value,
        .visibility_s = (unsigned)settings->visibility.value,
        .retry_after_s = (unsigned)settings->retry_after.value,
        .time_limit_s = (unsigned)settings->time_limit.value,
        .grace_s = (unsigned)settings->grace.value,
        .is_until_empty = settings->is_until_empty,
    };
    struct worker_pool *pool;
    int status = EXIT_DONE;

    if (settings->queue == NULL)
        return complain_usage(invocation, "--queue is missing");
    if (!process_find(invocation->program[0], work.path, sizeof work.path))
        return complain_usage(invocation, "there is no command %s to run", invocation->program[0]);
    pool = worker_pool_create(&pool_options, &handler);
    if (pool == NULL)
        return EXIT_USAGE;
    worker_pool_start(pool);
    worker_pool_watch(pool, do_nothing, NULL);
    if (worker_pool_failure(pool) != NULL)
        status = invocation_failed_with(invocation, worker_pool_failure(pool));
    worker_pool_destroy(pool);
    return status;
}

const struct command command_work = {
    .arguments = "--queue QUEUE",
    .text =
        "Takes messages from a queue and runs COMMAND for each, with the body on its standard input. COMMAND's exit "
        "status\n"
        "decides: 0 deletes the message; anything else makes it visible again (--retry-after), for this worker or\n"
        "another. Let the queue have a RedrivePolicy, so that a message that always fails goes aside (see `tally "
        "queue\n"
        "create --help`). Runs until it is told to stop.\n"
        "\n"
        "A message is delivered at least once: after a crash it is run again, so COMMAND should bear that. While "
        "COMMAND\n"
        "runs, the message is kept hidden from others however long it takes; when this machine dies, others get it\n"
        "after --visibility seconds.\n"
        "\n"
        "COMMAND finds in its environment: TALLY_MESSAGE_ID, TALLY_QUEUE, TALLY_ENDPOINT, TALLY_RECEIPT_HANDLE,\n"
        "TALLY_RECEIVE_COUNT (attempts, this one included), TALLY_SENT_AT_MS, TALLY_FENCING_TOKEN (grows with every\n"
        "delivery; 0: not told), and TALLY_ATTRIBUTE_<NAME> for each message attribute, with _ for characters that a\n"
        "variable's name can't have.\n"
        "\n"
        "SIGTERM, SIGINT (Ctrl-C) or SIGHUP stops: no new messages, running commands may finish within --grace; what\n"
        "still runs then is ended and its message given back. A second signal cuts the grace short. Exit status 0.\n",
    .examples = "  tally work --queue orders -- ./handle-order\n"
                "  tally work --queue mails --concurrency 8 --retry-after 60 -- sendmail -t\n"
                "  tally work --queue orders --until-empty -- sh -c 'echo \"$TALLY_MESSAGE_ID: $(cat)\"'\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .takes_program = true,
    .run = run,
};
