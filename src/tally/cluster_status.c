/* tally cluster status: the nodes of a cluster, and who has the logs in a PostgreSQL. */
#include "base/assert.h"
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

struct status {
    const struct invocation *invocation;
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

static void print_log_words(const struct status *status, const struct pg_log_facts *facts, const struct view_log *log)
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
    puts("");
}

static void print_log_json(const struct status *status, const struct pg_log_facts *facts, const struct view_log *log)
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
    print_document(doc);
}

static void on_log(void *context, const struct pg_log_facts *facts)
{
    const struct status *status = context;
    const struct view_log *log = view_find_log(&status->view, bytes_from_string(facts->name));
    if (status->invocation->is_json)
        print_log_json(status, facts, log);
    else
        print_log_words(status, facts, log);
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
        error = pg_logs_visit(&options, on_log, &status, &failure);
        view_deinit(&status.view);
        cluster_rows_deinit(&status.rows);
    }
    if (error == OK)
        return EXIT_DONE;
    complain("%s", failure.text);
    return EXIT_UNREACHABLE;
}

const struct command command_cluster_status = {.settings = settings_table,
                                               .setting_count = ARRAY_LENGTH(settings_table),
                                               .settings_size = sizeof(struct settings),
                                               .run = run};
