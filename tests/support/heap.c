/* The memory of a test program. Linked into every program that uses what stands in this folder.
 *
 * What a test frees stays with its process: each test makes a server of its own, and to get its pages from the kernel
 * again took two thirds of the time.
 *
 * If the variable TALLY_UNFREED names a file, the program writes there when it ends how many bytes it has not freed.
 * The C library counts what it keeps for a thread's next allocation as not freed, unless glibc.malloc.tcache_count
 * is 0. */
#include <features.h>
#ifdef __GLIBC__
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void keep_freed_memory(void)
{
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most that it takes */
}

__attribute__((destructor)) static void write_unfreed(void)
{
    const size_t unfreed = mallinfo2().uordblks;
    const char *path = getenv("TALLY_UNFREED");
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file == NULL)
        return;
    fprintf(file, "%zu\n", unfreed);
    fclose(file);
}
#endif
