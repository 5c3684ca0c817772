/* Can bytes of a mapped file be looked at? A page that the disk does not give ends the process that touches it
 * (SIGBUS), with every namespace in it, and again after each restart. So whoever hands out mapped bytes first asks for
 * those of their pages that are not in memory, in a way that gives an error instead of a signal.
 *
 * The answer is remembered until the second is over, for the pages behind that are in memory, too: one that was there a
 * moment ago is not taken away before that, and asking costs a system call, which each read of a few hundred bytes
 * would otherwise make. Belongs to one thread. */
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
 * Where the system can't be asked, true. */
bool page_check_is_readable(struct page_check *check, const uint8_t *memory, uint64_t size);

/* Addresses mean something else from now on: something was mapped or unmapped. */
void page_check_forget(struct page_check *check);

#endif
