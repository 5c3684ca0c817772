/* Rehearses pools over the matcher and says what came of them, for agree.py to judge.
 *
 * Standard input: a pool on each line, {"pool": rules as CreatePool's and a ttl, "budget": candidates of one call of
 * the matcher, "tickets": [as matcher/simulation.h reads them, rising by t]}. Standard output: for each a line, a list
 * of what happened, in its order: ["match", ms, [numbers, the seed first], [teams]], ["expired", ms, number],
 * ["cancelled", ms, number], and at last ["waiting", [numbers]]. After each of them the matcher's own check must
 * hold. */
#include "base/assert.h"
#include "matcher/simulation.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUDGET_USUAL 4096u

static uint64_t number_of(const struct simulation *simulation, uint32_t slot)
{
    return simulation_ticket(simulation, slot)->entry.number;
}

static void print_match(void *context, const struct simulation *simulation, const struct matcher_group *group)
{
    (void)context;
    matcher_check(&simulation->matcher);
    printf("[\"match\",%llu,[", (unsigned long long)simulation->now_ms);
    for (uint32_t i = 0; i < group->count; i++)
        printf("%s%llu", i == 0 ? "" : ",", (unsigned long long)number_of(simulation, group->slots[i]));
    printf("],[");
    for (uint32_t i = 0; i < group->count; i++)
        printf("%s%u", i == 0 ? "" : ",", group->teams[i]);
    printf("]],");
}

static void print_end(void *context, const struct simulation *simulation, uint32_t slot, enum simulation_end end)
{
    (void)context;
    matcher_check(&simulation->matcher);
    printf("[\"%s\",%llu,%llu],", end == SIMULATION_EXPIRED ? "expired" : "cancelled",
           (unsigned long long)simulation->now_ms, (unsigned long long)number_of(simulation, slot));
}

static void print_waiting(const struct simulation *simulation)
{
    const char *comma = "";
    printf("[\"waiting\",[");
    for (uint32_t slot = 1; slot < simulation->tickets.slot_end; slot++) {
        if (!matcher_has(&simulation->matcher, slot))
            continue;
        printf("%s%llu", comma, (unsigned long long)number_of(simulation, slot));
        comma = ",";
    }
    printf("]]");
}

static void stop_at(size_t line, const char *what, const struct failure *failure)
{
    fprintf(stderr, "line %zu: %s: %s\n", line, what, failure->text);
    exit(1);
}

static void offer_all(struct simulation *simulation, yyjson_val *tickets, size_t line)
{
    struct failure failure = {.text = ""};
    size_t i, max;
    yyjson_val *ticket;
    yyjson_arr_foreach(tickets, i, max, ticket)
    {
        struct simulation_offer offer;
        if (!simulation_read(ticket, &offer, &failure) || !simulation_offer(simulation, &offer, &failure))
            stop_at(line, "a ticket", &failure);
        matcher_check(&simulation->matcher);
    }
}

static void replay(yyjson_val *pool, yyjson_val *root, size_t line)
{
    const struct simulation_watcher watcher = {.matched = print_match, .ended = print_end};
    struct failure failure = {.text = ""};
    struct simulation simulation;
    size_t size;
    uint64_t ttl_ms = 0;
    yyjson_val *ttl = yyjson_obj_get(pool, "ttl");
    yyjson_val *budget = yyjson_obj_get(root, "budget");
    char *text = yyjson_val_write(pool, YYJSON_WRITE_NOFLAG, &size);
    struct rules *rules = rules_create(bytes_make(text, size), &failure);
    if (rules == NULL)
        stop_at(line, "the rules", &failure);
    if (yyjson_is_str(ttl) && !simulation_duration(bytes_from_string(yyjson_get_str(ttl)), &ttl_ms))
        stop_at(line, "the ttl", &failure);
    simulation_init(&simulation, rules, 0, ttl_ms, budget == NULL ? BUDGET_USUAL : (uint32_t)yyjson_get_uint(budget),
                    &watcher);
    printf("[");
    offer_all(&simulation, yyjson_obj_get(root, "tickets"), line);
    simulation_advance(&simulation, UINT64_MAX);
    matcher_check(&simulation.matcher);
    print_waiting(&simulation);
    printf("]\n");
    simulation_deinit(&simulation);
    rules_destroy(rules);
    free(text);
}

int main(void)
{
    char *text = NULL;
    size_t capacity = 0, line = 0;
    ssize_t size;
    while ((size = getline(&text, &capacity, stdin)) > 0) {
        yyjson_doc *doc = yyjson_read(text, (size_t)size, YYJSON_READ_NOFLAG);
        yyjson_val *root = yyjson_doc_get_root(doc);
        ASSERT(root != NULL);
        replay(yyjson_obj_get(root, "pool"), root, ++line);
        yyjson_doc_free(doc);
    }
    free(text);
    return 0;
}
