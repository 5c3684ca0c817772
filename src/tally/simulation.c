#include "tally/simulation.h"

#include "base/memory.h"
#include "client/json.h"
#include <stdlib.h>

#define BUDGET 4096u

/* --- What is kept of a match -------------------------------------------------------------------------------------- */

/* How far the members are apart in an attribute; false if one of them doesn't have it. */
static bool measure(const struct rehearsal *rehearsal, const struct matcher_group *group, uint32_t attribute,
                    double *distance)
{
    double least = 0, most = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct fact *fact = facts_at(rehearsal_ticket(rehearsal, group->slots[i])->entry.facts, attribute);
        if (!fact->is_there)
            return false;
        least = i == 0 || fact->number < least ? fact->number : least;
        most = i == 0 || fact->number > most ? fact->number : most;
    }
    *distance = most - least;
    return true;
}

static const char *key_of(const struct simulation *simulation, uint64_t number)
{
    return ((char *const *)(const void *)simulation->keys.data_owned)[number - 1];
}

static void tell_match(const struct simulation *simulation, const struct matcher_group *group)
{
    const struct rehearsal *rehearsal = &simulation->rehearsal;
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_real(doc, root, "t", (double)rehearsal->now_ms / 1000);
    yyjson_mut_val *members = yyjson_mut_obj_add_arr(doc, root, "members");
    for (uint32_t i = 0; i < group->count; i++) {
        const struct entry *entry = &rehearsal_ticket(rehearsal, group->slots[i])->entry;
        yyjson_mut_val *member = yyjson_mut_arr_add_obj(doc, members);
        yyjson_mut_obj_add_str(doc, member, "ticket", key_of(simulation, entry->number));
        if (simulation->rules->has_teams) {
            struct bytes team = simulation->rules->teams[group->teams[i]].name;
            yyjson_mut_obj_add_strn(doc, member, "team", (const char *)team.ptr, team.size);
        }
        yyjson_mut_obj_add_uint(doc, member, "waitedMs", rehearsal->now_ms - entry->offered_at_ms);
    }
    char *text = json_write(doc, YYJSON_WRITE_NOFLAG, NULL);
    if (text != NULL)
        fprintf(simulation->matches, "%s\n", text);
    free(text);
    yyjson_mut_doc_free(doc);
}

static void on_match(void *context, const struct rehearsal *rehearsal, const struct matcher_group *group)
{
    struct simulation *simulation = context;
    simulation->matches_made++;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct entry *entry = &rehearsal_ticket(rehearsal, group->slots[i])->entry;
        struct simulation_wait wait = {.ms = rehearsal->now_ms - entry->offered_at_ms, .level = entry->level};
        buffer_append(&simulation->waits, &wait, sizeof wait);
    }
    for (uint32_t i = 0; i < simulation->distance_count; i++) {
        double distance;
        if (measure(rehearsal, group, simulation->distances[i].attribute, &distance))
            buffer_append(&simulation->distances[i].values, &distance, sizeof distance);
    }
    if (simulation->matches != NULL)
        tell_match(simulation, group);
}

static void on_end(void *context, const struct rehearsal *rehearsal, uint32_t slot, enum rehearsal_end end)
{
    struct simulation *simulation = context;
    (void)rehearsal;
    (void)slot;
    if (end == REHEARSAL_EXPIRED)
        simulation->expired++;
    else
        simulation->cancelled++;
}

/* --- The run ------------------------------------------------------------------------------------------------------ */

static void add_distance(struct simulation *simulation, uint32_t attribute)
{
    for (uint32_t i = 0; i < simulation->distance_count; i++)
        if (simulation->distances[i].attribute == attribute)
            return;
    simulation->distances[simulation->distance_count++] = (struct simulation_distances){.attribute = attribute};
}

void simulation_init(struct simulation *simulation, const struct rules *rules, uint64_t window_ms, uint64_t ttl_ms,
                     uint64_t until_ms, FILE *matches)
{
    struct rehearsal_watcher watcher = {.context = simulation, .matched = on_match, .ended = on_end};
    *simulation = (struct simulation){.rules = rules, .matches = matches, .until_ms = until_ms};
    table_init(&simulation->key_numbers);
    rehearsal_init(&simulation->rehearsal, rules, window_ms, ttl_ms, BUDGET, &watcher);
    for (uint32_t i = 0; i < rules->rule_count; i++)
        if (rules->rules[i].type == RULE_NEAR)
            add_distance(simulation, rules->rules[i].attribute);
    if (rules->pick == PICK_NEAREST)
        add_distance(simulation, rules->pick_attribute);
}

void simulation_deinit(struct simulation *simulation)
{
    for (size_t i = 0; i < simulation->keys.size / sizeof(char *); i++)
        free((char *)(uintptr_t)key_of(simulation, i + 1));
    for (uint32_t i = 0; i < simulation->distance_count; i++)
        buffer_deinit(&simulation->distances[i].values);
    buffer_deinit(&simulation->keys);
    table_deinit(&simulation->key_numbers);
    buffer_deinit(&simulation->waits);
    rehearsal_deinit(&simulation->rehearsal);
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

static bool is_repeated(const struct simulation *simulation, yyjson_val *line)
{
    const char *key = key_in(line);
    if (key == NULL)
        return false;
    struct table_probe probe = table_probe_start(&simulation->key_numbers, key_hash(key));
    while (table_probe_next(&simulation->key_numbers, &probe))
        if (strcmp(key_of(simulation, probe.slot), key) == 0)
            return true;
    return false;
}

/* Keeps the ticket's name: its key, or its number. */
static void keep_key(struct simulation *simulation, yyjson_val *line)
{
    const char *key = key_in(line);
    uint32_t number = (uint32_t)simulation->rehearsal.offered + 1;
    char *text = key != NULL ? memory_duplicate_string(key) : memory_allocate(24);
    if (key == NULL)
        snprintf(text, 24, "%u", number);
    else
        table_insert(&simulation->key_numbers, key_hash(key), number);
    buffer_append(&simulation->keys, &text, sizeof text);
}

static void forget_newest_key(struct simulation *simulation, yyjson_val *line)
{
    size_t count = simulation->keys.size / sizeof(char *);
    if (key_in(line) != NULL)
        table_remove(&simulation->key_numbers, key_hash(key_in(line)), (uint32_t)count);
    free((char *)(uintptr_t)key_of(simulation, count));
    buffer_truncate(&simulation->keys, (count - 1) * sizeof(char *));
}

bool simulation_offer(struct simulation *simulation, yyjson_val *line, struct failure *failure)
{
    struct rehearsal_offer offer;
    if (!rehearsal_read(line, &offer, failure))
        return false;
    if (offer.at_ms >= simulation->until_ms)
        return true;
    if (is_repeated(simulation, line)) {
        simulation->repeated++;
        return true;
    }
    keep_key(simulation, line); /* it may be matched at once */
    rehearsal_advance(&simulation->rehearsal, offer.at_ms);
    if (!rehearsal_offer(&simulation->rehearsal, &offer, failure)) {
        forget_newest_key(simulation, line);
        return false;
    }
    return true;
}

static int compare_waits(const void *a, const void *b)
{
    uint64_t left = ((const struct simulation_wait *)a)->ms, right = ((const struct simulation_wait *)b)->ms;
    return left < right ? -1 : left > right;
}

static int compare_numbers(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

void simulation_finish(struct simulation *simulation)
{
    rehearsal_advance(&simulation->rehearsal, simulation->until_ms);
    if (simulation->waits.size > 0)
        qsort(simulation->waits.data_owned, simulation_wait_count(simulation), sizeof(struct simulation_wait),
              compare_waits);
    for (uint32_t i = 0; i < simulation->distance_count; i++) {
        struct buffer *values = &simulation->distances[i].values;
        if (values->size > 0)
            qsort(values->data_owned, values->size / sizeof(double), sizeof(double), compare_numbers);
    }
}

/* --- What came of it ---------------------------------------------------------------------------------------------- */

size_t simulation_wait_count(const struct simulation *simulation)
{
    return simulation->waits.size / sizeof(struct simulation_wait);
}

const struct simulation_wait *simulation_waits(const struct simulation *simulation)
{
    return (const void *)simulation->waits.data_owned;
}

static bool counts(const struct simulation_wait *wait, uint32_t level)
{
    return level == RULES_LEVELS_MAX || wait->level == level;
}

uint64_t simulation_count(const struct simulation *simulation, uint32_t level)
{
    uint64_t count = 0;
    for (size_t i = 0; i < simulation_wait_count(simulation); i++)
        count += counts(&simulation_waits(simulation)[i], level);
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

uint64_t simulation_quantile_ms(const struct simulation *simulation, uint32_t level, double part)
{
    uint64_t left = rank_of(simulation_count(simulation, level), part);
    for (size_t i = 0; i < simulation_wait_count(simulation); i++)
        if (counts(&simulation_waits(simulation)[i], level) && --left == 0)
            return simulation_waits(simulation)[i].ms;
    return 0;
}

bool simulation_distance(const struct simulation_distances *distances, double part, double *mean, double *quantile)
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
