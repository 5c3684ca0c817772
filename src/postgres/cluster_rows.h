/* The rows that PostgreSQL has of a cluster: its nodes, its logs, what operators want; and the view that they make
 * (cluster/view.h). One thread at a time. */
#ifndef TALLY_POSTGRES_CLUSTER_ROWS_H
#define TALLY_POSTGRES_CLUSTER_ROWS_H

#include "cluster/view.h"
#include "postgres/session.h"

#define CLUSTER_MOMENT_SIZE 24u /* of a moment (statements.h) and its NUL */
#define CLUSTER_NEVER UINT64_MAX

struct cluster_node {
    struct view_node known;          /* is_alive is what PostgreSQL's clock says; who keeps rows may know better */
    bool has_process;                /* one has registered, and did not end in order */
    uint8_t instance[PG_OWNER_SIZE]; /* that process */
    uint64_t age_ms;                 /* of its newest beat; CLUSTER_NEVER: it never had one */
    uint64_t number;                 /* of that beat */
    uint64_t heard_ms;               /* when this reader first saw that number, by pg_now_ms(); by the registry */
    uint32_t limit_ms;               /* at that age it is not alive any more */
    char since[32]; /* when that process registered; these two are read with cluster_rows_read() only */
    char last_beat[32];
};

/* A log of pg_head. */
struct cluster_log {
    uint32_t id;
    uint64_t epoch;
    char name[VIEW_NAME_SIZE];
    char node[VIEW_NAME_SIZE]; /* that has it, or had it last */
    uint32_t pinned_to;        /* id of a node; 0: none */
    uint32_t place;            /* index of places: on which server it is; VIEW_NONE: on this one */
    bool is_moving;
};

struct cluster_wish {
    uint32_t log, node; /* ids */
};

struct cluster_rows {
    struct cluster_node *nodes_owned;
    size_t node_count;
    struct cluster_log *logs_owned; /* by id */
    size_t log_count, log_capacity;
    char **places_owned; /* of logs on other servers, once each */
    size_t place_count, place_capacity;
    struct cluster_wish *wishes_owned;
    size_t wish_count;
};

void cluster_rows_init(struct cluster_rows *rows);
void cluster_rows_deinit(struct cluster_rows *rows);

/* The nodes of a result whose columns begin with PG_NODE_COLUMNS. */
void cluster_rows_set_nodes(struct cluster_rows *rows, const PGresult *result);

/* Reads the heads that are new since that moment, all of them where it is empty: then those that are gone go. */
enum pg_outcome cluster_rows_read_heads(struct cluster_rows *rows, struct pg_session *session, const char *moment,
                                        uint64_t until_ms, struct failure *failure);

enum pg_outcome cluster_rows_read_pins(struct cluster_rows *rows, struct pg_session *session, uint64_t until_ms,
                                       struct failure *failure);

/* The wishes for logs of the node of that name; empty: all. */
enum pg_outcome cluster_rows_read_wishes(struct cluster_rows *rows, struct pg_session *session, const char *node,
                                         uint64_t until_ms, struct failure *failure);

/* Everything, for one who does not keep rows. */
enum pg_outcome cluster_rows_read(struct cluster_rows *rows, struct pg_session *session, uint64_t until_ms,
                                  struct failure *failure);

/* NULL: there is none. */
const struct cluster_node *cluster_rows_find_node(const struct cluster_rows *rows, struct bytes name);
const struct cluster_log *cluster_rows_find_log(const struct cluster_rows *rows, struct bytes name);

/* The view that they make; for view_deinit(). `own_id`: of this node; 0: none. */
void cluster_rows_make_view(const struct cluster_rows *rows, uint32_t own_id, bool is_settled, struct view *view);

#endif
