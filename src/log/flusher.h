/* The log thread: makes sealed frames durable one after the other while the loop goes on collecting the next.
 *
 * At most one frame is with the thread at a time; the loop hands over the next one when the last is durable. That is
 * group commit: the more requests arrive during a flush, the more the next frame carries. */
#ifndef TALLY_LOG_FLUSHER_H
#define TALLY_LOG_FLUSHER_H

#include "log/log.h"

struct flusher;

/* Starts the thread. `wake(context)` is called on it each time a frame has become durable or the log has failed; it
 * must only pass the news on to the loop's thread (uv_async_send). While no frame comes, the thread asks the log once
 * a second whether its folder is still there. */
struct flusher *flusher_create(struct log *log, void (*wake)(void *context), void *context);

/* Waits for the frame in work, stops the thread. */
void flusher_destroy(struct flusher *flusher);

/* Hands over a sealed frame; its bytes are borrowed until it is durable. Only when flusher_is_idle(). */
void flusher_submit(struct flusher *flusher, struct bytes frame);
bool flusher_is_idle(const struct flusher *flusher);

/* Sequence of the newest durable frame handed over so far (0: none); or, after a failure, the error and its text. */
uint64_t flusher_durable(const struct flusher *flusher);
enum error flusher_failure(const struct flusher *flusher, struct failure *failure);

#endif
