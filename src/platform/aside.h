/* Work that has time, beside requests that do not. */
#ifndef TALLY_PLATFORM_ASIDE_H
#define TALLY_PLATFORM_ASIDE_H

/* The most that one read() or write() of such work may copy, in bytes. A kernel that is built without preemption leaves
 * a system call the processor until its end, whoever waits. Memory that the host of a virtual machine has put away
 * costs 0.3 ms a page: a read of 256 KiB held up the loop for 18 ms. */
#define ASIDE_CALL_SIZE 16384u

/* Gives this thread (on Linux), or this process of one thread, a tenth of the others' share where all need one
 * processor. */
void aside_begin(void);

#endif
