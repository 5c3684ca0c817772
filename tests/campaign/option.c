#include "option.h"

#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool option_take(struct daemon *daemon, uint64_t *seed, int option, const char *value)
{
    switch (option) {
    case OPTION_TALLYD:
        daemon->program = value;
        return true;
    case OPTION_FOLDER:
        daemon->folder = value;
        return true;
    case OPTION_PORT:
        daemon->port = (uint16_t)option_number(value, 1, 65535);
        return true;
    case OPTION_KILL_EVERY:
        daemon->kill_every_ms = (uint32_t)(option_number(value, 0, 86400) * 1000);
        return true;
    case OPTION_KILL_EACH:
        daemon->kill_each = (uint64_t)option_number(value, 1, 1e12);
        daemon->kill_every_ms = 0;
        return true;
    case OPTION_SEED:
        *seed = (uint64_t)option_number(value, 1, 1e18);
        return true;
    default:
        return false;
    }
}

void option_finish(struct daemon *daemon, char *const *rest)
{
    if (daemon->program == NULL || daemon->folder == NULL)
        fatal("--tallyd and --folder are needed; try --help");
    if (daemon->port == 0)
        daemon->port = daemon_free_port();
    daemon->options = rest;
    if (mkdir(daemon->folder, 0700) != 0)
        fatal("can't make %s: %s", daemon->folder, strerror(errno));
}

double option_number(const char *text, double min, double max)
{
    char *end;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= min && value <= max))
        fatal("%s: expected a number from %g to %g", text, min, max);
    return value;
}
