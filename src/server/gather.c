#include "server/gather.h"

#include "base/assert.h"

/* Is the work from the clients clearly longer than a flush? Then some of them keep the loop busy while a frame with the
 * others' requests is being flushed. In one common frame all would wait for it, and so would the loop. Let the work be
 * w and a flush f. All together take turns of w + f; two groups take turns of w or 2 f, whichever is longer. Two groups
 * pay off if w is at least 1.5 f. */
static bool is_busy(const struct gather *gather, uint64_t request_ns)
{
    return 2 * gather->held_lately * request_ns > 3 * gather->flush_ns;
}

bool gather_goes_on(struct gather *gather, uint64_t now_ns, bool is_quiet, uint64_t request_ns)
{
    if (gather->begun_ns == 0)
        gather->begun_ns = now_ns;
    uint64_t gather_ns = gather->flush_ns < GATHER_NS_MAX ? gather->flush_ns : GATHER_NS_MAX;
    return !is_quiet && !is_busy(gather, request_ns) && now_ns - gather->begun_ns < gather_ns;
}

void gather_stop(struct gather *gather)
{
    gather->begun_ns = 0;
}

/* Few replies are held between two frames, so the maximum decays slowly. */
void gather_note_frame(struct gather *gather, uint64_t now_ns, size_t held_count)
{
    gather->held_lately -= gather->held_lately / GATHER_HELD_FORGOTTEN;
    if (held_count > gather->held_lately)
        gather->held_lately = held_count;
    gather->begun_ns = 0;
    gather->flush_begun_ns = now_ns;
}

void gather_note_flush(struct gather *gather, uint64_t now_ns)
{
    ASSERT(gather->flush_begun_ns != 0 && now_ns >= gather->flush_begun_ns);
    uint64_t took_ns = now_ns - gather->flush_begun_ns;
    gather->flush_ns = gather->flush_ns == 0 ? took_ns : (gather->flush_ns * 7 + took_ns) / 8;
    gather->flush_begun_ns = 0;
}
