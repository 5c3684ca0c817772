#include "support/pool_rig.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/memory.h"
#include "core/decide_namespace.h"
#include "core/messages/decide_message.h"
#include "core/messages/decide_receive.h"
#include "core/messages/message_list.h"
#include "core/pools/made_match.h"
#include "core/queues/decide_queue.h"
#include "support/core_bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <yyjson.h>

#define TEXT_SIZE 4096u

void pool_rig_make_queues(struct core_rig *rig)
{
    struct queue_settings settings = core_rig_settings();
    decide_create_queue(core_rig_begin(rig), BYTES("results"), &settings);
    decide_create_queue(rig->core, BYTES("expired"), &settings);
    core_rig_end(rig);
}

/* Returns the text with " for '. */
static struct bytes quoted(const char *text, char out[TEXT_SIZE])
{
    size_t size = 0;
    for (; text[size] != 0; size++) {
        ASSERT(size + 1 < TEXT_SIZE);
        out[size] = text[size] == '\'' ? '"' : text[size];
    }
    return bytes_make(out, size);
}

struct pool_spec pool_rig_spec(const struct core_rig *rig, const char *rules)
{
    static char kept[64][TEXT_SIZE];
    static unsigned next;
    return (struct pool_spec){
        .result_queue = core_find_queue(rig->core, BYTES("results"))->id,
        .matcher = MATCHER_EXTERNAL,
        .retention_s = 86400,
        .rules = quoted(rules, kept[next++ % ARRAY_LENGTH(kept)]),
    };
}

struct ticket_pool *pool_rig_put(struct core_rig *rig, const char *name, const struct pool_spec *spec)
{
    struct ticket_pool *pool;
    enum error error = decide_put_pool(core_rig_begin(rig), bytes_from_string(name), spec, &pool);
    core_rig_end(rig);
    ASSERT(error == OK);
    return pool;
}

/* --- tickets ------------------------------------------------------------------------------------------------------ */

static yyjson_doc *parse(const char *json)
{
    char text[TEXT_SIZE];
    struct bytes view = quoted(json == NULL ? "{}" : json, text);
    yyjson_doc *doc = yyjson_read((const char *)view.ptr, view.size, 0);
    ASSERT(doc != NULL);
    return doc;
}

static void encode_facts(const struct ticket_pool *pool, const char *attributes, const char *need, struct buffer *out)
{
    yyjson_doc *said = parse(attributes), *needed = parse(need);
    struct failure failure;
    enum error error =
        facts_encode(pool->rules_owned, yyjson_doc_get_root(said), yyjson_doc_get_root(needed), out, &failure);
    ASSERT(error == OK);
    yyjson_doc_free(said);
    yyjson_doc_free(needed);
}

static struct bytes optional(const char *text)
{
    return text == NULL ? (struct bytes){0} : bytes_from_string(text);
}

uint32_t pool_rig_offer(struct core_rig *rig, struct ticket_pool *pool, const struct pool_rig_ticket *ticket)
{
    char attributes[TEXT_SIZE];
    struct buffer facts;
    buffer_init(&facts);
    encode_facts(pool, ticket->attributes, ticket->need, &facts);
    const struct offer_command command = {
        .key = bytes_from_string(ticket->key),
        .set = optional(ticket->set),
        .content = {.attributes =
                        ticket->attributes == NULL ? (struct bytes){0} : quoted(ticket->attributes, attributes),
                    .facts = buffer_bytes(&facts),
                    .body = optional(ticket->body),
                    .has_body = ticket->body != NULL},
        .weight = ticket->weight == 0 ? 1 : ticket->weight,
        .ttl_s = ticket->ttl_s,
        .ttl_ms = ticket->ttl_s == 0 ? UINT64_MAX : (uint64_t)ticket->ttl_s * 1000,
        .priority = ticket->priority,
    };
    uint32_t slot;
    bool is_known;
    enum error error = decide_offer(core_rig_begin(rig), pool, &command, &slot, &is_known);
    decide_match(rig->core, pool, MATCHER_PROBE_MAX);
    core_rig_end(rig);
    buffer_deinit(&facts);
    return error == OK ? slot : 0;
}

struct ticket *pool_rig_ticket(const struct ticket_pool *pool, const char *key)
{
    return ticket_at(&pool->tickets, ticket_find(pool, bytes_from_string(key)));
}

enum ticket_outcome pool_rig_update(struct core_rig *rig, struct ticket_pool *pool, const char *key,
                                    const char *attributes)
{
    char text[TEXT_SIZE];
    struct buffer facts;
    buffer_init(&facts);
    encode_facts(pool, attributes, NULL, &facts);
    enum ticket_outcome outcome =
        decide_update_ticket(core_rig_begin(rig), pool, ticket_find(pool, bytes_from_string(key)), 0,
                             buffer_bytes(&facts), quoted(attributes, text));
    core_rig_end(rig);
    buffer_deinit(&facts);
    return outcome;
}

enum ticket_outcome pool_rig_cancel(struct core_rig *rig, struct ticket_pool *pool, const char *key)
{
    enum ticket_outcome outcome =
        decide_cancel_ticket(core_rig_begin(rig), pool, ticket_find(pool, bytes_from_string(key)));
    core_rig_end(rig);
    return outcome;
}

/* --- matches ------------------------------------------------------------------------------------------------------ */

enum proposal_status pool_rig_propose_with(struct core_rig *rig, struct ticket_pool *pool, const char *proposal,
                                           const char *members, const char *body, uint32_t rules_version,
                                           struct proposal_result *result)
{
    struct proposed_member proposed[RULES_WEIGHT_MAX];
    uint32_t count = 0;
    while (*members != 0) {
        char *end;
        size_t size = strcspn(members, ":");
        ASSERT(members[size] == ':' && count < RULES_WEIGHT_MAX);
        proposed[count].key = bytes_make(members, size);
        proposed[count++].version = (uint32_t)strtoul(members + size + 1, &end, 10);
        members = end + strspn(end, " ");
    }
    decide_propose(core_rig_begin(rig), pool,
                   &(struct proposal_command){.proposal = bytes_from_string(proposal),
                                              .members = proposed,
                                              .member_count = count,
                                              .rules_version = rules_version,
                                              .body = optional(body),
                                              .has_body = body != NULL},
                   result);
    core_rig_end(rig);
    return result->status;
}

enum proposal_status pool_rig_propose(struct core_rig *rig, struct ticket_pool *pool, const char *proposal,
                                      const char *members, struct proposal_result *result)
{
    return pool_rig_propose_with(rig, pool, proposal, members, NULL, 0, result);
}

enum match_outcome pool_rig_put_back(struct core_rig *rig, struct ticket_pool *pool, uint64_t match)
{
    enum match_outcome outcome = decide_put_back(core_rig_begin(rig), pool, match);
    core_rig_end(rig);
    return outcome;
}

enum match_outcome pool_rig_confirm(struct core_rig *rig, struct ticket_pool *pool, uint64_t match, const char *key,
                                    bool accepts)
{
    enum match_outcome outcome = decide_confirm(core_rig_begin(rig), pool, match, bytes_from_string(key), accepts);
    core_rig_end(rig);
    return outcome;
}

void pool_rig_pass(struct core_rig *rig, uint64_t ms)
{
    rig->now_ms += ms;
    bool is_more = true;
    while (is_more) {
        is_more = decide_due(core_rig_begin(rig));
        core_rig_end(rig);
    }
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static struct bytes read_log(const struct core_rig *rig, uint64_t position, uint32_t size)
{
    for (size_t i = 0; i < rig->frame_count; i++) {
        const struct core_rig_frame *frame = &rig->frames_owned[i];
        if (position >= frame->position && position < frame->position + frame->size)
            return bytes_make(rig->log.data_owned + frame->offset + (position - frame->position), size);
    }
    ASSERT(false);
    return (struct bytes){0};
}

bool pool_rig_take(struct core_rig *rig, const char *queue, struct content *content, struct handle *handle)
{
    struct received_message messages[RECEIVE_MAX];
    unsigned count;
    enum error error = decide_receive(core_rig_begin(rig), core_find_queue(rig->core, bytes_from_string(queue)), 1,
                                      30000, 120000, messages, &count);
    core_rig_end(rig);
    ASSERT(error == OK);
    if (count == 0)
        return false;
    bool is_good = content_decode(read_log(rig, messages[0].position, messages[0].content_size), content);
    ASSERT(is_good);
    *handle = messages[0].handle;
    return true;
}

enum error pool_rig_delete(struct core_rig *rig, const char *queue, const struct handle *handle)
{
    char text[HANDLE_TEXT_SIZE];
    handle_to_text(core_digest(rig->core), handle, text);
    enum error error = decide_delete(core_rig_begin(rig), core_find_queue(rig->core, bytes_from_string(queue)),
                                     bytes_make(text, sizeof(text)), NULL);
    core_rig_end(rig);
    return error;
}

uint64_t pool_rig_count_messages(const struct core_rig *rig, const char *queue)
{
    return core_message_list(rig->core, core_find_queue(rig->core, bytes_from_string(queue)))->count;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

void pool_rig_check(const struct core_rig *rig)
{
    struct buffer live, again;
    buffer_init(&live);
    buffer_init(&again);
    core_check(rig->core);
    core_rig_encode(rig->core, &live);
    struct core *replayed = core_rig_replay(rig);
    core_check(replayed);
    core_rig_encode(replayed, &again);
    ASSERT(bytes_equal(buffer_bytes(&live), buffer_bytes(&again)));
    core_destroy(replayed);
    struct core *decoded = core_create();
    bool is_decoded = core_bytes_decode(decoded, buffer_bytes(&live));
    ASSERT(is_decoded);
    core_check(decoded);
    core_rig_encode(decoded, &again);
    ASSERT(bytes_equal(buffer_bytes(&live), buffer_bytes(&again)));
    core_destroy(decoded);
    buffer_deinit(&live);
    buffer_deinit(&again);
}
