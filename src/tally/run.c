/* tally run: runs a command for each file of a folder, or for each line, as one batch. run_batch.h explains how it
 * survives being killed. */
#include "base/assert.h"
#include "tally/run_unit.h"
#include "worker/process.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMPLETION_WAIT_S 5
#define WORKERS_MAX 1024

static const struct setting settings_table[] = {
    {"workers", offsetof(struct run_settings, workers)},
    {"name", offsetof(struct run_settings, name)},
    {"again", offsetof(struct run_settings, again)},
    {"attempts", offsetof(struct run_settings, attempts)},
    {"retry-after", offsetof(struct run_settings, retry_after)},
    {"time-limit", offsetof(struct run_settings, time_limit)},
    {"visibility", offsetof(struct run_settings, visibility)},
    {"grace", offsetof(struct run_settings, grace)},
    {"result-to", offsetof(struct run_settings, result_to)},
    {"quiet", offsetof(struct run_settings, is_quiet)},
};

/* ---- Waiting for the completion ---------------------------------------------------------------------------------- */

static void report_mended(uint64_t count)
{
    complain("%llu units had lost their messages; they were sent again", (unsigned long long)count);
}

/* Receives from the result queue until the completion message comes, then stops the workers. */
static void *wait_for_completion(void *context)
{
    struct run *run = context;
    struct tally_client *client = run->waiter_client;
    struct run_completion completion = {.total = 0};
    bool is_complete = false;
    uint64_t mended = 0;

    while (!is_complete && !worker_pool_is_stopping(run->pool)) {
        enum tally_status status =
            run_batch_completion(client, &run->plan, COMPLETION_WAIT_S, &is_complete, &completion);
        if (status == TALLY_OK && !is_complete)
            status = run_batch_mend(client, &run->plan, &run->map, &run->mutex, &mended);
        if (status == TALLY_OK && mended > 0)
            report_mended(mended);
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

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static void show_progress(void *context)
{
    struct run *run = context;
    pthread_mutex_lock(&run->mutex);
    progress_show(&run->progress, run->ended, run->failed, run->map.count);
    pthread_mutex_unlock(&run->mutex);
}

/* Runs workers and waiter until the completion comes or the user stops us. */
static int work_until_complete(struct run *run)
{
    const struct run_settings *settings = run->settings;
    const struct worker_handler handler = {.context = run, .accept = run_unit_accept, .finish = run_unit_finish};
    const struct worker_options pool_options = {
        .connect = invocation_connect_thread,
        .note = invocation_note,
        .context = run->invocation,
        .queue = run->plan.work_queue,
        .concurrency = (unsigned)settings->workers.value,
        .visibility_s = (unsigned)settings->visibility.value,
        .retry_after_s = (unsigned)settings->retry_after.value,
        .time_limit_s = (unsigned)settings->time_limit.value,
        .grace_s = (unsigned)settings->grace.value,
        .is_quiet = run->is_quiet,
        .is_patient = true,
    };
    pthread_t waiter;
    int status = EXIT_DONE;
    int stopped_by;

    (void)invocation_name_worker(run->invocation, NULL);
    run->waiter_client = invocation_client_create(run->invocation);
    run->pool = worker_pool_create(&pool_options, &handler);
    if (run->pool == NULL || pthread_create(&waiter, NULL, wait_for_completion, run) != 0)
        abort(); /* out of memory: no message was taken, so none is lost */
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
        complain("can't write the completion message%s%s: %s; run this again to have it",
                 run->settings->result_to == NULL ? "" : " to ",
                 run->settings->result_to == NULL ? "" : run->settings->result_to, strerror(errno));
        return EXIT_LOCAL;
    }
    return EXIT_DONE;
}

/* Prints the completion. Only then its message and the queues may be deleted. */
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

static void report_beginning(const struct run *run, enum run_stage stage, uint64_t left_out)
{
    if (left_out > 0)
        complain("%llu units are new since %s was sealed and are left out; --again takes all",
                 (unsigned long long)left_out, run->plan.batch);
    if (run->is_quiet)
        return;
    complain("%s: %u units, %llu workers%s", run->plan.batch, run->map.count,
             (unsigned long long)run->settings->workers.value,
             stage == RUN_RESUMED ? "; going on where an earlier run stopped" : "");
}

/* Reads which units the batch has and adds the missing ones. Another process of the same run may seal it in between.
 * Then it has all units, and we read it again. */
static enum tally_status load_and_fill(struct run *run, uint64_t *left_out)
{
    struct tally_client *client = run->invocation->client;
    enum tally_status status;
    for (int round = 0;; round++) {
        status = run_batch_load(client, &run->plan, &run->map, &run->ended, &run->failed);
        if (status == TALLY_OK)
            status = run_batch_fill(client, &run->plan, &run->map, left_out);
        if (status != TALLY_REFUSED || round > 0 || strcmp(tally_client_error(client)->code, "BatchSealed") != 0)
            return status;
    }
}

/* Prepares the batch so that its workers can begin, or finds it complete. */
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
    status = load_and_fill(run, &left_out);
    if (status == TALLY_OK)
        report_beginning(run, *stage, left_out);
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
    run->is_output_terminal = isatty(STDOUT_FILENO) == 1;
    status = work_until_complete(run);
    if (status == EXIT_DONE)
        return conclude(run);
    if (!run->is_quiet && status > EXIT_SIGNAL)
        complain("stopped with %llu of %u units ended; the same command goes on from here",
                 (unsigned long long)run->ended, run->map.count);
    return status;
}

static int run_command(struct invocation *invocation)
{
    struct run_settings *settings = invocation->settings;
    struct run run = {
        .invocation = invocation, .settings = settings, .is_quiet = settings->is_quiet || invocation->is_json};
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
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct run_settings),
    .run = run_command,
};
