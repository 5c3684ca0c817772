/* Paths as texts: nothing here asks the file system. */
#ifndef TALLY_BASE_PATH_H
#define TALLY_BASE_PATH_H

#include <limits.h>
#include <stdbool.h>

/* The folder that a path lies in: "." of a name alone. False: the path is empty, or longer than PATH_MAX. */
bool path_parent(const char *path, char parent[PATH_MAX]);

#endif
