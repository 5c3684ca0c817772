/* The daemon under test: started on one port and one folder, killed with SIGKILL every so often, and started again. */
#ifndef TALLY_CAMPAIGN_DAEMON_H
#define TALLY_CAMPAIGN_DAEMON_H

#include "text.h"

#include <stdint.h>
#include <sys/types.h>

struct daemon {
    const char *program;
    const char *folder;   /* its data; its log stands beside it, in FOLDER.log */
    char *const *options; /* more arguments; ends with NULL */
    uint16_t port;
    uint32_t kill_every_ms; /* 0: never for that */
    uint64_t kill_each;     /* of what the caller counts as done, between two kills; 0: never for that */
    pid_t pid;
    uint64_t killed_at_ms;   /* or when it was first started */
    uint64_t killed_at_done; /* what was done when it was killed for that */
    bool is_back;            /* it has taken a connection since it was started */
    uint64_t back_at_ms;
    unsigned kills;
    uint64_t restart_max_ms; /* the longest time from a kill to the first connection behind it */
};

/* A port of the loopback address that nobody listens on. Ends the program if there is none. */
uint16_t daemon_free_port(void);

/* Starts it; the caller's connections say when it serves. Ends the program if it can't be started. */
void daemon_start(struct daemon *daemon, uint64_t now_ms);

/* Kills and starts it if that is due: kill_every_ms after the last time, but not before it has served for two fifths of
 * that; or when kill_each more are `done`. Ends the program if the daemon has ended by itself. */
void daemon_kill_due(struct daemon *daemon, uint64_t now_ms, uint64_t done);

/* Kills and starts it now. */
void daemon_kill(struct daemon *daemon, uint64_t now_ms);

/* It has taken a connection. */
void daemon_found(struct daemon *daemon, uint64_t now_ms);

/* Ends it with SIGTERM; returns its exit status, or -1 if it was none. */
int daemon_stop(struct daemon *daemon);

#endif
