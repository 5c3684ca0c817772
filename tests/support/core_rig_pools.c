/* Random decisions about pools of tickets. Their matchers are outside: what a built-in one finds depends on what it
 * remembers, so a core that was read from a snapshot need not go on as the live one. */
#include "support/core_rig.h"

#include "base/assert.h"
#include "core/core.h"
#include "core/pools/decide_match.h"
#include "core/pools/decide_ticket.h"
#include "core/pools/made_match.h"
#include "match/facts.h"
#include <stdio.h>
#include <stdlib.h>

#define POOLS 2u
#define TICKETS 14u
#define SETS 3u
#define PROPOSALS 12u
#define MEMBERS_MAX 3u

static const char *const rules[] = {
    "{\"Attributes\":{\"mmr\":\"num\",\"mode\":\"str\"},\"Rules\":[{\"type\":\"near\",\"attr\":\"mmr\",\"max\":10,"
    "\"expand\":[{\"after\":\"20s\",\"max\":40},{\"after\":\"90s\",\"off\":true}]}]}",
    "{\"Attributes\":{\"mmr\":\"num\",\"mode\":\"str\"},\"Size\":0}",
    "{\"Attributes\":{\"mmr\":\"num\",\"mode\":\"str\"},\"Teams\":[{\"name\":\"x\",\"size\":1},{\"name\":\"y\","
    "\"size\":2}]}",
};

static struct bytes draw_name(struct core_rig *rig, char *text, char letter, uint32_t count)
{
    int size = snprintf(text, 8, "%c%u", letter, core_rig_draw(rig, count));
    return bytes_make(text, (size_t)size);
}

static struct bytes draw_facts(struct core_rig *rig, const struct ticket_pool *pool, struct bytes *attributes,
                               struct buffer *out)
{
    static const char *const said[] = {"{}", "{\"mmr\":3}", "{\"mmr\":30,\"mode\":\"a\"}", "{\"mode\":\"b\"}"};
    static const char *const needed[] = {"{}", "{}", "{\"mode\":{\"eq\":\"a\"}}"};
    const char *attributes_text = said[core_rig_draw(rig, ARRAY_LENGTH(said))];
    const char *need_text = needed[core_rig_draw(rig, ARRAY_LENGTH(needed))];
    yyjson_doc *facts = yyjson_read(attributes_text, strlen(attributes_text), 0);
    yyjson_doc *need = yyjson_read(need_text, strlen(need_text), 0);
    struct failure failure;
    enum error error =
        facts_encode(pool->rules_owned, yyjson_doc_get_root(facts), yyjson_doc_get_root(need), out, &failure);
    ASSERT(error == OK);
    yyjson_doc_free(facts);
    yyjson_doc_free(need);
    *attributes = bytes_from_string(attributes_text);
    return buffer_bytes(out);
}

static void put_pool(struct core_rig *rig, struct bytes name)
{
    char queue_name[8];
    const struct queue *results = core_find_queue(rig->core, draw_name(rig, queue_name, 'q', 4));
    const struct queue *expired = core_find_queue(rig->core, draw_name(rig, queue_name, 'q', 4));
    if (results == NULL)
        return;
    const struct pool_spec spec = {
        .result_queue = results->id,
        .expiry_queue = expired == NULL ? 0 : expired->id,
        .matcher = MATCHER_EXTERNAL,
        .verifies = core_rig_draw(rig, 3) == 0,
        .retention_s = 60 + core_rig_draw(rig, 300),
        .confirm_ms = core_rig_draw(rig, 2) * 20000,
        .results_max = core_rig_draw(rig, 2) * 3,
        .rules = bytes_from_string(rules[core_rig_draw(rig, ARRAY_LENGTH(rules))]),
    };
    struct ticket_pool *pool;
    (void)decide_put_pool(rig->core, name, &spec, &pool);
}

static void offer(struct core_rig *rig, struct ticket_pool *pool)
{
    char key[8], set[8];
    struct buffer facts;
    buffer_init(&facts);
    struct offer_command command = {.key = draw_name(rig, key, 't', TICKETS),
                                    .weight = 1 + core_rig_draw(rig, pool->rules_owned->party_max < 2 ? 1 : 2),
                                    .ttl_ms = UINT64_MAX,
                                    .priority = (uint8_t)core_rig_draw(rig, ENTRY_PRIORITY_MAX + 1)};
    if (core_rig_draw(rig, 3) == 0)
        command.ttl_ms = 1000 + core_rig_draw(rig, 60000);
    if (core_rig_draw(rig, 3) == 0)
        command.set = draw_name(rig, set, 's', SETS);
    command.content.facts = draw_facts(rig, pool, &command.content.attributes, &facts);
    command.content.has_body = core_rig_draw(rig, 2) == 0;
    if (command.content.has_body)
        command.content.body = BYTES("what it is for");
    uint32_t ticket;
    bool is_known;
    (void)decide_offer(rig->core, pool, &command, &ticket, &is_known);
    buffer_deinit(&facts);
}

static void change_ticket(struct core_rig *rig, struct ticket_pool *pool)
{
    char key[8];
    uint32_t ticket = ticket_find(pool, draw_name(rig, key, 't', TICKETS));
    if (ticket == 0)
        return;
    if (core_rig_draw(rig, 2) == 0) {
        (void)decide_cancel_ticket(rig->core, pool, ticket);
        return;
    }
    struct buffer facts;
    buffer_init(&facts);
    struct bytes attributes, encoded = draw_facts(rig, pool, &attributes, &facts);
    (void)decide_update_ticket(rig->core, pool, ticket, core_rig_draw(rig, 3), encoded, attributes);
    buffer_deinit(&facts);
}

/* Mostly of tickets that wait, at their versions; at times of any. */
static void propose(struct core_rig *rig, struct ticket_pool *pool)
{
    struct proposed_member members[MEMBERS_MAX];
    char keys[MEMBERS_MAX][8], proposal[8];
    struct proposal_command command = {.proposal = draw_name(rig, proposal, 'p', PROPOSALS), .members = members};
    command.member_count = core_rig_draw(rig, 8) == 0 ? core_rig_draw(rig, MEMBERS_MAX + 1) : 2;
    for (uint32_t i = 0; i < command.member_count; i++) {
        uint32_t ticket = 0;
        for (unsigned tries = 0; tries < 8; tries++) {
            members[i].key = draw_name(rig, keys[i], 't', TICKETS);
            ticket = ticket_find(pool, members[i].key);
            if (ticket != 0 && ticket_at(&pool->tickets, ticket)->state == TICKET_WAITING)
                break;
        }
        bool is_known = ticket != 0 && core_rig_draw(rig, 8) > 0;
        members[i].version = is_known ? ticket_at(&pool->tickets, ticket)->version : core_rig_draw(rig, 3);
    }
    command.rules_version = core_rig_draw(rig, 3) == 0 ? 1 + core_rig_draw(rig, 3) : 0;
    command.has_body = core_rig_draw(rig, 3) == 0;
    if (command.has_body)
        command.body = BYTES("hello");
    struct proposal_result result;
    decide_propose(rig->core, pool, &command, &result);
}

/* A put back or an answer, of one of the newest matches. */
static void settle(struct core_rig *rig, struct ticket_pool *pool)
{
    char key[8];
    uint64_t number = ++rig->token_number % 12;
    while (number < 400 && made_match_find(rig->core, number) == 0)
        number += 1 + core_rig_draw(rig, 5);
    if (core_rig_draw(rig, 4) == 0)
        (void)decide_put_back(rig->core, pool, number);
    else
        (void)decide_confirm(rig->core, pool, number, draw_name(rig, key, 't', TICKETS), core_rig_draw(rig, 5) > 0);
}

static void step_once(struct core_rig *rig)
{
    char text[8];
    struct bytes name = draw_name(rig, text, 'k', POOLS);
    struct ticket_pool *pool = ticket_pool_find(rig->core, name);
    uint32_t drawn = core_rig_draw(rig, 100);
    if (pool == NULL || drawn < 2)
        put_pool(rig, name);
    else if (drawn < 4)
        decide_delete_pool(rig->core, pool);
    else if (drawn < 40)
        offer(rig, pool);
    else if (drawn < 50)
        change_ticket(rig, pool);
    else if (drawn < 75)
        propose(rig, pool);
    else
        settle(rig, pool);
}

/* Several at once: most of them find nothing to do. */
void core_rig_step_pool(struct core_rig *rig)
{
    for (uint32_t left = 1 + core_rig_draw(rig, 6); left > 0; left--)
        step_once(rig);
}
