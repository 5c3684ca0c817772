/* The log threads: they make sealed frames durable while the loop goes on collecting the next.
 *
 * The threads are shared by all logs: a log has one while it has work for it, and none while nobody writes to it. There
 * is always one thread, and of several logs a second one, so that one whose disk hangs keeps nobody from looking at the
 * others. Another is started where a frame would have to wait for one, up to FLUSHER_THREADS_MAX, and ends when it has
 * had nothing to do for a while.
 *
 * At most one frame of a log is with a thread at a time; the loop hands over the next one when the last is durable.
 * That is group commit: the more requests arrive during a flush, the more the next frame carries. */
#ifndef TALLY_LOG_FLUSHER_H
#define TALLY_LOG_FLUSHER_H

#include "log/log.h"

#define FLUSHER_THREADS_MAX 64u

struct flushers;
struct flusher;

/* The threads; and their end, when every flusher has been destroyed. */
struct flushers *flushers_create(void);
void flushers_destroy(struct flushers *flushers);

/* While no frame comes, a log is asked every so many milliseconds whether it can still be written (log_confirm()), at
 * least once a second. */
void flushers_check_often(struct flushers *flushers, unsigned every_ms);

/* How many threads there are now. Any thread. */
size_t flushers_thread_count(struct flushers *flushers);

/* The place of a log among them. `wake(context)` is called on a log thread each time a frame has become durable or the
 * log has failed; it must only pass the news on to the loop's thread (uv_async_send). While no frame comes, the log is
 * asked once a second whether its folder is still there. */
struct flusher *flusher_create(struct flushers *flushers, struct log *log, void (*wake)(void *context), void *context);

/* The log is given up: a frame that no thread works on yet is not written, nor is one that comes. */
void flusher_abandon(struct flusher *flusher);

/* Waits for the frame in work. */
void flusher_destroy(struct flusher *flusher);

/* Hands over a sealed frame; its bytes are borrowed until it is durable. Only when flusher_is_idle(). */
void flusher_submit(struct flusher *flusher, struct bytes frame);
bool flusher_is_idle(const struct flusher *flusher);

/* Sequence of the newest durable frame handed over so far (0: none); or, after a failure, the error and its text. */
uint64_t flusher_durable(const struct flusher *flusher);
enum error flusher_failure(const struct flusher *flusher, struct failure *failure);

#endif
