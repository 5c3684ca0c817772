#include "tallyd/inspect.h"

#include "base/memory.h"
#include "engine/namespace.h"
#include "log/disk_view.h"
#include "platform/random.h"
#include "postgres/logs.h"
#include "tallyd/config_value.h"
#include "tallyd/inspect_report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_CLEAN = 0, STATUS_DAMAGED = 1, STATUS_FAILED = 2 };

#define NAME_DIGITS 12u
#define NAME_UNKNOWN "000000000000"
#define UNFINISHED ".unfinished"
#define NEW_FOLDER_MODE 0700

/* The options for recovering a view of a folder; sizes are the folder's own. */
#define SEGMENT_SIZE_ANY (44 * MIB)
#define FRAME_SIZE_ANY (SEGMENT_SIZE_ANY / 2 - 4096)

/* A namespace's folder. */
struct target {
    char path[PATH_MAX];
    char name[NAME_DIGITS + 1]; /* its last part, if that can be the name of a namespace; else "" */
};

struct targets {
    struct target *items_owned; /* by name */
    size_t count;
};

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "tallyd: ");
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\n");
    va_end(arguments);
    return STATUS_FAILED;
}

/* The worse of two. */
static int worse(int one, int other)
{
    return one > other ? one : other;
}

/* --- which folders ------------------------------------------------------------------------------------------------ */

static bool is_namespace_name(const char *name)
{
    return strlen(name) == NAME_DIGITS && strspn(name, "0123456789") == NAME_DIGITS;
}

static bool is_log_file(const char *name)
{
    const struct bytes view = bytes_from_string(name);
    return bytes_ends_with(view, BYTES(".segment")) || bytes_ends_with(view, BYTES(".snapshot"));
}

/* False: the path is too long. */
static bool add_target(struct targets *targets, const char *folder, const char *name)
{
    targets->items_owned = memory_resize(targets->items_owned, (targets->count + 1) * sizeof(*targets->items_owned));
    struct target *target = &targets->items_owned[targets->count];
    const char *slash = name[0] == '\0' ? "" : "/";
    const int length = snprintf(target->path, sizeof(target->path), "%s%s%s", folder, slash, name);
    if (length < 0 || (size_t)length >= sizeof(target->path))
        return false;
    char last[PATH_MAX];
    (void)snprintf(last, sizeof(last), "%s", target->path);
    for (size_t end = strlen(last); end > 1 && last[end - 1] == '/'; end--)
        last[end - 1] = '\0';
    const char *at = strrchr(last, '/');
    at = at == NULL ? last : at + 1;
    memset(target->name, 0, sizeof(target->name));
    if (is_namespace_name(at))
        memcpy(target->name, at, NAME_DIGITS);
    targets->count++;
    return true;
}

static int compare_targets(const void *a, const void *b)
{
    return strcmp(((const struct target *)a)->path, ((const struct target *)b)->path);
}

/* The namespaces' folders in a data folder; or the folder itself, if it is a namespace's. */
static int list_targets(const char *folder, struct targets *targets)
{
    DIR *opened = opendir(folder);
    if (opened == NULL)
        return complain("%s can't be read: %s.", folder, strerror(errno));
    bool is_namespace = false, has_room = true;
    errno = 0; /* only this tells an error of readdir() from the end */
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL; errno = 0) {
        is_namespace = is_namespace || is_log_file(entry->d_name);
        if (is_namespace_name(entry->d_name))
            has_room = has_room && add_target(targets, folder, entry->d_name);
    }
    const int number = errno;
    (void)closedir(opened);
    if (number != 0)
        return complain("%s can't be read: %s.", folder, strerror(number));
    if (is_namespace) {
        targets->count = 0;
        has_room = add_target(targets, folder, "");
    }
    if (!has_room)
        return complain("%s: the path is too long.", folder);
    if (targets->count == 0)
        return complain("%s holds no namespace: expected folders with names of 12 digits, or *.segment files.", folder);
    qsort(targets->items_owned, targets->count, sizeof(*targets->items_owned), compare_targets);
    return STATUS_CLEAN;
}

/* --- one namespace ------------------------------------------------------------------------------------------------ */

static const char *name_of(const struct target *target)
{
    return target->name[0] == '\0' ? NAME_UNKNOWN : target->name;
}

static enum error read_target(const struct target *target, struct disk *disk, struct inspect_report *report,
                              struct salvage **salvage, struct failure *failure)
{
    struct salvage_options options = {
        .name = name_of(target), .segment_size = SEGMENT_SIZE_ANY, .report = inspect_report_note, .context = report};
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

/* `place` is what people call it. */
static int verify_one(const struct target *target, const char *place)
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
        bool is_clean = starts && !facts.has_loss && facts.notes[SALVAGE_DAMAGE] == 0;
        inspect_report_end(&report, salvage, is_clean ? "clean." : "DAMAGED. What can be read:");
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

int inspect_verify(const char *folder)
{
    struct targets targets = {0};
    int status = list_targets(folder, &targets);
    for (size_t i = 0; i < targets.count && status != STATUS_FAILED; i++)
        status = worse(status, verify_one(&targets.items_owned[i], targets.items_owned[i].path));
    free(targets.items_owned);
    if (status == STATUS_DAMAGED)
        printf("Next: restore the folder from a backup or a replica, or type: tallyd --salvage %s --to NEW\n", folder);
    fflush(stdout);
    return status;
}

/* --- logs in PostgreSQL ------------------------------------------------------------------------------------------- */

static void on_log(void *context, const struct pg_log_facts *facts)
{
    if (is_namespace_name(facts->name) && facts->moved_to[0] != '\0')
        printf("PostgreSQL/%s: is at %s; it is checked there\n", facts->name, facts->moved_to);
    else if (is_namespace_name(facts->name))
        (void)add_target(context, "PostgreSQL", facts->name);
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
    return status == STATUS_CLEAN ? verify_one(&copy, log->path) : status;
}

static int verify_log(const struct pg_options *options, const struct target *log)
{
    const char *temporary = getenv("TMPDIR");
    char folder[PATH_MAX];
    const int length =
        snprintf(folder, sizeof(folder), "%s/tallyd-verify-XXXXXX", temporary == NULL ? "/tmp" : temporary);
    if (length < 0 || (size_t)length >= sizeof(folder) || mkdtemp(folder) == NULL)
        return complain("no folder could be made in TMPDIR for the copy of %s: %s.", log->path, strerror(errno));
    const int status = copy_and_verify(options, log, folder);
    struct disk *disk = disk_posix_create(folder);
    struct failure failure;
    if (disk->operations->lock(disk, &failure) == OK)
        (void)disk->operations->list(disk, remove_file, disk, &failure);
    disk_posix_destroy(disk);
    if (rmdir(folder) != 0)
        (void)complain("%s stays behind: %s.", folder, strerror(errno));
    return status;
}

int inspect_verify_postgres(const struct pg_options *options)
{
    struct targets targets = {0};
    struct failure failure;
    failure_init(&failure);
    int status = STATUS_CLEAN;
    if (pg_logs_visit(options, on_log, &targets, &failure) != OK)
        status = complain("%s", failure.text);
    else if (targets.count == 0)
        status = complain("the database has no logs: did a tallyd ever serve with this --log?");
    for (size_t i = 0; i < targets.count && status != STATUS_FAILED; i++)
        status = worse(status, verify_log(options, &targets.items_owned[i]));
    free(targets.items_owned);
    if (status == STATUS_DAMAGED)
        printf("Next: restore the database from a backup or a replica; docs/high-availability.md says how.\n");
    fflush(stdout);
    return status;
}

/* --- salvage ------------------------------------------------------------------------------------------------------ */

/* The parent folder of a path's last part. */
static void name_parent(const char *path, char parent[PATH_MAX])
{
    (void)snprintf(parent, PATH_MAX, "%s", path);
    size_t end = strlen(parent);
    while (end > 1 && parent[end - 1] == '/')
        end--;
    while (end > 0 && parent[end - 1] != '/')
        end--;
    while (end > 1 && parent[end - 1] == '/')
        end--;
    (void)snprintf(parent + end, PATH_MAX - end, "%s", end == 0 ? "." : "");
}

/* Is the new folder the damaged one, or inside it? Nothing may be changed there. */
static bool lies_inside(const char *to, const char *folder)
{
    char parent[PATH_MAX], inner[PATH_MAX], outer[PATH_MAX];
    name_parent(to, parent);
    if ((realpath(to, inner) == NULL && realpath(parent, inner) == NULL) || realpath(folder, outer) == NULL)
        return false;
    const size_t length = strlen(outer);
    return strncmp(inner, outer, length) == 0 && (inner[length] == '/' || inner[length] == '\0');
}

/* The new data folder: made now, or an existing empty one. */
static int make_new(const char *to, const char *folder)
{
    if (lies_inside(to, folder))
        return complain("%s lies in %s, which is only read: --to names a folder elsewhere.", to, folder);
    if (mkdir(to, NEW_FOLDER_MODE) == 0)
        return STATUS_CLEAN;
    DIR *opened = errno == EEXIST ? opendir(to) : NULL;
    if (opened == NULL)
        return complain("%s can't be made: %s.", to, strerror(errno));
    unsigned count = 0;
    while (readdir(opened) != NULL)
        count++;
    (void)closedir(opened);
    return count <= 2 ? STATUS_CLEAN : complain("%s is not empty: --to names a new folder, or an empty one.", to);
}

static int sync_folder(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems don't sync folders and say so. */
    const bool is_synced = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    const int number = errno;
    if (descriptor >= 0)
        (void)close(descriptor);
    return is_synced ? STATUS_CLEAN : complain("%s can't be synced: %s.", path, strerror(number));
}

/* A new namespace's folder gets its name when it is complete. Until then it has another name, on which no tallyd
 * starts. */
struct new_folder {
    char path[PATH_MAX];
    char unfinished[PATH_MAX + sizeof(UNFINISHED)];
};

static void name_new(struct new_folder *folder, const char *to, const struct target *target)
{
    (void)snprintf(folder->path, sizeof(folder->path), "%s/%s", to, name_of(target));
    (void)snprintf(folder->unfinished, sizeof(folder->unfinished), "%s" UNFINISHED, folder->path);
}

#define REPORT_PATH_MAX (PATH_MAX + sizeof(UNFINISHED) + sizeof(INSPECT_REPORT_NAME))

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
        return complain("%s could not be written: %s", folder->unfinished, failure.text);
    disk = disk_posix_create_to_read(folder->unfinished);
    is_good = disk->operations->lock(disk, &failure) == OK && would_start(disk, &failure);
    disk_posix_destroy(disk);
    return is_good ? STATUS_CLEAN : complain("the new folder is not good: %s", failure.text);
}

/* Gives the folder its name. */
static int finish_new(const struct target *target, const char *to)
{
    struct new_folder folder;
    name_new(&folder, to, target);
    if (rename(folder.unfinished, folder.path) != 0)
        return complain("%s can't be renamed to %s: %s.", folder.unfinished, folder.path, strerror(errno));
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
    name_new(&folder, to, target);
    if (mkdir(folder.unfinished, NEW_FOLDER_MODE) != 0)
        return complain("%s can't be made: %s.", folder.unfinished, strerror(errno));
    report.file = open_report(&folder);
    if (report.file == NULL)
        return complain("%s: the report can't be made: %s.", folder.unfinished, strerror(errno));
    struct salvage *salvage;
    struct failure failure;
    failure_init(&failure);
    if (read_target(target, disk, &report, &salvage, &failure) != OK) {
        (void)fclose(report.file);
        return complain("%s can't be read: %s", target->path, failure.text);
    }
    const struct salvage_facts facts = salvage_facts(salvage);
    inspect_report_end(&report, salvage, facts.has_loss ? "What was saved:" : "All of it was saved:");
    int status = facts.is_empty ? STATUS_CLEAN : write_new(salvage, &folder);
    salvage_destroy(salvage);
    if (!close_report(report.file) && status == STATUS_CLEAN)
        status = complain("%s: the report could not be written: %s.", folder.unfinished, strerror(errno));
    if (status == STATUS_CLEAN)
        status = sync_folder(folder.unfinished);
    return status == STATUS_CLEAN && facts.has_loss ? STATUS_DAMAGED : status;
}

static int salvage_one(const struct target *target, const char *to)
{
    struct failure failure;
    failure_init(&failure);
    struct disk *disk = disk_posix_create_to_read(target->path);
    int status =
        disk->operations->lock(disk, &failure) == OK ? salvage_into(target, to, disk) : complain("%s", failure.text);
    disk_posix_destroy(disk);
    return status;
}

int inspect_salvage(const char *folder, const char *to)
{
    struct targets targets = {0};
    int status = list_targets(folder, &targets);
    if (status == STATUS_CLEAN)
        status = make_new(to, folder);
    for (size_t i = 0; i < targets.count && status != STATUS_FAILED; i++)
        status = worse(status, salvage_one(&targets.items_owned[i], to));
    /* All or none: tallyd would make an empty namespace for a missing folder. */
    for (size_t i = 0; i < targets.count && status != STATUS_FAILED; i++)
        status = worse(status, finish_new(&targets.items_owned[i], to));
    if (status != STATUS_FAILED)
        status = worse(status, sync_folder(to));
    free(targets.items_owned);
    if (status != STATUS_FAILED)
        printf("%s Next: tallyd --data %s\n", status == STATUS_CLEAN ? "Nothing is lost." : "Something is lost.", to);
    fflush(stdout);
    return status;
}
