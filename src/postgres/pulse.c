#include "postgres/pulse.h"

#include "base/buffer.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "platform/thread.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#define SHARE 4u    /* so many in a lease */
#define STEP_MS 10u /* so soon it notices that it is to end */

/* A log in one round. */
struct beaten {
    uint32_t id;
    uint64_t epoch;
    bool is_done;
};

struct pg_pulse {
    struct pg_options options;
    struct pg_session session; /* the thread's */
    pthread_t thread;
    atomic_bool is_ending;
    pthread_mutex_t mutex; /* of the next two */
    struct list entries;
    size_t count;
};

/* --- a round ------------------------------------------------------------------------------------------------------ */

static int compare_ids(const void *one, const void *other)
{
    const uint32_t a = ((const struct beaten *)one)->id, b = ((const struct beaten *)other)->id;
    return (a > b) - (a < b);
}

static struct beaten *find(struct beaten *round, size_t count, uint32_t id)
{
    const struct beaten key = {.id = id};
    return count == 0 ? NULL : bsearch(&key, round, count, sizeof(*round), compare_ids);
}

/* Will it need one before the next round, and does somebody look after it? */
static bool needs_life(const struct pg_pulse *pulse, const struct pg_pulse_entry *entry, uint64_t now_ms)
{
    const uint32_t lease_ms = pulse->options.lease_ms;
    return now_ms >= atomic_load(entry->proved_ms) + lease_ms / (2 * SHARE) &&
           now_ms < atomic_load(entry->seen_ms) + lease_ms / 2;
}

/* The logs that need a sign of life, by id, for the caller to free; and the texts of the three parameters. */
static struct beaten *list_round(struct pg_pulse *pulse, uint64_t now_ms, struct buffer texts[3], size_t *count)
{
    (void)pthread_mutex_lock(&pulse->mutex);
    struct beaten *round = memory_allocate((pulse->count + 1) * sizeof(*round));
    *count = 0;
    for (struct list_link *link = list_first(&pulse->entries); link != NULL; link = list_next(&pulse->entries, link)) {
        const struct pg_pulse_entry *entry = CONTAINER_OF(link, struct pg_pulse_entry, link);
        if (!needs_life(pulse, entry, now_ms))
            continue;
        char owner[2 * PG_OWNER_SIZE + 1];
        bytes_to_hex(bytes_make(entry->owner, PG_OWNER_SIZE), owner);
        const char *comma = *count == 0 ? "" : ",";
        buffer_append_format(&texts[0], "%s%" PRIu32, comma, entry->id);
        buffer_append_format(&texts[1], "%s%" PRIu64, comma, entry->epoch);
        buffer_append_format(&texts[2], "%s%.*s", comma, (int)sizeof(owner) - 1, owner);
        round[(*count)++] = (struct beaten){.id = entry->id, .epoch = entry->epoch};
    }
    (void)pthread_mutex_unlock(&pulse->mutex);
    qsort(round, *count, sizeof(*round), compare_ids);
    return round;
}

/* One that was sealed anew meanwhile has another epoch. */
static void note_proofs(struct pg_pulse *pulse, struct beaten *round, size_t count, uint64_t began_ms)
{
    const uint32_t host = pulse->session.link.host.number;
    (void)pthread_mutex_lock(&pulse->mutex);
    for (struct list_link *link = list_first(&pulse->entries); link != NULL; link = list_next(&pulse->entries, link)) {
        struct pg_pulse_entry *entry = CONTAINER_OF(link, struct pg_pulse_entry, link);
        const struct beaten *found = find(round, count, entry->id);
        if (found != NULL && found->is_done && found->epoch == entry->epoch && host == entry->host)
            pg_raise_ms(entry->proved_ms, began_ms);
    }
    (void)pthread_mutex_unlock(&pulse->mutex);
}

/* It counts only if commits wait for the replicas that are wanted, as with prove() in log_write.c. */
static bool beat(struct pg_pulse *pulse, struct buffer texts[3], struct beaten *round, size_t count)
{
    struct failure ignored;
    failure_init(&ignored);
    const uint64_t until_ms = pg_now_ms() + pulse->options.lease_ms / 2;
    struct pg_values values = {0};
    for (int i = 0; i < 3; i++)
        pg_add_bytes(&values, buffer_bytes(&texts[i]));
    PGresult *rows = NULL;
    if (pg_session_open(&pulse->session, until_ms, &ignored) != OK ||
        pg_session_run(&pulse->session, PG_PULSE, &values, until_ms, &rows, &ignored) != PG_DONE)
        return false;
    for (int i = 0; i < PQntuples(rows); i++) {
        struct beaten *found = find(round, count, (uint32_t)pg_number(rows, i, 0));
        if (found != NULL)
            found->is_done = true;
    }
    PQclear(rows);
    return pg_session_check_replicas(&pulse->session, until_ms, &ignored) == OK;
}

static void beat_once(struct pg_pulse *pulse, uint64_t began_ms)
{
    struct buffer texts[3];
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        buffer_init(&texts[i]);
    size_t count;
    struct beaten *round = list_round(pulse, began_ms, texts, &count);
    if (count > 0 && beat(pulse, texts, round, count))
        note_proofs(pulse, round, count, began_ms);
    free(round);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        buffer_deinit(&texts[i]);
}

static void *run(void *argument)
{
    struct pg_pulse *pulse = argument;
    while (!atomic_load(&pulse->is_ending)) {
        const uint64_t began_ms = pg_now_ms();
        beat_once(pulse, began_ms);
        while (!atomic_load(&pulse->is_ending) && pg_now_ms() < began_ms + pulse->options.lease_ms / SHARE)
            sleep_for(STEP_MS);
    }
    return NULL;
}

/* --- logs --------------------------------------------------------------------------------------------------------- */

void pg_pulse_join(struct pg_pulse *pulse, struct pg_pulse_entry *entry, const struct pg_session *session)
{
    const struct pg_head *head = &session->head;
    (void)pthread_mutex_lock(&pulse->mutex);
    if (!list_is_linked(&entry->link)) {
        list_append(&pulse->entries, &entry->link);
        pulse->count++;
    }
    entry->id = head->id;
    entry->epoch = head->epoch;
    memcpy(entry->owner, head->owner, PG_OWNER_SIZE);
    entry->host = session->link.host.number;
    (void)pthread_mutex_unlock(&pulse->mutex);
}

void pg_pulse_leave(struct pg_pulse *pulse, struct pg_pulse_entry *entry)
{
    (void)pthread_mutex_lock(&pulse->mutex);
    if (list_is_linked(&entry->link)) {
        list_remove(&entry->link);
        pulse->count--;
    }
    (void)pthread_mutex_unlock(&pulse->mutex);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void free_all(struct pg_pulse *pulse)
{
    pg_session_deinit(&pulse->session);
    (void)pthread_mutex_destroy(&pulse->mutex);
    free(pulse);
}

struct pg_pulse *pg_pulse_create(const struct pg_options *options)
{
    struct pg_pulse *pulse = memory_allocate_zeroed(sizeof(*pulse));
    pulse->options = *options;
    pg_session_init(&pulse->session, &pulse->options, "pulse");
    (void)pthread_mutex_init(&pulse->mutex, NULL);
    list_init(&pulse->entries);
    if (thread_start(&pulse->thread, run, pulse) == 0)
        return pulse;
    free_all(pulse);
    return NULL;
}

void pg_pulse_destroy(struct pg_pulse *pulse)
{
    ASSERT(list_is_empty(&pulse->entries));
    atomic_store(&pulse->is_ending, true);
    (void)pthread_join(pulse->thread, NULL);
    free_all(pulse);
}
