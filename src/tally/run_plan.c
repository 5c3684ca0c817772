#include "tally/run_plan.h"

#include "base/memory.h"
#include "worker/text.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define INPUT_SIZE_MAX (1u << 30)
#define BASE_SIZE_MAX 40 /* how much of the folder's name becomes part of the run's name */

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static bool is_name_character(char character)
{
    return isalnum((unsigned char)character) || character == '-' || character == '_';
}

static int set_names(struct run_plan *plan, const struct invocation *invocation, const char *name)
{
    size_t size = strlen(name);
    bool is_good = size > 0 && size <= RUN_NAME_SIZE_MAX - 5; /* a queue's name has at most 80: tally-run- and -done */
    for (size_t i = 0; i < size; i++)
        is_good = is_good && is_name_character(name[i]);
    if (!is_good)
        return complain_usage(invocation, "--name takes 1 to %d letters, digits, - and _, not \"%s\"",
                              RUN_NAME_SIZE_MAX - 5, name);
    snprintf(plan->batch, sizeof plan->batch, "run-%s", name);
    snprintf(plan->work_queue, sizeof plan->work_queue, "tally-run-%s", name);
    snprintf(plan->result_queue, sizeof plan->result_queue, "tally-run-%s-done", name);
    return EXIT_DONE;
}

/* The last part of a path, with "-" for characters that a name can't have. */
static void make_base(const char *path, char base[BASE_SIZE_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    const char *start = slash == NULL ? path : slash + 1;
    snprintf(base, BASE_SIZE_MAX + 1, "%.*s", BASE_SIZE_MAX, *start == '\0' ? "root" : start);
    for (char *at = base; *at != '\0'; at++)
        if (!is_name_character(*at))
            *at = '-';
}

/* The name made from the subject (`subject`: the folder's path, or all lines) and the command. */
static int make_names(struct run_plan *plan, const struct invocation *invocation, const char *base,
                      struct bytes subject)
{
    char name[RUN_NAME_SIZE_MAX + 1];
    struct buffer identity;

    buffer_init(&identity);
    buffer_append_sized(&identity, subject);
    for (int i = 0; i < invocation->program_count; i++)
        buffer_append_sized(&identity, bytes_from_string(invocation->program[i]));
    snprintf(name, sizeof name, "%s-%016llx", base, (unsigned long long)bytes_hash(buffer_bytes(&identity)));
    buffer_deinit(&identity);
    return set_names(plan, invocation, name);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

struct paths {
    char **items_owned;
    size_t count;
    size_t capacity;
};

static void paths_add(struct paths *paths, char *path)
{
    if (paths->count == paths->capacity) {
        paths->capacity = paths->capacity == 0 ? 256 : paths->capacity * 2;
        paths->items_owned = memory_resize(paths->items_owned, paths->capacity * sizeof *paths->items_owned);
    }
    paths->items_owned[paths->count++] = path;
}

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = memory_allocate(size);
    if (*folder == '\0')
        snprintf(path, size, "%s", name);
    else
        snprintf(path, size, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    return path;
}

/* Sorts an entry of a folder into files and folders, by its path below `root`. Other entries are left out. */
static void sort_in(const char *root, char *path, struct paths *files, struct paths *folders)
{
    struct stat about;
    char *whole = join(root, path);
    bool is_known = lstat(whole, &about) == 0;
    free(whole);
    if (is_known && S_ISREG(about.st_mode))
        paths_add(files, path);
    else if (is_known && S_ISDIR(about.st_mode))
        paths_add(folders, path);
    else
        free(path);
}

static bool read_folder(const char *root, const char *below, struct paths *files, struct paths *folders)
{
    char *whole = join(root, below);
    DIR *stream = opendir(whole);
    struct dirent *entry;

    if (stream == NULL) {
        complain("can't read the folder %s: %s", whole, strerror(errno));
        free(whole);
        return false;
    }
    while ((entry = readdir(stream)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            sort_in(root, join(below, entry->d_name), files, folders);
    closedir(stream);
    free(whole);
    return true;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All regular files below `root`, by their path from there, sorted. */
static bool find_files(const char *root, struct paths *files)
{
    struct paths folders = {.count = 0};
    bool is_good = true;

    paths_add(&folders, memory_duplicate_string(""));
    while (folders.count > 0) {
        char *below = folders.items_owned[--folders.count];
        is_good = is_good && read_folder(root, below, files, &folders);
        free(below);
    }
    free(folders.items_owned);
    if (files->count > 0)
        qsort(files->items_owned, files->count, sizeof *files->items_owned, compare_paths);
    return is_good;
}

static int plan_folder(struct run_plan *plan, const struct invocation *invocation, const char *name,
                       struct unit_map *map)
{
    char real[PATH_MAX];
    char base[BASE_SIZE_MAX + 1];
    struct paths files = {.count = 0};
    int status = EXIT_LOCAL;

    if (realpath(plan->folder, real) == NULL) {
        complain("can't read the folder %s: %s", plan->folder, strerror(errno));
        return EXIT_LOCAL;
    }
    if (find_files(plan->folder, &files)) {
        for (size_t i = 0; i < files.count; i++)
            unit_map_add(map, text_escape(files.items_owned[i]));
        make_base(real, base);
        status = name != NULL ? set_names(plan, invocation, name)
                              : make_names(plan, invocation, base, bytes_from_string(real));
    }
    for (size_t i = 0; i < files.count; i++)
        free(files.items_owned[i]);
    free(files.items_owned);
    return status;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

/* Adds a line. A line that came before becomes a unit of its own, marked with a number: escaped text has no "%*". */
static void add_line(struct unit_map *map, const char *line)
{
    char *text = text_escape(line);
    char *key = unit_key(text);
    struct unit *first = unit_map_find(map, key);
    free(key);
    if (first != NULL) {
        size_t size = strlen(text) + 16;
        text = memory_resize(text, size);
        snprintf(text + strlen(text), 16, "%%*%u", ++first->repeats + 1);
    }
    unit_map_add(map, text);
}

static int plan_lines(struct run_plan *plan, const struct invocation *invocation, const char *name,
                      struct unit_map *map)
{
    struct buffer input;
    struct lines lines;
    int status = EXIT_LOCAL;

    buffer_init(&input);
    if (input_read(&input, INPUT_SIZE_MAX)) {
        status = name != NULL ? set_names(plan, invocation, name)
                              : make_names(plan, invocation, "lines", buffer_bytes(&input));
        lines_init(&lines, (char *)input.data_owned);
        for (size_t i = 0; i < lines.count; i++)
            add_line(map, lines.items_owned[i]);
        lines_deinit(&lines);
    }
    buffer_deinit(&input);
    return status;
}

int run_plan_init(struct run_plan *plan, const struct invocation *invocation, const char *name, struct unit_map *map)
{
    const char *source = invocation->arguments[0];
    bool is_lines = strcmp(source, "-") == 0;
    *plan = (struct run_plan){.folder = is_lines ? NULL : source};
    return is_lines ? plan_lines(plan, invocation, name, map) : plan_folder(plan, invocation, name, map);
}

char *run_plan_argument(const struct run_plan *plan, struct arena *arena, const char *text)
{
    char *raw = text_unescape(arena, text);
    size_t size = plan->folder == NULL ? 0 : strlen(plan->folder);
    if (size == 0)
        return raw;
    return text_format(arena, "%s%s%s", plan->folder, plan->folder[size - 1] == '/' ? "" : "/", raw);
}
