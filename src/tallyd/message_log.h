/* What the daemon says, on its way to standard error or standard output: a bounded queue of lines, and a thread that
 * writes them.
 *
 * Whoever reads the other end may stop reading, and then a write blocks. Here only that thread waits. A line that
 * does not fit into the queue is counted and dropped; once there is room, a line says how many were. */
#ifndef TALLY_TALLYD_MESSAGE_LOG_H
#define TALLY_TALLYD_MESSAGE_LOG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_LOG_SIZE ((size_t)64 * 1024) /* bytes of lines that wait */
#define MESSAGE_LOG_LINE_SIZE ((size_t)4096) /* a longer line is cut */

struct message_log;

/* `descriptor` is borrowed. `name` is what the line about dropped lines calls it; static. Begins the thread. */
struct message_log *message_log_create(int descriptor, const char *name);

/* Adds a line; the newline is added. Never waits for the reader. Any thread. */
__attribute__((format(printf, 2, 3))) void message_log_say(struct message_log *log, const char *format, ...);

/* Waits until all that was said is written, at most `wait_ms`. False: time ran out. Any thread. */
bool message_log_flush(struct message_log *log, unsigned wait_ms);

/* Lines that were dropped or that could not be written, so far. Any thread. */
uint64_t message_log_dropped_count(struct message_log *log);

/* Waits as message_log_flush() does, then ends the thread and frees. If the thread still waits for the reader, both
 * stay: the process is about to end, and nothing but its end stops such a write. */
void message_log_destroy(struct message_log *log, unsigned wait_ms);

#endif
