/* nodes: registers so many nodes in PostgreSQL as daemons do (postgres/registry.h), without daemons. For tests of what
 * a node knows of its cluster, and to measure what many nodes cost.
 *
 * usage: nodes CONNINFO PREFIX COUNT SECRET [LEASE_MS]
 *
 * Registers PREFIX0, PREFIX1, …; prints "ready", then what they report ("said NODE TEXT"), and an answer to each line
 * on standard input:
 *
 *     view NODE            nodes=N alive=NAME,… own=NAME settled=0|1 logs=N
 *     ask NODE LOG         owner=NAME wanted=NAME stand-by=NAME take=0|1 give-up=0|1 get-ready=0|1
 *     set NODE LOG 0|1     done (registry_set_ready())
 *
 * NODE is a number. Ends, and has them leave, at the end of standard input. */
#include "base/memory.h"
#include "postgres/registry.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct node {
    char name[VIEW_NAME_SIZE];
    char address[VIEW_NAME_SIZE];
    struct registry *registry;
};

static void report(void *context, const char *text)
{
    const struct node *node = context;
    printf("said %s %s\n", node->name, text);
    (void)fflush(stdout);
}

static void refuse(void *context)
{
    report(context, "refused");
}

static const char *name_of(const struct view *view, uint32_t index)
{
    return index == VIEW_NONE ? "-" : view->nodes_owned[index].name;
}

static void answer_view(const struct view *view)
{
    printf("nodes=%zu alive=", view->node_count);
    const char *separator = "";
    for (size_t i = 0; i < view->node_count; i++)
        if (view->nodes_owned[i].is_alive) {
            printf("%s%s", separator, view->nodes_owned[i].name);
            separator = ",";
        }
    printf(" own=%s settled=%d logs=%zu\n", name_of(view, view->own), view->is_settled, view->log_count);
}

static void answer_ask(const struct view *view, struct bytes name)
{
    const struct view_log *log = view_find_log(view, name);
    printf("owner=%s wanted=%s stand-by=%s take=%d give-up=%d get-ready=%d\n",
           log == NULL ? "-" : name_of(view, log->owner), log == NULL ? "-" : name_of(view, log->wanted),
           log == NULL ? "-" : name_of(view, log->stand_by), view_may_take(view, name), view_should_give_up(view, name),
           view_should_get_ready(view, name));
}

static void answer(const struct node *nodes, size_t count, const char *line)
{
    size_t index = 0;
    int is_ready = 0;
    char log[VIEW_NAME_SIZE] = "";
    const bool is_view = sscanf(line, "view %zu", &index) == 1;
    const bool is_set = sscanf(line, "set %zu %63s %d", &index, log, &is_ready) == 3;
    const bool is_ask = !is_set && sscanf(line, "ask %zu %63s", &index, log) == 2;
    if (index >= count || !(is_view || is_set || is_ask)) {
        printf("what? %s", line);
        return;
    }
    if (is_set) {
        registry_set_ready(nodes[index].registry, bytes_from_string(log), is_ready != 0);
        printf("done\n");
        return;
    }
    const struct view *view = registry_acquire(nodes[index].registry);
    if (view == NULL)
        printf("no view yet\n");
    else if (is_view)
        answer_view(view);
    else
        answer_ask(view, bytes_from_string(log));
    registry_release(view);
}

static bool begin(struct node *node, const char *conninfo, const char *secret, uint32_t lease_ms)
{
    struct failure failure;
    failure_init(&failure);
    const struct registry_options options = {.postgres = {.conninfo = conninfo,
                                                          .log = "",
                                                          .node = node->name,
                                                          .address = node->address,
                                                          .lease_ms = lease_ms},
                                             .secret = bytes_from_string(secret),
                                             .report = report,
                                             .refuse = refuse,
                                             .context = node};
    if (registry_create(&options, &node->registry, &failure) == OK)
        return true;
    report(node, failure.text);
    return false;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        (void)fprintf(stderr, "usage: nodes CONNINFO PREFIX COUNT SECRET [LEASE_MS]\n");
        return 2;
    }
    const size_t count = strtoul(argv[3], NULL, 10);
    const uint32_t lease_ms = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 3000;
    struct node *nodes = memory_allocate_zeroed((count + 1) * sizeof(*nodes));
    size_t begun = 0;
    for (; begun < count; begun++) {
        (void)snprintf(nodes[begun].name, sizeof(nodes[begun].name), "%.40s%zu", argv[2], begun);
        (void)snprintf(nodes[begun].address, sizeof(nodes[begun].address), "127.0.0.1:%zu", 1 + begun);
        if (!begin(&nodes[begun], argv[1], argv[4], lease_ms))
            break;
    }
    if (begun == count)
        printf("ready\n");
    char line[256];
    while (begun == count && fflush(stdout) == 0 && fgets(line, sizeof(line), stdin) != NULL)
        answer(nodes, count, line);
    for (size_t i = 0; i < begun; i++)
        registry_destroy(nodes[i].registry);
    free(nodes);
    return begun == count ? 0 : 1;
}
