/* Who may be delivered next: attempts, groups, what is held, paused, limited; and what a holder may do with a
 * message. */
#include "model.h"

#include "base/assert.h"

#define LEASE_MS_MAX ((uint64_t)12 * 3600 * 1000)
#define GRACE_MS 30000u
#define ATTEMPT_WINDOW_MS 300000u
#define TOKEN_SLACK 0.001 /* the server counts in whole microseconds */

/* --- groups ------------------------------------------------------------------------------------------------------- */

struct model_group *model_group(struct model *model, int queue, int name)
{
    for (int i = 0; i < model->group_count; i++)
        if (model->groups[i].queue == queue && model->groups[i].name == name)
            return &model->groups[i];
    ASSERT(model->group_count < MODEL_GROUPS_MAX);
    struct model_group *group = &model->groups[model->group_count++];
    *group = (struct model_group){.queue = queue,
                                  .name = name,
                                  .held = NONE,
                                  .tokens = model->queues[queue].traits.group_burst,
                                  .tokens_at = model->now};
    return group;
}

bool model_is_held(const struct model *model, const struct model_group *group)
{
    const struct model_message *head = group->held == NONE ? NULL : &model->messages[group->held];
    return head != NULL && head->is_alive && !head->is_condemned && head->queue == group->queue;
}

static bool is_line(const struct model *model, const struct model_message *message)
{
    return model->queues[message->queue].traits.is_fifo;
}

static bool is_of_group(const struct model_message *message, int queue, int name)
{
    return message->is_alive && !message->is_condemned && message->queue == queue && message->group == name;
}

static bool is_in_flight(const struct model *model, const struct model_message *message)
{
    return message->is_leased && message->visible_at > model->now;
}

/* The next one of the same group and queue behind `before`, or its head if that is NULL; or NULL. */
static struct model_message *next_in_line(struct model *model, int queue, int name, const struct model_message *before)
{
    struct model_message *next = NULL;
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        if (is_of_group(message, queue, name) && (before == NULL || model_stands_before(before, message)) &&
            (next == NULL || model_stands_before(message, next)))
            next = message;
    }
    return next;
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static double tokens_now(const struct model *model, double tokens, uint64_t at, int rate_ms, int burst)
{
    double now = tokens + (double)(model->now - at) / rate_ms;
    return now < burst ? now : burst;
}

/* How sure is it that one more delivery is within the limits? Above 0: it is; below: it is not; 0: a matter of
 * rounding. */
static int has_token(const struct model *model, double tokens, uint64_t at, int rate_ms, int burst)
{
    if (rate_ms == 0)
        return 1;
    double now = tokens_now(model, tokens, at, rate_ms, burst);
    return now >= 1 + TOKEN_SLACK ? 1 : now < 1 - TOKEN_SLACK ? -1 : 0;
}

static int queue_has_token(const struct model *model, int queue)
{
    const struct model_queue *has = &model->queues[queue];
    return has_token(model, has->tokens, has->tokens_at, has->traits.queue_rate_ms, has->traits.queue_burst);
}

static int group_has_token(struct model *model, const struct model_message *message)
{
    const struct queue_traits *traits = &model->queues[message->queue].traits;
    if (message->group < 0 || traits->group_rate_ms == 0)
        return 1;
    const struct model_group *group = model_group(model, message->queue, message->group);
    return has_token(model, group->tokens, group->tokens_at, traits->group_rate_ms, traits->group_burst);
}

static void take_token(const struct model *model, double *tokens, uint64_t *at, int rate_ms, int burst)
{
    if (rate_ms == 0)
        return;
    *tokens = tokens_now(model, *tokens, *at, rate_ms, burst) - 1;
    *at = model->now;
}

static void count_delivery(struct model *model, const struct model_message *message)
{
    struct model_queue *queue = &model->queues[message->queue];
    take_token(model, &queue->tokens, &queue->tokens_at, queue->traits.queue_rate_ms, queue->traits.queue_burst);
    if (message->group < 0)
        return;
    struct model_group *group = model_group(model, message->queue, message->group);
    take_token(model, &group->tokens, &group->tokens_at, queue->traits.group_rate_ms, queue->traits.group_burst);
}

/* --- dead letters ------------------------------------------------------------------------------------------------- */

/* The queue that the policy names, if it is there, or NONE. */
static int policy_target(const struct model *model, int queue)
{
    const struct queue_numbers *numbers = &model->queues[queue].numbers;
    return numbers->dead_letters == NONE ? NONE : model_find_queue(model, numbers->dead_letters);
}

/* The queue that messages out of attempts go to, or NONE: also where the policies lead back to the queue. */
static int dead_letter_queue(const struct model *model, int queue)
{
    int next = policy_target(model, queue);
    for (int hops = 0; hops < model->queue_count && next != NONE && next != queue; hops++)
        next = policy_target(model, next);
    return next == queue ? NONE : policy_target(model, queue);
}

static bool is_spent(const struct model *model, const struct model_message *message)
{
    uint32_t attempts = message->receive_count - message->spared_count;
    return message->is_final || (dead_letter_queue(model, message->queue) != NONE &&
                                 attempts >= (uint32_t)model->queues[message->queue].numbers.receive_max);
}

/* To that dead-letter queue, NONE: to its queue's; dropped where there is none. */
static void bury(struct model *model, struct model_message *message, int to)
{
    if (to == NONE)
        to = dead_letter_queue(model, message->queue);
    if (to == NONE) {
        model_end(model, message, FATE_FAILED);
        return;
    }
    model_finish(model, message, FATE_FAILED);
    message->origin = message->queue;
    message->queue = to;
    message->is_moved = true;
    message->is_leased = false;
    message->is_final = false;
    message->visible_at = model->now;
    if (message->group == OWN_GROUP)
        message->group = NO_GROUP;
    message->line = model_next_place(model);
    if (model->queues[to].traits.is_fifo)
        message->counted_from = model->now;
}

static void bury_with_rest(struct model *model, struct model_message *head, int to)
{
    for (int i = 0; i < model->message_count; i++)
        if (&model->messages[i] != head && is_of_group(&model->messages[i], head->queue, head->group))
            model->messages[i].is_cancelled = true;
    bury(model, head, to); /* which may send a batch's message to this very group */
}

/* A message out of attempts is dealt with as its queue says. */
static void deal_with_spent(struct model *model, struct model_message *message, int to)
{
    int policy = is_line(model, message) ? model->queues[message->queue].traits.on_failure : ON_FAILURE_SKIP;
    if (policy == ON_FAILURE_HOLD)
        model_group(model, message->queue, message->group)->held = (int)(message - model->messages);
    else if (policy == ON_FAILURE_CANCEL_REST)
        bury_with_rest(model, message, to);
    else
        bury(model, message, to);
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

bool model_is_deliverable(const struct model *model, const struct model_message *message)
{
    return message->is_alive && !message->is_condemned && message->visible_at <= model->now &&
           !model_is_waiting(model, message);
}

enum error model_receive_begin(const struct model *model, struct model_receive *receive)
{
    unsigned in_flight = model_count_queue(model, receive->queue).in_flight;
    receive->count = 0;
    receive->known_count = model->message_count;
    if (in_flight >= receive->in_flight_max) {
        receive->max = 0;
        return model->queues[receive->queue].traits.is_fifo ? OK : ERROR_OVER_LIMIT;
    }
    if (receive->max > receive->in_flight_max - in_flight)
        receive->max = receive->in_flight_max - in_flight;
    return OK;
}

static bool is_taken(const struct model *model, const struct model_receive *receive,
                     const struct model_message *message)
{
    for (unsigned i = 0; receive != NULL && i < receive->count; i++)
        if (&model->messages[receive->taken[i]] == message)
            return true;
    return false;
}

/* Why a message of a FIFO queue can't be reached; NULL: it can. */
static const char *why_not_in_line(struct model *model, const struct model_receive *receive,
                                   const struct model_message *message)
{
    const struct model_group *group = model_group(model, message->queue, message->group);
    if (model_is_held(model, group))
        return "belongs to a group that is held";
    if (group->is_paused)
        return "belongs to a group that is paused";
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *other = &model->messages[i];
        if (!is_of_group(other, message->queue, message->group))
            continue;
        if (other->is_cancelled && !message->is_cancelled)
            return "belongs to a group whose cancelled messages have not gone";
        if (model_stands_before(other, message) && !is_taken(model, receive, other))
            return "stands behind another in its group";
    }
    return message->is_cancelled ? "was cancelled with the rest of its group" : NULL;
}

/* Why a message of a group in a standard queue can't be reached. */
static const char *why_not_of_tenant(struct model *model, const struct model_message *message)
{
    const struct queue_traits *traits = &model->queues[message->queue].traits;
    if (message->group == OWN_GROUP)
        return NULL;
    if (model_group(model, message->queue, message->group)->is_paused)
        return "belongs to a group that is paused";
    int in_flight = 0;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *other = &model->messages[i];
        if (!is_of_group(other, message->queue, message->group))
            continue;
        in_flight += is_in_flight(model, other);
        if (model_stands_before(other, message) && model_is_deliverable(model, other))
            return "is younger than another of its group";
    }
    return traits->concurrency > 0 && in_flight >= traits->concurrency ? "is one too many of its group at once" : NULL;
}

/* Plain messages of a queue go by age. */
static const char *why_not_by_age(const struct model *model, const struct model_message *message)
{
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *other = &model->messages[i];
        if (other->queue == message->queue && other->group == NO_GROUP && other->order < message->order &&
            model_is_deliverable(model, other))
            return "is not next";
    }
    return NULL;
}

/* Why no receive can come to the message now, be it to take it or to put it aside; NULL: it can. */
static const char *why_not(struct model *model, const struct model_receive *receive,
                           const struct model_message *message)
{
    if (!message->is_alive)
        return "has ended";
    if (message->is_condemned)
        return "was purged";
    if (message->visible_at > model->now)
        return message->is_leased ? "is leased (perhaps by this very receive, in another place)" : "is delayed";
    if (model_is_waiting(model, message))
        return "waits for something else";
    if (model->queues[message->queue].is_paused)
        return "is in a queue that is paused";
    if (is_line(model, message))
        return why_not_in_line(model, receive, message);
    return message->group == NO_GROUP ? why_not_by_age(model, message) : why_not_of_tenant(model, message);
}

/* A pause or rate of the queue stops no task; whatever keeps the group back does. */
const char *model_why_not_moved(struct model *model, const struct model_message *message)
{
    struct model_queue *queue = &model->queues[message->queue];
    bool was_paused = queue->is_paused;
    queue->is_paused = false;
    const char *why = why_not(model, NULL, message);
    queue->is_paused = was_paused;
    return why == NULL && group_has_token(model, message) < 0 ? "is one too many for the rate of its group" : why;
}

const char *model_take(struct model *model, struct model_receive *receive, int index)
{
    struct model_message *message = &model->messages[index];
    if (message->is_alive && message->queue != receive->queue)
        return "is in another queue";
    const char *why = why_not(model, receive, message);
    if (why != NULL)
        return why;
    if (model_is_dead(model, message))
        return "was cancelled with its batch";
    if (is_spent(model, message))
        return "is out of attempts";
    if (queue_has_token(model, message->queue) < 0)
        return "is one too many for the rate of its queue";
    if (group_has_token(model, message) < 0)
        return "is one too many for the rate of its group";
    if (receive->count >= receive->max)
        return "is one too many in flight";
    message->receive_count++;
    message->is_leased = true;
    message->is_fenced = false;
    message->is_changed = false;
    message->received_at = model->now;
    message->timeout_ms = receive->timeout_ms > 0 ? receive->timeout_ms : 1;
    message->lease = ++model->lease;
    message->visible_at = model->now + message->timeout_ms;
    count_delivery(model, message);
    receive->taken[receive->count++] = index;
    return NULL;
}

const char *model_put_aside(struct model *model, int index)
{
    struct model_message *message = &model->messages[index];
    const char *why = why_not(model, NULL, message);
    /* Of plain messages those that were accepted at one time are not in a known order: what is spent may go first. */
    if (why != NULL && (message->group != NO_GROUP || !model_is_deliverable(model, message)))
        return why;
    if (queue_has_token(model, message->queue) < 0 || group_has_token(model, message) < 0)
        return "is limited by a rate";
    if (model_is_dead(model, message))
        model_end(model, message, FATE_CANCELLED);
    else if (is_spent(model, message))
        deal_with_spent(model, message, NONE);
    else
        return "still has attempts";
    return NULL;
}

int model_left(struct model *model, const struct model_receive *receive)
{
    if (receive->count >= receive->max || queue_has_token(model, receive->queue) <= 0)
        return NONE;
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        if (message->queue != receive->queue || !model_is_deliverable(model, message) ||
            why_not(model, receive, message) != NULL || group_has_token(model, message) <= 0)
            continue;
        /* Behind what this receive took a run ends where one can't be delivered, or was not there yet: it is dealt with
         * when it is the head. */
        bool is_end = model_is_dead(model, message) || is_spent(model, message) || i >= receive->known_count;
        if (!is_end || !is_line(model, message) || why_not(model, NULL, message) == NULL)
            return i;
    }
    return NONE;
}

static void fence_behind(struct model *model, const struct model_message *message, uint64_t at)
{
    const struct queue_traits *traits = &model->queues[message->queue].traits;
    if (!traits->is_fifo || !traits->is_strict || message->is_condemned)
        return;
    struct model_message *next = next_in_line(model, message->queue, message->group, message);
    while (next != NULL && next->is_leased) {
        next->is_fenced = true;
        next->is_leased = false;
        next->spared_count++;
        next->visible_at = at;
        next = next_in_line(model, next->queue, next->group, next);
    }
}

static void give_back(struct model *model, struct model_message *message)
{
    message->visible_at = model->now;
    message->is_leased = false;
    fence_behind(model, message, model->now);
}

void model_receive_end(struct model *model, const struct model_receive *receive)
{
    for (unsigned i = receive->count; i > 0; i--) {
        struct model_message *message = &model->messages[receive->taken[i - 1]];
        if (model->queues[message->queue].traits.is_at_most_once) {
            model_end(model, message, FATE_SUCCEEDED);
        } else if (receive->timeout_ms == 0) {
            give_back(model, message); /* behind the run something may be held since before the queue was strict */
            message->timeout_ms = 0;
        }
    }
}

/* --- attempt ids -------------------------------------------------------------------------------------------------- */

static struct model_attempt *find_attempt(struct model *model, int queue, int name)
{
    for (int i = 0; i < model->attempt_count; i++)
        if (model->attempts[i].queue == queue && model->attempts[i].name == name &&
            model->attempts[i].until > model->now)
            return &model->attempts[i];
    return NULL;
}

void model_remember_attempt(struct model *model, int queue, int name, const int *messages, unsigned count)
{
    struct model_attempt *attempt = find_attempt(model, queue, name);
    for (int i = 0; i < model->attempt_count && attempt == NULL; i++)
        if (model->attempts[i].until <= model->now)
            attempt = &model->attempts[i];
    ASSERT(attempt != NULL || model->attempt_count < MODEL_ATTEMPTS_MAX);
    if (attempt == NULL)
        attempt = &model->attempts[model->attempt_count++];
    *attempt =
        (struct model_attempt){.queue = queue, .name = name, .until = model->now + ATTEMPT_WINDOW_MS, .count = count};
    for (unsigned i = 0; i < count; i++) {
        attempt->messages[i] = messages[i];
        attempt->receive_counts[i] = model->messages[messages[i]].receive_count;
        model->messages[messages[i]].is_changed = false;
    }
}

enum error model_receive_again(struct model *model, int queue, int name, uint64_t timeout_ms, int *messages,
                               unsigned *count)
{
    const struct model_attempt *attempt = find_attempt(model, queue, name);
    *count = attempt == NULL ? 0 : attempt->count;
    for (unsigned i = 0; i < *count; i++) {
        const struct model_message *message = &model->messages[attempt->messages[i]];
        if (!message->is_alive || message->is_condemned || message->queue != queue || !is_in_flight(model, message) ||
            message->receive_count != attempt->receive_counts[i] || model_is_dead(model, message) ||
            message->is_fenced || message->is_changed)
            return ERROR_INVALID_PARAMETER_VALUE;
        messages[i] = attempt->messages[i];
    }
    for (unsigned i = *count; i > 0; i--) {
        struct model_message *message = &model->messages[messages[i - 1]];
        message->timeout_ms = timeout_ms;
        message->lease = ++model->lease;
        message->visible_at = model->now + timeout_ms;
        message->is_leased = timeout_ms > 0;
        if (timeout_ms == 0)
            give_back(model, message); /* as in model_receive_end() */
    }
    if (*count > 0)
        model_remember_attempt(model, queue, name, messages, *count);
    return OK;
}

/* --- what a holder may do ----------------------------------------------------------------------------------------- */

/* What a receipt handle stands for now. */
struct holding {
    struct model_message *message; /* NULL: it has ended, or was moved, purged or cancelled */
    bool is_own;                   /* the handle is that of the newest delivery */
    bool is_newest;                /* and was not taken away */
    bool is_held;                  /* and its lease runs */
};

static enum error find_held(struct model *model, int queue_name, int queue, int index, int handle,
                            struct holding *holding)
{
    *holding = (struct holding){0};
    int found = model_find_queue(model, queue_name);
    if (found == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    if (found != queue)
        return ERROR_RECEIPT_HANDLE_IS_INVALID;
    struct model_message *message = &model->messages[index];
    if (!message->is_alive || message->queue != queue || model_is_dead(model, message))
        return OK;
    holding->message = message;
    holding->is_own = message->handle == handle;
    holding->is_newest = holding->is_own && !message->is_fenced;
    holding->is_held = holding->is_newest && is_in_flight(model, message);
    return OK;
}

/* A FIFO queue wants the newest handle and a lease that runs; a standard queue may want the newest. */
static enum error may_use(struct model *model, int queue, const struct holding *holding)
{
    const struct queue_traits *traits = &model->queues[queue].traits;
    if (holding->message == NULL || holding->is_held)
        return OK;
    if (!holding->is_newest && (traits->is_fifo || traits->refuses_stale))
        return ERROR_RECEIPT_HANDLE_IS_INVALID;
    return traits->is_fifo ? ERROR_INVALID_PARAMETER_VALUE : OK;
}

enum error model_delete(struct model *model, int queue_name, int queue, int message, int handle)
{
    struct holding holding;
    enum error error = find_held(model, queue_name, queue, message, handle, &holding);
    if (error == OK)
        error = may_use(model, queue, &holding);
    if (error == OK && holding.message != NULL)
        model_end(model, holding.message, FATE_SUCCEEDED);
    return error;
}

bool model_is_deletable_by(struct model *model, int queue_name, int queue, int message, int handle)
{
    struct holding holding;
    return find_held(model, queue_name, queue, message, handle, &holding) == OK && holding.message != NULL &&
           may_use(model, queue, &holding) == OK;
}

bool model_is_held_by(struct model *model, int queue_name, int queue, int message, int handle)
{
    struct holding holding;
    return find_held(model, queue_name, queue, message, handle, &holding) == OK && holding.is_newest &&
           may_use(model, queue, &holding) == OK;
}

enum error model_change_visibility(struct model *model, int queue_name, int queue, int message, int handle,
                                   uint64_t timeout_ms)
{
    struct holding holding;
    enum error error = find_held(model, queue_name, queue, message, handle, &holding);
    if (error == OK)
        error = may_use(model, queue, &holding);
    if (error != OK)
        return error;
    struct model_message *held = holding.message;
    if (held == NULL || (!is_in_flight(model, held) && held->visible_at > model->now)) /* gone, or backing off */
        return ERROR_INVALID_PARAMETER_VALUE;
    if (timeout_ms >= LEASE_MS_MAX || (timeout_ms > 0 && model->now + timeout_ms > held->received_at + LEASE_MS_MAX))
        return ERROR_INVALID_PARAMETER_VALUE;
    held->is_leased = true;
    held->is_changed = true;
    held->timeout_ms = timeout_ms;
    held->lease = ++model->lease;
    held->visible_at = model->now + timeout_ms;
    if (timeout_ms == 0)
        give_back(model, held);
    return OK;
}

const char *model_renew(struct model *model, int index, uint64_t visible_at)
{
    struct model_message *message = &model->messages[index];
    if (!message->is_alive || !is_in_flight(model, message))
        return "nobody holds it";
    if (visible_at <= message->visible_at)
        return "it was longer before";
    message->visible_at = visible_at;
    return NULL;
}

/* Attempt n waits min * factor^(n-1), at most max, give or take the jitter. */
static void draw_backoff(const struct queue_traits *traits, uint32_t attempt, uint64_t *low, uint64_t *high)
{
    double wait = traits->backoff_min_s;
    for (uint32_t i = 1; i < attempt && wait < traits->backoff_max_s; i++)
        wait *= traits->backoff_factor;
    wait = wait < traits->backoff_max_s ? wait : traits->backoff_max_s;
    double jitter = traits->backoff_jitter / 100.0;
    double least = wait * (1 - jitter), most = wait * (1 + jitter);
    least = least < traits->backoff_min_s ? traits->backoff_min_s : least;
    most = most > traits->backoff_max_s ? traits->backoff_max_s : most;
    *low = (uint64_t)(least * 1000 - (jitter > 0));
    *high = (uint64_t)(most * 1000 + (jitter > 0));
}

/* The dead-letter queue that the operation names, or NONE. */
static enum error find_grave(const struct model *model, const struct operation *operation, int *to)
{
    int queue = model_find_queue(model, operation->queue);
    *to = operation->bury_in == NONE ? NONE : model_find_queue(model, operation->bury_in);
    if (queue == NONE || (operation->bury_in != NONE && *to == NONE))
        return ERROR_QUEUE_DOES_NOT_EXIST;
    bool fits =
        *to != queue && (*to == NONE || model->queues[*to].traits.is_fifo == model->queues[queue].traits.is_fifo);
    return fits ? OK : ERROR_INVALID_PARAMETER_VALUE;
}

enum error model_fail(struct model *model, const struct operation *operation, int queue, int index,
                      uint64_t seen_visible_at)
{
    struct holding holding;
    int to;
    enum error error = find_grave(model, operation, &to);
    if (error == OK)
        error = find_held(model, operation->queue, queue, index, operation->entries[0].handle, &holding);
    if (error != OK)
        return error;
    const struct queue_traits *traits = &model->queues[queue].traits;
    struct model_message *message = holding.message;
    if (message == NULL)
        return OK;
    uint32_t attempt = message->receive_count - message->spared_count;
    /* A policy that leads nowhere gives nothing up, unless the request says where to. */
    bool leads_nowhere =
        to == NONE && model->queues[queue].numbers.dead_letters != NONE && dead_letter_queue(model, queue) == NONE;
    bool gives_up = operation->is_final ||
                    (operation->attempts_max != NONE && !leads_nowhere && attempt >= (uint32_t)operation->attempts_max);
    if (!holding.is_newest) /* the same once more is no error, and does nothing */
        return !traits->is_fifo && holding.is_own && message->is_final == gives_up ? OK
                                                                                   : ERROR_RECEIPT_HANDLE_IS_INVALID;
    if (!holding.is_held)
        return ERROR_INVALID_PARAMETER_VALUE;
    gives_up = gives_up || is_spent(model, message);
    /* Behind one that is still held it is dealt with when it is the head. */
    bool is_head = !traits->is_fifo || next_in_line(model, queue, message->group, NULL) == message;
    if (gives_up && !is_head && to != NONE && traits->on_failure == ON_FAILURE_CANCEL_REST)
        return ERROR_UNSUPPORTED_OPERATION;
    message->is_fenced = true;
    message->is_leased = false;
    message->reason = operation->reason;
    give_back(model, message);
    message->is_final = gives_up;
    if (!message->is_final) {
        uint64_t low = 0, high = 0;
        if (operation->retry_after_s != NONE)
            low = high = (uint64_t)operation->retry_after_s * 1000;
        else if (traits->has_backoff)
            draw_backoff(traits, attempt, &low, &high);
        uint64_t wait_ms = seen_visible_at > model->now ? seen_visible_at - model->now : 0;
        message->visible_at = model->now + (wait_ms < low ? low : wait_ms > high ? high : wait_ms);
        return OK;
    }
    if (is_head || traits->on_failure == ON_FAILURE_SKIP)
        deal_with_spent(model, message, to);
    return OK;
}

enum error model_release_group(struct model *model, const struct operation *operation)
{
    int queue = model_find_queue(model, operation->queue);
    if (queue == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    struct model_group *group = model_group(model, queue, operation->group);
    if (!model_is_held(model, group))
        return ERROR_GROUP_NOT_HELD;
    struct model_message *head = &model->messages[group->held];
    group->held = NONE;
    if (operation->action == RELEASE_RETRY_) {
        head->spared_count = head->receive_count;
        head->is_final = false;
    } else if (operation->action == RELEASE_SKIP_) {
        bury(model, head, NONE);
    } else {
        bury_with_rest(model, head, NONE);
    }
    return OK;
}

enum error model_pause(struct model *model, const struct operation *operation)
{
    int queue = model_find_queue(model, operation->queue);
    if (queue == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    if (operation->group == NONE)
        model->queues[queue].is_paused = operation->is_paused;
    else
        model_group(model, queue, operation->group)->is_paused = operation->is_paused;
    return OK;
}

/* --- explaining --------------------------------------------------------------------------------------------------- */

/* Does its group or its queue keep a message back that could go otherwise? Above 0: yes; 0: a matter of rounding. */
static int is_kept_back(struct model *model, const struct model_message *message)
{
    const char *why = is_line(model, message)       ? why_not_in_line(model, NULL, message)
                      : message->group == OWN_GROUP ? NULL
                      : message->group == NO_GROUP  ? NULL
                      : model_group(model, message->queue, message->group)->is_paused ? ""
                                                                                      : NULL;
    const struct queue_traits *traits = &model->queues[message->queue].traits;
    int in_flight = 0;
    for (int i = 0; i < model->message_count && !traits->is_fifo && message->group >= 0; i++)
        in_flight += is_of_group(&model->messages[i], message->queue, message->group) &&
                     is_in_flight(model, &model->messages[i]);
    if (why != NULL || model->queues[message->queue].is_paused ||
        (traits->concurrency > 0 && in_flight >= traits->concurrency))
        return 1;
    int of_queue = queue_has_token(model, message->queue), of_group = group_has_token(model, message);
    return of_queue < 0 || of_group < 0 ? 1 : of_queue == 0 || of_group == 0 ? 0 : -1;
}

const char *model_explain(struct model *model, int queue, int index, bool *has_reason)
{
    const struct model_message *message = &model->messages[index];
    *has_reason = true;
    if (!message->is_alive || message->is_condemned)
        return "ended";
    if (message->queue != queue)
        return message->origin == queue ? "ended" : "unknown";
    if (model_is_dead(model, message))
        return "ended";
    bool is_waiting = model_is_waiting(model, message);
    if (!is_waiting && is_in_flight(model, message))
        return "in-flight";
    if (message->group >= 0 && model_is_held(model, model_group(model, queue, message->group)))
        return "held";
    if (model_is_stuck(model, index))
        return "held";
    if (is_waiting)
        return "blocked";
    if (message->visible_at > model->now)
        return "delayed";
    int kept = is_kept_back(model, message);
    *has_reason = kept > 0 || message->receive_count > 0 || (is_spent(model, message) && !message->is_final);
    return kept > 0 ? "blocked" : kept < 0 ? "ready" : NULL;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

/* The first lease in a line that ends by `now`, or NULL. */
static struct model_message *next_lapse(struct model *model, uint64_t now)
{
    struct model_message *first = NULL;
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        if (!message->is_alive || message->is_condemned || !is_line(model, message) || !is_in_flight(model, message) ||
            message->visible_at > now)
            continue;
        if (first == NULL || message->visible_at < first->visible_at ||
            (message->visible_at == first->visible_at && model_stands_before(message, first)))
            first = message;
    }
    return first;
}

bool model_has_lapse(const struct model *model, uint64_t now)
{
    return now > model->now && next_lapse((struct model *)(uintptr_t)model, now) != NULL;
}

void model_advance(struct model *model, uint64_t now)
{
    if (now <= model->now)
        return;
    for (struct model_message *message; (message = next_lapse(model, now)) != NULL;) {
        fence_behind(model, message, message->visible_at);
        message->is_leased = false; /* its handle is dead, as a line has it */
    }
    model->now = now;
}

void model_restart(struct model *model, uint64_t last_ms, uint64_t resumed_at)
{
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        uint64_t grace_ms = message->timeout_ms < GRACE_MS ? message->timeout_ms : GRACE_MS;
        if (message->is_alive && message->is_leased && message->visible_at > last_ms &&
            message->visible_at < resumed_at + grace_ms)
            message->visible_at = resumed_at + grace_ms;
    }
}
