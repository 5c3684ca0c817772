#include "engine/cleaner.h"

#include "core/messages/decide_content.h"
#include "log/log.h"

/* The limits of one piece: slots of the index visited, contents and bytes moved. A few tenths of a millisecond. */
#define PIECE_VISITS 8192u
#define PIECE_CONTENTS 256u
#define PIECE_BYTES (128 * 1024)

/* The budget of writes: one byte for each byte that others write, one and a half when the cleaner is pressed; and a few
 * in each millisecond, whatever others write, as long as the disk keeps up. A little of an unused budget is kept. */
#define TRICKLE_BYTES 4096
#define TRICKLE_PRESSED_BYTES 65536
#define CREDIT_MAX (1024 * 1024)

/* If a content is not in memory, the cleaner requests it, waits this many milliseconds at most, and then reads it
 * anyway. */
#define PATIENCE_MAX 100u

/* A segment with this share of live bytes is left alone: moving it would gain little. */
#define SHARES 64u
#define SHARE_MAX 56u

/* The share of the room left that moved contents may take. */
#define ROOM_SHARES 3u
#define ROOM_SHARE_MAX 2u

static bool is_damaged(const struct cleaner *cleaner, uint64_t ordinal)
{
    for (unsigned i = 0; i < cleaner->damaged_count && i < CLEANER_DAMAGED_MAX; i++)
        if (cleaner->damaged[i] == ordinal)
            return true;
    return false;
}

/* How many 64ths of the segment live. */
static unsigned share_of(const struct cleaner *cleaner, const struct extent *extent, uint64_t segment_bytes)
{
    if (is_damaged(cleaner, extent->ordinal) || extent->live_bytes >= segment_bytes)
        return SHARES;
    return (unsigned)(extent->live_bytes * SHARES / segment_bytes);
}

/* --- choosing ----------------------------------------------------------------------------------------------------- */

/* All segments with a share below the limit are chosen, and of those at the limit some. */
struct choice {
    unsigned limit;
    unsigned lower_count; /* of those below */
    uint64_t lower_bytes; /* dead in them */
};

/* The lowest limit at which the segments up to it free enough, or are as many as one round can empty. */
static struct choice choose(const struct cleaner *cleaner, const struct extents *extents, size_t end,
                            uint64_t segment_bytes, uint64_t wanted_bytes)
{
    uint32_t counts[SHARES + 1] = {0};
    uint64_t dead_bytes[SHARES + 1] = {0};
    for (size_t i = 0; i < end; i++) {
        unsigned share = share_of(cleaner, &extents->items_owned[i], segment_bytes);
        counts[share]++;
        dead_bytes[share] += share < SHARES ? segment_bytes - extents->items_owned[i].live_bytes : 0;
    }
    struct choice choice = {0};
    for (; choice.limit < SHARE_MAX; choice.limit++) {
        if (choice.lower_bytes + dead_bytes[choice.limit] >= wanted_bytes ||
            choice.lower_count + counts[choice.limit] >= CLEANER_SEGMENTS_MAX)
            break;
        choice.lower_count += counts[choice.limit];
        choice.lower_bytes += dead_bytes[choice.limit];
    }
    return choice;
}

void cleaner_begin(struct cleaner *cleaner, const struct extents *extents, uint64_t newest, uint64_t segment_bytes,
                   uint64_t wanted_bytes)
{
    ASSERT(!cleaner_is_active(cleaner) && wanted_bytes > 0);
    size_t end = extents_index(extents, newest);
    const struct choice choice = choose(cleaner, extents, end, segment_bytes, wanted_bytes);
    unsigned room = CLEANER_SEGMENTS_MAX - choice.lower_count; /* for those at the limit, the oldest first */
    uint64_t freed_bytes = choice.lower_bytes;
    cleaner->chosen_count = 0;
    for (size_t i = 0; i < end; i++) {
        const struct extent *extent = &extents->items_owned[i];
        unsigned share = share_of(cleaner, extent, segment_bytes);
        if (share > choice.limit || share >= SHARE_MAX)
            continue;
        if (share == choice.limit) {
            if (room == 0 || freed_bytes >= wanted_bytes)
                continue;
            room--;
            freed_bytes += segment_bytes - extent->live_bytes;
        }
        cleaner->chosen[cleaner->chosen_count++] = extent->ordinal;
    }
    if (cleaner->chosen_count == 0)
        return;
    cleaner->slot = 1;
    cleaner->rounds++;
}

void cleaner_begin_one(struct cleaner *cleaner, const struct extents *extents, uint64_t newest, uint64_t room)
{
    ASSERT(!cleaner_is_active(cleaner));
    const struct extent *least = NULL;
    for (size_t i = 0; i < extents_index(extents, newest); i++) {
        const struct extent *extent = &extents->items_owned[i];
        if (!is_damaged(cleaner, extent->ordinal) && (least == NULL || extent->live_bytes < least->live_bytes))
            least = extent;
    }
    /* The events around the contents take room, too; and what is not worth the move stays. */
    if (least == NULL || least->live_bytes > room / ROOM_SHARES * ROOM_SHARE_MAX)
        return;
    cleaner->chosen[0] = least->ordinal;
    cleaner->chosen_count = 1;
    cleaner->slot = 1;
    cleaner->rounds++;
}

/* --- moving ------------------------------------------------------------------------------------------------------- */

/* Bytes of budget in a millisecond. */
static int64_t trickle_bytes(struct cleaner_load load)
{
    if (load.is_behind)
        return 0;
    return load.is_pressed ? TRICKLE_PRESSED_BYTES : TRICKLE_BYTES;
}

void cleaner_add_budget(struct cleaner *cleaner, uint64_t end, uint64_t now_ms, struct cleaner_load load)
{
    uint64_t grown = end > cleaner->credited_end ? end - cleaner->credited_end : 0;
    uint64_t passed_ms = now_ms > cleaner->credited_ms ? now_ms - cleaner->credited_ms : 0;
    passed_ms = passed_ms < 1000 ? passed_ms : 1000;
    grown = grown < CREDIT_MAX ? grown : CREDIT_MAX;
    cleaner->credit += (int64_t)(load.is_pressed ? grown + grown / 2 : grown);
    cleaner->credit += (int64_t)passed_ms * trickle_bytes(load);
    cleaner->credit = cleaner->credit < CREDIT_MAX ? cleaner->credit : CREDIT_MAX;
    cleaner->credited_end = end > cleaner->credited_end ? end : cleaner->credited_end;
    cleaner->credited_ms = now_ms > cleaner->credited_ms ? now_ms : cleaner->credited_ms;
}

static enum error note_damage(struct cleaner *cleaner, struct namespace *ns, const struct live_content *found,
                              struct failure *failure)
{
    uint64_t ordinal = found->position / core_segment_size(namespace_core(ns));
    if (is_damaged(cleaner, ordinal))
        return OK;
    cleaner->damaged[cleaner->damaged_count++ % CLEANER_DAMAGED_MAX] = ordinal;
    struct buffer scratch;
    buffer_init(&scratch);
    log_name_position(namespace_log(ns), found->position, &scratch);
    failure_set(failure, ERROR_LOG_DAMAGED,
                "a message's body at %.*s in the data folder could not be read back, so this file stays until the "
                "message ends; put the file back from a backup",
                BYTES_FORMAT(buffer_bytes(&scratch)));
    buffer_deinit(&scratch);
    return ERROR_LOG_DAMAGED;
}

/* Must the content be waited for? The walk then finds it again. */
static bool must_wait(struct cleaner *cleaner, struct namespace *ns, const struct live_content *found)
{
    if (cleaner->waited < PATIENCE_MAX && !namespace_is_resident(ns, found->position, found->size)) {
        cleaner->waited++;
        cleaner->slot--;
        return true;
    }
    cleaner->waited = 0;
    return false;
}

/* What was found when no frame was open stays true when one is opened: time alone ends nothing. */
static enum error move_content(struct cleaner *cleaner, struct namespace *ns, uint64_t now_ms,
                               const struct live_content *found, struct failure *failure)
{
    struct core *core = namespace_begin(ns, now_ms);
    const uint8_t *bytes = namespace_read(ns, found->position, found->size);
    struct content content;
    if (bytes == NULL || !content_decode(bytes_make(bytes, found->size), &content))
        return note_damage(cleaner, ns, found, failure);
    decide_move_content(core, found, bytes_make(bytes, found->size));
    cleaner->credit -= EVENT_HEADER_SIZE + EVENT_CONTENT_MOVED_CONTENT_OFFSET + (int64_t)found->size;
    cleaner->credited_end = namespace_end(ns); /* its own writes add nothing to its budget */
    cleaner->moved_count++;
    cleaner->moved_bytes += found->size;
    return OK;
}

enum error cleaner_step(struct cleaner *cleaner, struct namespace *ns, uint64_t now_ms, struct failure *failure)
{
    ASSERT(cleaner_is_active(cleaner));
    unsigned visits = PIECE_VISITS;
    uint64_t bytes_before = cleaner->moved_bytes, count_before = cleaner->moved_count;
    enum error error = OK;
    struct live_content found;
    while (error == OK && cleaner->credit > 0 && cleaner->moved_bytes - bytes_before < PIECE_BYTES &&
           cleaner->moved_count - count_before < PIECE_CONTENTS && !namespace_is_ample(ns) &&
           core_find_content(namespace_core(ns), cleaner->chosen, cleaner->chosen_count, &cleaner->slot, &visits,
                             &found)) {
        if (must_wait(cleaner, ns, &found))
            break;
        error = move_content(cleaner, ns, now_ms, &found, failure);
    }
    return error;
}
