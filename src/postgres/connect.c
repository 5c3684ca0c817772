#include "postgres/connect.h"

#include "base/assert.h"
#include "base/memory.h"
#include "conninfo/conninfo.h"
#include "postgres/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define UNSENT_MS "1000" /* an address that takes nothing of what is sent is given up after so long */

/* --- the hosts ---------------------------------------------------------------------------------------------------- */

static unsigned count_items(const char *list)
{
    unsigned count = 1;
    for (const char *at = list; at != NULL && *at != '\0'; at++)
        count += *at == ',';
    return count;
}

/* Lists that do not fit each other are taken for one host's, which libpq then refuses. */
static unsigned count_hosts(const PQconninfoOption *options)
{
    const char *names = conninfo_option(options, "host"), *addresses = conninfo_option(options, "hostaddr");
    const unsigned count = count_items(names != NULL ? names : addresses);
    const unsigned ports = count_items(conninfo_option(options, "port"));
    const bool fit =
        (names == NULL || addresses == NULL || count_items(addresses) == count) && (ports == 1 || ports == count);
    return fit ? count : 1;
}

/* What a list with commas has for one of the hosts, for the caller to free. A list of another length is left as it is,
 * like a single port for all; and so is what is not named at all (NULL). */
static char *copy_item(const char *list, unsigned index, unsigned hosts_count)
{
    if (list == NULL)
        return NULL;
    const unsigned count = count_items(list);
    for (index = count == hosts_count ? index : 0; index > 0; index--)
        list = strchr(list, ',') + 1;
    const size_t size = count == hosts_count ? strcspn(list, ",") : strlen(list);
    char *item = memory_allocate(size + 1);
    (void)snprintf(item, size + 1, "%.*s", (int)size, list);
    return item;
}

/* --- attempts ----------------------------------------------------------------------------------------------------- */

struct attempt {
    PGconn *connection; /* NULL: it has failed, or won */
    PostgresPollingStatusType state;
    uint32_t host;
};

struct attempts {
    const struct pg_hosts *hosts;
    uint64_t next_ms; /* when the next one may begin beside those that are under way */
    struct attempt *all_owned;
    struct pollfd *sockets_owned; /* of those that are under way, in the same order */
    unsigned count;               /* that began */
    unsigned hosts_count;         /* how many there may be in the end */
    char *reasons;
    size_t reasons_size;
};

#define WORDS_MAX 64u /* keywords of a connection string: libpq 15 knows 41 */

struct words {
    const char *keywords[WORDS_MAX + 1];
    const char *values[WORDS_MAX + 1];
    unsigned count;
};

static void add_word(struct words *words, const char *keyword, const char *value)
{
    ASSERT(words->count < WORDS_MAX);
    words->keywords[words->count] = keyword;
    words->values[words->count++] = value;
}

/* What stands first is what the connection string may say otherwise. */
static const char *const defaults[][2] = {
    {"keepalives_idle", "1"},        {"keepalives_interval", "1"},           {"keepalives_count", "2"},
    {"tcp_user_timeout", UNSENT_MS}, {"target_session_attrs", "read-write"}, {"client_encoding", "UTF8"}};

/* The words that a connection string has once for each host. */
static const char *const of_hosts[] = {"host", "hostaddr", "port"};

static bool is_of_hosts(const char *keyword)
{
    for (unsigned i = 0; i < ARRAY_LENGTH(of_hosts); i++)
        if (strcmp(keyword, of_hosts[i]) == 0)
            return true;
    return false;
}

static PGconn *begin(const struct pg_hosts *hosts, unsigned index, unsigned count)
{
    struct words words = {0};
    char *items[ARRAY_LENGTH(of_hosts)];
    for (unsigned i = 0; i < ARRAY_LENGTH(defaults); i++)
        add_word(&words, defaults[i][0], defaults[i][1]);
    add_word(&words, "fallback_application_name", hosts->application);
    for (const PQconninfoOption *option = hosts->options; option->keyword != NULL; option++)
        if (option->val != NULL && !is_of_hosts(option->keyword))
            add_word(&words, option->keyword, option->val);
    for (unsigned i = 0; i < ARRAY_LENGTH(of_hosts); i++) {
        items[i] = copy_item(conninfo_option(hosts->options, of_hosts[i]), index, count);
        add_word(&words, of_hosts[i], items[i]); /* an empty one is left out by libpq, and so is NULL */
    }
    PGconn *connection = PQconnectStartParams(words.keywords, words.values, 0);
    ASSERT(connection != NULL); /* but for no memory */
    for (unsigned i = 0; i < ARRAY_LENGTH(of_hosts); i++)
        free(items[i]);
    return connection;
}

static void note_reason(const struct attempts *attempts, const char *host, const char *reason)
{
    const size_t used = strlen(attempts->reasons);
    (void)snprintf(attempts->reasons + used, attempts->reasons_size - used, "%s%s\n", host, reason);
}

static void give_up(struct attempts *attempts, struct attempt *attempt)
{
    note_reason(attempts, "", PQerrorMessage(attempt->connection));
    PQfinish(attempt->connection);
    attempt->connection = NULL;
    attempts->next_ms = pg_now_ms();
}

static void begin_next(struct attempts *attempts)
{
    const uint32_t count = count_hosts(attempts->hosts->options);
    const uint32_t host = (attempts->hosts->first + attempts->count) % count;
    struct attempt *attempt = &attempts->all_owned[attempts->count++];
    *attempt = (struct attempt){
        .connection = begin(attempts->hosts, host, count), .state = PGRES_POLLING_WRITING, .host = host};
    attempts->next_ms = pg_now_ms() + PG_HEAD_START_MS;
    if (PQstatus(attempt->connection) == CONNECTION_BAD) /* its name is none: there is no socket to wait for */
        give_up(attempts, attempt);
}

/* One step. True: it is connected. */
static bool go_on(struct attempts *attempts, struct attempt *attempt)
{
    attempt->state = PQconnectPoll(attempt->connection);
    attempts->next_ms = pg_now_ms() + PG_HEAD_START_MS;
    if (attempt->state != PGRES_POLLING_FAILED && PQstatus(attempt->connection) != CONNECTION_BAD)
        return attempt->state == PGRES_POLLING_OK;
    give_up(attempts, attempt);
    return false;
}

/* How many are under way; their sockets are then in attempts->sockets_owned. */
static unsigned list_sockets(const struct attempts *attempts)
{
    unsigned count = 0;
    for (unsigned i = 0; i < attempts->count; i++) {
        const struct attempt *attempt = &attempts->all_owned[i];
        if (attempt->connection != NULL)
            attempts->sockets_owned[count++] =
                (struct pollfd){.fd = PQsocket(attempt->connection),
                                .events = attempt->state == PGRES_POLLING_READING ? POLLIN : POLLOUT};
    }
    return count;
}

/* Waits for any of them, and has it go on. The one that is connected, or NULL. */
static struct attempt *turn_once(struct attempts *attempts, unsigned under_way, uint64_t wait_ms)
{
    if (poll(attempts->sockets_owned, under_way, wait_ms > 60000 ? 60000 : (int)wait_ms) <= 0)
        return NULL;
    const struct pollfd *socket = attempts->sockets_owned;
    for (unsigned i = 0; i < attempts->count; i++) {
        struct attempt *attempt = &attempts->all_owned[i];
        if (attempt->connection == NULL)
            continue;
        if (socket++->revents != 0 && go_on(attempts, attempt))
            return attempt;
    }
    return NULL;
}

/* May another one begin? The one that was passed over waits for all others. */
static bool has_next(const struct attempts *attempts, unsigned under_way)
{
    const bool is_passed = attempts->hosts->has_passed && attempts->count + 1 == attempts->hosts_count;
    return attempts->count < attempts->hosts_count && (under_way == 0 || !is_passed);
}

static void note_silence(const struct attempts *attempts)
{
    for (unsigned i = 0; i < attempts->count; i++)
        if (attempts->all_owned[i].connection != NULL)
            note_reason(attempts, PQhost(attempts->all_owned[i].connection), " did not answer in time.");
}

static struct attempt *find_one(struct attempts *attempts, uint64_t until_ms)
{
    for (;;) {
        const uint64_t now_ms = pg_now_ms();
        const unsigned under_way = list_sockets(attempts);
        if (now_ms >= until_ms) {
            note_silence(attempts);
            return NULL;
        }
        const bool may_begin = has_next(attempts, under_way);
        if (may_begin && (under_way == 0 || now_ms >= attempts->next_ms)) {
            begin_next(attempts);
            continue;
        }
        if (under_way == 0)
            return NULL;
        const uint64_t wakes_ms = may_begin && attempts->next_ms < until_ms ? attempts->next_ms : until_ms;
        struct attempt *found = turn_once(attempts, under_way, wakes_ms - now_ms);
        if (found != NULL)
            return found;
    }
}

PGconn *pg_connect(struct pg_hosts *hosts, uint64_t until_ms, char *reasons, size_t size)
{
    struct attempts attempts = {.hosts = hosts,
                                .hosts_count = hosts->is_only_first ? 1 : count_hosts(hosts->options),
                                .reasons = reasons,
                                .reasons_size = size};
    attempts.all_owned = memory_allocate(attempts.hosts_count * sizeof(struct attempt));
    attempts.sockets_owned = memory_allocate(attempts.hosts_count * sizeof(struct pollfd));
    reasons[0] = '\0';
    struct attempt *found = find_one(&attempts, until_ms);
    PGconn *connection = NULL;
    if (found != NULL) {
        connection = found->connection;
        hosts->first = found->host;
        found->connection = NULL;
    }
    for (unsigned i = 0; i < attempts.count; i++)
        PQfinish(attempts.all_owned[i].connection); /* NULL is none */
    free(attempts.all_owned);
    free(attempts.sockets_owned);
    return connection;
}
