#include "server/admission.h"

void admission_init(struct admission *admission, const struct reply_budget *replies, const struct frame_backlog *frames)
{
    admission->replies = replies;
    admission->frames = frames;
    for (enum admission_line line = 0; line < ADMISSION_LINE_COUNT; line++)
        list_init(&admission->lines[line]);
}

static bool has_room(const struct admission *admission, enum admission_line line)
{
    if (line == ADMISSION_PROBE)
        return !reply_budget_is_closed(admission->replies);
    if (frame_backlog_is_full(admission->frames))
        return false;
    return line == ADMISSION_LONG ? !reply_budget_is_spent(admission->replies)
                                  : !reply_budget_is_exhausted(admission->replies);
}

bool admission_put_off(struct admission *admission, struct list_link *request, enum admission_line line)
{
    if (list_is_empty(&admission->lines[line]) && has_room(admission, line))
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
    return has_room(admission, line) ? list_first(&admission->lines[line]) : NULL;
}

bool admission_has_next(const struct admission *admission)
{
    for (enum admission_line line = 0; line < ADMISSION_LINE_COUNT; line++)
        if (admission_next(admission, line) != NULL)
            return true;
    return false;
}
