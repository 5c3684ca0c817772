/* What a node may do by what it knows of its cluster. */
#include "base/memory.h"
#include "cluster/view.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LOG "000000000001"

/* Nodes c, b and a, in that order, with ids 3, 2 and 1. One log, pinned to one of them, so that it is known where it
 * belongs. */
struct scene {
    bool is_dead[3], is_draining[3]; /* of a, b, c */
    char own;                        /* 'a', 'b', 'c'; 0: none */
    char owner;                      /* likewise: 0: nobody has had it */
    char pinned_to;
    bool is_unsettled;
    bool is_moving;
};

static uint32_t index_of(char name)
{
    return name == 0 ? VIEW_NONE : (uint32_t)('c' - name);
}

static struct view make_view(const struct scene *scene)
{
    struct view_node *nodes = memory_allocate_zeroed(3 * sizeof(*nodes));
    for (uint32_t i = 0; i < 3; i++) {
        nodes[i].id = 3 - i;
        nodes[i].name[0] = (char)('c' - i);
        nodes[i].is_alive = !scene->is_dead[2 - i];
        nodes[i].is_draining = scene->is_draining[2 - i];
    }
    struct view_log *logs = memory_allocate_zeroed(sizeof(*logs));
    *logs = (struct view_log){.id = 7,
                              .epoch = scene->owner == 0 ? 0 : 5,
                              .owner = index_of(scene->owner),
                              .pinned_to = index_of(scene->pinned_to),
                              .is_moving = scene->is_moving};
    (void)snprintf(logs->name, sizeof(logs->name), LOG);
    struct view view;
    view_init(&view, nodes, 3, logs, 1, index_of(scene->own), !scene->is_unsettled);
    return view;
}

static bool may_take(const struct scene *scene)
{
    struct view view = make_view(scene);
    const bool may = view_may_take(&view, BYTES(LOG));
    view_deinit(&view);
    return may;
}

static void nodes_are_counted_and_logs_found_by_name(void **state)
{
    (void)state;
    struct view view = make_view(&(struct scene){.own = 'b', .owner = 'b', .pinned_to = 'c'});
    const struct view_node *b = &view.nodes_owned[1], *c = &view.nodes_owned[2];
    const struct view_log *log = view_find_log(&view, BYTES(LOG));
    assert_string_equal(b->name, "b");
    assert_int_equal(b->id, 2);
    assert_int_equal(b->owned_count, 1);
    assert_int_equal(b->wanted_count, 0);
    assert_int_equal(c->wanted_count, 1);
    assert_ptr_equal(&view.nodes_owned[log->owner], b);
    assert_ptr_equal(&view.nodes_owned[log->wanted], c);
    assert_ptr_equal(&view.nodes_owned[view.own], b);
    assert_null(view_find_log(&view, BYTES("nothing")));
    view_deinit(&view);
}

static void the_node_that_should_have_a_log_and_its_stand_by_may_take_it_and_no_other(void **state)
{
    (void)state;
    assert_true(may_take(&(struct scene){.own = 'a', .owner = 'c', .pinned_to = 'a'}));
    int takers = 0;
    for (char own = 'a'; own <= 'c'; own++)
        takers += may_take(&(struct scene){.own = own, .owner = 'a', .pinned_to = 'a'});
    assert_int_equal(takers, 2);
}

static void a_stand_by_leaves_a_log_alone_that_is_on_its_way_to_another_node(void **state)
{
    (void)state;
    struct scene scene = {.own = 'b', .owner = 'c', .pinned_to = 'a', .is_dead = {false, false, true}};
    assert_false(may_take(&scene)); /* b is the only other one that is alive */
    scene.owner = 'a';
    assert_true(may_take(&scene));
}

static void a_log_that_nobody_has_had_is_taken_by_the_node_that_should_have_it(void **state)
{
    (void)state;
    for (char own = 'a'; own <= 'c'; own++)
        assert_int_equal(may_take(&(struct scene){.own = own, .pinned_to = 'a'}), own == 'a');
    int takers = 0, followers = 0;
    for (char own = 'a'; own <= 'c'; own++) {
        struct view view = make_view(&(struct scene){.own = own});
        takers += view_may_take(&view, BYTES("a log that is not known yet"));
        followers += view_should_follow(&view, BYTES("a log that is not known yet"));
        view_deinit(&view);
    }
    assert_int_equal(takers, 1);
    assert_int_equal(followers, 1);
}

static void a_log_is_followed_by_the_node_that_should_have_it_and_its_stand_by(void **state)
{
    (void)state;
    int followers = 0;
    for (char own = 'a'; own <= 'c'; own++) {
        struct view view = make_view(&(struct scene){.own = own, .owner = 'c', .pinned_to = 'a'});
        const struct view_log *log = view_find_log(&view, BYTES(LOG));
        assert_int_equal(view_should_follow(&view, BYTES(LOG)), log->wanted == view.own || log->stand_by == view.own);
        followers += view_should_follow(&view, BYTES(LOG));
        view_deinit(&view);
    }
    assert_int_equal(followers, 2);
    struct view nameless = make_view(&(struct scene){.owner = 'c', .pinned_to = 'a'});
    assert_false(view_should_follow(&nameless, BYTES(LOG)));
    view_deinit(&nameless);
    struct view drained = make_view(&(struct scene){.own = 'b', .owner = 'a', .is_draining = {true, true, true}});
    assert_true(view_should_follow(&drained, BYTES(LOG)));
    view_deinit(&drained);
}

static void a_log_on_its_way_to_another_server_is_nobodys(void **state)
{
    (void)state;
    for (char own = 'a'; own <= 'c'; own++) {
        struct view view = make_view(&(struct scene){.own = own, .owner = 'a', .pinned_to = own, .is_moving = true});
        assert_false(view_may_take(&view, BYTES(LOG)));
        assert_false(view_should_follow(&view, BYTES(LOG)));
        assert_false(view_should_get_ready(&view, BYTES(LOG)));
        assert_int_equal(view_should_give_up(&view, BYTES(LOG)), own == 'a'); /* at once, to nobody */
        view_deinit(&view);
    }
}

static void the_places_of_a_view_are_its_own(void **state)
{
    (void)state;
    struct view view = make_view(&(struct scene){.own = 'a', .owner = 'a'});
    char first[] = "postgres://one/tally", second[] = "postgres://two/tally";
    char *places[] = {first, second};
    view_set_places(&view, places, 2);
    first[0] = second[0] = 'x';
    assert_int_equal(view.place_count, 2);
    assert_string_equal(view.places_owned[1], "postgres://two/tally");
    view_deinit(&view);
}

static void where_all_nodes_drain_any_may_take_it(void **state)
{
    (void)state;
    for (char own = 'a'; own <= 'c'; own++)
        assert_true(may_take(&(struct scene){.own = own, .owner = 'a', .is_draining = {true, true, true}}));
}

static void a_node_that_drains_takes_nothing_while_others_do_not(void **state)
{
    (void)state;
    assert_false(may_take(&(struct scene){.own = 'a', .owner = 'a', .is_draining = {true, false, false}}));
}

static void a_node_that_has_just_begun_takes_only_what_it_had(void **state)
{
    (void)state;
    assert_true(may_take(&(struct scene){.own = 'a', .owner = 'a', .pinned_to = 'a', .is_unsettled = true}));
    assert_false(may_take(&(struct scene){.own = 'a', .owner = 'b', .pinned_to = 'a', .is_unsettled = true}));
    assert_true(may_take(&(struct scene){.own = 'a', .pinned_to = 'a', .is_unsettled = true}));
    const struct scene other = {.own = 'b', .owner = 'a', .pinned_to = 'a', .is_dead = {false, false, true}};
    assert_true(may_take(&other));
    struct scene unsettled = other;
    unsettled.is_unsettled = true;
    assert_false(may_take(&unsettled));
}

static void a_node_whose_name_another_process_has_takes_nothing(void **state)
{
    (void)state;
    assert_false(may_take(&(struct scene){.owner = 'a', .pinned_to = 'a'}));
    assert_false(may_take(&(struct scene){0}));
}

static void an_owner_gives_up_when_the_node_that_should_have_it_is_ready_and_not_before(void **state)
{
    (void)state;
    struct view view = make_view(&(struct scene){.own = 'a', .owner = 'a', .pinned_to = 'b'});
    assert_false(view_should_give_up(&view, BYTES(LOG)));
    view_note_ready(&view, BYTES(LOG), 3); /* c, which should not have it */
    assert_false(view_should_give_up(&view, BYTES(LOG)));
    view_note_ready(&view, BYTES("nothing"), 2);
    view_note_ready(&view, BYTES(LOG), 2);
    assert_true(view_should_give_up(&view, BYTES(LOG)));
    view_deinit(&view);
    struct view other = make_view(&(struct scene){.own = 'b', .owner = 'a', .pinned_to = 'b'});
    view_note_ready(&other, BYTES(LOG), 2);
    assert_false(view_should_give_up(&other, BYTES(LOG)));
    view_deinit(&other);
}

static void a_node_gets_ready_for_what_it_should_have_and_another_one_has(void **state)
{
    (void)state;
    struct {
        struct scene scene;
        bool should;
    } rows[] = {
        {{.own = 'b', .owner = 'a', .pinned_to = 'b'}, true},
        {{.own = 'b', .owner = 'a', .pinned_to = 'b', .is_unsettled = true}, false},
        {{.own = 'b', .owner = 'b', .pinned_to = 'b'}, false},
        {{.own = 'c', .owner = 'a', .pinned_to = 'b'}, false},
        {{.own = 'b', .pinned_to = 'b'}, false},
        {{.owner = 'a', .pinned_to = 'b'}, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct view view = make_view(&rows[i].scene);
        assert_int_equal(view_should_get_ready(&view, BYTES(LOG)), rows[i].should);
        view_deinit(&view);
    }
}

static void an_empty_cluster_is_a_view_too(void **state)
{
    (void)state;
    struct view view;
    view_init(&view, NULL, 0, NULL, 0, VIEW_NONE, true);
    assert_null(view_find_log(&view, BYTES(LOG)));
    assert_false(view_may_take(&view, BYTES(LOG)));
    view_deinit(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_counted_and_logs_found_by_name),
        cmocka_unit_test(the_node_that_should_have_a_log_and_its_stand_by_may_take_it_and_no_other),
        cmocka_unit_test(a_stand_by_leaves_a_log_alone_that_is_on_its_way_to_another_node),
        cmocka_unit_test(a_log_that_nobody_has_had_is_taken_by_the_node_that_should_have_it),
        cmocka_unit_test(a_log_is_followed_by_the_node_that_should_have_it_and_its_stand_by),
        cmocka_unit_test(a_log_on_its_way_to_another_server_is_nobodys),
        cmocka_unit_test(the_places_of_a_view_are_its_own),
        cmocka_unit_test(where_all_nodes_drain_any_may_take_it),
        cmocka_unit_test(a_node_that_drains_takes_nothing_while_others_do_not),
        cmocka_unit_test(a_node_that_has_just_begun_takes_only_what_it_had),
        cmocka_unit_test(a_node_whose_name_another_process_has_takes_nothing),
        cmocka_unit_test(an_owner_gives_up_when_the_node_that_should_have_it_is_ready_and_not_before),
        cmocka_unit_test(a_node_gets_ready_for_what_it_should_have_and_another_one_has),
        cmocka_unit_test(an_empty_cluster_is_a_view_too),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
