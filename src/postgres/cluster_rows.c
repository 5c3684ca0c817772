#include "postgres/cluster_rows.h"

#include "base/memory.h"

#include <stdlib.h>

#define HEADS_AT_ONCE 2000u /* rows: some 120 KB */

void cluster_rows_init(struct cluster_rows *rows)
{
    *rows = (struct cluster_rows){0};
}

void cluster_rows_deinit(struct cluster_rows *rows)
{
    free(rows->nodes_owned);
    free(rows->logs_owned);
    free(rows->wishes_owned);
    for (size_t i = 0; i < rows->place_count; i++)
        free(rows->places_owned[i]);
    free(rows->places_owned);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

enum node_column {
    NODE_ID,
    NODE_NAME,
    NODE_ADDRESS,
    NODE_VERSION,
    NODE_IS_DRAINING,
    NODE_INSTANCE,
    NODE_AGE,
    NODE_LIMIT,
    NODE_NUMBER,
};

static void decode_node(const PGresult *result, int row, struct cluster_node *node)
{
    *node = (struct cluster_node){.known = {.id = (uint32_t)pg_number(result, row, NODE_ID),
                                            .is_draining = pg_number(result, row, NODE_IS_DRAINING) != 0},
                                  .limit_ms = (uint32_t)pg_number(result, row, NODE_LIMIT)};
    pg_text(result, row, NODE_NAME, node->known.name, sizeof(node->known.name));
    pg_text(result, row, NODE_ADDRESS, node->known.address, sizeof(node->known.address));
    pg_text(result, row, NODE_VERSION, node->known.version, sizeof(node->known.version));
    const struct bytes instance = pg_field(result, row, NODE_INSTANCE);
    node->has_process = instance.size == PG_OWNER_SIZE;
    if (node->has_process)
        memcpy(node->instance, instance.ptr, PG_OWNER_SIZE);
    node->age_ms = pg_field(result, row, NODE_AGE).ptr == NULL ? CLUSTER_NEVER : pg_number(result, row, NODE_AGE);
    node->number = pg_number(result, row, NODE_NUMBER);
    node->known.is_alive = node->has_process && node->age_ms <= node->limit_ms;
}

void cluster_rows_set_nodes(struct cluster_rows *rows, const PGresult *result)
{
    const int count = PQntuples(result);
    free(rows->nodes_owned);
    rows->nodes_owned = memory_allocate(((size_t)count + 1) * sizeof(*rows->nodes_owned));
    rows->node_count = (size_t)count;
    for (int i = 0; i < count; i++)
        decode_node(result, i, &rows->nodes_owned[i]);
}

/* --- logs --------------------------------------------------------------------------------------------------------- */

/* Where the log of that id is, or belongs. */
static size_t log_index(const struct cluster_rows *rows, uint32_t id)
{
    size_t begin = 0, end = rows->log_count;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;
        if (rows->logs_owned[middle].id < id)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static struct cluster_log *find_log_by_id(const struct cluster_rows *rows, uint32_t id)
{
    const size_t index = log_index(rows, id);
    return index < rows->log_count && rows->logs_owned[index].id == id ? &rows->logs_owned[index] : NULL;
}

static struct cluster_log *find_or_add_log(struct cluster_rows *rows, uint32_t id)
{
    struct cluster_log *found = find_log_by_id(rows, id);
    if (found != NULL)
        return found;
    const size_t index = log_index(rows, id);
    ARRAY_GROW(rows->logs_owned, rows->log_count, rows->log_capacity);
    memmove(&rows->logs_owned[index + 1], &rows->logs_owned[index],
            (rows->log_count - index) * sizeof(*rows->logs_owned));
    rows->log_count++;
    rows->logs_owned[index] = (struct cluster_log){.id = id};
    return &rows->logs_owned[index];
}

/* The number of a place; it stays the same as long as there are these rows. */
static uint32_t place_index(struct cluster_rows *rows, struct bytes place)
{
    if (place.size == 0)
        return VIEW_NONE;
    for (uint32_t i = 0; i < rows->place_count; i++)
        if (bytes_equal(bytes_from_string(rows->places_owned[i]), place))
            return i;
    ARRAY_GROW(rows->places_owned, rows->place_count, rows->place_capacity);
    char *copy = memory_allocate(place.size + 1);
    (void)snprintf(copy, place.size + 1, "%.*s", BYTES_FORMAT(place));
    rows->places_owned[rows->place_count++] = copy;
    return (uint32_t)rows->place_count - 1;
}

static void take_heads(struct cluster_rows *rows, const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++) {
        struct cluster_log *log = find_or_add_log(rows, (uint32_t)pg_number(result, i, 0));
        pg_text(result, i, 1, log->name, sizeof(log->name));
        log->epoch = pg_number(result, i, 2);
        pg_text(result, i, 3, log->node, sizeof(log->node));
        log->place = place_index(rows, pg_field(result, i, 4));
        log->is_moving = pg_number(result, i, 5) != 0;
    }
}

enum pg_outcome cluster_rows_read_heads(struct cluster_rows *rows, struct pg_session *session, const char *moment,
                                        uint64_t until_ms, struct failure *failure)
{
    uint32_t behind = 0;
    if (moment[0] == '\0')
        rows->log_count = 0;
    for (;;) {
        struct pg_values values = {0};
        pg_add_bytes(&values, bytes_from_string(moment));
        pg_add_i32(&values, behind);
        pg_add_i32(&values, HEADS_AT_ONCE);
        PGresult *result = NULL;
        const enum pg_outcome outcome = pg_session_run(session, PG_HEADS, &values, until_ms, &result, failure);
        const int count = outcome == PG_DONE ? PQntuples(result) : 0;
        take_heads(rows, result);
        if (count > 0)
            behind = (uint32_t)pg_number(result, count - 1, 0);
        PQclear(result);
        if (outcome != PG_DONE || (uint32_t)count < HEADS_AT_ONCE)
            return outcome;
    }
}

enum pg_outcome cluster_rows_read_pins(struct cluster_rows *rows, struct pg_session *session, uint64_t until_ms,
                                       struct failure *failure)
{
    const struct pg_values none = {0};
    PGresult *result = NULL;
    const enum pg_outcome outcome = pg_session_run(session, PG_PINS, &none, until_ms, &result, failure);
    if (outcome != PG_DONE)
        return outcome;
    for (size_t i = 0; i < rows->log_count; i++)
        rows->logs_owned[i].pinned_to = 0;
    for (int i = 0; i < PQntuples(result); i++) {
        struct cluster_log *log = find_log_by_id(rows, (uint32_t)pg_number(result, i, 0));
        if (log != NULL)
            log->pinned_to = (uint32_t)pg_number(result, i, 1);
    }
    PQclear(result);
    return PG_DONE;
}

enum pg_outcome cluster_rows_read_wishes(struct cluster_rows *rows, struct pg_session *session, const char *node,
                                         uint64_t until_ms, struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(node));
    PGresult *result = NULL;
    const enum pg_outcome outcome = pg_session_run(session, PG_WISHES, &values, until_ms, &result, failure);
    if (outcome != PG_DONE)
        return outcome;
    const int count = PQntuples(result);
    free(rows->wishes_owned);
    rows->wishes_owned = memory_allocate(((size_t)count + 1) * sizeof(*rows->wishes_owned));
    rows->wish_count = (size_t)count;
    for (int i = 0; i < count; i++)
        rows->wishes_owned[i] =
            (struct cluster_wish){.log = (uint32_t)pg_number(result, i, 0), .node = (uint32_t)pg_number(result, i, 1)};
    PQclear(result);
    return PG_DONE;
}

enum nodes_column { NODES_SINCE = NODE_NUMBER + 1, NODES_LAST_BEAT };

enum pg_outcome cluster_rows_read(struct cluster_rows *rows, struct pg_session *session, uint64_t until_ms,
                                  struct failure *failure)
{
    const struct pg_values none = {0};
    PGresult *result = NULL;
    enum pg_outcome outcome = pg_session_run(session, PG_NODES, &none, until_ms, &result, failure);
    if (outcome == PG_DONE)
        cluster_rows_set_nodes(rows, result);
    for (size_t i = 0; outcome == PG_DONE && i < rows->node_count; i++) {
        pg_text(result, (int)i, NODES_SINCE, rows->nodes_owned[i].since, sizeof(rows->nodes_owned[i].since));
        pg_text(result, (int)i, NODES_LAST_BEAT, rows->nodes_owned[i].last_beat,
                sizeof(rows->nodes_owned[i].last_beat));
    }
    PQclear(result);
    if (outcome == PG_DONE)
        outcome = cluster_rows_read_heads(rows, session, "", until_ms, failure);
    if (outcome == PG_DONE)
        outcome = cluster_rows_read_pins(rows, session, until_ms, failure);
    return outcome == PG_DONE ? cluster_rows_read_wishes(rows, session, "", until_ms, failure) : outcome;
}

/* --- the view ----------------------------------------------------------------------------------------------------- */

const struct cluster_node *cluster_rows_find_node(const struct cluster_rows *rows, struct bytes name)
{
    for (size_t i = 0; i < rows->node_count; i++)
        if (bytes_equal(bytes_from_string(rows->nodes_owned[i].known.name), name))
            return &rows->nodes_owned[i];
    return NULL;
}

const struct cluster_log *cluster_rows_find_log(const struct cluster_rows *rows, struct bytes name)
{
    for (size_t i = 0; i < rows->log_count; i++)
        if (bytes_equal(bytes_from_string(rows->logs_owned[i].name), name))
            return &rows->logs_owned[i];
    return NULL;
}

static uint32_t index_of_id(const struct cluster_rows *rows, uint32_t id)
{
    for (uint32_t i = 0; id != 0 && i < rows->node_count; i++)
        if (rows->nodes_owned[i].known.id == id)
            return i;
    return VIEW_NONE;
}

/* `hint`: most logs stand beside one of the same node. */
static uint32_t index_of_name(const struct cluster_rows *rows, const char *name, uint32_t hint)
{
    if (hint < rows->node_count && strcmp(rows->nodes_owned[hint].known.name, name) == 0)
        return hint;
    for (uint32_t i = 0; i < rows->node_count; i++)
        if (strcmp(rows->nodes_owned[i].known.name, name) == 0)
            return i;
    return VIEW_NONE;
}

void cluster_rows_make_view(const struct cluster_rows *rows, uint32_t own_id, bool is_settled, struct view *view)
{
    struct view_node *nodes = memory_allocate((rows->node_count + 1) * sizeof(*nodes));
    struct view_log *logs = memory_allocate((rows->log_count + 1) * sizeof(*logs));
    for (size_t i = 0; i < rows->node_count; i++)
        nodes[i] = rows->nodes_owned[i].known;
    uint32_t owner = VIEW_NONE;
    for (size_t i = 0; i < rows->log_count; i++) {
        const struct cluster_log *log = &rows->logs_owned[i];
        owner = log->epoch == 0 ? VIEW_NONE : index_of_name(rows, log->node, owner);
        logs[i] = (struct view_log){.id = log->id,
                                    .epoch = log->epoch,
                                    .owner = owner,
                                    .pinned_to = index_of_id(rows, log->pinned_to),
                                    .place = log->place,
                                    .is_moving = log->is_moving};
        memcpy(logs[i].name, log->name, sizeof(logs[i].name));
    }
    view_init(view, nodes, rows->node_count, logs, rows->log_count, index_of_id(rows, own_id), is_settled);
    view_set_places(view, rows->places_owned, rows->place_count);
    for (size_t i = 0; i < rows->wish_count; i++) {
        const struct cluster_log *log = find_log_by_id(rows, rows->wishes_owned[i].log);
        if (log != NULL)
            view_note_ready(view, bytes_from_string(log->name), rows->wishes_owned[i].node);
    }
}
