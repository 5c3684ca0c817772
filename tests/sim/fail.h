/* How the simulator says that the server did wrong: at once, with the seed, and ends. */
#ifndef TALLY_TESTS_SIM_FAIL_H
#define TALLY_TESTS_SIM_FAIL_H

/* Prints what is wrong, where, and how to replay it; exits with status 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
