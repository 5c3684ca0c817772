/* See keeper.h.
 *
 * One mutex guards what the threads share; it is never held during a call of the lease. Only the keeper's thread
 * changes `role` and the term, so it reads them without the lock.
 *
 * Whether the owner lives is decided by its beat and this side's monotonic clock alone: nothing depends on two clocks
 * that agree. `valid_until_ms` counts from before the beat left, a stand-by's patience from after it saw the beat, so
 * the owner stops first. */
#include "relay/keeper.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define WAIT_MS_MAX 250u      /* a wait holds back VACUUM for as long (P18) */
#define RETRY_MS_MIN 50u      /* after the lease was not reached */
#define RETRY_MS_MAX 1000u    /* and then twice as long each time up to this */
#define AWAY_LEASES 2u        /* for how long a keeper that gave up leaves the lease to others */
#define FAILING_MS_MAX 60000u /* the longest a worker may fail before the lease is given up */
#define RETAKE_LEASES 10u /* the least distance between immediate takeovers that a sink with later epochs may cause */

struct keeper {
    struct keeper_options options;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t asked; /* on the monotonic clock, as the next */
    pthread_cond_t ended;

    /* Shared. */
    bool is_stopping;
    bool has_ended;
    bool is_paused;
    bool is_resumed; /* since the stand-by last looked: it need not rest on */
    bool is_told_fenced;
    uint64_t epoch_known;      /* that of the sink */
    uint64_t failing_since_ms; /* the worker; 0: it works */
    uint64_t failing_ms_max;   /* for how long it may */
    struct keeper_view view;

    /* The thread's own. */
    struct lease_view seen; /* what a stand-by saw last, */
    uint64_t seen_ms;       /* and when; 0: not since something went wrong */
    uint64_t silent_ms;     /* how long the beat has not moved, by successful looks alone */
    uint64_t away_until_ms;
    bool has_rival;   /* it is away because another database of the same identity uses the sink */
    uint64_t beat_ms; /* when the next beat is due */
    uint64_t retaken_ms;
    unsigned retry_ms;
};

static bool is_nobody(const struct uid *owner)
{
    static const struct uid nobody;
    return memcmp(owner, &nobody, sizeof(nobody)) == 0;
}

/* --- what the threads share --------------------------------------------------------------------------------------- */

static void lock(struct keeper *keeper)
{
    int failure = pthread_mutex_lock(&keeper->mutex);
    ASSERT(failure == 0);
}

static void unlock(struct keeper *keeper)
{
    pthread_mutex_unlock(&keeper->mutex);
}

/* Does the thread have something to do at once? */
static bool is_asked(const struct keeper *keeper)
{
    return keeper->is_stopping || keeper->is_told_fenced || keeper->is_resumed ||
           (keeper->is_paused && keeper->view.role == ROLE_OWNER);
}

/* Until `until_ms`, or until somebody asks for something. */
static void rest(struct keeper *keeper, uint64_t until_ms)
{
    uint64_t now_ms;
    lock(keeper);
    while (!is_asked(keeper) && (now_ms = boottime_ms()) < until_ms)
        (void)condition_wait_for(&keeper->asked, &keeper->mutex, until_ms - now_ms);
    unlock(keeper);
}

static void set_role(struct keeper *keeper, enum lease_role role, const struct fault *fault)
{
    lock(keeper);
    bool is_news = keeper->view.role != role || (fault != NULL && strcmp(fault->text, keeper->view.fault.text) != 0);
    keeper->view.role = role;
    if (fault != NULL)
        keeper->view.fault = *fault;
    unlock(keeper);
    if (is_news && keeper->options.wake != NULL)
        keeper->options.wake(keeper->options.context);
}

/* --- a term ------------------------------------------------------------------------------------------------------- */

static void begin_term(struct keeper *keeper, const struct term *term, uint64_t asked_ms)
{
    lock(keeper);
    keeper->view.term = *term;
    keeper->view.valid_until_ms = asked_ms + keeper->options.lease_ms;
    keeper->view.takeovers++;
    keeper->is_told_fenced = false;
    keeper->is_resumed = false;
    keeper->failing_since_ms = 0;
    unlock(keeper);
    keeper->beat_ms = asked_ms + keeper->options.lease_ms / 4;
    set_role(keeper, ROLE_OWNER, &(struct fault){.text = ""});
}

static void end_term(struct keeper *keeper, enum lease_role role, const struct fault *fault)
{
    ASSERT(keeper->view.role == ROLE_OWNER);
    keeper->seen_ms = 0; /* the stand-by must not use what was seen before */
    lock(keeper);
    keeper->is_told_fenced = false;
    keeper->view.valid_until_ms = 0;
    unlock(keeper);
    set_role(keeper, role, fault);
}

/* Gives up the lease. If another relay has it by now, that one is not affected. */
static void leave(struct keeper *keeper, uint64_t away_until_ms, const struct fault *fault)
{
    struct term term = keeper->view.term;
    keeper->away_until_ms = away_until_ms;
    end_term(keeper, keeper->has_rival ? ROLE_FAILED : ROLE_STANDBY,
             fault); /* first: from now on the worker sends nothing */
    keeper->options.lease->ops->give_up(keeper->options.lease, &term);
}

/* Has nobody taken over in the source? */
static bool is_source_ours(struct keeper *keeper)
{
    struct lease_view view;
    struct fault fault;
    struct lease *lease = keeper->options.lease;
    return lease->ops->peek(lease, &view, &fault) == STEP_OK && term_equal(&view.term, &keeper->view.term);
}

/* The sink knows another owner. There are three cases. The source may know it as well by now. A failover may have made
 * the source forget an epoch; then a takeover above that epoch repairs it. Or the source is a copy of another one, and
 * both would fence each other for ever: so this does not take over too often, and reports it. */
static void leave_fenced(struct keeper *keeper)
{
    static const struct fault fenced = {.text = "fenced: the sink or the source knows another owner"};
    static const struct fault rival = {
        .text =
            "fenced: the queue hears another owner of this outbox, of which this database knows nothing. A copy of the "
            "database has the same identity, and only one of the two is heard at a time; nothing is lost. Give the "
            "copy its own (in PostgreSQL: SELECT tally.rekey()), or stop its relays"};
    uint64_t now_ms = boottime_ms(), lease_ms = keeper->options.lease_ms;
    lock(keeper);
    bool may_retake = keeper->epoch_known >= keeper->view.term.epoch;
    unlock(keeper);
    if (may_retake && (keeper->retaken_ms == 0 || now_ms - keeper->retaken_ms > RETAKE_LEASES * lease_ms)) {
        keeper->retaken_ms = now_ms;
        leave(keeper, 0, &(struct fault){.text = "the sink knows a later epoch than the source"});
    } else {
        keeper->has_rival = is_source_ours(keeper);
        leave(keeper, now_ms + AWAY_LEASES * lease_ms, keeper->has_rival ? &rival : &fenced);
    }
}

/* Has the worker failed for too long? If this relay is alone, it takes over again a little later. The allowed time then
 * doubles, so that the pace slows down while a sink stays down. */
static bool is_failing(struct keeper *keeper, uint64_t now_ms, struct fault *fault)
{
    lock(keeper);
    uint64_t since_ms = keeper->failing_since_ms;
    bool is_it = since_ms != 0 && now_ms - since_ms >= keeper->failing_ms_max;
    if (is_it && keeper->failing_ms_max < FAILING_MS_MAX)
        keeper->failing_ms_max *= 2;
    unlock(keeper);
    if (is_it)
        fault_set(fault, STEP_UNREACHABLE, "gave the lease up: it could not work for %llu ms",
                  (unsigned long long)(now_ms - since_ms));
    return is_it;
}

static void beat(struct keeper *keeper)
{
    struct fault fault = {.text = ""};
    uint64_t asked_ms = boottime_ms(), lease_ms = keeper->options.lease_ms;
    enum step step = keeper->options.lease->ops->beat(keeper->options.lease, &keeper->view.term, &fault);
    lock(keeper);
    /* A term that was over for a moment stays over, even if nobody took the lease: the worker may have seen that and
     * ended. */
    bool is_told_fenced = keeper->is_told_fenced, is_over = boottime_ms() >= keeper->view.valid_until_ms;
    if (step == STEP_OK && !is_over)
        keeper->view.valid_until_ms = asked_ms + lease_ms;
    unlock(keeper);
    if (is_told_fenced)
        return; /* hold() is about to see to it */
    if (step == STEP_OK && is_over)
        leave(keeper, 0, &(struct fault){.text = "the lease was over before its beat arrived"});
    else if (step == STEP_OK)
        keeper->beat_ms = asked_ms + lease_ms / 4;
    else if (step == STEP_FENCED || is_over)
        end_term(keeper, ROLE_STANDBY, &fault);
    else
        keeper->beat_ms = boottime_ms() + RETRY_MS_MIN;
}

static void hold(struct keeper *keeper)
{
    rest(keeper, keeper->beat_ms);
    lock(keeper);
    bool is_told_fenced = keeper->is_told_fenced, is_paused = keeper->is_paused, is_stopping = keeper->is_stopping;
    unlock(keeper);
    uint64_t now_ms = boottime_ms();
    struct fault fault;
    if (is_stopping)
        return;
    if (is_told_fenced)
        leave_fenced(keeper);
    else if (is_paused)
        leave(keeper, 0, &(struct fault){.text = ""});
    else if (is_failing(keeper, now_ms, &fault))
        leave(keeper, now_ms + AWAY_LEASES * keeper->options.lease_ms, &fault);
    else
        beat(keeper);
}

/* --- standing by -------------------------------------------------------------------------------------------------- */

static void fail(struct keeper *keeper, const struct fault *fault)
{
    set_role(keeper, ROLE_FAILED, fault);
    keeper->seen_ms = 0;
    rest(keeper, boottime_ms() + keeper->retry_ms);
    keeper->retry_ms = keeper->retry_ms * 2 > RETRY_MS_MAX ? RETRY_MS_MAX : keeper->retry_ms * 2;
}

/* Reads the beat. Only the time between two successful reads counts, and at most twice their usual distance: a stand-by
 * that could not read the beat, or was stopped itself, knows nothing about the owner. */
static enum step look(struct keeper *keeper, struct fault *fault)
{
    struct lease_view view;
    enum step step = keeper->options.lease->ops->peek(keeper->options.lease, &view, fault);
    if (step != STEP_OK)
        return step;
    uint64_t now_ms = boottime_ms(), apart_ms = now_ms - keeper->seen_ms;
    bool is_still =
        keeper->seen_ms != 0 && view.beat == keeper->seen.beat && term_equal(&view.term, &keeper->seen.term);
    if (apart_ms > keeper->options.lease_ms / 2)
        apart_ms = keeper->options.lease_ms / 2;
    keeper->silent_ms = is_still ? keeper->silent_ms + apart_ms : 0;
    keeper->seen = view;
    keeper->seen_ms = now_ms;
    return STEP_OK;
}

static enum step take_over(struct keeper *keeper, struct fault *fault)
{
    lock(keeper);
    uint64_t epoch_min = keeper->epoch_known;
    unlock(keeper);
    struct term term;
    bool is_mine = false;
    uint64_t asked_ms = boottime_ms();
    struct lease *lease = keeper->options.lease;
    enum step step = lease->ops->take_over(lease, &keeper->seen, epoch_min, &term, &is_mine, fault);
    keeper->seen_ms = 0; /* if another one was faster, the waiting time begins again */
    if (step == STEP_OK && is_mine)
        begin_term(keeper, &term, asked_ms);
    return step;
}

/* Checked again after the wait: a relay that was paused or stopped meanwhile must not take over. */
static bool may_own(struct keeper *keeper)
{
    lock(keeper);
    bool may = !keeper->is_paused && !keeper->is_stopping;
    unlock(keeper);
    return may;
}

static enum step try_to_own(struct keeper *keeper, struct fault *fault)
{
    bool is_free = false;
    unsigned wait_ms = keeper->options.lease_ms / 4 < WAIT_MS_MAX ? keeper->options.lease_ms / 4 : WAIT_MS_MAX;
    struct lease *lease = keeper->options.lease;
    const struct term waited_for = keeper->seen.term;
    /* The first look comes without a wait: there may be no owner at all. */
    enum step step = keeper->seen_ms == 0 ? STEP_OK : lease->ops->wait(lease, wait_ms, &is_free, fault);
    if (step == STEP_OK)
        step = look(keeper, fault);
    if (step != STEP_OK)
        return step;
    /* The sign is about the owner before the wait; another stand-by may have been faster. */
    is_free = is_free && term_equal(&waited_for, &keeper->seen.term);
    is_free = is_free || keeper->seen.term.epoch == 0 || is_nobody(&keeper->seen.term.owner) ||
              keeper->silent_ms >= keeper->options.lease_ms;
    return is_free && may_own(keeper) ? take_over(keeper, fault) : STEP_OK;
}

static void stand_by(struct keeper *keeper)
{
    lock(keeper);
    bool is_paused = keeper->is_paused;
    keeper->is_resumed = false;
    unlock(keeper);
    uint64_t now_ms = boottime_ms();
    if (is_paused || now_ms < keeper->away_until_ms) {
        keeper->seen_ms = 0;
        set_role(keeper, keeper->has_rival && !is_paused ? ROLE_FAILED : ROLE_STANDBY, NULL);
        rest(keeper, now_ms + keeper->options.lease_ms / 8);
        return;
    }
    keeper->has_rival = false;
    struct fault fault = {.text = ""};
    enum step step = try_to_own(keeper, &fault);
    if (step != STEP_OK) {
        fail(keeper, &fault);
        return;
    }
    keeper->retry_ms = RETRY_MS_MIN;
    if (keeper->view.role != ROLE_OWNER)
        set_role(keeper, ROLE_STANDBY, NULL);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static bool is_stopping(struct keeper *keeper)
{
    lock(keeper);
    bool is_it = keeper->is_stopping;
    unlock(keeper);
    return is_it;
}

static void *keeper_run(void *argument)
{
    struct keeper *keeper = argument;
    while (!is_stopping(keeper))
        if (keeper->view.role == ROLE_OWNER)
            hold(keeper);
        else
            stand_by(keeper);
    if (keeper->view.role == ROLE_OWNER)
        leave(keeper, 0, NULL);
    lock(keeper);
    keeper->has_ended = true;
    pthread_cond_signal(&keeper->ended);
    unlock(keeper);
    return NULL;
}

struct keeper *keeper_start(const struct keeper_options *options)
{
    ASSERT(options->lease != NULL && options->lease_ms > 0);
    struct keeper *keeper = memory_allocate_zeroed(sizeof(*keeper));
    keeper->options = *options;
    keeper->retry_ms = RETRY_MS_MIN;
    keeper->failing_ms_max = (uint64_t)KEEPER_FAILING_LEASES * options->lease_ms;
    pthread_mutex_init(&keeper->mutex, NULL);
    condition_init(&keeper->asked);
    condition_init(&keeper->ended);
    sigset_t all, before; /* signals belong to the program's main thread */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&keeper->thread, NULL, keeper_run, keeper);
    ASSERT(failure == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return keeper;
}

void keeper_stop(struct keeper *keeper)
{
    lock(keeper);
    keeper->is_stopping = true;
    pthread_cond_signal(&keeper->asked);
    unlock(keeper);
}

void keeper_interrupt(struct keeper *keeper)
{
    struct lease *lease = keeper->options.lease;
    if (lease->ops->interrupt != NULL)
        lease->ops->interrupt(lease);
}

void keeper_join(struct keeper *keeper, unsigned wait_ms)
{
    const uint64_t until_ms = monotonic_ms() + wait_ms;
    lock(keeper);
    while (!keeper->has_ended && condition_wait_until(&keeper->ended, &keeper->mutex, until_ms))
        ;
    const bool is_late = !keeper->has_ended;
    unlock(keeper);
    if (is_late)
        keeper_interrupt(keeper);
    pthread_join(keeper->thread, NULL);
    keeper->options.lease->ops->close(keeper->options.lease);
    pthread_cond_destroy(&keeper->asked);
    pthread_cond_destroy(&keeper->ended);
    pthread_mutex_destroy(&keeper->mutex);
    free(keeper);
}

/* --- for the worker and others ------------------------------------------------------------------------------------ */

void keeper_read(struct keeper *keeper, struct keeper_view *view)
{
    lock(keeper);
    *view = keeper->view;
    unlock(keeper);
}

static bool is_current(const struct keeper *keeper, const struct term *term)
{
    return keeper->view.role == ROLE_OWNER && !keeper->is_told_fenced && term_equal(&keeper->view.term, term);
}

bool keeper_is_valid(struct keeper *keeper, const struct term *term)
{
    lock(keeper);
    bool is_valid = is_current(keeper, term) && boottime_ms() < keeper->view.valid_until_ms;
    unlock(keeper);
    return is_valid;
}

void keeper_step_down(struct keeper *keeper, const struct term *term, uint64_t epoch_known)
{
    lock(keeper);
    if (is_current(keeper, term)) {
        keeper->is_told_fenced = true;
        keeper->view.valid_until_ms = 0;
        if (epoch_known > keeper->epoch_known)
            keeper->epoch_known = epoch_known;
        pthread_cond_signal(&keeper->asked);
    }
    unlock(keeper);
}

void keeper_report(struct keeper *keeper, const struct term *term, bool is_working)
{
    lock(keeper);
    if (is_current(keeper, term)) {
        if (is_working) {
            keeper->failing_since_ms = 0;
            keeper->failing_ms_max = (uint64_t)KEEPER_FAILING_LEASES * keeper->options.lease_ms;
        } else if (keeper->failing_since_ms == 0) {
            keeper->failing_since_ms = boottime_ms();
        }
    }
    unlock(keeper);
}

void keeper_set_paused(struct keeper *keeper, bool is_paused)
{
    lock(keeper);
    keeper->is_resumed = keeper->is_paused && !is_paused && keeper->view.role != ROLE_OWNER;
    keeper->is_paused = is_paused;
    pthread_cond_signal(&keeper->asked);
    unlock(keeper);
}
