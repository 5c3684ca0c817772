#include "worker/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_NOT_STARTED 127

static bool is_executable(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

bool process_find(const char *name, char *path, size_t path_size)
{
    const char *folders = getenv("PATH");
    if (*name == '\0')
        return false;
    if (strchr(name, '/') != NULL)
        return (size_t)snprintf(path, path_size, "%s", name) < path_size && is_executable(path);
    if (folders == NULL)
        folders = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t size = strcspn(folders, ":");
        int written = snprintf(path, path_size, "%.*s%s%s", (int)size, folders, size == 0 ? "" : "/", name);
        if (written > 0 && (size_t)written < path_size && is_executable(path))
            return true;
        if (folders[size] == '\0')
            return false;
        folders += size + 1;
    }
}

static void use_file(int file, int as)
{
    if (file < 0)
        return;
    if (dup2(file, as) < 0)
        _exit(EXIT_NOT_STARTED);
}

/* What the child does between fork and exec: only what is safe after a fork of a process with threads. */
__attribute__((noreturn)) static void become(const struct process_start *start, pid_t parent)
{
    static const char text[] = "tally: the command could not be started\n";
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it died before we asked to be told */
        _exit(EXIT_NOT_STARTED);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, start->mask, NULL);
    use_file(start->input >= 0 ? start->input : open("/dev/null", O_RDONLY), STDIN_FILENO);
    use_file(start->output, STDOUT_FILENO);
    use_file(start->errors, STDERR_FILENO);
    execve(start->path, start->argv, start->environment);
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(EXIT_NOT_STARTED);
    _exit(EXIT_NOT_STARTED);
}

pid_t process_start(const struct process_start *start)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0)
        become(start, parent);
    if (child > 0)
        setpgid(child, child); /* here too, so that it holds before either goes on */
    return child;
}

static bool is_left_out(const char *variable, char *const *own, size_t count, const char *const *hidden)
{
    size_t name_size = strcspn(variable, "=") + 1;
    bool is_out = false;
    for (; hidden != NULL && *hidden != NULL && !is_out; hidden++)
        is_out = strncmp(variable, *hidden, strlen(*hidden)) == 0;
    for (size_t i = 0; i < count && !is_out; i++)
        is_out = strncmp(variable, own[i], name_size) == 0;
    return is_out;
}

char **process_environment(struct arena *arena, char *const *own, size_t count, const char *const *hidden)
{
    size_t inherited = 0, kept = 0;
    char **environment;

    while (environ[inherited] != NULL)
        inherited++;
    environment = arena_allocate(arena, (inherited + count + 1) * sizeof *environment);
    for (size_t i = 0; i < inherited; i++)
        if (!is_left_out(environ[i], own, count, hidden))
            environment[kept++] = environ[i];
    memcpy(environment + kept, own, count * sizeof *environment);
    environment[kept + count] = NULL;
    return environment;
}

int process_file_of(struct bytes content)
{
    int file = memfd_create("tally", MFD_CLOEXEC);
    size_t written = 0;
    while (file >= 0 && written < content.size) {
        ssize_t size = write(file, content.ptr + written, content.size - written);
        if (size < 0 && errno != EINTR) {
            close(file);
            return -1;
        }
        written += size > 0 ? (size_t)size : 0;
    }
    if (file >= 0)
        lseek(file, 0, SEEK_SET);
    return file;
}

int process_file(void)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    int file;

    if (folder == NULL || *folder == '\0')
        folder = "/tmp";
    file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0)
        return file;
    snprintf(path, sizeof path, "%s/tally-XXXXXX", folder); /* a file system without O_TMPFILE */
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0)
        unlink(path);
    return file;
}

bool process_file_is_cut(int file)
{
    char last = '\n';
    off_t size = lseek(file, 0, SEEK_END);
    return size > 0 && pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

bool process_file_copy(int file, int to)
{
    char block[65536];
    ssize_t size;

    if (lseek(file, 0, SEEK_SET) < 0)
        return false;
    while ((size = read(file, block, sizeof block)) > 0) {
        for (ssize_t written = 0; written < size;) {
            ssize_t some = write(to, block + written, (size_t)(size - written));
            if (some < 0 && errno != EINTR)
                return false;
            written += some > 0 ? some : 0;
        }
    }
    return size == 0;
}
