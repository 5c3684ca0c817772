#include "tallyd/renewal.h"

#include "tallyd/credentials_file.h"
#include "tallyd/relay_door.h"

#include "base/memory.h"

#include <stdlib.h>

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The namespaces that the credentials name, for the caller to free. */
static struct bytes *list_namespaces(const struct credentials *credentials, size_t *count)
{
    struct bytes *names = memory_allocate(NAMESPACES_MAX * sizeof(*names));
    *count = credentials_namespaces(credentials, names, NAMESPACES_MAX);
    return names;
}

/* Those to be served: what the credentials name, or the one that is served without any. For the caller to free. */
static struct bytes *list_wanted(const struct credentials *credentials, size_t *count)
{
    struct bytes *names = list_namespaces(credentials, count);
    if (credentials == NULL)
        names[(*count)++] = BYTES(NAMESPACE_DEFAULT);
    return names;
}

static enum error check_credentials(const struct renewal *renewal, const struct credentials *credentials,
                                    struct failure *failure)
{
    size_t count;
    struct bytes *names = list_namespaces(credentials, &count);
    enum error error = OK;
    if (count > NAMESPACES_MAX)
        error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                            "%s has credentials of more than %u namespaces; one daemon serves no more.",
                            config_text(renewal->config, CONFIG_CREDENTIALS), NAMESPACES_MAX);
    for (size_t i = 0; i < count && error == OK; i++)
        if (relay_door_has_key(credentials, names[i]))
            error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                                "%s has the access key " RELAY_DOOR_KEY_PREFIX "%.*s: that is what relays of the "
                                "daemon call themselves. Choose another one.",
                                config_text(renewal->config, CONFIG_CREDENTIALS), BYTES_FORMAT(names[i]));
    free(names);
    return error;
}

/* Reads the file of credentials, if one is configured. NULL: none is. */
static enum error read_credentials(struct renewal *renewal, struct credentials **credentials, struct failure *failure)
{
    const char *path = config_text(renewal->config, CONFIG_CREDENTIALS);
    bool is_exposed = false;
    *credentials = NULL;
    enum error error = path[0] == '\0' ? OK : credentials_file_read(path, credentials, &is_exposed, failure);
    if (error != OK)
        return error;
    if (is_exposed)
        message_log_say(renewal->errors, "tallyd: every user of this machine may read the secrets in %s: chmod o-r %s",
                        path, path);
    error = check_credentials(renewal, *credentials, failure);
    if (error == OK)
        return OK;
    credentials_destroy(*credentials);
    *credentials = NULL;
    return error;
}

enum error renewal_read(struct renewal *renewal, struct failure *failure)
{
    return read_credentials(renewal, &renewal->credentials_owned, failure);
}

struct bytes *renewal_namespaces(const struct renewal *renewal, size_t *count)
{
    return list_wanted(renewal->credentials_owned, count);
}

/* The new credentials can't be used. */
static void keep_credentials(struct renewal *renewal, const struct failure *failure)
{
    message_log_say(renewal->errors, "tallyd: the credentials in force stay: %s", failure->text);
    server_notice(renewal->server, "CredentialsRefused",
                  "New credentials could not be used, and those in force stay. Standard error says why.");
    credentials_destroy(renewal->new_owned);
    renewal->new_owned = NULL;
}

/* --- what replaces them ------------------------------------------------------------------------------------------- */

/* Is the name among these? Looks first behind the last one that was found: both lists mostly have the same order. */
static bool is_named(struct bytes name, const struct bytes *names, size_t count, size_t *next)
{
    for (size_t i = 0; i < count; i++) {
        const size_t index = (*next + i) % count;
        if (!bytes_equal(name, names[index]))
            continue;
        *next = index + 1;
        return true;
    }
    return false;
}

/* Makes the namespaces leave that the credentials no longer name, except the first: requests that name none are about
 * that, and the relays' socket is called by it (relay_door.h). */
static void begin_departures(struct renewal *renewal)
{
    size_t count, next = 0;
    struct bytes *names = list_namespaces(renewal->credentials_owned, &count);
    for (size_t i = 1; i < front_count(renewal->front); i++) {
        struct opened_namespace *opened = namespaces_at(renewal->namespaces, i);
        const struct bytes name = bytes_from_string(opened->name_owned);
        if (!is_named(name, names, count, &next) && !opened->is_leaving)
            departure_begin(&renewal->departure, opened);
    }
    free(names);
}

void renewal_note_departure(struct renewal *renewal, size_t count)
{
    if (renewal->ownership == NULL || !ownership_takes_descriptors(renewal->ownership))
        descriptors_remove_namespaces(renewal->descriptors, count);
    server_set_connections_max(renewal->server, descriptors_for_connections(renewal->descriptors));
    message_log_tell(renewal->errors, MESSAGE_INFO,
                     "tallyd: namespaces that the credentials name no more: %zu closed, %zu are served.", count,
                     front_count(renewal->front));
    if (renewal->wants_renewal && !renewal->is_ending)
        renewal_ask(renewal);
}

static void on_departure(void *context, size_t count)
{
    renewal_note_departure(context, count);
}

/* All namespaces of the new credentials are served, or, in PostgreSQL, followed. */
static void replace_credentials(struct renewal *renewal)
{
    front_set_credentials(renewal->front, renewal->new_owned);
    credentials_destroy(renewal->credentials_owned);
    renewal->credentials_owned = renewal->new_owned;
    renewal->new_owned = NULL;
    if (renewal->credentials_owned != NULL) {
        message_log_tell(renewal->errors, MESSAGE_INFO, "tallyd: credentials in force: %zu.",
                         credentials_count(renewal->credentials_owned));
        server_notice(renewal->server, "CredentialsReloaded", "The credentials were read again and are in force.");
    }
    if (renewal->credentials_owned != NULL && renewal->ownership == NULL)
        begin_departures(renewal);
}

/* The namespaces of the new credentials that are not served yet, for the caller to free. */
static struct bytes *list_new_namespaces(const struct renewal *renewal, size_t *count)
{
    size_t all_count;
    struct bytes *names = list_namespaces(renewal->new_owned, &all_count);
    *count = 0;
    for (size_t i = 0; i < all_count; i++)
        if (front_find(renewal->front, names[i]) == NULL)
            names[(*count)++] = names[i];
    return names;
}

/* The logs of new namespaces have been read. */
static void on_arrival(void *context)
{
    struct renewal *renewal = context;
    struct failure failure;
    failure_init(&failure);
    size_t count;
    free(list_new_namespaces(renewal, &count));
    if (arrival_end(&renewal->arrival, renewal->is_ending, &failure) == OK) {
        relays_follow_namespaces(renewal->relays);
        replace_credentials(renewal);
    } else {
        descriptors_remove_namespaces(renewal->descriptors, count);
        server_set_connections_max(renewal->server, descriptors_for_connections(renewal->descriptors));
        keep_credentials(renewal, &failure);
    }
    if (renewal->wants_renewal && !renewal->is_ending)
        renewal_ask(renewal);
}

static enum error begin_arrival(struct renewal *renewal, const struct bytes *names, size_t count,
                                struct failure *failure)
{
    if (front_count(renewal->front) + count > NAMESPACES_MAX)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "%zu namespaces are served and %zu are new, and one daemon serves no more than %u. Take "
                           "some out of the credentials first.",
                           front_count(renewal->front), count, NAMESPACES_MAX);
    enum error error =
        descriptors_add_namespaces(renewal->descriptors, count, server_connection_count(renewal->server), failure);
    if (error != OK)
        return error;
    error = arrival_begin(&renewal->arrival, names, count, failure);
    if (error != OK)
        descriptors_remove_namespaces(renewal->descriptors, count);
    server_set_connections_max(renewal->server, descriptors_for_connections(renewal->descriptors));
    return error;
}

/* Do the new credentials name a namespace that is leaving? */
static bool must_wait_for_departure(const struct renewal *renewal)
{
    size_t count;
    struct bytes *names = list_namespaces(renewal->new_owned, &count);
    bool must_wait = false;
    for (size_t i = 0; i < count && !must_wait; i++)
        must_wait = departure_has(&renewal->departure, names[i]);
    free(names);
    return must_wait;
}

/* What is wanted of logs in PostgreSQL. A namespace that is new may have an owner already, so nothing waits for it. */
static void follow_credentials(struct renewal *renewal)
{
    struct failure failure;
    failure_init(&failure);
    if (read_credentials(renewal, &renewal->new_owned, &failure) != OK) {
        keep_credentials(renewal, &failure);
        return;
    }
    size_t count;
    struct bytes *names = list_wanted(renewal->new_owned, &count);
    const bool takes_them = ownership_takes_descriptors(renewal->ownership);
    const size_t added = takes_them ? 0 : ownership_count_new(renewal->ownership, names, count);
    const enum error error =
        descriptors_add_namespaces(renewal->descriptors, added, server_connection_count(renewal->server), &failure);
    if (error == OK) {
        server_set_connections_max(renewal->server, descriptors_for_connections(renewal->descriptors));
        ownership_want(renewal->ownership, names, count);
        replace_credentials(renewal);
    } else {
        keep_credentials(renewal, &failure);
    }
    free(names);
}

/* New credentials are in force once all their namespaces are served. */
void renewal_ask(struct renewal *renewal)
{
    struct failure failure;
    failure_init(&failure);
    if (renewal->ownership != NULL) {
        follow_credentials(renewal);
        return;
    }
    renewal->wants_renewal = arrival_is_under_way(&renewal->arrival);
    if (renewal->wants_renewal)
        return;
    if (read_credentials(renewal, &renewal->new_owned, &failure) != OK) {
        keep_credentials(renewal, &failure);
        return;
    }
    if (must_wait_for_departure(renewal)) {
        message_log_say(renewal->errors,
                        "tallyd: the new credentials name a namespace that is still leaving. They come into "
                        "force when it has left.");
        credentials_destroy(renewal->new_owned);
        renewal->new_owned = NULL;
        renewal->wants_renewal = true;
        return;
    }
    size_t count;
    struct bytes *names = list_new_namespaces(renewal, &count);
    if (count == 0)
        replace_credentials(renewal);
    else if (begin_arrival(renewal, names, count, &failure) != OK)
        keep_credentials(renewal, &failure);
    free(names);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void renewal_begin(struct renewal *renewal, uv_loop_t *loop)
{
    arrival_init(&renewal->arrival, renewal->namespaces, loop, on_arrival, renewal);
    departure_init(&renewal->departure, renewal->relays, loop, on_departure, renewal);
}

void renewal_end(struct renewal *renewal, uv_loop_t *loop)
{
    renewal->is_ending = true;
    while (arrival_is_under_way(&renewal->arrival))
        (void)uv_run(loop, UV_RUN_ONCE);
    arrival_deinit(&renewal->arrival);
}

void renewal_close(struct renewal *renewal)
{
    departure_deinit(&renewal->departure);
}
