/* The keeper with a lease that is a few words of memory behind a lock: when a term begins and ends, and who is no
 * candidate. */
#include "relay/keeper.h"

#include "base/assert.h"
#include "platform/monotonic.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define LEASE_MS 300u
#define PATIENCE_S 60

/* What all relays of a source see. `changed` tells of anything: of a keeper's news, or a call that a test waits for. */
struct shared_source {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct lease_view row;
    bool is_owner_gone; /* without a word */
    bool holds_waits;   /* a stand-by's wait ends only when this does, */
    bool is_waiting;    /* and one has begun */
    unsigned takeovers;
};

struct memory_lease {
    struct lease lease;
    struct shared_source *source;
};

static struct shared_source *source_of(struct lease *lease)
{
    return CONTAINER_OF(lease, struct memory_lease, lease)->source;
}

static void source_init(struct shared_source *source)
{
    *source = (struct shared_source){.row = {.beat = 1}};
    pthread_mutex_init(&source->mutex, NULL);
    pthread_cond_init(&source->changed, NULL);
}

static void source_deinit(struct shared_source *source)
{
    pthread_cond_destroy(&source->changed);
    pthread_mutex_destroy(&source->mutex);
}

/* --- the lease ---------------------------------------------------------------------------------------------------- */

static struct timespec moment_in(unsigned ms)
{
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    moment.tv_nsec += (long)(ms % 1000) * 1000000;
    moment.tv_sec += (time_t)(ms / 1000) + moment.tv_nsec / 1000000000;
    moment.tv_nsec %= 1000000000;
    return moment;
}

static bool is_free_now(const struct shared_source *source)
{
    static const struct uid nobody;
    return source->is_owner_gone || memcmp(&source->row.term.owner, &nobody, sizeof(nobody)) == 0;
}

static enum step lease_wait(struct lease *lease, unsigned wait_ms, bool *is_free, struct fault *fault)
{
    struct shared_source *source = source_of(lease);
    const struct timespec until = moment_in(wait_ms);
    (void)fault;
    pthread_mutex_lock(&source->mutex);
    source->is_waiting = true;
    pthread_cond_broadcast(&source->changed);
    while (source->holds_waits)
        pthread_cond_wait(&source->changed, &source->mutex);
    if (!is_free_now(source))
        pthread_cond_timedwait(&source->changed, &source->mutex, &until);
    *is_free = is_free_now(source);
    pthread_mutex_unlock(&source->mutex);
    return STEP_OK;
}

static enum step lease_peek(struct lease *lease, struct lease_view *view, struct fault *fault)
{
    struct shared_source *source = source_of(lease);
    (void)fault;
    pthread_mutex_lock(&source->mutex);
    *view = source->row;
    pthread_mutex_unlock(&source->mutex);
    return STEP_OK;
}

static enum step lease_take_over(struct lease *lease, const struct lease_view *view, uint64_t epoch_min,
                                 struct term *term, bool *is_mine, struct fault *fault)
{
    struct shared_source *source = source_of(lease);
    (void)fault;
    pthread_mutex_lock(&source->mutex);
    *is_mine = term_equal(&source->row.term, &view->term) && source->row.beat == view->beat;
    if (*is_mine) {
        source->row.term.epoch = (view->term.epoch > epoch_min ? view->term.epoch : epoch_min) + 1;
        uid_generate(&source->row.term.owner);
        source->takeovers++;
        *term = source->row.term;
    }
    pthread_mutex_unlock(&source->mutex);
    return STEP_OK;
}

static enum step lease_beat(struct lease *lease, const struct term *term, struct fault *fault)
{
    struct shared_source *source = source_of(lease);
    pthread_mutex_lock(&source->mutex);
    bool is_owner = term_equal(&source->row.term, term);
    source->row.beat += is_owner;
    pthread_mutex_unlock(&source->mutex);
    return is_owner ? STEP_OK : fault_set(fault, STEP_FENCED, "somebody has taken over");
}

static void lease_give_up(struct lease *lease, const struct term *term)
{
    struct shared_source *source = source_of(lease);
    pthread_mutex_lock(&source->mutex);
    if (term_equal(&source->row.term, term))
        source->row.term.owner = (struct uid){.bytes = {0}};
    pthread_cond_broadcast(&source->changed);
    pthread_mutex_unlock(&source->mutex);
}

static void lease_close(struct lease *lease)
{
    free(CONTAINER_OF(lease, struct memory_lease, lease));
}

static const struct lease_ops memory_ops = {
    .wait = lease_wait,
    .peek = lease_peek,
    .take_over = lease_take_over,
    .beat = lease_beat,
    .give_up = lease_give_up,
    .close = lease_close,
};

/* --- keepers ------------------------------------------------------------------------------------------------------ */

/* A keeper, and how it has stood: what is over soon is not missed. */
struct watched {
    struct keeper *keeper;
    struct shared_source *source;
    struct keeper_view views[ROLE_FAILED + 1];
    unsigned counts[ROLE_FAILED + 1]; /* of those that nobody has asked for yet */
};

static void on_news(void *context)
{
    struct watched *watched = context;
    struct keeper_view view;
    pthread_mutex_lock(&watched->source->mutex);
    keeper_read(watched->keeper, &view);
    watched->views[view.role] = view;
    watched->counts[view.role]++;
    pthread_cond_broadcast(&watched->source->changed);
    pthread_mutex_unlock(&watched->source->mutex);
}

static void start(struct watched *watched, struct shared_source *source)
{
    struct memory_lease *self = calloc(1, sizeof(*self));
    assert_non_null(self);
    self->lease.ops = &memory_ops;
    self->source = source;
    *watched = (struct watched){.source = source};
    pthread_mutex_lock(&source->mutex); /* its news wait until we know it */
    watched->keeper = keeper_start(
        &(struct keeper_options){.lease = &self->lease, .lease_ms = LEASE_MS, .wake = on_news, .context = watched});
    pthread_mutex_unlock(&source->mutex);
}

static void stop(struct watched *watched)
{
    keeper_stop(watched->keeper);
    keeper_join(watched->keeper, PATIENCE_S * 1000);
}

/* Until the keeper stands so, or has since the last time that this was asked; what it said then. */
static struct keeper_view wait_for(struct watched *watched, enum lease_role role)
{
    const struct timespec until = moment_in(PATIENCE_S * 1000);
    int failure = 0;
    pthread_mutex_lock(&watched->source->mutex);
    while (watched->counts[role] == 0 && failure == 0)
        failure = pthread_cond_timedwait(&watched->source->changed, &watched->source->mutex, &until);
    watched->counts[role] = 0;
    struct keeper_view view = watched->views[role];
    pthread_mutex_unlock(&watched->source->mutex);
    assert_int_equal(failure, 0);
    return view;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void fence_of_a_sink_that_the_source_knows_nothing_of_is_told_as_a_failure(void **state)
{
    (void)state;
    struct shared_source source;
    source_init(&source);
    struct watched one;
    start(&one, &source);
    struct keeper_view view = wait_for(&one, ROLE_OWNER);
    assert_int_equal(view.term.epoch, 1);
    keeper_step_down(one.keeper, &view.term, 0);
    assert_false(keeper_is_valid(one.keeper, &view.term));
    view = wait_for(&one, ROLE_FAILED);
    assert_non_null(strstr(view.fault.text, "has the same identity"));
    view = wait_for(&one, ROLE_OWNER); /* it tries again, in a later term, and says nothing more */
    assert_int_equal(view.term.epoch, 2);
    assert_string_equal(view.fault.text, "");
    stop(&one);
    source_deinit(&source);
}

static void fence_behind_a_takeover_in_the_source_makes_a_standby(void **state)
{
    (void)state;
    struct shared_source source;
    source_init(&source);
    struct watched one;
    start(&one, &source);
    struct keeper_view view = wait_for(&one, ROLE_OWNER);
    pthread_mutex_lock(&source.mutex);
    source.row.term.epoch = 2; /* another relay's */
    uid_generate(&source.row.term.owner);
    source.holds_waits = true;
    pthread_mutex_unlock(&source.mutex);
    keeper_step_down(one.keeper, &view.term, 0);
    view = wait_for(&one, ROLE_STANDBY);
    assert_non_null(strstr(view.fault.text, "another"));
    pthread_mutex_lock(&source.mutex);
    assert_int_equal(source.takeovers, 1); /* P10: the epoch is not raised as an answer */
    source.holds_waits = false;
    pthread_cond_broadcast(&source.changed);
    pthread_mutex_unlock(&source.mutex);
    stop(&one);
    source_deinit(&source);
}

static void epoch_that_the_sink_knows_is_gone_above_at_once(void **state)
{
    (void)state;
    struct shared_source source;
    source_init(&source);
    struct watched one;
    start(&one, &source);
    struct keeper_view view = wait_for(&one, ROLE_OWNER);
    keeper_step_down(one.keeper, &view.term, 41);
    view = wait_for(&one, ROLE_OWNER);
    assert_int_equal(view.term.epoch, 42);
    stop(&one);
    source_deinit(&source);
}

static void keeper_that_is_paused_during_its_wait_takes_nothing_over(void **state)
{
    (void)state;
    struct shared_source source;
    source_init(&source);
    source.holds_waits = true;
    source.row.term.epoch = 1;
    uid_generate(&source.row.term.owner);
    struct watched one;
    start(&one, &source);
    (void)wait_for(&one, ROLE_STANDBY);
    pthread_mutex_lock(&source.mutex);
    while (!source.is_waiting)
        pthread_cond_wait(&source.changed, &source.mutex);
    pthread_mutex_unlock(&source.mutex);
    keeper_set_paused(one.keeper, true);
    pthread_mutex_lock(&source.mutex);
    source.is_owner_gone = true;
    source.holds_waits = false;
    pthread_cond_broadcast(&source.changed);
    pthread_mutex_unlock(&source.mutex);
    stop(&one);
    assert_int_equal(source.takeovers, 0);
    source_deinit(&source);
}

static void owner_whose_worker_fails_for_four_leases_gives_the_lease_to_another(void **state)
{
    (void)state;
    struct shared_source source;
    source_init(&source);
    struct watched failing, working;
    start(&failing, &source);
    struct keeper_view view = wait_for(&failing, ROLE_OWNER);
    start(&working, &source);
    uint64_t began_ms = boottime_ms();
    keeper_report(failing.keeper, &view.term, false);
    view = wait_for(&failing, ROLE_STANDBY);
    assert_true(boottime_ms() - began_ms >= (uint64_t)KEEPER_FAILING_LEASES * LEASE_MS);
    assert_non_null(strstr(view.fault.text, "gave the lease up"));
    view = wait_for(&working, ROLE_OWNER);
    assert_true(view.term.epoch >= 2);
    stop(&working);
    stop(&failing);
    source_deinit(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fence_of_a_sink_that_the_source_knows_nothing_of_is_told_as_a_failure),
        cmocka_unit_test(fence_behind_a_takeover_in_the_source_makes_a_standby),
        cmocka_unit_test(epoch_that_the_sink_knows_is_gone_above_at_once),
        cmocka_unit_test(keeper_that_is_paused_during_its_wait_takes_nothing_over),
        cmocka_unit_test(owner_whose_worker_fails_for_four_leases_gives_the_lease_to_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
