/* Can bytes of a mapped file be read? Touching a page that the disk can't read ends the process (SIGBUS) with every
 * namespace in it, and again after each restart. So before mapped bytes are handed out, this reads their missing pages
 * in a way that returns an error instead of a signal.
 *
 * The answer is remembered for up to a second, also for the following pages that are in memory: the system does not
 * drop a page that soon. Without this, each read of a few hundred bytes would cost a system call. Belongs to one
 * thread. */
#ifndef TALLY_LOG_PAGE_CHECK_H
#define TALLY_LOG_PAGE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE_CHECK_RUNS 64u

struct page_check {
    struct page_run {
        uintptr_t start;
        uintptr_t end;
        int64_t second; /* of the monotonic clock, when these pages were found readable */
    } runs[PAGE_CHECK_RUNS];
};

/* Waits for the disk where the bytes are not in memory. O(pages), and no system call where the answer is remembered.
 * True where the system can't answer. */
bool page_check_is_readable(struct page_check *check, const uint8_t *memory, uint64_t size);

/* Forgets the answers, because something was mapped or unmapped. */
void page_check_forget(struct page_check *check);

#endif
