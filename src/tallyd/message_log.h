/* The daemon's messages, on their way to standard error or standard output: a bounded queue of lines, and a thread that
 * writes them.
 *
 * The reader of the other end may stop reading, and then a write blocks. Here only that thread waits. A line that does
 * not fit into the queue is counted and dropped; once there is room, a line says how many were. Notices, such as what
 * administrators did, get half of the queue at most, so that there is room for what goes wrong. */
#ifndef TALLY_TALLYD_MESSAGE_LOG_H
#define TALLY_TALLYD_MESSAGE_LOG_H

#include "tallyd/message_format.h"

#include <limits.h>

#define MESSAGE_LOG_SIZE ((size_t)64 * 1024) /* bytes of lines that wait */
#define MESSAGE_LOG_LINE_SIZE MESSAGE_LINE_SIZE

struct message_log;

/* `descriptor` is borrowed. `name` names it in the line about dropped lines; static. Begins the thread. */
struct message_log *message_log_create(int descriptor, const char *name);

/* How its lines look from now on; at first plain. Any thread. */
void message_log_set_format(struct message_log *log, const struct message_format *format);

/* Adds a line; the newline is added. It never waits for the reader. Any thread. The first has the level that is usual
 * for the stream: warning on standard error, else info. */
__attribute__((format(printf, 2, 3))) void message_log_say(struct message_log *log, const char *format, ...);
__attribute__((format(printf, 3, 4))) void message_log_tell(struct message_log *log, enum message_level level,
                                                            const char *format, ...);

/* Waits until all lines so far are written, at most `wait_ms`. False: time ran out. Any thread. */
bool message_log_flush(struct message_log *log, unsigned wait_ms);

/* How many lines were dropped or could not be written so far. Any thread. */
uint64_t message_log_dropped_count(struct message_log *log);

/* Waits as message_log_flush() does, then ends the thread and frees. If the thread still waits for the reader, thread
 * and memory stay: only the end of the process stops such a write, and it is near. */
void message_log_destroy(struct message_log *log, unsigned wait_ms);

#endif
