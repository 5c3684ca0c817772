#include "tally/completion.h"

#include "base/assert.h"
#include "tally/command.h"
#include "tally/live_names.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define LIMIT_US 300000

/* The scripts, of the folder completions. */
extern const char completion_bash[], completion_zsh[], completion_fish[];

static const struct {
    const char *shell;
    const char *script;
} scripts[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

static int run(struct invocation *invocation)
{
    for (size_t i = 0; i < ARRAY_LENGTH(scripts); i++) {
        if (strcmp(invocation->arguments[0], scripts[i].shell) != 0)
            continue;
        fputs(scripts[i].script, stdout); /* main() checks whether it could be written */
        return EXIT_DONE;
    }
    return complain_usage(invocation, "there is completion for bash, zsh and fish, not for \"%s\"",
                          invocation->arguments[0]);
}

const struct command command_completion = {.run = run};

/* Somebody waits at a prompt: what has no answer by now gets none. */
static void on_alarm(int number)
{
    (void)number;
    _exit(EXIT_DONE);
}

static void limit_time(void)
{
    const struct itimerval limit = {.it_value = {.tv_usec = LIMIT_US}};
    signal(SIGALRM, on_alarm);
    (void)setitimer(ITIMER_REAL, &limit, NULL);
}

int completion_run(int count, char **words)
{
    struct candidates candidates;
    candidates_find(&candidates, count, words);
    const bool are_files = candidates.names == NAMES_OF_FILES;
    if (candidates.names != NAMES_NONE && !are_files) {
        limit_time();
        live_names_add(&candidates);
        signal(SIGALRM, SIG_IGN);
    }
    if (candidates.lines.size > 0)
        fwrite(candidates.lines.data_owned, 1, candidates.lines.size, stdout);
    candidates_deinit(&candidates);
    return are_files ? COMPLETION_FILES : EXIT_DONE;
}
