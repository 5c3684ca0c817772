/* tally log copy: logs from a data folder into PostgreSQL, or back. */
#include "base/assert.h"
#include "base/memory.h"
#include "conninfo/conninfo.h"
#include "log/disk_copy.h"
#include "postgres/disk_postgres.h"
#include "postgres/logs.h"
#include "tally/command.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_SIZE 13u /* 12 digits: a namespace */
#define LEASE_MS 30000u

struct settings {
    const char *cache;
};

static const struct setting settings_table[] = {
    {"cache", offsetof(struct settings, cache)},
};

struct names {
    char (*owned)[NAME_SIZE];
    size_t count;
    size_t capacity;
};

static void add_name(struct names *names, const char *name)
{
    if (strlen(name) != NAME_SIZE - 1 || strspn(name, "0123456789") != NAME_SIZE - 1)
        return;
    ARRAY_GROW(names->owned, names->count, names->capacity);
    (void)snprintf(names->owned[names->count++], NAME_SIZE, "%s", name);
}

static void on_log(void *context, const struct pg_log_facts *facts)
{
    if (facts->moved_to[0] == '\0')
        add_name(context, facts->name);
    else
        printf("%s: is at %s; copy it from there\n", facts->name, facts->moved_to);
}

/* The namespaces that a data folder or a database has. */
static enum error list_names(const char *place, struct names *names, struct failure *failure)
{
    if (conninfo_is_uri(place)) {
        const struct pg_options options = {.conninfo = place, .log = "", .node = ""};
        return pg_logs_visit(&options, on_log, names, failure);
    }
    DIR *folder = opendir(place);
    if (folder == NULL)
        return failure_set(failure, ERROR_DISK_FAILED, "%s can't be read: is it a data folder of tallyd?", place);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        add_name(names, entry->d_name);
    (void)closedir(folder);
    return OK;
}

/* One side of a copy. */
struct side {
    struct pg_options options;
    char folder[PATH_MAX];
    struct disk *disk;
};

static void open_side(struct side *side, const char *place, const char *cache, const char *name)
{
    const bool is_remote = conninfo_is_uri(place);
    (void)snprintf(side->folder, sizeof(side->folder), "%s/%s", is_remote ? cache : place, name);
    side->options = (struct pg_options){
        .conninfo = place, .log = name, .node = "tally log copy", .lease_ms = LEASE_MS, .claims = true};
    side->disk = is_remote ? disk_postgres_create(&side->options, side->folder) : disk_posix_create(side->folder);
}

static enum error copy_one(const char *from, const char *to, const char *cache, const char *name,
                           struct failure *failure)
{
    struct side source, target;
    struct disk_copied copied;
    open_side(&source, from, cache, name);
    open_side(&target, to, cache, name);
    const enum error error = disk_copy(source.disk, target.disk, &copied, failure);
    target.disk->operations->destroy(target.disk);
    source.disk->operations->destroy(source.disk);
    if (error == OK)
        printf("%s: %llu files, %llu bytes\n", name, (unsigned long long)copied.files,
               (unsigned long long)copied.bytes);
    return error;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *from = invocation->arguments[0], *to = invocation->arguments[1];
    if (conninfo_is_uri(from) == conninfo_is_uri(to))
        return complain_usage(invocation, "one of FROM and TO is a data folder, the other one postgres://...");
    struct failure failure;
    failure_init(&failure);
    struct names names = {0};
    enum error error = list_names(from, &names, &failure);
    if (error == OK && names.count == 0)
        error = failure_set(&failure, ERROR_DISK_FAILED, "%s has no logs: is it a data folder of tallyd?", from);
    for (size_t i = 0; i < names.count && error == OK; i++)
        error = copy_one(from, to, settings->cache, names.owned[i], &failure);
    free(names.owned);
    if (error == OK)
        return EXIT_DONE;
    complain("%s", failure.text);
    return EXIT_LOCAL;
}

const struct command command_log_copy = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
