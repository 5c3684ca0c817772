#include "tallyd/upgrade.h"

#include "backup/files.h"
#include "backup/make.h"
#include "base/assert.h"
#include "base/memory.h"
#include "engine/disk_guard.h"
#include "log/segment.h"
#include "log/snapshot.h"
#include "platform/regular_file.h"
#include "tallyd/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define VERSION_NONE "0.1.0" /* wrote no such file */
#define DAY_MS (UINT64_C(24) * 60 * 60 * 1000)

/* The newest segment that holds frames, and the one that was made ready to follow it. */
#define LIVE_COUNT 2u

/* --- who wrote it ------------------------------------------------------------------------------------------------- */

static enum error damaged(const char *path, struct failure *failure)
{
    return failure_set(failure, ERROR_LOG_DAMAGED,
                       "%s does not say which tallyd wrote the folder, as \"tallyd VERSION\" and \"format NUMBER\" on "
                       "two lines. Remove it if you know that it was this one, tallyd " TALLY_VERSION
                       ", or one before.",
                       path);
}

/* It is shown to people, and part of a folder's name. */
static bool is_good(const char *version)
{
    return bytes_is_graphic(bytes_from_string(version)) && strchr(version, '/') == NULL;
}

static enum error read_version(const char *path, struct data_version *version, struct failure *failure)
{
    const char *why;
    const int descriptor = regular_file_open(path, &why);
    if (descriptor < 0 && errno == ENOENT) {
        *version = (struct data_version){.tallyd = VERSION_NONE, .format = 1};
        return OK;
    }
    if (descriptor < 0)
        return failure_set(failure, ERROR_DISK_FAILED, "reading %s failed: %s.", path, why);
    FILE *file = fdopen(descriptor, "r");
    if (file == NULL) {
        (void)close(descriptor);
        return files_failed(failure, "reading", path);
    }
    static_assert(UPGRADE_VERSION_SIZE == 32, "scanf has 31 characters");
    const bool is_read = fscanf(file, "tallyd %31s format %9u", version->tallyd, &version->format) == 2;
    (void)fclose(file);
    return is_read && version->format > 0 && is_good(version->tallyd) ? OK : damaged(path, failure);
}

static void note_namespace(void *context, const char *name)
{
    bool *is_there = context;
    *is_there = *is_there || folders_is_namespace(name);
}

enum error upgrade_read(const char *data, struct data_version *version, struct failure *failure)
{
    bool is_there = false;
    *version = (struct data_version){0};
    if (!backup_visit(data, note_namespace, &is_there))
        return files_failed(failure, "reading", data);
    if (!is_there)
        return OK;
    char *path = files_join(data, UPGRADE_VERSION_NAME, "");
    const enum error error = read_version(path, version, failure);
    free(path);
    return error;
}

static enum error write_version(const char *data, const struct data_version *version, struct failure *failure)
{
    char text[UPGRADE_VERSION_SIZE + 64];
    (void)snprintf(text, sizeof(text), "tallyd %s\nformat %u\n", version->tallyd, version->format);
    return files_replace_text(data, UPGRADE_VERSION_NAME, bytes_from_string(text), failure);
}

enum error upgrade_sign(const char *data, struct failure *failure)
{
    struct data_version version;
    const enum error error = upgrade_read(data, &version, failure);
    const bool is_signed = strcmp(version.tallyd, TALLY_VERSION) == 0 && version.format == DATA_FORMAT;
    static_assert(sizeof(TALLY_VERSION) <= UPGRADE_VERSION_SIZE, "it must be read again");
    const struct data_version own = {.tallyd = TALLY_VERSION, .format = DATA_FORMAT};
    return error != OK || is_signed ? error : write_version(data, &own, failure);
}

int upgrade_sign_new(const char *to)
{
    struct failure failure;
    failure_init(&failure);
    const enum error error = upgrade_sign(to, &failure);
    return error == OK ? folders_sync(to) : folders_complain("%s", failure.text);
}

const char *upgrade_first_release(unsigned format)
{
    static const char *const releases[] = {VERSION_NONE, "0.2.0"};
    static_assert(ARRAY_LENGTH(releases) == DATA_FORMAT, "a release for each format");
    return format >= 1 && format <= ARRAY_LENGTH(releases) ? releases[format - 1] : NULL;
}

/* --- the way back ------------------------------------------------------------------------------------------------- */

/* Nothing is served meanwhile, so nobody's syncs have to be let through. */
static const atomic_bool in_a_hurry = true;

struct keeping {
    const char *data;
    uint64_t min_free;                        /* what must stay free, in bytes */
    const char *to;                           /* the kept folder, under its unfinished name */
    const char *from;                         /* of the namespace that it is at */
    const char *inner;                        /* and its new folder */
    char live[LIVE_COUNT][SEGMENT_NAME_SIZE]; /* newest first */
    enum error error;                         /* the first one */
    struct failure *failure;
};

static bool is_segment(const char *name)
{
    uint64_t position;
    return segment_name_decode(name, &position);
}

/* Names of segments rise as their positions do. */
static void note_segment(void *context, const char *name)
{
    struct keeping *keeping = context;
    if (!is_segment(name))
        return;
    unsigned at = LIVE_COUNT;
    while (at > 0 && strcmp(name, keeping->live[at - 1]) > 0)
        at--;
    for (unsigned i = LIVE_COUNT - 1; i > at; i--)
        memcpy(keeping->live[i], keeping->live[i - 1], SEGMENT_NAME_SIZE);
    if (at < LIVE_COUNT)
        memcpy(keeping->live[at], name, SEGMENT_NAME_SIZE);
}

static bool is_live(const struct keeping *keeping, const char *name)
{
    return strcmp(name, keeping->live[0]) == 0 || strcmp(name, keeping->live[1]) == 0;
}

static void link_ended(void *context, const char *name)
{
    struct keeping *keeping = context;
    uint64_t position;
    if (keeping->error == OK &&
        ((is_segment(name) && !is_live(keeping, name)) || snapshot_name_decode(name, &position)))
        keeping->error = files_link(keeping->from, keeping->inner, name, name, keeping->failure);
}

static enum error copy_live(const struct keeping *keeping, struct disk *disk, const char *name)
{
    struct stat status;
    char *path = files_join(keeping->from, name, "");
    enum error error = stat(path, &status) == 0 ? OK : files_failed(keeping->failure, "reading", path);
    const uint64_t size = error == OK ? (uint64_t)status.st_size : 0;
    if (error == OK)
        error = files_check_room(keeping->inner, size, keeping->min_free, keeping->failure);
    if (error == OK)
        error = files_link(keeping->from, keeping->inner, name, FILES_LIVE_NAME, keeping->failure);
    if (error == OK)
        error = files_copy_live(disk, name, size, size, NULL, keeping->failure);
    free(path);
    return error;
}

static enum error keep_files(struct keeping *keeping, struct disk *from)
{
    struct failure *failure = keeping->failure;
    memset(keeping->live, 0, sizeof(keeping->live));
    struct disk *to = disk_posix_create(keeping->inner);
    to->is_hurried = &in_a_hurry;
    enum error error = from->operations->lock(from, failure);
    if (error == OK)
        error = to->operations->lock(to, failure);
    if (error == OK)
        error = from->operations->list(from, note_segment, keeping, failure);
    if (error == OK)
        error = from->operations->list(from, link_ended, keeping, failure);
    error = error == OK ? keeping->error : error;
    for (unsigned i = 0; i < LIVE_COUNT && error == OK && keeping->live[i][0] != '\0'; i++)
        error = copy_live(keeping, to, keeping->live[i]);
    disk_posix_destroy(to);
    return error == OK ? files_sync_folder(keeping->inner, failure) : error;
}

static void keep_namespace(void *context, const char *name)
{
    struct keeping *keeping = context;
    if (keeping->error != OK || !folders_is_namespace(name))
        return;
    char *from = files_join(keeping->data, name, ""), *inner = files_join(keeping->to, name, "");
    struct disk *disk = disk_posix_create_to_read(from);
    keeping->from = from;
    keeping->inner = inner;
    keeping->error = keep_files(keeping, disk);
    disk_posix_destroy(disk);
    free(inner);
    free(from);
}

/* The older tallyd must not take the kept folder for that of one before it. */
static enum error keep_version(const char *data, const char *to, struct failure *failure)
{
    struct data_version version;
    const enum error error = upgrade_read(data, &version, failure);
    return error == OK ? write_version(to, &version, failure) : error;
}

static enum error learn_min_free(const struct upgrade *upgrade, uint64_t *min_free, struct failure *failure)
{
    struct statvfs status;
    if (statvfs(upgrade->data, &status) != 0)
        return files_failed(failure, "asking for the room of", upgrade->data);
    *min_free = disk_guard_min_free(upgrade->min_free, (uint64_t)status.f_blocks * status.f_frsize);
    return OK;
}

/* Puts them under their unfinished name, and then under the name that counts. */
static enum error keep(const struct upgrade *upgrade, const char *folder, struct failure *failure)
{
    const char *data = upgrade->data;
    char *unfinished = files_join(data, folder, FILES_UNFINISHED), *finished = files_join(data, folder, "");
    struct keeping keeping = {.data = data, .to = unfinished, .failure = failure};
    enum error error = learn_min_free(upgrade, &keeping.min_free, failure);
    /* What is there is of a start that did not come to its end. */
    if (error == OK)
        error = backup_remove(unfinished, &in_a_hurry, failure);
    if (error == OK)
        error = files_make_folder(unfinished, failure);
    if (error == OK && !backup_visit(data, keep_namespace, &keeping))
        error = files_failed(failure, "reading", data);
    error = error == OK ? keeping.error : error;
    if (error == OK)
        error = keep_version(data, unfinished, failure);
    if (error == OK && rename(unfinished, finished) != 0)
        error = files_failed(failure, "renaming", unfinished);
    if (error == OK) {
        error = files_sync_folder(data, failure);
    } else {
        struct failure ignored;
        failure_init(&ignored);
        (void)backup_remove(unfinished, &in_a_hurry, &ignored);
    }
    free(finished);
    free(unfinished);
    return error;
}

static bool is_there(const char *data, const char *name)
{
    struct stat status;
    char *path = files_join(data, name, "");
    const bool is_found = lstat(path, &status) == 0;
    free(path);
    return is_found;
}

/* What was kept stays: a start that could not sign the folder may have written a newer format since.
 * ERROR_LOG_LOCKED: the older tallyd serves the folder still. Any other failure is told, and that is all. */
static enum error try_to_keep(const struct upgrade *upgrade, const struct data_version *version,
                              struct failure *failure)
{
    const char *data = upgrade->data;
    char folder[sizeof(UPGRADE_BEFORE) + UPGRADE_VERSION_SIZE], text[sizeof(failure->text) + PATH_MAX];
    (void)snprintf(folder, sizeof(folder), UPGRADE_BEFORE "%s", version->tallyd);
    const bool is_kept = is_there(data, folder);
    const enum error error = is_kept ? OK : keep(upgrade, folder, failure);
    if (is_kept)
        (void)snprintf(text, sizeof(text), "%s/%s is there already, and stays the way back to tallyd %s.", data, folder,
                       version->tallyd);
    else if (error == OK)
        (void)snprintf(text, sizeof(text),
                       "%s was written by tallyd %s. What it wrote is kept in %s/%s for %u days, as a way back.", data,
                       version->tallyd, data, folder, UPGRADE_KEPT_DAYS);
    else
        (void)snprintf(text, sizeof(text),
                       "%s was written by tallyd %s. There is no way back to that: what it wrote could not be kept: %s",
                       data, version->tallyd, failure->text);
    if (error != ERROR_LOG_LOCKED)
        upgrade->report(upgrade->context, text);
    return error == ERROR_LOG_LOCKED ? error : OK;
}

void upgrade_finish(const struct upgrade *upgrade)
{
    struct failure failure;
    failure_init(&failure);
    if (upgrade_sign(upgrade->data, &failure) != OK)
        upgrade->report(upgrade->context, failure.text); /* the next start tries again */
}

/* Keeps and signs, unless another tallyd has done so since the version was read. */
static enum error keep_and_sign(const struct upgrade *upgrade, struct failure *failure)
{
    struct data_version version;
    enum error error = upgrade_read(upgrade->data, &version, failure);
    if (error == OK && version.format < DATA_FORMAT)
        error = try_to_keep(upgrade, &version, failure);
    if (error == OK)
        upgrade_finish(upgrade);
    return error;
}

/* Two at once would remove what the other one keeps. A temporary folder, which has this lock, is never an old one. */
static enum error upgrade_alone(const struct upgrade *upgrade, struct failure *failure)
{
    const char *data = upgrade->data;
    const int folder = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum error error = OK;
    if (folder < 0)
        return files_failed(failure, "opening", data);
    /* Any other errno means a file system that can't lock folders. */
    if (flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        error = failure_set(failure, ERROR_LOG_LOCKED,
                            "Another tallyd begins on %s, and keeps what an older one wrote. Stop one of both.", data);
    else
        error = keep_and_sign(upgrade, failure);
    (void)close(folder);
    return error;
}

static enum error check_format(const char *data, const struct data_version *version, struct failure *failure)
{
    if (version->format <= DATA_FORMAT)
        return OK;
    return failure_set(failure, ERROR_UNSUPPORTED_OPERATION,
                       "%s was last written by tallyd %s, in format %u. This is tallyd %s, which reads formats up to "
                       "%u: start that one, or a newer one. docs/how-to/upgrading.md says how to go back.",
                       data, version->tallyd, version->format, TALLY_VERSION, DATA_FORMAT);
}

enum error upgrade_check_backup(const struct manifest *manifest, const char *folder, struct failure *failure)
{
    if (manifest->data_format <= DATA_FORMAT)
        return OK;
    return failure_set(
        failure, ERROR_UNSUPPORTED_OPERATION,
        "%s is a backup of a later version: made by tallyd %s, in format %u. This is tallyd %s, which reads "
        "formats up to %u: use that one, or a newer one.",
        folder, manifest->version, manifest->data_format, TALLY_VERSION, DATA_FORMAT);
}

int upgrade_check(const char *folder)
{
    struct data_version version;
    struct failure failure;
    failure_init(&failure);
    enum error error = upgrade_read(folder, &version, &failure);
    error = error == OK ? check_format(folder, &version, &failure) : error;
    return error == OK ? STATUS_CLEAN : folders_complain("%s", failure.text);
}

enum error upgrade_prepare(const struct upgrade *upgrade, struct failure *failure)
{
    struct data_version version;
    enum error error = upgrade_read(upgrade->data, &version, failure);
    error = error == OK ? check_format(upgrade->data, &version, failure) : error;
    if (error != OK || version.format == 0)
        return error;
    return version.format < DATA_FORMAT ? upgrade_alone(upgrade, failure) : OK;
}

/* --- the end of it ------------------------------------------------------------------------------------------------ */

struct forgetting {
    const char *data;
    uint64_t now_ms;
    const atomic_bool *is_hurried;
};

/* Was it kept by a tallyd? Somebody may have a folder of such a name there. */
static bool is_kept(const char *folder, const char *name)
{
    struct data_version version;
    struct failure ignored;
    failure_init(&ignored);
    return upgrade_read(folder, &version, &ignored) == OK && version.format != 0 &&
           strcmp(version.tallyd, name + strlen(UPGRADE_BEFORE)) == 0;
}

static bool is_over(const struct forgetting *forgetting, const char *folder, const char *name)
{
    struct stat status;
    if (bytes_ends_with(bytes_from_string(name), BYTES(FILES_UNFINISHED)))
        return true; /* an earlier removal was hurried */
    return stat(folder, &status) == 0 &&
           (uint64_t)status.st_mtime * 1000 + UPGRADE_KEPT_DAYS * DAY_MS < forgetting->now_ms && is_kept(folder, name);
}

static void forget(void *context, const char *name)
{
    const struct forgetting *forgetting = context;
    struct failure ignored;
    failure_init(&ignored);
    if (strncmp(name, UPGRADE_BEFORE, strlen(UPGRADE_BEFORE)) != 0)
        return;
    char *path = files_join(forgetting->data, name, "");
    if (is_over(forgetting, path, name))
        (void)backup_remove(path, forgetting->is_hurried, &ignored); /* else the next time */
    free(path);
}

void upgrade_forget(const char *data, uint64_t now_ms, const atomic_bool *is_hurried)
{
    struct forgetting forgetting = {.data = data, .now_ms = now_ms, .is_hurried = is_hurried};
    (void)backup_visit(data, forget, &forgetting);
}
