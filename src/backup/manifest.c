#include "backup/manifest.h"

#include "backup/files.h"
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/json_memory.h"
#include "base/memory.h"
#include "base/quote.h"
#include "platform/aside.h"
#include "platform/holes.h"
#include "platform/monotonic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yyjson.h>

#define PIECE_SIZE ((size_t)256 * 1024)
#define PAUSE_MAX_MS 50u
#define DATA_FORMAT_UNSAID 2u /* the first tallyd that made backups did not say it */

/* --- in memory ---------------------------------------------------------------------------------------------------- */

struct backup_namespace *manifest_add_namespace(struct manifest *manifest)
{
    const size_t count = manifest->namespace_count + 1;
    manifest->namespaces_owned = memory_resize(manifest->namespaces_owned, count * sizeof(*manifest->namespaces_owned));
    struct backup_namespace *added = &manifest->namespaces_owned[manifest->namespace_count++];
    *added = (struct backup_namespace){0};
    return added;
}

struct backup_file *backup_namespace_add_file(struct backup_namespace *ns)
{
    ARRAY_GROW(ns->files_owned, ns->file_count, ns->file_capacity);
    struct backup_file *added = &ns->files_owned[ns->file_count++];
    *added = (struct backup_file){0};
    return added;
}

void manifest_deinit(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->namespace_count; i++)
        free(manifest->namespaces_owned[i].files_owned);
    free(manifest->namespaces_owned);
    *manifest = (struct manifest){0};
}

const struct backup_namespace *manifest_find(const struct manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->namespace_count; i++)
        if (strcmp(manifest->namespaces_owned[i].name, name) == 0)
            return &manifest->namespaces_owned[i];
    return NULL;
}

struct manifest_sum manifest_sum(const struct manifest *manifest)
{
    struct manifest_sum sum = {0};
    for (size_t i = 0; i < manifest->namespace_count; i++) {
        const struct backup_namespace *ns = &manifest->namespaces_owned[i];
        sum.files += ns->file_count;
        sum.queues += ns->queues;
        sum.messages += ns->messages;
        for (size_t j = 0; j < ns->file_count; j++)
            sum.bytes += ns->files_owned[j].size;
    }
    return sum;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_namespace(const struct backup_namespace *ns, struct buffer *text)
{
    buffer_append_format(text,
                         "  {\"name\": \"%s\", \"segmentSize\": %" PRIu64 ", \"epoch\": %" PRIu64
                         ", \"sequence\": %" PRIu64 ",\n   \"position\": %" PRIu64 ", \"timeMs\": %" PRIu64
                         ", \"queues\": %" PRIu64 ", \"messages\": %" PRIu64 ",\n   \"files\": [",
                         ns->name, ns->segment_size, ns->epoch, ns->sequence, ns->position, ns->time_ms, ns->queues,
                         ns->messages);
    for (size_t i = 0; i < ns->file_count; i++)
        buffer_append_format(text, "%s\n    {\"name\": \"%s\", \"size\": %" PRIu64 ", \"crc32c\": \"%08" PRIx32 "\"}",
                             i == 0 ? "" : ",", ns->files_owned[i].name, ns->files_owned[i].size,
                             ns->files_owned[i].checksum);
    buffer_append_format(text, "]}");
}

void manifest_write(const struct manifest *manifest, struct buffer *text)
{
    buffer_append_format(text, "{\"format\": %u, \"id\": \"%s\", \"version\": ", MANIFEST_FORMAT, manifest->id);
    quote_append(text, bytes_from_string(manifest->version));
    buffer_append_format(text, ", \"dataFormat\": %u, \"instantMs\": %" PRIu64 ",\n \"namespaces\": [\n",
                         manifest->data_format, manifest->instant_ms);
    for (size_t i = 0; i < manifest->namespace_count; i++) {
        write_namespace(&manifest->namespaces_owned[i], text);
        buffer_append_format(text, i + 1 < manifest->namespace_count ? ",\n" : "]}\n");
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* A member that is a number; false, with nothing changed, if it is not there. */
static bool read_number(yyjson_val *object, const char *name, uint64_t *number)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    if (!yyjson_is_uint(value))
        return false;
    *number = yyjson_get_uint(value);
    return true;
}

/* A member that is a text of 1 to size - 1 bytes, without what could lead to another folder or command a terminal. */
static bool read_name(yyjson_val *object, const char *name, char *text, size_t size)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    const size_t length = yyjson_is_str(value) ? yyjson_get_len(value) : 0;
    if (length == 0 || length >= size || strlen(yyjson_get_str(value)) != length ||
        !bytes_is_graphic(bytes_make(yyjson_get_str(value), length)) || strchr(yyjson_get_str(value), '/') != NULL ||
        yyjson_get_str(value)[0] == '.')
        return false;
    memcpy(text, yyjson_get_str(value), length + 1);
    return true;
}

static bool is_file_of_log(const char *name)
{
    const struct bytes view = bytes_from_string(name);
    return bytes_ends_with(view, BYTES(".segment")) || bytes_ends_with(view, BYTES(".snapshot"));
}

static bool read_file(yyjson_val *value, struct backup_file *file)
{
    char checksum[9];
    if (!read_name(value, "name", file->name, sizeof(file->name)) || !read_number(value, "size", &file->size) ||
        !read_name(value, "crc32c", checksum, sizeof(checksum)) || strspn(checksum, "0123456789abcdefABCDEF") != 8)
        return false;
    file->checksum = (uint32_t)strtoul(checksum, NULL, 16);
    return is_file_of_log(file->name);
}

static bool read_namespace(yyjson_val *value, struct backup_namespace *ns)
{
    yyjson_val *files = yyjson_obj_get(value, "files"), *file;
    size_t index, count;
    if (!read_name(value, "name", ns->name, sizeof(ns->name)) || strlen(ns->name) != BACKUP_NAMESPACE_SIZE - 1 ||
        strspn(ns->name, "0123456789") != BACKUP_NAMESPACE_SIZE - 1 ||
        !read_number(value, "segmentSize", &ns->segment_size) || !read_number(value, "epoch", &ns->epoch) ||
        !read_number(value, "sequence", &ns->sequence) || !read_number(value, "position", &ns->position) ||
        !read_number(value, "timeMs", &ns->time_ms) || !read_number(value, "queues", &ns->queues) ||
        !read_number(value, "messages", &ns->messages) || !yyjson_is_arr(files))
        return false;
    yyjson_arr_foreach(files, index, count, file)
    {
        if (!read_file(file, backup_namespace_add_file(ns)))
            return false;
    }
    return ns->file_count > 0;
}

/* --- twice -------------------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name that stands twice; NULL: none does. Sorts them. */
static const char *find_twice(const char **names, size_t count)
{
    qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return names[i];
    return NULL;
}

static const char *find_file_twice(const struct backup_namespace *ns)
{
    const char **names = memory_allocate((ns->file_count + 1) * sizeof(*names));
    for (size_t i = 0; i < ns->file_count; i++)
        names[i] = ns->files_owned[i].name;
    const char *twice = find_twice(names, ns->file_count);
    free(names);
    return twice;
}

static const char *find_namespace_twice(const struct manifest *manifest)
{
    const char **names = memory_allocate((manifest->namespace_count + 1) * sizeof(*names));
    for (size_t i = 0; i < manifest->namespace_count; i++)
        names[i] = manifest->namespaces_owned[i].name;
    const char *twice = find_twice(names, manifest->namespace_count);
    free(names);
    return twice;
}

/* Of two entries with one name only one can be right, and sums would count both. */
static enum error check_twice(const struct manifest *manifest, const char *folder, struct failure *failure)
{
    const char *ns = find_namespace_twice(manifest), *file = NULL;
    for (size_t i = 0; ns == NULL && i < manifest->namespace_count; i++) {
        file = find_file_twice(&manifest->namespaces_owned[i]);
        ns = file != NULL ? manifest->namespaces_owned[i].name : NULL;
    }
    if (ns == NULL)
        return OK;
    return failure_set(failure, ERROR_LOG_DAMAGED, "%s/" MANIFEST_NAME " is damaged: it names %s%s%s twice.", folder,
                       ns, file == NULL ? "" : "/", file == NULL ? "" : file);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static bool read_data_format(yyjson_val *root, unsigned *format)
{
    uint64_t number = DATA_FORMAT_UNSAID;
    const bool is_good = yyjson_obj_get(root, "dataFormat") == NULL || read_number(root, "dataFormat", &number);
    *format = number < UINT_MAX ? (unsigned)number : UINT_MAX;
    return is_good && number > 0;
}

static bool read_all(yyjson_val *root, struct manifest *manifest)
{
    yyjson_val *namespaces = yyjson_obj_get(root, "namespaces"), *ns;
    size_t index, count;
    if (!read_name(root, "id", manifest->id, sizeof(manifest->id)) ||
        !read_name(root, "version", manifest->version, sizeof(manifest->version)) ||
        !read_data_format(root, &manifest->data_format) || !read_number(root, "instantMs", &manifest->instant_ms) ||
        !yyjson_is_arr(namespaces))
        return false;
    yyjson_arr_foreach(namespaces, index, count, ns)
    {
        if (!read_namespace(ns, manifest_add_namespace(manifest)))
            return false;
    }
    return manifest->namespace_count > 0;
}

enum error manifest_decode(struct bytes text, const char *folder, struct manifest *manifest, struct failure *failure)
{
    *manifest = (struct manifest){0};
    /* Without a flag that says otherwise the text is only read. */
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text.ptr, text.size, YYJSON_READ_NOFLAG, &json_memory, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    uint64_t format = 0;
    enum error error = OK;
    if (!read_number(root, "format", &format))
        error = failure_set(failure, ERROR_LOG_DAMAGED, "%s/" MANIFEST_NAME " is no manifest of a backup.", folder);
    else if (format != MANIFEST_FORMAT)
        error = failure_set(failure, ERROR_UNSUPPORTED_OPERATION,
                            "%s/" MANIFEST_NAME " has format %" PRIu64
                            ", and this version knows %u: use the tallyd that made the backup, or a newer one.",
                            folder, format, MANIFEST_FORMAT);
    else if (!read_all(root, manifest))
        error = failure_set(failure, ERROR_LOG_DAMAGED,
                            "%s/" MANIFEST_NAME " is damaged: a member is missing or wrong.", folder);
    else
        error = check_twice(manifest, folder, failure);
    yyjson_doc_free(doc);
    if (error != OK)
        manifest_deinit(manifest);
    return error;
}

static enum error explain(const char *path, struct failure *failure)
{
    return failure_set(failure, ERROR_DISK_FAILED, "%s can't be read: %s.", path, strerror(errno));
}

static bool make_path(char path[PATH_MAX], const char *folder, const char *inner, const char *name)
{
    const int length = inner[0] == '\0' ? snprintf(path, PATH_MAX, "%s/%s", folder, name)
                                        : snprintf(path, PATH_MAX, "%s/%s/%s", folder, inner, name);
    return length >= 0 && length < PATH_MAX;
}

bool manifest_is_in(const char *folder)
{
    char path[PATH_MAX];
    return make_path(path, folder, "", MANIFEST_NAME) && access(path, F_OK) == 0;
}

static enum error read_text(const char *path, struct buffer *text, struct failure *failure)
{
    const int descriptor = files_open(path, failure);
    if (descriptor < 0)
        return ERROR_DISK_FAILED;
    enum error error = OK;
    ssize_t count = 0;
    do {
        count = read(descriptor, buffer_reserve(text, PIECE_SIZE), PIECE_SIZE);
        if (count > 0)
            (void)buffer_extend(text, (size_t)count);
    } while (count > 0 && text->size <= MANIFEST_SIZE_MAX);
    if (count < 0)
        error = explain(path, failure);
    else if (text->size > MANIFEST_SIZE_MAX)
        error = failure_set(failure, ERROR_LOG_DAMAGED, "%s is larger than any manifest.", path);
    (void)close(descriptor);
    return error;
}

enum error manifest_read(const char *folder, struct manifest *manifest, struct failure *failure)
{
    char path[PATH_MAX];
    struct buffer text;
    if (!make_path(path, folder, "", MANIFEST_NAME))
        return failure_set(failure, ERROR_DISK_FAILED, "%s: the path is too long.", folder);
    buffer_init(&text);
    enum error error = read_text(path, &text, failure);
    if (error == OK)
        error = manifest_decode(buffer_bytes(&text), folder, manifest, failure);
    buffer_deinit(&text);
    return error;
}

/* --- checksums ---------------------------------------------------------------------------------------------------- */

/* Sleeps for as long as the last piece took, so that others get half of the disk. */
static void give_way(uint64_t begun_ms)
{
    const uint64_t took_ms = monotonic_ms() - begun_ms;
    if (took_ms > 0)
        sleep_for(took_ms < PAUSE_MAX_MS ? took_ms : PAUSE_MAX_MS);
}

/* How far ahead of the sum the disk is asked to read. A piece at a time would wait for the disk's answer each time. */
#define AHEAD_SIZE ((uint64_t)16 * ASIDE_CALL_SIZE)

/* A file that is read from its begin to its end. */
struct reader {
    int descriptor;
    uint64_t at;
    uint64_t end;   /* of the data or of the hole that `at` is in */
    uint64_t asked; /* what is ahead of `at` and before this has been asked for */
    bool is_hole;
    bool is_aside;
};

/* Where others wait for the disk and the processor, the kernel reads no more than it is asked for. By itself it may
 * read 8 MiB ahead, in one call. */
static void reader_init(struct reader *reader, int descriptor, bool is_aside)
{
    *reader = (struct reader){.descriptor = descriptor, .is_aside = is_aside};
    if (is_aside)
        (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
}

/* Asks where a hole or data ends once for each: on a file server each question is a request. */
static void find_stretch(struct reader *reader)
{
    const uint64_t data = holes_next_data(reader->descriptor, reader->at);
    reader->is_hole = data > reader->at;
    reader->end = reader->is_hole ? data : holes_next_hole(reader->descriptor, reader->at);
}

/* Has the disk read what comes next, in calls as short as those that read. */
static void ask_ahead(struct reader *reader)
{
    if (reader->asked < reader->at)
        reader->asked = reader->at;
    while (reader->asked < reader->end && reader->asked < reader->at + AHEAD_SIZE) {
        const uint64_t left = reader->end - reader->asked, size = left < ASIDE_CALL_SIZE ? left : ASIDE_CALL_SIZE;
        (void)posix_fadvise(reader->descriptor, (off_t)reader->asked, (off_t)size, POSIX_FADV_WILLNEED);
        reader->asked += size;
    }
}

/* The next bytes, up to ASIDE_CALL_SIZE: 0 of them at the end, -1 for a failure. What was never written isn't asked
 * for: the kernel would fill memory with zeros first, for all that it reads ahead. */
static ssize_t reader_next(struct reader *reader, uint8_t *piece)
{
    if (reader->at >= reader->end)
        find_stretch(reader);
    const uint64_t left = reader->end - reader->at;
    const size_t size = left > 0 && left < ASIDE_CALL_SIZE ? (size_t)left : ASIDE_CALL_SIZE;
    ssize_t count = (ssize_t)size;
    if (reader->is_hole) {
        memset(piece, 0, size);
    } else {
        if (reader->is_aside)
            ask_ahead(reader);
        count = pread(reader->descriptor, piece, size, (off_t)reader->at);
    }
    reader->at += count > 0 ? (uint64_t)count : 0;
    return count;
}

enum error backup_file_sum(const char *path, const atomic_bool *is_cancelled, struct backup_file *file,
                           struct failure *failure)
{
    const int descriptor = files_open(path, failure);
    if (descriptor < 0)
        return ERROR_DISK_FAILED;
    uint8_t piece[ASIDE_CALL_SIZE];
    struct reader reader;
    enum error error = OK;
    ssize_t count;
    file->checksum = 0;
    reader_init(&reader, descriptor, is_cancelled != NULL);
    do {
        const uint64_t begun_ms = monotonic_ms();
        count = reader_next(&reader, piece);
        if (count < 0 && errno != EINTR)
            error = explain(path, failure);
        else if (count > 0)
            file->checksum = crc32c(file->checksum, bytes_make(piece, (size_t)count));
        if (is_cancelled != NULL && atomic_load(is_cancelled))
            error = failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "the backup was cancelled.");
        if (is_cancelled != NULL)
            give_way(begun_ms);
    } while (error == OK && count != 0);
    file->size = reader.at;
    (void)close(descriptor);
    return error;
}

static enum error check_file(const char *folder, const char *name, const struct backup_file *file,
                             struct failure *failure)
{
    char path[PATH_MAX];
    struct backup_file found;
    if (!make_path(path, folder, name, file->name))
        return failure_set(failure, ERROR_DISK_FAILED, "%s: the path is too long.", folder);
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT
                   ? failure_set(failure, ERROR_LOG_DAMAGED, "%s is missing, and the manifest names it.", path)
                   : explain(path, failure);
    if (!S_ISREG(status.st_mode)) /* a log has none */
        return failure_set(failure, ERROR_LOG_DAMAGED, "%s is no ordinary file: copy the file itself to there.", path);
    const enum error error = backup_file_sum(path, NULL, &found, failure);
    if (error != OK)
        return error;
    if (found.size != file->size)
        return failure_set(failure, ERROR_LOG_DAMAGED, "%s has %" PRIu64 " bytes, and the manifest says %" PRIu64 ".",
                           path, found.size, file->size);
    if (found.checksum != file->checksum)
        return failure_set(failure, ERROR_LOG_DAMAGED,
                           "%s has the checksum %08" PRIx32 ", and the manifest says %08" PRIx32 ": it was changed.",
                           path, found.checksum, file->checksum);
    return OK;
}

static bool has_file(const struct backup_namespace *ns, const char *name)
{
    for (size_t i = 0; i < ns->file_count; i++)
        if (strcmp(ns->files_owned[i].name, name) == 0)
            return true;
    return false;
}

/* Is there a segment or a snapshot that does not belong to the backup? A start would read it. */
static enum error check_others(const char *folder, const struct backup_namespace *ns, struct failure *failure)
{
    char path[PATH_MAX];
    enum error error = OK;
    if (!make_path(path, folder, "", ns->name))
        return failure_set(failure, ERROR_DISK_FAILED, "%s: the path is too long.", folder);
    DIR *opened = opendir(path);
    if (opened == NULL)
        return explain(path, failure);
    for (const struct dirent *entry; error == OK && (entry = readdir(opened)) != NULL;)
        if (is_file_of_log(entry->d_name) && !has_file(ns, entry->d_name))
            error =
                failure_set(failure, ERROR_LOG_DAMAGED, "%s/%s does not belong to the backup.", path, entry->d_name);
    (void)closedir(opened);
    return error;
}

enum error manifest_check(const struct manifest *manifest, const char *folder, struct failure *failure)
{
    enum error error = OK;
    for (size_t i = 0; error == OK && i < manifest->namespace_count; i++) {
        const struct backup_namespace *ns = &manifest->namespaces_owned[i];
        for (size_t j = 0; error == OK && j < ns->file_count; j++)
            error = check_file(folder, ns->name, &ns->files_owned[j], failure);
        if (error == OK)
            error = check_others(folder, ns, failure);
    }
    return error;
}
