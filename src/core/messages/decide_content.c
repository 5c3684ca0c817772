/* Moves contents to another position in the log, so that their old segment can be removed. The message itself does not
 * change: its number, its lease, its position in every order. engine/cleaner.h says who does this, and when. */
#include "core/messages/decide_content.h"
#include "core/state.h"

/* The segments that are searched for contents, as positions of the log. Most contents are outside of all of them. */
struct search {
    const uint64_t *ordinals; /* rising */
    size_t count;
    uint64_t segment_size;
    uint64_t start;
    uint64_t end;
};

static bool search_meets(const struct search *search, uint64_t position)
{
    if (position < search->start || position >= search->end)
        return false;
    uint64_t ordinal = position / search->segment_size;
    return extent_is_among(search->ordinals, search->count, ordinal);
}

bool core_find_content(const struct core *core, const uint64_t *ordinals, size_t count, uint32_t *slot,
                       unsigned *visits, struct live_content *found)
{
    ASSERT(count > 0 && *slot > 0);
    const struct search search = {.ordinals = ordinals,
                                  .count = count,
                                  .segment_size = core->segment_size,
                                  .start = ordinals[0] * core->segment_size,
                                  .end = (ordinals[count - 1] + 1) * core->segment_size};
    while (*visits > 0 && *slot < core->messages.items.slot_end) {
        const struct message *message = core_message(core, *slot);
        ++*slot;
        --*visits;
        if (!message_is_used(message) || !search_meets(&search, message->position))
            continue;
        *found = (struct live_content){
            .number = message->number, .position = message->position, .size = message->content_size};
        return true;
    }
    if (*slot >= core->messages.items.slot_end)
        *slot = 0;
    return false;
}

bool core_has_content(const struct core *core, const struct live_content *content)
{
    uint32_t slot = core_find_message(core, content->number);
    return slot != 0 && core_message(core, slot)->position == content->position &&
           core_message(core, slot)->content_size == content->size;
}

void decide_move_content(struct core *core, const struct live_content *found, struct bytes content)
{
    ASSERT(core_has_content(core, found) && content.size == found->size);
    core_emit(core, &(struct event){.kind = EVENT_CONTENT_MOVED,
                                    .content_moved = {.number = found->number, .content = content}});
}
