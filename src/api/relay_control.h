/* Who runs relays: the api's interface to it. The api keeps the settings of relays. It does not know how they work.
 *
 * One thread, the loop's; nothing here blocks. */
#ifndef TALLY_API_RELAY_CONTROL_H
#define TALLY_API_RELAY_CONTROL_H

#include "base/arena.h"
#include "core/publishers/relay_record.h"

#include <yyjson.h>

#define RELAY_REASON_SIZE 512u
#define RELAY_UID_TEXT_SIZE 37u /* 8-4-4-4-12, with a NUL */

/* The state of a relay. Times are of the wall clock, in milliseconds since 1970. */
struct relay_report {
    const char *state; /* static: "starting", "standby", "active", "paused", "blocked", "failed" or "stopped" */
    uint64_t since_ms;
    uint64_t epoch;    /* 0: it does not own its source */
    uint64_t position; /* the highest id that is done */
    uint64_t lag_rows;
    uint64_t lag_s;          /* the age of the oldest waiting row */
    uint64_t parked_count;   /* rows that are parked now, including those in doubt */
    uint64_t in_doubt_count; /* of those that a list shows */
    uint64_t delivered;      /* this and the following: since the relay was started here */
    uint64_t duplicates;
    uint64_t retries;
    uint64_t parked;
    uint64_t takeovers;
    char last_error[RELAY_REASON_SIZE]; /* "": there was none */
    uint64_t last_error_ms;
    char warning[RELAY_REASON_SIZE]; /* "": none */
};

/* A parked row. */
struct relay_parked_row {
    uint64_t id;
    char uid[RELAY_UID_TEXT_SIZE];
    struct bytes queue; /* empty: none is named */
    struct bytes group; /* the same */
    struct bytes error;
    bool is_in_doubt; /* it may have been delivered */
    uint64_t since_ms;
};

struct relay_control {
    void *context;

    /* Can a relay do this? False: `reason` names the wrong member, its value and the allowed values, and no secret. */
    bool (*check)(void *context, yyjson_val *source, yyjson_val *sink, const char *order,
                  char reason[RELAY_REASON_SIZE]);

    /* Can a relay that passed check() be started beside the running ones? False: `reason` says what is missing and what
     * to do. True: its place is reserved until it is started, which is after this turn of the loop. */
    bool (*admit)(void *context, yyjson_val *source, yyjson_val *sink, const char *order,
                  char reason[RELAY_REASON_SIZE]);

    /* The records of a namespace have changed. */
    void (*note_change)(void *context);

    /* Does it run, or could it now? False: something was missing when it should start, and it waits; `reason` as
     * above. */
    bool (*can_run)(void *context, struct bytes namespace_name, const struct relay_record *record,
                    char reason[RELAY_REASON_SIZE]);

    /* The form of a PostgreSQL connection that may be shown, without its secrets, in the arena. */
    struct bytes (*show_connection)(void *context, struct bytes connection, struct arena *arena);

    /* `namespace_name` and the record say which relay. */
    void (*report)(void *context, struct bytes namespace_name, const struct relay_record *record,
                   struct relay_report *report);

    /* Its parked rows, the oldest first, as known a moment ago; all in the arena. */
    void (*list_parked)(void *context, struct bytes namespace_name, const struct relay_record *record,
                        struct arena *arena, struct relay_parked_row **doubts, size_t *count);

    /* Asks the relay to send or drop one of them. It does so soon. */
    void (*resolve)(void *context, struct bytes namespace_name, const struct relay_record *record,
                    const struct relay_parked_row *doubt, bool is_to_be_sent);
};

#endif
