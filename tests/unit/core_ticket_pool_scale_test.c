/* What a waiting ticket costs in memory, and what comes back when it is over. TALLY_TEST_TICKETS=1000000 measures at that size. */
#include "support/pool_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define RULES                                                                                                          \
    "{'attrs':{'mode':'str','mmr':'num'},'size':2,'rules':[{'type':'equal','attr':'mode'},"                            \
    "{'type':'near','attr':'mmr','max':50,'expand':[{'after':'10s','max':100}]}]}"

/* The bar; 0 under tools that take memory of their own. */
#define TICKET_BYTES_MAX 640u

static size_t resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    (void)fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned ticket_count(void)
{
    const char *text = getenv("TALLY_TEST_TICKETS");
    return text == NULL ? 50000 : (unsigned)strtoul(text, NULL, 10);
}

/* Tickets with two attributes, offered in frames of 500; nobody looks. */
static void offer_all(struct core_rig *rig, struct ticket_pool *pool, unsigned count)
{
    struct buffer facts;
    buffer_init(&facts);
    for (unsigned i = 0; i < count; i++) {
        char key[24], attributes[64];
        if (i % 500 == 0)
            core_rig_begin(rig);
        int key_size = snprintf(key, sizeof(key), "ticket-%08u", i);
        int size = snprintf(attributes, sizeof(attributes), "{\"mode\":\"mode%u\",\"mmr\":%u}", i % 8, i % 3000);
        yyjson_doc *doc = yyjson_read(attributes, (size_t)size, 0);
        struct failure failure;
        buffer_truncate(&facts, 0);
        assert_int_equal(facts_encode(pool->rules_owned, yyjson_doc_get_root(doc), NULL, &facts, &failure), OK);
        yyjson_doc_free(doc);
        uint32_t slot;
        bool is_known;
        const struct offer_command command = {
            .key = bytes_make(key, (size_t)key_size),
            .content = {.attributes = bytes_make(attributes, (size_t)size), .facts = buffer_bytes(&facts)},
            .weight = 1,
            .ttl_ms = UINT64_MAX};
        assert_int_equal(decide_offer(rig->core, pool, &command, &slot, &is_known), OK);
        if (i % 500 == 499 || i + 1 == count) {
            core_rig_end(rig);
            core_rig_forget_log(rig);
        }
    }
    buffer_deinit(&facts);
}

static void a_waiting_ticket_with_two_attributes_costs_a_bounded_number_of_bytes(void **state)
{
    (void)state;
    struct core_rig rig;
    unsigned count = ticket_count();
    core_rig_init(&rig, 1);
    pool_rig_make_queues(&rig);
    struct pool_spec spec = pool_rig_spec(&rig, RULES);
    struct ticket_pool *pool = pool_rig_put(&rig, "duel", &spec);
    offer_all(&rig, pool, 500); /* warm */
    decide_delete_pool(core_rig_begin(&rig), pool);
    core_rig_end(&rig);
    pool_rig_pass(&rig, 0);
    pool = pool_rig_put(&rig, "duel", &spec);
    size_t before = resident_bytes();
    offer_all(&rig, pool, count);
    double each = (double)(resident_bytes() - before) / count;
    printf("%u waiting tickets of two attributes: %.0f bytes each, %zu of them the record\n", count, each,
           sizeof(struct ticket));
    assert_true(each < TICKET_BYTES_MAX);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiting_ticket_with_two_attributes_costs_a_bounded_number_of_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
