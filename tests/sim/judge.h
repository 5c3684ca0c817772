/* What the judges of replies share. Private to the oracle: a judge lets the model do what a request asked for, and
 * compares. */
#ifndef TALLY_TESTS_SIM_JUDGE_H
#define TALLY_TESTS_SIM_JUDGE_H

#include "oracle.h"
#include <yyjson.h>

/* One reply being judged. */
struct reply_view {
    struct oracle *oracle;
    const struct operation *operation;
    enum error error;
    yyjson_val *root; /* NULL: empty */
    struct lesson *lesson;
};

/* --- reply.c: reading replies, and saying what is wrong with them ------------------------------------------------- */

const char *reply_name_of(enum error error);
void expect_error(const struct reply_view *view, enum error expected);

/* Members of an object of the reply, which must be there. */
int64_t number_in(const struct reply_view *view, yyjson_val *object, const char *name);
const char *text_in(const struct reply_view *view, yyjson_val *object, const char *name);
bool boolean_in(const struct reply_view *view, yyjson_val *object, const char *name);
void expect_number(const struct reply_view *view, yyjson_val *object, const char *name, int64_t expected);
void expect_text(const struct reply_view *view, yyjson_val *object, const char *name, const char *expected);
void expect_boolean(const struct reply_view *view, yyjson_val *object, const char *name, bool expected);
/* 0: it must be absent. */
void expect_time(const struct reply_view *view, yyjson_val *object, const char *name, uint64_t expected_ms);

void teach(struct lesson *lesson, int kind, int subject, const char *id);

extern const char *const reply_event_names[]; /* "", "complete" … */
extern const char *const reply_status_names[];

void describe_message(const struct model *model, int index, struct buffer *out);
/* What the server did with a message is wrong because of the message's state. */
_Noreturn void fail_message(const struct model *model, int index, const char *what, const char *why);

/* --- judge_delivery.c: what a message is delivered as ------------------------------------------------------------- */

/* How surely `item` is this message: not at all, perhaps (the message of a batch's event whose id nobody has seen yet),
 * surely. */
enum likeness { LIKE_NONE, LIKE_PERHAPS, LIKE_SURE };

enum likeness likeness(const struct oracle *oracle, int index, yyjson_val *item);
void check_completion_id(struct oracle *oracle, int record, unsigned event, const char *id);
void check_delivered(const struct reply_view *view, int index, yyjson_val *item);
/* A new receipt handle of the message. */
void take_handle(const struct reply_view *view, int index, const char *text);
void expect_sequence(const struct reply_view *view, yyjson_val *object, int index);

/* --- judge_lease.c ------------------------------------------------------------------------------------------------ */

/* The reply gives the newest lease of this message. */
void teach_lease(const struct reply_view *view, int index);

/* The message is about to be delivered again: what a client was shown is over if somebody has ended or changed that
 * lease. */
void oracle_forget_changed_lease(struct oracle *oracle, int index);

/* --- judge_receive.c ---------------------------------------------------------------------------------------------- */

/* A receive that found nothing, although it may have put messages aside. is_alone: nobody else was served before it. */
void expect_nothing(struct oracle *oracle, const struct operation *operation, bool is_alone);
void judge_receive(const struct reply_view *view);

/* The message that the server numbers so, or NONE. */
int find_number(const struct model *model, uint64_t number);

/* Gives what the model has accepted or moved the numbers that the server gave it, and their ids where no reply said
 * them. */
void learn_numbers(struct oracle *oracle);

/* --- judge_message.c ---------------------------------------------------------------------------------------------- */

void expect_sent(const struct reply_view *view, yyjson_val *reply, int index, bool is_duplicate);
void judge_send(const struct reply_view *view);
void judge_handles(const struct reply_view *view);
void judge_fail(const struct reply_view *view);
void judge_count_queue(const struct reply_view *view);
void judge_list_tags(const struct reply_view *view);
void judge_explain(const struct reply_view *view);
void judge_list_groups(const struct reply_view *view);

/* --- judge_move.c ------------------------------------------------------------------------------------------------- */

void judge_replace(const struct reply_view *view);
void judge_start_move(const struct reply_view *view);
void judge_cancel_move(const struct reply_view *view);
void judge_list_moves(const struct reply_view *view);

/* --- judge_publish.c ---------------------------------------------------------------------------------------------- */

void judge_open_publisher(const struct reply_view *view);
void judge_publish(const struct reply_view *view);

/* --- judge_commit.c, judge_batch.c -------------------------------------------------------------------------------- */

void judge_commit(const struct reply_view *view);
void judge_create_batch(const struct reply_view *view);
void judge_list_batches(const struct reply_view *view);
/* The others that name a batch. */
void judge_of_batch(const struct reply_view *view);

#endif
