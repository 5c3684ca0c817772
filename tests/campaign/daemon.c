#include "daemon.h"
#include "text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 64 };

static void run_program(const struct daemon *daemon)
{
    char listen[32], log_path[4096];
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", daemon->port);
    snprintf(log_path, sizeof(log_path), "%s.log", daemon->folder);
    char *arguments[ARGUMENTS_MAX] = {
        (char *)daemon->program, (char *)"--listen", listen, (char *)"--data", (char *)daemon->folder,
    };
    unsigned count = 5;
    for (char *const *option = daemon->options; *option != NULL && count < ARGUMENTS_MAX - 1; option++)
        arguments[count++] = *option;
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a campaign that is interrupted leaves no daemon behind */
    execv(daemon->program, arguments);
    _exit(127);
}

uint16_t daemon_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        fatal("can't find a free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

void daemon_start(struct daemon *daemon, uint64_t now_ms)
{
    daemon->pid = fork();
    if (daemon->pid < 0)
        fatal("can't fork: %s", strerror(errno));
    if (daemon->pid == 0)
        run_program(daemon);
    daemon->is_back = false;
    if (daemon->killed_at_ms == 0)
        daemon->killed_at_ms = now_ms;
}

void daemon_kill(struct daemon *daemon, uint64_t now_ms)
{
    kill(daemon->pid, SIGKILL);
    while (waitpid(daemon->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    daemon->kills++;
    daemon->killed_at_ms = now_ms;
    daemon_start(daemon, now_ms);
}

void daemon_kill_due(struct daemon *daemon, uint64_t now_ms, uint64_t done)
{
    int status;
    if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid)
        fatal("the daemon ended by itself, %s %d; see %s.log", WIFSIGNALED(status) ? "signal" : "status",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), daemon->folder);
    bool is_due = daemon->kill_every_ms > 0 && now_ms - daemon->killed_at_ms >= daemon->kill_every_ms;
    if (is_due && daemon->is_back && now_ms - daemon->back_at_ms >= daemon->kill_every_ms / 5 * 2)
        daemon_kill(daemon, now_ms);
    if (daemon->kill_each == 0 || !daemon->is_back || done - daemon->killed_at_done < daemon->kill_each)
        return;
    daemon->killed_at_done = done;
    daemon_kill(daemon, now_ms);
}

void daemon_found(struct daemon *daemon, uint64_t now_ms)
{
    if (daemon->is_back)
        return;
    daemon->is_back = true;
    daemon->back_at_ms = now_ms;
    if (daemon->kills > 0 && now_ms - daemon->killed_at_ms > daemon->restart_max_ms)
        daemon->restart_max_ms = now_ms - daemon->killed_at_ms;
}

int daemon_stop(struct daemon *daemon)
{
    int status;
    kill(daemon->pid, SIGTERM);
    while (waitpid(daemon->pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
