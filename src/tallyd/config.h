/* The configuration: one table of keys, each also a flag (--body-max 8MiB), a variable (TALLY_BODY_MAX) and a line of
 * the configuration file (body-max = 8MiB). A flag beats a variable, a variable the file, the file the default. */
#ifndef TALLY_TALLYD_CONFIG_H
#define TALLY_TALLYD_CONFIG_H

#include "base/buffer.h"
#include "base/error.h"
#include "tallyd/config_value.h"

#include <stdio.h>

/* X(KEY, name, kind, default, least, most, SIGHUP, help); least and most are bytes, milliseconds or counts. */
#define CONFIG_KEYS(X)                                                                                                 \
    X(LISTEN, "listen", TEXT, "127.0.0.1:9324", 0, 0, RESTART,                                                         \
      "Address and port to serve over plain HTTP; port 0 picks a free one; off: none.")                                \
    X(TLS_LISTEN, "tls-listen", TEXT, "", 0, 0, RESTART, "Address and port to serve over HTTPS; empty: none.")         \
    X(TLS_CERTIFICATE, "tls-certificate", TEXT, "", 0, 0, CONTENTS,                                                    \
      "PEM file: the certificate, then those that vouch for it.")                                                      \
    X(TLS_KEY, "tls-key", TEXT, "", 0, 0, CONTENTS, "PEM file: its private key; empty: it stands in tls-certificate.") \
    X(SOCKET, "socket", TEXT, "", 0, 0, RESTART, "Path of a Unix socket to serve HTTP on; empty: none.")               \
    X(CREDENTIALS, "credentials", TEXT, "", 0, 0, CONTENTS,                                                            \
      "File of access keys, secrets and rights; empty: open to all, on loopback only.")                                \
    X(INSECURE_ANY_ADDRESS, "insecure-any-address", SWITCH, "off", 0, 1, RESTART,                                      \
      "Serve any address without credentials: whoever reaches it may do everything. For a container whose port is "    \
      "published to this machine only.")                                                                               \
    X(DATA, "data", TEXT, "tally-data", 0, 0, RESTART, "Folder of everything that is kept; made when it is missing.")  \
    X(TEMPORARY_DATA, "temporary-data", SWITCH, "off", 0, 1, RESTART,                                                  \
      "For tests: keep everything in a new folder under TMPDIR, and remove it at the end. Without data.")              \
    X(EXIT_WITH_STDIN, "exit-with-stdin", SWITCH, "off", 0, 1, RESTART,                                                \
      "End, as after SIGTERM, when standard input ends: with the process that holds the other end of the pipe.")       \
    X(LOG, "log", TEXT, "file", 0, 0, RESTART,                                                                         \
      "Where the log is kept: file (in the data folder), or postgres://... (the data folder is a cache).")             \
    X(ARCHIVE, "archive", TEXT, "", 0, 0, RESTART,                                                                     \
      "Folder that keeps what the log removes, for a restore to any instant; on the disk of data. Empty: none.")       \
    X(LOG_REPLICAS, "log-replicas", COUNT, "0", 0, 100, RESTART,                                                       \
      "With 1 or more, nothing is acknowledged while PostgreSQL has no synchronous_standby_names.")                    \
    X(LEASE, "lease", TIME, "3s", 500, MINUTE, RESTART,                                                                \
      "With the log in PostgreSQL: who can't write to it for so long answers nobody, and another node takes over.")    \
    X(REST_AFTER, "rest-after", TIME, "5m", 0, DAY, RESTART,                                                           \
      "In a cluster: an empty namespace that nobody has asked for so long is closed until the next request. 0s: "      \
      "never.")                                                                                                        \
    X(NODE, "node", TEXT, "", 0, 0, RESTART,                                                                           \
      "What this node is called among those with the same log; empty: as its host.")                                   \
    X(ADVERTISE, "advertise", TEXT, "", 0, 0, RESTART,                                                                 \
      "Host and port at which the other nodes reach this one: each then answers for all. Needs cluster-secret.")       \
    X(CLUSTER_SECRET, "cluster-secret", TEXT, "", 0, 0, RESTART,                                                       \
      "File with a secret that all nodes share: 16 bytes or more.")                                                    \
    X(CLUSTER_LISTEN, "cluster-listen", TEXT, "", 0, 0, RESTART,                                                       \
      "Address and port for the other nodes, which need certificates; nobody else is answered there.")                 \
    X(CLUSTER_CERTIFICATE, "cluster-certificate", TEXT, "", 0, 0, CONTENTS,                                            \
      "PEM file: the certificate that this node shows to the others.")                                                 \
    X(CLUSTER_KEY, "cluster-key", TEXT, "", 0, 0, CONTENTS,                                                            \
      "PEM file: its private key; empty: it stands in cluster-certificate.")                                           \
    X(CLUSTER_CA, "cluster-ca", TEXT, "", 0, 0, CONTENTS,                                                              \
      "PEM file: the authority that has issued the certificates of the nodes, and of nobody else.")                    \
    X(CLUSTER_INSECURE, "cluster-insecure", SWITCH, "off", 0, 1, RESTART,                                              \
      "Nodes speak plain HTTP to each other, although advertise is no loopback address.")                              \
    X(REGION, "region", TEXT, "us-east-1", 0, 0, RESTART, "Region shown in ARNs.")                                     \
    X(PUBLIC_URL, "public-url", TEXT, "", 0, 0, RESTART,                                                               \
      "What queue URLs begin with, behind a proxy; empty: the request's scheme and Host.")                             \
    X(ALLOW_HOST, "allow-host", TEXT, "", 0, 0, RESTART,                                                               \
      "More hosts to answer to without credentials, commas between; localhost and public-url's need no entry.")        \
    X(UI, "ui", TEXT, "on", 0, 0, RELOAD,                                                                              \
      "The dashboard at /ui/: on, read-only (its buttons that change something are hidden), or off.")                  \
    X(SEGMENT_SIZE, "segment-size", SIZE, "44MiB", MIB, 4 * GIB, RESTART,                                              \
      "Size of the log's files; a folder keeps its first.")                                                            \
    X(SNAPSHOT_BYTES, "snapshot-bytes", SIZE, "64MiB", 0, 1024 * GIB, RESTART,                                         \
      "A snapshot is taken when the log has grown by so much and by snapshot-growth, or to free the disk. 0: never.")  \
    X(SNAPSHOT_GROWTH, "snapshot-growth", COUNT, "2", 0, 1000, RESTART,                                                \
      "Times the size of the newest snapshot: less makes restarts shorter, more leaves the disk to the log.")          \
    X(CONNECTIONS_MAX, "connections-max", COUNT, "10000", 1, 1000000, RELOAD,                                          \
      "Open connections; above: 503. Each takes an open file (ulimit -n).")                                            \
    X(BODY_MAX, "body-max", SIZE, "8MiB", KIB, GIB, RESTART, "Largest body of a request; above: 413.")                 \
    X(HEADER_MAX, "header-max", SIZE, "16KiB", KIB, MIB, RESTART, "Largest header of a request; above: 413.")          \
    X(IDLE_TIMEOUT, "idle-timeout", TIME, "75s", 100, DAY, RESTART,                                                    \
      "A connection without a request is closed after this.")                                                          \
    X(REQUEST_TIMEOUT, "request-timeout", TIME, "30s", 100, DAY, RESTART,                                              \
      "A request must arrive whole within this of its first byte.")                                                    \
    X(REPLY_TIMEOUT, "reply-timeout", TIME, "30s", 100, DAY, RESTART, "A client must take a reply within this.")       \
    X(STOP_TIMEOUT, "stop-timeout", TIME, "5s", 0, HOUR, RESTART, "A clean stop waits so long for replies to leave.")  \
    X(IN_FLIGHT_MAX, "in-flight-max", COUNT, "120000", 1, UINT32_MAX, RESTART,                                         \
      "Messages in flight per queue; above: OverLimit.")                                                               \
    X(MEMORY_MAX, "memory-max", MEMORY, "50%", 0, 1048576 * GIB, RELOAD,                                               \
      "Memory of all that is kept, bodies aside; above: sends get a 503. Share of the machine or cgroup; off: none.")  \
    X(DISK_MIN_FREE, "disk-min-free", MIN_FREE, "auto", 0, UINT64_MAX, RESTART,                                        \
      "Room that must stay free on the data folder's disk; below: sends get a 503. auto: 5%, at most 1GiB; off: "      \
      "none.")                                                                                                         \
    X(INPUT_MEMORY_MAX, "input-memory-max", BUDGET, "auto", MIB, 1024 * GIB, RESTART,                                  \
      "Memory of requests that have not arrived whole; above: 503. auto: 1GiB, or an eighth of the memory if less.")   \
    X(REPLY_MEMORY_MAX, "reply-memory-max", BUDGET, "auto", MIB, 1024 * GIB, RESTART,                                  \
      "Memory of replies that have not left; above: requests wait, slow readers are cut off. auto: the same.")         \
    X(METRICS_QUEUES, "metrics-queues", TEXT, "", 0, 0, RELOAD,                                                        \
      "Patterns of queues with figures of their own in /metrics, commas between; empty: all while there are 1,000.")   \
    X(METRICS_ACCESS, "metrics-access", TEXT, "open", 0, 0, RELOAD,                                                    \
      "Who may read /metrics, which is not signed: open (whoever reaches the server), or loopback (this machine).")    \
    X(UI_HISTORY, "ui-history", SWITCH, "on", 0, 1, RESTART,                                                           \
      "Keep figures of the last hour and day for charts (GetSeries): up to 80 KiB for each of 257 series.")            \
    X(LOG_FORMAT, "log-format", TEXT, "plain", 0, 0, RELOAD,                                                           \
      "How the daemon's own lines look: plain, text (with time and level), or json.")                                  \
    X(SLOW_REQUEST, "slow-request", TIME, "200ms", 0, HOUR, RELOAD,                                                    \
      "A request that takes the server so long is told on standard error and in DescribeServer. 0s: none is.")         \
    X(PURGE_INTERVAL, "purge-interval", SWITCH, "off", 0, 1, RELOAD,                                                   \
      "Refuse a second PurgeQueue within 60 s, as AWS does.")                                                          \
    X(DELETE_INTERVAL, "delete-interval", SWITCH, "off", 0, 1, RELOAD,                                                 \
      "Refuse to create a queue within 60 s of deleting it, as AWS does.")

enum config_key {
#define CONFIG_ENUM(key, name, kind, standard, least, most, hup, help) CONFIG_##key,
    CONFIG_KEYS(CONFIG_ENUM)
#undef CONFIG_ENUM
        CONFIG_KEY_COUNT
};

/* What SIGHUP does for a key: the documents say so, and reload.c does it. */
enum config_hup {
    CONFIG_RELOAD,   /* another value takes effect */
    CONFIG_CONTENTS, /* the file that it names is read again; another file needs a restart */
    CONFIG_RESTART,  /* nothing */
};

struct config_row {
    const char *name;
    enum config_kind kind;
    const char *standard;
    uint64_t least;
    uint64_t most;
    enum config_hup hup;
    const char *help;
};

enum config_source { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_VARIABLE, CONFIG_FLAG };

struct config_value {
    char *text_owned; /* as it was given */
    uint64_t number;  /* bytes, milliseconds, a count, or 0 and 1; 0 for text */
    enum config_source source;
    int line; /* of the file */
};

struct config {
    struct config_value values[CONFIG_KEY_COUNT];
    char *file_owned;    /* NULL: none; likewise the next */
    char *verify_owned;  /* the folder to inspect instead of serving; empty: the logs that --log names */
    char *salvage_owned; /* the damaged folder whose readable contents go into the next */
    char *restore_owned; /* the backup of which the next becomes a data folder */
    char *to_owned;
    char *manual_owned; /* a folder for the manual pages, which the build makes */
    char *until_owned;  /* for the backup: a time; NULL: all of it */
    bool wants_help;
    bool wants_init; /* to make the tables of a log in PostgreSQL, instead of serving */
    bool wants_version;
    bool wants_print;
    bool wants_check;           /* to say all that is wrong, instead of serving */
    struct buffer faults;       /* that, a line each */
    const char *temporary_data; /* the folder of temporary-data, borrowed; NULL: there is none, or not yet */
};

/* Reads flags, variables and the file. On error `failure` names the key, where it was set, and what it should be. With
 * --check-config what is wrong is noted, and not an error. */
enum error config_load(struct config *config, int argc, char **argv, struct failure *failure);
void config_deinit(struct config *config);

/* The archive that --restore reads, too: that of the flag. The server's own, as the file names it, does not count: a
 * backup alone is one instant. NULL: none. */
const char *config_restore_archive(const struct config *config);

/* With --check-config, adds what is wrong to the faults, and clears it. False: this is another call, which it ends. */
bool config_note(struct config *config, struct failure *failure);

const char *config_text(const struct config *config, enum config_key key);

/* Where everything is kept: `data`, or the temporary folder once there is one. */
const char *config_data(const struct config *config);

uint64_t config_number(const struct config *config, enum config_key key);

const struct config_row *config_row(enum config_key key);
const char *config_name(enum config_key key);
bool config_is_default(const struct config *config, enum config_key key);

/* Gives the key the value that it has in `newer`. Returns the text that it had, for the caller to free: others may
 * still borrow it. */
char *config_take(struct config *config, enum config_key key, const struct config *newer);

/* Its variable: "TALLY_BODY_MAX". */
#define CONFIG_VARIABLE_SIZE 64
void config_variable(enum config_key key, char text[CONFIG_VARIABLE_SIZE]);

/* Appends the value as it was given, without what is secret in it. For all who may ask how the server is. */
void config_show(const struct config *config, enum config_key key, struct buffer *text);

/* "listen (from --listen)", "listen (from FILE:3)": how messages name a key. */
void config_describe(const struct config *config, enum config_key key, char *text, size_t size);

/* The configuration in force, in the form of the file, with the source of each value. */
void config_print(const struct config *config, FILE *stream);

#endif
