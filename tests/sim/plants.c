#include "plants.h"

#include "core/decide.h"
#include "core/finish.h"
#include "core/state.h"
#include <stdio.h>
#include <string.h>

/* The simulator runs one server at a time in a process, and the linker's wrapping leaves no room for an argument. */
static struct {
    enum plant plant;
    bool is_deleting;        /* inside decide_delete */
    uint64_t unfinished[16]; /* batches that have yet to complete, by number */
    unsigned unfinished_count;
    unsigned xor_count;
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
        [PLANT_NO_GRACE] = "no-grace-after-restart",
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
}

enum error __real_decide_delete(struct core *core, struct queue *queue, struct bytes handle);
enum error __wrap_decide_delete(struct core *core, struct queue *queue, struct bytes handle);
enum error __wrap_decide_delete(struct core *core, struct queue *queue, struct bytes text)
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
    planted.is_deleting = true;
    enum error error = __real_decide_delete(core, queue, text);
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
    if (planted.plant != PLANT_LOST_UNIT || dead_letters == NULL) {
        __real_finish_spent(core, queue, slot, dead_letters);
        return;
    }
    core_emit(core, &(struct event){
                        .kind = EVENT_DEAD_LETTERED,
                        .dead_lettered = {.number = core_message(core, slot)->number, .queue = dead_letters->id},
                    });
}

void __real_decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms);
void __wrap_decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms);
void __wrap_decide_restart(struct core *core, uint64_t epoch, uint64_t resumed_at_ms)
{
    __real_decide_restart(core, epoch, planted.plant == PLANT_NO_GRACE ? 0 : resumed_at_ms);
}

uint64_t __real_core_next_needed_segment(const struct core *core, uint64_t ordinal);
uint64_t __wrap_core_next_needed_segment(const struct core *core, uint64_t ordinal);
uint64_t __wrap_core_next_needed_segment(const struct core *core, uint64_t ordinal)
{
    return planted.plant == PLANT_TRIM_NEEDED_SEGMENTS ? UINT64_MAX : __real_core_next_needed_segment(core, ordinal);
}
