/* Shows the progress of a run on standard error: a bar on a terminal, otherwise a line from time to time. One
 * thread. */
#ifndef TALLY_TALLY_PROGRESS_H
#define TALLY_TALLY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool is_terminal;
    bool is_silent;
    bool is_drawn;       /* the bar is on the terminal's line */
    bool was_drawn;      /* … or would be, but progress_hide() removed it */
    uint64_t started_ms; /* monotonic */
    uint64_t drawn_ms;
    uint64_t start_done; /* how much was done when we began, so that the rate is ours */
    uint64_t line_done;  /* how much was done at our last output */
};

void progress_init(struct progress *progress, bool is_silent, uint64_t done);

/* Draws the bar, or writes a line if one is due. */
void progress_show(struct progress *progress, uint64_t done, uint64_t failed, uint64_t total);

/* Removes the bar, so that other text can be printed; the next progress_show() draws it again. */
void progress_hide(struct progress *progress);

/* Draws the bar after other text if it was there before, so that frequent output does not hide it for long. Call it
 * after progress_hide(), or after a complain(), which overwrites the bar. `is_cut`: the text did not end its line, so
 * the bar begins a new one. */
void progress_return(struct progress *progress, bool is_cut, uint64_t done, uint64_t failed, uint64_t total);

#endif
