/* tally match: a matcher outside of the server. src/matcher does the work. This file starts it and reports the
 * results. */
#include "base/assert.h"
#include "matcher/matching.h"
#include "tally/output.h"
#include "tally/pool_arguments.h"
#include <stdio.h>
#include <stdlib.h>

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

/* --- Reports ------------------------------------------------------------------------------------------------------ */

static double accepted_share(const struct matching *matching)
{
    uint64_t answered = 0;
    for (size_t i = 0; i < PROPOSALS_OUTCOMES; i++)
        answered += matching->proposals.counts.by_outcome[i];
    return answered == 0 ? 0 : 100 * (double)matching->proposals.counts.by_outcome[0] / (double)answered;
}

static void add_counts(struct buffer *line, const char *const words[], const uint64_t *counts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (counts[i] > 0)
            buffer_append_format(line, ", %llu %s", (unsigned long long)counts[i], words[i]);
}

static void print_report(const struct matching *matching, FILE *out)
{
    struct buffer line;
    buffer_init(&line);
    buffer_append_format(&line, "%u waiting, %u seeds, %llu proposals, %.1f %% accepted", matching->copy.matcher.count,
                         matcher_seed_count(&matching->copy.matcher),
                         (unsigned long long)matching->proposals.counts.proposals, accepted_share(matching));
    add_counts(&line, proposals_outcomes, matching->proposals.counts.by_outcome, PROPOSALS_OUTCOMES);
    if (matching->proposals.counts.by_outcome[1] + matching->proposals.counts.by_outcome[2] > 0) {
        buffer_append_format(&line, "; who was not to be had");
        add_counts(&line, proposals_reasons, matching->proposals.counts.by_reason, PROPOSALS_REASONS);
    }
    if (matching->copy.not_understood > 0)
        buffer_append_format(&line, "; %llu offers not understood", (unsigned long long)matching->copy.not_understood);
    fprintf(out, "%.*s\n", BYTES_FORMAT(buffer_bytes(&line)));
    fflush(out);
    buffer_deinit(&line);
}

static void print_json(const struct matching *matching)
{
    struct json_body body;
    json_body_init(&body);
    json_add_number(&body, body.root, "Waiting", matching->copy.matcher.count);
    json_add_number(&body, body.root, "Seeds", matcher_seed_count(&matching->copy.matcher));
    json_add_number(&body, body.root, "Proposals", matching->proposals.counts.proposals);
    yyjson_mut_val *object = json_add_object(&body, body.root, "Outcomes");
    for (size_t i = 0; i < PROPOSALS_OUTCOMES; i++)
        json_add_number(&body, object, proposals_outcomes[i], matching->proposals.counts.by_outcome[i]);
    object = json_add_object(&body, body.root, "ConflictMembers");
    for (size_t i = 0; i < PROPOSALS_REASONS; i++)
        json_add_number(&body, object, proposals_reasons[i], matching->proposals.counts.by_reason[i]);
    json_add_number(&body, body.root, "NotUnderstood", matching->copy.not_understood);
    output_document(body.doc_owned);
    fflush(stdout);
    yyjson_mut_doc_free(body.doc_owned);
}

static void report(void *context, const struct matching *matching)
{
    const struct invocation *invocation = context;
    if (invocation->is_json)
        print_json(matching);
    else
        print_report(matching, stderr);
}

/* --- The run ------------------------------------------------------------------------------------------------------ */

/* The file's rules; NULL after telling the user. */
static struct rules *read_rules(const char *path)
{
    struct failure failure;
    failure_init(&failure);
    yyjson_doc *doc = pool_arguments_read_file(path);
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

/* Tells the user why it ended, unless all is done; returns the exit status. */
static int report_end(const struct invocation *invocation, const struct matching *matching)
{
    switch (matching->end) {
    case MATCHING_DONE:
        return EXIT_DONE;
    case MATCHING_REFUSED:
        return invocation_failed_with(invocation, &matching->error);
    case MATCHING_NO_TEXT:
        return complain_usage(invocation, "%s", matching->error.message);
    case MATCHING_NO_CLIENT:
        return EXIT_USAGE;
    case MATCHING_NO_RULES:
    case MATCHING_NO_ANSWER:
        complain("%s", matching->error.message);
    }
    return matching->end == MATCHING_NO_RULES ? EXIT_REFUSED : EXIT_UNREACHABLE;
}

/* The rules of --rules. EXIT_DONE, or the exit status. */
static int use_rules(const struct settings *settings, struct matching *matching)
{
    if (settings->rules != NULL) {
        struct rules *rules = read_rules(settings->rules);
        if (rules == NULL)
            return EXIT_USAGE;
        matching_use_rules(matching, rules);
    }
    if (matching->rules_owned->weight > 0)
        return EXIT_DONE;
    complain("the pool has size 0, which says nothing of how many make a match: give --rules with a size");
    return EXIT_USAGE;
}

static int match(const struct invocation *invocation, const struct matching_options *options)
{
    struct matching matching;
    int status = matching_init(&matching, options) ? use_rules(invocation->settings, &matching)
                                                   : report_end(invocation, &matching);
    if (status == EXIT_DONE) {
        matching_run(&matching);
        status = report_end(invocation, &matching);
        if (matching.end != MATCHING_NO_CLIENT && invocation->is_json)
            print_json(&matching);
        else if (matching.end != MATCHING_NO_CLIENT)
            print_report(&matching, stdout);
    }
    matching_deinit(&matching);
    return status;
}

static bool read_part(const char *text, struct async_calls_options *options)
{
    unsigned part, parts;
    char rest;
    if (text == NULL)
        return true;
    if (sscanf(text, "%u/%u%c", &part, &parts, &rest) != 2 || part < 1 || part > parts || parts > POOL_COPY_PARTS_MAX)
        return false;
    options->part = part - 1;
    options->parts = parts;
    return true;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct matching_options options = {.calls = {.connect = invocation_connect_thread,
                                                 .note = invocation_note,
                                                 .context = invocation,
                                                 .pool = settings->pool,
                                                 .proposers = (unsigned)settings->flight.value},
                                       .batch = (unsigned)settings->batch.value,
                                       .is_once = settings->is_once,
                                       .report = report};
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    options.client = invocation->client;
    if (settings->pool == NULL)
        return complain_usage(invocation, "--pool names the pool");
    if (!read_part(settings->part, &options.calls))
        return complain_usage(invocation, "--part is like 1/4, of at most 64, not \"%s\"", settings->part);
    return match(invocation, &options);
}

const struct command command_match = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
