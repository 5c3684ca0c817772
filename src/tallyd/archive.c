#include "tallyd/archive.h"

#include "backup/files.h"
#include "tallyd/upgrade.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum error refuse(const struct config *config, const char *why, struct failure *failure)
{
    char described[384];
    config_describe(config, CONFIG_ARCHIVE, described, sizeof(described));
    return failure_set(
        failure, ERROR_INVALID_PARAMETER_VALUE,
        "%s is \"%.200s\", and can't take files of the log: %s. It must be a folder on the file system of "
        "the data folder, where this user may make hard links.",
        described, config_text(config, CONFIG_ARCHIVE), why);
}

static bool is_same_folder(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool is_for_want_of_room(int number)
{
    return number == ENOSPC || number == EDQUOT;
}

/* errno, or 0. */
static int try_link(const char *from, const char *to)
{
    (void)unlink(to); /* a killed process left it */
    if (link(from, to) != 0)
        return errno;
    return unlink(to) == 0 ? 0 : errno;
}

enum error archive_try(const struct config *config, struct failure *failure)
{
    const char *archive = config_text(config, CONFIG_ARCHIVE), *data = config_data(config);
    if (archive[0] == '\0')
        return OK;
    const enum error error = files_make_folder(archive, failure);
    if (error == ERROR_DISK_FULL)
        return OK;
    if (error != OK)
        return refuse(config, strerror(errno), failure);
    if (is_same_folder(archive, data))
        return refuse(config, "it is the data folder itself", failure);
    char *from = files_join(data, UPGRADE_VERSION_NAME, ""), *to = files_join(archive, ARCHIVE_TRIAL, "");
    const int number = access(from, F_OK) == 0 ? try_link(from, to) : 0;
    free(from);
    free(to);
    return number == 0 || is_for_want_of_room(number) ? OK : refuse(config, strerror(number), failure);
}
