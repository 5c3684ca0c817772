#include "postgres/cluster_admin.h"

#include "base/buffer.h"

#define PATIENCE_MS 10000u

/* A connection, and what it has read. */
struct office {
    struct pg_session session;
    struct cluster_rows rows;
    uint64_t until_ms;
};

static enum error enter(struct office *office, const struct pg_options *options, struct failure *failure)
{
    office->until_ms = pg_now_ms() + PATIENCE_MS;
    pg_session_init(&office->session, options, "administration");
    cluster_rows_init(&office->rows);
    enum error error = pg_session_open(&office->session, office->until_ms, failure);
    if (error == OK && cluster_rows_read(&office->rows, &office->session, office->until_ms, failure) != PG_DONE)
        error = failure->error;
    return error;
}

static void leave(struct office *office)
{
    pg_session_deinit(&office->session);
    cluster_rows_deinit(&office->rows);
}

enum error cluster_admin_read(const struct pg_options *options, struct cluster_rows *rows, struct view *view,
                              struct failure *failure)
{
    struct office office;
    const enum error error = enter(&office, options, failure);
    if (error == OK) {
        *rows = office.rows;
        cluster_rows_init(&office.rows);
        cluster_rows_make_view(rows, 0, true, view);
    }
    leave(&office);
    return error;
}

static enum error fail_unknown_node(const struct office *office, const char *node, struct failure *failure)
{
    struct buffer names;
    buffer_init(&names);
    for (size_t i = 0; i < office->rows.node_count; i++)
        buffer_append_format(&names, "%s%s", i == 0 ? "" : ", ", office->rows.nodes_owned[i].known.name);
    const enum error error =
        names.size == 0
            ? failure_set(failure, ERROR_RESOURCE_NOT_FOUND, "There is no node %s: no node has registered yet.", node)
            : failure_set(failure, ERROR_RESOURCE_NOT_FOUND, "There is no node %s. There are: %.*s.", node,
                          BYTES_FORMAT(buffer_bytes(&names)));
    buffer_deinit(&names);
    return error;
}

/* Runs a statement that counts what it has changed. */
static enum error change(struct office *office, enum pg_statement statement, const struct pg_values *values,
                         uint64_t *count, struct failure *failure)
{
    PGresult *result = NULL;
    if (pg_session_run(&office->session, statement, values, office->until_ms, &result, failure) != PG_DONE)
        return failure->error;
    *count = pg_number(result, 0, 0);
    PQclear(result);
    return OK;
}

static enum error fail_changed(struct failure *failure)
{
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "It was changed by somebody else at the same time. Look at the status, and try again.");
}

static bool takes(const struct cluster_node *node)
{
    return node->known.is_alive && !node->known.is_draining;
}

/* Would somebody else take what the node has? */
static bool others_take(const struct office *office, const struct cluster_node *node)
{
    for (size_t i = 0; i < office->rows.node_count; i++)
        if (&office->rows.nodes_owned[i] != node && takes(&office->rows.nodes_owned[i]))
            return true;
    return false;
}

static enum error drain(struct office *office, const char *name, bool drains, struct failure *failure)
{
    const struct cluster_node *node = cluster_rows_find_node(&office->rows, bytes_from_string(name));
    if (node == NULL)
        return fail_unknown_node(office, name, failure);
    if (drains && takes(node) && !others_take(office, node))
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "No other node that is alive takes namespaces, so node %s can't give its own to anybody. "
                           "Start or uncordon another one first.",
                           name);
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(name));
    pg_add_bytes(&values, drains ? BYTES("true") : BYTES("false"));
    uint64_t count = 0;
    const enum error error = change(office, PG_DRAIN, &values, &count, failure);
    return error == OK && count == 0 ? fail_changed(failure) : error;
}

enum error cluster_admin_drain(const struct pg_options *options, const char *node, bool drains, struct failure *failure)
{
    struct office office;
    enum error error = enter(&office, options, failure);
    if (error == OK)
        error = drain(&office, node, drains, failure);
    leave(&office);
    return error;
}

static enum error unpin(struct office *office, const char *log, struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(log));
    uint64_t count = 0; /* 0: it was nowhere in particular before */
    return change(office, PG_UNPIN, &values, &count, failure);
}

static enum error pin(struct office *office, const char *log, const char *name, struct failure *failure)
{
    if (cluster_rows_find_node(&office->rows, bytes_from_string(name)) == NULL)
        return fail_unknown_node(office, name, failure);
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(name));
    pg_add_bytes(&values, bytes_from_string(log));
    uint64_t count = 0;
    const enum error error = change(office, PG_PIN, &values, &count, failure);
    return error == OK && count == 0 ? fail_changed(failure) : error;
}

enum error cluster_admin_move(const struct pg_options *options, const char *log, const char *node,
                              struct failure *failure)
{
    struct office office;
    enum error error = enter(&office, options, failure);
    if (error == OK && cluster_rows_find_log(&office.rows, bytes_from_string(log)) == NULL)
        error = failure_set(failure, ERROR_RESOURCE_NOT_FOUND,
                            "There is no namespace %s: \"tally cluster status\" lists them all.", log);
    if (error == OK)
        error = node == NULL ? unpin(&office, log, failure) : pin(&office, log, node, failure);
    leave(&office);
    return error;
}

static enum error fail_alive(const char *name, struct failure *failure)
{
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "Node %s is alive. Stop it first; to have it serve nothing while it runs, drain it.", name);
}

static enum error forget(struct office *office, const char *name, struct failure *failure)
{
    const struct cluster_node *node = cluster_rows_find_node(&office->rows, bytes_from_string(name));
    if (node == NULL)
        return fail_unknown_node(office, name, failure);
    if (node->known.is_alive)
        return fail_alive(name, failure);
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(name));
    uint64_t count = 0;
    const enum error error = change(office, PG_FORGET, &values, &count, failure);
    return error == OK && count == 0 ? fail_alive(name, failure) : error;
}

enum error cluster_admin_forget(const struct pg_options *options, const char *node, struct failure *failure)
{
    struct office office;
    enum error error = enter(&office, options, failure);
    if (error == OK)
        error = forget(&office, node, failure);
    leave(&office);
    return error;
}
