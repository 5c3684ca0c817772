#include "generator.h"
#include "cpu.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IN_SIZE_MIN = 16 * 1024, EVENTS_MAX = 256 };

static const uint64_t SECOND_NS = UINT64_C(1000000000);
static const uint64_t SILENCE_MAX_NS = 30 * UINT64_C(1000000000);
static const uint64_t WINDOW_CHECK_NS = 200000; /* from one look at what must wait to the next */

enum phase { PHASE_WARM_UP, PHASE_MEASURE, PHASE_DRAIN };

struct generator {
    const struct plan *plan;
    const struct workload *workload;
    void *workload_state;
    int epoll_fd;
    enum phase phase;
    uint64_t started_at_ns;
    uint64_t window_begin_ns;
    uint64_t last_answer_at_ns;
    uint64_t told_at_ns;
    uint64_t writes; /* begun so far */
    unsigned busy;   /* connections with a write in flight */
    double cpu_own_begin_s;
    double cpu_server_begin_s;
    struct counters counters;
    struct counters counters_begin;
    FILE *latencies_owned; /* NULL: nobody asked for each of them */
    struct connection *connections_owned;
    unsigned *idle_owned; /* indexes of connections that wait until something is due, or may be asked for */
    unsigned idle_count;
    struct result *result;
};

static void connection_open(struct generator *generator, unsigned index)
{
    struct connection *connection = &generator->connections_owned[index];
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(generator->plan->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    connection->index = index;
    text_init(&connection->own);
    text_init(&connection->aside);
    text_init(&connection->kept);
    text_init(&connection->in);
    text_reserve(&connection->in, IN_SIZE_MIN);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        fatal("can't connect to port %u: %s", generator->plan->port, strerror(errno));
    int on = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    epoll_ctl(generator->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event);
}

static void connection_close(struct connection *connection)
{
    close(connection->fd);
    text_deinit(&connection->own);
    text_deinit(&connection->aside);
    text_deinit(&connection->kept);
    text_deinit(&connection->in);
}

static void watch(struct generator *generator, const struct connection *connection, uint32_t events)
{
    struct epoll_event event = {
        .events = events,
        .data.u32 = (uint32_t)(connection - generator->connections_owned),
    };
    epoll_ctl(generator->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

/* Writes what the socket takes of connection->out; what is left goes out when it can take more. */
static void connection_write(struct generator *generator, struct connection *connection)
{
    ssize_t size = send(connection->fd, connection->out.ptr, connection->out.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno != EAGAIN)
        fatal("can't send: %s", strerror(errno));
    bool was_partial = connection->out.size == 0;
    if (size > 0)
        connection->out = (struct view){connection->out.ptr + size, connection->out.size - (size_t)size};
    if (connection->out.size > 0 && !was_partial)
        watch(generator, connection, EPOLLIN | EPOLLOUT);
}

static void connection_ask(struct generator *generator, struct connection *connection, uint64_t due_at_ns)
{
    connection->asked_at_ns = due_at_ns;
    generator->writes++;
    generator->busy++;
    generator->workload->ask(generator->workload_state, connection);
    connection_write(generator, connection);
}

static uint64_t due_at_ns(const struct generator *generator)
{
    return generator->started_at_ns + (uint64_t)((double)generator->writes / generator->plan->rate * 1e9);
}

/* When the measured window, which has begun, is to end. It lasts as long as was asked for also when it begins late,
 * because nothing happened until then. */
static uint64_t window_until_ns(const struct generator *generator)
{
    return generator->window_begin_ns + (uint64_t)(generator->plan->duration_s * 1e9);
}

/* Is nothing more to be asked? At a rate, what was due in the window still is behind its end: a pause of the server may
 * have kept it. */
static bool is_over(const struct generator *generator)
{
    if (generator->plan->count > 0 && generator->writes >= generator->plan->count)
        return true;
    return generator->phase == PHASE_DRAIN &&
           (generator->plan->rate == 0 || due_at_ns(generator) >= window_until_ns(generator));
}

/* Is all of the run measured, from its first write to its last answer? */
static bool is_measured_whole(const struct generator *generator)
{
    return generator->plan->count > 0 || generator->workload->is_drain;
}

static bool must_wait(const struct generator *generator)
{
    return generator->workload->must_wait != NULL && generator->workload->must_wait(generator->workload_state);
}

/* An answered connection asks again, or waits for its turn, or is done. A life that was begun is ended: what it left in
 * flight would block its group, or hide from the next run until its lease is over. */
static void connection_go_on(struct generator *generator, struct connection *connection, uint64_t now_ns)
{
    if (connection->is_drained || (is_over(generator) && connection->step == 0))
        return;
    if (generator->plan->rate > 0 || must_wait(generator))
        generator->idle_owned[generator->idle_count++] = (unsigned)(connection - generator->connections_owned);
    else
        connection_ask(generator, connection, connection->is_part ? connection->asked_at_ns : now_ns);
}

/* Does the latency of this write count? At a rate those do that were due in the window, whenever they are answered;
 * otherwise those that are answered in it. */
static bool is_counted(const struct generator *generator, const struct connection *connection)
{
    if (connection->is_part || generator->phase == PHASE_WARM_UP)
        return false;
    if (generator->plan->rate == 0 || is_measured_whole(generator))
        return generator->phase == PHASE_MEASURE;
    return connection->asked_at_ns >= generator->window_begin_ns &&
           connection->asked_at_ns < window_until_ns(generator);
}

static void latency_add(struct generator *generator, uint64_t now_ns, uint64_t latency_ns)
{
    struct result *result = generator->result;
    const uint64_t pair[] = {now_ns - latency_ns, latency_ns};
    if (generator->latencies_owned != NULL && fwrite(pair, sizeof(pair), 1, generator->latencies_owned) != 1)
        fatal("can't write %s", generator->plan->latencies);
    histogram_add(&result->latency, latency_ns);
    uint64_t second = (now_ns - generator->window_begin_ns) / SECOND_NS;
    if (second < SECONDS_MAX && latency_ns > result->max_ns_by_second[second])
        result->max_ns_by_second[second] = latency_ns;
}

/* What was asked has been answered. */
static void connection_finish(struct generator *generator, struct connection *connection, uint64_t now_ns)
{
    generator->last_answer_at_ns = now_ns;
    generator->busy--;
    if (is_counted(generator, connection))
        latency_add(generator, now_ns, now_ns - connection->asked_at_ns);
    connection_go_on(generator, connection, now_ns);
}

/* Uses up the whole replies among the bytes that have arrived. */
static void connection_read_replies(struct generator *generator, struct connection *connection)
{
    struct view in = text_view(&connection->in);
    while (in.size > 0) {
        bool is_pushed = generator->workload->is_pushed;
        if (connection->replies_due == 0 && !is_pushed)
            fatal("bytes that nothing asked for: %.*s", (int)in.size, in.ptr);
        size_t used = generator->workload->answer(generator->workload_state, connection, in, &generator->counters);
        if (used == 0)
            break;
        in = view_from(in, in.ptr + used);
        if (!is_pushed)
            connection_settle(connection, 1, &generator->counters);
    }
    if (in.size > 0 && in.ptr != connection->in.ptr_owned)
        memmove(connection->in.ptr_owned, in.ptr, in.size);
    connection->in.size = in.size;
}

/* Writes what no other write takes along. */
static void connection_write_aside(struct connection *connection)
{
    struct text *aside = &connection->aside;
    if (aside->size == 0 || connection->out.size > 0)
        return;
    ssize_t size = send(connection->fd, aside->ptr_owned, aside->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size != (ssize_t)aside->size)
        fatal("can't send: %s", size < 0 ? strerror(errno) : "the socket took a part");
    aside->size = 0;
}

static void connection_read(struct generator *generator, struct connection *connection)
{
    struct text *in = &connection->in;
    text_reserve(in, IN_SIZE_MIN / 2);
    ssize_t size = recv(connection->fd, in->ptr_owned + in->size, in->capacity - in->size, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size <= 0)
        fatal("the server closed a connection%s%s", size < 0 ? ": " : "", size < 0 ? strerror(errno) : "");
    in->size += (size_t)size;
    bool was_busy = connection->replies_due > 0;
    connection_read_replies(generator, connection);
    if (was_busy && connection->replies_due == 0)
        connection_finish(generator, connection, clock_now_ns());
    connection_write_aside(connection);
}

static void window_begin(struct generator *generator, uint64_t now_ns)
{
    generator->phase = PHASE_MEASURE;
    generator->window_begin_ns = now_ns;
    generator->counters_begin = generator->counters;
    generator->cpu_own_begin_s = cpu_own_s();
    generator->cpu_server_begin_s = cpu_of_s(generator->plan->cpu_pids);
}

static void window_end(struct generator *generator, uint64_t now_ns)
{
    const struct counters *begin = &generator->counters_begin;
    const struct counters *end = &generator->counters;
    struct result *result = generator->result;
    generator->phase = PHASE_DRAIN;
    result->seconds = (double)(now_ns - generator->window_begin_ns) / 1e9;
    result->window = (struct counters){
        .requests = end->requests - begin->requests,
        .sent = end->sent - begin->sent,
        .received = end->received - begin->received,
        .deleted = end->deleted - begin->deleted,
    };
    result->generator_cpu_s = cpu_own_s() - generator->cpu_own_begin_s;
    result->server_cpu_s = cpu_of_s(generator->plan->cpu_pids) - generator->cpu_server_begin_s;
}

static void phase_advance(struct generator *generator, uint64_t now_ns)
{
    const struct plan *plan = generator->plan;
    uint64_t elapsed_ns = now_ns - generator->started_at_ns;
    if (generator->phase == PHASE_WARM_UP &&
        (is_measured_whole(generator) || (double)elapsed_ns >= plan->warm_up_s * 1e9))
        window_begin(generator, now_ns);
    bool is_done = is_measured_whole(generator) ? generator->busy == 0 && generator->writes > 0 &&
                                                      (is_over(generator) || generator->workload->is_drain)
                                                : now_ns >= window_until_ns(generator);
    if (generator->phase == PHASE_MEASURE && is_done)
        window_end(generator, now_ns);
    if (now_ns - generator->last_answer_at_ns > SILENCE_MAX_NS && generator->busy > 0)
        fatal("%u connections have waited 30 s for a reply", generator->busy);
}

/* When the next write is due, with a rate; without one, now. */
static uint64_t next_due_at_ns(const struct generator *generator, uint64_t now_ns)
{
    return generator->plan->rate > 0 ? due_at_ns(generator) : now_ns;
}

/* Asks for everything that is due by now, may begin, and finds a free connection. */
static void ask_due(struct generator *generator, uint64_t now_ns)
{
    while (generator->idle_count > 0 && !is_over(generator) && next_due_at_ns(generator, now_ns) <= now_ns &&
           !must_wait(generator)) {
        unsigned index = generator->idle_owned[--generator->idle_count];
        connection_ask(generator, &generator->connections_owned[index], next_due_at_ns(generator, now_ns));
    }
}

/* A line of JSON each second. */
static void print_progress(struct generator *generator, uint64_t now_ns)
{
    if (!generator->plan->is_told || generator->workload->print == NULL || now_ns - generator->told_at_ns < SECOND_NS)
        return;
    generator->told_at_ns = now_ns;
    printf("{\"seconds\":%.3f,", (double)(now_ns - generator->started_at_ns) / 1e9);
    generator->workload->print(generator->workload_state, stdout);
    puts("}");
    fflush(stdout);
}

/* Until something must be done that no socket will wake us for; at most 100 ms. */
static struct timespec wait_max(const struct generator *generator, uint64_t now_ns)
{
    uint64_t wait_ns = SECOND_NS / 10;
    if (generator->idle_count > 0 && !is_over(generator)) {
        uint64_t due_ns = generator->plan->rate > 0 ? due_at_ns(generator) : now_ns + WINDOW_CHECK_NS;
        uint64_t until_due_ns = due_ns > now_ns ? due_ns - now_ns : 0;
        wait_ns = until_due_ns < wait_ns ? until_due_ns : wait_ns;
    }
    return (struct timespec){.tv_nsec = (long)wait_ns};
}

static void generator_start(struct generator *generator)
{
    unsigned connections = generator->plan->connections;
    if (generator->plan->latencies != NULL &&
        (generator->latencies_owned = fopen(generator->plan->latencies, "wb")) == NULL)
        fatal("can't open %s: %s", generator->plan->latencies, strerror(errno));
    generator->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    generator->connections_owned = allocate(connections * sizeof(struct connection));
    generator->idle_owned = allocate(connections * sizeof(unsigned));
    for (unsigned index = 0; index < connections; index++)
        connection_open(generator, index);
    generator->started_at_ns = generator->last_answer_at_ns = generator->told_at_ns = clock_now_ns();
    phase_advance(generator, generator->started_at_ns);
    for (unsigned index = 0; index < connections; index++)
        connection_go_on(generator, &generator->connections_owned[index], clock_now_ns());
}

static void generator_stop(struct generator *generator)
{
    for (unsigned index = 0; index < generator->plan->connections; index++)
        connection_close(&generator->connections_owned[index]);
    close(generator->epoll_fd);
    if (generator->latencies_owned != NULL && fclose(generator->latencies_owned) != 0)
        fatal("can't write %s", generator->plan->latencies);
    free(generator->connections_owned);
    free(generator->idle_owned);
}

static bool is_settled(const struct generator *generator)
{
    const struct workload *workload = generator->workload;
    if (!is_over(generator) && !must_wait(generator))
        return false; /* it was due before the end */
    return generator->busy == 0 ||
           (workload->is_settled != NULL && workload->is_settled(generator->workload_state, &generator->counters));
}

void generator_run(const struct plan *plan, const struct workload *workload, struct result *result)
{
    struct generator generator = {
        .plan = plan,
        .workload = workload,
        .workload_state = workload->create(plan),
        .result = result,
    };
    *result = (struct result){0};
    generator_start(&generator);
    while (generator.phase != PHASE_DRAIN || !is_settled(&generator)) {
        struct epoll_event events[EVENTS_MAX];
        uint64_t now_ns = clock_now_ns();
        ask_due(&generator, now_ns);
        struct timespec wait = wait_max(&generator, now_ns);
        int count = epoll_pwait2(generator.epoll_fd, events, EVENTS_MAX, &wait, NULL);
        for (int at = 0; at < count; at++) {
            struct connection *connection = &generator.connections_owned[events[at].data.u32];
            if ((events[at].events & EPOLLOUT) != 0) {
                watch(&generator, connection, EPOLLIN);
                connection_write(&generator, connection);
            }
            if ((events[at].events & ~(uint32_t)EPOLLOUT) != 0)
                connection_read(&generator, connection);
        }
        phase_advance(&generator, clock_now_ns());
        print_progress(&generator, clock_now_ns());
    }
    result->total = generator.counters;
    generator_stop(&generator);
}
