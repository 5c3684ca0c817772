/* tally match: a matcher outside of the server. */
#include "base/assert.h"
#include "base/list.h"
#include "base/memory.h"
#include "client/json.h"
#include "tally/errands.h"
#include "tally/output.h"
#include "tally/pool_words.h"
#include "tally/replica.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TURN_MS 100 /* how long mail is waited for, at most: signals and those put aside are looked after between */
#define TURN_BUDGET 65536u /* candidates, some ten milliseconds: then mail and signals have their turn */
#define ASIDE_MS 1000      /* after a refusal that asking at once would bring again */
#define STALE_MS 10000     /* the feed brings the newer version long before */
#define RETRY_MS 300
#define REPORT_MS 5000
#define FEED_WAIT_S 20
#define IDLE_ANSWERS 2 /* of the feed, without an event, until --once believes that all is done */

struct settings {
    const char *pool;
    const char *rules;
    const char *part;
    struct option_number batch;
    struct option_number flight;
    bool is_once;
};

static const struct option_row options[] = {
    {"pool", "NAME", "the pool", OPTION_TEXT, offsetof(struct settings, pool), 0, 0, NULL},
    {"rules", "FILE", "match by these rules instead of the pool's", OPTION_TEXT, offsetof(struct settings, rules), 0, 0,
     NULL},
    {"part", "I/N", "look for partners of this share of the tickets, like 1/4; others do the rest", OPTION_TEXT,
     offsetof(struct settings, part), 0, 0, NULL},
    {"batch", "N", "proposals in one request, at most", OPTION_NUMBER, offsetof(struct settings, batch), 1, 100, "100"},
    {"flight", "N", "requests under way at a time, at most", OPTION_NUMBER, offsetof(struct settings, flight), 1,
     PROPOSERS_MAX, "4"},
    {"once", NULL, "end when nothing is left to match", OPTION_FLAG, offsetof(struct settings, is_once), 0, 0, NULL},
};

/* A proposal that is under way: its members as they were proposed. */
struct proposed {
    uint32_t count;
    uint32_t *slots_owned;
    uint64_t *versions_owned;
};

struct batch {
    struct list_link link; /* among those under way */
    uint32_t count;
    struct proposed proposals[100];
    uint32_t epoch; /* of the replica; slots of an older one mean nothing any more */
};

static const char *const outcomes[] = {"matched", "conflict", "stale", "rules", "invalid", "key-reused", "result-full"};
static const char *const reasons[] = {"matched", "held", "cancelled", "expired", "exclusive-set", "stale"};

struct tally_of_match {
    uint64_t proposals;
    uint64_t by_outcome[ARRAY_LENGTH(outcomes)];
    uint64_t by_reason[ARRAY_LENGTH(reasons)]; /* members that a conflict named */
};

struct match {
    struct invocation *invocation;
    const struct settings *settings;
    struct errands *errands_owned;
    struct replica replica;
    struct tally_of_match counts;
    struct list under_way; /* batches */
    char name[24];         /* the beginning of our ProposalIds */
    unsigned part, parts;
    uint64_t attempt;
    uint64_t rules_version; /* 0: they are not the pool's */
    uint64_t
        read_at; /* the newest event of the feed when the pool's rules were read: the list, read later, has what it did */
    uint32_t epoch;
    unsigned in_flight;
    unsigned idle_answers;
    uint64_t reported_ms;
    sigset_t signals; /* which end it, and wait until it asks */
    int status;
    bool is_over;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Has somebody stopped it, or does so within the time? */
static bool is_stopped(struct match *match, uint64_t wait_ms)
{
    const struct timespec wait = {.tv_sec = (time_t)(wait_ms / 1000), .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    match->is_over = match->is_over || sigtimedwait(&match->signals, NULL, &wait) > 0;
    return match->is_over;
}

/* --- Rules and tickets ---------------------------------------------------------------------------------------------- */

/* The rules of CreatePool's members, as the language has them. */
static struct rules *rules_of_pool(yyjson_val *pool, struct failure *failure)
{
    static const char *const rows[][2] = {
        {"attrs", "Attributes"}, {"rules", "Rules"}, {"size", "Size"}, {"teams", "Teams"}, {"pick", "Pick"}};
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    size_t size;
    yyjson_mut_doc_set_root(doc, root);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        yyjson_val *value = yyjson_obj_get(pool, rows[i][1]);
        bool is_double = strcmp(rows[i][0], "size") == 0 && yyjson_obj_get(pool, "Teams") != NULL;
        if (value != NULL && !is_double)
            yyjson_mut_obj_add_val(doc, root, rows[i][0], yyjson_val_mut_copy(doc, value));
    }
    char *text = yyjson_mut_write(doc, YYJSON_WRITE_NOFLAG, &size);
    struct rules *rules = text == NULL ? NULL : rules_create(bytes_make(text, size), failure);
    free(text);
    yyjson_mut_doc_free(doc);
    return rules;
}

/* The file's rules; NULL with the user told. */
static struct rules *read_rules(const char *path)
{
    struct failure failure = {.text = ""};
    yyjson_doc *doc = pool_words_read_file(path);
    size_t size;
    if (doc == NULL)
        return NULL;
    char *text = yyjson_write(doc, YYJSON_WRITE_NOFLAG, &size);
    struct rules *rules = text == NULL ? NULL : rules_create(bytes_make(text, size), &failure);
    if (rules == NULL)
        complain("%s: %s", path, failure.text);
    free(text);
    yyjson_doc_free(doc);
    return rules;
}

/* Asks until there is an answer, or, once the errands go, until it is stopped; the body ends. EXIT_DONE, or what to exit with. Without a reply,
 * *reply is empty. */
static int ask(struct match *match, struct json_body *body, const char *target, struct tally_reply *reply)
{
    struct tally_client *client = match->invocation->client;
    char *text = yyjson_mut_write(body->doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    enum tally_status status;
    yyjson_mut_doc_free(body->doc_owned);
    *reply = (struct tally_reply){0};
    do
        status = tally_call(client, target, text, reply);
    while (match->errands_owned != NULL && errands_repeats(match->errands_owned, tally_client_error(client)) &&
           !is_stopped(match, RETRY_MS));
    free(text);
    return status == TALLY_OK || match->is_over ? EXIT_DONE : invocation_failed(match->invocation, client);
}

/* Asks the server what the pool's rules are. EXIT_DONE, or what to exit with; no rules, if it was stopped before it had them. */
static int ask_rules(struct match *match, struct rules **rules)
{
    struct failure failure = {.text = ""};
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", match->settings->pool);
    *rules = NULL;
    int status = ask(match, &body, "Tally.DescribePool", &reply);
    if (status != EXIT_DONE || match->is_over)
        return status;
    const char *matcher = json_text(json_root(&reply), "Matcher");
    if (match->epoch == 0 && matcher != NULL && strcmp(matcher, "external") != 0)
        complain("note: the server matches %s, too", match->settings->pool);
    if ((*rules = rules_of_pool(json_root(&reply), &failure)) == NULL)
        complain("the rules of %s: %s", match->settings->pool, failure.text);
    match->rules_version = json_number(json_root(&reply), "RulesVersion");
    match->read_at = json_number(json_root(&reply), "Sequence");
    tally_reply_deinit(&reply);
    return *rules == NULL ? EXIT_REFUSED : EXIT_DONE;
}

static int list_page(struct match *match, char token[4096])
{
    struct json_body body;
    struct tally_reply reply;
    size_t i, max;
    yyjson_val *ticket;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", match->settings->pool);
    json_add_text(&body, body.root, "NextToken", *token == '\0' ? NULL : token);
    json_add_number(&body, body.root, "MaxResults", 1000);
    if (match->parts > 0)
        json_add_number(&body, body.root, "Parts", match->parts);
    int status = ask(match, &body, "Tally.ListTickets", &reply);
    if (status != EXIT_DONE || match->is_over)
        return status;
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Tickets"), i, max, ticket)
    {
        replica_apply(&match->replica, ticket, now_ms());
    }
    json_copy(json_root(&reply), "NextToken", token, 4096);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

/* Forgets everything, and reads rules and tickets anew. What is under way is answered for by number only. */
static void read_all(struct match *match)
{
    char token[4096] = "";
    struct rules *rules = NULL;
    match->status = match->settings->rules != NULL ? EXIT_DONE : ask_rules(match, &rules);
    if (match->status == EXIT_DONE && !match->is_over) {
        replica_clear(&match->replica, rules);
        match->epoch++;
        do
            match->status = list_page(match, token);
        while (match->status == EXIT_DONE && *token != '\0' && !is_stopped(match, 0));
    }
    match->is_over = match->is_over || match->status != EXIT_DONE;
}

/* --- Proposals ------------------------------------------------------------------------------------------------------ */

static void add_member(struct match *match, struct json_body *body, yyjson_mut_val *list, uint32_t slot)
{
    const struct replica_ticket *ticket = replica_ticket(&match->replica, slot);
    yyjson_mut_val *member = json_append_object(body, list);
    yyjson_mut_obj_add_strncpy(body->doc_owned, member, "TicketId", (const char *)ticket->key_owned.ptr,
                               ticket->key_owned.size);
    json_add_number(body, member, "Version", ticket->version);
}

static void add_proposal(struct match *match, struct batch *batch, const struct matcher_group *group,
                         struct json_body *body, yyjson_mut_val *list)
{
    struct proposed *proposed = &batch->proposals[batch->count++];
    yyjson_mut_val *proposal = json_append_object(body, list);
    char id[64];
    snprintf(id, sizeof id, "%s-%llu", match->name, (unsigned long long)++match->attempt);
    yyjson_mut_obj_add_strcpy(body->doc_owned, proposal, "ProposalId", id);
    if (match->rules_version > 0)
        json_add_number(body, proposal, "RulesVersion", match->rules_version);
    yyjson_mut_val *members = json_add_array(body, proposal, "Members");
    *proposed = (struct proposed){.count = group->count,
                                  .slots_owned = memory_allocate(group->count * sizeof(uint32_t)),
                                  .versions_owned = memory_allocate(group->count * sizeof(uint64_t))};
    for (uint32_t i = 0; i < group->count; i++) {
        proposed->slots_owned[i] = group->slots[i];
        proposed->versions_owned[i] = replica_ticket(&match->replica, group->slots[i])->version;
        add_member(match, body, members, group->slots[i]);
    }
}

static void free_batch(struct batch *batch)
{
    if (list_is_linked(&batch->link))
        list_remove(&batch->link);
    for (uint32_t i = 0; i < batch->count; i++) {
        free(batch->proposals[i].slots_owned);
        free(batch->proposals[i].versions_owned);
    }
    free(batch);
}

/* Looks for groups and sends them off, a request full at a time, or what there is when the turn is over. Whether it could go on at once. */
static bool propose(struct match *match)
{
    uint32_t budget = TURN_BUDGET;
    enum matcher_outcome outcome = MATCHER_FOUND;
    while (outcome == MATCHER_FOUND && match->in_flight < match->settings->flight.value) {
        struct batch *batch = memory_allocate_zeroed(sizeof *batch);
        struct matcher_group group;
        struct json_body body;
        json_body_init(&body);
        json_add_text(&body, body.root, "PoolName", match->settings->pool);
        yyjson_mut_val *list = json_add_array(&body, body.root, "Proposals");
        batch->epoch = match->epoch;
        while (batch->count < match->settings->batch.value &&
               (outcome = replica_find(&match->replica, now_ms(), &budget, &group)) == MATCHER_FOUND)
            add_proposal(match, batch, &group, &body, list);
        match->counts.proposals += batch->count;
        if (batch->count > 0) {
            errands_propose(match->errands_owned, yyjson_mut_write(body.doc_owned, YYJSON_WRITE_NOFLAG, NULL), batch);
            list_append(&match->under_way, &batch->link);
            match->in_flight++;
        } else {
            free_batch(batch);
        }
        yyjson_mut_doc_free(body.doc_owned);
    }
    return outcome == MATCHER_TIRED;
}

/* --- Answers -------------------------------------------------------------------------------------------------------- */

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
static void settle_member(struct match *match, yyjson_val *result, uint32_t slot, uint64_t version)
{
    const char *status = json_text(result, "Status");
    const char *why = why_of(result, replica_ticket(&match->replica, slot)->key_owned);
    size_t reason = index_of(why, reasons, ARRAY_LENGTH(reasons));
    bool is_conflict = status != NULL && (strcmp(status, "conflict") == 0 || strcmp(status, "stale") == 0);
    bool names_members = yyjson_arr_size(yyjson_obj_get(result, "Members")) > 0;
    uint64_t now = now_ms();
    if (reason < ARRAY_LENGTH(reasons))
        match->counts.by_reason[reason]++;
    if (why != NULL && strcmp(why, "stale") == 0)
        replica_put_aside(&match->replica, slot, version, now + STALE_MS, now);
    else if (why != NULL && strcmp(why, "exclusive-set") != 0)
        replica_drop(&match->replica, slot, version, now); /* it has ended, or is held: the feed says when it is back */
    else if (why == NULL && is_conflict && names_members)
        replica_return(&match->replica, slot, now); /* it was not its fault */
    else
        replica_put_aside(&match->replica, slot, version, now + ASIDE_MS, now);
}

static void settle(struct match *match, const struct proposed *proposed, yyjson_val *result, bool is_known)
{
    size_t outcome = index_of(json_text(result, "Status"), outcomes, ARRAY_LENGTH(outcomes));
    if (outcome < ARRAY_LENGTH(outcomes))
        match->counts.by_outcome[outcome]++;
    for (uint32_t i = 0; i < proposed->count && is_known; i++) {
        uint32_t slot = proposed->slots_owned[i];
        if (outcome == 0)
            replica_drop(&match->replica, slot, proposed->versions_owned[i], now_ms());
        else
            settle_member(match, result, slot, proposed->versions_owned[i]);
    }
}

static void fail(struct match *match, const struct tally_error *error)
{
    if (!match->is_over)
        match->status = invocation_failed_with(match->invocation, error);
    match->is_over = true;
}

static void take_answer(struct match *match, struct mail *mail)
{
    struct batch *batch = mail->batch;
    yyjson_val *results = yyjson_obj_get(json_root(&mail->reply), "Results");
    match->in_flight--;
    if (mail->error.status != TALLY_OK) {
        fail(match, &mail->error);
    } else if (yyjson_arr_size(results) != batch->count) {
        complain("the server answered %zu of %u proposals", yyjson_arr_size(results), batch->count);
        match->status = EXIT_UNREACHABLE;
        match->is_over = true;
    } else {
        for (uint32_t i = 0; i < batch->count; i++)
            settle(match, &batch->proposals[i], yyjson_arr_get(results, i), batch->epoch == match->epoch);
    }
    free_batch(batch);
}

/* --- The feed ------------------------------------------------------------------------------------------------------- */

static void resync(struct match *match, uint64_t next)
{
    read_all(match);
    if (!match->is_over)
        errands_feed_from(match->errands_owned, next);
}

static void take_events(struct match *match, yyjson_val *reply)
{
    yyjson_val *events = yyjson_obj_get(reply, "Events");
    bool has_new_rules = false;
    size_t i, max;
    yyjson_val *event;
    yyjson_arr_foreach(events, i, max, event)
    {
        const char *type = json_text(event, "Type");
        bool is_new = json_number(event, "Sequence") > match->read_at;
        has_new_rules = has_new_rules || (is_new && type != NULL && strcmp(type, "rules") == 0);
        if (is_new || type == NULL || strcmp(type, "widen") != 0) /* else it may be a step of older rules */
            replica_apply(&match->replica, event, now_ms());
    }
    match->idle_answers = yyjson_arr_size(events) == 0 ? match->idle_answers + 1 : 0;
    if (has_new_rules && match->rules_version > 0)
        read_all(match); /* tickets stand otherwise under other rules */
}

static void take_feed(struct match *match, struct mail *mail)
{
    yyjson_val *reply = json_root(&mail->reply);
    if (mail->error.status != TALLY_OK) {
        fail(match, &mail->error);
        return;
    }
    if (json_is_true(reply, "Resync"))
        resync(match, json_number(reply, "Next"));
    else
        take_events(match, reply);
    if (!match->is_over)
        replica_set_parts(&match->replica, yyjson_obj_get(reply, "SeedParts"));
}

/* --- Reports -------------------------------------------------------------------------------------------------------- */

static double accepted_share(const struct match *match)
{
    uint64_t answered = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(outcomes); i++)
        answered += match->counts.by_outcome[i];
    return answered == 0 ? 0 : 100 * (double)match->counts.by_outcome[0] / (double)answered;
}

static void add_counts(struct buffer *line, const char *const words[], const uint64_t *counts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (counts[i] > 0)
            buffer_append_format(line, ", %llu %s", (unsigned long long)counts[i], words[i]);
}

static void print_report(const struct match *match, FILE *out)
{
    struct buffer line;
    buffer_init(&line);
    buffer_append_format(&line, "%u waiting, %u seeds, %llu proposals, %.1f %% accepted", match->replica.matcher.count,
                         matcher_seed_count(&match->replica.matcher), (unsigned long long)match->counts.proposals,
                         accepted_share(match));
    add_counts(&line, outcomes, match->counts.by_outcome, ARRAY_LENGTH(outcomes));
    if (match->counts.by_outcome[1] + match->counts.by_outcome[2] > 0) {
        buffer_append_format(&line, "; who was not to be had");
        add_counts(&line, reasons, match->counts.by_reason, ARRAY_LENGTH(reasons));
    }
    fprintf(out, "%.*s\n", BYTES_FORMAT(buffer_bytes(&line)));
    fflush(out);
    buffer_deinit(&line);
}

static void print_json(const struct match *match)
{
    struct json_body body;
    json_body_init(&body);
    json_add_number(&body, body.root, "Waiting", match->replica.matcher.count);
    json_add_number(&body, body.root, "Seeds", matcher_seed_count(&match->replica.matcher));
    json_add_number(&body, body.root, "Proposals", match->counts.proposals);
    yyjson_mut_val *object = json_add_object(&body, body.root, "Outcomes");
    for (size_t i = 0; i < ARRAY_LENGTH(outcomes); i++)
        json_add_number(&body, object, outcomes[i], match->counts.by_outcome[i]);
    object = json_add_object(&body, body.root, "ConflictMembers");
    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++)
        json_add_number(&body, object, reasons[i], match->counts.by_reason[i]);
    json_add_number(&body, body.root, "NotUnderstood", match->replica.not_understood);
    output_document(body.doc_owned);
    fflush(stdout);
    yyjson_mut_doc_free(body.doc_owned);
}

/* Now and then, and only if something was proposed since. */
static void report(struct match *match, uint64_t *told)
{
    uint64_t now = now_ms();
    if (now - match->reported_ms < REPORT_MS || match->counts.proposals == *told)
        return;
    match->reported_ms = now;
    *told = match->counts.proposals;
    if (match->invocation->is_json)
        print_json(match);
    else
        print_report(match, stderr);
}

/* --- The run -------------------------------------------------------------------------------------------------------- */

static bool is_done(const struct match *match)
{
    return match->settings->is_once && match->in_flight == 0 && match->idle_answers >= IDLE_ANSWERS &&
           match->replica.aside.count == 0 && matcher_seed_count(&match->replica.matcher) == 0;
}

static void take_mail(struct match *match, struct mail *mail)
{
    if (mail->kind == MAIL_FEED)
        take_feed(match, mail);
    else
        take_answer(match, mail);
    mail_destroy(mail);
}

/* Reads what there is before it looks: what is not known costs a conflict. */
static void run_loop(struct match *match)
{
    uint64_t told = 0;
    bool is_searching = false;
    while (!match->is_over) {
        struct mail *mail = errands_take(match->errands_owned, is_searching ? 0 : TURN_MS);
        for (; mail != NULL; mail = match->is_over ? NULL : errands_take(match->errands_owned, 0))
            take_mail(match, mail);
        if (is_stopped(match, 0) || is_done(match))
            return;
        is_searching = propose(match);
        report(match, &told);
    }
}

static bool read_part(const struct settings *settings, struct match *match)
{
    unsigned part, parts;
    char rest;
    if (settings->part == NULL)
        return true;
    if (sscanf(settings->part, "%u/%u%c", &part, &parts, &rest) != 2 || part < 1 || part > parts ||
        parts > REPLICA_PARTS_MAX)
        return false;
    match->part = part - 1;
    match->parts = parts;
    return true;
}

/* A name for our proposals that no other matcher has. */
static void make_name(struct match *match)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t mix = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    mix ^= bytes_hash(bytes_from_string(host)) ^ table_hash_u64((uint64_t)getpid());
    snprintf(match->name, sizeof match->name, "%016llx", (unsigned long long)table_hash_u64(mix));
}

static int run_with(struct match *match, struct rules *rules)
{
    struct errands_options errands = {.invocation = match->invocation,
                                      .pool = match->settings->pool,
                                      .part = match->part,
                                      .parts = match->parts,
                                      .proposers = (unsigned)match->settings->flight.value,
                                      .wait_s = match->settings->is_once ? 1 : FEED_WAIT_S};
    sigemptyset(&match->signals);
    sigaddset(&match->signals, SIGINT);
    sigaddset(&match->signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &match->signals, NULL); /* the threads inherit it: signals wait for the loop */
    replica_init(&match->replica, rules, match->settings->rules != NULL, match->parts > 0);
    list_init(&match->under_way);
    make_name(match);
    match->reported_ms = now_ms();
    match->errands_owned = errands_create(&errands);
    if (match->errands_owned == NULL) {
        match->status = EXIT_USAGE;
    } else {
        run_loop(match);
        errands_destroy(match->errands_owned);
        while (!list_is_empty(&match->under_way))
            free_batch((struct batch *)(void *)list_first(&match->under_way)); /* the link is its first member */
        if (match->invocation->is_json)
            print_json(match);
        else
            print_report(match, stdout);
    }
    replica_deinit(&match->replica);
    return match->status;
}

static int run(struct invocation *invocation)
{
    struct match match = {.invocation = invocation, .settings = invocation->settings};
    struct rules *rules = NULL;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (match.settings->pool == NULL)
        return complain_usage(invocation, "--pool names the pool");
    if (!read_part(match.settings, &match))
        return complain_usage(invocation, "--part is like 1/4, of at most 64, not \"%s\"", match.settings->part);
    status = ask_rules(&match, &rules); /* of the pool, to see that it takes proposals */
    if (status == EXIT_DONE && match.settings->rules != NULL) {
        rules_destroy(rules);
        match.rules_version = 0;
        rules = read_rules(match.settings->rules);
        status = rules == NULL ? EXIT_USAGE : EXIT_DONE;
    }
    if (status == EXIT_DONE && rules->weight == 0) {
        complain("the pool has size 0, which says nothing of how many make a match: give --rules with a size");
        rules_destroy(rules);
        status = EXIT_USAGE;
    }
    return status == EXIT_DONE ? run_with(&match, rules) : status;
}

const struct command command_match = {
    .arguments = "",
    .text =
        "Looks for matches in a pool from outside, with the matcher that the server has: follows the feed, keeps what\n"
        "waits in memory, and proposes what fits. Any number of them may run, anywhere: the server accepts each "
        "ticket\n"
        "once. --part shares out whose partners each one looks for, so that they seldom find the same; when one is "
        "gone\n"
        "for ten seconds, the others look for its tickets too. What is found is proposed at once: the pool's window "
        "is\n"
        "the built-in matcher's. Until it is stopped; prints now and then how many tickets wait, how many proposals "
        "were\n"
        "accepted, and why others were not.\n",
    .examples = "  tally match --pool rides\n"
                "  tally match --pool rides --part 1/4 &  tally match --pool rides --part 2/4 &  # and so on\n"
                "  tally match --pool rides --rules night.json --once --json\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .run = run,
};
