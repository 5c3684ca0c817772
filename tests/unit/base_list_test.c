#include "base/list.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int number;
    struct list_link link;
};

static struct item *list_item(struct list_link *link)
{
    return CONTAINER_OF(link, struct item, link);
}

/* Walks the list both ways and compares it with the numbers. */
static void assert_list(const struct list *list, const int *numbers, size_t count)
{
    size_t i = 0;
    const struct list_link *prev = &list->head;
    for (struct list_link *link = list_first(list); link != NULL; link = list_next(list, link)) {
        assert_true(i < count);
        assert_int_equal(list_item(link)->number, numbers[i]);
        assert_ptr_equal(link->prev, prev);
        prev = link;
        i++;
    }
    assert_int_equal(i, count);
    assert_ptr_equal(list->head.prev, prev);
    assert_int_equal(list_is_empty(list), count == 0);
}

static void an_empty_list_has_no_first(void **state)
{
    (void)state;
    struct list list;
    list_init(&list);
    assert_true(list_is_empty(&list));
    assert_null(list_first(&list));
}

static void links_stay_in_the_order_in_which_they_were_appended(void **state)
{
    (void)state;
    struct list list;
    list_init(&list);
    struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    for (int i = 0; i < 3; i++) {
        assert_false(list_is_linked(&items[i].link));
        list_append(&list, &items[i].link);
        assert_true(list_is_linked(&items[i].link));
    }
    assert_list(&list, (int[]){0, 1, 2}, 3);
    list_remove(&items[1].link);
    assert_false(list_is_linked(&items[1].link));
    assert_list(&list, (int[]){0, 2}, 2);
    list_append(&list, &items[1].link);
    assert_list(&list, (int[]){0, 2, 1}, 3);
    list_remove(&items[0].link);
    list_remove(&items[1].link);
    list_remove(&items[2].link);
    assert_list(&list, NULL, 0);
}

static void random_operations_agree_with_the_model(void **state)
{
    (void)state;
    enum { ITEM_COUNT = 40 };
    struct random random = {.state = 61};
    struct list list;
    list_init(&list);
    struct item items[ITEM_COUNT] = {0};
    int numbers[ITEM_COUNT];
    size_t count = 0;
    for (int i = 0; i < ITEM_COUNT; i++)
        items[i].number = i;
    for (int step = 0; step < 10000; step++) {
        int number = (int)random_below(&random, ITEM_COUNT);
        if (!list_is_linked(&items[number].link)) {
            list_append(&list, &items[number].link);
            numbers[count++] = number;
        } else {
            list_remove(&items[number].link);
            size_t i = 0;
            while (numbers[i] != number)
                i++;
            for (count--; i < count; i++)
                numbers[i] = numbers[i + 1];
        }
        assert_list(&list, numbers, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_list_has_no_first),
        cmocka_unit_test(links_stay_in_the_order_in_which_they_were_appended),
        cmocka_unit_test(random_operations_agree_with_the_model),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
