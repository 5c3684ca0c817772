#include "owners_fiber.h"

#include "base/assert.h"
#include "base/memory.h"
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE ((size_t)4 << 20)
#else
#define STACK_SIZE ((size_t)1 << 20)
#endif

#define FIBERS_MAX 256u

/* Where something goes on. swapcontext() asks the system for the mask of signals each time, which took a fifth of a
 * run; _longjmp() does not. The sanitizer knows only the first. */
struct place {
    ucontext_t context;
#ifndef __SANITIZE_ADDRESS__
    bool has_begun;
    jmp_buf at;
#endif
};

struct fiber {
    struct process *process;
    void (*run)(void *context);
    void *context;
    uint64_t number; /* of its newest wait: a call that resumes an older one does nothing */
    bool is_waiting;
    bool is_over;
    void *stack;
    struct place place;
    void *fake_stack; /* of the address sanitizer */
};

struct call {
    uint64_t when;
    uint64_t order; /* in which it was asked for */
    void (*call)(void *context, uint64_t number);
    void *context;
    uint64_t number;
};

static struct {
    uint64_t now;
    uint64_t orders;
    struct call *calls_owned; /* a heap */
    size_t count;
    size_t capacity;
    struct fiber *fibers[FIBERS_MAX];
    unsigned fiber_count;
    struct fiber *current;
    struct place outside;
    void *outside_fake_stack;
    const void *outside_stack;
    size_t outside_size;
} sim;

uint64_t sim_now(void)
{
    return sim.now;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static bool comes_before(const struct call *one, const struct call *other)
{
    return one->when != other->when ? one->when < other->when : one->order < other->order;
}

static void swap(size_t one, size_t other)
{
    const struct call kept = sim.calls_owned[one];
    sim.calls_owned[one] = sim.calls_owned[other];
    sim.calls_owned[other] = kept;
}

void sim_at(uint64_t when, void (*call)(void *context, uint64_t number), void *context, uint64_t number)
{
    ARRAY_GROW(sim.calls_owned, sim.count, sim.capacity);
    sim.calls_owned[sim.count] = (struct call){.when = when < sim.now ? sim.now : when,
                                               .order = sim.orders++,
                                               .call = call,
                                               .context = context,
                                               .number = number};
    for (size_t at = sim.count++; at > 0 && comes_before(&sim.calls_owned[at], &sim.calls_owned[(at - 1) / 2]);
         at = (at - 1) / 2)
        swap(at, (at - 1) / 2);
}

static struct call take_first(void)
{
    const struct call first = sim.calls_owned[0];
    sim.calls_owned[0] = sim.calls_owned[--sim.count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t below = 2 * at + 1; below <= 2 * at + 2; below++)
            if (below < sim.count && comes_before(&sim.calls_owned[below], &sim.calls_owned[least]))
                least = below;
        if (least == at)
            return first;
        swap(at, least);
        at = least;
    }
}

bool sim_step(void)
{
    ASSERT(sim.current == NULL);
    if (sim.count == 0)
        return false;
    const struct call call = take_first();
    sim.now = call.when;
    call.call(call.context, call.number);
    return true;
}

/* --- fibers ------------------------------------------------------------------------------------------------------- */

static void switch_places(struct place *from, struct place *to)
{
#ifdef __SANITIZE_ADDRESS__
    const int result = swapcontext(&from->context, &to->context);
    ASSERT(result == 0);
#else
    from->has_begun = true;
    if (_setjmp(from->at) != 0)
        return;
    if (to->has_begun)
        _longjmp(to->at, 1);
    (void)setcontext(&to->context);
    ASSERT(false);
#endif
}

static void enter_fiber(struct fiber *fiber)
{
    sim.current = fiber;
    fiber->is_waiting = false;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&sim.outside_fake_stack, fiber->stack, STACK_SIZE);
#endif
    switch_places(&sim.outside, &fiber->place);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(sim.outside_fake_stack, NULL, NULL);
#endif
    sim.current = NULL;
}

static void leave_fiber(struct fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fiber->is_over ? NULL : &fiber->fake_stack, sim.outside_stack, sim.outside_size);
#endif
    switch_places(&fiber->place, &sim.outside);
    ASSERT(!fiber->is_over);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &sim.outside_stack, &sim.outside_size);
#endif
}

static void run_fiber(void)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, &sim.outside_stack, &sim.outside_size);
#endif
    sim.current->run(sim.current->context);
    sim.current->is_over = true;
    leave_fiber(sim.current);
}

static void resume(void *context, uint64_t number)
{
    struct fiber *fiber = context;
    if (fiber->is_over || !fiber->is_waiting || fiber->number != number)
        return;
    if (fiber->process->stopped_until > sim.now)
        sim_at(fiber->process->stopped_until, resume, fiber, number);
    else
        enter_fiber(fiber);
}

/* One that is over gives its place, with its stack. */
static struct fiber *take_place(void)
{
    for (unsigned i = 0; i < sim.fiber_count; i++)
        if (sim.fibers[i]->is_over)
            return sim.fibers[i];
    ASSERT(sim.fiber_count < FIBERS_MAX);
    struct fiber *fiber = memory_allocate_zeroed(sizeof(*fiber));
    fiber->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(fiber->stack != MAP_FAILED);
    sim.fibers[sim.fiber_count++] = fiber;
    return fiber;
}

static void make_place(struct place *place, void *stack)
{
    *place = (struct place){0};
    const int result = getcontext(&place->context);
    ASSERT(result == 0);
    place->context.uc_stack = (stack_t){.ss_sp = stack, .ss_size = STACK_SIZE};
    place->context.uc_link = NULL;
    makecontext(&place->context, run_fiber, 0);
}

struct fiber *fiber_start(struct process *process, void (*run)(void *context), void *context)
{
    struct fiber *fiber = take_place();
    make_place(&fiber->place, fiber->stack);
    fiber->process = process;
    fiber->run = run;
    fiber->context = context;
    fiber->is_over = false;
    fiber->is_waiting = true;
    sim_at(sim.now, resume, fiber, ++fiber->number);
    return fiber;
}

void fiber_kill(struct fiber *fiber)
{
    ASSERT(fiber != sim.current);
    fiber->is_over = true;
    fiber->number++;
}

void fiber_kill_all(const struct process *process)
{
    for (unsigned i = 0; i < sim.fiber_count; i++)
        if (sim.fibers[i]->process == process && !sim.fibers[i]->is_over)
            fiber_kill(sim.fibers[i]);
}

struct fiber *fiber_current(void)
{
    return sim.current;
}

struct process *fiber_process(void)
{
    return sim.current == NULL ? NULL : sim.current->process;
}

void fiber_wait(uint64_t until)
{
    struct fiber *fiber = sim.current;
    ASSERT(fiber != NULL);
    fiber->is_waiting = true;
    fiber->number++;
    if (until != NEVER)
        sim_at(until, resume, fiber, fiber->number);
    leave_fiber(fiber);
}

void fiber_wake(struct fiber *fiber)
{
    if (!fiber->is_over && fiber->is_waiting)
        sim_at(sim.now, resume, fiber, fiber->number);
}
