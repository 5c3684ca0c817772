/* tally top: the queues that need attention most, again and again. */
#include "base/assert.h"
#include "tally/output.h"
#include "tally/queue_stats.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REFRESH_S 2

/* What stands left of a queue's name, and the lines above the queues. */
#define LEFT_WIDTH 76
#define HEAD_LINES 2
#define NAME_WIDTH_MIN 8

struct settings {
    const char *prefix;
    const char *sort;
    struct option_number lines;
    bool is_once;
};

static const struct setting settings_table[] = {
    {"prefix", offsetof(struct settings, prefix)},
    {"sort", offsetof(struct settings, sort)},
    {"lines", offsetof(struct settings, lines)},
    {"once", offsetof(struct settings, is_once)},
};

/* --- order -------------------------------------------------------------------------------------------------------- */

typedef int queue_order(const void *one, const void *other);

static int by_name(const void *one, const void *other)
{
    return strcmp(((const struct queue_stats *)one)->name, ((const struct queue_stats *)other)->name);
}

/* The larger first. */
static int by_size(double one, double other)
{
    return (one < other) - (one > other);
}

static int by_age(const void *one, const void *other)
{
    const struct queue_stats *left = one, *right = other;
    if (left->has_oldest != right->has_oldest)
        return left->has_oldest ? -1 : 1;
    int order = by_size((double)left->oldest_s, (double)right->oldest_s);
    order = order != 0 ? order : by_size((double)left->visible, (double)right->visible);
    return order != 0 ? order : by_name(one, other);
}

static int by_ready(const void *one, const void *other)
{
    const struct queue_stats *left = one, *right = other;
    const int order = by_size((double)left->visible, (double)right->visible);
    return order != 0 ? order : by_name(one, other);
}

static int by_sent(const void *one, const void *other)
{
    const struct queue_stats *left = one, *right = other;
    const int order = by_size(left->sent, right->sent);
    return order != 0 ? order : by_name(one, other);
}

static int by_failed(const void *one, const void *other)
{
    const struct queue_stats *left = one, *right = other;
    const int order = by_size(left->failed, right->failed);
    return order != 0 ? order : by_name(one, other);
}

/* NULL: there is no such order. */
static queue_order *order_of(const char *name)
{
    static const struct {
        const char *name;
        queue_order *order;
    } orders[] = {{"age", by_age}, {"ready", by_ready}, {"sent", by_sent}, {"failed", by_failed}, {"name", by_name}};
    for (size_t i = 0; i < ARRAY_LENGTH(orders); i++)
        if (strcmp(orders[i].name, name) == 0)
            return orders[i].order;
    return NULL;
}

/* --- a screen ----------------------------------------------------------------------------------------------------- */

struct screen {
    const char *line_end; /* clears the rest of a line that is written again */
    unsigned width;       /* 0: it has no end */
    uint64_t lines_max;   /* of queues; 0: all */
};

static void print_sums(const struct queue_stats_list *list, const struct screen *screen)
{
    struct queue_stats sum = {.visible = 0};
    char now[32];
    const time_t seconds = time(NULL);
    struct tm parts;
    for (size_t i = 0; i < list->count; i++) {
        sum.visible += list->items_owned[i].visible;
        sum.in_flight += list->items_owned[i].in_flight;
        sum.sent += list->items_owned[i].sent;
        sum.deleted += list->items_owned[i].deleted;
    }
    gmtime_r(&seconds, &parts);
    strftime(now, sizeof now, "%H:%M:%S UTC", &parts);
    printf("%zu queues, %llu ready, %llu in flight, %.1f/s sent, %.1f/s done, %s%s", list->count,
           (unsigned long long)sum.visible, (unsigned long long)sum.in_flight, sum.sent, sum.deleted, now,
           screen->line_end);
}

static void print_queue(const struct queue_stats *queue, const struct screen *screen)
{
    char age[OUTPUT_AGE_SIZE] = "-";
    const unsigned room = screen->width == 0                            ? QUEUE_STATS_NAME_SIZE
                          : screen->width < LEFT_WIDTH + NAME_WIDTH_MIN ? NAME_WIDTH_MIN
                                                                        : screen->width - LEFT_WIDTH;
    if (queue->has_oldest)
        output_age(queue->oldest_s, age);
    printf("%8s %8llu %8llu %8llu %7.1f %7.1f %7.1f %7.1f %6llu  %.*s%s%s", age, (unsigned long long)queue->visible,
           (unsigned long long)queue->in_flight, (unsigned long long)queue->delayed, queue->sent, queue->received,
           queue->deleted, queue->failed, (unsigned long long)queue->waiting_receives, (int)room, queue->name,
           queue->is_paused ? " (paused)" : "", screen->line_end);
}

static void print_screen(const struct queue_stats_list *list, const struct screen *screen)
{
    print_sums(list, screen);
    printf("%8s %8s %8s %8s %7s %7s %7s %7s %6s  %s%s", "OLDEST", "READY", "FLIGHT", "DELAYED", "SENT/s", "OUT/s",
           "DONE/s", "FAIL/s", "POLLS", "QUEUE", screen->line_end);
    for (size_t i = 0; i < list->count && (screen->lines_max == 0 || i < screen->lines_max); i++)
        print_queue(&list->items_owned[i], screen);
}

static void print_json(const struct queue_stats *queue)
{
    struct json_body line;
    json_body_init(&line);
    json_add_text(&line, line.root, "Queue", queue->name);
    if (queue->has_oldest)
        json_add_number(&line, line.root, "OldestSeconds", queue->oldest_s);
    json_add_number(&line, line.root, "Ready", queue->visible);
    json_add_number(&line, line.root, "InFlight", queue->in_flight);
    json_add_number(&line, line.root, "Delayed", queue->delayed);
    yyjson_mut_obj_add_real(line.doc_owned, line.root, "SentPerSecond", queue->sent);
    yyjson_mut_obj_add_real(line.doc_owned, line.root, "ReceivedPerSecond", queue->received);
    yyjson_mut_obj_add_real(line.doc_owned, line.root, "DeletedPerSecond", queue->deleted);
    yyjson_mut_obj_add_real(line.doc_owned, line.root, "FailedPerSecond", queue->failed);
    json_add_number(&line, line.root, "WaitingReceives", queue->waiting_receives);
    if (queue->last_receive_at > 0)
        yyjson_mut_obj_add_real(line.doc_owned, line.root, "LastReceiveAt", queue->last_receive_at);
    yyjson_mut_obj_add_bool(line.doc_owned, line.root, "Paused", queue->is_paused);
    output_document(line.doc_owned);
    yyjson_mut_doc_free(line.doc_owned);
}

/* --- once, or again and again ------------------------------------------------------------------------------------- */

/* As large as the terminal is now. */
static struct screen terminal_screen(const struct settings *settings)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    const uint64_t room = size.ws_row > HEAD_LINES + 1 ? size.ws_row - HEAD_LINES : 1;
    const bool is_less = settings->lines.value > 0 && settings->lines.value < room;
    return (struct screen){
        .line_end = "\033[K\n", .width = size.ws_col, .lines_max = is_less ? settings->lines.value : room};
}

static int show(struct invocation *invocation, queue_order *order, bool is_live)
{
    const struct settings *settings = invocation->settings;
    struct queue_stats_list list;
    const int status = queue_stats_read(invocation, settings->prefix, &list);
    if (status != EXIT_DONE) {
        free(list.items_owned);
        return status;
    }
    qsort(list.items_owned, list.count, sizeof *list.items_owned, order);
    const struct screen screen =
        is_live ? terminal_screen(settings) : (struct screen){.line_end = "\n", .lines_max = settings->lines.value};
    if (is_live)
        fputs("\033[H", stdout);
    if (!invocation->is_json)
        print_screen(&list, &screen);
    else
        for (size_t i = 0; i < list.count && (screen.lines_max == 0 || i < screen.lines_max); i++)
            print_json(&list.items_owned[i]);
    if (is_live)
        fputs("\033[J", stdout);
    free(list.items_owned);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const bool is_live = isatty(STDOUT_FILENO) == 1 && !invocation->is_json && !settings->is_once;
    queue_order *order = order_of(settings->sort);
    if (order == NULL)
        return complain_usage(invocation, "--sort is age, ready, sent, failed or name, not \"%s\"", settings->sort);
    int status = invocation_connect(invocation);
    if (status == EXIT_DONE && is_live)
        fputs("\033[2J", stdout);
    while (status == EXIT_DONE) {
        status = show(invocation, order, is_live);
        if (!is_live || status != EXIT_DONE || fflush(stdout) != 0)
            break;
        sleep(REFRESH_S);
    }
    return status;
}

const struct command command_top = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
