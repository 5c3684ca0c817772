#include "tallyd/relay_door.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#define SECRET_SIZE 32u
#define SCHEME "unix:"

/* The credential of a namespace's relays, or NULL. */
static const struct credential *find_key(const struct credentials *credentials, struct bytes namespace_name)
{
    if (credentials == NULL)
        return NULL;
    char access_key[sizeof(RELAY_DOOR_KEY_PREFIX) + NAMESPACE_NAME_SIZE];
    int size = snprintf(access_key, sizeof(access_key), RELAY_DOOR_KEY_PREFIX "%.*s", BYTES_FORMAT(namespace_name));
    return credentials_find(credentials, bytes_make(access_key, (size_t)size));
}

/* One credential for each namespace, in the form that credentials_parse() reads. Existing ones keep their secrets,
 * because relays have them. They have the right admin, because a relay makes the queue for what it parks. */
static void write_credentials(const struct relay_door *door, struct buffer *text)
{
    for (size_t i = 0; i < front_count(door->namespaces->front); i++) {
        uint8_t random[SECRET_SIZE];
        char hex[2 * SECRET_SIZE];
        const char *name = namespaces_at(door->namespaces, i)->name_owned;
        const struct credential *known = find_key(door->credentials, bytes_from_string(name));
        random_fill(random, sizeof(random));
        bytes_to_hex(bytes_make(random, sizeof(random)), hex);
        const struct bytes secret = known != NULL ? known->secret : bytes_make(hex, sizeof(hex));
        buffer_append_format(text, RELAY_DOOR_KEY_PREFIX "%s %.*s %s read,write,admin\n", name, BYTES_FORMAT(secret),
                             name);
    }
}

void relay_door_renew(struct relay_door *door)
{
    struct credentials *credentials = NULL;
    struct failure failure;
    struct buffer text;
    failure_init(&failure);
    buffer_init(&text);
    write_credentials(door, &text);
    const enum error error = credentials_parse(buffer_bytes(&text), &credentials, &failure);
    ASSERT(error == OK); /* the text is ours */
    front_set_inner_credentials(door->namespaces->front, credentials);
    credentials_destroy(door->credentials);
    door->credentials = credentials;
    if (text.size > 0)
        explicit_bzero(text.data_owned, text.size);
    buffer_deinit(&text);
}

/* The file is named after the first namespace: its folder is locked, so no other daemon has the same one. */
static enum error name_socket(struct relay_door *door, const char *data, const char *namespace_name,
                              struct failure *failure)
{
    char file[64];
    (void)snprintf(file, sizeof(file), "relays.%s.sock", namespace_name);
    char *folder = realpath(data, NULL);
    if (folder == NULL)
        return failure_set(failure, ERROR_INTERNAL_FAILURE, "can't find the folder %s: %s.", data, strerror(errno));
    size_t size = sizeof(SCHEME) + strlen(folder) + 1 + strlen(file) + 64;
    door->endpoint_owned = memory_allocate(size);
    (void)snprintf(door->endpoint_owned, size, SCHEME "%s/%s", folder, file);
    if (strlen(door->endpoint_owned) - strlen(SCHEME) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        door->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)snprintf(door->endpoint_owned, size, SCHEME "/proc/self/fd/%d/%s", door->folder, file);
    }
    free(folder);
    return OK;
}

enum error relay_door_init(struct relay_door *door, const struct namespaces *namespaces, const char *data,
                           struct failure *failure)
{
    *door = (struct relay_door){.namespaces = namespaces, .folder = -1};
    const enum error error = name_socket(door, data, namespaces->first, failure);
    if (error == OK)
        relay_door_renew(door);
    return error;
}

void relay_door_deinit(struct relay_door *door)
{
    credentials_destroy(door->credentials);
    free(door->endpoint_owned);
    if (door->folder >= 0)
        close(door->folder);
}

bool relay_door_has_key(const struct credentials *credentials, struct bytes namespace_name)
{
    return find_key(credentials, namespace_name) != NULL;
}

static void put_text(char **text, struct bytes value)
{
    free(*text);
    *text = memory_allocate(value.size + 1);
    memcpy(*text, value.ptr, value.size);
    (*text)[value.size] = '\0';
}

bool relay_door_enter(struct relay_door *door, const char *namespace_name, struct relay_spec *spec, struct fault *fault)
{
    if (!door->is_tried) {
        door->is_tried = true;
        (void)server_open_private(door->namespaces->server, door->endpoint_owned + strlen(SCHEME), &door->failure);
    }
    if (door->failure.error != OK) {
        fault_set(fault, STEP_UNFIT,
                  "the way into this daemon for its own relays is shut: %.300s Mend that and restart.",
                  door->failure.text);
        return false;
    }
    const struct credential *credential = find_key(door->credentials, bytes_from_string(namespace_name));
    ASSERT(credential != NULL);
    put_text(&spec->endpoint_owned, bytes_from_string(door->endpoint_owned));
    put_text(&spec->endpoint_key_id_owned, credential->access_key);
    put_text(&spec->endpoint_secret_owned, credential->secret);
    return true;
}
