/* tally match: a matcher outside of the server. */
#include "base/assert.h"
#include "client/json.h"
#include "tally/errands.h"
#include "tally/output.h"
#include "tally/pool_words.h"
#include "tally/proposals.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURN_MS 100 /* how long mail is waited for, at most: signals and those put aside are looked after between */
#define TURN_BUDGET 65536u /* steps (match/matcher.h), some ten milliseconds: then mail and signals have their turn */
#define RETRY_MS 300
#define REPORT_MS 5000
/* A reader that waits learns of a part that it is to look after only when it asks again: 10 seconds for the lease, and
 * so many more. */
#define FEED_WAIT_S 5
#define IDLE_ANSWERS 2 /* of the feed, without an event, until --once believes that all is done */

struct settings {
    const char *pool;
    const char *rules;
    const char *part;
    struct option_number batch;
    struct option_number flight;
    bool is_once;
};

static const struct setting settings_table[] = {
    {"pool", offsetof(struct settings, pool)},     {"rules", offsetof(struct settings, rules)},
    {"part", offsetof(struct settings, part)},     {"batch", offsetof(struct settings, batch)},
    {"flight", offsetof(struct settings, flight)}, {"once", offsetof(struct settings, is_once)},
};

struct match {
    struct invocation *invocation;
    const struct settings *settings;
    struct errands *errands_owned;
    struct replica replica;
    struct proposals proposals;
    unsigned part, parts;
    uint64_t rules_version; /* 0: they are not the pool's */
    uint64_t read_at;       /* the newest event when they were read: the list, which is read later, has what it did */
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

/* The file's rules; NULL with the user told. */
static struct rules *read_rules(const char *path)
{
    struct failure failure;
    failure_init(&failure);
    yyjson_doc *doc = pool_words_read_file(path);
    size_t size;
    if (doc == NULL)
        return NULL;
    char *text = json_write_value(yyjson_doc_get_root(doc), &size);
    struct rules *rules = text == NULL ? NULL : rules_create(bytes_make(text, size), &failure);
    if (rules == NULL)
        complain("%s: %s", path, failure.text);
    free(text);
    yyjson_doc_free(doc);
    return rules;
}

/* Asks until there is an answer, or, once the errands go, until it is stopped; the body ends. EXIT_DONE, or what to
 * exit with. Without a reply, *reply is empty. */
static int ask(struct match *match, struct json_body *body, const char *target, struct tally_reply *reply)
{
    struct tally_client *client = match->invocation->client;
    char *text = json_write(body->doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    enum tally_status status;
    yyjson_mut_doc_free(body->doc_owned);
    *reply = (struct tally_reply){0};
    if (text == NULL)
        return complain_usage(match->invocation, "the name of the pool is not UTF-8");
    do
        status = tally_call(client, target, text, reply);
    while (match->errands_owned != NULL && errands_repeats(match->errands_owned, tally_client_error(client)) &&
           !is_stopped(match, RETRY_MS));
    free(text);
    return status == TALLY_OK || match->is_over ? EXIT_DONE : invocation_failed(match->invocation, client);
}

/* Asks the server what the pool's rules are. EXIT_DONE, or what to exit with; no rules, if it was stopped before it had
 * them. */
static int ask_rules(struct match *match, struct rules **rules)
{
    struct failure failure;
    failure_init(&failure);
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", match->settings->pool);
    *rules = NULL;
    int status = ask(match, &body, "Tally.DescribePool", &reply);
    if (status != EXIT_DONE || match->is_over)
        return status;
    const char *matcher = json_text(json_root(&reply), "Matcher");
    if (match->errands_owned == NULL && matcher != NULL && strcmp(matcher, "external") != 0)
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
        proposals_begin_epoch(&match->proposals);
        do
            match->status = list_page(match, token);
        while (match->status == EXIT_DONE && *token != '\0' && !is_stopped(match, 0));
    }
    match->is_over = match->is_over || match->status != EXIT_DONE;
}

/* --- Proposals ---------------------------------------------------------------------------------------------------- */

/* Looks for groups and sends them off, a request full at a time, or what there is when the turn is over. Whether it
 * could go on at once. */
static bool propose(struct match *match)
{
    uint32_t budget = TURN_BUDGET;
    enum matcher_outcome outcome = MATCHER_FOUND;
    while (outcome == MATCHER_FOUND && match->proposals.in_flight < match->settings->flight.value) {
        struct batch *batch = batch_create(&match->proposals);
        struct matcher_group group;
        while (batch->count < match->settings->batch.value &&
               (outcome = replica_find(&match->replica, now_ms(), &budget, &group)) == MATCHER_FOUND)
            batch_add(batch, &match->proposals, &group, match->rules_version);
        if (batch->count > 0)
            errands_propose(match->errands_owned, proposals_send(&match->proposals, batch), batch);
        else
            batch_destroy(batch);
    }
    return outcome == MATCHER_TIRED;
}

/* --- Answers ------------------------------------------------------------------------------------------------------ */

static void fail(struct match *match, const struct tally_error *error)
{
    if (!match->is_over)
        match->status = invocation_failed_with(match->invocation, error);
    match->is_over = true;
}

static void take_answer(struct match *match, struct mail *mail)
{
    struct batch *batch = mail->batch;
    uint32_t count = batch->count;
    bool is_good = mail->error.status == TALLY_OK;
    yyjson_val *results = is_good ? yyjson_obj_get(json_root(&mail->reply), "Results") : NULL;
    bool is_answer = proposals_answer(&match->proposals, batch, results, now_ms());
    if (!is_good) {
        fail(match, &mail->error);
    } else if (!is_answer) {
        complain("the server answered %zu of %u proposals", yyjson_arr_size(results), count);
        match->status = EXIT_UNREACHABLE;
        match->is_over = true;
    }
}

/* --- The feed ----------------------------------------------------------------------------------------------------- */

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
    if (!match->is_over && !replica_set_parts(&match->replica, yyjson_obj_get(reply, "SeedParts"))) {
        complain("the server's SeedParts are no parts of %u", match->parts);
        match->status = EXIT_UNREACHABLE;
        match->is_over = true;
    }
}

/* --- Reports ------------------------------------------------------------------------------------------------------ */

static double accepted_share(const struct match *match)
{
    uint64_t answered = 0;
    for (size_t i = 0; i < PROPOSALS_OUTCOMES; i++)
        answered += match->proposals.counts.by_outcome[i];
    return answered == 0 ? 0 : 100 * (double)match->proposals.counts.by_outcome[0] / (double)answered;
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
                         matcher_seed_count(&match->replica.matcher),
                         (unsigned long long)match->proposals.counts.proposals, accepted_share(match));
    add_counts(&line, proposals_outcomes, match->proposals.counts.by_outcome, PROPOSALS_OUTCOMES);
    if (match->proposals.counts.by_outcome[1] + match->proposals.counts.by_outcome[2] > 0) {
        buffer_append_format(&line, "; who was not to be had");
        add_counts(&line, proposals_reasons, match->proposals.counts.by_reason, PROPOSALS_REASONS);
    }
    if (match->replica.not_understood > 0)
        buffer_append_format(&line, "; %llu offers not understood", (unsigned long long)match->replica.not_understood);
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
    json_add_number(&body, body.root, "Proposals", match->proposals.counts.proposals);
    yyjson_mut_val *object = json_add_object(&body, body.root, "Outcomes");
    for (size_t i = 0; i < PROPOSALS_OUTCOMES; i++)
        json_add_number(&body, object, proposals_outcomes[i], match->proposals.counts.by_outcome[i]);
    object = json_add_object(&body, body.root, "ConflictMembers");
    for (size_t i = 0; i < PROPOSALS_REASONS; i++)
        json_add_number(&body, object, proposals_reasons[i], match->proposals.counts.by_reason[i]);
    json_add_number(&body, body.root, "NotUnderstood", match->replica.not_understood);
    output_document(body.doc_owned);
    fflush(stdout);
    yyjson_mut_doc_free(body.doc_owned);
}

/* Now and then, and only if something was proposed since. */
static void report(struct match *match, uint64_t *told)
{
    uint64_t now = now_ms();
    if (now - match->reported_ms < REPORT_MS || match->proposals.counts.proposals == *told)
        return;
    match->reported_ms = now;
    *told = match->proposals.counts.proposals;
    if (match->invocation->is_json)
        print_json(match);
    else
        print_report(match, stderr);
}

/* --- The run ------------------------------------------------------------------------------------------------------ */

static bool is_done(const struct match *match)
{
    return match->settings->is_once && match->proposals.in_flight == 0 && match->idle_answers >= IDLE_ANSWERS &&
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
    replica_init(&match->replica, rules, match->settings->rules != NULL, match->parts);
    proposals_init(&match->proposals, match->settings->pool, &match->replica);
    match->reported_ms = now_ms();
    match->errands_owned = errands_create(&errands);
    if (match->errands_owned == NULL) {
        match->status = EXIT_USAGE;
    } else {
        run_loop(match);
        errands_destroy(match->errands_owned);
        if (match->invocation->is_json)
            print_json(match);
        else
            print_report(match, stdout);
    }
    proposals_deinit(&match->proposals);
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
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
