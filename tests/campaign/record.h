/* The record of a campaign: what the clients know of every message, and the verdict on each thing that the daemon does.
 *
 * A message is a number: its group times the messages of a group, plus its place in the group. The record knows no
 * protocol and no connection; it hears of what was asked, answered and delivered in the order in which this process saw
 * it. A claim that it makes is certain: where a reply was lost it says "maybe", and what comes later decides. */
#ifndef TALLY_CAMPAIGN_RECORD_H
#define TALLY_CAMPAIGN_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum { RECEIVE_MAX = 10 };

enum fault {
    FAULT_ORDER,     /* delivered before an earlier one of its group had ended */
    FAULT_LEASE,     /* delivered while another's lease ran */
    FAULT_FENCE,     /* a handle that was taken away, or is not the newest, ended a message */
    FAULT_TWICE,     /* delivered after its end */
    FAULT_DUPLICATE, /* one message was accepted twice: it has two ids */
    FAULT_RECEIVES,  /* its receive count is not that of its deliveries, and no lost reply explains that */
    FAULT_COUNT,
};

struct delivery {
    uint32_t message;
    uint16_t number;        /* of the message's deliveries that were seen; set by record_delivered */
    uint32_t receive_count; /* as the server says */
};

struct record {
    uint32_t groups;
    uint32_t messages_of_group;
    uint32_t lease_ms; /* for which a delivery is promised to its receiver */
    struct entry *entries_owned;
    uint64_t sent; /* messages in each state: accepted, ended for certain, ended or not */
    uint64_t ended;
    uint64_t maybe_ended;
    uint64_t deliveries;
    uint64_t unseen_receives; /* counted by the server, and in no reply that came */
    uint64_t lost_receives;
    uint64_t faults[FAULT_COUNT];
};

/* Memory for groups * messages_of_group messages, 12 bytes each. */
void record_init(struct record *record, uint32_t groups, uint32_t messages_of_group, uint32_t lease_ms);
void record_deinit(struct record *record);

/* A send was acknowledged with this MessageId, here as a digest; a repeat must have the same. */
void record_sent(struct record *record, uint32_t message, uint32_t id);

/* A receive that was asked for at asked_at_ms has delivered these, in this order, with ids as above. */
void record_delivered(struct record *record, struct delivery *deliveries, const uint32_t *ids, unsigned count,
                      uint32_t asked_at_ms, uint32_t now_ms);

/* A reply to a receive was lost on a kill: it may have counted receives that nobody sees. */
void record_receive_lost(struct record *record);

/* The receiver asks for the message's end; until the answer it may have ended. */
void record_end_asked(struct record *record, struct delivery delivery);

/* The answer. An acknowledged end of a message which was given back to the queue before (is_fenced) is a fault. */
void record_end_acknowledged(struct record *record, struct delivery delivery, bool is_fenced);

/* The end was refused, and no earlier request for it is unanswered. */
void record_end_refused(struct record *record, struct delivery delivery);

/* The receiver gives the message back, or lets it go: it may be delivered from now on. */
void record_given_back(struct record *record, struct delivery delivery);

/* Has every message ended, or may it have? */
bool record_is_over(const struct record *record);

/* Messages that have not ended for certain, nor may have. */
uint64_t record_unfinished(const struct record *record);

/* All faults but `twice` and `duplicate`. */
uint64_t record_violations(const struct record *record);

/* Receives that were counted and that no lost reply explains, since a reply gives RECEIVE_MAX at most. */
uint64_t record_unexplained(const struct record *record);

/* Messages ended or accepted more than once. */
uint64_t record_twice(const struct record *record);

#endif
