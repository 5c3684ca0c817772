#include "support/salvage_rig.h"

#include "base/assert.h"
#include "base/memory.h"
#include "core/identity.h"
#include "core/salvage.h"
#include "core/state.h"
#include "engine/namespace.h"
#include "log/log.h"
#include "log/segment.h"
#include "support/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FILES_MAX 256u

/* A message as clients know it. */
struct seen {
    uint8_t id[MESSAGE_ID_SIZE];
    /* The id that its number gives: another one for messages of the server's own, and redriven ones. */
    uint8_t number_id[MESSAGE_ID_SIZE];
    uint64_t number;
    bool is_own;         /* its id says nothing of any number: a lost one is noted under that of its number */
    char *content_owned; /* all of it, encoded */
    size_t size;
    char queue[QUEUE_NAME_SIZE_MAX + 1]; /* "": a queue that is gone */
};

struct sight {
    struct seen *items_owned; /* by id */
    size_t count;
};

struct noted {
    enum salvage_note_kind kind;
    char name[64];
};

struct trial {
    uint64_t random;
    struct disk *damaged;
    unsigned damage_count;
    struct sight before, after;
    struct noted *notes_owned;
    size_t note_count;
    bool has_open_end; /* a gap of which nobody knows how much it held */
    bool has_unknown;  /* messages whose ids nobody knows are lost */
    struct salvage_rig_report *report;
    char *wrong;
};

static uint64_t draw(struct trial *trial)
{
    uint64_t mixed = trial->random += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

static bool wrong(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(struct trial *trial, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(trial->wrong, 512, format, arguments);
    va_end(arguments);
    return false;
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

struct names {
    char items[FILES_MAX][64];
    size_t count;
};

static void name_visit(void *context, const char *name)
{
    struct names *names = context;
    if (names->count < FILES_MAX && (strstr(name, ".segment") != NULL || strstr(name, ".snapshot") != NULL))
        (void)snprintf(names->items[names->count++], sizeof(names->items[0]), "%s", name);
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void list_names(struct disk *disk, struct names *names)
{
    names->count = 0;
    (void)disk->operations->list(disk, name_visit, names, NULL);
    qsort(names->items, names->count, sizeof(names->items[0]), name_compare);
}

/* Where something is written: a segment's end is mostly zeros. */
static uint64_t written_size(struct bytes content)
{
    uint64_t size = content.size;
    while (size > 0 && content.ptr[size - 1] == 0)
        size--;
    return size;
}

static void overwrite(struct trial *trial, const char *name, uint64_t offset, uint64_t size, bool is_zero)
{
    const struct bytes content = memory_disk_content(trial->damaged, name);
    uint8_t *copy = memory_allocate(content.size + 1);
    memcpy(copy, content.ptr, content.size);
    for (uint64_t at = offset; at < offset + size && at < content.size; at++)
        copy[at] = is_zero ? 0 : (uint8_t)draw(trial);
    memory_disk_put(trial->damaged, name, bytes_make(copy, content.size));
    free(copy);
}

static void damage_once(struct trial *trial)
{
    struct names names;
    list_names(trial->damaged, &names);
    const char *name = names.count == 0 ? NULL : names.items[draw(trial) % names.count];
    if (name == NULL || memory_disk_content(trial->damaged, name).size == 0)
        return;
    const uint64_t written = written_size(memory_disk_content(trial->damaged, name));
    const uint64_t offset = written == 0 ? 0 : draw(trial) % written;
    switch (draw(trial) % 16) {
    case 0:
        memory_disk_remove(trial->damaged, name);
        return;
    case 1:
        memory_disk_truncate(trial->damaged, name, offset);
        return;
    case 2:
        overwrite(trial, name, 0, UINT64_MAX / 2, true);
        return;
    case 3:
        overwrite(trial, name, 0, 1 + draw(trial) % SEGMENT_HEADER_SIZE, draw(trial) % 2 == 0);
        return;
    case 4:
    case 5: /* whole sectors, as a disk loses them */
        overwrite(trial, name, offset / 512 * 512, (1 + draw(trial) % 16) * 512, draw(trial) % 2 == 0);
        return;
    case 6:
        overwrite(trial, name, offset, draw(trial) % 20000, draw(trial) % 2 == 0);
        return;
    case 7: /* a frame's header */
        overwrite(trial, name, offset / 512 * 512, 1 + draw(trial) % 64, false);
        return;
    case 8:
        memory_disk_flip_bit(trial->damaged, name, offset * 8 + draw(trial) % 8);
        return;
    default:
        overwrite(trial, name, offset, 1 + draw(trial) % 64, false);
        return;
    }
}

/* --- what is there ------------------------------------------------------------------------------------------------ */

static int seen_compare(const void *a, const void *b)
{
    return memcmp(((const struct seen *)a)->id, ((const struct seen *)b)->id, MESSAGE_ID_SIZE);
}

static const struct seen *sight_find(const struct sight *sight, const uint8_t id[MESSAGE_ID_SIZE])
{
    struct seen key;
    memcpy(key.id, id, sizeof(key.id));
    return sight->count == 0 ? NULL
                             : bsearch(&key, sight->items_owned, sight->count, sizeof(struct seen), seen_compare);
}

static void sight_deinit(struct sight *sight)
{
    for (size_t i = 0; i < sight->count; i++)
        free(sight->items_owned[i].content_owned);
    free(sight->items_owned);
    *sight = (struct sight){0};
}

/* Every live message but those that only wait to be ended. */
static bool look(struct trial *trial, struct namespace *ns, struct sight *sight)
{
    const struct core *core = namespace_core(ns);
    sight->items_owned = memory_allocate((core->messages.items.used + 1) * sizeof(struct seen));
    for (uint32_t slot = 1; slot < core_salvage_slot_end(core); slot++) {
        struct live_content live;
        if (!core_salvage_content(core, slot, &live) || core_message_is_dead(core, core_message(core, slot)))
            continue;
        const uint8_t *bytes = namespace_read(ns, live.position, live.size);
        struct content content;
        if (bytes == NULL || !content_decode(bytes_make(bytes, live.size), &content))
            return wrong(trial, "message %" PRIu64 " has no content", live.number);
        struct seen *seen = &sight->items_owned[sight->count++];
        *seen = (struct seen){.content_owned = memory_allocate(live.size), .size = live.size};
        memcpy(seen->id, content.id, sizeof(seen->id));
        memcpy(seen->content_owned, bytes, live.size);
        seen->number = live.number;
        seen->is_own = identity_message_number(core_digest(core), content.id) == 0;
        identity_message(core_digest(core), live.number, seen->number_id);
        uint32_t queue = core_message_list_at(core, core_message(core, slot)->message_list)->queue;
        if (queue != 0)
            (void)snprintf(seen->queue, sizeof(seen->queue), "%.*s", BYTES_FORMAT(core_queue(core, queue)->name_owned));
    }
    qsort(sight->items_owned, sight->count, sizeof(struct seen), seen_compare);
    return true;
}

static const struct namespace_options namespace_options = {
    .name = "000000000000", .segment_size = 64 << 10, .frame_size_max = 16 << 10, .in_flight_max = 120000};

static bool recover(struct trial *trial, struct disk *disk, const char *which, struct namespace **ns)
{
    struct failure failure = {.error = OK};
    if (namespace_recover(disk, &namespace_options, ns, &failure) != OK)
        return wrong(trial, "the %s folder is refused: %s", which, failure.text);
    core_check(namespace_core(*ns));
    return true;
}

/* --- the salvage -------------------------------------------------------------------------------------------------- */

static void on_note(void *context, const struct salvage_note *note)
{
    struct trial *trial = context;
    history_note_salvage(note);
    trial->report->notes[note->kind]++;
    trial->notes_owned = memory_resize(trial->notes_owned, (trial->note_count + 1) * sizeof(*trial->notes_owned));
    struct noted *noted = &trial->notes_owned[trial->note_count++];
    noted->kind = note->kind;
    (void)snprintf(noted->name, sizeof(noted->name), "%.*s", BYTES_FORMAT(note->name));
    if (getenv("SALVAGE_RIG_TRACE") != NULL)
        fprintf(stderr, "note %s %s: %s, offset %" PRIu64 ", size %" PRIu64 ", %" PRIu64 " to %" PRIu64 "; %s\n",
                salvage_note_name(note->kind), noted->name, note->file == NULL ? "" : note->file, note->offset,
                note->size, note->first, note->last, note->text == NULL ? "" : note->text);
    trial->has_open_end = trial->has_open_end || (note->kind == SALVAGE_GAP && note->last == 0);
    trial->has_unknown = trial->has_unknown || (note->kind == SALVAGE_MESSAGE && note->name.size == 0);
}

static bool is_noted(const struct trial *trial, enum salvage_note_kind kind, const uint8_t id[MESSAGE_ID_SIZE])
{
    char text[IDENTITY_TEXT_SIZE + 1];
    identity_to_text(id, text);
    text[IDENTITY_TEXT_SIZE] = '\0';
    for (size_t i = 0; i < trial->note_count; i++)
        if (trial->notes_owned[i].kind == kind && strcmp(trial->notes_owned[i].name, text) == 0)
            return true;
    return false;
}

static bool has_note(const struct trial *trial, enum salvage_note_kind kind)
{
    for (size_t i = 0; i < trial->note_count; i++)
        if (trial->notes_owned[i].kind == kind)
            return true;
    return false;
}

static bool judge_kept(struct trial *trial)
{
    for (size_t i = 0; i < trial->before.count; i++) {
        const struct seen *seen = &trial->before.items_owned[i];
        const struct seen *found = sight_find(&trial->after, seen->id);
        char id[IDENTITY_TEXT_SIZE];
        identity_to_text(seen->id, id);
        if (found == NULL) {
            bool is_excused =
                trial->has_open_end || trial->has_unknown || is_noted(trial, SALVAGE_MESSAGE, seen->number_id) ||
                is_noted(trial, SALVAGE_MESSAGE, seen->id) || (seen->is_own && has_note(trial, SALVAGE_MESSAGE)) ||
                is_noted(trial, SALVAGE_CONTENT, seen->id) || is_noted(trial, SALVAGE_CONTENT, seen->number_id);
            if (!is_excused)
                return wrong(trial, "message %" PRIu64 ", %.*s, of queue %s is lost, and no note says so", seen->number,
                             IDENTITY_TEXT_SIZE, id, seen->queue);
            continue;
        }
        trial->report->kept++;
        /* A batch that has lost a unit tells of its failure under the id under which it would have told of its
         * success. */
        bool is_own = memcmp(seen->id, seen->number_id, MESSAGE_ID_SIZE) != 0 && has_note(trial, SALVAGE_CONTENT);
        if (!is_own &&
            (found->size != seen->size || memcmp(found->content_owned, seen->content_owned, seen->size) != 0))
            return wrong(trial, "message %.*s says something else", IDENTITY_TEXT_SIZE, id);
        bool may_stand_elsewhere = has_note(trial, SALVAGE_GAP) || trial->has_open_end;
        if (strcmp(found->queue, seen->queue) != 0 && !may_stand_elsewhere)
            return wrong(trial, "message %.*s was in queue %s and is in %s", IDENTITY_TEXT_SIZE, id, seen->queue,
                         found->queue);
    }
    return true;
}

static bool judge_back(struct trial *trial)
{
    for (size_t i = 0; i < trial->after.count; i++) {
        const struct seen *found = &trial->after.items_owned[i];
        char id[IDENTITY_TEXT_SIZE];
        identity_to_text(found->id, id);
        bool is_own = memcmp(found->id, found->number_id, MESSAGE_ID_SIZE) != 0 && has_note(trial, SALVAGE_CONTENT);
        if (sight_find(&trial->before, found->id) == NULL && !is_own && !trial->has_open_end &&
            !is_noted(trial, SALVAGE_MAY_REPEAT, found->id) && !is_noted(trial, SALVAGE_REQUEUED, found->id) &&
            !is_noted(trial, SALVAGE_UNIT, found->number_id))
            return wrong(trial, "message %.*s of queue %s has come back, and no note says so", IDENTITY_TEXT_SIZE, id,
                         found->queue);
    }
    return true;
}

/* No batch completes that had not, and those that are not noted are as they were. */
static bool judge_batches(struct trial *trial, const struct core *truth, const struct core *core)
{
    for (const struct batch *batch = core_next_batch(core, 0); batch != NULL;
         batch = core_next_batch(core, batch->number + 1)) {
        bool is_noted_batch = false;
        for (size_t i = 0; i < trial->note_count; i++)
            is_noted_batch =
                is_noted_batch || (trial->notes_owned[i].kind == SALVAGE_BATCH &&
                                   bytes_equal(bytes_from_string(trial->notes_owned[i].name), batch->id_owned));
        const struct batch *was = core_find_batch(truth, batch->id_owned);
        if (batch->is_deleted || was == NULL || was->number != batch->number)
            continue;
        if (batch->state == BATCH_COMPLETED && was->state != BATCH_COMPLETED && !has_note(trial, SALVAGE_CONTENT))
            return wrong(trial, "batch %.*s has completed", BYTES_FORMAT(batch->id_owned));
        bool is_same = trial->has_open_end ||
                       (batch->state == was->state && batch_counts(batch).total == batch_counts(was).total &&
                        batch_counts(batch).remaining == batch_counts(was).remaining);
        if (batch->state != BATCH_COMPLETED && !is_noted_batch && !is_same && !has_note(trial, SALVAGE_CONTENT))
            return wrong(trial, "batch %.*s is not what it was, and no note says so", BYTES_FORMAT(batch->id_owned));
    }
    return true;
}

/* Without a loss the state is the same but for where contents stand, so a core that is asked for anything gives the
 * same. */
static bool judge_same(struct trial *trial, const struct core *truth, const struct core *core)
{
    if (trial->has_open_end)
        return true;
    for (size_t kind = 0; kind < SALVAGE_NOTE_COUNT; kind++)
        if (salvage_note_is_loss((enum salvage_note_kind)kind) && has_note(trial, (enum salvage_note_kind)kind))
            return true;
    const struct core_metrics was = core_metrics(truth), is = core_metrics(core);
    if (was.messages != is.messages || was.in_flight != is.in_flight || was.delayed != is.delayed ||
        was.batches != is.batches || was.groups != is.groups || was.sent != is.sent || was.delivered != is.delivered ||
        core_queue_count(truth) != core_queue_count(core) ||
        truth->messages.message_number != core->messages.message_number)
        return wrong(trial, "nothing is lost, but the state is another one");
    return true;
}

static bool judge(struct trial *trial, struct namespace *truth, struct disk *to)
{
    struct namespace *ns;
    if (!recover(trial, to, "new", &ns))
        return false;
    bool is_good = look(trial, ns, &trial->after) && judge_kept(trial) && judge_back(trial) &&
                   judge_batches(trial, namespace_core(truth), namespace_core(ns)) &&
                   judge_same(trial, namespace_core(truth), namespace_core(ns));
    namespace_close(ns);
    return is_good;
}

/* The new folder has nothing wrong with it. */
static void on_second_note(void *context, const struct salvage_note *note)
{
    struct trial *trial = context;
    (void)wrong(trial, "the new folder has something wrong with it: %s %s, offset %" PRIu64 " of %s",
                salvage_note_name(note->kind), note->text == NULL ? "" : note->text, note->offset,
                note->file == NULL ? "" : note->file);
}

static bool judge_new(struct trial *trial, struct disk *to)
{
    const struct salvage_options options = {.name = "000000000000", .report = on_second_note, .context = trial};
    struct salvage *salvage;
    struct failure failure;
    trial->wrong[0] = '\0';
    if (salvage_read(to, &options, &salvage, &failure) != OK)
        return wrong(trial, "the new folder can't be verified: %s", failure.text);
    salvage_destroy(salvage);
    return trial->wrong[0] == '\0';
}

static uint64_t hash_files(struct disk *disk)
{
    struct names names;
    list_names(disk, &names);
    uint64_t hash = names.count;
    for (size_t i = 0; i < names.count; i++)
        hash = hash * 31 + bytes_hash(memory_disk_content(disk, names.items[i])) +
               bytes_hash(bytes_from_string(names.items[i]));
    return hash;
}

static bool is_refused(struct trial *trial, struct namespace *truth)
{
    struct namespace_options options = namespace_options;
    options.segment_size = log_segment_size(namespace_log(truth)); /* where no header is left to say it */
    options.frame_size_max = options.segment_size / 8;
    struct disk *copy = memory_disk_clone(trial->damaged, 1);
    memory_disk_set_capacity(copy, UINT64_MAX); /* a disk that is too full to begin on is not damaged */
    struct namespace *ns;
    struct failure failure;
    failure_init(&failure);
    const bool is_recovered = namespace_recover(copy, &options, &ns, &failure) == OK;
    if (is_recovered)
        namespace_close(ns);
    else
        trial->report->refused++;
    memory_disk_destroy(copy);
    return !is_recovered;
}

/* What recovery refuses is damaged, and a salvage says so. A single damage that recovery sees is not taken for what a
 * crash cuts off either, unless it is one of contents: then the end was torn before. */
static bool judge_refusal(struct trial *trial, struct namespace *truth, bool is_cut)
{
    if (!is_refused(trial, truth))
        return true;
    if (trial->note_count == 0)
        return wrong(trial, "recovery refuses the folder, and no note says why");
    const bool is_told = has_note(trial, SALVAGE_GAP) || has_note(trial, SALVAGE_CONTENT);
    if (is_cut && trial->damage_count == 1 && !is_told)
        return wrong(trial, "recovery sees that the log's end is damaged, and no note says so");
    return true;
}

static bool salvage_and_judge(struct trial *trial, struct namespace *truth)
{
    const struct salvage_options options = {
        .name = "000000000000", .key = "rig", .segment_size = 64 << 10, .report = on_note, .context = trial};
    const uint64_t hash = hash_files(trial->damaged);
    struct failure failure = {.error = OK};
    struct salvage *salvage;
    if (salvage_read(trial->damaged, &options, &salvage, &failure) != OK) {
        trial->report->unreadable++;
        if (getenv("SALVAGE_RIG_TRACE") != NULL)
            fprintf(stderr, "unreadable: %s\n", failure.text);
        return failure.error == ERROR_LOG_DAMAGED || wrong(trial, "unexpected: %s", failure.text);
    }
    /* What looks like the torn end of a log is one, for whoever knows the truth only from the folder
     * (docs/internals/formats/log.md). */
    const bool is_cut =
        !trial->has_open_end && salvage_facts(salvage).newest + 1 < log_next_point(namespace_log(truth)).sequence;
    trial->has_open_end = trial->has_open_end || is_cut;
    trial->report->cut += is_cut;
    struct disk *to = memory_disk_create(1);
    bool is_good = judge_refusal(trial, truth, is_cut);
    if (is_good && salvage_core(salvage) != NULL) {
        core_check(salvage_core(salvage));
        is_good = salvage_write(salvage, to, &failure) == OK || wrong(trial, "writing: %s", failure.text);
        memory_disk_crash(to); /* all of it must be durable */
        is_good = is_good && judge_new(trial, to);
        memory_disk_kill(to);
        is_good = is_good && judge(trial, truth, to);
    } else if (is_good) {
        trial->report->cut++; /* zeros alone are what a start leaves that never came to its first frame */
    }
    if (is_good && hash_files(trial->damaged) != hash)
        is_good = wrong(trial, "the damaged folder was changed");
    salvage_destroy(salvage);
    memory_disk_destroy(to);
    return is_good;
}

bool salvage_rig_try(struct disk *disk, uint64_t seed, struct salvage_rig_report *report, char wrong_text[512])
{
    struct trial trial = {.random = seed, .report = report, .wrong = wrong_text};
    struct disk *copy = memory_disk_clone(disk, 1);
    trial.damaged = memory_disk_clone(disk, 1);
    (void)trial.damaged->operations->lock(trial.damaged, NULL);
    struct namespace *truth;
    bool is_good = recover(&trial, copy, "undamaged", &truth);
    if (is_good) {
        is_good = look(&trial, truth, &trial.before);
        trial.damage_count = (unsigned)(draw(&trial) % 3 + 1);
        for (unsigned i = 0; i < trial.damage_count; i++)
            damage_once(&trial);
        report->tries++;
        report->messages += trial.before.count;
        is_good = is_good && salvage_and_judge(&trial, truth);
        namespace_close(truth);
    }
    sight_deinit(&trial.before);
    sight_deinit(&trial.after);
    free(trial.notes_owned);
    memory_disk_destroy(copy);
    memory_disk_destroy(trial.damaged);
    return is_good;
}
