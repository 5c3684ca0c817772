/* For ThreadSanitizer: what is closed by syscall() is closed by close(), which it watches.
 *
 * libuv closes a socket by the system call itself. ThreadSanitizer then does not see that the number is free. Whatever
 * has the number next, in another thread, looks like a race about one descriptor. */

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARGUMENTS_MAX 6

typedef long (*syscall_function)(long number, ...);

static syscall_function real_syscall;

__attribute__((constructor)) static void find_real_syscall(void)
{
    *(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
}

/* In place of the C library's, also for the shared libraries of this program. */
long syscall(long number, ...)
{
    long arguments[ARGUMENTS_MAX];
    va_list list;
    va_start(list, number);
    for (size_t at = 0; at < ARGUMENTS_MAX; at++)
        arguments[at] = va_arg(list, long);
    va_end(list);
    if (number == SYS_close)
        return close((int)arguments[0]);
    return real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
