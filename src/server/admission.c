#include "server/admission.h"

void admission_init(struct admission *admission, const struct reply_budget *replies, const struct frame_backlog *frames)
{
    admission->replies = replies;
    admission->frames = frames;
    admission->walks_us = 0;
    for (enum admission_line line = 0; line < ADMISSION_LINE_COUNT; line++)
        list_init(&admission->lines[line]);
}

bool admission_has_room(const struct admission *admission, enum admission_line line)
{
    if (line == ADMISSION_PROBE)
        return !reply_budget_is_closed(admission->replies);
    if (frame_backlog_is_full(admission->frames))
        return false;
    return line == ADMISSION_SHORT ? !reply_budget_is_exhausted(admission->replies)
                                   : !reply_budget_is_spent(admission->replies);
}

static bool may_begin(const struct admission *admission, enum admission_line line)
{
    return admission_has_room(admission, line) && (line != ADMISSION_WALK || admission->walks_us < ADMISSION_WALKS_US);
}

void admission_begin_turn(struct admission *admission)
{
    admission->walks_us = 0;
}

void admission_note_walk(struct admission *admission, uint64_t took_us)
{
    admission->walks_us += took_us;
}

bool admission_put_off(struct admission *admission, struct list_link *request, enum admission_line line)
{
    if (list_is_empty(&admission->lines[line]) && may_begin(admission, line))
        return false;
    list_append(&admission->lines[line], request);
    return true;
}

void admission_leave(struct list_link *request)
{
    if (list_is_linked(request))
        list_remove(request);
}

struct list_link *admission_next(const struct admission *admission, enum admission_line line)
{
    return may_begin(admission, line) ? list_first(&admission->lines[line]) : NULL;
}

bool admission_has_next(const struct admission *admission)
{
    for (enum admission_line line = 0; line < ADMISSION_LINE_COUNT; line++)
        if (!list_is_empty(&admission->lines[line]) && admission_has_room(admission, line))
            return true;
    return false;
}
