/* Threads of a server. */
#ifndef TALLY_PLATFORM_THREAD_H
#define TALLY_PLATFORM_THREAD_H

#include <pthread.h>

/* Starts a thread that takes no signals: those are for the loop's. 0, or what pthread_create() says. */
int thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

#endif
