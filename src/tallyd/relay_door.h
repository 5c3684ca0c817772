/* The way in for the daemon's own relays: a Unix socket in the data folder that only this user may use, and for each
 * namespace a credential that lives as long as the process and that nothing ever shows. With it a relay asks like any
 * other client, whether credentials are configured or not, and whatever other ways in there are. */
#ifndef TALLY_TALLYD_RELAY_DOOR_H
#define TALLY_TALLYD_RELAY_DOOR_H

#include "relay/spec.h"
#include "tallyd/namespaces.h"

/* Access keys of relays begin like this; they are the SenderId of what relays send. */
#define RELAY_DOOR_KEY_PREFIX "tally-relays-"

struct relay_door {
    const struct namespaces *namespaces;
    char *endpoint_owned; /* as libtally takes it: "unix:" and the path */
    int folder;           /* a descriptor of the folder, where its name is too long for a socket's path; else -1 */
    bool is_tried;
    struct failure failure; /* why it can't be opened */
    struct credentials *credentials;
};

/* Makes credentials that the front knows from now on; the socket's file is to stand in `data`, which exists.
 * ERROR_INTERNAL_FAILURE: the system gave no random bytes, or does not know the folder. */
enum error relay_door_init(struct relay_door *door, const struct namespaces *namespaces, const char *data,
                           struct failure *failure);

/* Makes credentials for namespaces that have come since. ERROR_INTERNAL_FAILURE: the system gave no random bytes. */
enum error relay_door_renew(struct relay_door *door, struct failure *failure);

/* Has somebody else the access key that relays of the namespace have? */
bool relay_door_has_key(const struct credentials *credentials, struct bytes namespace_name);

/* The server must not run any more. */
void relay_door_deinit(struct relay_door *door);

/* Has the spec lead to the daemon itself, as that namespace; the first time this makes the socket. False: `fault` says
 * why not. */
bool relay_door_enter(struct relay_door *door, const char *namespace_name, struct relay_spec *spec,
                      struct fault *fault);

#endif
