/* The forked child that writes a snapshot (engine/checkpoint.c), as a fiber with a number and a connection of its own.
 *
 * A fiber can't go on where fork() returns for the second time, and it shares its owner's memory. So the state is
 * encoded at the moment of the fork, the disk is copied, and this file does what child_work() does, step by step. The
 * owner's side runs as it is. */
#include "base/buffer.h"
#include "base/memory.h"
#include "core/core.h"
#include "engine/checkpoint.h"
#include "engine/namespace.h"
#include "log/segment.h"
#include "owners.h"
#include "owners_libpq.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>

#define CHILDREN_MAX 64u
#define FIRST_PID 50000
#define LOOK_US 2000u

enum { CHILD_DONE = 0, CHILD_FAILED = 1, CHILD_LEFT_SEGMENTS = 2, CHILD_LEFT_SNAPSHOT = 3 };

struct owners_child {
    struct process process;
    const struct process *owner;
    struct checkpoint *checkpoint; /* the owner's, for what both share */
    struct snapshot_point point;
    struct checkpoint_shared *shared;
    struct disk *disk;
    struct buffer state;
    struct fiber *fiber;
    bool is_over;
    bool is_reaped;
    int status;
};

static struct owners_child *children[CHILDREN_MAX];
static int forks;
static struct checkpoint *starting; /* the one that forks */

/* --- what the child does ------------------------------------------------------------------------------------------ */

static enum error write_state(struct owners_child *child, struct failure *failure)
{
    struct snapshot_writer *writer;
    enum error error = snapshot_begin(child->disk, &child->point, &writer, failure);
    if (error != OK)
        return error;
    error = snapshot_append(writer, buffer_bytes(&child->state), failure);
    const enum error finished = snapshot_finish(writer, failure);
    return error == OK ? finished : error;
}

struct cut_segments {
    uint64_t starts[256];
    unsigned count;
};

static void visit_segment(void *context, const char *name)
{
    struct cut_segments *found = context;
    uint64_t start;
    if (segment_name_decode(name, &start) && found->count < ARRAY_LENGTH(found->starts))
        found->starts[found->count++] = start;
}

/* log_trim() with the child's disk. */
static enum error trim(const struct owners_child *child, struct failure *failure)
{
    const uint64_t size = core_segment_size(child->checkpoint->core);
    struct cut_segments found = {.count = 0};
    enum error first = child->disk->operations->list(child->disk, visit_segment, &found, failure);
    for (unsigned i = 0; i < found.count; i++) {
        const uint64_t ordinal = found.starts[i] / size;
        if (ordinal >= child->point.position / size ||
            extent_is_among(child->shared->needed, child->shared->needed_count, ordinal))
            continue;
        char name[SEGMENT_NAME_SIZE];
        segment_name(found.starts[i], name);
        const enum error error = child->disk->operations->remove(child->disk, name, failure);
        first = first == OK ? error : first;
    }
    return first;
}

static int work(struct owners_child *child, struct failure *failure)
{
    if (write_state(child, failure) != OK)
        return CHILD_FAILED;
    atomic_store(&child->shared->is_written, true);
    while (child->checkpoint->word >= 0) /* the owner closes it when it says that the child may publish */
        fiber_wait(sim_now() + LOOK_US);
    if (snapshot_publish(child->disk, &child->point, failure) != OK)
        return CHILD_FAILED;
    const bool is_alone = snapshot_remove_older(child->disk, &child->point, failure) == OK;
    if (trim(child, failure) != OK)
        return CHILD_LEFT_SEGMENTS;
    return is_alone ? CHILD_DONE : CHILD_LEFT_SNAPSHOT;
}

static void run(void *context)
{
    struct owners_child *child = context;
    struct failure failure;
    failure_init(&failure);
    const int result = work(child, &failure);
    if (result != CHILD_DONE)
        checkpoint_shared_explain(child->shared, &failure);
    owners_trace("the child %d of process %d ends with %d", child->process.pid, child->owner->pid, result);
    child->is_over = true;
    child->status = result << 8;
    network_kill(&child->process);
}

/* --- what the owner calls ----------------------------------------------------------------------------------------- */

static void append_piece(void *context, struct bytes piece)
{
    buffer_append_bytes(context, piece);
}

enum error __real_checkpoint_start(struct checkpoint *checkpoint, const struct snapshot_point *point, bool in_line,
                                   struct failure *failure);
enum error __wrap_checkpoint_start(struct checkpoint *checkpoint, const struct snapshot_point *point, bool in_line,
                                   struct failure *failure);
enum error __wrap_checkpoint_start(struct checkpoint *checkpoint, const struct snapshot_point *point, bool in_line,
                                   struct failure *failure)
{
    starting = checkpoint;
    return __real_checkpoint_start(checkpoint, point, in_line, failure);
}

static unsigned take_place(void)
{
    unsigned place = 0;
    while (place < CHILDREN_MAX && children[place] != NULL && !children[place]->is_reaped)
        place++;
    ASSERT(place < CHILDREN_MAX);
    return place;
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    if (fiber_current() == NULL)
        return __real_fork();
    const struct process *owner = fiber_process();
    struct owners_child *child = memory_allocate_zeroed(sizeof(*child));
    *child = (struct owners_child){.process = *owner,
                                   .owner = owner,
                                   .checkpoint = starting,
                                   .point = starting->point,
                                   .shared = starting->shared_owned,
                                   .disk = owners_disk_fork(starting->disk)};
    child->process.pid = FIRST_PID + ++forks;
    buffer_init(&child->state);
    core_encode(starting->core, append_piece, &child->state);
    children[take_place()] = child;
    child->fiber = fiber_start(&child->process, run, child);
    return child->process.pid;
}

static struct owners_child *find_child(pid_t pid)
{
    for (unsigned i = 0; i < CHILDREN_MAX; i++)
        if (children[i] != NULL && children[i]->process.pid == pid)
            return children[i];
    return NULL;
}

static void kill_child(struct owners_child *child)
{
    if (child->is_over)
        return;
    child->is_over = true;
    child->status = SIGKILL;
    fiber_kill(child->fiber);
    network_kill(&child->process);
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    struct owners_child *child = find_child(pid);
    ASSERT(child != NULL && number == SIGKILL);
    kill_child(child);
    return 0;
}

pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (fiber_current() == NULL)
        return __real_waitpid(pid, status, options);
    struct owners_child *child = find_child(pid);
    ASSERT(child != NULL && (child->is_over || (options & WNOHANG) != 0));
    if (!child->is_over)
        return 0;
    if (status != NULL)
        *status = child->status;
    child->is_reaped = true;
    return pid;
}

void owners_child_cut(const struct process *owner, uint64_t until)
{
    for (unsigned i = 0; i < CHILDREN_MAX; i++)
        if (children[i] != NULL && children[i]->owner == owner && !children[i]->is_over)
            network_cut(&children[i]->process, until);
}

void owners_child_kill(const struct process *owner)
{
    for (unsigned i = 0; i < CHILDREN_MAX; i++)
        if (children[i] != NULL && children[i]->owner == owner) {
            kill_child(children[i]);
            children[i]->is_reaped = true;
        }
}
