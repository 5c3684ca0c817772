/* The manifest of a backup: which files it has, what is in them, and of which instant it is.
 *
 * A backup is a folder like a data folder: a folder of each namespace with segments and at most one snapshot
 * (docs/internals/formats/log.md). Beside them stands the manifest, backup.json, written last: a folder without it is
 * no backup. docs/internals/formats/backup.md has its members. */
#ifndef TALLY_BACKUP_MANIFEST_H
#define TALLY_BACKUP_MANIFEST_H

#include "base/buffer.h"
#include "base/error.h"
#include <stdatomic.h>

#define MANIFEST_NAME "backup.json"
#define MANIFEST_FORMAT 1u
#define MANIFEST_SIZE_MAX ((size_t)256 * 1024 * 1024)

/* Of the files of a log, in a data folder or a backup. Raise it in each release whose logs or snapshots the one before
 * can't read; docs/how-to/upgrading.md has the releases. */
#define DATA_FORMAT 2u

#define BACKUP_ID_SIZE 32u        /* "20261130T031000Z-1a2b3c4d", with a NUL */
#define BACKUP_FILE_NAME_SIZE 40u /* of a segment or a snapshot */
#define BACKUP_NAMESPACE_SIZE 13u /* 12 digits, NUL */
#define BACKUP_VERSION_SIZE 32u

struct backup_file {
    char name[BACKUP_FILE_NAME_SIZE];
    uint64_t size;
    uint32_t checksum; /* CRC-32C of all of it */
};

struct backup_namespace {
    char name[BACKUP_NAMESPACE_SIZE];
    uint64_t segment_size;
    uint64_t epoch;
    uint64_t sequence; /* of the newest frame */
    uint64_t position; /* behind it */
    uint64_t time_ms;  /* of the state there */
    uint64_t queues;
    uint64_t messages;
    struct backup_file *files_owned;
    size_t file_count;
    size_t file_capacity;
};

struct manifest {
    char id[BACKUP_ID_SIZE];
    char version[BACKUP_VERSION_SIZE]; /* of the tallyd that made it */
    unsigned data_format;              /* its DATA_FORMAT */
    uint64_t instant_ms;               /* wall clock */
    struct backup_namespace *namespaces_owned;
    size_t namespace_count;
};

/* The new last one of its list, zeroed. */
struct backup_namespace *manifest_add_namespace(struct manifest *manifest);
struct backup_file *backup_namespace_add_file(struct backup_namespace *ns);
void manifest_deinit(struct manifest *manifest);

/* The namespace of that name; NULL: it is not in the backup. */
const struct backup_namespace *manifest_find(const struct manifest *manifest, const char *name);

/* Files and bytes of all namespaces. */
struct manifest_sum {
    uint64_t files;
    uint64_t bytes;
    uint64_t queues;
    uint64_t messages;
};
struct manifest_sum manifest_sum(const struct manifest *manifest);

void manifest_write(const struct manifest *manifest, struct buffer *text);

/* ERROR_LOG_DAMAGED: it is no manifest. ERROR_UNSUPPORTED_OPERATION: it is one of a newer format. */
enum error manifest_decode(struct bytes text, const char *folder, struct manifest *manifest, struct failure *failure);

/* Is there one in the folder? */
bool manifest_is_in(const char *folder);

/* Reads that of the folder. ERROR_DISK_FAILED: there is none, or it can't be read; and as manifest_decode(). */
enum error manifest_read(const char *folder, struct manifest *manifest, struct failure *failure);

/* Reads each file of the backup. ERROR_LOG_DAMAGED: one is missing, has another size or another checksum, or there is
 * one of a log that the manifest does not name. */
enum error manifest_check(const struct manifest *manifest, const char *folder, struct failure *failure);

/* Size and checksum of a file. With `is_cancelled` it gives way to others, and ends early, with an error, when that
 * becomes true; NULL: neither. */
enum error backup_file_sum(const char *path, const atomic_bool *is_cancelled, struct backup_file *file,
                           struct failure *failure);

#endif
