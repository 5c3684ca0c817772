#include "cluster/view.h"

#include "base/assert.h"
#include "base/memory.h"
#include "cluster/placement.h"

#include <stdlib.h>

static int compare_nodes(const void *a, const void *b)
{
    const struct view_node *one = a, *other = b;
    return strcmp(one->name, other->name);
}

static int compare_logs(const void *a, const void *b)
{
    const struct view_log *one = a, *other = b;
    return strcmp(one->name, other->name);
}

/* Sorts the nodes. The caller frees what it gets: by old index, the new one. */
static uint32_t *sort_nodes(struct view *view)
{
    const size_t count = view->node_count;
    uint32_t *moved = memory_allocate((count + 1) * sizeof(*moved));
    for (uint32_t i = 0; i < count; i++)
        view->nodes_owned[i].wanted_count = i; /* where it was, until it is counted */
    if (count > 0)
        qsort(view->nodes_owned, count, sizeof(*view->nodes_owned), compare_nodes);
    for (uint32_t i = 0; i < count; i++)
        moved[view->nodes_owned[i].wanted_count] = i;
    return moved;
}

static uint32_t follow_node(const uint32_t *moved, size_t count, uint32_t index)
{
    return index < count ? moved[index] : VIEW_NONE;
}

static uint32_t index_of(size_t found)
{
    return found == PLACEMENT_NONE ? VIEW_NONE : (uint32_t)found;
}

/* For the caller to free. */
static struct placement_node *list_nodes(const struct view *view)
{
    struct placement_node *nodes = memory_allocate((view->node_count + 1) * sizeof(*nodes));
    for (size_t i = 0; i < view->node_count; i++)
        nodes[i] = (struct placement_node){.name = bytes_from_string(view->nodes_owned[i].name),
                                           .takes = view->nodes_owned[i].is_alive && !view->nodes_owned[i].is_draining};
    return nodes;
}

static void place(struct view *view)
{
    struct placement_node *nodes = list_nodes(view);
    struct placement *placements = memory_allocate((view->log_count + 1) * sizeof(*placements));
    for (size_t i = 0; i < view->log_count; i++) {
        const uint32_t pinned_to = view->logs_owned[i].pinned_to;
        placements[i] = (struct placement){.name = bytes_from_string(view->logs_owned[i].name),
                                           .pinned_to = pinned_to == VIEW_NONE ? PLACEMENT_NONE : pinned_to};
    }
    placement_find(nodes, view->node_count, placements, view->log_count);
    for (size_t i = 0; i < view->log_count; i++) {
        view->logs_owned[i].wanted = index_of(placements[i].owner);
        view->logs_owned[i].stand_by = index_of(placements[i].stand_by);
    }
    free(placements);
    free(nodes);
}

static void count_logs(const struct view *view)
{
    for (size_t i = 0; i < view->node_count; i++)
        view->nodes_owned[i].owned_count = view->nodes_owned[i].wanted_count = 0;
    for (size_t i = 0; i < view->log_count; i++) {
        const struct view_log *log = &view->logs_owned[i];
        if (log->owner != VIEW_NONE)
            view->nodes_owned[log->owner].owned_count++;
        if (log->wanted != VIEW_NONE)
            view->nodes_owned[log->wanted].wanted_count++;
    }
}

void view_init(struct view *view, struct view_node *nodes_owned, size_t node_count, struct view_log *logs_owned,
               size_t log_count, uint32_t own, bool is_settled)
{
    ASSERT(own == VIEW_NONE || own < node_count);
    *view = (struct view){.nodes_owned = nodes_owned,
                          .node_count = node_count,
                          .logs_owned = logs_owned,
                          .log_count = log_count,
                          .is_settled = is_settled};
    uint32_t *moved = sort_nodes(view);
    view->own = follow_node(moved, node_count, own);
    for (size_t i = 0; i < log_count; i++) {
        struct view_log *log = &logs_owned[i];
        log->owner = follow_node(moved, node_count, log->owner);
        log->pinned_to = follow_node(moved, node_count, log->pinned_to);
        log->is_ready = false;
    }
    free(moved);
    if (log_count > 0)
        qsort(logs_owned, log_count, sizeof(*logs_owned), compare_logs);
    place(view);
    count_logs(view);
}

static void free_places(struct view *view)
{
    for (size_t i = 0; i < view->place_count; i++)
        free(view->places_owned[i]);
    free(view->places_owned);
}

void view_deinit(struct view *view)
{
    free(view->nodes_owned);
    free(view->logs_owned);
    free_places(view);
}

void view_set_places(struct view *view, char *const *places, size_t count)
{
    free_places(view);
    view->places_owned = memory_allocate((count + 1) * sizeof(*view->places_owned));
    view->place_count = count;
    for (size_t i = 0; i < count; i++) {
        const size_t size = strlen(places[i]) + 1;
        view->places_owned[i] = memory_allocate(size);
        memcpy(view->places_owned[i], places[i], size);
    }
}

/* Of one that is not wanted, or has gone since, it says nothing. */
void view_note_ready(struct view *view, struct bytes name, uint32_t node_id)
{
    struct view_log *log = (struct view_log *)(uintptr_t)view_find_log(view, name);
    if (log != NULL && log->wanted != VIEW_NONE && view->nodes_owned[log->wanted].id == node_id)
        log->is_ready = true;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static int compare_to_log(const void *key, const void *log)
{
    return bytes_compare(*(const struct bytes *)key, bytes_from_string(((const struct view_log *)log)->name));
}

const struct view_log *view_find_log(const struct view *view, struct bytes name)
{
    return view->log_count == 0
               ? NULL
               : bsearch(&name, view->logs_owned, view->log_count, sizeof(*view->logs_owned), compare_to_log);
}

/* Of a log that has no row: where its name alone places it. */
static uint32_t first_choice(const struct view *view, struct bytes name)
{
    struct placement placement = {.name = name, .pinned_to = PLACEMENT_NONE};
    struct placement_node *nodes = list_nodes(view);
    placement_find(nodes, view->node_count, &placement, 1);
    free(nodes);
    return index_of(placement.owner);
}

const struct view_node *view_find_home(const struct view *view, struct bytes name)
{
    const struct view_log *log = view_find_log(view, name);
    const uint32_t home = log == NULL ? first_choice(view, name) : log->wanted;
    return home == VIEW_NONE ? NULL : &view->nodes_owned[home];
}

bool view_is_home(const struct view *view, struct bytes name)
{
    const struct view_node *home = view_find_home(view, name);
    return home == NULL || (view->own != VIEW_NONE && home == &view->nodes_owned[view->own]);
}

bool view_should_follow(const struct view *view, struct bytes name)
{
    if (view->own == VIEW_NONE)
        return false;
    const struct view_log *log = view_find_log(view, name);
    if (log == NULL)
        return view_is_home(view, name);
    if (log->is_moving)
        return false;
    return log->wanted == VIEW_NONE || log->wanted == view->own || log->stand_by == view->own;
}

bool view_may_take(const struct view *view, struct bytes name)
{
    if (view->own == VIEW_NONE)
        return false;
    const struct view_log *log = view_find_log(view, name);
    if (log == NULL)
        return view_is_home(view, name);
    if (log->is_moving)
        return false;
    if (log->wanted == VIEW_NONE)
        return true;
    if (log->wanted == view->own)
        return view->is_settled || log->owner == view->own || log->owner == VIEW_NONE;
    return view->is_settled && log->stand_by == view->own && log->owner == log->wanted;
}

bool view_should_give_up(const struct view *view, struct bytes name)
{
    const struct view_log *log = view_find_log(view, name);
    if (log == NULL || view->own == VIEW_NONE || log->owner != view->own)
        return false;
    return log->is_moving || (log->wanted != VIEW_NONE && log->wanted != view->own && log->is_ready);
}

bool view_should_get_ready(const struct view *view, struct bytes name)
{
    const struct view_log *log = view_find_log(view, name);
    return log != NULL && view->own != VIEW_NONE && view->is_settled && !log->is_moving && log->wanted == view->own &&
           log->owner != VIEW_NONE && log->owner != view->own;
}
