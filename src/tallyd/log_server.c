#include "tallyd/log_server.h"

#include "base/memory.h"
#include "postgres/place.h"

#include <stdlib.h>

struct log_server *log_server_create(const struct pg_options *options, const char *place)
{
    struct log_server *server = memory_allocate_zeroed(sizeof(*server));
    pg_gate_init(&server->gate);
    server->options = *options;
    server->options.gate = &server->gate;
    if (place != NULL) {
        const size_t size = strlen(place) + 1;
        server->place_owned = memory_allocate(size);
        memcpy(server->place_owned, place, size);
        server->options.conninfo = server->conninfo_owned = pg_place_complete(place, options->conninfo);
    }
    server->pulse = pg_pulse_create(&server->options);
    server->watch = pg_watch_create(&server->options);
    return server;
}

void log_server_destroy(struct log_server *server)
{
    if (server->watch != NULL)
        pg_watch_destroy(server->watch);
    if (server->pulse != NULL)
        pg_pulse_destroy(server->pulse);
    pg_gate_deinit(&server->gate);
    free(server->place_owned);
    free(server->conninfo_owned);
    free(server);
}

bool log_server_has_answered(const struct log_server *server)
{
    return server->watch != NULL && pg_watch_heard_ms(server->watch) != 0;
}

bool log_server_find(const struct log_server *server, const char *log, struct pg_sight *sight)
{
    return server->watch != NULL && pg_watch_find(server->watch, log, sight);
}
