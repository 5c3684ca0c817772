#include "record.h"
#include "text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum state { STATE_UNSENT, STATE_WAITING, STATE_MAYBE_ENDED, STATE_ENDED };

enum { FAULTS_TOLD_MAX = 20 }; /* the first ones say what is wrong; a million more would not */

/* A lease counts from the time of its frame, which may have been opened a little before the receive was asked for. */
enum { LEASE_SLACK_MS = 500 };

struct entry {
    uint32_t id; /* 0: not known yet */
    uint32_t leased_until_ms;
    uint16_t delivery_number;
    uint8_t state;
    uint8_t unseen; /* receives that are in its count, and in no reply that came */
};

static_assert(sizeof(struct entry) == 12, "The memory of a campaign is messages times this.");

void record_init(struct record *record, uint32_t groups, uint32_t messages_of_group, uint32_t lease_ms)
{
    *record = (struct record){
        .groups = groups,
        .messages_of_group = messages_of_group,
        .lease_ms = lease_ms,
        .entries_owned = allocate((size_t)groups * messages_of_group * sizeof(struct entry)),
    };
}

void record_deinit(struct record *record)
{
    free(record->entries_owned);
    record->entries_owned = NULL;
}

static struct entry *entry_of(const struct record *record, uint32_t message)
{
    if (message >= record->groups * record->messages_of_group)
        fatal("message %u was never sent", message);
    return &record->entries_owned[message];
}

static void tell_fault(struct record *record, enum fault fault, uint32_t message, const char *text)
{
    static const char *const NAMES[FAULT_COUNT] = {"order", "lease", "fence", "twice", "duplicate", "receive count"};
    uint64_t sum = 0;
    record->faults[fault]++;
    for (unsigned at = 0; at < FAULT_COUNT; at++)
        sum += record->faults[at];
    if (sum > FAULTS_TOLD_MAX)
        return;
    const struct entry *entry = entry_of(record, message);
    fprintf(stderr, "%s: group %u, message %u (delivered %u times): %s\n", NAMES[fault],
            message / record->messages_of_group, message % record->messages_of_group, entry->delivery_number, text);
}

static void set_state(struct record *record, struct entry *entry, enum state state)
{
    record->ended -= entry->state == STATE_ENDED ? 1 : 0;
    record->maybe_ended -= entry->state == STATE_MAYBE_ENDED ? 1 : 0;
    record->ended += state == STATE_ENDED ? 1 : 0;
    record->maybe_ended += state == STATE_MAYBE_ENDED ? 1 : 0;
    entry->state = (uint8_t)state;
}

static void check_id(struct record *record, uint32_t message, uint32_t id)
{
    struct entry *entry = entry_of(record, message);
    if (entry->id != 0 && entry->id != id)
        tell_fault(record, FAULT_DUPLICATE, message, "it has a second MessageId");
    entry->id = id;
}

void record_sent(struct record *record, uint32_t message, uint32_t id)
{
    struct entry *entry = entry_of(record, message);
    check_id(record, message, id);
    if (entry->state != STATE_UNSENT)
        return;
    record->sent++;
    set_state(record, entry, STATE_WAITING);
}

static bool is_among(const struct delivery *deliveries, unsigned count, uint32_t message)
{
    for (unsigned at = 0; at < count; at++)
        if (deliveries[at].message == message)
            return true;
    return false;
}

/* Every earlier one of the group has ended, or stands before this one in the same receive. One whose end was asked for
 * and never answered must have ended, or this one would not have come. */
static void check_order(struct record *record, const struct delivery *deliveries, unsigned at)
{
    uint32_t message = deliveries[at].message;
    for (uint32_t earlier = message - message % record->messages_of_group; earlier < message; earlier++) {
        struct entry *entry = entry_of(record, earlier);
        if (entry->state == STATE_MAYBE_ENDED)
            set_state(record, entry, STATE_ENDED);
        else if (entry->state != STATE_ENDED && !is_among(deliveries, at, earlier))
            tell_fault(record, FAULT_ORDER, message, "an earlier one of its group has not ended");
    }
}

/* The count rises by one with each delivery, and by those whose replies were lost. */
static void check_receive_count(struct record *record, const struct delivery *delivery)
{
    struct entry *entry = entry_of(record, delivery->message);
    const uint32_t unseen = delivery->receive_count - entry->delivery_number; /* in all; huge if it is too low */
    if (unseen < entry->unseen || unseen > record->lost_receives || unseen > UINT8_MAX) {
        tell_fault(record, FAULT_RECEIVES, delivery->message, "its receive count is not that of its deliveries");
        return;
    }
    record->unseen_receives += unseen - entry->unseen;
    entry->unseen = (uint8_t)unseen;
}

void record_receive_lost(struct record *record)
{
    record->lost_receives++;
}

void record_delivered(struct record *record, struct delivery *deliveries, const uint32_t *ids, unsigned count,
                      uint32_t asked_at_ms, uint32_t now_ms)
{
    for (unsigned at = 0; at < count; at++) {
        uint32_t message = deliveries[at].message;
        struct entry *entry = entry_of(record, message);
        check_id(record, message, ids[at]);
        record->deliveries++;
        deliveries[at].number = ++entry->delivery_number;
        check_receive_count(record, &deliveries[at]);
        if (entry->state == STATE_ENDED)
            tell_fault(record, FAULT_TWICE, message, "delivered after its end");
        else if (entry->state == STATE_MAYBE_ENDED)
            set_state(record, entry, STATE_WAITING);
        if (now_ms < entry->leased_until_ms)
            tell_fault(record, FAULT_LEASE, message, "delivered while an earlier lease ran");
        check_order(record, deliveries, at);
        entry->leased_until_ms = asked_at_ms + record->lease_ms - LEASE_SLACK_MS;
    }
}

void record_end_asked(struct record *record, struct delivery delivery)
{
    struct entry *entry = entry_of(record, delivery.message);
    if (entry->state == STATE_WAITING && entry->delivery_number == delivery.number)
        set_state(record, entry, STATE_MAYBE_ENDED);
}

void record_end_acknowledged(struct record *record, struct delivery delivery, bool is_fenced)
{
    struct entry *entry = entry_of(record, delivery.message);
    bool is_newest = entry->delivery_number == delivery.number;
    if (entry->state == STATE_ENDED)
        return; /* whoever ended it, asking for it again is answered with success */
    if (is_newest && is_fenced)
        tell_fault(record, FAULT_FENCE, delivery.message, "ended before the one given back before it");
    if (is_newest)
        set_state(record, entry, STATE_ENDED);
    else if (entry->state == STATE_WAITING)
        tell_fault(record, FAULT_FENCE, delivery.message, "ended with a handle that was not the newest");
}

void record_end_refused(struct record *record, struct delivery delivery)
{
    struct entry *entry = entry_of(record, delivery.message);
    if (entry->state == STATE_MAYBE_ENDED && entry->delivery_number == delivery.number)
        set_state(record, entry, STATE_WAITING);
}

void record_given_back(struct record *record, struct delivery delivery)
{
    struct entry *entry = entry_of(record, delivery.message);
    if (entry->delivery_number == delivery.number)
        entry->leased_until_ms = 0;
}

bool record_is_over(const struct record *record)
{
    return record_unfinished(record) == 0;
}

uint64_t record_unfinished(const struct record *record)
{
    return (uint64_t)record->groups * record->messages_of_group - record->ended - record->maybe_ended;
}

uint64_t record_violations(const struct record *record)
{
    return record->faults[FAULT_ORDER] + record->faults[FAULT_LEASE] + record->faults[FAULT_FENCE];
}

uint64_t record_unexplained(const struct record *record)
{
    const uint64_t explained = record->lost_receives * RECEIVE_MAX;
    const uint64_t unseen = record->unseen_receives;
    return record->faults[FAULT_RECEIVES] + (unseen > explained ? unseen - explained : 0);
}

uint64_t record_twice(const struct record *record)
{
    return record->faults[FAULT_TWICE] + record->faults[FAULT_DUPLICATE];
}
