#include "pool_record.h"
#include "text.h"

#include <stdlib.h>

static const uint64_t SLOTS_MIN = 1024;

void pool_record_init(struct pool_record *record, uint32_t tickets)
{
    *record = (struct pool_record){.tickets = tickets, .slots = SLOTS_MIN};
    record->match_of_owned = allocate(tickets * sizeof(uint64_t));
    record->matches_owned = allocate(record->slots * sizeof(struct match_entry));
    memset(record->match_of_owned, 0, tickets * sizeof(uint64_t));
    memset(record->matches_owned, 0, record->slots * sizeof(struct match_entry));
}

void pool_record_deinit(struct pool_record *record)
{
    free(record->match_of_owned);
    free(record->matches_owned);
}

/* --- The table of matches ----------------------------------------------------------------------------------------- */

static struct match_entry *slot_of(struct match_entry *matches, uint64_t slots, uint64_t digest)
{
    uint64_t at = digest & (slots - 1);
    while (matches[at].digest != 0 && matches[at].digest != digest)
        at = (at + 1) & (slots - 1);
    return &matches[at];
}

static void grow(struct pool_record *record)
{
    uint64_t slots = record->slots * 2;
    struct match_entry *matches = allocate(slots * sizeof(struct match_entry));
    memset(matches, 0, slots * sizeof(struct match_entry));
    for (uint64_t at = 0; at < record->slots; at++)
        if (record->matches_owned[at].digest != 0)
            *slot_of(matches, slots, record->matches_owned[at].digest) = record->matches_owned[at];
    free(record->matches_owned);
    record->matches_owned = matches;
    record->slots = slots;
}

static struct match_entry *match_known(struct pool_record *record, uint64_t digest)
{
    struct match_entry *match = slot_of(record->matches_owned, record->slots, digest);
    if (match->digest == 0)
        fatal("a match that was never heard of");
    return match;
}

static void set_stage(struct pool_record *record, struct match_entry *match, enum match_stage stage)
{
    if (match->stage != 0)
        record->by_stage[match->stage]--;
    record->by_stage[stage]++;
    match->stage = (uint8_t)stage;
}

static void sort(uint32_t *tickets, unsigned count)
{
    for (unsigned at = 1; at < count; at++)
        for (unsigned to = at; to > 0 && tickets[to] < tickets[to - 1]; to--) {
            uint32_t other = tickets[to];
            tickets[to] = tickets[to - 1];
            tickets[to - 1] = other;
        }
}

/* The match; if it was not known, its stage is 0. */
static struct match_entry *match_with(struct pool_record *record, uint64_t digest, uint32_t *tickets, unsigned count)
{
    if (count == 0 || count > GROUP_MAX)
        fatal("a match of %u tickets", count);
    if (2 * (record->matches + 1) > record->slots)
        grow(record);
    sort(tickets, count);
    struct match_entry *match = slot_of(record->matches_owned, record->slots, digest);
    if (match->digest != 0) {
        if (match->count != count || memcmp(match->tickets, tickets, count * sizeof(tickets[0])) != 0)
            record->faults[POOL_FAULT_MEMBERS]++;
        return match;
    }
    *match = (struct match_entry){.digest = digest, .count = (uint8_t)count};
    for (unsigned at = 0; at < count; at++) {
        if (tickets[at] >= record->tickets)
            fatal("a ticket that nobody offered: %u", tickets[at]);
        match->tickets[at] = tickets[at];
    }
    record->matches++;
    return match;
}

/* --- What happens ------------------------------------------------------------------------------------------------- */

void pool_record_told(struct pool_record *record, uint64_t digest, uint32_t *tickets, unsigned count)
{
    struct match_entry *match = match_with(record, digest, tickets, count);
    record->proposed += !match->is_proposed;
    match->is_proposed = true;
    if (match->stage == 0)
        set_stage(record, match, MATCH_TOLD);
}

/* It is the match of its tickets from now on. The one that was it before must have been put back; and if the answer
 * that says so has not come yet, this is as good. */
static void take_tickets(struct pool_record *record, const struct match_entry *match)
{
    for (unsigned at = 0; at < match->count; at++) {
        uint64_t before = record->match_of_owned[match->tickets[at]];
        if (before != 0) {
            struct match_entry *other = match_known(record, before);
            if (other->stage == MATCH_PUT_BACK_ASKED)
                set_stage(record, other, MATCH_PUT_BACK);
            else if (other->stage != MATCH_PUT_BACK)
                record->faults[POOL_FAULT_TWICE]++;
        }
        record->match_of_owned[match->tickets[at]] = match->digest;
    }
}

void pool_record_delivered(struct pool_record *record, uint64_t digest, uint32_t *tickets, unsigned count,
                           uint32_t asked_at_ms)
{
    struct match_entry *match = match_with(record, digest, tickets, count);
    record->deliveries++;
    if (match->stage == 0 || match->stage == MATCH_TOLD) {
        set_stage(record, match, MATCH_DELIVERED);
        take_tickets(record, match);
        return;
    }
    record->redeliveries++;
    bool is_over = match->stage == MATCH_DELETED || match->stage == MATCH_PUT_BACK;
    if (is_over && match->over_at_ms != 0 && asked_at_ms > match->over_at_ms)
        record->faults[POOL_FAULT_GHOST]++;
}

void pool_record_deleted(struct pool_record *record, uint64_t digest, uint32_t now_ms)
{
    struct match_entry *match = match_known(record, digest);
    if (match->stage != MATCH_DELIVERED && match->stage != MATCH_PUT_BACK_ASKED)
        return;
    set_stage(record, match, MATCH_DELETED);
    match->over_at_ms = now_ms;
    record->ended_tickets += match->count;
}

void pool_record_put_back_asked(struct pool_record *record, uint64_t digest)
{
    struct match_entry *match = match_known(record, digest);
    if (match->stage == MATCH_DELIVERED)
        set_stage(record, match, MATCH_PUT_BACK_ASKED);
}

bool pool_record_is_put_back_asked(const struct pool_record *record, uint64_t digest)
{
    return slot_of(record->matches_owned, record->slots, digest)->stage == MATCH_PUT_BACK_ASKED;
}

void pool_record_put_back(struct pool_record *record, uint64_t digest, uint32_t now_ms)
{
    struct match_entry *match = match_known(record, digest);
    if (match->stage == MATCH_PUT_BACK_ASKED)
        set_stage(record, match, MATCH_PUT_BACK);
    match->over_at_ms = now_ms;
}

/* --- The verdict -------------------------------------------------------------------------------------------------- */

void pool_record_compare(struct pool_record *record, uint32_t ticket, uint64_t match)
{
    if (record->match_of_owned[ticket] != match)
        record->faults[POOL_FAULT_ANSWER]++;
}

bool pool_record_is_over(const struct pool_record *record)
{
    return record->ended_tickets == record->tickets;
}

uint64_t pool_record_undelivered(const struct pool_record *record)
{
    return record->by_stage[MATCH_TOLD];
}

uint64_t pool_record_unmatched(const struct pool_record *record)
{
    uint64_t count = 0;
    for (uint32_t ticket = 0; ticket < record->tickets; ticket++) {
        uint64_t digest = record->match_of_owned[ticket];
        uint8_t stage = digest == 0 ? 0 : slot_of(record->matches_owned, record->slots, digest)->stage;
        count += stage != MATCH_DELIVERED && stage != MATCH_DELETED;
    }
    return count;
}

uint64_t pool_record_faults(const struct pool_record *record)
{
    uint64_t count = 0;
    for (unsigned fault = 0; fault < POOL_FAULT_COUNT; fault++)
        count += record->faults[fault];
    return count;
}
