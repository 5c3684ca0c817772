/* One unit of a run: accepts a message for it, runs the command, shows its output, and records how it ended. */
#include "tally/run_unit.h"

#include "base/memory.h"
#include "worker/process.h"
#include "worker/text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The output of a unit's command goes to files, and from there in one piece to our own output. */
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
    return text_format(arena, "%.*s%s%s", (int)(braces - word), word, argument,
                       replace_braces(arena, braces + 2, argument));
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
    char *own[] = {
        text_format(arena, "TALLY_BATCH=%s", run->plan.batch),
        text_format(arena, "TALLY_UNIT=%s", unit->key_owned),
    };
    return process_environment(arena, own, 2, NULL);
}

/* Decides what to do with a message for this unit; called with the mutex held. */
static enum worker_verdict judge_message(struct unit *unit, struct worker_slot *slot,
                                         const struct tally_message *message)
{
    switch (unit->state) {
    case UNIT_NEW:
    case UNIT_OUTSTANDING:
        unit->state = UNIT_RUNNING;
        unit->slot = slot;
        return WORKER_RUN;
    case UNIT_RUNNING:
        /* It may be the message that another worker already has, because that lease was lost: then the new handle
         * counts. Or it is a second message of the unit, which is not needed. The first one stays until the unit has
         * ended. */
        return worker_slot_renew(unit->slot, message->id, message->receipt_handle) ? WORKER_LEAVE : WORKER_DELETE;
    case UNIT_ENDED:
        return WORKER_DELETE;
    }
    return WORKER_LEAVE;
}

enum worker_verdict run_unit_accept(void *context, struct worker_slot *slot, const struct tally_message *message,
                                    struct worker_job *job)
{
    struct run *run = context;
    struct outputs *outputs;
    struct unit *unit;
    enum worker_verdict verdict;
    char *key;

    if (!text_is_escaped(message->body)) {
        complain("message %s was not sent by a run; it is deleted", message->id);
        return WORKER_DELETE;
    }
    key = unit_key(message->body);
    pthread_mutex_lock(&run->mutex);
    unit = unit_map_find(&run->map, key);
    if (unit == NULL) /* another process of this run knows more files than we do */
        unit = unit_map_add(&run->map, memory_duplicate_string(message->body));
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
    job->output = outputs->output; /* -1 if there is no room for a file: then directly to ours */
    job->errors = outputs->errors;
    return WORKER_RUN;
}

static bool has_text(int file)
{
    return file >= 0 && lseek(file, 0, SEEK_END) > 0;
}

/* Copies the command's output to our own output and errors. False if standard output does not take it. */
static bool show_outputs(struct run *run, const struct outputs *outputs, bool with_output)
{
    bool is_good = true;
    bool covers_output = with_output && run->is_output_terminal && has_text(outputs->output);
    bool covers_bar = run->progress.is_terminal && (covers_output || has_text(outputs->errors));
    pthread_mutex_lock(&run->mutex);
    if (covers_bar)
        progress_hide(&run->progress);
    if (outputs->errors >= 0)
        process_file_copy(outputs->errors, STDERR_FILENO);
    if (with_output && outputs->output >= 0)
        is_good = process_file_copy(outputs->output, STDOUT_FILENO);
    if (!is_good && !run->is_output_broken && errno != EPIPE)
        complain("can't write to standard output: %s", strerror(errno));
    run->is_output_broken = run->is_output_broken || !is_good;
    if (covers_bar)
        progress_return(&run->progress, process_file_is_cut(covers_output ? outputs->output : outputs->errors),
                        run->ended, run->failed, run->map.count);
    pthread_mutex_unlock(&run->mutex);
    return is_good;
}

static void report_failure(struct run *run, const struct unit *unit, const char *detail)
{
    pthread_mutex_lock(&run->mutex);
    complain("%s failed: %s", unit->text_owned, detail);
    progress_return(&run->progress, false, run->ended, run->failed, run->map.count);
    pthread_mutex_unlock(&run->mutex);
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

/* Records the unit's end, however long it takes, unless the user stops us. */
static enum worker_verdict record(struct run *run, struct worker_slot *slot, struct unit *unit, bool is_failed,
                                  const char *detail)
{
    const struct tally_unit_end end = {
        .key = unit->key_owned, .is_failed = is_failed, .detail = is_failed ? detail : NULL};
    struct tally_client *client = worker_slot_client(slot);
    const struct tally_error *error = tally_client_error(client);

    while (tally_batch_complete(client, run->plan.batch, &end, 1, NULL, NULL) != TALLY_OK) {
        if (error->status != TALLY_REFUSED && worker_pool_pause(worker_slot_pool(slot), error))
            continue;
        set_state(run, unit, UNIT_OUTSTANDING, false);
        if (error->status != TALLY_REFUSED)
            return WORKER_GIVE_BACK;
        if (strcmp(error->code, "UnitDoesNotExist") == 0)
            return WORKER_DELETE; /* never registered: its file was removed before */
        worker_pool_fail(worker_slot_pool(slot), error);
        return WORKER_LEAVE;
    }
    worker_pool_reached(worker_slot_pool(slot));
    set_state(run, unit, UNIT_ENDED, is_failed);
    return WORKER_DELETE;
}

static enum worker_verdict decide(struct run *run, struct worker_slot *slot, struct arena *arena,
                                  const struct outputs *outputs, const struct worker_end *end)
{
    struct unit *unit = outputs->unit;
    bool is_good = end->start_errno == 0 && WIFEXITED(end->wait_status) && WEXITSTATUS(end->wait_status) == 0;
    const char *detail = "";

    if (!is_good && end->was_stopped) {
        set_state(run, unit, UNIT_OUTSTANDING, false);
        return WORKER_GIVE_BACK;
    }
    if (!is_good) {
        detail = worker_end_text(arena, end, (unsigned)run->settings->time_limit.value);
        unit->failures++; /* only its worker touches it while it runs */
        show_outputs(run, outputs, false);
        if (unit->failures < run->settings->attempts.value) {
            set_state(run, unit, UNIT_OUTSTANDING, false);
            return WORKER_RETRY;
        }
        report_failure(run, unit, detail);
    }
    /* Its output comes before its end is recorded. So a crash in between repeats the output, and never loses it. */
    if (is_good && !show_outputs(run, outputs, true)) {
        set_state(run, unit, UNIT_OUTSTANDING, false);
        worker_pool_stop(worker_slot_pool(slot));
        return WORKER_GIVE_BACK;
    }
    return record(run, slot, unit, !is_good, detail);
}

enum worker_verdict run_unit_finish(void *context, struct worker_slot *slot, const struct tally_message *message,
                                    struct worker_job *job, const struct worker_end *end)
{
    struct outputs *outputs = job->context;
    enum worker_verdict verdict = decide(context, slot, job->arena, outputs, end);
    (void)message;
    if (outputs->output >= 0)
        close(outputs->output);
    if (outputs->errors >= 0)
        close(outputs->errors);
    return verdict;
}
