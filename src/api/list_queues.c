/* ListQueues, ListDeadLetterSourceQueues and ListQueueStats: queues in order of name, a page at a time; of the last one
 * also the worst first. */
#include "api/access.h"
#include "api/queue_walk.h"
#include "api/wait.h"
#include "core/messages/message_list.h"
#include "core/messages/message_walk.h"
#include <stdlib.h>

/* How many queues one call puts in order, and how many messages it looks at to find the oldest deliverable ones: of one
 * queue, and of all of them. */
#define QUEUES_RANKED_MAX 10000u
#define QUEUE_VISITS_MAX 100u
#define VISITS_MAX 10000u

/* What only some queues have. */
enum queue_having { HAVING_ANY, HAVING_HELD_GROUPS, HAVING_PAUSE, HAVING_NOTHING_VISIBLE, HAVING_DEAD_LETTERS };

/* Which queues a list has. */
struct selection {
    struct bytes prefix; /* of their names */
    enum queue_having having;
    const struct queue *target; /* only queues with this dead-letter queue; NULL: all queues */
    bool is_of_sqs;             /* SQS leaves an empty list out, and gives a NextToken only to who asked for pages */
};

static bool is_selected(const struct selection *selection, const struct queue *queue)
{
    return selection->target == NULL || queue_is_source_of(queue, selection->target);
}

/* Its dead-letter queue, if that has messages and is one of those that the list is about. */
static const struct queue *full_dead_letter_queue(const struct call *call, const struct selection *selection,
                                                  const struct queue *source)
{
    const struct bytes name = queue_name_of_arn(source->settings.dead_letter_arn);
    const struct queue *queue = name.size == 0 ? NULL : core_find_queue(call->core, name);
    if (queue == NULL || !queue_is_source_of(source, queue) || !access_covers(call, name) ||
        !bytes_starts_with(name, selection->prefix))
        return NULL;
    return message_list_visible_count(core_message_list(call->core, queue)) > 0 ? queue : NULL;
}

/* There are messages, and all are in flight, delayed or blocked. */
static bool has_only_hidden(const struct message_list *list)
{
    return message_list_visible_count(list) == 0 && list->in_flight_count + list->delayed_count > 0;
}

/* The queue that stands in the list because of this one, or NULL. */
static const struct queue *listed_for(const struct call *call, const struct selection *selection,
                                      const struct queue *queue)
{
    if (!is_selected(selection, queue))
        return NULL;
    if (selection->having == HAVING_DEAD_LETTERS)
        return full_dead_letter_queue(call, selection, queue);
    if (selection->having == HAVING_PAUSE)
        return queue->is_paused ? queue : NULL;
    if (selection->having == HAVING_NOTHING_VISIBLE)
        return has_only_hidden(core_message_list(call->core, queue)) ? queue : NULL;
    if (selection->having == HAVING_HELD_GROUPS)
        return core_message_list(call->core, queue)->held_count > 0 ? queue : NULL;
    return queue;
}

/* --- in order of name --------------------------------------------------------------------------------------------- */

static void write_url(struct call *call, const struct queue *queue, unsigned *visits)
{
    (void)visits;
    writer_text(call->reply, NULL, call_queue_url(call, queue));
}

/* Writes a page of them as the list `member`. There is a NextToken, too, where the walk is not over although the page
 * has room. */
static enum error list(struct call *call, const char *member, const struct selection *selection,
                       void (*write)(struct call *call, const struct queue *queue, unsigned *visits))
{
    struct bytes from = selection->prefix;
    int64_t results_max, count = 0;
    unsigned visits = VISITS_MAX;
    bool is_paged;
    enum error error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    const struct queue *next = NULL, *queue;
    struct queue_walk walk;
    queue_walk_begin(&walk, call, selection->prefix, core_queue_index(call->core, from));
    if (selection->having != HAVING_ANY)
        walk.visits = QUEUES_RANKED_MAX;
    if (!selection->is_of_sqs)
        writer_list_begin(call->reply, member);
    while (next == NULL && (queue = queue_walk_next(&walk)) != NULL) {
        if (listed_for(call, selection, queue) != queue)
            continue;
        if (count == results_max) {
            next = queue;
            continue;
        }
        if (count++ == 0 && selection->is_of_sqs)
            writer_list_begin(call->reply, member);
        write(call, queue, &visits);
    }
    if (count > 0 || !selection->is_of_sqs)
        writer_list_end(call->reply);
    if (next != NULL && (is_paged || !selection->is_of_sqs))
        call_seal_token(call, next->name_owned);
    else if (next == NULL && !queue_walk_is_over(&walk))
        call_seal_token(call, queue_walk_seal_name(&walk, call->arena));
    return OK;
}

enum error action_list_queues(struct call *call)
{
    struct selection selection = {.is_of_sqs = true};
    enum error error = params_text(&call->params, "QueueNamePrefix", &selection.prefix);
    return error == OK ? list(call, "QueueUrls", &selection, write_url) : error;
}

enum error action_list_dead_letter_source_queues(struct call *call)
{
    struct queue *target;
    enum error error = call_queue(call, &target);
    return error == OK ? list(call, "queueUrls", &(struct selection){.target = target, .is_of_sqs = true}, write_url)
                       : error;
}

/* --- what is in them, and what happens there ---------------------------------------------------------------------- */

/* The name of its dead-letter queue, if it has one of this namespace and the caller covers that. */
static void write_dead_letter_queue(struct call *call, const struct queue *queue)
{
    const struct bytes name = queue_name_of_arn(queue->settings.dead_letter_arn);
    if (name.size > 0 && access_covers(call, name))
        writer_text(call->reply, "DeadLetterQueue", name);
}

/* message_walk_deliverable_since_ms() with this queue's share of *visits. */
static uint64_t deliverable_since_ms(const struct call *call, const struct queue *queue, unsigned *visits,
                                     bool *is_exact)
{
    const unsigned share = *visits < QUEUE_VISITS_MAX ? *visits : QUEUE_VISITS_MAX;
    unsigned left = share;
    const uint64_t since_ms = message_walk_deliverable_since_ms(call->core, queue, &left, is_exact);
    *visits -= share - left;
    return since_ms;
}

static void write_age(struct call *call, const char *name, uint64_t since_ms)
{
    const uint64_t now_ms = core_now_ms(call->core);
    writer_number(call->reply, name, since_ms > now_ms ? 0 : (now_ms - since_ms) / 1000);
}

static void write_ages(struct call *call, const struct queue *queue, unsigned *visits)
{
    bool is_exact;
    const uint64_t oldest_ms = core_oldest_since_ms(call->core, queue);
    const uint64_t deliverable_ms = deliverable_since_ms(call, queue, visits, &is_exact);
    if (oldest_ms != UINT64_MAX)
        write_age(call, "OldestMessageAge", oldest_ms);
    if (deliverable_ms == UINT64_MAX)
        return;
    write_age(call, "OldestDeliverableAge", deliverable_ms);
    if (!is_exact)
        writer_boolean(call->reply, "OldestDeliverableAgeIsAtLeast", true);
}

/* What came and went a second, over the last minute (queue_counters.h); and when somebody last asked for messages. */
static void write_rates(struct call *call, const struct queue *queue)
{
    static const struct {
        const char *name;
        enum queue_counter counter;
    } rates[] = {{"SentPerSecond", COUNTER_SENT},
                 {"ReceivedPerSecond", COUNTER_RECEIVED},
                 {"DeletedPerSecond", COUNTER_DELETED},
                 {"FailedPerSecond", COUNTER_FAILED}};
    for (size_t i = 0; i < ARRAY_LENGTH(rates); i++) {
        const double rate = core_rate(call->core, queue, rates[i].counter);
        writer_real(call->reply, rates[i].name, (double)(uint64_t)(rate * 1000 + 0.5) / 1000);
    }
    if (queue->counters.last_receive_ms != 0)
        writer_time(call->reply, "LastReceiveAt", queue->counters.last_receive_ms);
}

static void write_members(struct call *call, const struct queue *queue, unsigned *visits)
{
    struct writer *reply = call->reply;
    const struct message_list *list = core_message_list(call->core, queue);
    writer_text(reply, "QueueName", queue->name_owned);
    writer_text(reply, "QueueUrl", call_queue_url(call, queue));
    writer_number(reply, "Visible", message_list_visible_count(list));
    writer_number(reply, "InFlight", list->in_flight_count);
    writer_number(reply, "Delayed", list->delayed_count);
    writer_number(reply, "Blocked", list->waiting_count);
    if (list->group_count > 0)
        writer_number(reply, "Groups", list->group_count);
    writer_number(reply, "HeldGroups", list->held_count);
    write_ages(call, queue, visits);
    writer_number(reply, "WaitingReceives", wait_receive_count(call->api, queue));
    write_rates(call, queue);
    if (queue->is_paused)
        writer_boolean(reply, "Paused", true);
    write_dead_letter_queue(call, queue);
}

static void write_stats(struct call *call, const struct queue *queue, unsigned *visits)
{
    writer_object_begin(call->reply, NULL);
    write_members(call, queue, visits);
    writer_object_end(call->reply);
}

/* --- the worst first ---------------------------------------------------------------------------------------------- */

enum queue_order { ORDER_NAME, ORDER_AGE, ORDER_OLDEST, ORDER_VISIBLE };

static enum error read_word(struct call *call, const char *member, const char *const *words, size_t count,
                            const char *hint, unsigned *index)
{
    struct bytes text = {NULL, 0};
    const enum error error = params_text(&call->params, member, &text);
    *index = 0;
    if (error != OK || text.ptr == NULL)
        return error;
    for (size_t i = 0; i < count; i++) {
        if (words[i] != NULL && bytes_equal(text, bytes_from_string(words[i]))) {
            *index = (unsigned)i;
            return OK;
        }
    }
    return params_invalid(&call->params, member, text, hint);
}

static enum error read_order(struct call *call, enum queue_order *order)
{
    static const char *const names[] = {
        [ORDER_NAME] = "name", [ORDER_AGE] = "age", [ORDER_OLDEST] = "oldest", [ORDER_VISIBLE] = "visible"};
    unsigned index;
    const enum error error =
        read_word(call, "SortBy", names, ARRAY_LENGTH(names), "It must be name, age, oldest or visible.", &index);
    *order = (enum queue_order)index;
    return error;
}

static enum error read_having(struct call *call, enum queue_having *having)
{
    static const char *const names[] = {[HAVING_HELD_GROUPS] = "held-groups",
                                        [HAVING_PAUSE] = "pause",
                                        [HAVING_NOTHING_VISIBLE] = "nothing-visible",
                                        [HAVING_DEAD_LETTERS] = "dead-letters"};
    unsigned index;
    const enum error error = read_word(call, "Having", names, ARRAY_LENGTH(names),
                                       "It must be held-groups, pause, nothing-visible or dead-letters.", &index);
    *having = (enum queue_having)index;
    return error;
}

struct ranked_queue {
    const struct queue *queue;
    uint64_t rank;    /* the highest comes first, */
    size_t place;     /* and of equal ones the first by name */
    unsigned sources; /* queues whose dead-letter queue it is */
};

static int compare_ranks(const void *left, const void *right)
{
    const struct ranked_queue *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

static uint64_t rank_of(const struct call *call, const struct queue *queue, enum queue_order order, unsigned *visits)
{
    bool is_exact;
    if (order == ORDER_NAME)
        return 0;
    if (order == ORDER_VISIBLE)
        return message_list_visible_count(core_message_list(call->core, queue));
    if (order == ORDER_OLDEST)
        return UINT64_MAX - core_oldest_since_ms(call->core, queue);
    return UINT64_MAX - deliverable_since_ms(call, queue, visits, &is_exact);
}

/* Of several entries of one queue makes one. Returns how many are left. */
static size_t merge_sources(struct ranked_queue *ranked, size_t count)
{
    size_t kept = 0;
    qsort(ranked, count, sizeof(*ranked), compare_ranks);
    for (size_t i = 0; i < count; i++)
        if (kept > 0 && ranked[kept - 1].place == ranked[i].place)
            ranked[kept - 1].sources++;
        else
            ranked[kept++] = ranked[i];
    return kept;
}

/* The next queues of the walk, QUEUES_RANKED_MAX at most, of which `ranked` gets those that are selected. */
static void collect_queues(const struct call *call, const struct selection *selection, struct queue_walk *walk,
                           struct ranked_queue *ranked, size_t *count)
{
    const struct queue *queue;
    for (unsigned i = 0; i < QUEUES_RANKED_MAX && (queue = queue_walk_next(walk)) != NULL; i++) {
        const struct queue *listed = listed_for(call, selection, queue);
        if (listed == NULL)
            continue;
        const size_t at = listed == queue ? walk->index - 1 : core_queue_index(call->core, listed->name_owned);
        ranked[(*count)++] = (struct ranked_queue){.queue = listed, .place = at, .sources = 1};
    }
}

static void write_worst(struct call *call, const struct selection *selection, const struct ranked_queue *ranked,
                        size_t count)
{
    unsigned visits = VISITS_MAX;
    writer_list_begin(call->reply, "Queues");
    for (size_t i = 0; i < count; i++) {
        writer_object_begin(call->reply, NULL);
        write_members(call, ranked[i].queue, &visits);
        if (selection->having == HAVING_DEAD_LETTERS)
            writer_number(call->reply, "Sources", ranked[i].sources);
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

/* The worst of at most QUEUES_RANKED_MAX queues. NextToken names the first that was not looked at. Dead-letter queues
 * are found by their sources, which may have any name. */
static enum error list_worst(struct call *call, const struct selection *selection, enum queue_order order)
{
    const struct bytes prefix = selection->having == HAVING_DEAD_LETTERS ? bytes_make(NULL, 0) : selection->prefix;
    struct bytes from = {NULL, 0};
    int64_t results_max;
    bool is_paged;
    const enum error error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    struct queue_walk walk;
    queue_walk_begin(&walk, call, prefix, core_queue_index(call->core, from));
    const size_t left = core_queue_count(call->core) - walk.index;
    struct ranked_queue *ranked =
        arena_allocate(call->arena, (left < QUEUES_RANKED_MAX ? left : QUEUES_RANKED_MAX) * sizeof(*ranked));
    size_t count = 0;
    unsigned visits = VISITS_MAX;
    collect_queues(call, selection, &walk, ranked, &count);
    if (selection->having == HAVING_DEAD_LETTERS)
        count = merge_sources(ranked, count);
    for (size_t i = 0; i < count; i++)
        ranked[i].rank = rank_of(call, ranked[i].queue, order, &visits);
    qsort(ranked, count, sizeof(*ranked), compare_ranks);
    write_worst(call, selection, ranked, count < (size_t)results_max ? count : (size_t)results_max);
    if (!queue_walk_is_over(&walk))
        call_seal_token(call, queue_walk_seal_name(&walk, call->arena));
    return OK;
}

enum error action_list_queue_stats(struct call *call)
{
    struct selection selection = {.is_of_sqs = false};
    enum queue_order order;
    enum error error = params_text(&call->params, "QueueNamePrefix", &selection.prefix);
    if (error == OK)
        error = read_order(call, &order);
    if (error == OK)
        error = read_having(call, &selection.having);
    if (error != OK)
        return error;
    const bool is_by_name = order == ORDER_NAME && selection.having != HAVING_DEAD_LETTERS;
    return is_by_name ? list(call, "Queues", &selection, write_stats) : list_worst(call, &selection, order);
}
