#include "tallyd/folders.h"

#include "backup/files.h"
#include "backup/make.h"
#include "base/bytes.h"
#include "base/memory.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int folders_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "tallyd: ");
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\n");
    va_end(arguments);
    return STATUS_FAILED;
}

int folders_worse(int one, int other)
{
    return one > other ? one : other;
}

/* What follows the name of a namespace; NULL: it is none that does. */
static const char *after_namespace(const char *name)
{
    return strspn(name, "0123456789") == NAME_DIGITS ? name + NAME_DIGITS : NULL;
}

bool folders_is_namespace(const char *name)
{
    const char *rest = after_namespace(name);
    return rest != NULL && rest[0] == '\0';
}

static bool is_log_file(const char *name)
{
    const struct bytes view = bytes_from_string(name);
    return bytes_ends_with(view, BYTES(".segment")) || bytes_ends_with(view, BYTES(".snapshot"));
}

bool folders_add(struct targets *targets, const char *folder, const char *name)
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
    if (folders_is_namespace(at))
        memcpy(target->name, at, NAME_DIGITS);
    targets->count++;
    return true;
}

static int compare_targets(const void *a, const void *b)
{
    return strcmp(((const struct target *)a)->path, ((const struct target *)b)->path);
}

int folders_list(const char *folder, struct targets *targets)
{
    DIR *opened = opendir(folder);
    if (opened == NULL)
        return folders_complain("%s can't be read: %s.", folder, strerror(errno));
    bool is_namespace = false, has_room = true;
    errno = 0; /* only this tells an error of readdir() from the end */
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL; errno = 0) {
        is_namespace = is_namespace || is_log_file(entry->d_name);
        if (folders_is_namespace(entry->d_name))
            has_room = has_room && folders_add(targets, folder, entry->d_name);
    }
    const int number = errno;
    (void)closedir(opened);
    if (number != 0)
        return folders_complain("%s can't be read: %s.", folder, strerror(number));
    if (is_namespace) {
        targets->count = 0;
        has_room = folders_add(targets, folder, "");
    }
    if (!has_room)
        return folders_complain("%s: the path is too long.", folder);
    if (targets->count == 0)
        return folders_complain("%s holds no namespace: expected folders with names of 12 digits, or *.segment files.",
                                folder);
    qsort(targets->items_owned, targets->count, sizeof(*targets->items_owned), compare_targets);
    return STATUS_CLEAN;
}

const char *folders_name(const struct target *target)
{
    return target->name[0] == '\0' ? NAME_UNKNOWN : target->name;
}

bool folders_lies_inside(const char *to, const char *folder)
{
    char parent[PATH_MAX], inner[PATH_MAX], outer[PATH_MAX];
    if (realpath(to, inner) == NULL && (!path_parent(to, parent) || realpath(parent, inner) == NULL))
        return false;
    if (realpath(folder, outer) == NULL)
        return false;
    const size_t length = strlen(outer);
    return strncmp(inner, outer, length) == 0 && (inner[length] == '/' || inner[length] == '\0');
}

int folders_make(const char *to, const char *folder)
{
    if (folders_lies_inside(to, folder))
        return folders_complain("%s lies in %s, which is only read: --to names a folder elsewhere.", to, folder);
    if (mkdir(to, NEW_FOLDER_MODE) == 0)
        return STATUS_CLEAN;
    DIR *opened = errno == EEXIST ? opendir(to) : NULL;
    if (opened == NULL)
        return folders_complain("%s can't be made: %s.", to, strerror(errno));
    unsigned count = 0;
    while (readdir(opened) != NULL)
        count++;
    (void)closedir(opened);
    return count <= 2 ? STATUS_CLEAN
                      : folders_complain("%s is not empty: --to names a new folder, or an empty one.", to);
}

int folders_sync(const char *path)
{
    struct failure failure;
    failure_init(&failure);
    return files_sync_folder(path, &failure) == OK ? STATUS_CLEAN : folders_complain("%s", failure.text);
}

static void note_unfinished(void *context, const char *name)
{
    char *found = context;
    const char *rest = after_namespace(name);
    if (rest != NULL && strcmp(rest, FILES_UNFINISHED) == 0)
        memcpy(found, name, strlen(name) + 1);
}

enum error folders_check_whole(const char *data, struct failure *failure)
{
    char found[NAME_DIGITS + sizeof(FILES_UNFINISHED)] = "";
    if (!backup_visit(data, note_unfinished, found))
        return files_failed(failure, "reading", data);
    if (found[0] == '\0')
        return OK;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s holds %s: a restore or a salvage into it did not come to its end. Remove the folder, and "
                       "begin it again.",
                       data, found);
}

void folders_name_new(struct new_folder *folder, const char *to, const struct target *target)
{
    (void)snprintf(folder->path, sizeof(folder->path), "%s/%s", to, folders_name(target));
    (void)snprintf(folder->unfinished, sizeof(folder->unfinished), "%s" FILES_UNFINISHED, folder->path);
}

int folders_finish(const struct new_folder *folder)
{
    if (rename(folder->unfinished, folder->path) == 0)
        return STATUS_CLEAN;
    return folders_complain("%s can't be renamed to %s: %s.", folder->unfinished, folder->path, strerror(errno));
}
