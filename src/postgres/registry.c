#include "postgres/registry.h"

#include "base/assert.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "platform/random.h"
#include "platform/thread.h"
#include "postgres/cluster_rows.h"
#include "postgres/cluster_secret.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define STEP_MS 3000u         /* a turn that takes longer has failed */
#define FINGERPRINT_MS 10000u /* so much longer may the first one be, which computes the secret's fingerprint */
#define LEAVE_MS 1000u        /* the last words */
#define GAP_MS 2500u          /* nobody beats in vain for so long unless something was wrong */
#define WHOLE_MS 60000u       /* so often all heads are read, whatever changed */
#define SILENCE_SAID_MS 5000u /* a failure is worth a line when it has lasted so long */
#define NAME_SAID_MS 60000u   /* that another process has the name is said so often */
#define FAR_AT_ONCE 256u      /* so many logs of other servers are told in a turn */

/* A view, shared by those who read it. */
struct shared_view {
    struct view view; /* first: registry_release() finds the rest of it */
    atomic_uint readers;
};

struct ready_log {
    char name[VIEW_NAME_SIZE];
    bool is_ready;
    bool is_told;
};

/* A log on another server that this node has, or has left at rest. */
struct far_log {
    char name[VIEW_NAME_SIZE];
    uint64_t epoch;
    bool is_at_rest;
    bool is_told;
};

struct registry {
    struct registry_options options;
    uint8_t instance[PG_OWNER_SIZE];
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the members up to the next comment */
    pthread_cond_t wakes;
    bool is_stopping;
    uint64_t read_ms;         /* the newest beat that succeeded; 0: none */
    struct shared_view *view; /* the registry is one of its readers; NULL: none yet */
    struct ready_log *ready_owned;
    size_t ready_count, ready_capacity;
    struct far_log *far_owned;
    size_t far_count, far_capacity;
    /* The rest is the thread's. */
    struct pg_session session;
    struct cluster_fingerprint fingerprint;
    struct cluster_rows rows;
    uint32_t id; /* of this node; 0: it is not registered */
    uint64_t beat;
    bool has_registered;              /* once, so that the name is left to whoever took it later */
    char moment[CLUSTER_MOMENT_SIZE]; /* of the newest beat on this connection; empty: there was none */
    uint64_t whole_ms;                /* when all heads were read */
    uint64_t first_ms;                /* the first beat that succeeded; 0: none */
    uint64_t gap_ms;                  /* when a gap ended; 0: there was none */
    uint64_t changes, wish_sum;       /* as the newest beat had them */
    bool must_publish;
    bool is_settled;     /* as it was published */
    uint64_t failing_ms; /* since when; 0: it is not */
    bool is_failure_said;
    uint64_t name_said_ms; /* when it said that another process has its name; 0: not */
};

/* --- views -------------------------------------------------------------------------------------------------------- */

void registry_release(const struct view *view)
{
    struct shared_view *shared = (struct shared_view *)(uintptr_t)view;
    if (shared == NULL || atomic_fetch_sub(&shared->readers, 1) != 1)
        return;
    view_deinit(&shared->view);
    free(shared);
}

const struct view *registry_acquire(struct registry *registry)
{
    (void)pthread_mutex_lock(&registry->mutex);
    struct shared_view *shared = registry->view;
    if (shared != NULL)
        (void)atomic_fetch_add(&shared->readers, 1);
    (void)pthread_mutex_unlock(&registry->mutex);
    return shared == NULL ? NULL : &shared->view;
}

uint64_t registry_silence_ms(struct registry *registry)
{
    (void)pthread_mutex_lock(&registry->mutex);
    const uint64_t read_ms = registry->read_ms;
    (void)pthread_mutex_unlock(&registry->mutex);
    return read_ms == 0 ? 0 : pg_now_ms() - read_ms;
}

static void publish(struct registry *registry)
{
    const bool is_settled = pg_now_ms() - registry->first_ms >= REGISTRY_SETTLE_MS;
    if (!registry->must_publish && is_settled == registry->is_settled)
        return;
    registry->must_publish = false;
    registry->is_settled = is_settled;
    struct shared_view *made = memory_allocate_zeroed(sizeof(*made));
    atomic_init(&made->readers, 1);
    cluster_rows_make_view(&registry->rows, registry->id, is_settled, &made->view);
    (void)pthread_mutex_lock(&registry->mutex);
    struct shared_view *former = registry->view;
    registry->view = made;
    (void)pthread_mutex_unlock(&registry->mutex);
    registry_release(former == NULL ? NULL : &former->view);
    if (registry->options.changed != NULL)
        registry->options.changed(registry->options.context);
}

/* --- what is said ------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(const struct registry *registry, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    registry->options.report(registry->options.context, text);
}

static void note_failure(struct registry *registry, const struct failure *failure)
{
    const uint64_t now_ms = pg_now_ms();
    if (registry->failing_ms == 0)
        registry->failing_ms = now_ms;
    if (registry->is_failure_said || now_ms - registry->failing_ms < SILENCE_SAID_MS)
        return;
    registry->is_failure_said = true;
    say(registry,
        "This node can't say in PostgreSQL that it is alive, so the others take it for gone. It goes on trying. %s",
        failure->text);
}

static void note_success(struct registry *registry)
{
    if (registry->is_failure_said)
        say(registry, "This node says in PostgreSQL again that it is alive.");
    registry->failing_ms = 0;
    registry->is_failure_said = false;
}

/* Another process registered with this node's name later. */
static void note_other(struct registry *registry)
{
    const struct cluster_node *other =
        cluster_rows_find_node(&registry->rows, bytes_from_string(registry->options.postgres.node));
    const uint64_t now_ms = pg_now_ms();
    registry->must_publish = registry->must_publish || registry->id != 0;
    registry->id = 0;
    if (registry->name_said_ms != 0 && now_ms - registry->name_said_ms < NAME_SAID_MS)
        return;
    registry->name_said_ms = now_ms;
    say(registry,
        "Another process has registered as node %s, at %s: two nodes with one name? Give each its own with --node. "
        "Until that one is gone, this one counts for nothing in the cluster, and its namespaces go to others.",
        registry->options.postgres.node, other == NULL ? "?" : other->known.address);
}

/* --- registering -------------------------------------------------------------------------------------------------- */

/* This node's row, or another process's. */
static enum error register_node(struct registry *registry, uint64_t until_ms, struct failure *failure)
{
    const struct pg_options *options = &registry->options.postgres;
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(options->node));
    pg_add_bytes(&values, bytes_from_string(options->address));
    pg_add_bytes(&values, bytes_from_string(TALLY_VERSION));
    pg_add_bytes(&values, bytes_make(registry->instance, PG_OWNER_SIZE));
    pg_add_i32(&values, options->lease_ms);
    pg_add_bytes(&values, registry->has_registered ? BYTES("false") : BYTES("true"));
    PGresult *row = NULL;
    if (pg_session_run(&registry->session, PG_NODE_REGISTER, &values, until_ms, &row, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    const bool is_mine = PQntuples(row) == 1;
    registry->id = is_mine ? (uint32_t)pg_number(row, 0, 0) : 0;
    if (is_mine && pg_number(row, 0, 1) > registry->beat)
        registry->beat = pg_number(row, 0, 1);
    PQclear(row);
    registry->must_publish = true;
    registry->has_registered = registry->has_registered || is_mine;
    if (is_mine && registry->name_said_ms != 0)
        say(registry, "This node has its name for itself again.");
    if (is_mine)
        registry->name_said_ms = 0;
    (void)pthread_mutex_lock(&registry->mutex);
    for (size_t i = 0; i < registry->ready_count; i++) /* the row's wishes are gone */
        registry->ready_owned[i].is_told = !registry->ready_owned[i].is_ready;
    for (size_t i = 0; i < registry->far_count; i++) /* PostgreSQL may have lost what it did not wait for */
        registry->far_owned[i].is_told = false;
    (void)pthread_mutex_unlock(&registry->mutex);
    return OK;
}

/* Where there is no connection. Commits are not waited for. To compute the fingerprint of the secret may take longer
 * than a statement should on a machine that is busy, and is not counted as one. */
static enum error connect_anew(struct registry *registry, struct failure *failure)
{
    const uint64_t until_ms = pg_now_ms() + STEP_MS;
    struct pg_session *session = &registry->session;
    if (pg_link_is_open(&session->link))
        return OK;
    registry->moment[0] = '\0';
    enum error error = pg_session_open(session, until_ms, failure);
    if (error == OK && pg_link_relax(&session->link, true, until_ms, failure) != PG_DONE)
        error = ERROR_SERVICE_UNAVAILABLE;
    if (error == OK)
        error = cluster_secret_check(session, registry->options.secret, &registry->fingerprint,
                                     until_ms + FINGERPRINT_MS, failure);
    if (error == OK)
        error = register_node(registry, pg_now_ms() + STEP_MS, failure);
    if (error != OK)
        pg_link_close(&session->link);
    return error;
}

/* --- beating and reading ------------------------------------------------------------------------------------------ */

enum beat_column { BEAT_NEW_HEADS = 9, BEAT_CHANGES, BEAT_WISHES, BEAT_MOMENT };

static const struct cluster_node *find_former(const struct cluster_node *nodes, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i].known.id == id)
            return &nodes[i];
    return NULL;
}

/* A node is dead by two clocks. That of PostgreSQL may jump: whose beats this node has seen to go on is alive. And who
 * was alive and could not say so during a gap, in which nobody could, is alive until his time behind it is over. */
static bool is_alive(const struct registry *registry, const struct cluster_node *node,
                     const struct cluster_node *former)
{
    const uint64_t now_ms = pg_now_ms();
    if (node->known.is_alive || node->known.id == registry->id)
        return true;
    if (former == NULL || !former->known.is_alive || !node->has_process)
        return false;
    const bool is_heard = now_ms - node->heard_ms < node->limit_ms;
    return is_heard || (registry->gap_ms != 0 && now_ms - registry->gap_ms < node->limit_ms);
}

static bool is_same_node(const struct view_node *one, const struct view_node *other)
{
    return one->is_alive == other->is_alive && one->is_draining == other->is_draining &&
           strcmp(one->name, other->name) == 0 && strcmp(one->address, other->address) == 0 &&
           strcmp(one->version, other->version) == 0;
}

static void take_nodes(struct registry *registry, const PGresult *result)
{
    struct cluster_rows *rows = &registry->rows;
    struct cluster_node *former = rows->nodes_owned;
    const size_t former_count = rows->node_count;
    rows->nodes_owned = NULL;
    cluster_rows_set_nodes(rows, result);
    bool is_same = former_count == rows->node_count;
    for (size_t i = 0; i < rows->node_count; i++) {
        struct cluster_node *node = &rows->nodes_owned[i];
        const struct cluster_node *before = find_former(former, former_count, node->known.id);
        node->heard_ms = before != NULL && before->number == node->number ? before->heard_ms : pg_now_ms();
        node->known.is_alive = is_alive(registry, node, before);
        is_same = is_same && before != NULL && is_same_node(&node->known, &before->known);
    }
    free(former);
    registry->must_publish = registry->must_publish || !is_same;
}

/* What one beat has found out beside the nodes. */
struct beat_facts {
    uint64_t new_heads, changes, wish_sum;
    char moment[CLUSTER_MOMENT_SIZE];
};

static struct beat_facts decode_facts(const PGresult *result)
{
    struct beat_facts facts = {0};
    if (PQntuples(result) == 0)
        return facts;
    facts.new_heads = pg_number(result, 0, BEAT_NEW_HEADS);
    facts.changes = pg_number(result, 0, BEAT_CHANGES);
    facts.wish_sum = pg_number(result, 0, BEAT_WISHES);
    pg_text(result, 0, BEAT_MOMENT, facts.moment, sizeof(facts.moment));
    return facts;
}

static void note_read(struct registry *registry, uint64_t began_ms)
{
    const uint64_t now_ms = pg_now_ms();
    if (registry->first_ms == 0)
        registry->first_ms = now_ms;
    if (registry->read_ms != 0 && (now_ms - registry->read_ms > GAP_MS || registry->moment[0] == '\0'))
        registry->gap_ms = now_ms;
    (void)pthread_mutex_lock(&registry->mutex);
    registry->read_ms = began_ms;
    (void)pthread_mutex_unlock(&registry->mutex);
}

static enum pg_outcome run_beat(struct registry *registry, struct beat_facts *facts, uint64_t until_ms,
                                struct failure *failure)
{
    const uint64_t began_ms = pg_now_ms();
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_from_string(registry->moment));
    pg_add_i32(&values, registry->id);
    pg_add_bytes(&values, bytes_make(registry->instance, PG_OWNER_SIZE));
    pg_add_i64(&values, ++registry->beat); /* of one whose answer was lost the number may be taken */
    PGresult *result = NULL;
    const enum pg_outcome outcome =
        pg_session_run(&registry->session, PG_NODE_BEAT, &values, until_ms, &result, failure);
    if (outcome == PG_DONE) {
        note_read(registry, began_ms);
        take_nodes(registry, result);
        *facts = decode_facts(result);
    }
    PQclear(result);
    return outcome;
}

/* Reads what the beat has found to be new. */
static enum pg_outcome read_rest(struct registry *registry, const struct beat_facts *facts, uint64_t until_ms,
                                 struct failure *failure)
{
    const bool is_whole = registry->moment[0] == '\0' || pg_now_ms() - registry->whole_ms >= WHOLE_MS;
    const bool has_heads = is_whole || facts->new_heads > 0;
    enum pg_outcome outcome = PG_DONE;
    if (has_heads)
        outcome = cluster_rows_read_heads(&registry->rows, &registry->session, is_whole ? "" : registry->moment,
                                          until_ms, failure);
    const bool has_pins = has_heads || facts->changes != registry->changes;
    if (outcome == PG_DONE && has_pins)
        outcome = cluster_rows_read_pins(&registry->rows, &registry->session, until_ms, failure);
    const bool has_wishes = is_whole || facts->wish_sum != registry->wish_sum;
    if (outcome == PG_DONE && has_wishes)
        outcome = cluster_rows_read_wishes(&registry->rows, &registry->session, registry->options.postgres.node,
                                           until_ms, failure);
    if (outcome != PG_DONE)
        return outcome;
    if (is_whole)
        registry->whole_ms = pg_now_ms();
    registry->must_publish = registry->must_publish || has_heads || has_pins || has_wishes;
    registry->changes = facts->changes;
    registry->wish_sum = facts->wish_sum;
    memcpy(registry->moment, facts->moment, sizeof(registry->moment));
    return PG_DONE;
}

/* Does the name belong to another process? One that has ended, or whose time is over, gives it back. */
static enum error check_name(struct registry *registry, uint64_t until_ms, struct failure *failure)
{
    const struct cluster_node *own =
        cluster_rows_find_node(&registry->rows, bytes_from_string(registry->options.postgres.node));
    const bool is_mine = registry->id != 0 && own != NULL && own->has_process &&
                         memcmp(own->instance, registry->instance, PG_OWNER_SIZE) == 0;
    if (is_mine)
        return OK;
    const bool is_others = own != NULL && own->has_process &&
                           memcmp(own->instance, registry->instance, PG_OWNER_SIZE) != 0 && own->known.is_alive;
    if (!is_others) {
        struct beat_facts ignored;
        const enum error error = register_node(registry, until_ms, failure);
        if (error != OK)
            return error;
        if (registry->id != 0) /* at once, for the newest beat may be of long ago */
            return run_beat(registry, &ignored, until_ms, failure) == PG_DONE ? OK : ERROR_SERVICE_UNAVAILABLE;
    }
    note_other(registry);
    return OK;
}

/* --- wishes ------------------------------------------------------------------------------------------------------- */

void registry_set_ready(struct registry *registry, struct bytes log, bool is_ready)
{
    ASSERT(log.size < VIEW_NAME_SIZE);
    (void)pthread_mutex_lock(&registry->mutex);
    struct ready_log *found = NULL;
    for (size_t i = 0; i < registry->ready_count && found == NULL; i++)
        if (bytes_equal(bytes_from_string(registry->ready_owned[i].name), log))
            found = &registry->ready_owned[i];
    if (found == NULL && is_ready) {
        ARRAY_GROW(registry->ready_owned, registry->ready_count, registry->ready_capacity);
        found = &registry->ready_owned[registry->ready_count++];
        *found = (struct ready_log){0};
        memcpy(found->name, log.ptr, log.size);
    }
    if (found != NULL && found->is_ready != is_ready) {
        found->is_ready = is_ready;
        found->is_told = false;
    }
    (void)pthread_mutex_unlock(&registry->mutex);
}

/* The ids of logs whose readiness is to be told, with commas; marks them as told, and forgets those that are not ready.
 * One whose log is not known yet waits. */
static void list_untold(struct registry *registry, struct buffer *ready, struct buffer *unready)
{
    (void)pthread_mutex_lock(&registry->mutex);
    size_t kept = 0;
    for (size_t i = 0; i < registry->ready_count; i++) {
        struct ready_log log = registry->ready_owned[i];
        const struct cluster_log *row =
            log.is_told ? NULL : cluster_rows_find_log(&registry->rows, bytes_from_string(log.name));
        if (row != NULL) {
            struct buffer *list = log.is_ready ? ready : unready;
            buffer_append_format(list, "%s%" PRIu32, list->size == 0 ? "" : ",", row->id);
            log.is_told = true;
        }
        if (log.is_ready || !log.is_told)
            registry->ready_owned[kept++] = log;
    }
    registry->ready_count = kept;
    (void)pthread_mutex_unlock(&registry->mutex);
}

static enum pg_outcome run_wishes(struct registry *registry, enum pg_statement statement, const struct buffer *ids,
                                  uint64_t until_ms, struct failure *failure)
{
    if (ids->size == 0)
        return PG_DONE;
    struct pg_values values = {0};
    pg_add_i32(&values, registry->id);
    pg_add_bytes(&values, buffer_bytes(ids));
    return pg_session_run(&registry->session, statement, &values, until_ms, NULL, failure);
}

/* A connection that breaks here has it all told again: register_node(). */
static enum pg_outcome tell_wishes(struct registry *registry, uint64_t until_ms, struct failure *failure)
{
    if (registry->id == 0)
        return PG_DONE;
    struct buffer ready, unready;
    buffer_init(&ready);
    buffer_init(&unready);
    list_untold(registry, &ready, &unready);
    enum pg_outcome outcome = run_wishes(registry, PG_WISH, &ready, until_ms, failure);
    if (outcome == PG_DONE)
        outcome = run_wishes(registry, PG_UNWISH, &unready, until_ms, failure);
    buffer_deinit(&ready);
    buffer_deinit(&unready);
    return outcome;
}

/* --- logs on other servers ---------------------------------------------------------------------------------------- */

void registry_tell_owner(struct registry *registry, struct bytes log, uint64_t epoch, bool is_at_rest)
{
    ASSERT(log.size < VIEW_NAME_SIZE);
    (void)pthread_mutex_lock(&registry->mutex);
    struct far_log *found = NULL;
    for (size_t i = 0; i < registry->far_count && found == NULL; i++)
        if (bytes_equal(bytes_from_string(registry->far_owned[i].name), log))
            found = &registry->far_owned[i];
    if (found == NULL) {
        ARRAY_GROW(registry->far_owned, registry->far_count, registry->far_capacity);
        found = &registry->far_owned[registry->far_count++];
    }
    *found = (struct far_log){.epoch = epoch, .is_at_rest = is_at_rest};
    memcpy(found->name, log.ptr, log.size);
    (void)pthread_mutex_unlock(&registry->mutex);
}

/* Takes one that is to be told. */
static bool take_untold(struct registry *registry, struct far_log *log)
{
    (void)pthread_mutex_lock(&registry->mutex);
    struct far_log *found = NULL;
    for (size_t i = 0; i < registry->far_count && found == NULL; i++)
        if (!registry->far_owned[i].is_told)
            found = &registry->far_owned[i];
    if (found != NULL) {
        found->is_told = true;
        *log = *found;
    }
    (void)pthread_mutex_unlock(&registry->mutex);
    return found != NULL;
}

/* A connection that breaks here has it all told again: register_node(). */
static enum pg_outcome tell_owners(struct registry *registry, uint64_t until_ms, struct failure *failure)
{
    struct far_log log;
    for (unsigned i = 0; registry->id != 0 && i < FAR_AT_ONCE && take_untold(registry, &log); i++) {
        struct pg_values values = {0};
        pg_add_bytes(&values, bytes_from_string(log.name));
        pg_add_bytes(&values, bytes_from_string(log.is_at_rest ? "" : registry->options.postgres.node));
        pg_add_i64(&values, log.epoch);
        const enum pg_outcome outcome =
            pg_session_run(&registry->session, PG_TELL_OWNER, &values, until_ms, NULL, failure);
        if (outcome != PG_DONE)
            return outcome;
    }
    return PG_DONE;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static enum error turn_once(struct registry *registry, struct failure *failure)
{
    struct beat_facts facts;
    const enum error error = connect_anew(registry, failure);
    if (error != OK)
        return error;
    const uint64_t until_ms = pg_now_ms() + STEP_MS;
    enum pg_outcome outcome = run_beat(registry, &facts, until_ms, failure);
    if (outcome == PG_DONE)
        outcome = read_rest(registry, &facts, until_ms, failure);
    if (outcome == PG_DONE)
        outcome = check_name(registry, until_ms, failure) == OK ? PG_DONE : PG_UNKNOWN;
    if (outcome == PG_DONE)
        outcome = tell_wishes(registry, until_ms, failure);
    if (outcome == PG_DONE)
        outcome = tell_owners(registry, until_ms, failure);
    if (outcome != PG_DONE) {
        pg_link_close(&registry->session.link); /* what was half done is done again */
        return ERROR_SERVICE_UNAVAILABLE;
    }
    publish(registry);
    return OK;
}

/* False: it must end. */
static bool turn(struct registry *registry)
{
    struct failure failure;
    failure_init(&failure);
    const enum error error = turn_once(registry, &failure);
    if (error == OK)
        note_success(registry);
    else
        note_failure(registry, &failure);
    const bool is_refused = error == ERROR_INVALID_PARAMETER_VALUE && registry->first_ms == 0;
    if (is_refused) {
        say(registry, "%s", failure.text);
        registry->options.refuse(registry->options.context);
    }
    return !is_refused;
}

/* False: it is to stop. */
static bool wait_for_turn(struct registry *registry, uint64_t at_ms)
{
    (void)pthread_mutex_lock(&registry->mutex);
    while (!registry->is_stopping && condition_wait_until(&registry->wakes, &registry->mutex, at_ms))
        continue;
    const bool goes_on = !registry->is_stopping;
    (void)pthread_mutex_unlock(&registry->mutex);
    return goes_on;
}

static void leave(struct registry *registry)
{
    struct failure ignored;
    failure_init(&ignored);
    struct pg_values values = {0};
    pg_add_i32(&values, registry->id);
    pg_add_bytes(&values, bytes_make(registry->instance, PG_OWNER_SIZE));
    if (registry->id != 0 && pg_link_is_open(&registry->session.link))
        (void)pg_session_run(&registry->session, PG_NODE_LEAVE, &values, pg_now_ms() + LEAVE_MS, NULL, &ignored);
}

static void *run(void *argument)
{
    struct registry *registry = argument;
    uint64_t at_ms = monotonic_ms() + REGISTRY_BEAT_MS;
    while (wait_for_turn(registry, at_ms) && turn(registry)) {
        const uint64_t now_ms = monotonic_ms();
        at_ms += REGISTRY_BEAT_MS;
        at_ms = at_ms > now_ms ? at_ms : now_ms + REGISTRY_BEAT_MS / 4;
    }
    leave(registry);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void free_all(struct registry *registry)
{
    pg_session_deinit(&registry->session);
    cluster_rows_deinit(&registry->rows);
    registry_release(registry->view == NULL ? NULL : &registry->view->view);
    (void)pthread_cond_destroy(&registry->wakes);
    (void)pthread_mutex_destroy(&registry->mutex);
    free(registry->ready_owned);
    free(registry->far_owned);
    free(registry);
}

static struct registry *make(const struct registry_options *options)
{
    struct registry *registry = memory_allocate_zeroed(sizeof(*registry));
    registry->options = *options;
    registry->options.postgres.log = options->postgres.node; /* as pg_stat_activity shows the connection */
    registry->options.postgres.wants_replicas = false;       /* that is for the logs */
    random_fill(registry->instance, PG_OWNER_SIZE);
    condition_init(&registry->wakes);
    (void)pthread_mutex_init(&registry->mutex, NULL);
    pg_session_init(&registry->session, &registry->options.postgres, "registration");
    cluster_rows_init(&registry->rows);
    return registry;
}

enum error registry_create(const struct registry_options *options, struct registry **registry, struct failure *failure)
{
    struct registry *made = make(options);
    enum error error = turn_once(made, failure);
    if (error == ERROR_SERVICE_UNAVAILABLE) {
        note_failure(made, failure);
        error = OK;
    }
    const int result = error == OK ? thread_start(&made->thread, run, made) : 0;
    if (result != 0)
        error = failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "there is no thread to register this node with: %s.",
                            strerror(result));
    if (error != OK) {
        free_all(made);
        return error;
    }
    *registry = made;
    return OK;
}

void registry_leave(struct registry *registry)
{
    (void)pthread_mutex_lock(&registry->mutex);
    registry->is_stopping = true;
    (void)pthread_cond_signal(&registry->wakes);
    (void)pthread_mutex_unlock(&registry->mutex);
}

void registry_destroy(struct registry *registry)
{
    registry_leave(registry);
    (void)pthread_join(registry->thread, NULL);
    free_all(registry);
}
