/* sim: the deterministic simulator (T27: a model and the server agree under random sequences of all calls, with kills
 * at any byte of the log; so are played what T28 to T76 say of order, dependencies, deduplication and recovery).
 *
 *     sim --seed N [--trace]                      replays one seed
 *     sim --seeds N [--first F] [--jobs J]        runs N seeds, J at a time
 *     sim --plant NAME --seeds N                  the same with a bug planted on purpose (plants.h)
 *     sim --look N --seeds N                      after each turn N looks, which must change nothing (onlooker.h)
 *
 * With the variable TALLY_HISTORY each writes the history of its seeds (support/history.h). */
#include "fail.h"
#include "onlooker.h"
#include "support/history.h"
#include "world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 64u
#define LIMIT_S 20u /* of processor time, for one seed: it takes milliseconds, unless something goes round for ever */

struct arguments {
    uint64_t seed;
    uint64_t seeds;
    uint64_t first;
    unsigned jobs;
    bool is_traced;
    bool is_one;
    bool wants_salvage;
    bool is_looked_at;
    unsigned looks_a_turn;
    enum plant plant;
};

/* What the processes share. */
struct shared {
    uint64_t running[JOBS_MAX]; /* the seed that each runs */
    uint64_t done[JOBS_MAX];
    struct world_report reports[JOBS_MAX];
};

void fail(const char *format, ...)
{
    struct world_where where = world_where();
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "seed %" PRIu64 ", step %u, %" PRIu64 " ms: ", where.seed, where.step, where.now_ms);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    exit(1);
}

static void print_replay(const char *program, const struct arguments *arguments, uint64_t seed)
{
    bool is_planted = arguments->plant != PLANT_NONE;
    char looked_at[24] = "";
    if (arguments->is_looked_at)
        snprintf(looked_at, sizeof(looked_at), " --look %u", arguments->looks_a_turn);
    printf("FAILED: seed %" PRIu64 "\nreplay it: %s --seed %" PRIu64 " --trace%s%s%s%s\n", seed, program, seed,
           arguments->wants_salvage ? " --salvage" : "", looked_at, is_planted ? " --plant " : "",
           is_planted ? plant_name(arguments->plant) : "");
}

static struct world_report begin_report(const struct arguments *arguments)
{
    return (struct world_report){.wants_salvage = arguments->wants_salvage,
                                 .is_looked_at = arguments->is_looked_at,
                                 .looks_a_turn = arguments->looks_a_turn};
}

static int run_one(const char *program, const struct arguments *arguments)
{
    pid_t child = fork();
    if (child == 0) {
        struct world_report report = begin_report(arguments);
        setvbuf(stdout, NULL, _IOLBF, 0); /* so that an assertion finds the trace written */
        world_run(arguments->seed, arguments->is_traced, &report);
        printf("seed %" PRIu64 ": ok; %" PRIu64 " operations, %" PRIu64 " messages, %" PRIu64 " completions, %" PRIu64
               " crashes, %" PRIu64 " segments, %" PRIu64 " bytes cleaned\n",
               arguments->seed, report.operations, report.messages, report.completions, report.crashes, report.segments,
               report.moved_bytes);
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status == 0)
        return 0;
    print_replay(program, arguments, arguments->seed);
    return 1;
}

/* Ends this process with SIGPROF when it has used so much processor time from now on. A machine that is busy with other
 * things does not end it. */
static void limit_time(unsigned limit_s)
{
    const struct itimerval limit = {.it_value.tv_sec = (time_t)limit_s};
    if (setitimer(ITIMER_PROF, &limit, NULL) != 0)
        _exit(1);
}

/* Runs a seed in a process of its own. How much memory the server has in use is rounded by the C library, by what was
 * freed before; so a seed has the same history only behind the same ones. */
static void run_apart(uint64_t seed, unsigned limit_s, struct world_report *report)
{
    const pid_t child = fork();
    if (child == 0) {
        limit_time(limit_s);
        world_run(seed, false, report);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        _exit(1);
}

/* Runs every jobs-th seed from the job's own on. */
static void run_job(const struct arguments *arguments, unsigned job, struct shared *shared)
{
    shared->reports[job] = begin_report(arguments);
    for (uint64_t seed = arguments->first + job; seed < arguments->first + arguments->seeds; seed += arguments->jobs) {
        shared->running[job] = seed;
        const unsigned limit_s = arguments->wants_salvage ? 10 * LIMIT_S : LIMIT_S;
        limit_time(limit_s);
        if (history_is_wanted())
            run_apart(seed, limit_s, &shared->reports[job]);
        else
            world_run(seed, false, &shared->reports[job]);
        shared->done[job]++;
    }
    _exit(0); /* the history is the parent's to write */
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void add_salvage(struct salvage_rig_report *sum, const struct salvage_rig_report *report)
{
    sum->tries += report->tries;
    sum->refused += report->refused;
    sum->unreadable += report->unreadable;
    sum->cut += report->cut;
    sum->messages += report->messages;
    sum->kept += report->kept;
    for (unsigned i = 0; i < SALVAGE_NOTE_COUNT; i++)
        sum->notes[i] += report->notes[i];
}

static void print_salvage(const struct salvage_rig_report *report)
{
    printf("salvage: %" PRIu64 " damaged folders, %" PRIu64 " of them unreadable, %" PRIu64
           " cut like a torn end; of %" PRIu64 " messages %" PRIu64 " were kept, the rest was noted\n ",
           report->tries, report->unreadable, report->cut, report->messages, report->kept);
    for (unsigned i = 0; i < SALVAGE_NOTE_COUNT; i++)
        printf(" %s %" PRIu64, salvage_note_name((enum salvage_note_kind)i), report->notes[i]);
    printf("\n");
}

static void print_summary(const struct arguments *arguments, const struct shared *shared, double elapsed_s)
{
    struct world_report sum = {0};
    uint64_t done = 0;
    for (unsigned i = 0; i < arguments->jobs; i++) {
        done += shared->done[i];
        sum.operations += shared->reports[i].operations;
        sum.crashes += shared->reports[i].crashes;
        sum.messages += shared->reports[i].messages;
        sum.completions += shared->reports[i].completions;
        sum.segments += shared->reports[i].segments;
        sum.refused_for_room += shared->reports[i].refused_for_room;
        sum.full_seeds += shared->reports[i].full_seeds;
        sum.moved_bytes += shared->reports[i].moved_bytes;
        sum.stalls += shared->reports[i].stalls;
        sum.renewals += shared->reports[i].renewals;
        sum.cleaned_seeds += shared->reports[i].cleaned_seeds;
        sum.looks += shared->reports[i].looks;
        sum.looks_refused += shared->reports[i].looks_refused;
        add_salvage(&sum.salvage, &shared->reports[i].salvage);
        sum.history ^= shared->reports[i].history;
    }
    printf("T27, and T28 to T76 under kills: model and server agree: %" PRIu64
           " seeds in %.1f s, %.0f a second with %u jobs; %" PRIu64 " operations, %" PRIu64 " messages, %" PRIu64
           " completions, %" PRIu64 " crashes, %" PRIu64 " segments, %" PRIu64 " bytes cleaned in %" PRIu64
           " seeds, %" PRIu64 " stalls of the disk, %" PRIu64 " leases renewed, %" PRIu64
           " requests refused for a full disk, on which %" PRIu64 " seeds were drained\n",
           done, elapsed_s, (double)done / elapsed_s, arguments->jobs, sum.operations, sum.messages, sum.completions,
           sum.crashes, sum.segments, sum.moved_bytes, sum.cleaned_seeds, sum.stalls, sum.renewals,
           sum.refused_for_room, sum.full_seeds);
    if (arguments->is_looked_at)
        printf("looking changes nothing: %" PRIu64 " looks, of which %" PRIu64 " were refused\n", sum.looks,
               sum.looks_refused);
    if (arguments->wants_salvage)
        print_salvage(&sum.salvage);
    history_begin();
    history_note(bytes_make(&sum.history, sizeof(sum.history)));
}

static int run_many(const char *program, struct arguments *arguments)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[JOBS_MAX];
    double start_s = seconds();
    for (unsigned i = 0; i < arguments->jobs; i++) {
        children[i] = fork();
        if (children[i] == 0)
            run_job(arguments, i, shared);
    }
    bool has_failed = false;
    uint64_t failed_seed = UINT64_MAX;
    for (unsigned left = arguments->jobs; left > 0; left--) {
        int status = 0;
        pid_t child = wait(&status);
        unsigned job = 0;
        while (children[job] != child)
            job++;
        children[job] = 0;
        if (status == 0 || has_failed)
            continue;
        has_failed = true;
        failed_seed = shared->running[job];
        if (WIFSIGNALED(status))
            printf("seed %" PRIu64 " ended with signal %d%s\n", failed_seed, WTERMSIG(status),
                   WTERMSIG(status) == SIGPROF ? ": it does not come to an end" : "");
        for (unsigned i = 0; i < arguments->jobs; i++)
            if (children[i] != 0)
                kill(children[i], SIGKILL);
    }
    if (has_failed)
        print_replay(program, arguments, failed_seed);
    else
        print_summary(arguments, shared, seconds() - start_s);
    munmap(shared, sizeof(*shared));
    return has_failed ? 1 : 0;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s --seed N [--trace] | --seeds N [--first F] [--jobs J]   [--plant NAME] [--look N] "
            "[--salvage]\nplants:",
            program);
    for (unsigned plant = 1; plant < PLANT_COUNT; plant++)
        fprintf(stderr, " %s", plant_name((enum plant)plant));
    fprintf(stderr, "\n");
    return 2;
}

int main(int count, char **words)
{
    struct arguments arguments = {.seeds = 1000, .first = 1, .jobs = 2};
    for (int i = 1; i < count; i++) {
        const char *word = words[i], *value = i + 1 < count ? words[i + 1] : "";
        if (strcmp(word, "--trace") == 0) {
            arguments.is_traced = true;
            continue;
        }
        if (strcmp(word, "--salvage") == 0) {
            arguments.wants_salvage = true;
            continue;
        }
        if (strcmp(word, "--seed") == 0) {
            arguments.is_one = true;
            arguments.seed = strtoull(value, NULL, 0);
        } else if (strcmp(word, "--seeds") == 0) {
            arguments.seeds = strtoull(value, NULL, 0);
        } else if (strcmp(word, "--first") == 0) {
            arguments.first = strtoull(value, NULL, 0);
        } else if (strcmp(word, "--jobs") == 0) {
            arguments.jobs = (unsigned)strtoul(value, NULL, 0);
        } else if (strcmp(word, "--look") == 0) {
            arguments.is_looked_at = true;
            arguments.looks_a_turn = (unsigned)strtoul(value, NULL, 0);
        } else if (strcmp(word, "--plant") == 0) {
            arguments.plant = plant_find(value);
        } else {
            return usage(words[0]);
        }
        i++;
    }
    if (arguments.plant == PLANT_COUNT || arguments.jobs < 1 || arguments.jobs > JOBS_MAX)
        return usage(words[0]);
    if (onlooker_find_forgotten() != NULL) {
        printf("nobody looks with %s, which only reads: onlooker.c wants a row for it\n", onlooker_find_forgotten());
        return 1;
    }
    plant_choose(arguments.plant);
    return arguments.is_one ? run_one(words[0], &arguments) : run_many(words[0], &arguments);
}
