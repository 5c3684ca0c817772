#include "manual/page_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

int page_file_write(const char *folder, const char *name, const struct buffer *page)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
        return ENAMETOOLONG;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return errno;
    errno = 0;
    const bool is_written = fwrite(page->data_owned, 1, page->size, file) == page->size;
    int failed = is_written ? 0 : errno;
    if (fclose(file) != 0 && failed == 0)
        failed = errno;
    return failed;
}
