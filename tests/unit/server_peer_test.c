#include "base/bytes.h"
#include "server/peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct rig {
    uv_loop_t loop;
    struct peers peers;
    unsigned changes;
};

static void on_change(void *context)
{
    ((struct rig *)context)->changes++;
}

static struct rig *open_rig(void)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    peers_init(&rig->peers, &rig->loop, on_change, rig);
    return rig;
}

static void close_rig(struct rig *rig)
{
    peers_close(&rig->peers);
    (void)uv_run(&rig->loop, UV_RUN_DEFAULT);
    peers_deinit(&rig->peers);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    free(rig);
}

static void addresses_have_a_host_and_a_port(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
        bool is_name;
    } good[] = {
        {"10.0.0.1:9326", "10.0.0.1", 9326, false},        {"[fd00::1]:1", "fd00::1", 1, false},
        {"one.example:65535", "one.example", 65535, true}, {"one_two-3:80", "one_two-3", 80, true},
        {"localhost:80", "localhost", 80, true},
    };
    static const char *const bad[] = {"",        "10.0.0.1",      "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.256:1",
                                      ":80",     "fd00::1:80:",   "fd00::1",    "[fd00::1]",      "[one.example]:80",
                                      "a b:80",  "one.example:x", "-one:80",    ".one:80",        "one/two:80",
                                      "user@a:1"};
    struct peer_address address;
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        assert_true(peer_address_parse(good[i].text, &address));
        assert_string_equal(address.host, good[i].host);
        assert_int_equal(address.port, good[i].port);
        assert_int_equal(address.is_name, good[i].is_name);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        if (peer_address_parse(bad[i], &address))
            fail_msg("%s is taken for an address", bad[i]);
    char longest[PEER_HOST_SIZE + 8];
    memset(longest, 'a', sizeof(longest));
    memcpy(longest + PEER_HOST_SIZE, ":80", 4);
    assert_false(peer_address_parse(longest, &address));
    assert_true(peer_address_parse(longest + 1, &address));
}

static void once_all_addresses_have_failed_one_request_tries_at_a_time(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct peer *peer = peers_get(&rig->peers, "127.0.0.1:9");
    assert_true(peer_may_try(peer) && peer_may_try(peer));
    uint64_t wanted_ms = PEER_PAUSE_MS;
    for (unsigned i = 0; i < 10; i++) {
        peer_note_failure(peer, uv_now(&rig->loop), "connection refused");
        assert_int_equal(peers_pause_ms(&rig->peers), wanted_ms);
        assert_false(peer_may_try(peer));
        peer->next_try_ms = uv_now(&rig->loop); /* the pause is over */
        assert_true(peer_may_try(peer));
        assert_false(peer_may_try(peer));
        wanted_ms = wanted_ms * 2 < PEER_PAUSE_MAX_MS ? wanted_ms * 2 : PEER_PAUSE_MAX_MS;
    }
    assert_string_equal(peer->trouble, "connection refused");
    peer_note_reached(peer);
    assert_true(peer_may_try(peer) && peer_may_try(peer));
    assert_int_equal(peers_pause_ms(&rig->peers), 0);
    close_rig(rig);
}

static void tries_beside_one_that_has_failed_say_nothing_new(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct peer *peer = peers_get(&rig->peers, "127.0.0.1:9");
    const uint64_t tried_ms = uv_now(&rig->loop);
    while (uv_now(&rig->loop) == tried_ms)
        uv_update_time(&rig->loop);
    for (unsigned i = 0; i < 1000; i++)
        peer_note_failure(peer, tried_ms, "connection refused");
    assert_int_equal(peer->pause_ms, PEER_PAUSE_MS);
    assert_int_equal(rig->peers.connects_failed, 1000);
    close_rig(rig);
}

static void a_name_is_looked_up_once_for_all_and_its_addresses_are_tried_in_order(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct peer *peer = peers_get(&rig->peers, "localhost:9326");
    assert_ptr_equal(peers_get(&rig->peers, "localhost:9326"), peer);
    for (unsigned i = 0; i < 100; i++)
        assert_false(peer_may_try(peer));
    assert_int_equal(rig->peers.lookups, 1);
    uv_ref((uv_handle_t *)peer->lookup); /* its first member: so that the loop waits for it */
    while (rig->changes == 0)
        (void)uv_run(&rig->loop, UV_RUN_ONCE);
    assert_true(peer_may_try(peer));
    assert_in_range(peer->count, 1, LOOKUP_ADDRESSES_MAX);
    for (size_t i = 0; i < peer->count; i++) {
        const struct sockaddr_storage *socket = peer_socket(peer);
        assert_int_equal(((const struct sockaddr_in *)socket)->sin_port, htons(9326));
        assert_memory_equal(socket, &peer->addresses[i], sizeof(*socket));
        assert_int_equal(peer->pause_ms, 0);
        peer_note_failure(peer, uv_now(&rig->loop), "connection refused");
    }
    assert_int_equal(peer->pause_ms, PEER_PAUSE_MS);
    close_rig(rig);
}

static void a_look_up_that_is_under_way_holds_up_no_end(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    assert_false(peer_may_try(peers_get(&rig->peers, "localhost:9326")));
    close_rig(rig);
}

static void nodes_that_nobody_asks_any_more_are_forgotten(void **state)
{
    (void)state;
    struct rig *rig = open_rig();
    struct peer *used = peers_get(&rig->peers, "127.0.0.1:1"), *unused = peers_get(&rig->peers, "127.0.0.1:2");
    used->users++;
    used->used_ms = unused->used_ms = uv_now(&rig->loop) - PEER_UNUSED_MS - 1;
    (void)peers_get(&rig->peers, "127.0.0.1:3");
    assert_ptr_equal(CONTAINER_OF(list_first(&rig->peers.all), struct peer, link), used);
    assert_string_equal(CONTAINER_OF(used->link.next, struct peer, link)->text, "127.0.0.1:3");
    used->users--;
    close_rig(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_have_a_host_and_a_port),
        cmocka_unit_test(once_all_addresses_have_failed_one_request_tries_at_a_time),
        cmocka_unit_test(tries_beside_one_that_has_failed_say_nothing_new),
        cmocka_unit_test(a_name_is_looked_up_once_for_all_and_its_addresses_are_tried_in_order),
        cmocka_unit_test(a_look_up_that_is_under_way_holds_up_no_end),
        cmocka_unit_test(nodes_that_nobody_asks_any_more_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
