/* The entrance for the daemon's own relays: a Unix socket in the data folder that only this user may use. Each
 * namespace has a credential for it, which lives as long as the process and is never shown. So a relay makes requests
 * like any other client, whether or not credentials or other listeners are configured. */
#ifndef TALLY_TALLYD_RELAY_DOOR_H
#define TALLY_TALLYD_RELAY_DOOR_H

#include "relay/spec.h"
#include "tallyd/namespaces.h"

/* Access keys of relays begin with this; they are the SenderId of a relay's messages. */
#define RELAY_DOOR_KEY_PREFIX "tally-relays-"

struct relay_door {
    const struct namespaces *namespaces;
    char *endpoint_owned; /* as libtally takes it: "unix:" and the path */
    int folder;           /* a descriptor of the folder if its name is too long for a socket's path; else -1 */
    bool is_tried;
    struct failure failure; /* why it can't be opened */
    struct credentials *credentials;
};

/* Makes credentials that the front knows from now on. The socket's file will be in `data`, which exists.
 * ERROR_INTERNAL_FAILURE: the system does not know the folder. */
enum error relay_door_init(struct relay_door *door, const struct namespaces *namespaces, const char *data,
                           struct failure *failure);

/* Makes credentials for namespaces that were added later. */
void relay_door_renew(struct relay_door *door);

/* Is the access key of the namespace's relays already used by somebody else? */
bool relay_door_has_key(const struct credentials *credentials, struct bytes namespace_name);

/* Call it when the server no longer runs. */
void relay_door_deinit(struct relay_door *door);

/* Makes the spec lead to the daemon itself, as that namespace. The first call makes the socket. False: `fault` says why
 * not. */
bool relay_door_enter(struct relay_door *door, const char *namespace_name, struct relay_spec *spec,
                      struct fault *fault);

#endif
