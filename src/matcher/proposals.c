#include "matcher/proposals.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ASIDE_MS 1000  /* after a refusal that asking at once would bring again */
#define STALE_MS 10000 /* the feed brings the newer version long before */

const char *const proposals_outcomes[] = {"matched", "conflict", "stale", "invalid", "key-reused", "result-full"};
const char *const proposals_reasons[] = {"matched", "held", "cancelled", "expired", "exclusive-set", "stale"};

static_assert(ARRAY_LENGTH(proposals_outcomes) == PROPOSALS_OUTCOMES, "each outcome is counted");
static_assert(ARRAY_LENGTH(proposals_reasons) == PROPOSALS_REASONS, "each reason is counted");

static void make_name(struct proposals *proposals)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t mix = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    mix ^= bytes_hash(bytes_from_string(host)) ^ table_hash_u64((uint64_t)getpid());
    snprintf(proposals->name, sizeof proposals->name, "%016llx", (unsigned long long)table_hash_u64(mix));
}

void proposals_init(struct proposals *proposals, const char *pool, struct pool_copy *copy)
{
    *proposals = (struct proposals){.pool = pool, .copy = copy};
    list_init(&proposals->under_way);
    make_name(proposals);
}

void proposals_deinit(struct proposals *proposals)
{
    while (!list_is_empty(&proposals->under_way))
        batch_destroy((struct batch *)(void *)list_first(&proposals->under_way)); /* the link is its first member */
}

void proposals_begin_epoch(struct proposals *proposals)
{
    proposals->epoch++;
}

/* --- Requests ----------------------------------------------------------------------------------------------------- */

struct batch *batch_create(const struct proposals *proposals)
{
    struct batch *batch = memory_allocate_zeroed(sizeof *batch);
    batch->epoch = proposals->epoch;
    json_body_init(&batch->body);
    json_add_text(&batch->body, batch->body.root, "PoolName", proposals->pool);
    batch->list = json_add_array(&batch->body, batch->body.root, "Proposals");
    return batch;
}

void batch_destroy(struct batch *batch)
{
    if (list_is_linked(&batch->link))
        list_remove(&batch->link);
    for (uint32_t i = 0; i < batch->count; i++) {
        free(batch->proposed[i].slots_owned);
        free(batch->proposed[i].versions_owned);
    }
    yyjson_mut_doc_free(batch->body.doc_owned);
    free(batch);
}

static void add_member(struct json_body *body, yyjson_mut_val *list, const struct pool_copy_ticket *ticket)
{
    yyjson_mut_val *member = json_append_object(body, list);
    yyjson_mut_obj_add_strncpy(body->doc_owned, member, "TicketId", (const char *)ticket->key_owned.ptr,
                               ticket->key_owned.size);
    json_add_number(body, member, "Version", ticket->version);
}

void batch_add(struct batch *batch, struct proposals *proposals, const struct matcher_group *group,
               uint64_t rules_version)
{
    ASSERT(batch->count < PROPOSALS_BATCH_MAX);
    struct proposed *proposed = &batch->proposed[batch->count++];
    yyjson_mut_val *proposal = json_append_object(&batch->body, batch->list);
    char id[64];
    snprintf(id, sizeof id, "%s-%llu", proposals->name, (unsigned long long)++proposals->attempt);
    yyjson_mut_obj_add_strcpy(batch->body.doc_owned, proposal, "ProposalId", id);
    if (rules_version > 0)
        json_add_number(&batch->body, proposal, "RulesVersion", rules_version);
    yyjson_mut_val *members = json_add_array(&batch->body, proposal, "Members");
    *proposed = (struct proposed){.count = group->count,
                                  .slots_owned = memory_allocate(group->count * sizeof(uint32_t)),
                                  .versions_owned = memory_allocate(group->count * sizeof(uint64_t))};
    for (uint32_t i = 0; i < group->count; i++) {
        const struct pool_copy_ticket *ticket = pool_copy_ticket(proposals->copy, group->slots[i]);
        proposed->slots_owned[i] = group->slots[i];
        proposed->versions_owned[i] = ticket->version;
        add_member(&batch->body, members, ticket);
    }
}

char *proposals_send(struct proposals *proposals, struct batch *batch)
{
    char *text = json_write(batch->body.doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_mut_doc_free(batch->body.doc_owned);
    batch->body.doc_owned = NULL;
    list_append(&proposals->under_way, &batch->link);
    proposals->in_flight++;
    proposals->counts.proposals += batch->count;
    return text;
}

/* --- Answers ------------------------------------------------------------------------------------------------------ */

static size_t index_of(const char *word, const char *const words[], size_t count)
{
    for (size_t i = 0; i < count && word != NULL; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return count;
}

/* Why a conflict names this ticket; NULL: it doesn't. */
static const char *why_of(yyjson_val *result, struct bytes key)
{
    size_t i, max;
    yyjson_val *member;
    yyjson_arr_foreach(yyjson_obj_get(result, "Members"), i, max, member)
    {
        yyjson_val *id = yyjson_obj_get(member, "TicketId");
        if (bytes_equal(key, bytes_make(yyjson_get_str(id), yyjson_get_len(id))))
            return json_text(member, "Why") == NULL ? "stale" : json_text(member, "Why");
    }
    return NULL;
}

/* One member of a proposal that was not accepted. */
static void settle_member(struct proposals *proposals, yyjson_val *result, uint32_t slot, uint64_t version,
                          uint64_t now_ms)
{
    const char *status = json_text(result, "Status");
    const char *why = why_of(result, pool_copy_ticket(proposals->copy, slot)->key_owned);
    size_t reason = index_of(why, proposals_reasons, PROPOSALS_REASONS);
    bool is_conflict = status != NULL && (strcmp(status, "conflict") == 0 || strcmp(status, "stale") == 0);
    bool names_members = yyjson_arr_size(yyjson_obj_get(result, "Members")) > 0;
    if (reason < PROPOSALS_REASONS)
        proposals->counts.by_reason[reason]++;
    if (why != NULL && strcmp(why, "stale") == 0)
        pool_copy_put_aside(proposals->copy, slot, version, now_ms + STALE_MS, now_ms);
    else if (why != NULL && strcmp(why, "exclusive-set") != 0)
        pool_copy_drop(proposals->copy, slot, version,
                       now_ms); /* it has ended, or is held: the feed says when it is back */
    else if (why == NULL && is_conflict && names_members)
        pool_copy_return(proposals->copy, slot, now_ms); /* it was not its fault */
    else
        pool_copy_put_aside(proposals->copy, slot, version, now_ms + ASIDE_MS, now_ms);
}

/* `is_known`: its slots still mean something. */
static void settle(struct proposals *proposals, const struct proposed *proposed, yyjson_val *result, bool is_known,
                   uint64_t now_ms)
{
    size_t outcome = index_of(json_text(result, "Status"), proposals_outcomes, PROPOSALS_OUTCOMES);
    if (outcome < PROPOSALS_OUTCOMES)
        proposals->counts.by_outcome[outcome]++;
    for (uint32_t i = 0; i < proposed->count && is_known; i++) {
        uint32_t slot = proposed->slots_owned[i];
        if (outcome == 0)
            pool_copy_drop(proposals->copy, slot, proposed->versions_owned[i], now_ms);
        else
            settle_member(proposals, result, slot, proposed->versions_owned[i], now_ms);
    }
}

bool proposals_answer(struct proposals *proposals, struct batch *batch, yyjson_val *results, uint64_t now_ms)
{
    bool is_good = yyjson_arr_size(results) == batch->count;
    ASSERT(list_is_linked(&batch->link) && proposals->in_flight > 0);
    proposals->in_flight--;
    for (uint32_t i = 0; i < batch->count && is_good; i++)
        settle(proposals, &batch->proposed[i], yyjson_arr_get(results, i), batch->epoch == proposals->epoch, now_ms);
    batch_destroy(batch);
    return is_good;
}
