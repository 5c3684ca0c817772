/* A fake of what runs relays: it says what a test wants, and notes what it is asked. */
#ifndef TALLY_TESTS_UNIT_RELAY_RUNNER_H
#define TALLY_TESTS_UNIT_RELAY_RUNNER_H

#include "sqs.h"

#include <stdlib.h>

struct runner {
    struct relay_control control;
    const char *refused_check, *refused_admit, *refused_run; /* the reason; NULL: it agrees */
    unsigned changes;
    struct relay_report report;
    struct relay_parked_row rows[3];
    uint64_t resolved_id;
    unsigned resolved_count;
    bool is_to_be_sent;
};

static inline bool runner_answer_with(const char *refused, char reason[RELAY_REASON_SIZE])
{
    snprintf(reason, RELAY_REASON_SIZE, "%s", refused == NULL ? "" : refused);
    return refused == NULL;
}

static inline bool runner_check(void *context, yyjson_val *source, yyjson_val *sink, const char *order,
                                char reason[RELAY_REASON_SIZE])
{
    assert_true(yyjson_is_obj(source) && yyjson_is_obj(sink));
    assert_true(strcmp(order, "group") == 0 || strcmp(order, "strict") == 0);
    return runner_answer_with(((struct runner *)context)->refused_check, reason);
}

static inline bool runner_admit(void *context, yyjson_val *source, yyjson_val *sink, const char *order,
                                char reason[RELAY_REASON_SIZE])
{
    (void)source;
    (void)sink;
    (void)order;
    return runner_answer_with(((struct runner *)context)->refused_admit, reason);
}

static inline void runner_note_change(void *context)
{
    ((struct runner *)context)->changes++;
}

static inline bool runner_can_run(void *context, struct bytes namespace_name, const struct relay_record *record,
                                  char reason[RELAY_REASON_SIZE])
{
    (void)namespace_name;
    (void)record;
    return runner_answer_with(((struct runner *)context)->refused_run, reason);
}

static inline struct bytes runner_show_connection(void *context, struct bytes connection, struct arena *arena)
{
    (void)context;
    return arena_format(arena, "%zu bytes", connection.size);
}

static inline void runner_report(void *context, struct bytes namespace_name, const struct relay_record *record,
                                 struct relay_report *report)
{
    assert_true(namespace_name.size == 12 && record != NULL);
    *report = ((struct runner *)context)->report;
}

static inline void runner_list_parked(void *context, struct bytes namespace_name, const struct relay_record *record,
                                      struct arena *arena, struct relay_parked_row **doubts, size_t *count)
{
    (void)namespace_name;
    (void)record;
    (void)arena;
    *doubts = ((struct runner *)context)->rows;
    *count = 3;
}

static inline void runner_resolve(void *context, struct bytes namespace_name, const struct relay_record *record,
                                  const struct relay_parked_row *doubt, bool is_to_be_sent)
{
    (void)namespace_name;
    (void)record;
    struct runner *runner = context;
    runner->resolved_id = doubt->id;
    runner->is_to_be_sent = is_to_be_sent;
    runner->resolved_count++;
}

static inline void runner_init(struct runner *runner)
{
    *runner = (struct runner){
        .control = {.context = runner,
                    .check = runner_check,
                    .admit = runner_admit,
                    .note_change = runner_note_change,
                    .can_run = runner_can_run,
                    .show_connection = runner_show_connection,
                    .report = runner_report,
                    .list_parked = runner_list_parked,
                    .resolve = runner_resolve},
        .report = {.state = "active"},
        .rows = {{.id = 0,
                  .uid = "00000000-0000-0000-0000-00000000000a",
                  .queue = BYTES("jobs"),
                  .group = BYTES("g"),
                  .error = BYTES("timeout"),
                  .is_in_doubt = true,
                  .since_ms = 1700000000123},
                 {.id = 8, .uid = "00000000-0000-0000-0000-00000000000b", .error = BYTES("refused"), .since_ms = 5000},
                 {.id = 9, .uid = "00000000-0000-0000-0000-00000000000c", .error = BYTES("refused"), .since_ms = 5001}},
    };
}

#endif
