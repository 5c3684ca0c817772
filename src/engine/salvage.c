/* Salvage of a namespace: reading. See salvage.h. */
#include "engine/salvage_state.h"

#include "base/assert.h"
#include "base/memory.h"
#include "core/identity.h"
#include "core/messages/explain.h"
#include "log/segment.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char *salvage_note_name(enum salvage_note_kind kind)
{
    static const char *const names[] = {
#define SALVAGE_NAME(KIND, name, is_loss) [SALVAGE_##KIND] = name,
        SALVAGE_NOTES(SALVAGE_NAME)
#undef SALVAGE_NAME
    };
    return names[kind];
}

bool salvage_note_is_loss(enum salvage_note_kind kind)
{
    static const bool are_losses[] = {
#define SALVAGE_IS_LOSS(KIND, name, is_loss) [SALVAGE_##KIND] = is_loss,
        SALVAGE_NOTES(SALVAGE_IS_LOSS)
#undef SALVAGE_IS_LOSS
    };
    return are_losses[kind];
}

void salvage_note(struct salvage *salvage, const struct salvage_note *note)
{
    salvage->facts.notes[note->kind]++;
    salvage->facts.has_loss = salvage->facts.has_loss || salvage_note_is_loss(note->kind);
    salvage->options.report(salvage->options.context, note);
}

/* --- notes of messages -------------------------------------------------------------------------------------------- */

/* The MessageId that clients know; it is in the content. */
static void id_of(struct salvage *salvage, uint64_t number, struct bytes encoded, char text[IDENTITY_TEXT_SIZE])
{
    struct content content;
    uint8_t id[MESSAGE_ID_SIZE];
    if (encoded.size > 0 && content_decode(encoded, &content))
        memcpy(id, content.id, sizeof(id));
    else
        explain_message_id(salvage->core, number, id);
    identity_to_text(id, text);
}

static struct content_reader *reader_of(struct salvage *salvage)
{
    if (salvage->reader.disk == NULL)
        content_reader_init(&salvage->reader, salvage->from, core_segment_size(salvage->core));
    return &salvage->reader;
}

static void note_message(struct salvage *salvage, enum salvage_note_kind kind, uint64_t number, const char *text)
{
    struct live_content content;
    struct bytes encoded = {NULL, 0};
    if (!core_salvage_find(salvage->core, number, &content) ||
        !content_reader_read(reader_of(salvage), content.position, content.size, &encoded))
        encoded = (struct bytes){NULL, 0};
    char id[IDENTITY_TEXT_SIZE];
    id_of(salvage, number, encoded, id);
    salvage_note(salvage, &(struct salvage_note){.kind = kind, .name = bytes_make(id, sizeof(id)), .text = text});
}

/* The ids of messages that were sent in a gap are unknown if the key is lost, or if no later message shows how far
 * numbers went. */
static void note_unknown_messages(struct salvage *salvage)
{
    if (!salvage->has_unknown_messages)
        salvage_note(salvage,
                     &(struct salvage_note){.kind = SALVAGE_MESSAGE,
                                            .text = "messages that were sent in a gap: their ids are not known"});
    salvage->has_unknown_messages = true;
}

/* One note for all from the finding's number to its last. */
static void describe_rest(struct salvage *salvage, const struct core_finding *finding, char text[128])
{
    char id[IDENTITY_TEXT_SIZE];
    id_of(salvage, finding->last, (struct bytes){NULL, 0}, id);
    (void)snprintf(text, 128, "and the %" PRIu64 " that were sent behind it, up to %.*s",
                   finding->last - finding->number, (int)sizeof(id), id);
}

/* What the core finds, as notes. */
static void on_finding(void *context, const struct core_finding *finding)
{
    struct salvage *salvage = context;
    static const enum salvage_note_kind kinds[CORE_LOSS_COUNT] = {
        [LOSS_SENT] = SALVAGE_MESSAGE,        [LOSS_ENDED] = SALVAGE_MAY_REPEAT, [LOSS_QUEUE] = SALVAGE_UNNAMED_QUEUE,
        [LOSS_BATCH] = SALVAGE_BATCH,         [LOSS_UNIT] = SALVAGE_UNIT,        [LOSS_POOL] = SALVAGE_POOL,
        [LOSS_PUBLISHER] = SALVAGE_PUBLISHER, [LOSS_EVENT] = SALVAGE_EVENT,
    };
    enum salvage_note_kind kind = kinds[finding->kind];
    if (finding->kind == LOSS_SENT && (salvage->has_lost_key || finding->number == 0)) {
        note_unknown_messages(salvage);
        return;
    }
    if (finding->number != 0) {
        char text[128];
        if (finding->last != 0)
            describe_rest(salvage, finding, text);
        note_message(salvage, kind, finding->number, finding->last == 0 ? NULL : text);
        return;
    }
    char id[IDENTITY_TEXT_SIZE];
    struct salvage_note note = {.kind = kind, .name = finding->name};
    if (finding->kind == LOSS_PUBLISHER) {
        identity_to_text(finding->name.ptr, id);
        note.name = bytes_make(id, sizeof(id));
    }
    char file[SEGMENT_NAME_SIZE];
    if (finding->position != 0) {
        segment_name(finding->position / salvage->survey.segment_size * salvage->survey.segment_size, file);
        note.file = file;
        note.offset = finding->position % salvage->survey.segment_size;
    }
    salvage_note(salvage, &note);
}

/* --- the snapshot ------------------------------------------------------------------------------------------------- */

static void on_damaged_snapshot(void *context, uint64_t position, const char *text, struct bytes payload)
{
    struct salvage *salvage = context;
    char name[64];
    (void)snprintf(name, sizeof(name), "%016" PRIx64 ".snapshot", position);
    salvage_note(salvage, &(struct salvage_note){.kind = SALVAGE_DAMAGE, .file = name, .text = text});
    if (salvage->prefix_position != 0)
        return;
    salvage->prefix_position = position;
    buffer_append_bytes(&salvage->prefix, payload);
}

static void begin_with(struct salvage *salvage, struct core *core)
{
    salvage->core = core;
    salvage->loose = core_salvage_create(core, on_finding, salvage);
}

static enum error read_snapshot(struct salvage *salvage, struct failure *failure)
{
    struct buffer payload;
    buffer_init(&payload);
    bool is_found = false;
    enum error error = snapshot_load_readable(salvage->from, &salvage->point, &payload, &is_found, on_damaged_snapshot,
                                              salvage, failure);
    if (error == OK && is_found) {
        struct core *core = core_create();
        if (core_decode(core, buffer_bytes(&payload), NULL, NULL)) {
            begin_with(salvage, core);
            salvage->sequence = salvage->point.sequence;
            salvage->end_ms = salvage->point.time_ms;
        } else {
            core_destroy(core);
            error = failure_set(failure, ERROR_LOG_DAMAGED,
                                "%s: the snapshot's checksums are right but this version can't read it; use the newer "
                                "version of tallyd that wrote it.",
                                salvage->from->folder);
        }
    }
    buffer_deinit(&payload);
    return error;
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* A single first segment may be truncated or empty, and its size then too small for a daemon to start. All positions
 * are in this segment, so any larger size works. */
static uint64_t founding_segment_size(const struct salvage *salvage)
{
    const uint64_t learnt = salvage->survey.segment_size, usual = salvage->options.segment_size;
    return learnt < usual && salvage->survey.newest_ordinal == 0 ? usual : learnt;
}

/* The state begins where the first frame does: with the founding, or, where that is lost, with what the start of a
 * damaged snapshot says, or with a new key. */
static void begin_without_snapshot(struct salvage *salvage, bool has_founding)
{
    struct core *core = core_create();
    struct salvage_numbers newest = {0};
    bool has_queues = false;
    if (!has_founding && salvage->prefix.size > 0) {
        has_queues = core_salvage_decode(core, buffer_bytes(&salvage->prefix), &newest);
        if (!has_queues) {
            core_destroy(core);
            core = core_create();
        }
    }
    if (!has_founding && !has_queues) {
        core_salvage_found(core, bytes_from_string(salvage->options.name), salvage->options.key,
                           founding_segment_size(salvage));
        salvage->has_lost_key = true;
        salvage_note(salvage, &(struct salvage_note){
                                  .kind = SALVAGE_FOUNDING,
                                  .text = "receipt handles that clients hold are refused; they receive again"});
    }
    begin_with(salvage, core);
    if (has_queues)
        core_salvage_know_queues(salvage->loose, salvage->prefix_position, &newest);
}

/* Frames behind the newest that is in the state are missing, up to `last`; 0: it is not known how many. */
static void meet_gap(struct salvage *salvage, uint64_t last, uint64_t until_ms)
{
    if (salvage->core == NULL)
        begin_without_snapshot(salvage, false);
    core_salvage_gap(salvage->loose);
    salvage_note(salvage, &(struct salvage_note){.kind = SALVAGE_GAP,
                                                 .first = salvage->sequence + 1,
                                                 .last = last,
                                                 .from_ms = salvage->end_ms,
                                                 .until_ms = until_ms});
}

static void on_frame(void *context, const struct frame_view *frame)
{
    struct salvage *salvage = context;
    if (salvage->is_foreign || frame->position < salvage->point.position || frame->sequence <= salvage->sequence)
        return;
    if (frame->sequence > salvage->sequence + 1)
        meet_gap(salvage, frame->sequence - 1, frame->time_ms);
    else if (salvage->core == NULL)
        begin_without_snapshot(salvage, true);
    salvage->is_end_lost = false;
    salvage->is_foreign = !core_salvage_frame(salvage->loose, frame->payload, frame->position + FRAME_HEADER_SIZE,
                                              frame->time_ms, &salvage->foreign_position);
    salvage->sequence = frame->sequence;
    salvage->end_ms = frame->time_ms;
}

/* A damaged frame: all of it is lost, except messages in it whose checksums are right. */
static void meet_broken_frame(struct salvage *salvage, const struct survey_damage *damage)
{
    meet_gap(salvage, damage->sequence, damage->time_ms);
    const unsigned count = core_salvage_broken_frame(salvage->loose, damage->payload,
                                                     damage->position + FRAME_HEADER_SIZE, damage->time_ms);
    if (count > 0)
        salvage_note(salvage,
                     &(struct salvage_note){
                         .kind = SALVAGE_RESCUED, .file = damage->file, .offset = damage->offset, .first = count});
    salvage->is_end_lost = false;
    salvage->sequence = damage->sequence;
    salvage->end_ms = damage->time_ms;
}

static void on_damage(void *context, const struct survey_damage *damage)
{
    struct salvage *salvage = context;
    salvage_note(salvage, &(struct salvage_note){.kind = SALVAGE_DAMAGE,
                                                 .file = damage->file,
                                                 .offset = damage->offset,
                                                 .size = damage->size,
                                                 .text = damage->text});
    if (salvage->is_foreign || damage->position + damage->size <= salvage->point.position)
        return;
    if (damage->is_other_log)
        meet_gap(salvage, 0, 0);
    else if (damage->sequence > salvage->sequence)
        meet_broken_frame(salvage, damage);
    else if (damage->sequence == 0 && damage->size > 0)
        salvage->is_end_lost = true;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void note_content(struct salvage *salvage, uint64_t number, uint64_t position, uint32_t size)
{
    char file[SEGMENT_NAME_SIZE], id[IDENTITY_TEXT_SIZE];
    const uint64_t segment_size = core_segment_size(salvage->core);
    segment_name(position / segment_size * segment_size, file);
    id_of(salvage, number, (struct bytes){NULL, 0}, id);
    salvage_note(salvage, &(struct salvage_note){.kind = SALVAGE_CONTENT,
                                                 .file = file,
                                                 .offset = position % segment_size,
                                                 .size = size,
                                                 .name = bytes_make(id, sizeof(id))});
}

/* Reads every content. Notes those that can't be read; their messages end when the new log is written. */
static void read_contents(struct salvage *salvage)
{
    const uint32_t end = core_salvage_slot_end(salvage->core);
    for (uint32_t slot = 1; slot < end; slot++) {
        struct live_content content;
        struct bytes encoded;
        if (!core_salvage_content(salvage->core, slot, &content) ||
            content_reader_read(reader_of(salvage), content.position, content.size, &encoded))
            continue;
        salvage->lost_owned =
            memory_resize(salvage->lost_owned, (salvage->lost_count + 1) * sizeof(*salvage->lost_owned));
        salvage->lost_owned[salvage->lost_count++] = content;
        note_content(salvage, content.number, content.position, content.size);
    }
}

/* Contents without a known message go to a queue of their own. */
static void read_orphans(struct salvage *salvage)
{
    const struct salvage_orphan *orphans;
    const size_t count = core_salvage_orphans(salvage->loose, &orphans);
    for (size_t i = 0; i < count; i++) {
        struct bytes encoded;
        if (orphans[i].number == 0)
            continue;
        if (!content_reader_read(reader_of(salvage), orphans[i].position, orphans[i].size, &encoded)) {
            note_content(salvage, orphans[i].number, orphans[i].position, orphans[i].size);
            continue;
        }
        char id[IDENTITY_TEXT_SIZE];
        id_of(salvage, orphans[i].number, encoded, id);
        salvage_note(salvage,
                     &(struct salvage_note){.kind = SALVAGE_REQUEUED,
                                            .name = bytes_make(id, sizeof(id)),
                                            .text = "its queue is not known: it is in \"" SALVAGE_QUEUE_NAME "\""});
    }
}

/* Where the log goes on behind the newest snapshot, be that damaged or not; 0: there is none. */
static uint64_t log_begin(const struct salvage *salvage)
{
    return salvage->prefix_position > salvage->point.position ? salvage->prefix_position : salvage->point.position;
}

/* Is something lost behind the last frame that was read? */
static void meet_end(struct salvage *salvage)
{
    const struct survey *survey = &salvage->survey;
    const uint64_t begin = log_begin(salvage);
    const bool is_begin_lost =
        begin != 0 && (survey->segment_size == 0 || survey->newest_ordinal < begin / survey->segment_size);
    if (salvage->is_end_lost || is_begin_lost)
        meet_gap(salvage, 0, 0);
    else if (survey->sequence > salvage->sequence) /* the header of a segment without frames says so */
        meet_gap(salvage, survey->sequence, 0);
    salvage->sequence = survey->sequence > salvage->sequence ? survey->sequence : salvage->sequence;
}

static enum error read_frames(struct salvage *salvage, struct failure *failure)
{
    const struct survey_visitor visitor = {.context = salvage, .frame = on_frame, .damage = on_damage};
    const enum error error = survey_run(salvage->from, log_begin(salvage), &visitor, &salvage->survey, failure);
    if (error != OK)
        return error;
    if (salvage->is_foreign)
        return failure_set(failure, ERROR_LOG_DAMAGED,
                           "%s: frame %" PRIu64
                           " has an event that this version does not know, at log position %" PRIu64
                           ": a newer version of tallyd wrote it. Use that one.",
                           salvage->from->folder, salvage->sequence, salvage->foreign_position);
    meet_end(salvage);
    if (salvage->survey.segment_size == 0 && salvage->core != NULL)
        salvage->survey.segment_size = core_segment_size(salvage->core);
    return OK;
}

static void finish(struct salvage *salvage)
{
    salvage->facts.segments = salvage->survey.segment_count;
    salvage->facts.frames = salvage->survey.frame_count;
    salvage->facts.bytes = salvage->survey.bytes;
    salvage->facts.newest = salvage->sequence;
    salvage->facts.is_empty = salvage->core == NULL;
    if (salvage->core == NULL)
        return;
    core_salvage_end(salvage->loose);
    read_contents(salvage);
    read_orphans(salvage);
}

enum error salvage_read(struct disk *from, const struct salvage_options *options, struct salvage **read,
                        struct failure *failure)
{
    struct salvage *salvage = memory_allocate_zeroed(sizeof(*salvage));
    salvage->options = *options;
    salvage->from = from;
    buffer_init(&salvage->prefix);
    enum error error = from->operations->lock(from, failure);
    if (error == OK)
        error = read_snapshot(salvage, failure);
    if (error == OK)
        error = read_frames(salvage, failure);
    if (error != OK) {
        salvage_destroy(salvage);
        return error;
    }
    finish(salvage);
    *read = salvage;
    return OK;
}

void salvage_destroy(struct salvage *salvage)
{
    content_reader_deinit(&salvage->reader);
    if (salvage->loose != NULL)
        core_salvage_destroy(salvage->loose);
    if (salvage->core != NULL)
        core_destroy(salvage->core);
    buffer_deinit(&salvage->prefix);
    free(salvage->lost_owned);
    free(salvage);
}

const struct core *salvage_core(const struct salvage *salvage)
{
    return salvage->core;
}

struct salvage_facts salvage_facts(const struct salvage *salvage)
{
    return salvage->facts;
}
