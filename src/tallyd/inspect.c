#include "tallyd/inspect.h"

#include "backup/files.h"
#include "backup/manifest.h"
#include "base/memory.h"
#include "engine/namespace.h"
#include "log/disk_view.h"
#include "platform/random.h"
#include "postgres/logs.h"
#include "tallyd/config_value.h"
#include "tallyd/folders.h"
#include "tallyd/inspect_report.h"
#include "tallyd/upgrade.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The options for recovering a view of a folder; sizes are the folder's own. */
#define SEGMENT_SIZE_ANY (44 * MIB)
#define FRAME_SIZE_ANY (SEGMENT_SIZE_ANY / 2 - 4096)

/* --- one namespace ------------------------------------------------------------------------------------------------ */

static enum error read_target(const struct target *target, struct disk *disk, struct inspect_report *report,
                              struct salvage **salvage, struct failure *failure)
{
    struct salvage_options options = {.name = folders_name(target),
                                      .segment_size = SEGMENT_SIZE_ANY,
                                      .report = inspect_report_note,
                                      .context = report};
    random_fill(options.key, sizeof(options.key));
    return salvage_read(disk, &options, salvage, failure);
}

/* Would a tallyd start on it? This is the same recovery, on a view that swallows every change. */
static bool would_start(struct disk *disk, struct failure *failure)
{
    const struct namespace_options options = {
        .name = NAME_UNKNOWN, .segment_size = SEGMENT_SIZE_ANY, .frame_size_max = FRAME_SIZE_ANY, .in_flight_max = 1};
    struct disk *view = disk_view_create(disk);
    struct namespace *ns;
    const bool is_recovered = namespace_recover(view, &options, &ns, failure) == OK;
    if (is_recovered)
        namespace_close(ns);
    disk_view_destroy(view);
    return is_recovered;
}

/* `place` is what people call it. `promised` is the sequence of the newest frame, if a manifest says it; else 0. */
static int verify_one(const struct target *target, const char *place, uint64_t promised)
{
    struct inspect_report report = {.folder = place};
    struct salvage *salvage;
    struct failure failure;
    failure_init(&failure);
    struct disk *disk = disk_posix_create_to_read(target->path);
    int status = STATUS_CLEAN;
    if (read_target(target, disk, &report, &salvage, &failure) != OK) {
        status = failure.error == ERROR_LOG_DAMAGED ? STATUS_DAMAGED : STATUS_FAILED;
        printf("%s: can't be read: %s\n", place, failure.text);
    } else {
        struct salvage_facts facts = salvage_facts(salvage);
        const bool starts = would_start(disk, &failure);
        const bool is_cut = facts.newest < promised;
        const bool is_clean = starts && !is_cut && !facts.has_loss && facts.notes[SALVAGE_DAMAGE] == 0;
        inspect_report_end(&report, salvage, is_clean ? "clean." : "DAMAGED. What can be read:");
        if (is_cut)
            printf("  lost: frames %" PRIu64 " to %" PRIu64 ": the manifest says that the log goes on to there.\n",
                   facts.newest + 1, promised);
        if (!is_clean && starts)
            printf("  tallyd starts on it.\n");
        if (!starts)
            printf("  tallyd does not start on it: %s\n", failure.text);
        status = is_clean ? STATUS_CLEAN : STATUS_DAMAGED;
        salvage_destroy(salvage);
    }
    disk_posix_destroy(disk);
    return status;
}

int inspect_verify_new(const struct target *target, const char *path)
{
    struct target made = *target;
    (void)snprintf(made.path, sizeof(made.path), "%s", path);
    return verify_one(&made, folders_name(target), 0);
}

/* Of a backup: the files are those of the manifest, and as they were. */
static int verify_manifest(const char *folder, struct manifest *manifest)
{
    struct failure failure;
    failure_init(&failure);
    enum error error = manifest_read(folder, manifest, &failure);
    if (error == OK) {
        error = upgrade_check_backup(manifest, folder, &failure);
        error = error == OK ? manifest_check(manifest, folder, &failure) : error;
        const struct manifest_sum sum = manifest_sum(manifest);
        if (error == OK)
            printf("%s: backup %s, made by tallyd %s: its manifest is right: %llu files, %llu bytes.\n", folder,
                   manifest->id, manifest->version, (unsigned long long)sum.files, (unsigned long long)sum.bytes);
    }
    if (error != OK)
        printf("%s: the backup %s: %s\n", folder, error == ERROR_LOG_DAMAGED ? "is DAMAGED" : "can't be read",
               failure.text);
    return error == OK ? STATUS_CLEAN : error == ERROR_LOG_DAMAGED ? STATUS_DAMAGED : STATUS_FAILED;
}

/* Of a data folder. What is wrong with its files is said elsewhere. */
static int verify_version(const char *folder)
{
    struct data_version version;
    struct failure failure;
    failure_init(&failure);
    if (upgrade_read(folder, &version, &failure) != OK) {
        printf("%s\n", failure.text);
        return failure.error == ERROR_LOG_DAMAGED ? STATUS_DAMAGED : STATUS_FAILED;
    }
    const char *first = upgrade_first_release(version.format);
    if (version.format != 0 && first != NULL)
        printf("%s: written by tallyd %s, in format %u; tallyd %s and newer read it.\n", folder, version.tallyd,
               version.format, first);
    else if (version.format != 0)
        printf("%s: written by tallyd %s, in format %u; this is tallyd %s, which does not read it.\n", folder,
               version.tallyd, version.format, TALLY_VERSION);
    return version.format != 0 && first == NULL ? STATUS_FAILED : STATUS_CLEAN;
}

static int check_whole(const char *folder)
{
    struct failure failure;
    failure_init(&failure);
    return folders_check_whole(folder, &failure) == OK ? STATUS_CLEAN : folders_complain("%s", failure.text);
}

static int verify_listed(const struct target *target, const struct manifest *manifest)
{
    const struct backup_namespace *ns = manifest_find(manifest, target->name);
    return verify_one(target, target->path, ns == NULL ? 0 : ns->sequence);
}

int inspect_verify(const char *folder)
{
    struct targets targets = {0};
    struct manifest manifest = {0};
    int status = check_whole(folder);
    if (status == STATUS_CLEAN)
        status = folders_list(folder, &targets);
    if (status == STATUS_CLEAN)
        status = manifest_is_in(folder) ? verify_manifest(folder, &manifest) : verify_version(folder);
    for (size_t i = 0; i < targets.count && status != STATUS_FAILED; i++)
        status = folders_worse(status, verify_listed(&targets.items_owned[i], &manifest));
    free(targets.items_owned);
    manifest_deinit(&manifest);
    if (status == STATUS_DAMAGED)
        printf("Next: restore the folder from a backup or a replica, or type: tallyd --salvage %s --to NEW\n", folder);
    fflush(stdout);
    return status;
}

/* --- logs in PostgreSQL ------------------------------------------------------------------------------------------- */

static void on_log(void *context, const struct pg_log_facts *facts)
{
    if (folders_is_namespace(facts->name) && facts->moved_to[0] != '\0')
        printf("PostgreSQL/%s: is at %s; it is checked there\n", facts->name, facts->moved_to);
    else if (folders_is_namespace(facts->name))
        (void)folders_add(context, "PostgreSQL", facts->name);
}

static void remove_file(void *context, const char *name)
{
    struct disk *disk = context;
    struct failure failure;
    failure_init(&failure);
    (void)disk->operations->remove(disk, name, &failure);
}

static int copy_and_verify(const struct pg_options *all, const struct target *log, const char *folder)
{
    struct target copy;
    struct failure failure;
    failure_init(&failure);
    (void)snprintf(copy.path, sizeof(copy.path), "%s", folder);
    memcpy(copy.name, log->name, sizeof(copy.name));
    struct pg_options options = *all;
    options.log = log->name;
    struct disk *disk = disk_posix_create(folder);
    int status = STATUS_CLEAN;
    if (disk->operations->lock(disk, &failure) != OK || pg_logs_copy(&options, disk, &failure) != OK) {
        status = failure.error == ERROR_LOG_DAMAGED ? STATUS_DAMAGED : STATUS_FAILED;
        printf("%s: can't be read: %s\n", log->path, failure.text);
    }
    disk_posix_destroy(disk);
    return status == STATUS_CLEAN ? verify_one(&copy, log->path, 0) : status;
}

static int verify_log(const struct pg_options *options, const struct target *log)
{
    const char *temporary = getenv("TMPDIR");
    char folder[PATH_MAX];
    const int length =
        snprintf(folder, sizeof(folder), "%s/tallyd-verify-XXXXXX", temporary == NULL ? "/tmp" : temporary);
    if (length < 0 || (size_t)length >= sizeof(folder) || mkdtemp(folder) == NULL)
        return folders_complain("no folder could be made in TMPDIR for the copy of %s: %s.", log->path,
                                strerror(errno));
    const int status = copy_and_verify(options, log, folder);
    struct disk *disk = disk_posix_create(folder);
    struct failure failure;
    if (disk->operations->lock(disk, &failure) == OK)
        (void)disk->operations->list(disk, remove_file, disk, &failure);
    disk_posix_destroy(disk);
    if (rmdir(folder) != 0)
        (void)folders_complain("%s stays behind: %s.", folder, strerror(errno));
    return status;
}

int inspect_verify_postgres(const struct pg_options *options)
{
    struct targets targets = {0};
    struct failure failure;
    failure_init(&failure);
    int status = STATUS_CLEAN;
    if (pg_logs_visit(options, on_log, &targets, &failure) != OK)
        status = folders_complain("%s", failure.text);
    else if (targets.count == 0)
        status = folders_complain("the database has no logs: did a tallyd ever serve with this --log?");
    for (size_t i = 0; i < targets.count && status != STATUS_FAILED; i++)
        status = folders_worse(status, verify_log(options, &targets.items_owned[i]));
    free(targets.items_owned);
    if (status == STATUS_DAMAGED)
        printf("Next: restore the database from a backup or a replica; "
               "docs/how-to/run-a-cluster.md says how.\n");
    fflush(stdout);
    return status;
}

/* --- salvage ------------------------------------------------------------------------------------------------------ */

#define REPORT_PATH_MAX (PATH_MAX + sizeof(FILES_UNFINISHED) + sizeof(INSPECT_REPORT_NAME))

static void name_report(const char *folder, char path[REPORT_PATH_MAX])
{
    (void)snprintf(path, REPORT_PATH_MAX, "%s/" INSPECT_REPORT_NAME, folder);
}

static FILE *open_report(const struct new_folder *folder)
{
    char path[REPORT_PATH_MAX];
    name_report(folder->unfinished, path);
    return fopen(path, "w");
}

/* Everything must be on the disk before the folder gets its name. */
static bool close_report(FILE *file)
{
    const bool is_written = fflush(file) == 0 && fsync(fileno(file)) == 0 && ferror(file) == 0;
    return fclose(file) == 0 && is_written;
}

/* Writes the new folder and checks whether a tallyd starts on it. */
static int write_new(struct salvage *salvage, const struct new_folder *folder)
{
    struct failure failure;
    failure_init(&failure);
    struct disk *disk = disk_posix_create(folder->unfinished);
    bool is_good = salvage_write(salvage, disk, &failure) == OK;
    disk_posix_destroy(disk);
    if (!is_good)
        return folders_complain("%s could not be written: %s", folder->unfinished, failure.text);
    disk = disk_posix_create_to_read(folder->unfinished);
    is_good = disk->operations->lock(disk, &failure) == OK && would_start(disk, &failure);
    disk_posix_destroy(disk);
    return is_good ? STATUS_CLEAN : folders_complain("the new folder is not good: %s", failure.text);
}

/* Gives the folder its name. */
static int finish_new(const struct target *target, const char *to)
{
    struct new_folder folder;
    folders_name_new(&folder, to, target);
    const int status = folders_finish(&folder);
    if (status != STATUS_CLEAN)
        return status;
    char path[REPORT_PATH_MAX];
    name_report(folder.path, path);
    struct stat report;
    if (stat(path, &report) == 0 && report.st_size > 0)
        printf("The whole list: %s\n", path);
    return STATUS_CLEAN;
}

static int salvage_into(const struct target *target, const char *to, struct disk *disk)
{
    struct new_folder folder;
    struct inspect_report report = {.folder = target->path};
    folders_name_new(&folder, to, target);
    if (mkdir(folder.unfinished, NEW_FOLDER_MODE) != 0)
        return folders_complain("%s can't be made: %s.", folder.unfinished, strerror(errno));
    report.file = open_report(&folder);
    if (report.file == NULL)
        return folders_complain("%s: the report can't be made: %s.", folder.unfinished, strerror(errno));
    struct salvage *salvage;
    struct failure failure;
    failure_init(&failure);
    if (read_target(target, disk, &report, &salvage, &failure) != OK) {
        (void)fclose(report.file);
        return folders_complain("%s can't be read: %s", target->path, failure.text);
    }
    const struct salvage_facts facts = salvage_facts(salvage);
    inspect_report_end(&report, salvage, facts.has_loss ? "What was saved:" : "All of it was saved:");
    int status = facts.is_empty ? STATUS_CLEAN : write_new(salvage, &folder);
    salvage_destroy(salvage);
    if (!close_report(report.file) && status == STATUS_CLEAN)
        status = folders_complain("%s: the report could not be written: %s.", folder.unfinished, strerror(errno));
    if (status == STATUS_CLEAN)
        status = folders_sync(folder.unfinished);
    return status == STATUS_CLEAN && facts.has_loss ? STATUS_DAMAGED : status;
}

static int salvage_one(const struct target *target, const char *to)
{
    struct failure failure;
    failure_init(&failure);
    struct disk *disk = disk_posix_create_to_read(target->path);
    int status = disk->operations->lock(disk, &failure) == OK ? salvage_into(target, to, disk)
                                                              : folders_complain("%s", failure.text);
    disk_posix_destroy(disk);
    return status;
}

int inspect_salvage(const char *folder, const char *to)
{
    struct targets targets = {0};
    int status = upgrade_check(folder);
    if (status == STATUS_CLEAN)
        status = folders_list(folder, &targets);
    if (status == STATUS_CLEAN)
        status = folders_make(to, folder);
    for (size_t i = 0; i < targets.count && status != STATUS_FAILED; i++)
        status = folders_worse(status, salvage_one(&targets.items_owned[i], to));
    /* All or none: tallyd would make an empty namespace for a missing folder. */
    for (size_t i = 0; i < targets.count && status != STATUS_FAILED; i++)
        status = folders_worse(status, finish_new(&targets.items_owned[i], to));
    if (status != STATUS_FAILED)
        status = folders_worse(status, upgrade_sign_new(to));
    free(targets.items_owned);
    if (status != STATUS_FAILED)
        printf("%s Next: tallyd --data %s\n", status == STATUS_CLEAN ? "Nothing is lost." : "Something is lost.", to);
    fflush(stdout);
    return status;
}
