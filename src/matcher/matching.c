#include "matcher/matching.h"

#include "base/assert.h"
#include "client/json.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_MS 100 /* how long answers is waited for, at most: signals and those put aside are looked after between */
#define POLL_STEPS 65536u /* steps (match/matcher.h), some ten milliseconds: then answers and signals have their turn */
#define RETRY_MS 300
#define REPORT_MS 5000
/* A reader that waits learns of a part that it is to look after only when it asks again: 10 seconds for the lease, and
 * so many more. */
#define FEED_WAIT_S 5
#define IDLE_ANSWERS 2 /* of the feed, without an event, until all is believed to be done */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Has somebody stopped it, or does so within the time? */
static bool is_stopped(struct matching *matching, uint64_t wait_ms)
{
    const struct timespec wait = {.tv_sec = (time_t)(wait_ms / 1000), .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    matching->is_over = matching->is_over || sigtimedwait(&matching->signals, NULL, &wait) > 0;
    return matching->is_over;
}

/* --- Rules and tickets -------------------------------------------------------------------------------------------- */

/* The rules of CreatePool's members, as the language has them. */
static struct rules *rules_of_pool(yyjson_val *pool, struct failure *failure)
{
    static const char *const rows[][2] = {
        {"attrs", "Attributes"}, {"rules", "Rules"}, {"size", "Size"}, {"teams", "Teams"}, {"pick", "Pick"}};
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    size_t size;
    yyjson_mut_doc_set_root(doc, root);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        yyjson_val *value = yyjson_obj_get(pool, rows[i][1]);
        bool is_double = strcmp(rows[i][0], "size") == 0 && yyjson_obj_get(pool, "Teams") != NULL;
        if (value != NULL && !is_double)
            yyjson_mut_obj_add_val(doc, root, rows[i][0], yyjson_val_mut_copy(doc, value));
    }
    char *text = json_write(doc, YYJSON_WRITE_NOFLAG, &size);
    struct rules *rules = text == NULL ? NULL : rules_create(bytes_make(text, size), failure);
    free(text);
    yyjson_mut_doc_free(doc);
    return rules;
}

/* It is over; the first reason counts. Returns false. */
static bool fail(struct matching *matching, enum matching_end end, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool fail(struct matching *matching, enum matching_end end, const char *format, ...)
{
    va_list arguments;
    if (matching->is_over)
        return false;
    matching->is_over = true;
    matching->end = end;
    va_start(arguments, format);
    vsnprintf(matching->error.message, sizeof matching->error.message, format, arguments);
    va_end(arguments);
    return false;
}

static bool fail_with(struct matching *matching, const struct tally_error *error)
{
    if (matching->is_over)
        return false;
    matching->is_over = true;
    matching->end = MATCHING_REFUSED;
    matching->error = *error;
    return false;
}

/* Asks until there is an answer, or, once the calls go, until it is stopped; the body ends. False: there is none, and
 * it is over. */
static bool ask(struct matching *matching, struct json_body *body, const char *target, struct tally_reply *reply)
{
    struct tally_client *client = matching->options.client;
    char *text = json_write(body->doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    enum tally_status status;
    yyjson_mut_doc_free(body->doc_owned);
    if (text == NULL)
        return fail(matching, MATCHING_NO_TEXT, "the name of the pool is not UTF-8");
    do
        status = tally_call(client, target, text, reply);
    while (matching->calls_owned != NULL && async_calls_repeats(matching->calls_owned, tally_client_error(client)) &&
           !is_stopped(matching, RETRY_MS));
    free(text);
    return status == TALLY_OK || fail_with(matching, tally_client_error(client));
}

/* Asks the server what the pool's rules are; NULL: it is over. */
static struct rules *ask_rules(struct matching *matching)
{
    const char *pool = matching->options.calls.pool;
    struct failure failure;
    struct json_body body;
    struct tally_reply reply;
    failure_init(&failure);
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", pool);
    if (!ask(matching, &body, "Tally.DescribePool", &reply))
        return NULL;
    const char *matcher = json_text(json_root(&reply), "Matcher");
    if (matching->calls_owned == NULL && matcher != NULL && strcmp(matcher, "external") != 0) {
        char note[300];
        snprintf(note, sizeof note, "note: the server matches %s, too", pool);
        matching->options.calls.note(matching->options.calls.context, note);
    }
    struct rules *rules = rules_of_pool(json_root(&reply), &failure);
    if (rules == NULL)
        fail(matching, MATCHING_NO_RULES, "the rules of %s: %s", pool, failure.text);
    matching->rules_version = json_number(json_root(&reply), "RulesVersion");
    matching->read_at = json_number(json_root(&reply), "Sequence");
    tally_reply_deinit(&reply);
    return rules;
}

static bool list_page(struct matching *matching, char token[4096])
{
    struct json_body body;
    struct tally_reply reply;
    size_t i, max;
    yyjson_val *ticket;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", matching->options.calls.pool);
    json_add_text(&body, body.root, "NextToken", *token == '\0' ? NULL : token);
    json_add_number(&body, body.root, "MaxResults", 1000);
    if (matching->options.calls.parts > 0)
        json_add_number(&body, body.root, "Parts", matching->options.calls.parts);
    if (!ask(matching, &body, "Tally.ListTickets", &reply))
        return false;
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Tickets"), i, max, ticket)
    {
        pool_copy_apply(&matching->copy, ticket, now_ms());
    }
    json_copy(json_root(&reply), "NextToken", token, 4096);
    tally_reply_deinit(&reply);
    return true;
}

/* Forgets everything, and reads rules and tickets anew. What is under way is answered for by number only. */
static void read_all(struct matching *matching)
{
    char token[4096] = "";
    struct rules *rules = matching->has_own_rules ? NULL : ask_rules(matching);
    if (matching->is_over) {
        rules_destroy(rules);
        return;
    }
    pool_copy_clear(&matching->copy, rules);
    proposals_begin_epoch(&matching->proposals);
    while (list_page(matching, token) && *token != '\0' && !is_stopped(matching, 0))
        continue;
}

/* --- Proposals ---------------------------------------------------------------------------------------------------- */

/* Looks for groups and sends them off, a request full at a time, or what there is when the turn is over. Whether it
 * could go on at once. */
static bool propose(struct matching *matching)
{
    uint32_t budget = POLL_STEPS;
    enum matcher_outcome outcome = MATCHER_FOUND;
    while (outcome == MATCHER_FOUND && matching->proposals.in_flight < matching->options.calls.proposers) {
        struct batch *batch = batch_create(&matching->proposals);
        struct matcher_group group;
        while (batch->count < matching->options.batch &&
               (outcome = pool_copy_find(&matching->copy, now_ms(), &budget, &group)) == MATCHER_FOUND)
            batch_add(batch, &matching->proposals, &group, matching->rules_version);
        if (batch->count > 0)
            async_calls_propose(matching->calls_owned, proposals_send(&matching->proposals, batch), batch);
        else
            batch_destroy(batch);
    }
    return outcome == MATCHER_TIRED;
}

/* --- Answers ------------------------------------------------------------------------------------------------------ */

static void take_answer(struct matching *matching, struct call_answer *answer)
{
    struct batch *batch = answer->batch;
    uint32_t count = batch->count;
    bool is_good = answer->error.status == TALLY_OK;
    yyjson_val *results = is_good ? yyjson_obj_get(json_root(&answer->reply), "Results") : NULL;
    bool is_answer = proposals_answer(&matching->proposals, batch, results, now_ms());
    if (!is_good)
        fail_with(matching, &answer->error);
    else if (!is_answer)
        fail(matching, MATCHING_NO_ANSWER, "the server answered %zu of %u proposals", yyjson_arr_size(results), count);
}

/* --- The feed ----------------------------------------------------------------------------------------------------- */

static void resync(struct matching *matching, uint64_t next)
{
    read_all(matching);
    if (!matching->is_over)
        async_calls_feed_from(matching->calls_owned, next);
}

static void take_events(struct matching *matching, yyjson_val *reply)
{
    yyjson_val *events = yyjson_obj_get(reply, "Events");
    bool has_new_rules = false;
    size_t i, max;
    yyjson_val *event;
    yyjson_arr_foreach(events, i, max, event)
    {
        const char *type = json_text(event, "Type");
        bool is_new = json_number(event, "Sequence") > matching->read_at;
        has_new_rules = has_new_rules || (is_new && type != NULL && strcmp(type, "rules") == 0);
        if (is_new || type == NULL || strcmp(type, "widen") != 0) /* else it may be a step of older rules */
            pool_copy_apply(&matching->copy, event, now_ms());
    }
    matching->idle_answers = yyjson_arr_size(events) == 0 ? matching->idle_answers + 1 : 0;
    if (has_new_rules && matching->rules_version > 0)
        read_all(matching); /* tickets stand otherwise under other rules */
}

static void take_feed(struct matching *matching, struct call_answer *answer)
{
    yyjson_val *reply = json_root(&answer->reply);
    if (answer->error.status != TALLY_OK) {
        fail_with(matching, &answer->error);
        return;
    }
    if (json_is_true(reply, "Resync"))
        resync(matching, json_number(reply, "Next"));
    else
        take_events(matching, reply);
    if (!matching->is_over && !pool_copy_set_parts(&matching->copy, yyjson_obj_get(reply, "SeedParts")))
        fail(matching, MATCHING_NO_ANSWER, "the server's SeedParts are no parts of %u", matching->options.calls.parts);
}

/* --- The run ------------------------------------------------------------------------------------------------------ */

/* Now and then, and only if something was proposed since. */
static void report(struct matching *matching, uint64_t *told)
{
    uint64_t now = now_ms();
    if (now - matching->reported_ms < REPORT_MS || matching->proposals.counts.proposals == *told)
        return;
    matching->reported_ms = now;
    *told = matching->proposals.counts.proposals;
    matching->options.report(matching->options.calls.context, matching);
}

static bool is_done(const struct matching *matching)
{
    return matching->options.is_once && matching->proposals.in_flight == 0 && matching->idle_answers >= IDLE_ANSWERS &&
           matching->copy.aside.count == 0 && matcher_seed_count(&matching->copy.matcher) == 0;
}

static void take_call_answer(struct matching *matching, struct call_answer *answer)
{
    if (answer->kind == ANSWER_FEED)
        take_feed(matching, answer);
    else
        take_answer(matching, answer);
    call_answer_destroy(answer);
}

/* Reads what there is before it looks: what is not known costs a conflict. */
static void run_loop(struct matching *matching)
{
    uint64_t told = 0;
    bool is_searching = false;
    while (!matching->is_over) {
        struct call_answer *answer = async_calls_take(matching->calls_owned, is_searching ? 0 : POLL_MS);
        for (; answer != NULL; answer = matching->is_over ? NULL : async_calls_take(matching->calls_owned, 0))
            take_call_answer(matching, answer);
        if (is_stopped(matching, 0) || is_done(matching))
            return;
        is_searching = propose(matching);
        report(matching, &told);
    }
}

bool matching_init(struct matching *matching, const struct matching_options *options)
{
    *matching = (struct matching){.options = *options};
    proposals_init(&matching->proposals, options->calls.pool, &matching->copy);
    matching->rules_owned = ask_rules(matching);
    return matching->rules_owned != NULL;
}

void matching_use_rules(struct matching *matching, struct rules *rules)
{
    rules_destroy(matching->rules_owned);
    matching->rules_owned = rules;
    matching->has_own_rules = true;
    matching->rules_version = 0;
}

void matching_run(struct matching *matching)
{
    ASSERT(matching->rules_owned != NULL);
    sigemptyset(&matching->signals);
    sigaddset(&matching->signals, SIGINT);
    sigaddset(&matching->signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &matching->signals, NULL); /* the threads inherit it: signals wait for the loop */
    pool_copy_init(&matching->copy, matching->rules_owned, matching->has_own_rules, matching->options.calls.parts);
    matching->rules_owned = NULL;
    matching->is_replica_there = true;
    matching->reported_ms = now_ms();
    matching->options.calls.wait_s = matching->options.is_once ? 1 : FEED_WAIT_S;
    matching->calls_owned = async_calls_create(&matching->options.calls);
    if (matching->calls_owned == NULL) {
        fail(matching, MATCHING_NO_CLIENT, "there is no client");
        return;
    }
    run_loop(matching);
    async_calls_destroy(matching->calls_owned);
    matching->calls_owned = NULL;
}

void matching_deinit(struct matching *matching)
{
    proposals_deinit(&matching->proposals);
    if (matching->is_replica_there)
        pool_copy_deinit(&matching->copy);
    rules_destroy(matching->rules_owned);
}
