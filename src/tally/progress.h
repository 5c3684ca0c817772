/* How far a run is, on standard error: a bar on a terminal, now and then a line elsewhere. One thread. */
#ifndef TALLY_TALLY_PROGRESS_H
#define TALLY_TALLY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool is_terminal;
    bool is_silent;
    bool is_drawn;       /* the bar stands on the terminal's line */
    uint64_t started_ms; /* monotonic */
    uint64_t drawn_ms;
    uint64_t start_done; /* what was done when we began, so that the rate is ours */
    uint64_t line_done;  /* what was done when we last said something */
};

void progress_init(struct progress *progress, bool is_silent, uint64_t done);

/* Draws the bar, or a line where one is due. */
void progress_show(struct progress *progress, uint64_t done, uint64_t failed, uint64_t total);

/* Takes the bar away, so that other text may be printed; the next progress_show() brings it back. */
void progress_hide(struct progress *progress);

#endif
