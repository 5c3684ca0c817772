/* tally work: runs a command for each message of a queue. */
#include "base/assert.h"
#include "base/trace_context.h"
#include "tally/command.h"
#include "worker/error_tail.h"
#include "worker/process.h"
#include "worker/text.h"
#include "worker/worker.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTRIBUTE_PREFIX "TALLY_ATTRIBUTE_"

/* Where a program finds the context of its trace (OpenTelemetry, environment variables as context propagation
 * carriers). */
static const struct {
    const char *attribute;
    const char *variable;
} trace_variables[TRACE_NAMES] = {
    {TRACE_PARENT, "TRACEPARENT="},
    {TRACE_STATE, "TRACESTATE="},
    {TRACE_BAGGAGE, "BAGGAGE="},
};

struct settings {
    const char *queue;
    const char *name;
    struct option_number concurrency;
    struct option_number visibility;
    struct option_number retry_after;
    struct option_number max_attempts;
    const char *dead_letter;
    struct option_number time_limit;
    struct option_number grace;
    bool is_until_empty;
    bool is_quiet;
};

static const struct setting settings_table[] = {
    {"queue", offsetof(struct settings, queue)},
    {"name", offsetof(struct settings, name)},
    {"concurrency", offsetof(struct settings, concurrency)},
    {"visibility", offsetof(struct settings, visibility)},
    {"retry-after", offsetof(struct settings, retry_after)},
    {"max-attempts", offsetof(struct settings, max_attempts)},
    {"dead-letter", offsetof(struct settings, dead_letter)},
    {"time-limit", offsetof(struct settings, time_limit)},
    {"grace", offsetof(struct settings, grace)},
    {"until-empty", offsetof(struct settings, is_until_empty)},
    {"quiet", offsetof(struct settings, is_quiet)},
};

struct work {
    const struct invocation *invocation;
    const struct settings *settings;
    char path[PATH_MAX];
};

/* The name of the variable for an attribute: TALLY_ATTRIBUTE_ and its name. It has _ in place of characters that a
 * variable's name can't have. */
static char *attribute_variable(struct arena *arena, const struct tally_attribute *attribute)
{
    char *text =
        text_format(arena, ATTRIBUTE_PREFIX "%s=%s", attribute->name, attribute->value == NULL ? "" : attribute->value);
    for (char *at = text; *at != '='; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
    return text;
}

/* Adds the variables of the message's trace. How many there are. */
static size_t add_trace(struct arena *arena, const struct tally_message *message, char **own)
{
    size_t count = 0;
    for (size_t i = 0; i < TRACE_NAMES; i++) {
        const char *value = tally_message_attribute(message, trace_variables[i].attribute);
        if (value != NULL)
            own[count++] = text_format(arena, "%s%s", trace_variables[i].variable, value);
    }
    return count;
}

static char **make_environment(const struct work *work, struct worker_slot *slot, const struct tally_message *message,
                               struct arena *arena)
{
    /* A trace of our own is none of the message's. */
    static const char *const hidden[] = {ATTRIBUTE_PREFIX, "TRACEPARENT=", "TRACESTATE=", "BAGGAGE=", NULL};
    size_t count = 0;
    char **own = arena_allocate(arena, (message->attribute_count + 11 + TRACE_NAMES) * sizeof *own);

    own[count++] = text_format(arena, "TALLY_ENDPOINT=%s", tally_client_endpoint(worker_slot_client(slot)));
    if (work->invocation->ca_file != NULL) /* otherwise it could not call the server under our endpoint */
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
    if (message->failure_reason != NULL)
        own[count++] = text_format(arena, ATTRIBUTE_PREFIX "Tally_FailureReason=%s", message->failure_reason);
    count += add_trace(arena, message, own + count);
    return process_environment(arena, own, count, hidden);
}

static enum worker_verdict accept_message(void *context, struct worker_slot *slot, const struct tally_message *message,
                                          struct worker_job *job)
{
    struct work *work = context;
    job->input = process_file_of(bytes_make(message->body, message->body_size));
    if (job->input < 0) {
        job->reason = text_format(job->arena, "no room for its body: %s", strerror(errno));
        return WORKER_FAIL;
    }
    job->context = error_tail_create(&job->errors);
    job->path = work->path;
    job->argv = work->invocation->program;
    job->environment = make_environment(work, slot, message, job->arena);
    return WORKER_RUN;
}

/* How the program ended and its last line of output, in the slot's arena: the reason of a failed attempt. */
static const char *describe_end(const struct work *work, struct worker_job *job, const struct worker_end *end,
                                const char *line)
{
    const char *what = worker_end_text(job->arena, end, (unsigned)work->settings->time_limit.value);
    return *line == '\0' ? what : text_format(job->arena, "%s: %s", what, line);
}

/* "attempt 2 of 25, next in 4 s" */
static const char *describe_return(struct arena *arena, const struct tally_failed *failed)
{
    const char *most =
        failed->attempts_max == 0 ? "" : text_format(arena, " of %llu", (unsigned long long)failed->attempts_max);
    return text_format(arena, "attempt %llu%s, next in %.0f s", (unsigned long long)failed->attempt, most,
                       failed->retry_after_s);
}

/* What becomes of the message. */
static const char *describe_fate(const struct work *work, struct worker_slot *slot, const struct worker_job *job,
                                 const struct tally_failed *failed)
{
    struct arena *arena = job->arena;
    if (job->settle_error != NULL)
        return text_format(arena, "it comes back in at most %u s, because the server did not take this failure: %s",
                           (unsigned)work->settings->visibility.value, job->settle_error);
    const char *attempt = text_format(arena, "attempt %llu was the last", (unsigned long long)failed->attempt);
    if (strcmp(failed->outcome, "returned") == 0)
        return describe_return(arena, failed);
    if (strcmp(failed->outcome, "dead-lettered") == 0)
        return text_format(arena, "%s, it is in queue %s now", attempt,
                           *failed->queue == '\0' ? "of dead letters" : failed->queue);
    if (strcmp(failed->outcome, "dropped") == 0)
        return text_format(arena, "%s, it is dropped: its queue has no dead-letter queue", attempt);
    if (strcmp(failed->outcome, "held") == 0)
        return text_format(arena, "%s, its group is held", attempt);
    if (worker_slot_is_at_most_once(slot))
        return "its queue delivers at most once, so it is not tried again";
    if (job->is_left)
        return "it is left alone, because our lease was over and another worker may have it";
    return "it had ended before";
}

static void report(void *context, struct worker_slot *slot, const struct tally_message *message,
                   const struct worker_job *job, const struct tally_failed *failed)
{
    const struct work *work = context;
    if (!work->settings->is_quiet || job->settle_error != NULL)
        complain("message %s: %s: %s; %s", message->id, work->invocation->program[0], job->reason,
                 describe_fate(work, slot, job, failed));
}

static enum worker_verdict finish_message(void *context, struct worker_slot *slot, const struct tally_message *message,
                                          struct worker_job *job, const struct worker_end *end)
{
    struct work *work = context;
    (void)message;
    bool is_done = end->start_errno == 0 && WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == 0;
    close(job->input);
    if (job->errors >= 0)
        close(job->errors);
    char line[ERROR_TAIL_SIZE];
    error_tail_finish(job->context, line);
    if (is_done)
        return WORKER_DELETE;
    if (!end->was_stopped || worker_slot_is_at_most_once(slot)) {
        job->reason = describe_end(work, job, end, line);
        return WORKER_FAIL;
    }
    if (!work->settings->is_quiet)
        job->reason = text_format(job->arena, "%s was ended, because we stop", work->invocation->program[0]);
    return WORKER_GIVE_BACK;
}

static void do_nothing(void *context)
{
    (void)context;
}

/* The name at the end of a queue's URL, without final slashes; or the name itself. */
static struct bytes queue_name(const char *queue)
{
    size_t size = strlen(queue), start;
    while (size > 0 && queue[size - 1] == '/')
        size--;
    for (start = size; start > 0 && queue[start - 1] != '/';)
        start--;
    return bytes_make(queue + start, size - start);
}

/* Checked now, rather than when the first message fails for good. An unreachable server is no error here, because we
 * wait for it anyway. */
static int check_dead_letter_queue(struct invocation *invocation, const struct settings *settings)
{
    struct tally_queue_counts counts;
    struct bytes source = queue_name(settings->queue), target = queue_name(settings->dead_letter);
    if (bytes_equal(source, target))
        return complain_usage(invocation, "--dead-letter must be another queue than --queue");
    if (bytes_ends_with(source, BYTES(".fifo")) != bytes_ends_with(target, BYTES(".fifo")))
        return complain_usage(invocation, "--dead-letter and --queue must be of one type: both .fifo, or neither");
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_queue_count(invocation->client, settings->dead_letter, &counts) == TALLY_REFUSED)
        return invocation_failed(invocation, invocation->client);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct work work = {.invocation = invocation, .settings = settings};
    const struct worker_handler handler = {
        .context = &work, .accept = accept_message, .finish = finish_message, .report = report};
    const struct worker_options pool_options = {
        .connect = invocation_connect_thread,
        .note = invocation_note,
        .context = invocation,
        .queue = settings->queue,
        .concurrency = (unsigned)settings->concurrency.value,
        .visibility_s = (unsigned)settings->visibility.value,
        .has_retry_after = settings->retry_after.is_given,
        .retry_after_s = (unsigned)settings->retry_after.value,
        .has_attempts_max = settings->max_attempts.is_given,
        .attempts_max = (unsigned)settings->max_attempts.value,
        .dead_letter_queue = settings->dead_letter,
        .time_limit_s = (unsigned)settings->time_limit.value,
        .grace_s = (unsigned)settings->grace.value,
        .is_until_empty = settings->is_until_empty,
        .is_quiet = settings->is_quiet,
    };
    struct worker_pool *pool;
    int status = EXIT_DONE;

    if (settings->queue == NULL)
        return complain_usage(invocation, "--queue is missing");
    status = invocation_name_worker(invocation, settings->name);
    if (status != EXIT_DONE)
        return status;
    if (!process_find(invocation->program[0], work.path, sizeof work.path))
        return complain_usage(invocation, "there is no command %s to run", invocation->program[0]);
    if (settings->dead_letter != NULL)
        status = check_dead_letter_queue(invocation, settings);
    if (status != EXIT_DONE)
        return status;
    complain_briefly(); /* otherwise the reader of our errors could keep messages, and us, from ending */
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
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
