#include "core/order/dependency_walk.h"

#include "core/state.h"

static const struct edge *edge_of(const struct dependency_walk *walk, uint32_t slot)
{
    return edge_at(&walk->core->dependencies, slot);
}

static const struct antecedent *antecedent_of(const struct dependency_walk *walk)
{
    return antecedent_at(&walk->core->dependencies, walk->antecedent);
}

/* The edge by which message `number` waits for the antecedent, or 0. Counts the edges that it looks at. */
static uint32_t find_edge(const struct dependency_walk *walk, uint64_t number, unsigned *visits)
{
    const uint32_t slot = core_find_message(walk->core, number);
    const struct message_extra *extra = slot == 0 ? NULL : core_extra_of(walk->core, core_message(walk->core, slot));
    uint32_t edge = extra == NULL ? 0 : extra->first_edge;
    while (edge != 0 && edge_of(walk, edge)->antecedent != walk->antecedent) {
        edge = edge_of(walk, edge)->dependent_next;
        ++*visits;
    }
    return edge;
}

static uint64_t number_at(const struct dependency_walk *walk, uint32_t edge)
{
    return core_message(walk->core, edge_of(walk, edge)->dependent)->number;
}

/* The first edge that is not told yet and whose dependent's number is above `number`. The dependent of that number may
 * have gone. Then most often those before it have, too, because they are told in order. Otherwise one number after the
 * other is tried. */
static uint32_t find_untold(struct dependency_walk *walk, uint64_t number)
{
    const struct antecedent *antecedent = antecedent_of(walk);
    unsigned visits = 0;
    const uint32_t edge = find_edge(walk, number, &visits);
    if (edge != 0 && !edge_of(walk, edge)->is_told)
        return edge_of(walk, edge)->next;
    if (antecedent->first_edge == 0 || number_at(walk, antecedent->first_edge) > number)
        return antecedent->first_edge;
    if (number_at(walk, antecedent->last_edge) <= number)
        return 0;
    for (visits = 0; visits < DEPENDENCY_WALK_VISITS_MAX; visits++) {
        const uint32_t found = find_edge(walk, ++number, &visits);
        if (found != 0 && !edge_of(walk, found)->is_told)
            return found;
    }
    walk->is_lost = true;
    walk->place.number = number;
    return 0;
}

/* The edge after that of a dependent which is held. */
static uint32_t find_told(const struct dependency_walk *walk, uint64_t number)
{
    unsigned visits = 0;
    const uint32_t edge = find_edge(walk, number, &visits);
    return edge != 0 && edge_of(walk, edge)->is_told ? edge_of(walk, edge)->next : antecedent_of(walk)->first_told;
}

void dependency_walk_begin(struct dependency_walk *walk, const struct core *core, enum antecedent_kind kind,
                           uint64_t number, struct dependency_place place)
{
    *walk = (struct dependency_walk){.core = core, .place = place};
    walk->antecedent = antecedent_find(&core->dependencies, kind, number);
    if (walk->antecedent == 0)
        return;
    walk->next = place.is_told ? find_told(walk, place.number) : find_untold(walk, place.number);
    if (walk->next == 0 && !place.is_told && !walk->is_lost)
        walk->next = antecedent_of(walk)->first_told;
}

uint32_t dependency_walk_next(struct dependency_walk *walk)
{
    if (walk->next == 0)
        return 0;
    const struct edge *edge = edge_of(walk, walk->next);
    walk->place = (struct dependency_place){.number = core_message(walk->core, edge->dependent)->number,
                                            .is_told = edge->is_told};
    walk->next = edge->next;
    if (walk->next == 0 && !edge->is_told)
        walk->next = antecedent_of(walk)->first_told;
    return edge->dependent;
}
