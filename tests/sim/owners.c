/* sim_owners: several nodes over one log in PostgreSQL, with everything that may happen to them (README.md, "Several
 * owners").
 *
 *     sim_owners --seed N [--trace]                  replays one seed
 *     sim_owners --seeds N [--first F] [--jobs J]    runs N seeds, J at a time
 *     sim_owners --plant NAME --seeds N              the same with a bug planted on purpose (owners_plants.h) */
#include "base/memory.h"
#include "fail.h"
#include "owners_plants.h"
#include "owners_world.h"

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
#define LIMIT_S 20 /* of processor time, for one seed: it takes milliseconds */

struct arguments {
    uint64_t seed, seeds, first;
    unsigned jobs;
    bool is_traced, is_one;
    const char *plant;
};

/* What the processes share. */
struct shared {
    uint64_t failed; /* a seed that has failed; 0: none */
    struct owners_report reports[JOBS_MAX];
};

static struct {
    uint64_t seed;
    bool is_traced;
} where;

void fail(const char *format, ...)
{
    va_list arguments;
    fflush(stdout);
    fprintf(stderr, "seed %" PRIu64 ", %" PRIu64 " ms: ", where.seed, sim_now() / MS);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    _exit(1);
}

void owners_trace(const char *format, ...)
{
    if (!where.is_traced)
        return;
    va_list arguments;
    printf("%9.3f ", (double)sim_now() / 1000);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

static void print_replay(const char *program, const struct arguments *arguments, uint64_t seed)
{
    printf("FAILED: seed %" PRIu64 "\nreplay it: %s --seed %" PRIu64 " --trace%s%s\n", seed, program, seed,
           arguments->plant == NULL ? "" : " --plant ", arguments->plant == NULL ? "" : arguments->plant);
}

/* A process of its own: what the simulation has in memory goes with it. True: the seed went well. */
static bool run_apart(uint64_t seed, bool is_traced, struct owners_report *report)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const struct itimerval limit = {.it_value.tv_sec = LIMIT_S};
        (void)setitimer(ITIMER_PROF, &limit, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
        where.seed = seed;
        where.is_traced = is_traced;
        owners_world_run(seed, is_traced, report);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (WIFSIGNALED(status))
        printf("seed %" PRIu64 " ended with signal %d%s\n", seed, WTERMSIG(status),
               WTERMSIG(status) == SIGPROF ? ": it does not come to an end" : "");
    return status == 0;
}

static void run_job(const struct arguments *arguments, unsigned job, struct shared *shared)
{
    const uint64_t end = arguments->first + arguments->seeds;
    for (uint64_t seed = arguments->first + job; seed < end && shared->failed == 0; seed += arguments->jobs)
        if (!run_apart(seed, false, &shared->reports[job])) {
            fflush(stdout);
            shared->failed = seed;
            _exit(1);
        }
    _exit(0);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print_summary(const struct arguments *arguments, const struct shared *shared, double elapsed_s)
{
    struct owners_report sum = {0};
    for (unsigned i = 0; i < arguments->jobs; i++)
        for (unsigned j = 0; j < sizeof(sum) / sizeof(uint64_t); j++)
            ((uint64_t *)&sum)[j] += ((const uint64_t *)&shared->reports[i])[j];
    printf("L1 to L20 of a log in PostgreSQL, with several owners: %" PRIu64 " seeds in %.1f s with %u jobs", sum.seeds,
           elapsed_s, arguments->jobs);
    owners_report_print(&sum);
}

static int run_many(const char *program, const struct arguments *arguments)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const double start_s = seconds();
    for (unsigned i = 0; i < arguments->jobs; i++)
        if (fork() == 0)
            run_job(arguments, i, shared);
    bool has_failed = false;
    for (unsigned left = arguments->jobs; left > 0; left--) {
        int status = 0;
        has_failed |= wait(&status) < 0 || status != 0;
    }
    if (has_failed)
        print_replay(program, arguments, shared->failed);
    else
        print_summary(arguments, shared, seconds() - start_s);
    return has_failed ? 1 : 0;
}

static int run_one(const char *program, const struct arguments *arguments)
{
    struct owners_report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!run_apart(arguments->seed, arguments->is_traced, report)) {
        print_replay(program, arguments, arguments->seed);
        return 1;
    }
    printf("seed %" PRIu64 ": ok", arguments->seed);
    owners_report_print(report);
    return 0;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s --seed N [--trace] | --seeds N [--first F] [--jobs J]   [--plant NAME]\nplants:", program);
    for (unsigned plant = 1; plant < OWNERS_PLANT_COUNT; plant++)
        fprintf(stderr, " %s", owners_plant_name((enum owners_plant)plant));
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
        if (strcmp(word, "--seed") == 0) {
            arguments.is_one = true;
            arguments.seed = strtoull(value, NULL, 0);
        } else if (strcmp(word, "--seeds") == 0) {
            arguments.seeds = strtoull(value, NULL, 0);
        } else if (strcmp(word, "--first") == 0) {
            arguments.first = strtoull(value, NULL, 0);
        } else if (strcmp(word, "--jobs") == 0) {
            arguments.jobs = (unsigned)strtoul(value, NULL, 0);
        } else if (strcmp(word, "--plant") == 0 && owners_plant_choose(value)) {
            arguments.plant = value;
        } else {
            return usage(words[0]);
        }
        i++;
    }
    if (arguments.jobs < 1 || arguments.jobs > JOBS_MAX)
        return usage(words[0]);
    return arguments.is_one ? run_one(words[0], &arguments) : run_many(words[0], &arguments);
}
