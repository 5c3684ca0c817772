/* What a scan of MySQL's outbox passes over (P7).
 *
 * While a transaction stays open that began before rows were deleted, InnoDB keeps what is left of them, and a scan
 * from the beginning would read all of it, again and again (R04, R42). But an id that this very connection deleted, in
 * a transaction whose commit it knows of, is gone for good: it was visible, and a committed delete is taken back only
 * by a crash or a failover, which end the connection. So a scan passes over long runs of such ids, and looks at
 * everything between and behind them, in one statement, so in one snapshot: a late row stands in between and comes
 * before what is behind it (P4).
 *
 * Nothing is concluded from an id that is merely missing, since an open transaction may own it, nor from a higher one
 * that was seen. There is no floor that waits for writers: who draws an id shows nowhere in MySQL. An id that comes
 * back all the same, because somebody chose it or set the counter back, is found by a scan of everything, once a
 * minute; then all is forgotten. */
#include "platform/monotonic.h"
#include "relay/source_mysql_parts.h"

#include <inttypes.h>

#define WHOLE_EVERY_MS 60000u
#define WHOLE_PART 50u        /* and at most this part of the time, where what is left of rows makes it slow */
#define PIECES_FROM_IDS 2000u /* to read what is left of fewer rows costs less than to look at pieces */
#define RUN_MIN 64u           /* so does a shorter run of them */

void mysql_floor_renew(struct source_mysql *self, const struct term *term)
{
    struct mysql_floor *floor = &self->floor;
    if (floor->connection == self->session.connections && term_equal(&floor->term, term))
        return;
    floor->connection = self->session.connections;
    floor->term = *term;
    floor->whole_ms = boottime_ms();
    tombstones_clear(&floor->tombstones);
}

void mysql_floor_begin(struct source_mysql *self, const struct term *term)
{
    struct mysql_floor *floor = &self->floor;
    mysql_floor_renew(self, term);
    const uint64_t now_ms = boottime_ms();
    floor->is_whole = now_ms >= floor->whole_ms;
    if (floor->is_whole)
        floor->whole_ms = now_ms + WHOLE_EVERY_MS;
}

void mysql_floor_say(struct source_mysql *self)
{
    const struct tombstones *tombstones = &self->floor.tombstones;
    uint64_t last = 0; /* of the run before */
    bool is_first = true;
    mysql_session_say(&self->session, "(");
    for (size_t i = 0; i < tombstones->count && !self->floor.is_whole && tombstones->id_count >= PIECES_FROM_IDS; i++) {
        const struct id_range range = tombstones->ranges[i];
        if (range.last - range.first < RUN_MIN)
            continue;
        mysql_session_say(&self->session, "id %s %" PRIu64 " AND id < %" PRIu64 " OR ", is_first ? ">=" : ">", last,
                          range.first);
        last = range.last;
        is_first = false;
    }
    mysql_session_say(&self->session, "id %s %" PRIu64 ")", is_first ? ">=" : ">", last);
}

void mysql_floor_note_deleted(struct source_mysql *self, const struct row_name *names, size_t count)
{
    struct mysql_floor *floor = &self->floor;
    if (floor->connection != self->session.connections || self->session.handle_owned == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        tombstones_add(&floor->tombstones, (struct id_range){names[i].id, names[i].id});
}

void mysql_floor_note_found(struct source_mysql *self, const struct rows *rows)
{
    struct mysql_floor *floor = &self->floor;
    if (!floor->is_whole)
        return;
    const uint64_t now_ms = boottime_ms(), took_ms = now_ms - (floor->whole_ms - WHOLE_EVERY_MS);
    floor->whole_ms = now_ms + (took_ms * WHOLE_PART > WHOLE_EVERY_MS ? took_ms * WHOLE_PART : WHOLE_EVERY_MS);
    bool is_wrong = false;
    for (size_t i = 0; i < rows->count && !is_wrong; i++) {
        const uint64_t id = rows->items_owned[i].id;
        is_wrong = tombstones_count_in(&floor->tombstones, (struct id_range){id, id}) > 0;
    }
    if (is_wrong)
        tombstones_clear(&floor->tombstones);
}
