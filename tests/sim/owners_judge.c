#include "owners_judge.h"

#include "base/assert.h"
#include "base/memory.h"
#include "core/core.h"
#include "fail.h"
#include "log/frame.h"
#include "log/segment.h"
#include "owners.h"
#include "owners_libpq.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 20000u
#define REQUESTS_MAX 65536u
#define DROPS_MAX 20000u
#define CLOCK_SLACK_MS 1000u
#define NODES_MAX 8

/* A frame with events that is in PostgreSQL. */
struct true_frame {
    bool is_there;
    uint64_t commit, position, epoch, time_ms;
    uint64_t hash;  /* of its payload */
    uint64_t state; /* of a core that has applied it, as the first one had it; 0: none yet */
};

struct dropped_frame {
    uint64_t commit, position, hash;
};

struct tag {
    bool is_sent;
    uint64_t begun_at, acknowledged_at; /* of its send; 0: not */
    bool is_take_decided, is_taken;
    bool is_there; /* at the end */
};

struct request {
    enum request_kind kind;
    uint32_t tag;
    uint64_t floor; /* the newest frame that somebody was told of before it began */
    bool is_answered;
};

static struct {
    struct judge_settings settings;
    struct true_frame frames[FRAMES_MAX];
    uint64_t newest;
    struct dropped_frame drops[DROPS_MAX];
    unsigned drop_count;
    struct tag tags[TAGS_MAX];
    struct request requests[REQUESTS_MAX];
    uint64_t request_count;
    uint64_t floor;
    uint64_t ahead_ms;        /* of the time since the beginning: as much as PostgreSQL's clock has ever been */
    uint64_t newest_begun_at; /* of the messages at the end so far */
    bool is_loss_told;
    bool is_copy_lost; /* a node's copy of the log, or some of it: it may have been the only one that knew */
    bool is_ending;
    uint64_t applied[NODES_MAX]; /* the newest frame that each has applied */
    struct judge_counts counts;
} judge;

void judge_init(const struct judge_settings *settings)
{
    judge.settings = *settings;
}

struct judge_counts judge_counts(void)
{
    return judge.counts;
}

/* FNV-1a. */
static uint64_t hash_more(uint64_t hash, struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        hash = (hash ^ bytes.ptr[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Zeros at the end of a write are not stored. */
static uint64_t hash_payload(struct bytes payload)
{
    while (payload.size > 0 && payload.ptr[payload.size - 1] == 0)
        payload.size--;
    return hash_more(HASH_BEGIN, payload);
}

/* --- what is in PostgreSQL ---------------------------------------------------------------------------------------- */

void judge_fence(uint64_t epoch, const uint8_t owner[PG_OWNER_SIZE], uint64_t head_epoch,
                 const uint8_t head_owner[PG_OWNER_SIZE], bool is_seal)
{
    if (epoch == head_epoch && memcmp(owner, head_owner, PG_OWNER_SIZE) == 0)
        return;
    if (is_seal)
        fail("L6: two seals of one epoch succeed: epoch %" PRIu64 " ends, and the log is in epoch %" PRIu64, epoch,
             head_epoch);
    fail("L1, L5: a write of epoch %" PRIu64 " is done in epoch %" PRIu64, epoch, head_epoch);
}

static void note_clock(void)
{
    const uint64_t ahead_ms = server_wall_ms() - sim_now() / MS;
    if (ahead_ms > judge.ahead_ms)
        judge.ahead_ms = ahead_ms;
}

void judge_append(uint64_t commit, const char *file, uint64_t at, struct bytes body)
{
    uint64_t start;
    struct frame_header header;
    if (!segment_name_decode(file, &start) || at == 0 || body.size < FRAME_HEADER_SIZE ||
        !frame_header_decode(body, &header) || header.kind != FRAME_EVENTS)
        return;
    ASSERT(header.sequence > 0 && header.sequence < FRAMES_MAX);
    struct true_frame *frame = &judge.frames[header.sequence];
    if (header.position != start + at)
        fail("L2: frame %" PRIu64 " is written to position %" PRIu64 ", and says %" PRIu64, header.sequence, start + at,
             header.position);
    if (frame->is_there)
        fail("L2, L9: frame %" PRIu64 " is in the log twice: at positions %" PRIu64 " and %" PRIu64, header.sequence,
             frame->position, header.position);
    if (header.sequence > 1 && !judge.frames[header.sequence - 1].is_there)
        fail("L2: frame %" PRIu64 " is written, and the one before it is not there", header.sequence);
    struct bytes payload = bytes_skip(body, FRAME_HEADER_SIZE);
    if (payload.size > header.payload_size)
        payload.size = header.payload_size;
    *frame = (struct true_frame){.is_there = true,
                                 .commit = commit,
                                 .position = header.position,
                                 .epoch = header.epoch,
                                 .time_ms = header.time_ms,
                                 .hash = hash_payload(payload)};
    note_clock();
    if (header.time_ms > judge.ahead_ms + sim_now() / MS + CLOCK_SLACK_MS)
        fail("K17: frame %" PRIu64 " is of %" PRIu64 " ms, and no clock of PostgreSQL has been there yet",
             header.sequence, header.time_ms);
    judge.newest = header.sequence > judge.newest ? header.sequence : judge.newest;
    judge.counts.frames++;
    owners_trace("frame %" PRIu64 " is in the log, at position %" PRIu64, header.sequence, header.position);
}

bool judge_is_frame(uint64_t commit)
{
    for (uint64_t i = judge.newest; i > 0; i--)
        if (judge.frames[i].is_there && judge.frames[i].commit == commit)
            return true;
    return false;
}

/* What was acknowledged and is lost is no measure of what must be read. */
static void lower_floors(uint64_t floor)
{
    judge.floor = judge.floor < floor ? judge.floor : floor;
    for (uint64_t i = 0; i < judge.request_count; i++)
        if (judge.requests[i].floor > floor)
            judge.requests[i].floor = floor;
}

void judge_drop(uint64_t commit)
{
    for (uint64_t i = judge.newest; i > 0; i--) {
        const struct true_frame *frame = &judge.frames[i];
        if (!frame->is_there || frame->commit != commit)
            continue;
        ASSERT(judge.drop_count < DROPS_MAX);
        judge.drops[judge.drop_count++] =
            (struct dropped_frame){.commit = commit, .position = frame->position, .hash = frame->hash};
        lower_floors(i - 1);
    }
}

void judge_forget_appends(void)
{
    note_clock();
    for (uint64_t i = 0; i <= judge.newest; i++)
        judge.frames[i].is_there = false;
    judge.newest = 0;
}

/* --- what nodes do ------------------------------------------------------------------------------------------------ */

static struct true_frame *find_frame(uint64_t position)
{
    for (uint64_t i = judge.newest; i > 0; i--)
        if (judge.frames[i].is_there && judge.frames[i].position == position)
            return &judge.frames[i];
    return NULL;
}

static bool was_dropped(uint64_t position, uint64_t hash)
{
    for (unsigned i = judge.drop_count; i > 0; i--)
        if (judge.drops[i - 1].position == position && judge.drops[i - 1].hash == hash)
            return true;
    return false;
}

static void hash_piece(void *context, struct bytes piece)
{
    uint64_t *hash = context;
    *hash = hash_more(*hash, piece);
}

void judge_replay(int node, uint64_t position, struct bytes payload, const struct core *core)
{
    const uint64_t hash = hash_payload(payload);
    struct true_frame *frame = find_frame(position);
    if (frame == NULL || frame->hash != hash) {
        if (was_dropped(position, hash))
            return;
        fail("L2, L3, K11: node %d applies a frame at position %" PRIu64 " that is not in PostgreSQL", node, position);
    }
    ASSERT(node < NODES_MAX);
    judge.applied[node] = (uint64_t)(frame - judge.frames);
    owners_trace("node %d has applied frame %" PRIu64, node, judge.applied[node]);
    if (server_has_lost())
        return; /* frames before it may differ */
    uint64_t state = HASH_BEGIN;
    core_encode(core, hash_piece, &state);
    if (frame->state != 0 && frame->state != state)
        fail("L14: node %d has another state than a node before it that has applied the frame at position %" PRIu64,
             node, position);
    frame->state = state;
}

void judge_failure(int node, const struct failure *failure)
{
    owners_trace("node %d: %s", node, failure->text);
    const bool says_loss = failure->error == ERROR_LOG_DAMAGED || strstr(failure->text, "has lost") != NULL;
    if (!says_loss)
        return;
    judge.is_loss_told = true;
    if (!server_has_lost())
        fail("K8, K11: node %d speaks of a loss, and PostgreSQL has lost nothing: %s", node, failure->text);
}

/* --- what clients see --------------------------------------------------------------------------------------------- */

uint64_t judge_begin(enum request_kind kind, uint32_t tag)
{
    ASSERT(judge.request_count < REQUESTS_MAX && tag < TAGS_MAX);
    if (kind == REQUEST_SEND)
        judge.tags[tag] = (struct tag){.is_sent = true, .begun_at = sim_now()};
    judge.requests[judge.request_count] = (struct request){.kind = kind, .tag = tag, .floor = judge.floor};
    return judge.request_count++;
}

void judge_decide_take(uint32_t tag)
{
    if (tag == NO_TAG || tag >= TAGS_MAX || !judge.tags[tag].is_sent)
        fail("a message is delivered that nobody has sent: %" PRIu32, tag);
    judge.tags[tag].is_take_decided = true;
}

/* Is a loss possible that nobody is to blame for? */
static bool may_be_lost(void)
{
    return judge.settings.replication == REPLICATION_ASYNC && server_has_lost();
}

static void check_durable(const struct judge_reply *reply)
{
    const struct true_frame *first = &judge.frames[reply->first], *frame = &judge.frames[reply->sequence];
    if (may_be_lost() || reply->sequence == 0)
        return;
    if (!first->is_there || first->epoch != reply->epoch || !server_is_durable(first->commit))
        fail("L7: node %d answers in epoch %" PRIu64 " of the log, and its first frame, %" PRIu64 ", is not durable",
             reply->node, reply->epoch, reply->first);
    if (!frame->is_there || !server_is_durable(frame->commit))
        fail("L8: node %d answers on the ground of frame %" PRIu64 ", which is not durable", reply->node,
             reply->sequence);
}

static void check_age(const struct judge_reply *reply, const struct request *request)
{
    if (reply->sequence >= request->floor)
        return;
    judge.counts.stale++;
    const uint64_t limit = reply->proved_at + judge.settings.lease_ms * MS;
    if (sim_now() > limit)
        fail("K2, K3: node %d answers from frame %" PRIu64 " when frame %" PRIu64 " was acknowledged, %" PRIu64
             " ms after its lease ended",
             reply->node, reply->sequence, request->floor, (sim_now() - limit) / MS);
    if (reply->broken_at != 0)
        fail("K2, K3: node %d answers from frame %" PRIu64 " when frame %" PRIu64 " was acknowledged, %" PRIu64
             " ms after its connection to PostgreSQL broke",
             reply->node, reply->sequence, request->floor, (sim_now() - reply->broken_at) / MS);
    if (request->kind == REQUEST_SEND || (request->kind == REQUEST_TAKE && reply->tag != NO_TAG))
        fail("L1: node %d has done something in frame %" PRIu64 ", behind which another owner has written", reply->node,
             reply->sequence);
}

static void note_send(struct tag *tag)
{
    tag->acknowledged_at = sim_now();
    judge.counts.sent++;
}

/* The next message that the log holds at the end. */
static void note_end(uint32_t number)
{
    struct tag *tag = &judge.tags[number];
    if (tag->is_there)
        fail("L9: message %" PRIu32 " is in the log twice", number);
    tag->is_there = true;
    if (tag->is_taken && !may_be_lost())
        fail("L9: message %" PRIu32 " was taken, and is there", number);
    if (tag->acknowledged_at != 0 && tag->acknowledged_at < judge.newest_begun_at && !may_be_lost())
        fail("message %" PRIu32 " stands behind one that was sent when it was acknowledged already", number);
    if (tag->begun_at > judge.newest_begun_at)
        judge.newest_begun_at = tag->begun_at;
}

static void note_take(uint32_t number)
{
    struct tag *tag = &judge.tags[number];
    if (judge.is_ending) {
        note_end(number);
        return;
    }
    if (tag->is_taken && !may_be_lost())
        fail("L9: message %" PRIu32 " is taken twice", number);
    tag->is_taken = true;
    judge.counts.taken++;
}

void judge_answer(const struct judge_reply *reply)
{
    struct request *request = &judge.requests[reply->request];
    ASSERT(!request->is_answered);
    request->is_answered = true;
    check_durable(reply);
    check_age(reply, request);
    if (request->kind == REQUEST_SEND)
        note_send(&judge.tags[reply->tag]);
    else if (request->kind == REQUEST_TAKE && reply->tag != NO_TAG)
        note_take(reply->tag);
    else
        judge.counts.read++;
    /* An owner may not know yet that a failover has lost what it tells of. */
    if (reply->sequence > judge.floor && judge.frames[reply->sequence].is_there)
        judge.floor = reply->sequence;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

void judge_lose_copy(void)
{
    judge.is_copy_lost = true;
}

void judge_begin_end(void)
{
    judge.is_ending = true;
}

bool judge_has_followed(int node, uint64_t *applied, uint64_t *newest)
{
    *applied = judge.applied[node];
    *newest = judge.newest;
    return *applied == *newest;
}

void judge_end(void)
{
    for (uint32_t number = 1; number < TAGS_MAX; number++) {
        const struct tag *tag = &judge.tags[number];
        if (!tag->is_sent || tag->acknowledged_at == 0 || tag->is_there || tag->is_take_decided)
            continue;
        judge.counts.lost++;
        if (!may_be_lost())
            fail("L9, L20: message %" PRIu32 " was acknowledged, and is lost", number);
    }
    /* Who comes back when the segment was cleaned already can't know, so this is no failure. */
    judge.counts.is_silent = judge.counts.lost > 0 && !judge.is_loss_told && !judge.is_copy_lost;
}
