/* What a test frees stays with its process: each test makes a server of its own, and to get its pages from the kernel
 * again took two thirds of the time. Linked into every program that uses what stands in this folder. */
#include <features.h>
#ifdef __GLIBC__
#include <malloc.h>

__attribute__((constructor)) static void keep_freed_memory(void)
{
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most that it takes */
}
#endif
