#include "server/slow.h"

#include "api/slow_requests.h"

#include <stdio.h>

#define LINE_PAUSE_MS 1000u /* one line a second: a disk that stalls makes thousands slow at once */

static uint32_t later(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0 ? a : b;
}

void slow_note_decided(struct hub *hub, struct pending_request *pending, uint64_t now_ms)
{
    pending->begun_ms = (uint32_t)now_ms;
    if (hub->options.slow_request_ms > 0)
        pending->decided_ms = (uint32_t)clock_now_ms(hub->clock);
}

void slow_note_waited(struct hub *hub, struct pending_request *pending)
{
    pending->put_off_ms = 0;
    pending->begun_ms = pending->decided_ms = (uint32_t)hub->turn_ms;
}

void slow_note_ready(struct hub *hub, struct pending_request *pending)
{
    pending->ready_ms = later((uint32_t)hub->turn_ms, pending->decided_ms);
}

static void tell(struct hub *hub, const char *text)
{
    char more[768];
    if (hub->turn_ms < hub->slow_told_ms + LINE_PAUSE_MS) {
        hub->slow_untold++;
        return;
    }
    (void)snprintf(more, sizeof(more), "%s. Not told since the last such line: %llu.", text,
                   (unsigned long long)hub->slow_untold);
    hub->options.report(hub->options.report_context, more);
    hub->slow_told_ms = hub->turn_ms;
    hub->slow_untold = 0;
}

void slow_note_written(struct hub *hub, const struct pending_request *pending)
{
    const struct exchange *exchange = &pending->exchange;
    if (hub->options.slow_request_ms == 0 || exchange->api == NULL || exchange->action == NULL)
        return;
    const uint32_t end_ms = later((uint32_t)hub->turn_ms, pending->ready_ms);
    const uint32_t asked_ms = pending->put_off_ms == 0 ? pending->begun_ms : pending->put_off_ms;
    if (end_ms - asked_ms < hub->options.slow_request_ms)
        return;
    const struct slow_times times = {.wait = pending->begun_ms - asked_ms,
                                     .decide = pending->decided_ms - pending->begun_ms,
                                     .flush = pending->ready_ms - pending->decided_ms,
                                     .write = end_ms - pending->ready_ms};
    char text[640];
    front_note_slow(hub->front, exchange, hub->turn_ms, pending->size, &times, text, sizeof(text));
    tell(hub, text);
}
