#include "tallyd/archive.h"

#include "backup/files.h"
#include "base/path.h"
#include "platform/random.h"
#include "platform/regular_file.h"
#include "tallyd/folders.h"
#include "tallyd/upgrade.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* DATA/identity and the mark: so many hexadecimal digits. The mark goes on with a blank and the path of DATA. */
#define IDENTITY_DIGITS 32u
#define IDENTITY_NAME "identity"

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

/* --- whose it is -------------------------------------------------------------------------------------------------- */

/* What the mark of an archive says. */
struct mark {
    bool is_there;
    char identity[IDENTITY_DIGITS + 1];
    char data[PATH_MAX]; /* of the folder, when it was marked */
};

static bool is_identity(const char *text)
{
    return strspn(text, "0123456789abcdef") == IDENTITY_DIGITS;
}

/* ENOENT: the folder has none yet. Another number: why it can't be read. */
static int read_identity(const char *data, char identity[IDENTITY_DIGITS + 1])
{
    char *path = files_join(data, IDENTITY_NAME, "");
    const char *why;
    const int descriptor = regular_file_open(path, &why);
    int number = descriptor < 0 ? errno : 0;
    free(path);
    if (number != 0)
        return number;
    const ssize_t count = read(descriptor, identity, IDENTITY_DIGITS);
    identity[count < 0 ? 0 : count] = '\0';
    number = is_identity(identity) ? 0 : EBADMSG;
    (void)close(descriptor);
    return number;
}

static enum error make_identity(const char *data, char identity[IDENTITY_DIGITS + 1], struct failure *failure)
{
    unsigned char bytes[IDENTITY_DIGITS / 2];
    char text[IDENTITY_DIGITS + 2];
    random_fill(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    memcpy(identity, text, IDENTITY_DIGITS + 1);
    text[IDENTITY_DIGITS] = '\n';
    return files_replace_text(data, IDENTITY_NAME, bytes_make(text, IDENTITY_DIGITS + 1), failure);
}

/* A link that leads nowhere: whoever moves all files away, as the page has it, leaves it where it is. */
static void read_mark(const char *archive, struct mark *mark)
{
    char text[PATH_MAX];
    char *path = files_join(archive, ARCHIVE_MARK, "");
    const ssize_t count = readlink(path, text, sizeof(text) - 1);
    free(path);
    *mark = (struct mark){.is_there = count >= 0};
    text[count < 0 ? 0 : count] = '\0';
    if (!is_identity(text))
        return; /* somebody else's: it is nobody's identity */
    (void)snprintf(mark->identity, sizeof(mark->identity), "%.*s", (int)IDENTITY_DIGITS, text);
    if (text[IDENTITY_DIGITS] == ' ')
        (void)snprintf(mark->data, sizeof(mark->data), "%s", text + IDENTITY_DIGITS + 1);
}

static bool has_identity(const char *data, const char *identity)
{
    char found[IDENTITY_DIGITS + 1];
    return read_identity(data, found) == 0 && strcmp(found, identity) == 0;
}

/* Is the archive another folder's? Of two with one identity one is a copy; but a folder that was moved is the same.
 * `identity` empty: the data folder has none yet. */
static enum error check_mark(const struct config *config, const struct mark *mark, const char *identity,
                             struct failure *failure)
{
    char described[384];
    const bool is_other = mark->is_there && strcmp(mark->identity, identity) != 0;
    const bool is_copy = mark->is_there && !is_other && mark->data[0] != '\0' &&
                         !is_same_folder(mark->data, config_data(config)) && has_identity(mark->data, identity);
    if (!is_other && !is_copy)
        return OK;
    config_describe(config, CONFIG_ARCHIVE, described, sizeof(described));
    return failure_set(
        failure, ERROR_INVALID_PARAMETER_VALUE,
        "%s is \"%.200s\", and that is the archive of another data folder%s%.200s%s. Files of the two "
        "have the same names, so each needs an archive of its own. If that folder is gone for good, move "
        "the old archive away as a whole.",
        described, config_text(config, CONFIG_ARCHIVE), mark->data[0] == '\0' ? "" : ", ", mark->data,
        is_copy ? ", of which this one is a copy" : "");
}

/* Puts the mark there, or a newer one in its place. Another server may be faster: then its mark is read again. */
static enum error write_mark(const char *archive, const char *identity, const char *data, bool is_there,
                             struct failure *failure)
{
    char real[PATH_MAX], text[PATH_MAX];
    if (realpath(data, real) == NULL)
        return files_failed(failure, "finding", data);
    const int length = snprintf(text, sizeof(text), "%s %s", identity, real);
    if (length < 0 || (size_t)length >= sizeof(text) - 1)
        text[IDENTITY_DIGITS] = '\0'; /* too long a path is left out */
    char *path = files_join(archive, ARCHIVE_MARK, ""), *newer = files_join(archive, ARCHIVE_MARK, FILES_UNFINISHED);
    enum error error = OK;
    (void)unlink(newer);
    if (!is_there && symlink(text, path) != 0 && errno != EEXIST)
        error = files_failed(failure, "making", path);
    if (is_there && (symlink(text, newer) != 0 || rename(newer, path) != 0))
        error = files_failed(failure, "making", path);
    if (error == OK)
        error = files_sync_folder(archive, failure);
    free(newer);
    free(path);
    return error;
}

/* Makes it this folder's, unless it is another's. */
static enum error claim(const struct config *config, struct failure *failure)
{
    const char *archive = config_text(config, CONFIG_ARCHIVE), *data = config_data(config);
    char identity[IDENTITY_DIGITS + 1] = "";
    struct mark mark;
    const int number = read_identity(data, identity);
    enum error error = OK;
    if (number == ENOENT)
        error = make_identity(data, identity, failure);
    else if (number != 0)
        error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                            "%s/" IDENTITY_NAME " can't be read: %s. Remove it if this folder has no archive yet.",
                            data, number == EBADMSG ? "it is no identity" : strerror(number));
    read_mark(archive, &mark);
    if (error == OK)
        error = check_mark(config, &mark, identity, failure);
    if (error == OK && (!mark.is_there || !is_same_folder(mark.data, data)))
        error = write_mark(archive, identity, data, mark.is_there, failure);
    read_mark(archive, &mark);
    return error == OK ? check_mark(config, &mark, identity, failure) : error;
}

/* --- without a change --------------------------------------------------------------------------------------------- */

/* The folder, or the one that it would be made in. */
static bool find_folder(const char *path, char found[PATH_MAX])
{
    struct stat status;
    (void)snprintf(found, PATH_MAX, "%s", path);
    return stat(path, &status) == 0 || (errno == ENOENT && path_parent(path, found));
}

static bool is_on_other_disk(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev != b.st_dev;
}

/* Where it is, or would be made. */
static bool resolve(const char *path, char real[PATH_MAX])
{
    char parent[PATH_MAX];
    if (realpath(path, real) != NULL)
        return true;
    if (!path_parent(path, parent) || realpath(parent, real) == NULL)
        return false;
    const char *slash = strrchr(path, '/');
    const size_t size = strlen(real);
    const int length = snprintf(real + size, PATH_MAX - size, "/%s", slash == NULL ? path : slash + 1);
    return length >= 0 && (size_t)length < PATH_MAX - size;
}

/* Is it in a folder of the data folder that tallyd removes files from? */
static bool lies_among_ours(const char *archive, const char *data)
{
    char inner[PATH_MAX], outer[PATH_MAX];
    if (!resolve(archive, inner) || realpath(data, outer) == NULL)
        return false;
    const size_t size = strlen(outer);
    if (strncmp(inner, outer, size) != 0 || inner[size] != '/')
        return false;
    char *first = inner + size + 1;
    first[strcspn(first, "/")] = '\0';
    return folders_is_namespace(first) || strncmp(first, UPGRADE_BEFORE, strlen(UPGRADE_BEFORE)) == 0;
}

/* Would a start make the data folder first, and the archive in it? */
static bool comes_with_data(const char *archive, const char *data)
{
    char parent[PATH_MAX];
    struct stat status;
    size_t size = strlen(data);
    while (size > 1 && data[size - 1] == '/')
        size--;
    return stat(data, &status) != 0 && errno == ENOENT && path_parent(archive, parent) && strlen(parent) == size &&
           memcmp(parent, data, size) == 0;
}

enum error archive_check(const struct config *config, struct failure *failure)
{
    const char *archive = config_text(config, CONFIG_ARCHIVE), *data = config_data(config);
    char folder[PATH_MAX], data_folder[PATH_MAX], identity[IDENTITY_DIGITS + 1] = "";
    struct stat status;
    struct mark mark;
    if (archive[0] == '\0' || comes_with_data(archive, data))
        return OK;
    if (!find_folder(archive, folder) || stat(folder, &status) != 0)
        return refuse(config, strerror(errno), failure);
    if (!S_ISDIR(status.st_mode))
        return refuse(config, strerror(ENOTDIR), failure);
    if (access(folder, W_OK | X_OK) != 0)
        return refuse(config, strerror(errno), failure);
    if (is_same_folder(archive, data))
        return refuse(config, "it is the data folder itself", failure);
    if (lies_among_ours(archive, data))
        return refuse(config, "it lies where tallyd removes files, among those of the data folder", failure);
    if (find_folder(data, data_folder) && is_on_other_disk(folder, data_folder))
        return refuse(config, strerror(EXDEV), failure);
    read_mark(archive, &mark);
    const int number = read_identity(data, identity);
    return number == 0 || number == ENOENT ? check_mark(config, &mark, number == 0 ? identity : "", failure) : OK;
}

/* --- at the start ------------------------------------------------------------------------------------------------- */

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
    enum error error = archive_check(config, failure);
    if (error == OK)
        error = files_make_folder(archive, failure);
    if (error == ERROR_DISK_FULL)
        return OK;
    if (error != OK)
        return error == ERROR_DISK_FAILED ? refuse(config, strerror(errno), failure) : error;
    char *from = files_join(data, UPGRADE_VERSION_NAME, ""), *to = files_join(archive, ARCHIVE_TRIAL, "");
    const int number = access(from, F_OK) == 0 ? try_link(from, to) : 0;
    free(from);
    free(to);
    if (number != 0)
        return is_for_want_of_room(number) ? OK : refuse(config, strerror(number), failure);
    error = claim(config, failure);
    return error == ERROR_DISK_FULL ? OK : error;
}
