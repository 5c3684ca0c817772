#include "engine/disk_policy.h"

/* Segments that the bound allows for beside what is live: the newest, the one to come, and the one where the replay
 * begins; as many for the log's growth while a snapshot is written, at least; and two with something dead in them
 * before anything is cleaned. */
#define ALLOWED_SEGMENTS 8u
#define GROWTH_SEGMENTS 3u
#define URGENT_SEGMENTS 1u /* a child hurries this many segments before the disk is pressed */
#define TRAPPED_SEGMENTS 2u
#define MARGIN_SHARE                                                                                                   \
    32u /* of the bound, for what can't be foreseen: a snapshot that takes longer, messages that end faster */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t disk_bound(const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    uint64_t live = sizes->content + sizes->snapshot;
    return 2 * live + live / 2 + policy->snapshot_least + ALLOWED_SEGMENTS * sizes->segment;
}

/* How much the log grows while a snapshot is written, in a hurry: at most about as fast as that, when others append as
 * fast as a disk takes it and the cleaner moves as much again. And where bodies are small and the snapshot is large, at
 * most by a third of what lives: a snapshot passes ten times as many messages in a second as can be sent. */
static uint64_t disk_growth(const struct disk_sizes *sizes)
{
    return GROWTH_SEGMENTS * sizes->segment + smaller(sizes->snapshot_next, sizes->content / 3);
}

/* How much would be there if a snapshot began now: the log goes on while it is written; and both files are there
 * meanwhile. */
static uint64_t disk_peak(const struct disk_sizes *sizes)
{
    return sizes->segments + sizes->snapshot + sizes->snapshot_next + disk_growth(sizes);
}

/* The upper limit of disk_peak(). */
static uint64_t disk_limit(const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    uint64_t bound = disk_bound(policy, sizes);
    return bound - bound / MARGIN_SHARE;
}

/* Would the bound be passed if one began any later than now? */
static bool disk_is_pressed(const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    return disk_peak(sizes) >= disk_limit(policy, sizes);
}

/* What a snapshot gains, in bytes. It frees idle segments; a smaller snapshot leaves room; and a larger one raises the
 * bound by more than it takes itself. */
static uint64_t snapshot_gain(const struct disk_sizes *sizes)
{
    return sizes->idle + larger(sizes->snapshot, sizes->snapshot_next) - smaller(sizes->snapshot, sizes->snapshot_next);
}

/* A snapshot costs as much as it holds, so a large one must serve for longer: taking them costs a bounded part of
 * writing the log, however much is waiting. One that gains more than it costs pays for itself; when the disk is
 * pressed, even one that gains less must be taken. */
bool disk_snapshot_is_due(const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    if (policy->snapshot_least == 0)
        return false;
    uint64_t gain = snapshot_gain(sizes);
    if (sizes->grown >= larger(policy->snapshot_least, policy->snapshot_worth * sizes->snapshot) ||
        gain >= larger(policy->snapshot_least, policy->snapshot_worth * sizes->snapshot_next))
        return true;
    return gain >= larger(sizes->segment, sizes->snapshot_next / 6) && disk_is_pressed(policy, sizes);
}

bool disk_snapshot_is_urgent(const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    return disk_peak(sizes) + URGENT_SEGMENTS * sizes->segment >= disk_limit(policy, sizes);
}

/* How many bytes are dead in partly live segments, and how many may be. */
static uint64_t trapped_bytes(const struct disk_sizes *sizes)
{
    return sizes->partly > sizes->partly_content ? sizes->partly - sizes->partly_content : 0;
}

static uint64_t trapped_allowed(const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    return policy->cleans_eagerly ? 0 : sizes->content + TRAPPED_SEGMENTS * sizes->segment;
}

/* A round takes only an eighth of what is allowed: it frees room at its end, and until then it only uses more. */
uint64_t disk_cleaning_due(const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    if (policy->snapshot_least == 0)
        return 0; /* only a snapshot frees cleaned segments */
    uint64_t trapped = trapped_bytes(sizes), allowed = trapped_allowed(policy, sizes);
    return trapped > allowed ? trapped - allowed / 8 * 7 : 0;
}

bool disk_cleaning_is_pressed(const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    uint64_t allowed = trapped_allowed(policy, sizes);
    return trapped_bytes(sizes) > allowed + allowed / 8;
}
