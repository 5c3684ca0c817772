#include "matcher/trial.h"

#include "base/memory.h"
#include "client/json.h"
#include <stdlib.h>

#define BUDGET 4096u

/* --- What is kept of a match -------------------------------------------------------------------------------------- */

/* How far the members are apart in an attribute; false if one of them doesn't have it. */
static bool measure(const struct simulation *simulation, const struct matcher_group *group, uint32_t attribute,
                    double *distance)
{
    double least = 0, most = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct fact *fact = facts_at(simulation_ticket(simulation, group->slots[i])->entry.facts, attribute);
        if (!fact->is_there)
            return false;
        least = i == 0 || fact->number < least ? fact->number : least;
        most = i == 0 || fact->number > most ? fact->number : most;
    }
    *distance = most - least;
    return true;
}

static const char *key_of(const struct trial *trial, uint64_t number)
{
    return ((char *const *)(const void *)trial->keys.data_owned)[number - 1];
}

static void report_match(const struct trial *trial, const struct matcher_group *group)
{
    const struct simulation *simulation = &trial->simulation;
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_real(doc, root, "t", (double)simulation->now_ms / 1000);
    yyjson_mut_val *members = yyjson_mut_obj_add_arr(doc, root, "members");
    for (uint32_t i = 0; i < group->count; i++) {
        const struct entry *entry = &simulation_ticket(simulation, group->slots[i])->entry;
        yyjson_mut_val *member = yyjson_mut_arr_add_obj(doc, members);
        yyjson_mut_obj_add_str(doc, member, "ticket", key_of(trial, entry->number));
        if (trial->rules->has_teams) {
            struct bytes team = trial->rules->teams[group->teams[i]].name;
            yyjson_mut_obj_add_strn(doc, member, "team", (const char *)team.ptr, team.size);
        }
        yyjson_mut_obj_add_uint(doc, member, "waitedMs", simulation->now_ms - entry->offered_at_ms);
    }
    char *text = json_write(doc, YYJSON_WRITE_NOFLAG, NULL);
    if (text != NULL)
        fprintf(trial->matches, "%s\n", text);
    free(text);
    yyjson_mut_doc_free(doc);
}

static void on_match(void *context, const struct simulation *simulation, const struct matcher_group *group)
{
    struct trial *trial = context;
    trial->matches_made++;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct entry *entry = &simulation_ticket(simulation, group->slots[i])->entry;
        struct trial_wait wait = {.ms = simulation->now_ms - entry->offered_at_ms, .level = entry->level};
        buffer_append(&trial->waits, &wait, sizeof wait);
    }
    for (uint32_t i = 0; i < trial->distance_count; i++) {
        double distance;
        if (measure(simulation, group, trial->distances[i].attribute, &distance))
            buffer_append(&trial->distances[i].values, &distance, sizeof distance);
    }
    if (trial->matches != NULL)
        report_match(trial, group);
}

static void on_end(void *context, const struct simulation *simulation, uint32_t slot, enum simulation_end end)
{
    struct trial *trial = context;
    (void)simulation;
    (void)slot;
    if (end == SIMULATION_EXPIRED)
        trial->expired++;
    else
        trial->cancelled++;
}

/* --- The run ------------------------------------------------------------------------------------------------------ */

static void add_distance(struct trial *trial, uint32_t attribute)
{
    for (uint32_t i = 0; i < trial->distance_count; i++)
        if (trial->distances[i].attribute == attribute)
            return;
    trial->distances[trial->distance_count++] = (struct trial_distances){.attribute = attribute};
}

void trial_init(struct trial *trial, const struct rules *rules, uint64_t window_ms, uint64_t ttl_ms, uint64_t until_ms,
                FILE *matches)
{
    struct simulation_watcher watcher = {.context = trial, .matched = on_match, .ended = on_end};
    *trial = (struct trial){.rules = rules, .matches = matches, .until_ms = until_ms};
    table_init(&trial->key_numbers);
    simulation_init(&trial->simulation, rules, window_ms, ttl_ms, BUDGET, &watcher);
    for (uint32_t i = 0; i < rules->rule_count; i++)
        if (rules->rules[i].type == RULE_NEAR)
            add_distance(trial, rules->rules[i].attribute);
    if (rules->pick == PICK_NEAREST)
        add_distance(trial, rules->pick_attribute);
}

void trial_deinit(struct trial *trial)
{
    for (size_t i = 0; i < trial->keys.size / sizeof(char *); i++)
        free((char *)(uintptr_t)key_of(trial, i + 1));
    for (uint32_t i = 0; i < trial->distance_count; i++)
        buffer_deinit(&trial->distances[i].values);
    buffer_deinit(&trial->keys);
    table_deinit(&trial->key_numbers);
    buffer_deinit(&trial->waits);
    simulation_deinit(&trial->simulation);
}

/* NULL: the line has none. */
static const char *key_in(yyjson_val *line)
{
    const char *key = json_text(line, "key");
    return key != NULL ? key : json_text(line, "TicketId");
}

static uint64_t key_hash(const char *key)
{
    return bytes_hash(bytes_from_string(key));
}

static bool is_repeated(const struct trial *trial, yyjson_val *line)
{
    const char *key = key_in(line);
    if (key == NULL)
        return false;
    struct table_probe probe = table_probe_start(&trial->key_numbers, key_hash(key));
    while (table_probe_next(&trial->key_numbers, &probe))
        if (strcmp(key_of(trial, probe.slot), key) == 0)
            return true;
    return false;
}

/* Keeps the ticket's name: its key, or its number. */
static void keep_key(struct trial *trial, yyjson_val *line)
{
    const char *key = key_in(line);
    uint32_t number = (uint32_t)trial->simulation.offered + 1;
    char *text = key != NULL ? memory_duplicate_string(key) : memory_allocate(24);
    if (key == NULL)
        snprintf(text, 24, "%u", number);
    else
        table_insert(&trial->key_numbers, key_hash(key), number);
    buffer_append(&trial->keys, &text, sizeof text);
}

static void forget_newest_key(struct trial *trial, yyjson_val *line)
{
    size_t count = trial->keys.size / sizeof(char *);
    if (key_in(line) != NULL)
        table_remove(&trial->key_numbers, key_hash(key_in(line)), (uint32_t)count);
    free((char *)(uintptr_t)key_of(trial, count));
    buffer_truncate(&trial->keys, (count - 1) * sizeof(char *));
}

bool trial_offer(struct trial *trial, yyjson_val *line, struct failure *failure)
{
    struct simulation_offer offer;
    if (!simulation_read(line, &offer, failure))
        return false;
    if (offer.at_ms >= trial->until_ms)
        return true;
    if (is_repeated(trial, line)) {
        trial->repeated++;
        return true;
    }
    keep_key(trial, line); /* it may be matched at once */
    simulation_advance(&trial->simulation, offer.at_ms);
    if (!simulation_offer(&trial->simulation, &offer, failure)) {
        forget_newest_key(trial, line);
        return false;
    }
    return true;
}

static int compare_waits(const void *a, const void *b)
{
    uint64_t left = ((const struct trial_wait *)a)->ms, right = ((const struct trial_wait *)b)->ms;
    return left < right ? -1 : left > right;
}

static int compare_numbers(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

void trial_finish(struct trial *trial)
{
    simulation_advance(&trial->simulation, trial->until_ms);
    if (trial->waits.size > 0)
        qsort(trial->waits.data_owned, trial_wait_count(trial), sizeof(struct trial_wait), compare_waits);
    for (uint32_t i = 0; i < trial->distance_count; i++) {
        struct buffer *values = &trial->distances[i].values;
        if (values->size > 0)
            qsort(values->data_owned, values->size / sizeof(double), sizeof(double), compare_numbers);
    }
}

/* --- What came of it ---------------------------------------------------------------------------------------------- */

size_t trial_wait_count(const struct trial *trial)
{
    return trial->waits.size / sizeof(struct trial_wait);
}

static const struct trial_wait *waits_of(const struct trial *trial)
{
    return (const void *)trial->waits.data_owned;
}

static bool counts(const struct trial_wait *wait, uint32_t level)
{
    return level == RULES_LEVELS_MAX || wait->level == level;
}

uint64_t trial_count(const struct trial *trial, uint32_t level)
{
    uint64_t count = 0;
    for (size_t i = 0; i < trial_wait_count(trial); i++)
        count += counts(&waits_of(trial)[i], level);
    return count;
}

/* The place, from 1, of a quantile among `count` values in order: the nearest rank. */
static uint64_t rank_of(uint64_t count, double part)
{
    double exact = part * (double)count;
    uint64_t rank = (uint64_t)exact;
    if ((double)rank < exact)
        rank++;
    return rank == 0 ? 1 : rank;
}

uint64_t trial_quantile_ms(const struct trial *trial, uint32_t level, double part)
{
    uint64_t left = rank_of(trial_count(trial, level), part);
    for (size_t i = 0; i < trial_wait_count(trial); i++)
        if (counts(&waits_of(trial)[i], level) && --left == 0)
            return waits_of(trial)[i].ms;
    return 0;
}

bool trial_distance(const struct trial_distances *distances, double part, double *mean, double *quantile)
{
    const double *values = (const void *)distances->values.data_owned;
    size_t count = distances->values.size / sizeof(double);
    double sum = 0;
    if (count == 0)
        return false;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    *mean = sum / (double)count;
    *quantile = values[rank_of(count, part) - 1];
    return true;
}
