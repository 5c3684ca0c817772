#include "tallyd/credentials_file.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads up to `size` bytes; how many, or -1. */
static ssize_t read_whole(int descriptor, uint8_t *text, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = read(descriptor, text + done, size - done);
        if (count == 0)
            break;
        if (count < 0 && errno != EINTR)
            return -1;
        done += count > 0 ? (size_t)count : 0;
    }
    return (ssize_t)done;
}

/* Puts the path before the error message. */
static enum error fail(const char *path, const char *what, struct failure *failure)
{
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "the file of credentials %s: %s", path, what);
}

static enum error parse(int descriptor, size_t size, const char *path, struct credentials **credentials,
                        struct failure *failure)
{
    struct failure inner;
    failure_init(&inner);
    uint8_t *text_owned = memory_allocate(size + 1);
    ssize_t count = read_whole(descriptor, text_owned, size + 1); /* one more than allowed */
    enum error error;
    if (count < 0)
        error = fail(path, strerror(errno), failure);
    else if ((size_t)count != size)
        error = fail(path, "it changes while it is read; try again.", failure);
    else if ((error = credentials_parse(bytes_make(text_owned, size), credentials, &inner)) != OK)
        error = fail(path, inner.text, failure);
    explicit_bzero(text_owned, size + 1);
    free(text_owned);
    return error;
}

enum error credentials_file_read(const char *path, struct credentials **credentials, bool *is_exposed,
                                 struct failure *failure)
{
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold up the loop */
    if (descriptor < 0)
        return fail(path, strerror(errno), failure);
    enum error error = OK;
    if (fstat(descriptor, &status) != 0)
        error = fail(path, strerror(errno), failure);
    else if (!S_ISREG(status.st_mode))
        error = fail(path, "it is no ordinary file.", failure);
    else if ((uint64_t)status.st_size > CREDENTIALS_TEXT_SIZE_MAX)
        error = fail(path, "it has more than 64 MiB.", failure);
    else
        error = parse(descriptor, (size_t)status.st_size, path, credentials, failure);
    if (error == OK)
        *is_exposed = (status.st_mode & S_IROTH) != 0;
    close(descriptor);
    return error;
}
