/* tally log move: the log of a namespace of a cluster, from one PostgreSQL to another. */
#include "postgres/log_move.h"
#include "base/assert.h"
#include "client/json.h"
#include "tally/cluster_database.h"
#include "tally/command.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LEASE_MS 30000u /* so long a connection may be silent */

struct settings {
    const char *log;
};

static const struct setting settings_table[] = {{"log", offsetof(struct settings, log)}};

static void print_json(const char *name, const char *place, const struct log_moved *moved)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *object = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, object);
    yyjson_mut_obj_add_str(doc, object, "Namespace", name);
    yyjson_mut_obj_add_str(doc, object, "MovedTo", place);
    yyjson_mut_obj_add_bool(doc, object, "WasThere", moved->was_there);
    yyjson_mut_obj_add_uint(doc, object, "Files", moved->files);
    yyjson_mut_obj_add_uint(doc, object, "Bytes", moved->bytes);
    yyjson_mut_obj_add_uint(doc, object, "ClosedMilliseconds", moved->closed_ms);
    char *text = json_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    printf("%s\n", text);
    free(text);
    yyjson_mut_doc_free(doc);
}

static void print_words(const char *name, const char *place, const struct log_moved *moved)
{
    if (moved->was_there)
        printf("%s is at %s already\n", name, place);
    else
        printf("%s is at %s now: %" PRIu64 " %s, %" PRIu64 " bytes; nobody had it for %.1f s\n", name, place,
               moved->files, moved->files == 1 ? "file" : "files", moved->bytes, (double)moved->closed_ms / 1000);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *name = invocation->arguments[0], *place = invocation->arguments[1];
    struct pg_options options;
    struct log_moved moved;
    struct failure failure;
    failure_init(&failure);
    if (!cluster_database_fill(&options, settings->log))
        return complain_usage(invocation, "say where the cluster is: --log postgres://...");
    options.log = name;
    options.lease_ms = LEASE_MS;
    const enum error error = log_move(&options, place, &moved, &failure);
    if (error != OK) {
        complain("%s", failure.text);
        return error == ERROR_SERVICE_UNAVAILABLE ? EXIT_UNREACHABLE : EXIT_REFUSED;
    }
    if (invocation->is_json)
        print_json(name, place, &moved);
    else
        print_words(name, place, &moved);
    if (!moved.is_clean)
        complain("Its files are still where it was, too, and take room there: %s", failure.text);
    return EXIT_DONE;
}

const struct command command_log_move = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
