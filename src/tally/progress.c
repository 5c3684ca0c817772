#include "tally/progress.h"

#include "platform/monotonic.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_INTERVAL_MS 5000
#define BAR_INTERVAL_MS 100
#define WIDTH_DEFAULT 80
#define WIDTH_MAX 120

void progress_init(struct progress *progress, bool is_silent, uint64_t done)
{
    *progress = (struct progress){
        .is_terminal = isatty(STDERR_FILENO) == 1,
        .is_silent = is_silent,
        .started_ms = monotonic_ms(),
        .start_done = done,
        .line_done = done,
    };
    progress->drawn_ms = progress->started_ms;
}

static int terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return WIDTH_DEFAULT;
    return size.ws_col > WIDTH_MAX ? WIDTH_MAX : size.ws_col;
}

/* "  45 of 120  38%  2 failed  0:12 left" */
static int format_numbers(const struct progress *progress, uint64_t done, uint64_t failed, uint64_t total, char *text,
                          size_t size)
{
    uint64_t ran_ms = monotonic_ms() - progress->started_ms;
    uint64_t ours = done - progress->start_done;
    int length = snprintf(text, size, " %llu of %llu  %llu%%", (unsigned long long)done, (unsigned long long)total,
                          (unsigned long long)(total == 0 ? 100 : done * 100 / total));
    if (failed > 0)
        length += snprintf(text + length, size - (size_t)length, "  %llu failed", (unsigned long long)failed);
    if (ours > 0 && done < total && ran_ms > 1000) {
        uint64_t left_s = ran_ms * (total - done) / ours / 1000;
        length += snprintf(text + length, size - (size_t)length, "  %llu:%02llu left",
                           (unsigned long long)(left_s / 60), (unsigned long long)(left_s % 60));
    }
    return length;
}

static void draw_bar(struct progress *progress, uint64_t done, uint64_t failed, uint64_t total)
{
    char numbers[160];
    char bar[WIDTH_MAX + 1];
    int room = terminal_width() - 3 - format_numbers(progress, done, failed, total, numbers, sizeof numbers);
    int full;

    if (room < 4) {
        fprintf(stderr, "\r\033[K%s", numbers);
    } else {
        full = total == 0 ? room : (int)(done * (uint64_t)room / total);
        memset(bar, '=', (size_t)full);
        memset(bar + full, ' ', (size_t)(room - full));
        bar[room] = '\0';
        fprintf(stderr, "\r\033[K[%s]%s", bar, numbers);
    }
    fflush(stderr);
    progress->is_drawn = progress->was_drawn = true;
    progress->drawn_ms = monotonic_ms();
    progress->line_done = done;
}

/* Often enough to look alive, and once at the end. */
static bool is_bar_due(const struct progress *progress, uint64_t done, uint64_t total)
{
    return monotonic_ms() - progress->drawn_ms >= BAR_INTERVAL_MS || (done == total && progress->line_done != total);
}

/* Writes a line at each tenth of the way, at the end, and when some work was done after a longer silence. */
static bool is_line_due(const struct progress *progress, uint64_t done, uint64_t total)
{
    if (done == progress->line_done)
        return false;
    return done == total || done * 10 / total != progress->line_done * 10 / total ||
           monotonic_ms() - progress->drawn_ms >= LINE_INTERVAL_MS;
}

void progress_show(struct progress *progress, uint64_t done, uint64_t failed, uint64_t total)
{
    char numbers[160];
    if (progress->is_silent)
        return;
    if (progress->is_terminal) {
        if (is_bar_due(progress, done, total))
            draw_bar(progress, done, failed, total);
        return;
    }
    if (!is_line_due(progress, done, total))
        return;
    format_numbers(progress, done, failed, total, numbers, sizeof numbers);
    fprintf(stderr, "tally:%s\n", numbers);
    progress->line_done = done;
    progress->drawn_ms = monotonic_ms();
}

void progress_hide(struct progress *progress)
{
    if (!progress->is_drawn)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->is_drawn = false;
}

void progress_return(struct progress *progress, bool is_cut, uint64_t done, uint64_t failed, uint64_t total)
{
    if (!progress->was_drawn)
        return;
    if (is_cut)
        fputs("\n", stderr);
    draw_bar(progress, done, failed, total);
}
