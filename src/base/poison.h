/* Tells AddressSanitizer which memory our own allocators keep for later: nobody may touch it, just like memory that was
 * given to free(). Without the sanitizer these functions do nothing.
 *
 * Who hands memory out lifts the poison; who takes memory back puts poison on it. The sanitizer knows memory in units
 * of eight bytes: a border inside such a unit may be seen some bytes too late, and never too early. */
#ifndef TALLY_BASE_POISON_H
#define TALLY_BASE_POISON_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) /* gcc */
#define POISON_IS_SEEN
#elif defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define POISON_IS_SEEN
#endif
#endif

/* Marks a function that may read poisoned memory. */
#define POISON_MAY_LOOK __attribute__((no_sanitize_address))

#ifdef POISON_IS_SEEN

#include <sanitizer/asan_interface.h>

static inline void poison_put(const void *ptr, size_t size)
{
    __asan_poison_memory_region(ptr, size);
}

static inline void poison_lift(const void *ptr, size_t size)
{
    __asan_unpoison_memory_region(ptr, size);
}

/* True if a byte of it is poisoned. */
static inline bool poison_covers(const void *ptr, size_t size)
{
    return __asan_region_is_poisoned((void *)(size_t)ptr, size) != NULL;
}

/* Touches a poisoned byte, if there is one, so that the sanitizer reports it. For memory that is handed to code without
 * a sanitizer. */
static inline const void *poison_check(const void *ptr, size_t size)
{
    const volatile char *forbidden = __asan_region_is_poisoned((void *)(size_t)ptr, size);
    if (forbidden != NULL)
        (void)*forbidden;
    return ptr;
}

#else

static inline void poison_put(const void *ptr, size_t size)
{
    (void)ptr;
    (void)size;
}

static inline void poison_lift(const void *ptr, size_t size)
{
    (void)ptr;
    (void)size;
}

static inline bool poison_covers(const void *ptr, size_t size)
{
    (void)ptr;
    (void)size;
    return false;
}

static inline const void *poison_check(const void *ptr, size_t size)
{
    (void)size;
    return ptr;
}

#endif

#endif
