/* Resolves the end of a message or batch for its dependents, a portion at a time. */
#include "core/order/dependency.h"

#include "core/finish.h"
#include "core/state.h"

/* The dependent ends because of its antecedent. If it was already out of reach, it ends for the reason that put it
 * there. */
static void end_dependent(struct core *core, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    enum end_reason reason = END_UNMET;
    if (core_message_is_dead(core, message))
        reason = core_message_list_at(core, message->message_list)->queue == 0 ? END_PURGED : END_CANCELLED;
    finish_message(core, slot, reason);
}

/* When dependents end, their own antecedent records go to the end of the list. So a long chain takes many rounds of
 * this loop, not a deep stack. */
bool dependency_resolve(struct core *core, unsigned portion)
{
    const struct antecedent *antecedent;
    while (portion > 0 && !core_frame_is_ample(core) && (antecedent = dependency_first_resolving(core)) != NULL) {
        uint32_t count = dependency_count_tellable(core, antecedent, portion);
        if (count == 0) {
            end_dependent(core, edge_at(&core->dependencies, antecedent->first_edge)->dependent);
            portion--;
            continue;
        }
        core_emit(core, &(struct event){
                            .kind = EVENT_RESOLVED,
                            .resolved = {.kind = antecedent->kind, .number = antecedent->number, .count = count},
                        });
        portion -= count;
    }
    return dependency_is_resolving(core);
}
