#include "server/slow.h"

#include "api/slow_requests.h"

#include <stdio.h>
#include <uv.h>

#define LINE_PAUSE_MS 1000u /* one line a second: a disk that stalls makes thousands slow at once */

/* 0 where the end is the time of a turn that began before. */
static uint32_t passed_us(uint64_t from_ns, uint64_t to_ns)
{
    const uint64_t us = to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

void slow_note_put_off(struct pending_request *pending, uint64_t since_ns)
{
    pending->wait_us = passed_us(since_ns, uv_hrtime());
}

uint64_t slow_note_begun(struct pending_request *pending)
{
    pending->begun_ns = uv_hrtime();
    return pending->begun_ns;
}

void slow_note_decided(struct pending_request *pending)
{
    pending->decide_us = passed_us(pending->begun_ns, uv_hrtime());
}

void slow_note_waited(struct hub *hub, struct pending_request *pending)
{
    pending->begun_ns = hub->times.turned_ns;
    pending->wait_us = pending->decide_us = 0;
}

void slow_note_ready(struct hub *hub, struct pending_request *pending)
{
    pending->flush_us = passed_us(pending->begun_ns + (uint64_t)pending->decide_us * 1000, hub->times.turned_ns);
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

/* Milliseconds of a part, so that those of all parts are together what the sum has. */
static uint32_t part_ms(uint64_t *sum_us, uint32_t part_us)
{
    const uint64_t before_ms = *sum_us / 1000;
    *sum_us += part_us;
    return (uint32_t)(*sum_us / 1000 - before_ms);
}

static void tell_slow(struct hub *hub, const struct pending_request *pending, uint32_t write_us)
{
    uint64_t sum_us = 0;
    struct slow_times times;
    char text[640];
    times.wait = part_ms(&sum_us, pending->wait_us);
    times.decide = part_ms(&sum_us, pending->decide_us);
    times.flush = part_ms(&sum_us, pending->flush_us);
    times.write = part_ms(&sum_us, write_us);
    front_note_slow(hub->front, &pending->exchange, hub->turn_ms, pending->size, &times, text, sizeof(text));
    tell(hub, text);
}

void slow_note_written(struct hub *hub, const struct pending_request *pending)
{
    const struct exchange *exchange = &pending->exchange;
    if (exchange->api == NULL || exchange->row == NULL)
        return;
    const uint64_t own_us = (uint64_t)pending->decide_us + pending->flush_us;
    const uint32_t write_us = passed_us(pending->begun_ns + own_us * 1000, hub->times.turned_ns);
    const uint64_t sum_us = pending->wait_us + own_us + write_us;
    front_note_duration(hub->front, exchange, sum_us);
    if (hub->options.slow_request_ms > 0 && sum_us / 1000 >= hub->options.slow_request_ms)
        tell_slow(hub, pending, write_us);
}
