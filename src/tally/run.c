/* tally run: a command for each file of a folder, or each line, as one batch. How it survives being killed stands in
 * run_batch.h. */
#include "base/assert.h"
#include "tally/process.h"
#include "tally/progress.h"
#include "tally/run_batch.h"
#include "tally/text.h"
#include "tally/worker.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMPLETION_WAIT_S 5
#define WORKERS_MAX 1024

struct settings {
    struct option_number workers;
    const char *name;
    bool again;
    struct option_number attempts;
    struct option_number retry_after;
    struct option_number time_limit;
    struct option_number visibility;
    struct option_number grace;
    const char *result_to;
    bool is_quiet;
};

static const struct option_row options[] = {
    {"workers", "N", "run the command for N units at a time; else one for each processor", OPTION_NUMBER,
     offsetof(struct settings, workers), 1, WORKERS_MAX, NULL},
    {"name", "NAME", "what this run is called; else made from the folder (or the lines) and COMMAND", OPTION_TEXT,
     offsetof(struct settings, name), 0, 0, NULL},
    {"again", NULL, "forget an earlier run of this name, complete or not, and begin afresh", OPTION_FLAG,
     offsetof(struct settings, again), 0, 0, NULL},
    {"attempts", "N", "a unit whose command failed N times has failed", OPTION_NUMBER, offsetof(struct settings, attempts), 1,
     1000, "3"},
    {"retry-after", "SECONDS", "a failed unit may be tried again so much later", OPTION_NUMBER,
     offsetof(struct settings, retry_after), 0, 43200, "1"},
    {"time-limit", "SECONDS", "end a command that runs longer; that is a failure", OPTION_NUMBER,
     offsetof(struct settings, time_limit), 1, 43200, NULL},
    {"visibility", "SECONDS", "after a crash its units in hand are run again so late", OPTION_NUMBER,
     offsetof(struct settings, visibility), 1, 43200, "10"},
    {"grace", "SECONDS", "when told to stop, let running commands go on so long", OPTION_NUMBER,
     offsetof(struct settings, grace), 0, 43200, "5"},
    {"result-to", "FILE", "write the completion message there instead of standard output", OPTION_TEXT,
     offsetof(struct settings, result_to), 0, 0, NULL},
    {"quiet", NULL, "no progress; --json implies it", OPTION_FLAG, offsetof(struct settings, is_quiet), 0, 0, NULL},
};

struct run {
    struct invocation *invocation;
    const struct settings *settings;
    struct run_plan plan;
    char path[PATH_MAX]; /* of the command */
    struct worker_pool *pool;
    struct progress progress; /* main thread */
    bool is_quiet;
    pthread_mutex_t mutex; /* guards what follows, and standard output */
    struct unit_map map;
    uint64_t ended;
    uint64_t failed;
    bool is_output_broken;
    bool is_complete;
    struct run_completion completion;
    struct tally_client *waiter_client;
};

/* ---- One unit: accept, finish ----------------------------------------------------------------------------------------- */

/* What a unit's command writes goes to files, and from there in one piece to our own output. */
struct outputs {
    struct unit *unit;
    int output;
    int errors;
};

/* `word` with every {} replaced by `argument`. */
static char *replace_braces(struct arena *arena, const char *word, const char *argument)
{
    const char *braces = strstr(word, "{}");
    if (braces == NULL)
        return text_format(arena, "%s", word);
    return text_format(arena, "%.*s%s%s", (int)(braces - word), word, argument, replace_braces(arena, braces + 2, argument));
}

static char **make_words(const struct run *run, struct arena *arena, const char *argument)
{
    const struct invocation *invocation = run->invocation;
    size_t count = (size_t)invocation->program_count;
    char **words = arena_allocate(arena, (count + 2) * sizeof *words);
    bool has_braces = false;

    for (size_t i = 0; i < count; i++) {
        has_braces = has_braces || strstr(invocation->program[i], "{}") != NULL;
        words[i] = replace_braces(arena, invocation->program[i], argument);
    }
    if (!has_braces)
        words[count++] = text_format(arena, "%s", argument);
    words[count] = NULL;
    return words;
}

static char **make_environment(const struct run *run, struct arena *arena, const struct unit *unit)
{
    size_t count = 0;
    char **environment;
    while (environ[count] != NULL)
        count++;
    environment = arena_allocate(arena, (count + 3) * sizeof *environment);
    memcpy(environment, environ, count * sizeof *environment);
    environment[count++] = text_format(arena, "TALLY_BATCH=%s", run->plan.batch);
    environment[count++] = text_format(arena, "TALLY_UNIT=%s", unit->key_owned);
    environment[count] = NULL;
    return environment;
}

/* What to do about a message for this unit; with the mutex held. */
static enum worker_verdict judge_message(struct unit *unit, struct worker_slot *slot, const struct tally_message *message)
{
    switch (unit->state) {
    case UNIT_NEW:
    case UNIT_OUTSTANDING:
        unit->state = UNIT_RUNNING;
        unit->slot = slot;
        return WORKER_RUN;
    case UNIT_RUNNING:
        /* The very message that the other worker has in hand, because its lease was lost: then the new handle is the one
         * that counts. Or a second message of the unit, which is not needed: the first one stays until the unit has ended. */
        return worker_slot_renew(unit->slot, message->id, message->receipt_handle) ? WORKER_LEAVE : WORKER_DELETE;
    case UNIT_ENDED:
        return WORKER_DELETE;
    }
    return WORKER_LEAVE;
}

static enum worker_verdict accept_unit(void *context, struct worker_slot *slot, const struct tally_message *message,
                                       struct worker_job *job)
{
    struct run *run = context;
    char *key = unit_key(message->body);
    struct outputs *outputs;
    struct unit *unit;
    enum worker_verdict verdict;

    pthread_mutex_lock(&run->mutex);
    unit = unit_map_find(&run->map, key);
    if (unit == NULL) /* another process of this run knows more files than we do */
        unit = unit_map_add(&run->map, strdup(message->body));
    verdict = judge_message(unit, slot, message);
    pthread_mutex_unlock(&run->mutex);
    free(key);
    if (verdict != WORKER_RUN)
        return verdict;

    outputs = arena_allocate(job->arena, sizeof *outputs);
    *outputs = (struct outputs){.unit = unit, .output = process_file(), .errors = process_file()};
    job->context = outputs;
    job->path = run->path;
    job->argv = make_words(run, job->arena, run_plan_argument(&run->plan, job->arena, message->body));
    job->environment = make_environment(run, job->arena, unit);
    job->output = outputs->output; /* -1, where there is no room for a file: straight to ours */
    job->errors = outputs->errors;
    return WORKER_RUN;
}

/* Copies what the command wrote to our own output and errors. False if standard output does not take it. */
static bool show_outputs(struct run *run, const struct outputs *outputs, bool with_output)
{
    bool is_good = true;
    pthread_mutex_lock(&run->mutex);
    if (run->progress.is_terminal && (lseek(outputs->output, 0, SEEK_END) > 0 || lseek(outputs->errors, 0, SEEK_END) > 0))
        progress_hide(&run->progress);
    if (outputs->errors >= 0)
        process_file_copy(outputs->errors, STDERR_FILENO);
    if (with_output && outputs->output >= 0)
        is_good = process_file_copy(outputs->output, STDOUT_FILENO);
    if (!is_good && !run->is_output_broken && errno != EPIPE)
        complain("can't write to standard output: %s", strerror(errno));
    run->is_output_broken = run->is_output_broken || !is_good;
    pthread_mutex_unlock(&run->mutex);
    return is_good;
}

static void set_state(struct run *run, struct unit *unit, enum unit_state state, bool is_failed)
{
    pthread_mutex_lock(&run->mutex);
    unit->state = state;
    unit->slot = NULL;
    if (state == UNIT_ENDED)
        run->ended++;
    if (state == UNIT_ENDED && is_failed)
        run->failed++;
    pthread_mutex_unlock(&run->mutex);
}

static void describe_end(const struct run *run, const struct worker_end *end, char *text, size_t size)
{
    if (end->start_errno != 0)
        snprintf(text, size, "could not be started: %s", strerror(end->start_errno));
    else if (end->was_too_slow)
        snprintf(text, size, "ended after %llu s", (unsigned long long)run->settings->time_limit.value);
    else if (WIFSIGNALED(end->wait_status))
        snprintf(text, size, "signal %d", WTERMSIG(end->wait_status));
    else
        snprintf(text, size, "exit status %d", WEXITSTATUS(end->wait_status));
}

/* Records the unit's end, however long it takes while we are not told to stop. */
static enum worker_verdict record(struct run *run, struct worker_slot *slot, struct unit *unit, bool is_failed,
                                  const char *detail)
{
    const struct tally_unit_end end = {.key = unit->key_owned, .is_failed = is_failed, .detail = is_failed ? detail : NULL};
    struct tally_client *client = worker_slot_client(slot);
    const struct tally_error *error = tally_client_error(client);

    while (tally_batch_complete(client, run->plan.batch, &end, 1, NULL, NULL) != TALLY_OK) {
        if (error->status != TALLY_REFUSED && worker_pool_pause(worker_slot_pool(slot), error))
            continue;
        set_state(run, unit, UNIT_OUTSTANDING, false);
        if (error->status != TALLY_REFUSED)
            return WORKER_GIVE_BACK;
        if (strcmp(error->code, "UnitDoesNotExist") == 0)
            return WORKER_DELETE; /* never registered: its file went before it was */
        worker_pool_fail(worker_slot_pool(slot), error);
        return WORKER_LEAVE;
    }
    worker_pool_reached(worker_slot_pool(slot));
    set_state(run, unit, UNIT_ENDED, is_failed);
    return WORKER_DELETE;
}

static enum worker_verdict decide(struct run *run, struct worker_slot *slot, const struct outputs *outputs,
                                  const struct worker_end *end)
{
    struct unit *unit = outputs->unit;
    bool is_good = end->start_errno == 0 && WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == 0;
    char detail[160] = "";

    if (!is_good && end->was_stopped) {
        set_state(run, unit, UNIT_OUTSTANDING, false);
        return WORKER_GIVE_BACK;
    }
    if (!is_good) {
        describe_end(run, end, detail, sizeof detail);
        unit->failures++; /* only its worker touches it while it runs */
        show_outputs(run, outputs, false);
        if (unit->failures < run->settings->attempts.value) {
            set_state(run, unit, UNIT_OUTSTANDING, false);
            return WORKER_RETRY;
        }
        complain("%s failed: %s", unit->text_owned, detail);
    }
    /* What it wrote comes before its end is recorded: then a crash in between repeats it and never loses it. */
    if (is_good && !show_outputs(run, outputs, true)) {
        set_state(run, unit, UNIT_OUTSTANDING, false);
        worker_pool_stop(worker_slot_pool(slot));
        return WORKER_GIVE_BACK;
    }
    return record(run, slot, unit, !is_good, detail);
}

static enum worker_verdict finish_unit(void *context, struct worker_slot *slot, const struct tally_message *message,
                                       struct worker_job *job, const struct worker_end *end)
{
    struct outputs *outputs = job->context;
    enum worker_verdict verdict = decide(context, slot, outputs, end);
    (void)message;
    if (outputs->output >= 0)
        close(outputs->output);
    if (outputs->errors >= 0)
        close(outputs->errors);
    return verdict;
}

/* ---- Waiting for the completion -------------------------------------------------------------------------------------- */

static void tell_mended(uint64_t count)
{
    complain("%llu units had lost their messages; they were sent again", (unsigned long long)count);
}

/* Receives from the result queue until the completion message is there, then stops the workers. */
static void *wait_for_completion(void *context)
{
    struct run *run = context;
    struct tally_client *client = run->waiter_client;
    struct run_completion completion = {.total = 0};
    bool is_complete = false;
    uint64_t mended = 0;

    while (!is_complete && !worker_pool_is_stopping(run->pool)) {
        enum tally_status status = run_batch_completion(client, &run->plan, COMPLETION_WAIT_S, &is_complete, &completion);
        if (status == TALLY_OK && !is_complete)
            status = run_batch_mend(client, &run->plan, &run->map, &run->mutex, &mended);
        if (status == TALLY_OK && mended > 0)
            tell_mended(mended);
        if (status == TALLY_REFUSED && tally_client_error(client)->http_status < 500) {
            worker_pool_fail(run->pool, tally_client_error(client));
            break;
        }
        if (status == TALLY_OK)
            worker_pool_reached(run->pool);
        else if (!worker_pool_pause(run->pool, tally_client_error(client)))
            break;
    }
    pthread_mutex_lock(&run->mutex);
    run->is_complete = is_complete;
    run->completion = completion;
    pthread_mutex_unlock(&run->mutex);
    worker_pool_stop(run->pool);
    return NULL;
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static void show_progress(void *context)
{
    struct run *run = context;
    pthread_mutex_lock(&run->mutex);
    progress_show(&run->progress, run->ended, run->failed, run->map.count);
    pthread_mutex_unlock(&run->mutex);
}

/* Runs workers and waiter until the completion is there or we are told to stop. */
static int work_until_complete(struct run *run)
{
    const struct settings *settings = run->settings;
    const struct worker_handler handler = {.context = run, .accept = accept_unit, .finish = finish_unit};
    const struct worker_options pool_options = {
        .invocation = run->invocation,
        .queue = run->plan.work_queue,
        .concurrency = (unsigned)settings->workers.value,
        .visibility_s = (unsigned)settings->visibility.value,
        .retry_after_s = (unsigned)settings->retry_after.value,
        .time_limit_s = (unsigned)settings->time_limit.value,
        .grace_s = (unsigned)settings->grace.value,
        .is_patient = true,
    };
    pthread_t waiter;
    int status = EXIT_DONE;
    int stopped_by;

    run->waiter_client = invocation_client_create(run->invocation);
    run->pool = worker_pool_create(&pool_options, &handler);
    if (run->pool == NULL || pthread_create(&waiter, NULL, wait_for_completion, run) != 0)
        abort(); /* no memory: nothing has been taken that would be lost */
    worker_pool_start(run->pool);
    stopped_by = worker_pool_watch(run->pool, show_progress, run);
    tally_client_interrupt(run->waiter_client);
    pthread_join(waiter, NULL);
    show_progress(run);
    progress_hide(&run->progress);
    if (run->is_output_broken)
        status = EXIT_LOCAL;
    else if (!run->is_complete && worker_pool_failure(run->pool) != NULL)
        status = invocation_failed_with(run->invocation, worker_pool_failure(run->pool));
    else if (!run->is_complete)
        status = EXIT_SIGNAL + stopped_by;
    worker_pool_destroy(run->pool);
    tally_client_destroy(run->waiter_client);
    return status;
}

static int print_completion(const struct run *run)
{
    FILE *out = stdout;
    bool is_good;

    if (run->settings->result_to != NULL)
        out = fopen(run->settings->result_to, "w");
    is_good = out != NULL && fprintf(out, "%s\n", run->completion.body_owned) > 0 && fflush(out) == 0;
    if (out != NULL && out != stdout)
        is_good = fclose(out) == 0 && is_good;
    if (!is_good) {
        complain("can't write the completion message%s%s: %s; run this again to have it", run->settings->result_to == NULL ? "" : " to ",
                 run->settings->result_to == NULL ? "" : run->settings->result_to, strerror(errno));
        return EXIT_LOCAL;
    }
    return EXIT_DONE;
}

/* Prints the completion; then, and only then, its message and the queues may go. */
static int conclude(struct run *run)
{
    const struct run_completion *completion = &run->completion;
    int status = print_completion(run);

    if (status != EXIT_DONE)
        return status;
    if (!run->is_quiet)
        complain("%s %s: %llu of %llu units succeeded%s%s", run->plan.batch, completion->status,
                 (unsigned long long)completion->succeeded, (unsigned long long)completion->total,
                 *completion->message_id == '\0' ? "" : "; completion message ", completion->message_id);
    if (run_batch_close(run->invocation->client, &run->plan, completion) != TALLY_OK)
        complain("the queues of this run could not be deleted; that does no harm: %s",
                 tally_client_error(run->invocation->client)->message);
    return strcmp(completion->status, "succeeded") == 0 ? EXIT_DONE : EXIT_UNSUCCESSFUL;
}

static void tell_beginning(const struct run *run, enum run_stage stage, uint64_t left_out)
{
    if (left_out > 0)
        complain("%llu units are new since %s was sealed and are left out; --again takes all",
                 (unsigned long long)left_out, run->plan.batch);
    if (run->is_quiet)
        return;
    complain("%s: %u units, %llu workers%s", run->plan.batch, run->map.count, (unsigned long long)run->settings->workers.value,
             stage == RUN_RESUMED ? "; going on where an earlier run stopped" : "");
}

/* Brings the batch to where its workers can begin, or finds it complete. */
static enum tally_status prepare(struct run *run, enum run_stage *stage)
{
    struct tally_client *client = run->invocation->client;
    uint64_t left_out = 0;
    enum tally_status status = TALLY_OK;

    if (run->settings->again)
        status = run_batch_forget(client, &run->plan);
    if (status == TALLY_OK)
        status = run_batch_open(client, &run->plan, stage);
    if (status != TALLY_OK || *stage == RUN_COMPLETE)
        return status;
    status = run_batch_load(client, &run->plan, &run->map, &run->ended, &run->failed);
    if (status == TALLY_OK)
        status = run_batch_fill(client, &run->plan, &run->map, &left_out);
    if (status == TALLY_OK)
        tell_beginning(run, *stage, left_out);
    return status;
}

static int carry_out(struct run *run)
{
    struct tally_client *client = run->invocation->client;
    enum run_stage stage;
    int status;

    if (prepare(run, &stage) != TALLY_OK)
        return invocation_failed(run->invocation, client);
    if (stage == RUN_COMPLETE) {
        if (run_batch_completion(client, &run->plan, 0, &run->is_complete, &run->completion) != TALLY_OK)
            return invocation_failed(run->invocation, client);
        if (!run->is_quiet)
            complain("%s was complete before, so nothing was run; --again begins afresh", run->plan.batch);
        return conclude(run);
    }
    progress_init(&run->progress, run->is_quiet, run->ended);
    status = work_until_complete(run);
    if (status == EXIT_DONE)
        return conclude(run);
    if (!run->is_quiet && status > EXIT_SIGNAL)
        complain("stopped with %llu of %u units ended; the same command goes on from here", (unsigned long long)run->ended,
                 run->map.count);
    return status;
}

static int run_command(struct invocation *invocation)
{
    struct settings *settings = invocation->settings;
    struct run run = {.invocation = invocation, .settings = settings, .is_quiet = settings->is_quiet || invocation->is_json};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int status;

    if (!settings->workers.is_given)
        settings->workers.value = processors < 1 ? 1 : (uint64_t)processors;
    if (!process_find(invocation->program[0], run.path, sizeof run.path))
        return complain_usage(invocation, "there is no command %s to run", invocation->program[0]);
    pthread_mutex_init(&run.mutex, NULL);
    unit_map_init(&run.map);
    status = run_plan_init(&run.plan, invocation, settings->name, &run.map);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        status = carry_out(&run);
    run_completion_deinit(&run.completion);
    unit_map_deinit(&run.map);
    pthread_mutex_destroy(&run.mutex);
    return status;
}

const struct command command_run = {
    .arguments = "FOLDER|-",
    .text = "Runs COMMAND once for each file below FOLDER, or with - for each line of standard input, on --workers processes\n"
            "at a time. {} in COMMAND stands for the file's path or the line; without {} it is appended. All units together\n"
            "are one batch: when the last has ended the server sends the completion message, which is printed as the last\n"
            "line of standard output: {\"batch\", \"status\", \"total\", \"succeeded\", \"failed\", \"cancelled\", \"createdAt\",\n"
            "\"completedAt\"}. Exit status 0 if the status is succeeded, else 4.\n"
            "\n"
            "What a command writes appears in one piece when it has ended: standard output on standard output, errors and\n"
            "progress on standard error. A command that fails is tried again (--attempts); the output of a failed try is\n"
            "not shown, its errors are. COMMAND also finds TALLY_BATCH and TALLY_UNIT in its environment.\n"
            "\n"
            "Killed, switched off or stopped with Ctrl-C, the same command line goes on where it was: units that ended stay\n"
            "ended, each counts once. A unit that was running when we were killed is run again, up to --visibility seconds\n"
            "later. After completion the same command line prints the same result again; --again begins afresh.\n"
            "Symbolic links and other special files in FOLDER are left out, and so are empty lines.\n"
            "\n"
            "The batch is called run-NAME, its queues tally-run-NAME and tally-run-NAME-done; `tally batch units run-NAME\n"
            "--state failed` lists what failed and why. Give --name when FOLDER or COMMAND may change between two calls of\n"
            "what is the same run to you, or when several machines that see the same FOLDER shall share one run.\n",
    .examples = "  tally run photos --workers 4 -- sha256sum {}\n"
                "  tally run photos --result-to result.json -- sha256sum {} > sums.txt\n"
                "  tally run photos --name thumbs -- convert {} -resize 200 {}.thumb\n"
                "  git ls-files | tally run - --workers 8 -- sh -c 'wc -l < \"$1\"' sh {}\n"
                "  tally run photos --again -- sha256sum\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .takes_program = true,
    .run = run_command,
};
