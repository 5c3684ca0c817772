#include "plants.h"

#include "core/batches/decide_batch.h"
#include "core/finish.h"
#include "core/messages/decide_commit.h"
#include "core/messages/decide_replace.h"
#include "core/messages/explain.h"
#include "core/messages/selection.h"
#include "core/publishers/decide_publish.h"
#include "core/queues/tags.h"
#include "core/state.h"
#include "engine/grant.h"
#include <stdio.h>
#include <string.h>

/* A deduplication id that somebody used again. */
struct prolonged {
    uint64_t key;
    uint64_t number;
    uint64_t until_ms;
};

/* The simulator runs one server at a time in a process, and the linker's wrapping leaves no room for an argument. */
static struct {
    enum plant plant;
    bool is_deleting;        /* inside decide_delete */
    uint64_t unfinished[16]; /* batches that have yet to complete, by number */
    unsigned unfinished_count;
    unsigned xor_count;
    struct prolonged prolonged[64];
    uint64_t restarted_at; /* the newest message number when the server started */
    unsigned restart_count;
    struct publish_command publish; /* that stands in place of the one asked for */
    uint8_t rows[64 * PUBLISHER_ROW_SIZE];
    struct disk_operations operations;
} planted;

const char *plant_name(enum plant plant)
{
    static const char *const names[PLANT_COUNT] = {
        [PLANT_NONE] = "none",
        [PLANT_COMPLETION_IN_OWN_FRAME] = "completion-in-own-frame",
        [PLANT_REPLY_BEFORE_DURABLE] = "reply-before-durable",
        [PLANT_XOR_REPEAT_TOGGLES] = "xor-repeat-toggles",
        [PLANT_LOST_UNIT] = "lost-unit-on-dead-letter",
        [PLANT_NO_FOLDER_SYNC] = "no-folder-sync",
        [PLANT_NO_SYNC] = "no-sync",
        [PLANT_NO_CACHE_DROP] = "no-cache-drop",
        [PLANT_TRIM_NEEDED_SEGMENTS] = "trim-needed-segments",
        [PLANT_STALE_HANDLE_DELETES] = "stale-handle-deletes",
        [PLANT_STALE_HANDLE_IGNORED] = "stale-handle-ignored",
        [PLANT_NO_GRACE] = "no-grace-after-restart",
        [PLANT_FORGOTTEN_FENCE] = "forgotten-fence",
        [PLANT_PROLONGED_WINDOW] = "prolonged-window",
        [PLANT_LOST_IDS] = "ids-lost-at-restart",
        [PLANT_SLEEPING_GROUP] = "group-not-woken",
        [PLANT_EDGE_TOLD_TWICE] = "edge-told-twice",
        [PLANT_NO_CYCLE_SEARCH] = "no-cycle-search",
        [PLANT_HOLD_SKIPS] = "hold-skips",
        [PLANT_COMMIT_BY_HALVES] = "commit-by-halves",
        [PLANT_NO_TYPE_ORDERS] = "no-type-orders",
        [PLANT_NO_RATE] = "no-rate",
        [PLANT_TAGS_REPLACED] = "tags-replaced",
        [PLANT_REDRIVE_FORGETS_UNIT] = "redrive-forgets-unit",
        [PLANT_MOVE_NOT_COUNTED] = "move-not-counted",
        [PLANT_NO_LATE_SUCCESS] = "no-late-success",
        [PLANT_NO_UID_CHECK] = "no-uid-check",
        [PLANT_FENCE_LOST] = "fence-lost-at-restart",
        [PLANT_OLD_FRAME_TIME] = "old-frame-time",
        [PLANT_SHORT_LEASE] = "short-lease",
        [PLANT_LEASE_NOT_KEPT] = "lease-not-kept",
        [PLANT_SPENT_UNIT_GROWS] = "spent-unit-grows",
        [PLANT_GROWTH_NOT_COUNTED] = "growth-not-counted",
        [PLANT_NO_RESERVE] = "reserve-not-there",
        [PLANT_LOOK_COUNTS] = "look-counts",
        [PLANT_DELETE_IN_FLIGHT] = "delete-in-flight",
        [PLANT_REPLACE_KEEPS] = "replace-keeps",
    };
    return names[plant];
}

enum plant plant_find(const char *name)
{
    unsigned plant = 0;
    while (plant < PLANT_COUNT && strcmp(plant_name((enum plant)plant), name) != 0)
        plant++;
    return (enum plant)plant;
}

void plant_choose(enum plant plant)
{
    planted.plant = plant;
}

enum plant plant_chosen(void)
{
    return planted.plant;
}

/* --- the disk ----------------------------------------------------------------------------------------------------- */

static enum error forget_sync_folder(struct disk *disk, struct failure *failure)
{
    (void)disk;
    (void)failure;
    return OK;
}

static enum error forget_sync(struct disk_file *file, struct failure *failure)
{
    (void)file;
    (void)failure;
    return OK;
}

static enum error forget_reserve(struct disk_file *file, uint64_t size, struct failure *failure)
{
    (void)file;
    (void)size;
    (void)failure;
    return OK;
}

static void forget_drop_cache(struct disk_file *file)
{
    (void)file;
}

void plant_disk(struct disk *disk)
{
    planted.operations = *disk->operations;
    if (planted.plant == PLANT_NO_FOLDER_SYNC)
        planted.operations.sync_folder = forget_sync_folder;
    else if (planted.plant == PLANT_NO_SYNC)
        planted.operations.sync = forget_sync;
    else if (planted.plant == PLANT_NO_RESERVE)
        planted.operations.reserve = forget_reserve;
    else if (planted.plant == PLANT_NO_CACHE_DROP)
        planted.operations.drop_cache = forget_drop_cache;
    else
        return;
    disk->operations = &planted.operations;
}

/* --- the core ----------------------------------------------------------------------------------------------------- */

unsigned __real_batch_due(const struct batch *batch, const struct batch_after *after);
unsigned __wrap_batch_due(const struct batch *batch, const struct batch_after *after);
unsigned __wrap_batch_due(const struct batch *batch, const struct batch_after *after)
{
    unsigned due = __real_batch_due(batch, after);
    if (planted.plant == PLANT_NO_LATE_SUCCESS && batch->state == BATCH_COMPLETED)
        return 0;
    bool is_left = planted.plant == PLANT_COMPLETION_IN_OWN_FRAME && planted.is_deleting &&
                   (due & BATCH_EVENT_BIT(BATCH_EVENT_COMPLETE)) != 0 &&
                   planted.unfinished_count < ARRAY_LENGTH(planted.unfinished);
    if (!is_left)
        return due;
    planted.unfinished[planted.unfinished_count++] = batch->number;
    return due & BATCH_EVENT_BIT(BATCH_EVENT_FIRST_FAILURE);
}

void plant_after_request(struct namespace *ns)
{
    struct failure failure;
    uint64_t time_ms = namespace_time(ns); /* the second frame looks like the first: only a crash between them shows */
    if (planted.unfinished_count == 0 || namespace_flush(ns, &failure) != OK)
        return;
    struct core *core = namespace_begin(ns, time_ms);
    for (unsigned i = 0; i < planted.unfinished_count; i++) {
        uint32_t slot = core_find_batch_by_number(core, planted.unfinished[i]);
        if (slot != 0)
            finish_step(core, slot, false, BATCH_NO_STATUS);
    }
    planted.unfinished_count = 0;
}

void plant_forget(void)
{
    planted.unfinished_count = 0;
    memset(planted.prolonged, 0, sizeof(planted.prolonged));
}

bool plant_spoils_state(void)
{
    return planted.plant == PLANT_SLEEPING_GROUP || planted.plant == PLANT_EDGE_TOLD_TWICE;
}

enum error __real_decide_delete(struct core *core, struct queue *queue, struct bytes handle, struct receipt_use *use);
enum error __wrap_decide_delete(struct core *core, struct queue *queue, struct bytes handle, struct receipt_use *use);
enum error __wrap_decide_delete(struct core *core, struct queue *queue, struct bytes text, struct receipt_use *use)
{
    struct handle handle;
    char newest[HANDLE_TEXT_SIZE];
    if (planted.plant == PLANT_STALE_HANDLE_DELETES && handle_from_text(core->digest_owned, text, &handle)) {
        uint32_t slot = core_find_message(core, handle.message);
        if (slot != 0) {
            handle.delivery = core_message(core, slot)->delivery;
            handle_to_text(core->digest_owned, &handle, newest);
            text = bytes_make(newest, sizeof(newest));
        }
    }
    if (planted.plant == PLANT_STALE_HANDLE_IGNORED && use != NULL &&
        decide_deletable_message(core, queue, text, use) != 0 && use->is_stale)
        return OK;
    planted.is_deleting = true;
    enum error error = __real_decide_delete(core, queue, text, use);
    planted.is_deleting = false;
    return error;
}

enum error __real_decide_xor_units(struct core *core, const struct batch *batch, const struct xor_command *command,
                                   bool *is_zero, bool *is_completed);
enum error __wrap_decide_xor_units(struct core *core, const struct batch *batch, const struct xor_command *command,
                                   bool *is_zero, bool *is_completed);
enum error __wrap_decide_xor_units(struct core *core, const struct batch *batch, const struct xor_command *command,
                                   bool *is_zero, bool *is_completed)
{
    struct xor_command forgetful = *command;
    char token[24];
    if (planted.plant == PLANT_XOR_REPEAT_TOGGLES)
        forgetful.token = bytes_make(token, (size_t)snprintf(token, sizeof(token), "once-%u", planted.xor_count++));
    return __real_decide_xor_units(core, batch, &forgetful, is_zero, is_completed);
}

void __real_finish_spent(struct core *core, const struct queue *queue, uint32_t slot, const struct queue *dead_letters);
void __wrap_finish_spent(struct core *core, const struct queue *queue, uint32_t slot, const struct queue *dead_letters);
void __wrap_finish_spent(struct core *core, const struct queue *queue, uint32_t slot, const struct queue *dead_letters)
{
    if (planted.plant == PLANT_LOST_UNIT && dead_letters != NULL)
        core_emit(core, &(struct event){
                            .kind = EVENT_DEAD_LETTERED,
                            .dead_lettered = {.number = core_message(core, slot)->number, .queue = dead_letters->id},
                        });
    else if (planted.plant == PLANT_HOLD_SKIPS && queue->settings.group_failure == GROUP_FAILURE_HOLD)
        finish_by_dead_letter(core, slot, dead_letters);
    else
        __real_finish_spent(core, queue, slot, dead_letters);
}

void __real_decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms);
void __wrap_decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms);
void __wrap_decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms)
{
    planted.restarted_at = core->messages.message_number;
    planted.restart_count++;
    __real_decide_restart(core, epoch, planted.plant == PLANT_NO_GRACE ? 0 : resumed_at_ms);
}

uint64_t __real_core_next_needed_segment(const struct core *core, uint64_t ordinal);
uint64_t __wrap_core_next_needed_segment(const struct core *core, uint64_t ordinal);
uint64_t __wrap_core_next_needed_segment(const struct core *core, uint64_t ordinal)
{
    return planted.plant == PLANT_TRIM_NEEDED_SEGMENTS ? UINT64_MAX : __real_core_next_needed_segment(core, ordinal);
}

/* --- order, dependencies, deduplication --------------------------------------------------------------------------- */

void __real_group_fence_behind(struct core *core, uint32_t message);
void __wrap_group_fence_behind(struct core *core, uint32_t message);
void __wrap_group_fence_behind(struct core *core, uint32_t message)
{
    if (planted.plant != PLANT_FORGOTTEN_FENCE)
        __real_group_fence_behind(core, message);
}

/* From outside group.c: what a message's own change of state asks for. */
void __real_group_settle(struct core *core, uint32_t slot, bool was_served);
void __wrap_group_settle(struct core *core, uint32_t slot, bool was_served);
void __wrap_group_settle(struct core *core, uint32_t slot, bool was_served)
{
    const struct group *group = core_group(core, slot);
    bool is_asleep = group->ring == RING_NONE && group->is_line && group->count > 0 && group->in_flight_count == 0 &&
                     core_message(core, group->first)->receive_count > 0;
    if (planted.plant != PLANT_SLEEPING_GROUP || !is_asleep)
        __real_group_settle(core, slot, was_served);
}

void __real_core_stop_waiting(struct core *core, uint32_t message);
void __wrap_core_stop_waiting(struct core *core, uint32_t message);
void __wrap_core_stop_waiting(struct core *core, uint32_t message)
{
    if (planted.plant == PLANT_EDGE_TOLD_TWICE && core_extra_of(core, core_message(core, message))->wait_count > 1)
        __real_core_stop_waiting(core, message);
    __real_core_stop_waiting(core, message);
}

enum error __real_dependency_find_cycle(const struct core *core, const struct newcomer *newcomer, char *path);
enum error __wrap_dependency_find_cycle(const struct core *core, const struct newcomer *newcomer, char *path);
enum error __wrap_dependency_find_cycle(const struct core *core, const struct newcomer *newcomer, char *path)
{
    return planted.plant == PLANT_NO_CYCLE_SEARCH ? OK : __real_dependency_find_cycle(core, newcomer, path);
}

bool __real_type_order_binds(const struct core *core, struct bytes type);
bool __wrap_type_order_binds(const struct core *core, struct bytes type);
bool __wrap_type_order_binds(const struct core *core, struct bytes type)
{
    return planted.plant != PLANT_NO_TYPE_ORDERS && __real_type_order_binds(core, type);
}

uint64_t __real_rate_allows_at_ms(const struct rate *rate, uint64_t tat_us);
uint64_t __wrap_rate_allows_at_ms(const struct rate *rate, uint64_t tat_us);
uint64_t __wrap_rate_allows_at_ms(const struct rate *rate, uint64_t tat_us)
{
    return planted.plant == PLANT_NO_RATE ? 0 : __real_rate_allows_at_ms(rate, tat_us);
}

uint64_t __real_deduplication_find(const struct core *core, const struct queue *queue, struct bytes group,
                                   struct bytes id);
uint64_t __wrap_deduplication_find(const struct core *core, const struct queue *queue, struct bytes group,
                                   struct bytes id);
uint64_t __wrap_deduplication_find(const struct core *core, const struct queue *queue, struct bytes group,
                                   struct bytes id)
{
    uint64_t number = __real_deduplication_find(core, queue, group, id);
    if (planted.plant == PLANT_LOST_IDS && number <= planted.restarted_at)
        return 0;
    if (planted.plant != PLANT_PROLONGED_WINDOW || queue->settings.deduplication_window_s == DEDUPLICATION_WINDOW_EVER)
        return number;
    uint64_t key = bytes_hash(id) + bytes_hash(group) * 31 + queue->id;
    struct prolonged *prolonged = &planted.prolonged[key % ARRAY_LENGTH(planted.prolonged)];
    if (number != 0)
        *prolonged =
            (struct prolonged){key, number, core->now_ms + (uint64_t)queue->settings.deduplication_window_s * 1000};
    return prolonged->key == key && prolonged->until_ms > core->now_ms ? prolonged->number : number;
}

enum error __real_decide_commit(struct core *core, struct commit_command *command, struct commit_fault *fault);
enum error __wrap_decide_commit(struct core *core, struct commit_command *command, struct commit_fault *fault);
enum error __wrap_decide_commit(struct core *core, struct commit_command *command, struct commit_fault *fault)
{
    enum error error = __real_decide_commit(core, command, fault);
    for (uint32_t i = 0; i < command->send_count && error != OK && planted.plant == PLANT_COMMIT_BY_HALVES; i++)
        (void)decide_send(core, &command->sends[i].command, &command->sends[i].result);
    return error;
}

void __real_tags_merge(struct bytes tags, struct bytes added, struct buffer *out);
void __wrap_tags_merge(struct bytes tags, struct bytes added, struct buffer *out);
void __wrap_tags_merge(struct bytes tags, struct bytes added, struct buffer *out)
{
    __real_tags_merge(planted.plant == PLANT_TAGS_REPLACED ? bytes_make(NULL, 0) : tags, added, out);
}

/* --- batches that grow -------------------------------------------------------------------------------------------- */

bool __real_batch_unit_is_outstanding(const struct batch *batch, uint32_t unit);
bool __wrap_batch_unit_is_outstanding(const struct batch *batch, uint32_t unit);
bool __wrap_batch_unit_is_outstanding(const struct batch *batch, uint32_t unit)
{
    return planted.plant == PLANT_SPENT_UNIT_GROWS ? batch->state != BATCH_COMPLETED
                                                   : __real_batch_unit_is_outstanding(batch, unit);
}

void __real_finish_growth(struct core *core, uint32_t slot, uint32_t count);
void __wrap_finish_growth(struct core *core, uint32_t slot, uint32_t count);
void __wrap_finish_growth(struct core *core, uint32_t slot, uint32_t count)
{
    if (planted.plant != PLANT_GROWTH_NOT_COUNTED)
        __real_finish_growth(core, slot, count);
}

/* --- publishers --------------------------------------------------------------------------------------------------- */

/* The same rows under uids that no other batch has. */
static struct bytes rename_rows(struct bytes rows, uint64_t batch)
{
    if (rows.size > sizeof(planted.rows))
        return rows;
    memcpy(planted.rows, rows.ptr, rows.size);
    for (size_t at = sizeof(uint64_t); at < rows.size; at += PUBLISHER_ROW_SIZE)
        bytes_put_u32(planted.rows + at, (uint32_t)batch);
    return bytes_make(planted.rows, rows.size);
}

enum error __real_decide_publish_begin(struct core *core, const struct publish_command *command,
                                       struct publication *publication, bool *is_repeat);
enum error __wrap_decide_publish_begin(struct core *core, const struct publish_command *command,
                                       struct publication *publication, bool *is_repeat);
enum error __wrap_decide_publish_begin(struct core *core, const struct publish_command *command,
                                       struct publication *publication, bool *is_repeat)
{
    const struct publisher *publisher = decide_find_publisher(core, command->publisher);
    planted.publish = *command;
    if (planted.plant == PLANT_NO_UID_CHECK)
        planted.publish.rows = rename_rows(command->rows, command->batch);
    if (planted.plant == PLANT_FENCE_LOST && planted.restart_count > 1 && publisher != NULL) {
        planted.publish.epoch = publisher->epoch;
        memcpy(planted.publish.owner, publisher->owner, sizeof(publisher->owner));
    }
    return __real_decide_publish_begin(core, &planted.publish, publication, is_repeat);
}

/* --- move tasks --------------------------------------------------------------------------------------------------- */

void __real_ledger_reopen(struct ledger *ledger, uint32_t unit);
void __wrap_ledger_reopen(struct ledger *ledger, uint32_t unit);
void __wrap_ledger_reopen(struct ledger *ledger, uint32_t unit)
{
    if (planted.plant != PLANT_REDRIVE_FORGETS_UNIT)
        __real_ledger_reopen(ledger, unit);
}

bool __real_move_count(struct core *core, const struct queue *source, uint64_t task);
bool __wrap_move_count(struct core *core, const struct queue *source, uint64_t task);
bool __wrap_move_count(struct core *core, const struct queue *source, uint64_t task)
{
    bool is_counted = __real_move_count(core, source, task);
    if (is_counted && planted.plant == PLANT_MOVE_NOT_COUNTED)
        ((struct move_task *)(uintptr_t)move_running(core, source))->moved--;
    return is_counted;
}

enum refusal_reason __real_selection_why_not(const struct core *core, enum selection_act act, uint32_t slot);
enum refusal_reason __wrap_selection_why_not(const struct core *core, enum selection_act act, uint32_t slot);
enum refusal_reason __wrap_selection_why_not(const struct core *core, enum selection_act act, uint32_t slot)
{
    return planted.plant == PLANT_DELETE_IN_FLIGHT && act == SELECTION_DELETES
               ? NOT_REFUSED
               : __real_selection_why_not(core, act, slot);
}

uint32_t __real_decide_replace(struct core *core, uint32_t slot, const struct queue *target, struct content *content);
uint32_t __wrap_decide_replace(struct core *core, uint32_t slot, const struct queue *target, struct content *content);
uint32_t __wrap_decide_replace(struct core *core, uint32_t slot, const struct queue *target, struct content *content)
{
    if (planted.plant != PLANT_REPLACE_KEEPS || target->settings.is_fifo)
        return __real_decide_replace(core, slot, target, content);
    const uint64_t number = core->messages.message_number + 1;
    struct buffer encoded;
    buffer_init(&encoded);
    identity_message(core->digest_owned, number, content->id);
    content_encode(content, &encoded);
    core_emit(core,
              &(struct event){.kind = EVENT_SENT,
                              .sent = {.number = number, .queue = target->id, .content = buffer_bytes(&encoded)}});
    buffer_deinit(&encoded);
    return core_find_message(core, number);
}

/* --- a disk that stalls ------------------------------------------------------------------------------------------- */

void __real_decide_pass_time(struct core *core, uint64_t now_ms);
void __wrap_decide_pass_time(struct core *core, uint64_t now_ms);
void __wrap_decide_pass_time(struct core *core, uint64_t now_ms)
{
    if (planted.plant != PLANT_OLD_FRAME_TIME)
        __real_decide_pass_time(core, now_ms);
}

bool __real_grant_may_leave(struct grant *grant, struct namespace *ns, uint64_t now_ms, uint64_t *hold_sequence);
bool __wrap_grant_may_leave(struct grant *grant, struct namespace *ns, uint64_t now_ms, uint64_t *hold_sequence);
bool __wrap_grant_may_leave(struct grant *grant, struct namespace *ns, uint64_t now_ms, uint64_t *hold_sequence)
{
    if (planted.plant == PLANT_SHORT_LEASE)
        grant->stale_ms = UINT64_MAX;
    return __real_grant_may_leave(grant, ns, now_ms, hold_sequence);
}

void __real_grants_keep(struct grants *grants, struct namespace *ns, uint64_t now_ms);
void __wrap_grants_keep(struct grants *grants, struct namespace *ns, uint64_t now_ms);
void __wrap_grants_keep(struct grants *grants, struct namespace *ns, uint64_t now_ms)
{
    if (planted.plant != PLANT_LEASE_NOT_KEPT)
        __real_grants_keep(grants, ns, now_ms);
    else
        grants->due_ms = UINT64_MAX;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

uint32_t __real_explain_find(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE], struct queue **queue);
uint32_t __wrap_explain_find(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE], struct queue **queue);
uint32_t __wrap_explain_find(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE], struct queue **queue)
{
    const uint32_t slot = __real_explain_find(core, id, queue);
    if (slot != 0 && planted.plant == PLANT_LOOK_COUNTS)
        ((struct message *)(uintptr_t)core_message(core, slot))->receive_count++;
    return slot;
}
