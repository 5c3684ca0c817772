#include "base/path.h"

#include <stdio.h>
#include <string.h>

bool path_parent(const char *path, char parent[PATH_MAX])
{
    int length = snprintf(parent, PATH_MAX, "%s", path);
    if (length <= 0 || length >= PATH_MAX)
        return false;
    while (length > 1 && parent[length - 1] == '/')
        parent[--length] = '\0';
    while (length > 0 && parent[length - 1] != '/')
        length--;
    if (length == 0)
        memcpy(parent, ".", 2);
    else
        parent[length == 1 ? 1 : length - 1] = '\0';
    return true;
}
