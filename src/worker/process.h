/* Child processes: a program started with files for its standard streams, in a process group of its own. */
#ifndef TALLY_WORKER_PROCESS_H
#define TALLY_WORKER_PROCESS_H

#include "base/arena.h"
#include "base/bytes.h"
#include <signal.h>
#include <sys/types.h>

/* The path of a program, looked up in PATH unless its name has a slash. False if there is no such executable file. */
bool process_find(const char *name, char *path, size_t path_size);

struct process_start {
    const char *path; /* from process_find() */
    char **argv;
    char **environment;
    int input; /* descriptors, which the child gets at their beginning; -1: /dev/null for input, else ours */
    int output;
    int errors;
    const sigset_t *mask; /* blocked signals of the child */
};

/* Starts a program: in a process group of its own, so that Ctrl-C on a terminal does not reach it before we have said
 * so, and told to end (SIGTERM) when this process is killed. Its process id, or -1 with errno. Any thread that lives as
 * long as the child may run: the death of the thread counts as that of the process. */
pid_t process_start(const struct process_start *start);

/* Our own environment with `own` ("NAME=value") in it, closed by NULL, in the arena. What has the name of one of them,
 * or begins with one of `hidden` (closed by NULL; NULL: nothing), is left out: we may run inside of another such
 * program, and what that one was told must not be found first. */
char **process_environment(struct arena *arena, char *const *own, size_t count, const char *const *hidden);

/* A nameless file that holds `content`, open at its beginning; -1 with errno. */
int process_file_of(struct bytes content);

/* A nameless empty file on disk (TMPDIR, else /tmp); -1 with errno. */
int process_file(void);

/* Does a file end in the middle of a line? An empty one does not. */
bool process_file_is_cut(int file);

/* Writes a file from its beginning to `to`. False with errno if either fails. */
bool process_file_copy(int file, int to);

#endif
