/* Pages that the disk may not give. See page_check.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* process_vm_readv */
#endif
#include "log/page_check.h"

#include "base/assert.h"
#include "base/bytes.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define PAGES_AT_ONCE 64u
#define RUN_SIZE ((uintptr_t)256 * 1024) /* bytes that one remembered answer covers */

static uintptr_t page_size(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Has the kernel read one byte of each page. */
static bool is_read(uintptr_t start, uintptr_t end)
{
    struct iovec pages[PAGES_AT_ONCE];
    uint8_t bytes[PAGES_AT_ONCE];
    for (uintptr_t at = start; at < end;) {
        size_t count = 0;
        for (; at < end && count < PAGES_AT_ONCE; at += page_size())
            pages[count++] = (struct iovec){.iov_base = (void *)at, .iov_len = 1};
        const struct iovec into = {.iov_base = bytes, .iov_len = count};
        const ssize_t size = process_vm_readv(getpid(), &into, 1, pages, count, 0);
        if (size < 0)
            return errno != EFAULT; /* anything else says nothing about the pages */
        if ((size_t)size < count)
            return false;
    }
    return true;
}

/* Whole pages. */
static bool are_given(uintptr_t start, uintptr_t end)
{
    while (madvise((void *)start, end - start, MADV_POPULATE_READ) != 0) {
        if (errno == EINVAL)
            return is_read(start, end); /* Linux before 5.14 does not know it */
        if (errno != EINTR)
            return errno != EFAULT && errno != EHWPOISON && errno != EIO;
    }
    return true;
}

/* The end of the pages from `start` on that are in memory, as far as it looks: 64 pages, or the end of the map. Those
 * are read already. */
static uintptr_t resident_end(uintptr_t start)
{
    unsigned char pages[PAGES_AT_ONCE];
    size_t count = PAGES_AT_ONCE;
    while (count > 0 && mincore((void *)start, count * page_size(), pages) != 0)
        count /= 2;
    size_t resident = 0;
    while (resident < count && (pages[resident] & 1) != 0)
        resident++;
    return start + resident * page_size();
}

bool page_check_is_readable(struct page_check *check, const uint8_t *memory, uint64_t size)
{
    ASSERT(memory != NULL && size > 0);
    const uintptr_t start = (uintptr_t)memory, end = start + size;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    struct page_run *run = &check->runs[start / RUN_SIZE % PAGE_CHECK_RUNS];
    if (run->second == now.tv_sec && run->start <= start && end <= run->end)
        return true;
    const uintptr_t first = start / page_size() * page_size();
    const uintptr_t last = (end + page_size() - 1) / page_size() * page_size();
    const uintptr_t resident = resident_end(first);
    if (resident < last && !are_given(resident, last))
        return false;
    *run = (struct page_run){.start = first, .end = resident < last ? last : resident, .second = now.tv_sec};
    return true;
}

void page_check_forget(struct page_check *check)
{
    memset(check, 0, sizeof(*check));
}
