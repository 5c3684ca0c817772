/* How far a run is, on standard error: a bar on a terminal, now and then a line elsewhere. One thread. */
#ifndef TALLY_TALLY_PROGRESS_H
#define TALLY_TALLY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool is_terminal;
    bool is_silent;
    bool is_drawn;       /* the bar stands on the terminal's line */
    bool was_drawn;      /* … or would but for progress_hide() */
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

/* Draws the bar behind other text, if it stood there before: what is printed all the time must not keep it away. After
 * progress_hide(), or a complain(), which takes the bar's line; `is_cut`: the text did not end its line, so that the
 * bar begins one of its own. */
void progress_return(struct progress *progress, bool is_cut, uint64_t done, uint64_t failed, uint64_t total);

#endif
