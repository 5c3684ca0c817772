/* tally pool simulate: shows how rules would match recorded tickets. */
#include "base/assert.h"
#include "matcher/trial.h"
#include "tally/input.h"
#include "tally/pool_arguments.h"
#include <stdlib.h>
#include <string.h>

#define LINES_SIZE_MAX (2u << 30)
#define COMPLAINTS_MAX 5 /* reports about lines that are printed; further ones are counted */

struct settings {
    const char *rules;
    const char *tickets;
    struct option_number until;
    bool tells_matches;
};

static const struct setting settings_table[] = {
    {"rules", offsetof(struct settings, rules)},
    {"tickets", offsetof(struct settings, tickets)},
    {"until", offsetof(struct settings, until)},
    {"matches", offsetof(struct settings, tells_matches)},
};

static const struct {
    double part;
    const char *name;
} quantiles[] = {{0.5, "P50"}, {0.9, "P90"}, {0.99, "P99"}, {1, "Max"}};

/* --- The results
 * ---------------------------------------------------------------------------------------------------- */

static void print_waits(const struct trial *trial, const char *name, uint32_t level)
{
    char text[240];
    if (trial_count(trial, level) == 0)
        return;
    snprintf(text, sizeof text,
             "half within %.3f s, 90%% within %.3f s, 99%% within %.3f s, longest %.3f s (%llu tickets)",
             (double)trial_quantile_ms(trial, level, 0.5) / 1000, (double)trial_quantile_ms(trial, level, 0.9) / 1000,
             (double)trial_quantile_ms(trial, level, 0.99) / 1000, (double)trial_quantile_ms(trial, level, 1) / 1000,
             (unsigned long long)trial_count(trial, level));
    output_field(name, text);
}

static void print_distances(const struct trial *trial)
{
    for (uint32_t i = 0; i < trial->distance_count; i++) {
        struct bytes name = trial->rules->attributes[trial->distances[i].attribute].name;
        char text[160], label[RULES_NAME_SIZE_MAX + 1];
        double mean, most;
        if (!trial_distance(&trial->distances[i], 0.9, &mean, &most))
            continue;
        snprintf(label, sizeof label, "%.*s", BYTES_FORMAT(name));
        snprintf(text, sizeof text, "%.6g apart on average, 90%% at most %.6g", mean, most);
        output_field(label, text);
    }
}

/* For each offered ticket. */
static double for_each(const struct trial *trial, uint64_t count)
{
    uint64_t offered = trial->simulation.offered;
    return offered == 0 ? 0 : (double)count / (double)offered;
}

static void print_text(const struct trial *trial, uint64_t refused)
{
    const struct matcher_counters *counters = &trial->simulation.matcher.counters;
    char text[200];
    output_number("tickets", trial->simulation.offered);
    snprintf(text, sizeof text, "%zu (%.1f %%) in %llu matches", trial_wait_count(trial),
             100 * for_each(trial, trial_wait_count(trial)), (unsigned long long)trial->matches_made);
    output_field("matched", text);
    output_number("expired", trial->expired);
    if (trial->cancelled > 0)
        output_number("cancelled", trial->cancelled);
    output_number("waiting", trial->simulation.tickets.used);
    if (trial->repeated > 0)
        output_number("repeated", trial->repeated);
    if (refused > 0)
        output_number("refused", refused);
    print_waits(trial, "waited", RULES_LEVELS_MAX);
    for (uint32_t level = 0; level < trial->rules->level_count && trial->rules->level_count > 1; level++) {
        char name[24];
        snprintf(name, sizeof name, "  level %u", level);
        print_waits(trial, name, level);
    }
    print_distances(trial);
    snprintf(text, sizeof text, "%.2f looks and %.2f candidates a ticket; %llu stops, %llu failed expressions",
             for_each(trial, counters->probes), for_each(trial, counters->candidates),
             (unsigned long long)counters->budget_stops, (unsigned long long)counters->expression_errors);
    output_field("search", text);
}

static void add_waits(const struct trial *trial, uint32_t level, struct json_body *body, yyjson_mut_val *object)
{
    json_add_number(body, object, "Tickets", trial_count(trial, level));
    for (size_t i = 0; i < ARRAY_LENGTH(quantiles); i++)
        json_add_number(body, object, quantiles[i].name, trial_quantile_ms(trial, level, quantiles[i].part));
}

static void add_distances(const struct trial *trial, struct json_body *body)
{
    yyjson_mut_val *list = json_add_object(body, body->root, "Distances");
    for (uint32_t i = 0; i < trial->distance_count; i++) {
        struct bytes name = trial->rules->attributes[trial->distances[i].attribute].name;
        double mean, most;
        if (!trial_distance(&trial->distances[i], 0.9, &mean, &most))
            continue;
        yyjson_mut_val *object = yyjson_mut_obj(body->doc_owned);
        yyjson_mut_obj_add(list, yyjson_mut_strncpy(body->doc_owned, (const char *)name.ptr, name.size), object);
        yyjson_mut_obj_add_real(body->doc_owned, object, "Mean", mean);
        yyjson_mut_obj_add_real(body->doc_owned, object, "P90", most);
    }
}

static void print_json(const struct trial *trial, uint64_t refused)
{
    const struct matcher_counters *counters = &trial->simulation.matcher.counters;
    struct json_body body;
    json_body_init(&body);
    json_add_number(&body, body.root, "Tickets", trial->simulation.offered);
    json_add_number(&body, body.root, "Refused", refused);
    json_add_number(&body, body.root, "Repeated", trial->repeated);
    json_add_number(&body, body.root, "Matched", trial_wait_count(trial));
    json_add_number(&body, body.root, "Matches", trial->matches_made);
    json_add_number(&body, body.root, "Expired", trial->expired);
    json_add_number(&body, body.root, "Cancelled", trial->cancelled);
    json_add_number(&body, body.root, "Waiting", trial->simulation.tickets.used);
    add_waits(trial, RULES_LEVELS_MAX, &body, json_add_object(&body, body.root, "WaitedMs"));
    yyjson_mut_val *levels = json_add_array(&body, body.root, "Levels");
    for (uint32_t level = 0; level < trial->rules->level_count; level++)
        add_waits(trial, level, &body, json_append_object(&body, levels));
    add_distances(trial, &body);
    json_add_number(&body, body.root, "Probes", counters->probes);
    json_add_number(&body, body.root, "Candidates", counters->candidates);
    json_add_number(&body, body.root, "BudgetStops", counters->budget_stops);
    json_add_number(&body, body.root, "ExpressionErrors", counters->expression_errors);
    output_document(body.doc_owned);
    yyjson_mut_doc_free(body.doc_owned);
}

/* --- The run ------------------------------------------------------------------------------------------------------ */

/* Is it an event of a recorded feed, but not an offer? */
static bool is_passed_over(yyjson_val *line)
{
    const char *type = json_text(line, "Type");
    return type != NULL && strcmp(type, "offer") != 0;
}

/* Offers one line. False if it is not a ticket; the user is told about the first few. */
static bool offer_line(struct trial *trial, const char *line, size_t number, uint64_t refused)
{
    struct failure failure;
    failure_init(&failure);
    yyjson_doc *doc = json_read(line, strlen(line));
    yyjson_val *root = yyjson_doc_get_root(doc);
    bool is_good = true;
    if (root == NULL) {
        failure_set(&failure, ERROR_INVALID_PARAMETER_VALUE, "it is no JSON");
        is_good = false;
    } else if (!is_passed_over(root)) {
        is_good = trial_offer(trial, root, &failure);
    }
    yyjson_doc_free(doc);
    if (!is_good && refused < COMPLAINTS_MAX)
        complain("ticket number %zu: %s", number, failure.text);
    return is_good;
}

static int simulate(const struct invocation *invocation, struct trial *trial, char *text)
{
    uint64_t refused = 0;
    struct lines lines;
    lines_init(&lines, text);
    for (size_t i = 0; i < lines.count; i++)
        if (!offer_line(trial, lines.items_owned[i], i + 1, refused))
            refused++;
    lines_deinit(&lines);
    trial_finish(trial);
    if (invocation->is_json)
        print_json(trial, refused);
    else
        print_text(trial, refused);
    return refused > 0 ? EXIT_REFUSED : EXIT_DONE;
}

static int run_with(struct invocation *invocation, yyjson_val *pool, char *tickets)
{
    const struct settings *settings = invocation->settings;
    struct failure failure;
    failure_init(&failure);
    struct trial trial;
    uint64_t window_ms, ttl_ms;
    size_t size;
    char *text = json_write_value(pool, &size);
    struct rules *rules = text == NULL ? NULL : rules_create(bytes_make(text, size), &failure);
    free(text);
    if (rules == NULL) {
        complain("%s: %s", settings->rules, failure.text);
        return EXIT_USAGE;
    }
    int status = EXIT_USAGE;
    if (pool_arguments_duration(pool, "window", &window_ms) && pool_arguments_duration(pool, "ttl", &ttl_ms)) {
        uint64_t until_ms = settings->until.is_given ? settings->until.value * 1000 + 1 : UINT64_MAX;
        trial_init(&trial, rules, window_ms, ttl_ms, until_ms, settings->tells_matches ? stdout : NULL);
        status = simulate(invocation, &trial, tickets);
        trial_deinit(&trial);
    }
    rules_destroy(rules);
    return status;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct buffer tickets;
    yyjson_doc *pool;
    int status = EXIT_LOCAL;
    if (settings->rules == NULL)
        return complain_usage(invocation, "--rules names the pool's file");
    pool = pool_arguments_read_file(settings->rules);
    buffer_init(&tickets);
    if (pool != NULL && input_read_file(settings->tickets, &tickets, LINES_SIZE_MAX))
        status = run_with(invocation, yyjson_doc_get_root(pool), (char *)tickets.data_owned);
    buffer_deinit(&tickets);
    yyjson_doc_free(pool);
    return status;
}

const struct command command_pool_simulate = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
