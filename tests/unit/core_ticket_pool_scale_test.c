/* What a ticket costs in memory while it waits and when it is over, and how
 * long a start takes. TALLY_TEST_TICKETS=1000000 measures at that size. */
#include "core/decide_namespace.h"
#include "support/core_bytes.h"
#include "support/pool_rig.h"
#include "support/scale.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define RULES                                                                                                          \
    "{'attrs':{'mode':'str','mmr':'num'},'size':2,'rules':[{'type':'equal','"                                          \
    "attr':'mode'},"                                                                                                   \
    "{'type':'near','attr':'mmr','max':50,'expand':[{'after':'10s','max':100}]}"                                       \
    "]}"

/* The bars. */
#define TICKET_BYTES_MAX 640u
#define ENDED_BYTES_MAX 400u

static size_t resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    (void)fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes that are allocated: what is freed among others stays resident. */
static size_t allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static double processor_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
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

static struct ticket_pool *begin(struct core_rig *rig)
{
    core_rig_init(rig, 1);
    pool_rig_make_queues(rig);
    struct pool_spec spec = pool_rig_spec(rig, RULES);
    struct ticket_pool *pool = pool_rig_put(rig, "duel", &spec);
    offer_all(rig, pool, 500); /* so that what every pool has is there */
    decide_delete_pool(core_rig_begin(rig), pool);
    core_rig_end(rig);
    pool_rig_pass(rig, 0);
    return pool_rig_put(rig, "duel", &spec);
}

static void a_ticket_costs_a_bounded_number_of_bytes_and_fewer_when_it_is_over(void **state)
{
    (void)state;
    if (is_scaled_down())
        skip();
    struct core_rig rig;
    unsigned count = ticket_count();
    struct ticket_pool *pool = begin(&rig);
    size_t resident = resident_bytes(), allocated = allocated_bytes();
    offer_all(&rig, pool, count);
    double each = (double)(resident_bytes() - resident) / count;
    printf("%u waiting tickets of two attributes: %.0f bytes each, %zu of them "
           "the record\n",
           count, each, sizeof(struct ticket));
    assert_true(each < TICKET_BYTES_MAX);
    core_rig_begin(&rig);
    for (uint32_t slot; (slot = pool->live_first) != 0;)
        assert_int_equal(decide_cancel_ticket(rig.core, pool, slot), TICKET_DONE);
    core_rig_end(&rig);
    core_rig_forget_log(&rig);
    allocated += pool->feed.capacity * sizeof(*pool->feed.ring_owned); /* which has a limit of its own */
    each = (double)(allocated_bytes() - allocated) / count;
    printf("of each that is over %.0f bytes are left\n", each);
    assert_true(each < ENDED_BYTES_MAX);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

/* The matcher is filled in portions, of which none takes long. */
static void a_start_with_many_tickets_reads_them_and_fills_the_index(void **state)
{
    (void)state;
    struct core_rig rig;
    unsigned count = ticket_count(), portions = 0;
    struct ticket_pool *pool = begin(&rig);
    offer_all(&rig, pool, count);
    struct buffer encoded;
    buffer_init(&encoded);
    core_rig_encode(rig.core, &encoded);
    core_destroy(rig.core);
    rig.core = core_create();
    double began = processor_seconds();
    assert_true(core_bytes_decode(rig.core, buffer_bytes(&encoded)));
    double decoded = processor_seconds() - began, longest = 0, filled = 0;
    pool = ticket_pool_find(rig.core, BYTES("duel"));
    do {
        began = processor_seconds();
        (void)decide_due(core_rig_begin(&rig));
        core_rig_end(&rig);
        double took = processor_seconds() - began;
        filled += took;
        longest = took > longest ? took : longest;
        portions++;
    } while (pool->index_next != 0);
    printf("a snapshot of %u tickets, %zu bytes each: read in %.2f s, indexed in "
           "%.2f s, at most %.1f ms at a time\n",
           count, encoded.size / count, decoded, filled, longest * 1e3);
    assert_int_equal(pool->matcher.count, count);
    assert_true(portions > count / 4096);
    buffer_deinit(&encoded);
    core_check(rig.core);
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_costs_a_bounded_number_of_bytes_and_fewer_when_it_is_over),
        cmocka_unit_test(a_start_with_many_tickets_reads_them_and_fills_the_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
