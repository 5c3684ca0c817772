/* The record of a campaign of pools: which match each ticket was delivered in, and the verdict on each thing that the
 * daemon says.
 *
 * It knows no protocol and no connection; it hears of what was asked, answered and delivered in the order in which this
 * process saw it. A claim that it makes is certain: where a reply was lost it waits for what comes later. A match is
 * known by a digest of its id. */
#ifndef TALLY_CAMPAIGN_POOL_RECORD_H
#define TALLY_CAMPAIGN_POOL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum { GROUP_MAX = 8 };

enum pool_fault {
    POOL_FAULT_TWICE,   /* a ticket was delivered in two matches, the first of which nobody put back */
    POOL_FAULT_GHOST,   /* a result came again after it was deleted, or its match put back */
    POOL_FAULT_MEMBERS, /* one match was told with different members */
    /* a put back was refused though the result was there; a late repeat of an offer is told another match */
    POOL_FAULT_ANSWER,
    POOL_FAULT_COUNT,
};

enum match_stage {
    MATCH_TOLD = 1, /* to who proposed it */
    MATCH_DELIVERED,
    MATCH_DELETED,
    MATCH_PUT_BACK_ASKED,
    MATCH_PUT_BACK,
};

struct match_entry {
    uint64_t digest;
    uint32_t tickets[GROUP_MAX]; /* ascending */
    uint32_t over_at_ms;         /* when its deletion or put back was answered */
    uint8_t count;
    uint8_t stage;
    bool is_proposed; /* by one of us; else the daemon found it */
};

struct pool_record {
    uint32_t tickets;
    uint64_t *match_of_owned; /* of each ticket: the digest of the match that it was last delivered in; 0: none */
    struct match_entry *matches_owned; /* open addressing, by digest */
    uint64_t slots;
    uint64_t matches;
    uint64_t by_stage[MATCH_PUT_BACK + 1];
    uint64_t proposed;
    uint64_t deliveries;
    uint64_t redeliveries;
    uint64_t ended_tickets; /* of matches that were deleted */
    uint64_t faults[POOL_FAULT_COUNT];
};

void pool_record_init(struct pool_record *record, uint32_t tickets);
void pool_record_deinit(struct pool_record *record);

/* A proposal was answered: it is this match. Sorts `tickets`. */
void pool_record_told(struct pool_record *record, uint64_t match, uint32_t *tickets, unsigned count);

/* A receive that was asked for at asked_at_ms has delivered it. Sorts `tickets`. */
void pool_record_delivered(struct pool_record *record, uint64_t match, uint32_t *tickets, unsigned count,
                           uint32_t asked_at_ms);

/* Its result was deleted, for certain: the lease had not ended, or a put back was told so. */
void pool_record_deleted(struct pool_record *record, uint64_t match, uint32_t now_ms);

void pool_record_put_back_asked(struct pool_record *record, uint64_t match);
bool pool_record_is_put_back_asked(const struct pool_record *record, uint64_t match);
void pool_record_put_back(struct pool_record *record, uint64_t match, uint32_t now_ms);

/* At the end a late repeat of an offer says that the ticket is in this match; 0: in none. */
void pool_record_compare(struct pool_record *record, uint32_t ticket, uint64_t match);

/* Tickets whose match was deleted. Nothing is left to do when these are all. */
bool pool_record_is_over(const struct pool_record *record);

/* At the end: matches that were told to who proposed them and never delivered, and tickets in no match that counts. */
uint64_t pool_record_undelivered(const struct pool_record *record);
uint64_t pool_record_unmatched(const struct pool_record *record);
uint64_t pool_record_faults(const struct pool_record *record);

#endif
