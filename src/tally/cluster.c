/* tally cluster drain, uncordon, move and forget: what an operator wants of the nodes of a cluster. */
#include "base/assert.h"
#include "postgres/cluster_admin.h"
#include "tally/cluster_database.h"
#include "tally/output.h"
#include <stdio.h>

struct settings {
    const char *log;
    bool is_anywhere;
};

static const struct setting log_table[] = {{"log", offsetof(struct settings, log)}};
static const struct setting move_table[] = {{"log", offsetof(struct settings, log)},
                                            {"anywhere", offsetof(struct settings, is_anywhere)}};

/* The only thing that it has to say; with --json as members of an object. */
static int finish(const struct invocation *invocation, enum error error, const struct failure *failure,
                  const char *member, const char *said)
{
    if (error == OK) {
        output_text(invocation, member, said);
        return EXIT_DONE;
    }
    complain("%s", failure->text);
    return error == ERROR_SERVICE_UNAVAILABLE ? EXIT_UNREACHABLE : EXIT_REFUSED;
}

static int run_drain(struct invocation *invocation, bool drains)
{
    const struct settings *settings = invocation->settings;
    struct pg_options options;
    if (!cluster_database_fill(&options, settings->log))
        return complain_usage(invocation, "say where the log is: --log postgres://...");
    struct failure failure;
    failure_init(&failure);
    const char *node = invocation->arguments[0];
    return finish(invocation, cluster_admin_drain(&options, node, drains, &failure), &failure,
                  drains ? "Draining" : "Uncordoned", node);
}

static int run_drain_on(struct invocation *invocation)
{
    return run_drain(invocation, true);
}

static int run_drain_off(struct invocation *invocation)
{
    return run_drain(invocation, false);
}

static int run_move(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct pg_options options;
    const bool has_node = invocation->argument_count == 2;
    if (has_node == settings->is_anywhere)
        return complain_usage(invocation, "say where the namespace is to be: a node, or --anywhere");
    if (!cluster_database_fill(&options, settings->log))
        return complain_usage(invocation, "say where the log is: --log postgres://...");
    struct failure failure;
    failure_init(&failure);
    const char *node = has_node ? invocation->arguments[1] : NULL;
    return finish(invocation, cluster_admin_move(&options, invocation->arguments[0], node, &failure), &failure,
                  "PinnedTo", has_node ? node : "anywhere");
}

static int run_forget(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct pg_options options;
    if (!cluster_database_fill(&options, settings->log))
        return complain_usage(invocation, "say where the log is: --log postgres://...");
    struct failure failure;
    failure_init(&failure);
    const char *node = invocation->arguments[0];
    return finish(invocation, cluster_admin_forget(&options, node, &failure), &failure, "Forgotten", node);
}

#define COMMAND(table, function)                                                                                       \
    {                                                                                                                  \
        .settings = (table), .setting_count = ARRAY_LENGTH(table), .settings_size = sizeof(struct settings),           \
        .run = (function)                                                                                              \
    }

const struct command command_cluster_drain = COMMAND(log_table, run_drain_on);
const struct command command_cluster_uncordon = COMMAND(log_table, run_drain_off);
const struct command command_cluster_move = COMMAND(move_table, run_move);
const struct command command_cluster_forget = COMMAND(log_table, run_forget);
