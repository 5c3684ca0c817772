#include "server/admission.h"

void admission_init(struct admission *admission, const struct reply_budget *replies)
{
    admission->replies = replies;
    for (enum admission_line line = 0; line < ADMISSION_LINE_COUNT; line++)
        list_init(&admission->lines[line]);
}

static bool has_room(const struct admission *admission, enum admission_line line)
{
    return line == ADMISSION_SHORT ? !reply_budget_is_exhausted(admission->replies)
                                   : !reply_budget_is_spent(admission->replies);
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
    return admission_next(admission, ADMISSION_SHORT) != NULL || admission_next(admission, ADMISSION_LONG) != NULL;
}
