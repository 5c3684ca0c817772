/* Where namespaces belong: the bound, agreement, what moves, pins. */
#include "base/memory.h"
#include "cluster/placement.h"

#include "random.h"

#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NODES_MAX 20u
#define NAMES_MAX 2000u
#define NAME_SIZE 24u

struct cluster {
    char node_names[NODES_MAX][NAME_SIZE];
    char names[NAMES_MAX][NAME_SIZE];
    struct placement_node nodes[NODES_MAX];
    struct placement placements[NAMES_MAX];
    size_t node_count, count;
};

static struct cluster *make_cluster(size_t node_count, size_t count)
{
    struct cluster *cluster = memory_allocate_zeroed(sizeof(*cluster));
    cluster->node_count = node_count;
    cluster->count = count;
    for (size_t i = 0; i < node_count; i++) {
        (void)snprintf(cluster->node_names[i], NAME_SIZE, "node%zu", i);
        cluster->nodes[i] = (struct placement_node){.name = bytes_from_string(cluster->node_names[i]), .takes = true};
    }
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(cluster->names[i], NAME_SIZE, "%012zu", i * 7919);
        cluster->placements[i] =
            (struct placement){.name = bytes_from_string(cluster->names[i]), .pinned_to = PLACEMENT_NONE};
    }
    return cluster;
}

static void place(struct cluster *cluster)
{
    placement_find(cluster->nodes, cluster->node_count, cluster->placements, cluster->count);
}

static size_t count_owned(const struct cluster *cluster, size_t node)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster->count; i++)
        count += cluster->placements[i].owner == node;
    return count;
}

static size_t count_followed(const struct cluster *cluster, size_t node)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster->count; i++)
        count += cluster->placements[i].stand_by == node;
    return count;
}

static void no_node_has_more_than_the_bound(void **state)
{
    (void)state;
    for (size_t nodes = 1; nodes <= NODES_MAX; nodes++)
        for (size_t count = 0; count <= 400; count = count * 2 + 1) {
            struct cluster *cluster = make_cluster(nodes, count);
            place(cluster);
            size_t sum = 0;
            for (size_t i = 0; i < nodes; i++) {
                assert_true(count_owned(cluster, i) <= placement_bound(nodes, count));
                sum += count_owned(cluster, i);
            }
            assert_int_equal(sum, count);
            free(cluster);
        }
}

static void the_bound_is_five_quarters_of_the_mean_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(placement_bound(3, 50), 21);
    assert_int_equal(placement_bound(3, 1000), 417);
    assert_int_equal(placement_bound(100, 10000), 125);
    assert_int_equal(placement_bound(3, 1), 1);
    assert_int_equal(placement_bound(3, 0), 0);
    assert_int_equal(placement_bound(0, 5), 0);
}

static void each_namespace_has_a_stand_by_that_is_not_its_owner(void **state)
{
    (void)state;
    for (size_t nodes = 2; nodes <= 5; nodes++) {
        struct cluster *cluster = make_cluster(nodes, 300);
        place(cluster);
        for (size_t i = 0; i < cluster->count; i++) {
            assert_true(cluster->placements[i].stand_by < nodes);
            assert_int_not_equal(cluster->placements[i].stand_by, cluster->placements[i].owner);
        }
        for (size_t i = 0; i < nodes && nodes > 2; i++)
            assert_true(count_followed(cluster, i) <= placement_bound(nodes, 300));
        free(cluster);
    }
}

static void a_node_alone_has_all_and_nobody_follows(void **state)
{
    (void)state;
    struct cluster *cluster = make_cluster(1, 50);
    place(cluster);
    for (size_t i = 0; i < cluster->count; i++) {
        assert_int_equal(cluster->placements[i].owner, 0);
        assert_int_equal(cluster->placements[i].stand_by, PLACEMENT_NONE);
    }
    free(cluster);
}

static void where_no_node_takes_any_nobody_has_one(void **state)
{
    (void)state;
    struct cluster *cluster = make_cluster(3, 20);
    for (size_t i = 0; i < 3; i++)
        cluster->nodes[i].takes = false;
    cluster->placements[4].pinned_to = 1;
    place(cluster);
    for (size_t i = 0; i < cluster->count; i++) {
        assert_int_equal(cluster->placements[i].owner, PLACEMENT_NONE);
        assert_int_equal(cluster->placements[i].stand_by, PLACEMENT_NONE);
    }
    free(cluster);
}

/* Swaps nodes and namespaces at random, and compares by name. */
static void the_order_of_the_lists_makes_no_difference(void **state)
{
    (void)state;
    struct random random = {.state = 7};
    struct cluster *first = make_cluster(7, 500), *second = make_cluster(7, 500);
    first->placements[3].pinned_to = 2;
    place(first);
    size_t node_of[7], name_of[500];
    for (size_t i = 0; i < 7; i++)
        node_of[i] = i;
    for (size_t i = 0; i < 500; i++)
        name_of[i] = i;
    for (size_t i = 6; i > 0; i--) {
        const size_t other = random_below(&random, i + 1), kept = node_of[i];
        node_of[i] = node_of[other];
        node_of[other] = kept;
    }
    for (size_t i = 499; i > 0; i--) {
        const size_t other = random_below(&random, i + 1), kept = name_of[i];
        name_of[i] = name_of[other];
        name_of[other] = kept;
    }
    for (size_t i = 0; i < 7; i++)
        second->nodes[i].name = bytes_from_string(second->node_names[node_of[i]]);
    for (size_t i = 0; i < 500; i++) {
        second->placements[i].name = bytes_from_string(second->names[name_of[i]]);
        if (name_of[i] == 3)
            for (size_t j = 0; j < 7; j++)
                if (node_of[j] == 2)
                    second->placements[i].pinned_to = j;
    }
    place(second);
    for (size_t i = 0; i < 500; i++) {
        const struct placement *mine = &second->placements[i], *other = &first->placements[name_of[i]];
        assert_int_equal(node_of[mine->owner], other->owner);
        assert_int_equal(node_of[mine->stand_by], other->stand_by);
    }
    free(first);
    free(second);
}

static size_t count_moved(const struct cluster *before, const struct cluster *after)
{
    size_t count = 0;
    for (size_t i = 0; i < before->count; i++)
        count += before->placements[i].owner != after->placements[i].owner;
    return count;
}

/* The least is what the node had. */
static void when_a_node_goes_hardly_more_moves_than_it_had(void **state)
{
    (void)state;
    struct cluster *before = make_cluster(10, 2000), *after = make_cluster(10, 2000);
    place(before);
    size_t least = 0, moved = 0, followed = 0;
    for (size_t node = 0; node < 10; node++) {
        after->nodes[node].takes = false;
        place(after);
        least += count_owned(before, node);
        moved += count_moved(before, after);
        for (size_t i = 0; i < 2000; i++)
            followed +=
                before->placements[i].owner == node && before->placements[i].stand_by == after->placements[i].owner;
        assert_int_equal(count_owned(after, node), 0);
        after->nodes[node].takes = true;
    }
    assert_true(moved >= least && moved <= least + least / 2);
    assert_true(followed >= least * 8 / 10); /* its stand-by has most of them */
    free(before);
    free(after);
}

static void when_a_node_comes_hardly_more_moves_than_it_gets(void **state)
{
    (void)state;
    struct cluster *before = make_cluster(11, 2000), *after = make_cluster(11, 2000);
    before->nodes[10].takes = false;
    place(before);
    place(after);
    const size_t least = count_owned(after, 10), moved = count_moved(before, after);
    assert_true(least >= 100 && moved >= least && moved <= least + least / 2);
    free(before);
    free(after);
}

static void a_node_that_comes_back_finds_what_it_had(void **state)
{
    (void)state;
    struct cluster *before = make_cluster(5, 300), *after = make_cluster(5, 300);
    place(before);
    after->nodes[2].takes = false;
    place(after);
    after->nodes[2].takes = true;
    place(after);
    assert_int_equal(count_moved(before, after), 0);
    free(before);
    free(after);
}

static void a_new_namespace_moves_few_others(void **state)
{
    (void)state;
    struct cluster *before = make_cluster(3, 999), *after = make_cluster(3, 1000);
    place(before);
    place(after);
    assert_true(count_moved(before, after) <= 10);
    free(before);
    free(after);
}

static void a_pin_is_minded_as_long_as_its_node_takes_any(void **state)
{
    (void)state;
    struct cluster *cluster = make_cluster(4, 100);
    place(cluster);
    const size_t elsewhere = (cluster->placements[9].owner + 1) % 4;
    cluster->placements[9].pinned_to = elsewhere;
    place(cluster);
    assert_int_equal(cluster->placements[9].owner, elsewhere);
    cluster->nodes[elsewhere].takes = false;
    place(cluster);
    assert_int_not_equal(cluster->placements[9].owner, elsewhere);
    assert_int_not_equal(cluster->placements[9].owner, PLACEMENT_NONE);
    free(cluster);
}

static void pins_may_exceed_the_bound_and_the_others_make_room(void **state)
{
    (void)state;
    struct cluster *cluster = make_cluster(4, 100);
    for (size_t i = 0; i < 60; i++)
        cluster->placements[i].pinned_to = 1;
    place(cluster);
    assert_int_equal(count_owned(cluster, 1), 60);
    for (size_t i = 0; i < 4; i++)
        assert_true(i == 1 || count_owned(cluster, i) <= placement_bound(4, 100));
    free(cluster);
}

static void pins_that_leave_no_room_leave_nobody_without_a_node(void **state)
{
    (void)state;
    struct cluster *cluster = make_cluster(2, 10);
    for (size_t i = 0; i < 7; i++)
        cluster->placements[i].pinned_to = i % 2;
    for (size_t i = 0; i < 6; i++)
        cluster->placements[i].pinned_to = 0;
    cluster->nodes[1].takes = true;
    place(cluster);
    for (size_t i = 0; i < 10; i++)
        assert_true(cluster->placements[i].owner < 2);
    free(cluster);
}

/* Nodes of several versions run side by side in a rolling upgrade, so what they compute must not change. */
static void the_placement_of_these_names_is_the_same_in_every_version(void **state)
{
    (void)state;
    struct cluster *cluster = make_cluster(5, 16);
    place(cluster);
    char owners[17] = "", stand_bys[17] = "";
    for (size_t i = 0; i < 16; i++) {
        owners[i] = (char)('0' + cluster->placements[i].owner);
        stand_bys[i] = (char)('0' + cluster->placements[i].stand_by);
    }
    assert_string_equal(owners, "0113303442110403");
    assert_string_equal(stand_bys, "2044131203041310");
    free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_node_has_more_than_the_bound),
        cmocka_unit_test(the_bound_is_five_quarters_of_the_mean_rounded_up),
        cmocka_unit_test(each_namespace_has_a_stand_by_that_is_not_its_owner),
        cmocka_unit_test(a_node_alone_has_all_and_nobody_follows),
        cmocka_unit_test(where_no_node_takes_any_nobody_has_one),
        cmocka_unit_test(the_order_of_the_lists_makes_no_difference),
        cmocka_unit_test(when_a_node_goes_hardly_more_moves_than_it_had),
        cmocka_unit_test(when_a_node_comes_hardly_more_moves_than_it_gets),
        cmocka_unit_test(a_node_that_comes_back_finds_what_it_had),
        cmocka_unit_test(a_new_namespace_moves_few_others),
        cmocka_unit_test(a_pin_is_minded_as_long_as_its_node_takes_any),
        cmocka_unit_test(pins_may_exceed_the_bound_and_the_others_make_room),
        cmocka_unit_test(pins_that_leave_no_room_leave_nobody_without_a_node),
        cmocka_unit_test(the_placement_of_these_names_is_the_same_in_every_version),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
