/* What a node knows of its cluster: the nodes, the logs, who has which and who should.
 *
 * A view never changes, so that any thread may read it while a newer one is made. It is made of rows, which
 * postgres/registry.h reads, and computes from them alone: two nodes with the same rows have the same view. */
#ifndef TALLY_CLUSTER_VIEW_H
#define TALLY_CLUSTER_VIEW_H

#include "base/bytes.h"

#define VIEW_NAME_SIZE 64u     /* of a node or a log, with its NUL */
#define VIEW_ADDRESS_SIZE 264u /* a name of 255 bytes, a colon, a port */
#define VIEW_VERSION_SIZE 32u
#define VIEW_NONE UINT32_MAX

struct view_node {
    uint32_t id; /* in PostgreSQL */
    char name[VIEW_NAME_SIZE];
    char address[VIEW_ADDRESS_SIZE]; /* where other nodes reach it; empty: nowhere */
    char version[VIEW_VERSION_SIZE];
    bool is_alive;
    bool is_draining;     /* an operator wants it to have nothing */
    uint32_t owned_count; /* found: how many logs it has, or had last */
    uint32_t wanted_count;
};

struct view_log {
    uint32_t id; /* in PostgreSQL */
    char name[VIEW_NAME_SIZE];
    uint64_t epoch; /* 0: nobody has ever had it */
    uint32_t owner; /* the node that has it, or had it last; these are indices of nodes, or VIEW_NONE */
    uint32_t pinned_to;
    uint32_t wanted;   /* found: the node that should have it; VIEW_NONE: no node takes any */
    uint32_t stand_by; /* found: the node that should follow it, and may take it when its owner is gone */
    uint32_t place;    /* index of places: on which server it is; VIEW_NONE: on the cluster's own */
    bool is_moving;    /* it is on its way to another server, and nobody may take it */
    bool is_ready;     /* the wanted node says that it follows the log and is ready to have it */
};

struct view {
    struct view_node *nodes_owned; /* by name */
    size_t node_count;
    struct view_log *logs_owned; /* by name */
    size_t log_count;
    char **places_owned; /* servers beside the cluster's own on which logs are, as connection strings */
    size_t place_count;
    uint32_t own;    /* this node; VIEW_NONE: it is not registered, for another process has its name, or nobody asks
                      * as a node */
    bool is_settled; /* this node has looked for long enough to know of all others that began at the same time */
};

/* Makes one of both lists, which it sorts and keeps; their "found" members need not be set. `own` is an index of
 * nodes. */
void view_init(struct view *view, struct view_node *nodes_owned, size_t node_count, struct view_log *logs_owned,
               size_t log_count, uint32_t own, bool is_settled);
void view_deinit(struct view *view);

/* The servers that the logs name; copied. Only before others read the view. */
void view_set_places(struct view *view, char *const *places, size_t count);

/* The node of that id says that it is ready to have the log. Only before others read the view. */
void view_note_ready(struct view *view, struct bytes log, uint32_t node_id);

/* NULL: there is none. */
const struct view_log *view_find_log(const struct view *view, struct bytes name);

/* The node that should have the log, known or not; NULL: no node takes any. */
const struct view_node *view_find_home(const struct view *view, struct bytes log);

/* Is that this node, or does no node take any? */
bool view_is_home(const struct view *view, struct bytes log);

/* Should this node follow the log, as its owner or its stand-by to be? A log that is not known yet is followed where it
 * would be placed by its name alone, and any log where all nodes drain. */
bool view_should_follow(const struct view *view, struct bytes log);

/* May this node take the log when its owner is gone? Not while it is moving. Yes if it should have it. Its stand-by may
 * if the owner was the one that should have it: else it is on its way from that owner to another node. A node that has
 * just begun takes only what it had last, or nobody had, until it is settled. It takes nothing while another process
 * has its name. */
bool view_may_take(const struct view *view, struct bytes log);

/* Should this node, the owner, give the log up? Yes if another one should have it, and is ready; and at once if it is
 * moving. */
bool view_should_give_up(const struct view *view, struct bytes log);

/* Should this node follow the log and become ready: it should have it and may take it, and another node has it? */
bool view_should_get_ready(const struct view *view, struct bytes log);

#endif
