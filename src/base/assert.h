/* ASSERT: our own bugs stop the program, in every build. Never for outside input, never with side effects. */
#ifndef TALLY_BASE_ASSERT_H
#define TALLY_BASE_ASSERT_H

#include <stddef.h>

/* What <assert.h> defines; not included, because a build that searches this folder would find this file instead. */
#ifndef static_assert
#define static_assert _Static_assert
#endif

/* Prints the broken claim and its place on standard error, then aborts. */
__attribute__((noreturn, cold)) void assert_failed(const char *claim, const char *file, int line);

#define ASSERT(claim) ((claim) ? (void)0 : assert_failed(#claim, __FILE__, __LINE__))

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The struct that holds `member` at `ptr`. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
