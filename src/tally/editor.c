#include "tally/editor.h"

#include "tally/input.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && *value != '\0';
}

static bool write_all(int file, const char *text, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(file, text, size);
        if (written < 0 && errno != EINTR)
            return false;
        text += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

static bool make_file(const char *text, char path[EDITOR_PATH_SIZE])
{
    const char *folder = is_set("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    snprintf(path, EDITOR_PATH_SIZE, "%s/tally-XXXXXX", folder);
    const int file = mkostemp(path, O_CLOEXEC);
    const bool is_written = file >= 0 && write_all(file, text, strlen(text));
    if (!is_written)
        complain("can't write a file for the editor in %s: %s", folder, strerror(errno));
    if (file >= 0 && !is_written)
        unlink(path);
    if (file >= 0)
        close(file);
    return is_written;
}

/* A shell reads the variable, which may be any command, as for other tools. An interrupt from the keyboard is for the
 * editor. */
static int run_editor(char *path)
{
    char shell[] = "sh", option[] = "-c", command[] = "eval \"${VISUAL:-${EDITOR:-vi}} \\\"\\$1\\\"\"";
    char *const words[] = {shell, option, command, shell, path, NULL};
    struct sigaction ignored = {.sa_handler = SIG_IGN}, interrupt, quit;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    pid_t child;
    int status = -1;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    sigaction(SIGINT, &ignored, &interrupt);
    sigaction(SIGQUIT, &ignored, &quit);
    if (posix_spawn(&child, "/bin/sh", NULL, &attributes, words, environ) == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    posix_spawnattr_destroy(&attributes);
    return status;
}

/* Editors end the last line, whether it had an end or not. */
static void drop_added_end(struct buffer *text, const char *before)
{
    const size_t size = strlen(before);
    const bool had_end = size > 0 && before[size - 1] == '\n';
    if (had_end || text->size == 0 || text->data_owned[text->size - 1] != '\n')
        return;
    buffer_truncate(text, text->size - 1);
    text->data_owned[text->size] = 0;
}

int editor_change(const struct invocation *invocation, const char *text, size_t size_max, struct edited *edited)
{
    if (!is_set("VISUAL") && !is_set("EDITOR") && !isatty(STDIN_FILENO))
        return complain_usage(invocation, "there is no terminal for an editor, and neither VISUAL nor EDITOR is set");
    if (!make_file(text, edited->path))
        return EXIT_LOCAL;
    buffer_init(&edited->text);
    const int status = run_editor(edited->path);
    if (status == 0 && input_read_file(edited->path, &edited->text, size_max)) {
        drop_added_end(&edited->text, text);
        return EXIT_DONE;
    }
    if (status != 0)
        complain("the editor failed; VISUAL or EDITOR says which one it is");
    editor_end(edited, status == 0);
    return EXIT_LOCAL;
}

void editor_end(struct edited *edited, bool stays)
{
    buffer_deinit(&edited->text);
    if (stays)
        complain("what you wrote is in %s", edited->path);
    else
        unlink(edited->path);
}
