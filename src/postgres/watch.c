#include "postgres/watch.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "platform/thread.h"
#include <pthread.h>
#include <stdlib.h>

#define LOOK_MS 200u
#define HURRIED_LOOK_MS 20u
#define STEP_MS 10u /* so soon it notices that it is to end, or in a hurry */

#define LOG_NAME_SIZE 64u

/* A log, as it was seen last. */
struct seen {
    char log[LOG_NAME_SIZE];
    struct pg_node owner;
    uint64_t epoch, number; /* the signs of life */
    uint64_t changed_ms;    /* when they were seen to change, or first seen */
    uint64_t free_since_ms; /* since when nobody has the lock of this epoch; 0: its owner's process is connected */
};

struct pg_watch {
    struct pg_options options;
    struct pg_session session; /* the thread's */
    pthread_t thread;
    atomic_bool is_ending;
    atomic_bool is_hurried;
    pthread_mutex_t mutex;   /* of the rest */
    struct seen *seen_owned; /* by name */
    size_t count;
    uint64_t heard_ms; /* when the newest look began that was answered */
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

static int compare_to_name(const void *log, const void *seen)
{
    return strcmp(log, ((const struct seen *)seen)->log);
}

static struct seen *find(const struct pg_watch *watch, const char *log)
{
    return watch->count == 0
               ? NULL
               : bsearch(log, watch->seen_owned, watch->count, sizeof(*watch->seen_owned), compare_to_name);
}

static void decode(const struct pg_watch *watch, const PGresult *rows, int row, uint64_t now_ms, struct seen *seen)
{
    *seen = (struct seen){.epoch = pg_number(rows, row, 1),
                          .number = pg_number(rows, row, 2),
                          .changed_ms = now_ms,
                          .free_since_ms = pg_number(rows, row, 5) != 0 ? 0 : now_ms};
    pg_text(rows, row, 0, seen->log, sizeof(seen->log));
    pg_text(rows, row, 3, seen->owner.name, sizeof(seen->owner.name));
    pg_text(rows, row, 4, seen->owner.address, sizeof(seen->owner.address));
    const struct seen *before = find(watch, seen->log);
    if (before != NULL && before->epoch == seen->epoch && before->number == seen->number)
        seen->changed_ms = before->changed_ms;
    const bool was_free = before != NULL && before->epoch == seen->epoch && before->free_since_ms != 0;
    if (was_free && seen->free_since_ms != 0)
        seen->free_since_ms = before->free_since_ms;
}

/* The rows come in the order of names, as bytes. */
static void note(struct pg_watch *watch, const PGresult *rows, uint64_t asked_ms)
{
    const size_t count = (size_t)PQntuples(rows);
    struct seen *seen = memory_allocate((count + 1) * sizeof(*seen));
    for (size_t i = 0; i < count; i++)
        decode(watch, rows, (int)i, asked_ms, &seen[i]);
    (void)pthread_mutex_lock(&watch->mutex);
    free(watch->seen_owned);
    watch->seen_owned = seen;
    watch->count = count;
    watch->heard_ms = asked_ms;
    (void)pthread_mutex_unlock(&watch->mutex);
}

/* While PostgreSQL can't be asked, nobody's silence counts. */
static void note_break(struct pg_watch *watch)
{
    const uint64_t now_ms = pg_now_ms();
    (void)pthread_mutex_lock(&watch->mutex);
    for (size_t i = 0; i < watch->count; i++) {
        watch->seen_owned[i].changed_ms = now_ms;
        watch->seen_owned[i].free_since_ms = 0;
    }
    (void)pthread_mutex_unlock(&watch->mutex);
}

static void look(struct pg_watch *watch)
{
    struct failure ignored;
    failure_init(&ignored);
    const uint64_t until_ms = pg_now_ms() + watch->options.lease_ms;
    const struct pg_values none = {0};
    PGresult *rows = NULL;
    const bool is_open = pg_session_open(&watch->session, until_ms, &ignored) == OK;
    const uint64_t asked_ms = pg_now_ms(); /* the answer may be late, and old then */
    if (is_open && pg_session_run(&watch->session, PG_OWNERS, &none, until_ms, &rows, &ignored) == PG_DONE)
        note(watch, rows, asked_ms);
    else
        note_break(watch);
    PQclear(rows);
}

static void *run(void *argument)
{
    struct pg_watch *watch = argument;
    while (!atomic_load(&watch->is_ending)) {
        look(watch);
        const uint64_t began_ms = pg_now_ms();
        while (!atomic_load(&watch->is_ending) &&
               pg_now_ms() < began_ms + (atomic_load(&watch->is_hurried) ? HURRIED_LOOK_MS : LOOK_MS))
            sleep_for(STEP_MS);
    }
    return NULL;
}

/* --- others ------------------------------------------------------------------------------------------------------- */

bool pg_watch_find(struct pg_watch *watch, const char *log, struct pg_sight *sight)
{
    (void)pthread_mutex_lock(&watch->mutex);
    const struct seen *seen = find(watch, log);
    if (seen != NULL)
        *sight = (struct pg_sight){.owner = seen->owner,
                                   .is_alone = seen->free_since_ms != 0 ||
                                               watch->heard_ms >= seen->changed_ms + watch->options.lease_ms,
                                   .free_ms = seen->free_since_ms == 0 ? 0 : watch->heard_ms - seen->free_since_ms};
    (void)pthread_mutex_unlock(&watch->mutex);
    return seen != NULL;
}

uint64_t pg_watch_heard_ms(struct pg_watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    const uint64_t heard_ms = watch->heard_ms;
    (void)pthread_mutex_unlock(&watch->mutex);
    return heard_ms;
}

void pg_watch_hurry(struct pg_watch *watch, bool is_hurried)
{
    atomic_store(&watch->is_hurried, is_hurried);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct pg_watch *pg_watch_create(const struct pg_options *options)
{
    struct pg_watch *watch = memory_allocate_zeroed(sizeof(*watch));
    watch->options = *options;
    pg_session_init(&watch->session, &watch->options, "watch");
    (void)pthread_mutex_init(&watch->mutex, NULL);
    if (thread_start(&watch->thread, run, watch) == 0)
        return watch;
    (void)pthread_mutex_destroy(&watch->mutex);
    free(watch);
    return NULL;
}

void pg_watch_destroy(struct pg_watch *watch)
{
    atomic_store(&watch->is_ending, true);
    (void)pthread_join(watch->thread, NULL);
    pg_session_deinit(&watch->session);
    (void)pthread_mutex_destroy(&watch->mutex);
    free(watch->seen_owned);
    free(watch);
}
