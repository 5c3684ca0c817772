#include "tallyd/restore.h"

#include "backup/files.h"
#include "backup/manifest.h"
#include "base/memory.h"
#include "engine/restore.h"
#include "log/disk_merge.h"
#include "tallyd/folders.h"
#include "tallyd/inspect.h"
#include "tallyd/upgrade.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* --- times -------------------------------------------------------------------------------------------------------- */

/* So many digits at the front of *text as a number between the two; takes them off. */
static bool take_number(const char **text, unsigned digits, int least, int most, int *number)
{
    *number = 0;
    for (unsigned i = 0; i < digits; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        *number = *number * 10 + (**text - '0');
    }
    return *number >= least && *number <= most;
}

static bool take_character(const char **text, const char *wanted)
{
    if (**text == '\0' || strchr(wanted, **text) == NULL)
        return false;
    (*text)++;
    return true;
}

/* ".123": at least one digit, of which three count. */
static bool take_fraction(const char **text, int *ms)
{
    int weight = 100;
    *ms = 0;
    if (**text != '.')
        return true;
    (*text)++;
    if (**text < '0' || **text > '9')
        return false;
    for (; **text >= '0' && **text <= '9'; (*text)++, weight /= 10)
        *ms += (**text - '0') * weight;
    return true;
}

/* "Z" or "+02:00": minutes east of UTC. */
static bool take_offset(const char **text, int *minutes)
{
    const int sign = **text == '-' ? -1 : 1;
    int hours, rest;
    *minutes = 0;
    if (take_character(text, "Zz"))
        return true;
    if (!take_character(text, "+-") || !take_number(text, 2, 0, 23, &hours) || !take_character(text, ":") ||
        !take_number(text, 2, 0, 59, &rest))
        return false;
    *minutes = sign * (hours * 60 + rest);
    return true;
}

/* RFC 3339; seconds may be missing. */
static bool parse_time(const char *text, uint64_t *time_ms)
{
    struct tm parts = {0};
    int ms = 0, minutes;
    if (!take_number(&text, 4, 1970, 9999, &parts.tm_year) || !take_character(&text, "-") ||
        !take_number(&text, 2, 1, 12, &parts.tm_mon) || !take_character(&text, "-") ||
        !take_number(&text, 2, 1, 31, &parts.tm_mday) || !take_character(&text, "Tt ") ||
        !take_number(&text, 2, 0, 23, &parts.tm_hour) || !take_character(&text, ":") ||
        !take_number(&text, 2, 0, 59, &parts.tm_min))
        return false;
    if (take_character(&text, ":") && (!take_number(&text, 2, 0, 60, &parts.tm_sec) || !take_fraction(&text, &ms)))
        return false;
    if (!take_offset(&text, &minutes) || *text != '\0')
        return false;
    const int day = parts.tm_mday;
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    const time_t seconds = timegm(&parts);
    if (parts.tm_mday != day || (int64_t)seconds < (int64_t)minutes * 60)
        return false; /* the 31st of a month that has 30 days */
    *time_ms = (uint64_t)(seconds - (time_t)minutes * 60) * 1000 + (uint64_t)ms;
    return true;
}

/* --- one namespace ------------------------------------------------------------------------------------------------ */

struct restoring {
    const char *folder;
    const char *archive; /* NULL: none */
    const char *to;
    uint64_t until_ms;        /* UINT64_MAX: all of it */
    uint64_t instant_ms;      /* of the backup; UINT64_MAX: it is a data folder */
    struct manifest manifest; /* of the backup; without namespaces: it is a data folder */
    uint64_t now_ms;
    struct restore_result sum;
    size_t count; /* namespaces restored so far */
    int damage;   /* what is wrong with the new ones */
};

static int status_of(const struct failure *failure)
{
    (void)folders_complain("%s", failure->text);
    return failure->error == ERROR_LOG_DAMAGED ? STATUS_DAMAGED : STATUS_FAILED;
}

static void say_restored(const struct target *target, const struct restore_end *end)
{
    char text[RESTORE_TIME_SIZE];
    restore_write_time(end->time_ms, text);
    printf("%s: as it was at %s: %" PRIu64 " queues, %" PRIu64 " messages\n", target->name, text, end->queues,
           end->messages);
}

static int write_namespace(struct restoring *restoring, const struct target *target, struct disk *from,
                           const struct restore_end *end)
{
    struct new_folder folder;
    struct restore_result result;
    struct failure failure;
    failure_init(&failure);
    folders_name_new(&folder, restoring->to, target);
    struct disk *disk = disk_posix_create(folder.unfinished);
    const enum error error = restore_write(from, disk, end, restoring->now_ms, &result, &failure);
    disk_posix_destroy(disk);
    if (error != OK)
        return status_of(&failure);
    restoring->sum.relays += result.relays;
    restoring->sum.publishers += result.publishers;
    restoring->count++;
    say_restored(target, end);
    /* A backup has checksums of its files. Of an archive nobody has read yet what stands before its snapshot. */
    if (restoring->archive != NULL)
        restoring->damage = folders_worse(restoring->damage, inspect_verify_new(target, folder.unfinished));
    return folders_sync(folder.unfinished);
}

/* A backup lacks what came after its instant, and the archive may not have gone on from there. */
static int refuse_late(const struct target *target, const struct restore_end *end)
{
    char text[RESTORE_TIME_SIZE];
    restore_write_time(end->time_ms, text);
    return folders_complain(
        "%s: what is here of its log ends at %s, and it went on after that. Take a newer backup, or "
        "the stopped data folder, or give --until the time of this backup.",
        target->path, text);
}

/* Is less of the log there than the backup was made of? A lost end has right checksums, if it was lost before. */
static bool is_cut(const struct restoring *restoring, const struct target *target, const struct restore_end *end)
{
    const struct backup_namespace *ns = manifest_find(&restoring->manifest, target->name);
    return ns != NULL && end->is_log_end && end->position < ns->position;
}

static int refuse_cut(const struct target *target, const struct restore_end *end)
{
    char text[RESTORE_TIME_SIZE];
    restore_write_time(end->time_ms, text);
    (void)folders_complain("%s: the log ends at %s, and the manifest says that it goes on: what came last is lost. "
                           "Take another backup. Without one, tallyd --salvage saves what can be read.",
                           target->path, text);
    return STATUS_DAMAGED;
}

static int restore_found(struct restoring *restoring, const struct target *target, struct disk *from,
                         const struct restore_end *end)
{
    if (is_cut(restoring, target, end))
        return refuse_cut(target, end);
    if (restoring->archive != NULL && end->is_log_end && restoring->until_ms > restoring->instant_ms)
        return refuse_late(target, end);
    if (end->position != 0)
        return write_namespace(restoring, target, from, end);
    printf("%s: there was no such namespace at that time\n", target->name);
    return STATUS_CLEAN;
}

static int restore_namespace(struct restoring *restoring, const struct target *target)
{
    struct restore_end end;
    struct failure failure;
    failure_init(&failure);
    struct disk *from = disk_posix_create_to_read(target->path);
    enum error error = from->operations->lock(from, &failure);
    if (error == OK)
        error = restore_find_end(from, restoring->until_ms, &end, &failure);
    const int status = error != OK ? status_of(&failure) : restore_found(restoring, target, from, &end);
    disk_posix_destroy(from);
    return status;
}

/* The folder, if it is there. */
static struct disk *open_to_read(const char *path)
{
    struct stat status;
    return stat(path, &status) != 0 && errno == ENOENT ? NULL : disk_posix_create_to_read(path);
}

/* Both are read as one log, and what is damaged is named as if it were in the first. */
static void say_archive(const struct target *target, const char *archive)
{
    (void)folders_complain("what is not in %s is in %s: look for the file there, too. If two data folders had this "
                           "archive, files of the other one are among those of this log: take them away.",
                           target->path, archive);
}

static int restore_archived(struct restoring *restoring, const struct target *target)
{
    struct restore_end end = {0};
    struct failure failure;
    failure_init(&failure);
    char *archive = files_join(restoring->archive, folders_name(target), "");
    struct disk *newer = open_to_read(target->path), *older = open_to_read(archive);
    int status = STATUS_CLEAN;
    if (newer == NULL && older == NULL) {
        status = folders_complain("%s is gone.", target->path);
    } else {
        struct disk *merge = disk_merge_create(newer, older);
        enum error error = disk_merge_begin(merge, &failure);
        if (error == OK)
            error = restore_find_end_archived(merge, restoring->until_ms, &end, &failure);
        status = error != OK ? status_of(&failure) : restore_found(restoring, target, merge, &end);
        if (error == ERROR_LOG_DAMAGED && !end.is_missing)
            say_archive(target, archive);
        disk_merge_destroy(merge);
    }
    if (newer != NULL)
        disk_posix_destroy(newer);
    if (older != NULL)
        disk_posix_destroy(older);
    free(archive);
    return status;
}

/* All or none: tallyd would make an empty namespace for a missing folder. */
static int finish_namespace(const struct restoring *restoring, const struct target *target)
{
    struct new_folder folder;
    struct stat status;
    folders_name_new(&folder, restoring->to, target);
    return stat(folder.unfinished, &status) != 0 && errno == ENOENT ? STATUS_CLEAN : folders_finish(&folder);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static int check_backup(struct restoring *restoring)
{
    struct manifest *manifest = &restoring->manifest;
    struct failure failure;
    failure_init(&failure);
    enum error error = manifest_read(restoring->folder, manifest, &failure);
    if (error == OK)
        error = upgrade_check_backup(manifest, restoring->folder, &failure);
    if (error != OK)
        return status_of(&failure);
    char text[RESTORE_TIME_SIZE];
    restore_write_time(manifest->instant_ms, text);
    restoring->instant_ms = manifest->instant_ms;
    if (restoring->archive == NULL && restoring->until_ms != UINT64_MAX && restoring->until_ms > manifest->instant_ms)
        return folders_complain("%s: the backup ends at %s: take a newer one, or leave out --until.", restoring->folder,
                                text);
    printf("%s: backup %s of %s, made by tallyd %s\n", restoring->folder, manifest->id, text, manifest->version);
    error = manifest_check(manifest, restoring->folder, &failure);
    return error == OK ? STATUS_CLEAN : status_of(&failure);
}

static void say_damaged(const struct restoring *restoring)
{
    printf("\nRestored to %s, but DAMAGED, as said above. Restore again with undamaged copies of these files, or type: "
           "tallyd --salvage %s --to NEW\n",
           restoring->to, restoring->to);
}

static void say_what_to_check(const struct restoring *restoring)
{
    printf(
        "\nRestored. Next: tallyd --data %s\n"
        "No number is given out twice: fencing tokens, SequenceNumbers, MessageIds, batches, tasks, tickets, matches "
        "and feeds go on far above the old ones.\n"
        "Check before you let clients in (docs/how-to/backup.md):\n"
        "  - the old server does not run any more, and nobody sends to it\n"
        "  - what came after that time is not here: messages sent later are lost, messages deleted later are back\n"
        "  - schedules that were due meanwhile fire when tallyd starts, and what is over its retention goes\n",
        restoring->to);
    if (restoring->sum.relays > 0)
        printf("  - relays are paused: %" PRIu64 ". Compare their sources, then resume each: tally relay resume NAME\n",
               restoring->sum.relays);
    if (restoring->archive != NULL)
        printf("  - the new folder needs an archive of its own: %s has the log that was left\n", restoring->archive);
    if (restoring->sum.publishers > 0)
        printf("  - publishers must open again: %" PRIu64 ". Rows that they published later are not here\n",
               restoring->sum.publishers);
}

static int restore_all(struct restoring *restoring, const struct targets *targets)
{
    int status = folders_make(restoring->to, restoring->folder);
    for (size_t i = 0; i < targets->count && status == STATUS_CLEAN; i++)
        status = restoring->archive == NULL ? restore_namespace(restoring, &targets->items_owned[i])
                                            : restore_archived(restoring, &targets->items_owned[i]);
    if (status == STATUS_CLEAN && restoring->count == 0)
        status = folders_complain("at that time there was nothing to restore.");
    for (size_t i = 0; i < targets->count && status == STATUS_CLEAN; i++)
        status = finish_namespace(restoring, &targets->items_owned[i]);
    return status == STATUS_CLEAN ? upgrade_sign_new(restoring->to) : status;
}

static int add_all(struct targets *targets, const struct manifest *manifest, const char *folder)
{
    bool has_room = true;
    for (size_t i = 0; i < manifest->namespace_count; i++)
        has_room = has_room && folders_add(targets, folder, manifest->namespaces_owned[i].name);
    return has_room ? STATUS_CLEAN : folders_complain("%s: the path is too long.", folder);
}

/* A backup, or with an archive the data folder of a tallyd that has ended. */
static int list_source(struct restoring *restoring, struct targets *targets)
{
    struct data_version version;
    struct failure failure;
    failure_init(&failure);
    int status = STATUS_CLEAN;
    if (manifest_is_in(restoring->folder)) {
        status = check_backup(restoring);
        status = status == STATUS_CLEAN ? add_all(targets, &restoring->manifest, restoring->folder) : status;
    } else if (restoring->archive == NULL) {
        status = folders_complain("%s is no backup: it has no " MANIFEST_NAME ".", restoring->folder);
    } else if (upgrade_read(restoring->folder, &version, &failure) != OK) {
        status = status_of(&failure);
    } else if (version.format > DATA_FORMAT) {
        status = folders_complain("%s was written by tallyd %s, in format %u, which this tallyd, " TALLY_VERSION
                                  ", does not read.",
                                  restoring->folder, version.tallyd, version.format);
    } else {
        status = folders_list(restoring->folder, targets);
    }
    return status;
}

/* Adds the namespaces that only the archive has. */
static int list_archive(const struct restoring *restoring, struct targets *targets)
{
    struct targets archived = {0};
    const size_t count = targets->count;
    int status = folders_list(restoring->archive, &archived);
    for (size_t i = 0; i < archived.count && status == STATUS_CLEAN; i++) {
        const char *name = archived.items_owned[i].name;
        bool is_known = false;
        for (size_t j = 0; j < count; j++)
            is_known = is_known || strcmp(targets->items_owned[j].name, name) == 0;
        if (!is_known && !folders_add(targets, restoring->folder, name))
            status = folders_complain("%s: the path is too long.", restoring->folder);
    }
    free(archived.items_owned);
    return status;
}

int restore_run(const struct restore_request *request)
{
    struct restoring restoring = {.folder = request->folder,
                                  .archive = request->archive,
                                  .to = request->to,
                                  .until_ms = UINT64_MAX,
                                  .instant_ms = UINT64_MAX};
    struct targets targets = {0};
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    restoring.now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (request->until != NULL && !parse_time(request->until, &restoring.until_ms))
        return folders_complain("--until is \"%s\": it must be a time as 2026-11-30T03:10:00Z.", request->until);
    int status = upgrade_check(request->folder);
    if (status == STATUS_CLEAN)
        status = list_source(&restoring, &targets);
    if (status == STATUS_CLEAN && restoring.archive != NULL)
        status = list_archive(&restoring, &targets);
    if (status == STATUS_CLEAN && restoring.archive != NULL && folders_lies_inside(restoring.to, restoring.archive))
        status = folders_complain("%s lies in %s, which is only read: --to names a folder elsewhere.", restoring.to,
                                  restoring.archive);
    if (status == STATUS_CLEAN)
        status = restore_all(&restoring, &targets);
    if (status == STATUS_CLEAN && restoring.damage != STATUS_CLEAN)
        say_damaged(&restoring);
    else if (status == STATUS_CLEAN)
        say_what_to_check(&restoring);
    status = folders_worse(status, restoring.damage);
    free(targets.items_owned);
    manifest_deinit(&restoring.manifest);
    fflush(stdout);
    return status;
}
