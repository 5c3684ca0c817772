#include "tallyd/holding.h"

#include "base/memory.h"
#include "platform/thread.h"

#include <stdlib.h>
#include <string.h>

static int start_thread(struct holding *holding, void *(*run)(void *argument))
{
    atomic_store(&holding->is_done, false);
    const int result = thread_start(&holding->thread, run, holding);
    holding->has_thread = result == 0;
    return result;
}

static void end_thread(struct holding *holding)
{
    void (*done)(void *context) = holding->done;
    void *context = holding->context;
    atomic_store(&holding->is_done, true);
    done(context);
}

static void *run_follow(void *argument)
{
    struct holding *holding = argument;
    failure_init(&holding->failure);
    holding->error = namespaces_follow(holding->namespaces, holding->opened_owned, &holding->failure);
    if (holding->error == OK && holding->leads != NULL)
        atomic_store(holding->leads, true);
    end_thread(holding);
    return NULL;
}

static void *run_close(void *argument)
{
    struct holding *holding = argument;
    opened_namespace_close(holding->opened_owned);
    end_thread(holding);
    return NULL;
}

bool holding_follow(struct holding *holding, const struct pg_options *options, struct failure *failure)
{
    ASSERT(holding->state == HOLDING_ABSENT && holding->opened_owned == NULL);
    holding->opened_owned = namespaces_prepare(holding->namespaces, holding->name_owned, options);
    holding->is_led = options->leads != NULL;
    holding->is_recalled = false;
    holding->tries++;
    holding->follows_since_ms = pg_now_ms();
    const int result = start_thread(holding, run_follow);
    if (result == 0) {
        holding->state = HOLDING_FOLLOWS;
        return true;
    }
    opened_namespace_destroy(holding->opened_owned);
    holding->opened_owned = NULL;
    (void)failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                      "namespace %s: there is no thread to follow its log with: %s.", holding->name_owned,
                      strerror(result));
    return false;
}

void holding_recall(struct holding *holding)
{
    ASSERT(holding->state == HOLDING_FOLLOWS);
    holding->is_recalled = true;
    disk_postgres_stop(holding->opened_owned->disk);
}

void holding_give_up(struct holding *holding)
{
    holding->state = HOLDING_CLOSES;
    holding->is_waiting = true;
    disk_postgres_bear_silence(holding->opened_owned->disk, false);
}

void holding_close(struct holding *holding)
{
    ASSERT(holding->state == HOLDING_CLOSES && holding->is_waiting);
    holding->is_waiting = false;
    if (start_thread(holding, run_close) == 0)
        return;
    opened_namespace_close(holding->opened_owned);
    atomic_store(&holding->is_done, true);
}

bool holding_has_ended(struct holding *holding)
{
    if (!atomic_load(&holding->is_done))
        return false;
    holding_await(holding);
    return true;
}

void holding_await(struct holding *holding)
{
    if (holding->has_thread)
        (void)pthread_join(holding->thread, NULL);
    holding->has_thread = false;
}

struct pg_node holding_owner(const struct holding *holding)
{
    return holding->state == HOLDING_FOLLOWS ? disk_postgres_owner(holding->opened_owned->disk) : (struct pg_node){0};
}

struct holding *holding_create(const struct namespaces *namespaces, const struct belonging *belonging,
                               struct bytes name, void (*done)(void *context), void *context)
{
    struct holding *holding = memory_allocate_zeroed(sizeof(*holding));
    holding->namespaces = namespaces;
    holding->belonging = belonging;
    holding->name_owned = memory_allocate(name.size + 1);
    (void)snprintf(holding->name_owned, name.size + 1, "%.*s", BYTES_FORMAT(name));
    holding->since_ms = pg_now_ms();
    holding->done = done;
    holding->context = context;
    failure_init(&holding->failure);
    failure_init(&holding->loss);
    return holding;
}

void holding_destroy(struct holding *holding)
{
    ASSERT(holding->opened_owned == NULL && holding->state == HOLDING_ABSENT);
    free(holding->name_owned);
    free(holding);
}
