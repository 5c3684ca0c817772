#include "platform/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int regular_file_open(const char *path, const char **why)
{
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int number = errno;
    if (descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
        return descriptor;
    if (descriptor >= 0) {
        number = EINVAL;
        (void)close(descriptor);
    }
    *why = descriptor >= 0 || number == ENXIO ? "it is no ordinary file" : strerror(number);
    errno = number;
    return -1;
}

bool regular_file_is_given_open(const char *path)
{
    return strcmp(path, "/dev/null") == 0 || strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

int regular_file_open_given(const char *path, const char **why)
{
    if (!regular_file_is_given_open(path))
        return regular_file_open(path, why);
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        *why = strerror(errno);
    return descriptor;
}
