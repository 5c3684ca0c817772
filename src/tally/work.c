/* tally work: a command for each message of a queue. */
#include "base/assert.h"
#include "tally/error_tail.h"
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
    {"retry-after", "SECONDS",
     "a failed message may be tried again so much later; else as its queue's Tally.Backoff says", OPTION_NUMBER,
     offsetof(struct settings, retry_after), 0, 43200, NULL},
    {"time-limit", "SECONDS", "end a command that runs longer; that is a failure", OPTION_NUMBER,
     offsetof(struct settings, time_limit), 1, 43200, NULL},
    {"grace", "SECONDS", "when told to stop, let running commands go on so long", OPTION_NUMBER,
     offsetof(struct settings, grace), 0, 43200, "20"},
    {"until-empty", NULL, "stop when no message is left to receive", OPTION_FLAG,
     offsetof(struct settings, is_until_empty), 0, 0, NULL},
    {"quiet", NULL, "do not report failed commands and stops on standard error", OPTION_FLAG,
     offsetof(struct settings, is_quiet), 0, 0, NULL},
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
    char **own = arena_allocate(arena, (message->attribute_count + 10) * sizeof *own);

    own[count++] = text_format(arena, "TALLY_ENDPOINT=%s", tally_client_endpoint(worker_slot_client(slot)));
    if (work->invocation->ca_file != NULL) /* or else it could not speak to the server under our endpoint */
        own[count++] = text_format(arena, "TALLY_CA_FILE=%s", work->invocation->ca_file);
    own[count++] = text_format(arena, "TALLY_QUEUE=%s", work->settings->queue);
    own[count++] = text_format(arena, "TALLY_MESSAGE_ID=%s", message->id);
    own[count++] = text_format(arena, "TALLY_RECEIPT_HANDLE=%s", message->receipt_handle);
    own[count++] = text_format(arena, "TALLY_RECEIVE_COUNT=%llu", (unsigned long long)message->receive_count);
    own[count++] = text_format(arena, "TALLY_SENT_AT_MS=%llu", (unsigned long long)message->sent_at_ms);
    own[count++] = text_format(arena, "TALLY_FENCING_TOKEN=%llu", (unsigned long long)message->fencing_token);
    own[count++] = text_format(arena, "TALLY_GROUP_ID=%s", message->group_id == NULL ? "" : message->group_id);
    own[count++] = text_format(arena, "TALLY_SEQUENCE_NUMBER=%s",
                               message->sequence_number == NULL ? "" : message->sequence_number);
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
    job->context = error_tail_create(&job->errors);
    job->path = work->path;
    job->argv = work->invocation->program;
    job->environment = make_environment(work, slot, message, job->arena);
    return WORKER_RUN;
}

/* How the program ended, in the slot's arena: the reason of a failed attempt. */
static const char *describe_end(const struct work *work, struct worker_job *job, const struct worker_end *end)
{
    struct error_tail *tail = job->context;
    char line[ERROR_TAIL_SIZE] = "";
    const char *what;

    if (end->was_stopped)
        what = "was ended";
    else if (end->start_errno != 0)
        what = text_format(job->arena, "could not be started: %s", strerror(end->start_errno));
    else if (end->was_too_slow)
        what = text_format(job->arena, "ran longer than %llu s and was ended",
                           (unsigned long long)work->settings->time_limit.value);
    else if (WIFSIGNALED(end->wait_status))
        what = text_format(job->arena, "was ended by signal %d", WTERMSIG(end->wait_status));
    else
        what = text_format(job->arena, "ended with status %d", WEXITSTATUS(end->wait_status));
    if (tail != NULL)
        error_tail_line(tail, line);
    return *line == '\0' ? what : text_format(job->arena, "%s: %s", what, line);
}

/* What becomes of the message; NULL: what its queue says. */
static const char *describe_fate(const struct work *work, struct worker_slot *slot, struct worker_job *job,
                                 const struct worker_end *end)
{
    const struct option_number *retry_after = &work->settings->retry_after;
    if (worker_slot_is_at_most_once(slot))
        return "its queue delivers at most once, so it is not tried again";
    if (end->was_stopped)
        return "we stop, so the message is given back";
    if (retry_after->is_given)
        return text_format(job->arena, "next try in %llu s", (unsigned long long)retry_after->value);
    return NULL;
}

static void report(const struct work *work, struct worker_slot *slot, const struct tally_message *message,
                   struct worker_job *job, const char *what, const struct worker_end *end)
{
    const char *fate = describe_fate(work, slot, job, end);
    if (!work->settings->is_quiet)
        complain("message %s: %s %s%s%s", message->id, work->invocation->program[0], what, fate == NULL ? "" : "; ",
                 fate == NULL ? "" : fate);
}

static enum worker_verdict finish_message(void *context, struct worker_slot *slot, const struct tally_message *message,
                                          struct worker_job *job, const struct worker_end *end)
{
    struct work *work = context;
    bool is_done = end->start_errno == 0 && WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == 0;
    close(job->input);
    if (job->errors >= 0)
        close(job->errors);
    if (!is_done) {
        const char *what = describe_end(work, job, end);
        report(work, slot, message, job, what, end);
        job->reason = text_format(job->arena, "%s %s", work->invocation->program[0], what);
    }
    error_tail_release(job->context);
    if (is_done)
        return WORKER_DELETE;
    if (end->was_stopped)
        return WORKER_GIVE_BACK;
    return work->settings->retry_after.is_given ? WORKER_RETRY : WORKER_FAIL;
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
        .is_quiet = settings->is_quiet,
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
        "decides: 0 deletes the message. Anything else fails the attempt, with the status and the last line of "
        "COMMAND's\n"
        "standard error as the reason: the message is visible again after its queue's Tally.Backoff (at once where "
        "there\n"
        "is none) or --retry-after, for this worker or another, until it is out of attempts. Let the queue have a\n"
        "RedrivePolicy, so that a message that always fails goes aside (see `tally queue create --help`). Runs until "
        "it\n"
        "is told to stop.\n"
        "\n"
        "A message is delivered at least once: after a crash it is run again, so COMMAND should bear that. While "
        "COMMAND\n"
        "runs, the message is kept hidden from others however long it takes; when this machine dies, others get it\n"
        "after --visibility seconds. From a queue with Tally.DeliveryMode=at-most-once a message is over when it is\n"
        "received, whatever becomes of COMMAND. On a FIFO queue the messages of a group are run one after the other, "
        "in\n"
        "order.\n"
        "\n"
        "COMMAND finds in its environment: TALLY_MESSAGE_ID, TALLY_QUEUE, TALLY_ENDPOINT, TALLY_CA_FILE (if it was "
        "given),\n"
        "TALLY_RECEIPT_HANDLE, TALLY_RECEIVE_COUNT (deliveries, this one included), TALLY_SENT_AT_MS, "
        "TALLY_FENCING_TOKEN\n"
        "(grows with every delivery, so what COMMAND writes to can refuse an older one; 0: not told), TALLY_GROUP_ID "
        "and\n"
        "TALLY_SEQUENCE_NUMBER (empty where there is none), and TALLY_ATTRIBUTE_<NAME> for each message attribute, "
        "with _\n"
        "for characters that a variable's name can't have (TALLY_ATTRIBUTE_Tally_FailureReason: why the last attempt\n"
        "failed).\n"
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
