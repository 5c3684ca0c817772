#include "tallyd/departure.h"

#include "base/memory.h"
#include "platform/thread.h"

#include <stdlib.h>

#define LOOK_MS 10u

/* To take one out of the front takes longer the more there are behind it. */
#define STEPS_AT_ONCE 64u

/* --- the last step ------------------------------------------------------------------------------------------------ */

static void close_all(struct departure *departure)
{
    for (size_t i = 0; i < departure->closing_count; i++)
        opened_namespace_close(departure->closing_owned[i]);
}

static void *run_thread(void *argument)
{
    struct departure *departure = argument;
    close_all(departure);
    uv_async_send(&departure->closed);
    return NULL;
}

static size_t destroy_all(struct departure *departure)
{
    const size_t count = departure->closing_count;
    for (size_t i = 0; i < count; i++)
        opened_namespace_destroy(departure->closing_owned[i]);
    departure->closing_count = 0;
    return count;
}

static void join(struct departure *departure)
{
    (void)pthread_join(departure->thread, NULL);
    departure->is_closing = false;
}

static void on_closed(uv_async_t *handle)
{
    struct departure *departure = handle->data;
    if (!departure->is_closing)
        return;
    join(departure);
    departure->done(departure->context, destroy_all(departure));
}

/* Where the system has no thread, the loop closes them. */
static void begin_closing(struct departure *departure)
{
    departure->is_closing = thread_start(&departure->thread, run_thread, departure) == 0;
    if (departure->is_closing)
        return;
    close_all(departure);
    departure->done(departure->context, destroy_all(departure));
}

/* --- the steps before it ------------------------------------------------------------------------------------------ */

/* True: its relays have ended, and the front has it no more. */
static bool withdraw(struct opened_namespace *opened)
{
    if (api_is_withdrawn(&opened->served.api) || !relays_have_left_namespace(opened))
        return false;
    relays_forget_namespace(opened);
    served_withdraw(&opened->served);
    return true;
}

/* True: its replies have left, and it is with those that are to be closed. */
static bool let_go(struct departure *departure, struct opened_namespace *opened)
{
    if (departure->is_closing || !served_is_over(&opened->served))
        return false;
    served_deinit(&opened->served);
    namespace_retire(opened->ns);
    ARRAY_GROW(departure->closing_owned, departure->closing_count, departure->closing_capacity);
    departure->closing_owned[departure->closing_count++] = opened;
    return true;
}

static void on_look(uv_timer_t *handle)
{
    struct departure *departure = handle->data;
    size_t kept = 0, steps = 0;
    for (size_t i = 0; i < departure->leaving_count; i++) {
        struct opened_namespace *opened = departure->leaving_owned[i];
        if (let_go(departure, opened))
            continue;
        departure->leaving_owned[kept++] = opened;
        steps += steps < STEPS_AT_ONCE && withdraw(opened);
    }
    departure->leaving_count = kept;
    if (kept == 0)
        uv_timer_stop(&departure->look);
    if (departure->closing_count > 0 && !departure->is_closing)
        begin_closing(departure);
}

void departure_begin(struct departure *departure, struct opened_namespace *opened)
{
    ASSERT(!opened->is_leaving);
    opened->is_leaving = true;
    ARRAY_GROW(departure->leaving_owned, departure->leaving_count, departure->leaving_capacity);
    departure->leaving_owned[departure->leaving_count++] = opened;
    relays_leave_namespace(departure->relays, opened);
    uv_timer_start(&departure->look, on_look, 0, LOOK_MS);
}

static bool is_among(struct opened_namespace *const *opened, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(bytes_from_string(opened[i]->name_owned), name))
            return true;
    return false;
}

bool departure_has(const struct departure *departure, struct bytes name)
{
    return is_among(departure->leaving_owned, departure->leaving_count, name) ||
           is_among(departure->closing_owned, departure->closing_count, name);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void departure_init(struct departure *departure, struct relays *relays, uv_loop_t *loop,
                    void (*done)(void *context, size_t count), void *context)
{
    *departure = (struct departure){.relays = relays, .done = done, .context = context};
    const int result = uv_async_init(loop, &departure->closed, on_closed);
    ASSERT(result == 0); /* fails only where the loop itself could not be made */
    uv_timer_init(loop, &departure->look);
    departure->look.data = departure->closed.data = departure;
    uv_unref((uv_handle_t *)&departure->closed);
    uv_unref((uv_handle_t *)&departure->look);
}

void departure_deinit(struct departure *departure)
{
    if (departure->is_closing)
        join(departure);
    (void)destroy_all(departure);
    for (size_t i = 0; i < departure->leaving_count; i++) {
        struct opened_namespace *opened = departure->leaving_owned[i];
        if (!api_is_withdrawn(&opened->served.api))
            continue;
        served_deinit(&opened->served);
        opened_namespace_destroy(opened);
    }
    free(departure->leaving_owned);
    free(departure->closing_owned);
    uv_close((uv_handle_t *)&departure->look, NULL);
    uv_close((uv_handle_t *)&departure->closed, NULL);
}
