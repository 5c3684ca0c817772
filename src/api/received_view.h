/* A message as ReceiveMessage writes it. Private to src/api. */
#ifndef TALLY_API_RECEIVED_VIEW_H
#define TALLY_API_RECEIVED_VIEW_H

#include "api/action.h"
#include "core/messages/content.h"
#include "core/messages/decide_receive.h"

/* One that nobody receives (list_received.h): every attribute that SQS has and every one that was sent is written, and
 * these two where they are asked for. */
struct received_look {
    bool shows_invisible;
    bool shows_delayed;
    bool is_visible;
    bool is_delayed;
};

struct received_view {
    const struct receive_command *command; /* says which attributes are written */
    const struct received_look *look;      /* not NULL: this does, and there is no command */
    bool is_fifo;
    struct bytes handle;
};

/* Writes the message as an item of a list. */
void received_view_write(struct call *call, const struct received_view *view, const struct received_message *message,
                         const struct content *content);

#endif
