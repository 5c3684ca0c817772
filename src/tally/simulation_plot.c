#include "tally/simulation_plot.h"

#include "base/assert.h"
#include <math.h>

#define WIDTH 860.0
#define HEIGHT 560.0
#define LEFT 64.0
#define RIGHT 24.0
#define PANEL_HEIGHT 170.0
#define FIRST_TOP 92.0
#define SECOND_TOP 342.0
#define PLOT_WIDTH (WIDTH - LEFT - RIGHT)
#define COLUMNS 386 /* of the second panel: one for every two pixels of its width */

/* One panel: where it stands, and what its axes say. */
struct panel {
    FILE *out;
    double top;
    double x_min, x_max;
    double y_max;
    bool is_log; /* x is a logarithm of seconds */
};

/* The colours stand twice: a picture in a page follows the reader's choice of light or dark. */
static const char head[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 560\" width=\"860\" height=\"560\" role=\"img\">\n"
    "<style>\n"
    "  text { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; fill: #1f2328; }\n"
    "  .paper { fill: #fcfcfb; } .soft { font-size: 12px; fill: #656b73; }\n"
    "  .title { font-size: 17px; font-weight: 600; } .name { font-weight: 600; } .plain { font-weight: 400; }\n"
    "  .grid { stroke: #e3e5e8; stroke-width: 1; } .area { fill: #2a78d6; fill-opacity: 0.14; }\n"
    "  .curve { fill: none; stroke: #2a78d6; stroke-width: 2; stroke-linejoin: round; }\n"
    "  .mark { fill: #2a78d6; stroke: #fcfcfb; stroke-width: 2; }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #e8eaed; } .soft { fill: #9aa1a9; } .paper { fill: #16181b; } .grid { stroke: #33373c; }\n"
    "    .area { fill: #5b9cf0; fill-opacity: 0.2; } .curve { stroke: #5b9cf0; }\n"
    "    .mark { fill: #5b9cf0; stroke: #16181b; }\n"
    "  }\n"
    "</style>\n"
    "<rect class=\"paper\" width=\"860\" height=\"560\"/>\n";

static double x_of(const struct panel *panel, double value)
{
    double at = panel->is_log ? log10(value) : value;
    double part = (at - panel->x_min) / (panel->x_max - panel->x_min);
    return LEFT + PLOT_WIDTH * (part < 0 ? 0 : part > 1 ? 1 : part);
}

static double y_of(const struct panel *panel, double value)
{
    return panel->top + PANEL_HEIGHT * (1 - value / panel->y_max);
}

/* 1, 2 or 5 times a power of ten: the smallest that cuts `range` into at most `parts`. */
static double tick_size(double range, unsigned parts)
{
    static const double steps[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(range / parts)));
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        if (range / (power * steps[i]) <= parts)
            return power * steps[i];
    return power * 10;
}

static void write_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '<' || *text == '>' || *text == '&')
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
}

static void draw_y_tick(const struct panel *panel, double value, const char *unit)
{
    fprintf(panel->out, "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", LEFT, WIDTH - RIGHT,
            y_of(panel, value), y_of(panel, value));
    fprintf(panel->out, "<text class=\"soft\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%.6g%s</text>\n", LEFT - 8,
            y_of(panel, value) + 4, value, unit);
}

static void draw_y_axis(const struct panel *panel, const char *unit)
{
    double step = tick_size(panel->y_max, 5);
    for (double value = 0; value <= panel->y_max * 1.0001; value += step)
        draw_y_tick(panel, value, unit);
}

static void draw_x_tick(const struct panel *panel, double value)
{
    bool is_edge = panel->is_log && x_of(panel, value) <= LEFT; /* shorter waits stand there, too */
    if (panel->is_log)
        fprintf(panel->out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>\n",
                x_of(panel, value), x_of(panel, value), panel->top, panel->top + PANEL_HEIGHT);
    fprintf(panel->out, "<text class=\"soft\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s%.6g s</text>\n",
            x_of(panel, value), panel->top + PANEL_HEIGHT + 18, is_edge ? "\u2264 " : "", value);
}

static void draw_name(const struct panel *panel, const char *name, const char *more)
{
    fprintf(panel->out,
            "<text class=\"name\" x=\"%.0f\" y=\"%.0f\">%s <tspan class=\"soft plain\" dx=\"6\">%s</tspan></text>\n",
            LEFT, panel->top - 16, name, more);
}

/* --- How long they waited ----------------------------------------------------------------------------------------- */

/* The powers of ten around what was waited; at least one decade. A wait of nothing stands at the left edge. */
static void set_wait_range(const struct simulation *simulation, struct panel *panel)
{
    const struct simulation_wait *waits = simulation_waits(simulation);
    size_t count = simulation_wait_count(simulation), first = 0;
    while (first < count && waits[first].ms == 0)
        first++;
    panel->x_min = first < count ? floor(log10((double)waits[first].ms / 1000)) : -1;
    panel->x_max = first < count ? ceil(log10((double)waits[count - 1].ms / 1000)) : 1;
    if (panel->x_min < -2)
        panel->x_min = -2;
    if (panel->x_max <= panel->x_min)
        panel->x_max = panel->x_min + 1;
}

/* A wait as its place on the axis. */
static double seconds_shown(const struct panel *panel, uint64_t ms)
{
    double least = pow(10, panel->x_min);
    return (double)ms / 1000 < least ? least : (double)ms / 1000;
}

/* The share of all tickets that were matched within each time, as steps; equal waits are one step. */
static void draw_shares(const struct simulation *simulation, const struct panel *panel)
{
    const struct simulation_wait *waits = simulation_waits(simulation);
    size_t count = simulation_wait_count(simulation);
    double all = (double)simulation->rehearsal.offered, last_x = -1;
    fprintf(panel->out, "<path class=\"curve\" d=\"M%.1f %.1f", LEFT, y_of(panel, 0));
    for (size_t i = 0; i < count; i++) {
        double x = x_of(panel, seconds_shown(panel, waits[i].ms));
        bool is_last = i + 1 == count || waits[i + 1].ms != waits[i].ms;
        if (!is_last || (x - last_x < 0.5 && i + 1 < count))
            continue;
        fprintf(panel->out, "H%.1fV%.1f", x, y_of(panel, 100 * (double)(i + 1) / all));
        last_x = x;
    }
    fprintf(panel->out, "H%.1f\"/>\n", WIDTH - RIGHT);
}

/* Marks half, 90 % and 99 % of those that were matched; labels that would stand on each other are left out. */
static void draw_marks(const struct simulation *simulation, const struct panel *panel)
{
    static const struct {
        double part;
        const char *name;
    } marks[] = {{0.5, "half"}, {0.9, "90 %"}, {0.99, "99 %"}};
    double matched = 100 * (double)simulation_wait_count(simulation) / (double)simulation->rehearsal.offered,
           last_x = -99;
    for (size_t i = 0; i < ARRAY_LENGTH(marks); i++) {
        uint64_t ms = simulation_quantile_ms(simulation, RULES_LEVELS_MAX, marks[i].part);
        double x = x_of(panel, seconds_shown(panel, ms)), y = y_of(panel, matched * marks[i].part);
        bool is_right = x > WIDTH - 150;
        fprintf(panel->out, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>\n", x, y);
        if (x - last_x < 90)
            continue;
        fprintf(panel->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s within %.6g s</text>\n",
                is_right ? x - 10 : x + 10, is_right ? y - 10 : y + 18, is_right ? "end" : "start", marks[i].name,
                (double)ms / 1000);
        last_x = x;
    }
}

static void draw_waits(const struct simulation *simulation, FILE *out)
{
    struct panel panel = {.out = out, .top = FIRST_TOP, .y_max = 100, .is_log = true};
    set_wait_range(simulation, &panel);
    draw_name(&panel, "How long they waited", "share of all tickets that were matched within this time");
    draw_y_axis(&panel, " %");
    for (double power = panel.x_min; power <= panel.x_max; power++)
        draw_x_tick(&panel, pow(10, power));
    if (simulation_wait_count(simulation) == 0)
        return;
    draw_shares(simulation, &panel);
    draw_marks(simulation, &panel);
}

/* --- How many waited ---------------------------------------------------------------------------------------------- */

/* The most that waited within each column. The most of all. */
static uint64_t fill_columns(const struct simulation *simulation, double seconds, uint64_t columns[COLUMNS])
{
    const struct simulation_point *points = simulation_points(simulation);
    size_t count = simulation_point_count(simulation), next = 0;
    uint64_t waiting = 0, most = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        double end_ms = seconds * 1000 * (double)(i + 1) / COLUMNS;
        columns[i] = waiting;
        for (; next < count && (double)(points[next].at_ms - simulation->first_ms) <= end_ms; next++) {
            waiting = points[next].waiting;
            columns[i] = waiting > columns[i] ? waiting : columns[i];
        }
        most = columns[i] > most ? columns[i] : most;
    }
    return most;
}

static void draw_columns(const struct panel *panel, const uint64_t columns[COLUMNS], bool is_area)
{
    fprintf(panel->out, "<path class=\"%s\" d=\"M%.1f %.1f", is_area ? "area" : "curve", LEFT, y_of(panel, 0));
    for (size_t i = 0; i < COLUMNS; i++)
        if (i == 0 || columns[i] != columns[i - 1])
            fprintf(panel->out, "H%.1fV%.1f", LEFT + PLOT_WIDTH / COLUMNS * (double)i, y_of(panel, (double)columns[i]));
    fprintf(panel->out, "H%.1f", WIDTH - RIGHT);
    if (is_area)
        fprintf(panel->out, "V%.1fZ", y_of(panel, 0));
    fprintf(panel->out, "\"/>\n");
}

static void draw_waiting(const struct simulation *simulation, FILE *out)
{
    uint64_t columns[COLUMNS];
    struct panel panel = {.out = out, .top = SECOND_TOP};
    size_t count = simulation_point_count(simulation);
    uint64_t last_ms = count == 0 ? 0 : simulation_points(simulation)[count - 1].at_ms - simulation->first_ms;
    panel.x_max = last_ms == 0 ? 1 : (double)last_ms / 1000 * 1.02;
    uint64_t most = fill_columns(simulation, panel.x_max, columns);
    double step = tick_size(most == 0 ? 1 : (double)most, 5);
    if (step < 1)
        step = 1;
    panel.y_max = step * ceil((most == 0 ? 1 : (double)most) / step);
    draw_name(&panel, "How many waited", "tickets, by the time since the first one came");
    for (double value = 0; value <= panel.y_max * 1.0001; value += step)
        draw_y_tick(&panel, value, "");
    double x_step = tick_size(panel.x_max, 10);
    for (double value = 0; value <= panel.x_max; value += x_step)
        draw_x_tick(&panel, value);
    draw_columns(&panel, columns, true);
    draw_columns(&panel, columns, false);
}

bool simulation_plot(const struct simulation *simulation, const char *title, FILE *out)
{
    uint64_t offered = simulation->rehearsal.offered;
    fputs(head, out);
    fprintf(out, "<title>Simulation of %llu tickets</title>\n<text class=\"title\" x=\"%.0f\" y=\"32\">",
            (unsigned long long)offered, LEFT);
    write_escaped(out, title);
    fprintf(out,
            "</text>\n<text class=\"soft\" x=\"%.0f\" y=\"51\">%llu tickets, %.1f %% matched, %llu matches, %llu "
            "expired</text>\n",
            LEFT, (unsigned long long)offered,
            offered == 0 ? 0 : 100 * (double)simulation_wait_count(simulation) / (double)offered,
            (unsigned long long)simulation->matches_made, (unsigned long long)simulation->expired);
    draw_waits(simulation, out);
    draw_waiting(simulation, out);
    fputs("</svg>\n", out);
    return fflush(out) == 0 && ferror(out) == 0;
}
