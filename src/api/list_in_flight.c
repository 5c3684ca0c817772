/* ListInFlight: which messages are in flight, since when, until when, and who has them. Queue by queue in order of
 * name, and in each the oldest message first. */
#include "api/holder_view.h"
#include "api/peek.h"
#include "api/queue_walk.h"
#include "core/state.h"

/* The page that is being made. It may be asked for all messages in flight, those of one queue, and of one holder. */
struct listing {
    struct call *call;
    const struct queue *only; /* NULL: all queues */
    struct bytes access_key;  /* of the holder, like the next; not given (NULL): any */
    struct bytes worker;
    int64_t results_max;
    unsigned visits; /* of messages and queues */
    int64_t count;   /* of messages on the page */
    struct peek_reads reads;

    struct bytes queue_name;    /* the next page begins there, or at the first name behind it; */
    struct message_place place; /* and there in that queue */
    bool is_end;                /* there is none */
};

/* --- tokens ------------------------------------------------------------------------------------------------------- */

/* A place in a queue, and the queue's name. A list of one queue has tokens of that queue only. */
static enum error read_token(struct listing *listing)
{
    struct call *call = listing->call;
    uint64_t numbers[PEEK_PLACE_NUMBERS];
    bool is_given;
    const enum error error = call_read_queue_token(call, numbers, PEEK_PLACE_NUMBERS, &listing->queue_name, &is_given);
    if (error != OK || !is_given)
        return error;
    const bool is_of_another = listing->only != NULL && !bytes_equal(listing->queue_name, listing->only->name_owned);
    const bool is_good = peek_place_from_numbers(numbers, &listing->place) && !is_of_another;
    return is_good ? OK : call_fail_token(call);
}

static void write_token(const struct listing *listing)
{
    uint64_t numbers[PEEK_PLACE_NUMBERS];
    peek_place_to_numbers(listing->place, numbers);
    call_write_queue_token(listing->call, numbers, PEEK_PLACE_NUMBERS, listing->queue_name);
}

/* --- a message ---------------------------------------------------------------------------------------------------- */

static bool is_asked(const struct listing *listing, uint32_t slot)
{
    const struct message *message = core_message(listing->call->core, slot);
    struct holder_name name = {.access_key = {NULL, 0}};
    if (message->state != MESSAGE_IN_FLIGHT || core_message_is_dead(listing->call->core, message))
        return false;
    if (listing->access_key.ptr == NULL && listing->worker.ptr == NULL)
        return true;
    return holder_find(listing->call->core, slot, &name) &&
           (listing->access_key.ptr == NULL || bytes_equal(name.access_key, listing->access_key)) &&
           (listing->worker.ptr == NULL || bytes_equal(name.worker, listing->worker));
}

static void write_message(struct call *call, const struct queue *queue, uint32_t slot)
{
    struct writer *reply = call->reply;
    const struct message *message = core_message(call->core, slot);
    const uint32_t group = core_group_of(call->core, message);
    writer_object_begin(reply, NULL);
    peek_write_id(call, slot);
    writer_text(reply, "QueueUrl", call_queue_url(call, queue));
    if (group != 0 && core_group(call->core, group)->id_owned.size > 0)
        writer_text(reply, "MessageGroupId", core_group(call->core, group)->id_owned);
    writer_number(reply, "ReceiveCount", message->receive_count);
    writer_number(reply, "FencingToken", message->delivery);
    writer_time(reply, "ReceivedAt", message->sent_at_ms + message->received_after_ms);
    writer_time(reply, "VisibleAt", message->visible_at_ms);
    holder_view_write(call, slot);
    writer_object_end(reply);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

static bool is_full(const struct listing *listing)
{
    return listing->count >= listing->results_max || listing->visits >= MESSAGE_WALK_VISITS_MAX;
}

/* Lists those of a queue from the place on. False: the page ends before the queue does. */
static bool list_queue(struct listing *listing, const struct queue *queue)
{
    struct call *call = listing->call;
    const bool is_from_start = listing->place.number == 0 && listing->place.arrival == 0;
    uint64_t left = core_message_list(call->core, queue)->in_flight_count;
    struct message_walk walk;
    message_walk_begin(&walk, call->core, queue, listing->place);
    while (!walk.is_lost && !is_full(listing)) {
        /* From the start on we see all of them, so that we need not go on behind the last. */
        const uint32_t slot = is_from_start && left == 0 ? 0 : message_walk_next(&walk);
        if (slot == 0)
            return true;
        listing->visits++;
        left -= core_message(call->core, slot)->state == MESSAGE_IN_FLIGHT;
        if (is_asked(listing, slot)) {
            if (!peek_may_write(call, slot, PEEK_NO_BODY, &listing->reads))
                return false;
            write_message(call, queue, slot);
            listing->count++;
        }
        listing->place = walk.place;
    }
    listing->place = walk.place;
    return !walk.is_lost && ((is_from_start && left == 0) || message_walk_is_over(&walk));
}

static void list_all(struct listing *listing)
{
    const struct core *core = listing->call->core;
    const struct queue *queue;
    struct queue_walk walk;
    queue_walk_begin(&walk, listing->call, bytes_make(NULL, 0), core_queue_index(core, listing->queue_name));
    while ((queue = queue_walk_next(&walk)) != NULL) {
        if (listing->only != NULL && listing->only != queue)
            break;
        if (!bytes_equal(listing->queue_name, queue->name_owned))
            listing->place = (struct message_place){0};
        listing->queue_name = queue->name_owned;
        if (listing->visits++ >= MESSAGE_WALK_VISITS_MAX)
            return;
        const bool has_some = core_message_list(core, queue)->in_flight_count > 0;
        if (has_some && (is_full(listing) || !list_queue(listing, queue)))
            return;
    }
    listing->is_end = queue != NULL || queue_walk_is_over(&walk);
    if (listing->is_end)
        return;
    listing->queue_name = queue_walk_seal_name(&walk, listing->call->arena);
    listing->place = (struct message_place){0};
}

enum error action_list_in_flight(struct call *call)
{
    struct queue *only;
    bool is_given;
    struct listing listing = {.call = call, .access_key = {NULL, 0}};
    enum error error = call_optional_queue(call, &only);
    if (error == OK)
        error = params_text(&call->params, "AccessKeyId", &listing.access_key);
    if (error == OK)
        error = params_text(&call->params, "Worker", &listing.worker);
    if (error == OK)
        error = call_results_max(call, &listing.results_max, &is_given);
    listing.only = only;
    if (error == OK && only != NULL)
        listing.queue_name = only->name_owned;
    if (error == OK)
        error = read_token(&listing);
    if (error != OK)
        return error;
    writer_list_begin(call->reply, "Messages");
    list_all(&listing);
    writer_list_end(call->reply);
    if (!listing.is_end)
        write_token(&listing);
    return OK;
}
