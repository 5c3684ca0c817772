/* tally batch complete: reports that external units have ended. */
#include "base/assert.h"
#include "base/memory.h"
#include "tally/keys.h"
#include "tally/output.h"
#include <stdio.h>
#include <stdlib.h>

struct settings {
    bool is_failed;
    const char *detail;
};

static const struct setting settings_table[] = {
    {"failed", offsetof(struct settings, is_failed)},
    {"detail", offsetof(struct settings, detail)},
};

static void print_json(const struct tally_unit_end *ends, size_t count, const bool *recorded,
                       const struct tally_completed *completed)
{
    struct json_body answer;
    yyjson_mut_val *results;
    json_body_init(&answer);
    results = json_add_array(&answer, answer.root, "Results");
    for (size_t i = 0; i < count; i++) {
        yyjson_mut_val *result = json_append_object(&answer, results);
        json_add_text(&answer, result, "Unit", ends[i].key);
        yyjson_mut_obj_add_bool(answer.doc_owned, result, "Recorded", recorded[i]);
    }
    json_add_number(&answer, answer.root, "Remaining", completed->remaining);
    yyjson_mut_obj_add_bool(answer.doc_owned, answer.root, "Completed", completed->is_completed);
    output_document(answer.doc_owned);
    yyjson_mut_doc_free(answer.doc_owned);
}

static void print_text(const struct tally_unit_end *ends, size_t count, const bool *recorded,
                       const struct tally_completed *completed)
{
    size_t recorded_count = 0;
    for (size_t i = 0; i < count; i++)
        if (recorded[i])
            recorded_count++;
        else
            printf("%s had ended before\n", ends[i].key);
    printf("recorded %zu, remaining %llu%s\n", recorded_count, (unsigned long long)completed->remaining,
           completed->is_completed ? ", the batch is complete" : "");
}

static int complete(struct invocation *invocation, const struct keys *keys)
{
    const struct settings *settings = invocation->settings;
    struct tally_unit_end *ends = memory_allocate_zeroed(keys->count * sizeof *ends);
    bool *recorded = memory_allocate_zeroed(keys->count * sizeof *recorded);
    struct tally_completed completed;
    int status = invocation_connect(invocation);

    for (size_t i = 0; i < keys->count; i++)
        ends[i] = (struct tally_unit_end){
            .key = keys->items[i], .is_failed = settings->is_failed, .detail = settings->detail};
    if (status != EXIT_DONE)
        goto out;
    if (tally_batch_complete(invocation->client, invocation->arguments[0], ends, keys->count, recorded, &completed) !=
        TALLY_OK)
        status = invocation_failed(invocation, invocation->client);
    else if (invocation->is_json)
        print_json(ends, keys->count, recorded, &completed);
    else
        print_text(ends, keys->count, recorded, &completed);
out:
    free(recorded);
    free(ends);
    return status;
}

static int run(struct invocation *invocation)
{
    struct keys keys;
    int status = keys_init(&keys, invocation, 1);
    if (status == EXIT_DONE && keys.count == 0) {
        complain("standard input has no keys: nothing was done");
        status = EXIT_USAGE;
    }
    if (status == EXIT_DONE)
        status = complete(invocation, &keys);
    keys_deinit(&keys);
    return status;
}

const struct command command_batch_complete = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
