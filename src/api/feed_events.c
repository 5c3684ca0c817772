/* FeedEvents: what people and the server did lately (activity.h), and what they do next. */
#include "api/access.h"
#include "api/activity.h"
#include "api/audit.h"
#include "api/reach.h"
#include "api/reply.h"
#include "api/state.h"
#include "api/wait.h"

#define EVENTS_MAX 1000
#define WAIT_MAX_S 20

/* A reply with this many bytes takes no further event. */
#define EVENTS_SIZE_MAX ((size_t)1024 * 1024)

/* How many that wait are answered in a turn. */
#define SERVED_MAX 256u

static struct activity_item *item_of(struct list_link *link)
{
    return CONTAINER_OF(link, struct activity_item, link);
}

static struct waiter *waiter_of(struct list_link *link)
{
    return CONTAINER_OF(link, struct waiter, link);
}

/* --- which -------------------------------------------------------------------------------------------------------- */

/* Callers with queues= see what is about a queue that they cover. */
static bool is_visible(const struct credential *caller, const struct activity_item *item)
{
    if (caller == NULL || caller->patterns.size == 0)
        return true;
    return item->note.queue.size > 0 && credential_covers(caller, item->note.queue);
}

/* Is the number one that was never given here? Then it is of another life of the namespace. */
static bool is_foreign(const struct activity *activity, uint64_t after)
{
    return after > activity->last;
}

/* The first item behind the number, or NULL. Mostly it is one of the newest. */
static struct list_link *find_after(const struct activity *activity, uint64_t after)
{
    struct list_link *found = NULL;
    if (is_foreign(activity, after))
        return list_first(&activity->items);
    for (struct list_link *link = activity->items.head.prev;
         link != &activity->items.head && item_of(link)->number > after; link = link->prev)
        found = link;
    return found;
}

/* Where the newest results_max begin that the caller may see. */
static struct list_link *find_newest(const struct activity *activity, const struct credential *caller, int64_t count)
{
    struct list_link *found = NULL;
    for (struct list_link *link = activity->items.head.prev; link != &activity->items.head && count > 0;
         link = link->prev) {
        found = link;
        count -= is_visible(caller, item_of(link));
    }
    return found;
}

static bool has_answer(const struct activity *activity, const struct credential *caller, uint64_t after)
{
    for (struct list_link *link = find_after(activity, after); link != NULL; link = list_next(&activity->items, link))
        if (is_visible(caller, item_of(link)))
            return true;
    return false;
}

/* --- the reply ---------------------------------------------------------------------------------------------------- */

static void write_if(struct writer *reply, const char *name, struct bytes text)
{
    if (text.size > 0)
        writer_text(reply, name, text);
}

static void write_item(struct call *call, const struct activity_item *item)
{
    const struct activity_note *note = &item->note;
    const bool is_audit = note->kind == ACTIVITY_AUDIT;
    const bool is_whole = !reach_is_confined(call); /* what was refused may name what the caller does not cover */
    struct writer *reply = call->reply;
    writer_object_begin(reply, NULL);
    writer_number(reply, "Number", item->number);
    writer_time(reply, "At", item->at_ms);
    writer_string(reply, "Kind", is_audit ? "audit" : "server");
    writer_string(reply, "Action", note->action);
    write_if(reply, "AccessKeyId", note->access_key);
    write_if(reply, "Address", note->address);
    write_if(reply, "QueueName", note->queue);
    write_if(reply, "Target", audit_target(note, is_whole));
    if (is_audit)
        writer_string(reply, "Result", note->result == OK ? "OK" : error_row(note->result)->name);
    writer_text(reply, "Text", is_audit ? audit_words(note, is_whole, call->arena) : note->text);
    writer_object_end(reply);
}

static void write_reply(struct call *call, const struct activity *activity, const struct events_command *command)
{
    const struct buffer *body = &call->exchange->reply.body;
    const struct credential *caller = call->caller;
    struct list_link *link = command->must_be_newest ? find_newest(activity, caller, command->results_max)
                                                     : find_after(activity, command->after);
    const bool is_missing = !command->must_be_newest && command->after > 0 &&
                            (command->after < activity->gone || is_foreign(activity, command->after));
    uint64_t next = activity->last;
    writer_list_begin(call->reply, "Events");
    for (int64_t left = command->results_max; link != NULL; link = list_next(&activity->items, link)) {
        if (!is_visible(caller, item_of(link)))
            continue;
        if (left-- == 0 || body->size >= EVENTS_SIZE_MAX) {
            next = item_of(link)->number - 1;
            break;
        }
        write_item(call, item_of(link));
    }
    writer_list_end(call->reply);
    writer_number(call->reply, "Next", next);
    if (is_missing)
        writer_boolean(call->reply, "Missed", true);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

void events_init(struct api *api)
{
    list_init(&api->event_waiters);
}

static enum error check(struct call *call, const struct waiter *waiter)
{
    (void)waiter;
    return access_check_action(call);
}

static void answer(struct api *api, struct waiter *waiter, uint64_t now_ms)
{
    struct exchange *exchange = waiter->exchange;
    struct failure failure;
    failure_init(&failure);
    struct reply_draft draft;
    struct call call = call_resume(api, exchange, &draft, &failure, now_ms);
    const enum error error = check(&call, waiter);
    if (error != OK) {
        wait_refuse(api, waiter, error, &failure);
        return;
    }
    write_reply(&call, activity_of(api), &waiter->events);
    reply_end(exchange, &draft, false);
    wait_finish(api, waiter);
}

/* What it can't see it need not look at again. */
static bool has_news(struct api *api, struct waiter *waiter)
{
    const struct activity *activity = activity_of(api);
    if (has_answer(activity, waiter->exchange->caller, waiter->events.after))
        return true;
    waiter->events.after = activity->last;
    return false;
}

void events_serve(struct api *api, uint64_t now_ms)
{
    unsigned left = SERVED_MAX;
    struct list_link *next = api->has_event_news ? list_first(&api->event_waiters) : NULL;
    while (next != NULL && left > 0 && !front_must_wait(api->front)) {
        struct waiter *waiter = waiter_of(next);
        next = list_next(&api->event_waiters, next);
        if (!has_news(api, waiter))
            continue;
        left--;
        answer(api, waiter, now_ms);
    }
    api->has_event_news = next != NULL;
}

/* Where memory for replies is spent, without events, from where it stands. */
static void expire(struct api *api, struct waiter *waiter, uint64_t now_ms)
{
    if (front_must_wait(api->front))
        waiter->events.results_max = 0;
    answer(api, waiter, now_ms);
}

const struct wait_kind wait_for_events = {
    .has_deadline = true,
    .count_offset = offsetof(struct api, events_waiting),
    .check = check,
    .expire = expire,
};

static void begin_wait(struct call *call, const struct events_command *command, int64_t wait_s)
{
    struct waiter *waiter = wait_begin(call, &wait_for_events, 0);
    waiter->events = *command;
    exchange_rest(call->exchange);
    list_append(&call->api->event_waiters, &waiter->link);
    wait_set_deadline(call->api, waiter, call->now_ms + (uint64_t)wait_s * 1000);
}

/* --- the action --------------------------------------------------------------------------------------------------- */

static enum error read_command(struct call *call, struct events_command *command, int64_t *wait_s)
{
    int64_t after = 0;
    bool is_given;
    enum error error = params_integer(&call->params, "After", &after, &is_given);
    if (error == OK && after < 0)
        error = call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "After must be 0 or the number of an event.");
    *command =
        (struct events_command){.after = (uint64_t)after, .results_max = EVENTS_MAX, .must_be_newest = !is_given};
    if (error == OK)
        error = params_integer_in(&call->params, "MaxResults", 1, EVENTS_MAX, "It must be from 1 to 1000.",
                                  &command->results_max);
    if (error == OK)
        error = params_integer_in(&call->params, "WaitTimeSeconds", 0, WAIT_MAX_S, "It must be from 0 to 20.", wait_s);
    return error;
}

enum error action_feed_events(struct call *call)
{
    struct events_command command;
    int64_t wait_s = 0;
    const enum error error = read_command(call, &command, &wait_s);
    if (error != OK)
        return error;
    const struct activity *activity = activity_of(call->api);
    if (wait_s == 0 || is_foreign(activity, command.after) || has_answer(activity, call->caller, command.after)) {
        write_reply(call, activity, &command);
        return OK;
    }
    if (command.must_be_newest)
        command = (struct events_command){.after = activity->last, .results_max = command.results_max};
    begin_wait(call, &command, wait_s);
    return OK;
}
