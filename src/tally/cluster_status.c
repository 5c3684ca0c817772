/* tally cluster status: the nodes of a cluster, and who has the logs in a PostgreSQL. */
#include "base/assert.h"
#include "base/memory.h"
#include "client/json.h"
#include "postgres/cluster_admin.h"
#include "postgres/logs.h"
#include "tally/cluster_database.h"
#include "tally/command.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct settings {
    const char *log;
};

static const struct setting settings_table[] = {{"log", offsetof(struct settings, log)}};

struct facts {
    struct pg_log_facts *items_owned;
    size_t count, capacity;
};

/* Another PostgreSQL that has logs of the cluster. */
struct far_server {
    char place[PG_PLACE_SIZE];
    struct facts facts;
    struct failure failure; /* why it could not be asked; OK: it could */
};

struct status {
    const struct invocation *invocation;
    struct facts facts; /* of the logs, as the cluster's own database has them */
    struct far_server *servers_owned;
    size_t server_count, server_capacity;
    struct cluster_rows rows;
    struct view view;
};

static void print_document(yyjson_mut_doc *doc)
{
    char *text = json_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    printf("%s\n", text);
    free(text);
    yyjson_mut_doc_free(doc);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

/* One that only says where it is found, and not that it is alive, is nothing that could be told. */
static bool has_registered(const struct cluster_node *node)
{
    return node->has_process || node->age_ms != CLUSTER_NEVER;
}

static void print_node_words(const struct cluster_node *node, const struct view_node *seen)
{
    printf("node %s  %s, tallyd %s, ", node->known.name, node->known.address, node->known.version);
    if (node->known.is_alive)
        printf("alive since %s, last beat %.1f s ago", node->since, (double)node->age_ms / 1000);
    else if (node->age_ms == CLUSTER_NEVER)
        printf("not alive: it never beat");
    else
        printf("%s: last beat at %s", node->has_process ? "not alive" : "stopped", node->last_beat);
    printf("%s, owns %" PRIu32 ", should own %" PRIu32 "\n", node->known.is_draining ? ", draining" : "",
           seen->owned_count, seen->wanted_count);
}

static void print_node_json(const struct cluster_node *node, const struct view_node *seen)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *object = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, object);
    yyjson_mut_obj_add_str(doc, object, "Node", node->known.name);
    yyjson_mut_obj_add_str(doc, object, "Address", node->known.address);
    yyjson_mut_obj_add_str(doc, object, "Version", node->known.version);
    yyjson_mut_obj_add_bool(doc, object, "Alive", node->known.is_alive);
    yyjson_mut_obj_add_str(doc, object, "AliveSince", node->known.is_alive ? node->since : "");
    yyjson_mut_obj_add_str(doc, object, "LastBeat", node->last_beat);
    yyjson_mut_obj_add_bool(doc, object, "Draining", node->known.is_draining);
    yyjson_mut_obj_add_uint(doc, object, "Owned", seen->owned_count);
    yyjson_mut_obj_add_uint(doc, object, "Wanted", seen->wanted_count);
    print_document(doc);
}

static void print_nodes(const struct status *status)
{
    for (size_t i = 0; i < status->view.node_count; i++) {
        const struct view_node *seen = &status->view.nodes_owned[i];
        const struct cluster_node *node = cluster_rows_find_node(&status->rows, bytes_from_string(seen->name));
        if (node == NULL || !has_registered(node))
            continue;
        if (status->invocation->is_json)
            print_node_json(node, seen);
        else
            print_node_words(node, seen);
    }
}

/* --- logs --------------------------------------------------------------------------------------------------------- */

/* Empty: none. */
static const char *name_of(const struct status *status, uint32_t node)
{
    return node == VIEW_NONE ? "" : status->view.nodes_owned[node].name;
}

static void print_place_words(const struct pg_log_facts *facts, const struct far_server *server)
{
    if (server != NULL)
        printf(", at %s", server->place);
    if (server != NULL && server->failure.error != OK)
        printf(" (as its nodes last said: %s)", server->failure.text);
    if (facts->is_moving)
        printf(", is moving, and nobody may have it: if no \"tally log move\" is at work, type it again");
}

static void print_log_words(const struct status *status, const struct pg_log_facts *facts,
                            const struct far_server *server, const struct view_log *log)
{
    const bool is_at_rest = facts->epoch > 0 && facts->node[0] == '\0';
    if (facts->epoch == 0)
        printf("%s  nobody has had it yet", facts->name);
    else if (is_at_rest)
        printf("%s  at rest, last opened at %s (epoch %" PRIu64 ")", facts->name, facts->since, facts->epoch);
    else
        printf("%s  %s %s since %s (epoch %" PRIu64 "), %" PRIu64 " stand by", facts->name,
               facts->is_owned ? "owned by" : "last owned by", facts->node, facts->since, facts->epoch,
               facts->stand_bys);
    if (log != NULL && log->wanted != VIEW_NONE && log->wanted != log->owner)
        printf(is_at_rest ? ", opens on %s" : ", should be on %s", name_of(status, log->wanted));
    if (log != NULL && log->pinned_to != VIEW_NONE)
        printf(", pinned to %s", name_of(status, log->pinned_to));
    print_place_words(facts, server);
    puts("");
}

static void print_log_json(const struct status *status, const struct pg_log_facts *facts,
                           const struct far_server *server, const struct view_log *log)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *object = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, object);
    yyjson_mut_obj_add_str(doc, object, "Namespace", facts->name);
    yyjson_mut_obj_add_str(doc, object, "Node", facts->node);
    yyjson_mut_obj_add_str(doc, object, "Since", facts->since);
    yyjson_mut_obj_add_uint(doc, object, "Epoch", facts->epoch);
    yyjson_mut_obj_add_bool(doc, object, "Connected", facts->is_owned);
    yyjson_mut_obj_add_uint(doc, object, "StandBys", facts->stand_bys);
    yyjson_mut_obj_add_str(doc, object, "Wanted", log == NULL ? "" : name_of(status, log->wanted));
    yyjson_mut_obj_add_str(doc, object, "WantedStandBy", log == NULL ? "" : name_of(status, log->stand_by));
    yyjson_mut_obj_add_str(doc, object, "PinnedTo", log == NULL ? "" : name_of(status, log->pinned_to));
    yyjson_mut_obj_add_str(doc, object, "Postgres", server == NULL ? "" : server->place);
    yyjson_mut_obj_add_str(doc, object, "PostgresFailure", server == NULL ? "" : server->failure.text);
    yyjson_mut_obj_add_bool(doc, object, "Moving", facts->is_moving);
    print_document(doc);
}

static void on_log(void *context, const struct pg_log_facts *log)
{
    struct facts *facts = context;
    ARRAY_GROW(facts->items_owned, facts->count, facts->capacity);
    facts->items_owned[facts->count++] = *log;
}

static const struct far_server *find_server(const struct status *status, const char *place)
{
    for (size_t i = 0; i < status->server_count; i++)
        if (strcmp(status->servers_owned[i].place, place) == 0)
            return &status->servers_owned[i];
    return NULL;
}

/* Asks each server that a log has moved to, once. One that does not answer is no failure of this command. */
static void ask_servers(struct status *status, const struct pg_options *options)
{
    for (size_t i = 0; i < status->facts.count; i++) {
        const char *place = status->facts.items_owned[i].moved_to;
        if (place[0] == '\0' || find_server(status, place) != NULL)
            continue;
        ARRAY_GROW(status->servers_owned, status->server_count, status->server_capacity);
        struct far_server *server = &status->servers_owned[status->server_count++];
        *server = (struct far_server){0};
        failure_init(&server->failure);
        memcpy(server->place, place, sizeof(server->place));
        struct pg_options there = *options;
        char *conninfo = pg_place_complete(place, options->conninfo);
        there.conninfo = conninfo;
        (void)pg_logs_visit(&there, on_log, &server->facts, &server->failure);
        free(conninfo);
    }
}

/* Of a log that has moved, the server where it is knows who has it. */
static struct pg_log_facts newest_facts(const struct pg_log_facts *known, const struct far_server *server)
{
    for (size_t i = 0; server != NULL && i < server->facts.count; i++)
        if (strcmp(server->facts.items_owned[i].name, known->name) == 0) {
            struct pg_log_facts facts = server->facts.items_owned[i];
            facts.is_moving = known->is_moving;
            return facts;
        }
    return *known;
}

static void print_logs(const struct status *status)
{
    for (size_t i = 0; i < status->facts.count; i++) {
        const struct pg_log_facts *known = &status->facts.items_owned[i];
        const struct far_server *server = find_server(status, known->moved_to);
        const struct pg_log_facts facts = newest_facts(known, server);
        const struct view_log *log = view_find_log(&status->view, bytes_from_string(facts.name));
        if (status->invocation->is_json)
            print_log_json(status, &facts, server, log);
        else
            print_log_words(status, &facts, server, log);
    }
}

static void free_facts(struct status *status)
{
    for (size_t i = 0; i < status->server_count; i++)
        free(status->servers_owned[i].facts.items_owned);
    free(status->servers_owned);
    free(status->facts.items_owned);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const bool has_argument = invocation->argument_count > 0;
    struct failure failure;
    struct pg_options options;
    if (has_argument && settings->log != NULL)
        return complain_usage(invocation, "the database was given twice: as --log, and as %s",
                              invocation->arguments[0]);
    if (!cluster_database_fill(&options, has_argument ? invocation->arguments[0] : settings->log))
        return complain_usage(invocation, "say where the log is: --log postgres://...");
    failure_init(&failure);
    struct status status = {.invocation = invocation};
    enum error error = cluster_admin_read(&options, &status.rows, &status.view, &failure);
    if (error == OK) {
        print_nodes(&status);
        error = pg_logs_visit(&options, on_log, &status.facts, &failure);
        ask_servers(&status, &options);
        print_logs(&status);
        free_facts(&status);
        view_deinit(&status.view);
        cluster_rows_deinit(&status.rows);
    }
    if (error == OK)
        return EXIT_DONE;
    complain("%s", failure.text);
    return error == ERROR_SERVICE_UNAVAILABLE ? EXIT_UNREACHABLE : EXIT_REFUSED;
}

const struct command command_cluster_status = {.settings = settings_table,
                                               .setting_count = ARRAY_LENGTH(settings_table),
                                               .settings_size = sizeof(struct settings),
                                               .run = run};
