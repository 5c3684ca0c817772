/* Decisions that become due by time. They create, end or move something, so they are logged, and made only live
 * (docs/internals/walks.md, "Time passes"). Each call does a bounded amount, so that a purge of ten million messages
 * does not hold up a send. */
#include "core/decide_namespace.h"
#include "core/finish.h"

#define DUE_PORTION 500u
#define LOOK_STEPS 16384u /* of the built-in matchers; some milliseconds */

/* The rest of the portion of one call. */
struct portion {
    unsigned left;
};

static bool has_left(const struct core *core, const struct portion *portion)
{
    return portion->left > 0 && !core_frame_is_ample(core);
}

static void expire_messages(struct core *core, struct portion *portion)
{
    while (has_left(core, portion) && core->message_lists.expiries.count > 0 &&
           heap_top(&core->message_lists.expiries).key <= core->now_ms) {
        uint32_t message_list_slot = heap_top(&core->message_lists.expiries).slot;
        struct message_list *list = core_message_list_at(core, message_list_slot);
        uint64_t retention_ms = (uint64_t)core_queue(core, list->queue)->settings.retention_s * 1000;
        uint32_t oldest = message_list_oldest(list, &core->messages.items);
        uint64_t expires_at_ms =
            oldest == 0 ? UINT64_MAX : core_counted_from_ms(core, core_message(core, oldest)) + retention_ms;
        if (expires_at_ms == heap_top(&core->message_lists.expiries).key) {
            finish_message(core, oldest, END_EXPIRED);
            portion->left--;
            continue;
        }
        /* The heap's key is only the earliest time at which something may expire. It is made exact before anything is
         * ended. So the order of ends does not depend on former contents. */
        heap_remove(&core->message_lists.expiries, message_list_slot);
        core_expect_expiry(core, message_list_slot);
    }
}

static void end_batches(struct core *core, struct portion *portion)
{
    while (has_left(core, portion) && core->batches.deadlines.count > 0 &&
           heap_top(&core->batches.deadlines).key <= core->now_ms) {
        uint32_t slot = heap_top(&core->batches.deadlines).slot;
        const struct batch *batch = core_batch(core, slot);
        if (batch->state != BATCH_COMPLETED)
            finish_step(core, slot, false, BATCH_EXPIRED);
        else
            core_emit(core, &(struct event){.kind = EVENT_BATCH_DELETED, .batch_deleted = {.batch = batch->number}});
        portion->left--;
    }
}

/* Ends the messages of purged queues. Ending the last one frees the message list. */
static void drain_message_lists(struct core *core, struct portion *portion)
{
    while (has_left(core, portion) && !list_is_empty(&core->message_lists.draining)) {
        const struct message_list *list =
            CONTAINER_OF(list_first(&core->message_lists.draining), struct message_list, draining_link);
        finish_message(core, message_list_oldest(list, &core->messages.items), END_PURGED);
        portion->left--;
    }
}

/* Ends the messages of cancelled batches, so that the counts of their queues are soon right. A receive that meets one
 * earlier ends it then. */
static void drain_batches(struct core *core, struct portion *portion)
{
    while (has_left(core, portion) && !list_is_empty(&core->batches.draining)) {
        struct batch *batch = CONTAINER_OF(list_first(&core->batches.draining), struct batch, draining_link);
        portion->left--;
        if (batch->drain_next == batch->ledger.reference_count) {
            list_remove(&batch->draining_link);
            continue;
        }
        const struct ledger_reference *reference = &batch->ledger.references_owned[batch->drain_next++];
        uint32_t slot = reference->kind == UNIT_MESSAGE ? core_find_message(core, reference->value) : 0;
        if (slot != 0 && core_message_is_dead(core, core_message(core, slot)))
            finish_message(core, slot, END_CANCELLED); /* may free the batch */
    }
}

/* Ends the cancelled messages of groups, from their heads on. The last one unlinks the group. */
static void drain_groups(struct core *core, struct portion *portion)
{
    while (has_left(core, portion) && !list_is_empty(&core->groups.draining)) {
        const struct group *group = CONTAINER_OF(list_first(&core->groups.draining), struct group, draining_link);
        finish_message(core, group->first, END_CANCELLED);
        portion->left--;
    }
}

bool decide_due(struct core *core)
{
    struct portion portion = {.left = DUE_PORTION};
    expire_messages(core, &portion);
    end_batches(core, &portion);
    drain_message_lists(core, &portion);
    drain_batches(core, &portion);
    drain_groups(core, &portion);
    dependency_resolve(core, DUE_PORTION); /* a portion of its own, because a purge of millions must not delay
                                            * dependents */
    move_due(core, DUE_PORTION);
    deduplication_sweep(core, DUE_PORTION);
    publisher_sweep(core, DUE_PORTION);
    type_order_forget(core, DUE_PORTION);
    ticket_pool_do_due(core, DUE_PORTION, LOOK_STEPS);
    return core_due_ms(core) <= core->now_ms;
}
