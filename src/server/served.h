/* A namespace that the server serves: its api, its log, and the replies that wait for the log.
 *
 * It is busy from the moment when something happens to it until there is nothing to be done for it but what falls due.
 * A turn of the loop goes through those that are busy, so one that is at rest costs nothing, however many there are. */
#ifndef TALLY_SERVER_SERVED_H
#define TALLY_SERVER_SERVED_H

#include "api/api.h"
#include "server/clock.h"
#include "server/gather.h"
#include "server/held_replies.h"
#include "server/options.h"

/* Whoever opens namespaces embeds this, beside what else there is to know of one. */
struct served {
    struct api api;       /* finds the rest of it, by exchange->api */
    struct namespace *ns; /* borrowed, as are the next two */
    const struct clock *clock;
    struct list *busy; /* all that are */
    struct list_link busy_link;
    uint64_t due_ms; /* when it has something to do by itself, as of when it came to rest; log time */
    struct held_replies held;
    struct gather gather;
    uint64_t flushed_from;  /* the newest durable frame when the frame in work went to the log */
    uint64_t request_count; /* that it was asked */
    uint64_t asked_turn;    /* of the loop (hub.h): in it the next was found out; 0: never */
    bool is_withheld;       /* nothing of it may be answered at the moment (enum permission) */
};

/* From now on the front has it. It is busy. */
void served_init(struct served *served, struct front *front, struct namespace *ns, const struct clock *clock,
                 struct list *busy);

/* Nobody waits for it, and it holds no reply. */
void served_deinit(struct served *served);

/* No request reaches it any more, who waited gets an answer (api_withdraw()), and nothing falls due in it. It is busy
 * until its replies have left. */
void served_withdraw(struct served *served);

/* It was withdrawn, its log is written, and no reply waits for that. Then served_deinit() may follow while the loop
 * goes on, and behind that namespace_retire(). Asked in a later turn than the one of served_withdraw(). */
bool served_is_over(const struct served *served);

/* That of a request whose namespace is known, or NULL. */
struct served *served_of(const struct exchange *exchange);

/* Something happens to it. */
void served_note(struct served *served);

/* It was busy until now. True: there is nothing left to be done, and it is at rest until due_ms. */
bool served_rest(struct served *served);

/* Does nobody wait for it, and is it at rest? */
bool served_is_idle(const struct served *served);

/* When it has something to do by itself: the api's and the disk's, in log time; UINT64_MAX: never. */
uint64_t served_next_ms(const struct served *served);

/* May it answer in this turn of the loop (hub.h)? Its replies are withheld if it may not. `failure` says why it is
 * lost. */
enum permission served_ask(struct served *served, const struct server_options *options, uint64_t turn,
                           struct failure *failure);

/* Holds the finished reply until its frame is durable, and the namespace may answer. False: it is durable already, and
 * the reply may be written. */
bool served_hold(struct served *served, struct pending_request *pending);

/* Frames may have become durable: what waits for that in the namespace hears of it. The replies that
 * held_replies_take() gives for the sequence that this returns may be written. */
uint64_t served_release(struct served *served);

/* Hands the open frame to the log, or lets it gather a little longer: then true. `is_quiet`: the sockets had nothing
 * more to read; `request_ns`: what a request costs the loop. */
bool served_flush(struct served *served, bool is_quiet, uint64_t request_ns);

/* The log has done something: if a flush is over, its frame goes, and it is remembered how long such a thing takes.
 * Returns how long this one took, in nanoseconds; 0: none is over. */
uint64_t served_note_flush(struct served *served);

#endif
