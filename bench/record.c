#include "record.h"
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum mark {
    MARK_ASKED = 1,
    MARK_SENT = 2,
    MARK_SEEN = 4,
    MARK_HELD = 8,
    MARK_END_ASKED = 16, /* and not answered, nor has the message come back since */
    MARK_ENDED = 32,
    MARK_TWICE = 64, /* counted as such */
};

/* A body begins with number, due time and digest, in this form. */
enum { NUMBER_DIGITS = 10, TIME_DIGITS = 16, DIGEST_DIGITS = 8, BODY_HEAD = 10 + 1 + 16 + 1 + 8 + 1 };

struct record {
    uint64_t messages;
    unsigned body_size;
    _Atomic uint64_t counts[COUNT_COUNT];
    struct record_slot slots[RECORD_SLOTS];
    _Atomic uint8_t marks[];
};

static const char *const COUNT_NAMES[COUNT_COUNT] = {
    [COUNT_ASKED] = "asked",
    [COUNT_SENT] = "sent",
    [COUNT_DELIVERIES] = "deliveries",
    [COUNT_ENDED] = "ended",
    [COUNT_GIVEN_BACK] = "given_back",
    [COUNT_LET_GO] = "let_go",
    [COUNT_END_ASKED] = "end_asked",
    [COUNT_REFUSED] = "refused",
    [COUNT_LATE] = "late",
    [COUNT_ANSWERED] = "answered",
    [COUNT_TWICE] = "twice",
    [COUNT_HELD_TWICE] = "held_twice",
    [COUNT_WRONG] = "wrong",
};

struct record *record_open(const char *path, uint64_t messages, unsigned body_size)
{
    size_t size = sizeof(struct record) + messages;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat stat;
    if (fd < 0 || fstat(fd, &stat) != 0 || (stat.st_size == 0 && ftruncate(fd, (off_t)size) != 0))
        fatal("can't make the record %s: %s", path, strerror(errno));
    if (stat.st_size != 0 && (size_t)stat.st_size != size)
        fatal("the record %s is one of another number of messages", path);
    struct record *record = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (record == MAP_FAILED)
        fatal("can't map the record %s: %s", path, strerror(errno));
    close(fd);
    record->messages = messages;
    record->body_size = body_size;
    return record;
}

void record_count(struct record *record, enum record_count count, uint64_t more)
{
    atomic_fetch_add_explicit(&record->counts[count], more, memory_order_relaxed);
}

uint64_t record_counted(const struct record *record, enum record_count count)
{
    return atomic_load_explicit(&record->counts[count], memory_order_relaxed);
}

struct record_slot *record_slot(struct record *record, unsigned slot)
{
    return &record->slots[slot % RECORD_SLOTS];
}

/* Sets a mark; returns those that were there. */
static uint8_t mark(struct record *record, uint64_t number, enum mark which)
{
    return atomic_fetch_or_explicit(&record->marks[number], (uint8_t)which, memory_order_relaxed);
}

static void unmark(struct record *record, uint64_t number, enum mark which)
{
    atomic_fetch_and_explicit(&record->marks[number], (uint8_t)~which, memory_order_relaxed);
}

uint64_t record_take(struct record *record, uint64_t count)
{
    uint64_t first = atomic_fetch_add_explicit(&record->counts[COUNT_ASKED], count, memory_order_relaxed);
    if (first + count > record->messages)
        fatal("the record has room for %" PRIu64 " messages, and no more", record->messages);
    for (uint64_t number = first; number < first + count; number++)
        mark(record, number, MARK_ASKED);
    return first;
}

/* --- Bodies ------------------------------------------------------------------------------------------------------- */

/* Mixes both so that no other pair in reach has the same digest by a small error. The finaliser of SplitMix64. */
static uint32_t digest_of(uint64_t number, uint64_t due_at_ns)
{
    uint64_t mixed = number * UINT64_C(0x9e3779b97f4a7c15) + due_at_ns;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(mixed >> 32);
}

static void digits_write(char *at, unsigned digits, unsigned base, uint64_t value)
{
    for (unsigned digit = digits; digit-- > 0; value /= base)
        at[digit] = "0123456789abcdef"[value % base];
    at[digits] = ' ';
}

static bool digits_read(struct view text, unsigned base, uint64_t *value)
{
    uint64_t read = 0;
    for (size_t at = 0; at < text.size; at++) {
        char digit = text.ptr[at];
        unsigned worth = digit >= '0' && digit <= '9' ? (unsigned)(digit - '0') : (unsigned)(digit - 'a') + 10;
        if (worth >= base)
            return false;
        read = read * base + worth;
    }
    *value = read;
    return true;
}

/* The text of message n begins n places further on in a text that repeats. */
enum { TEXT_PERIOD = 64 };

static const char *text_of(uint64_t number)
{
    static struct text all;
    if (all.size == 0)
        workload_body_append(&all, TEXT_PERIOD + RECORD_BODY_MAX);
    return all.ptr_owned + number % TEXT_PERIOD;
}

void record_body_write(char *at, unsigned size, uint64_t number, uint64_t due_at_ns)
{
    digits_write(at, NUMBER_DIGITS, 10, number);
    digits_write(at + NUMBER_DIGITS + 1, TIME_DIGITS, 16, due_at_ns);
    digits_write(at + NUMBER_DIGITS + TIME_DIGITS + 2, DIGEST_DIGITS, 16, digest_of(number, due_at_ns));
    memcpy(at + BODY_HEAD, text_of(number), size - BODY_HEAD);
}

static bool body_read(const struct record *record, struct view body, uint64_t *number, uint64_t *due_at_ns)
{
    uint64_t digest = 0;
    return body.size == record->body_size && digits_read((struct view){body.ptr, NUMBER_DIGITS}, 10, number) &&
           digits_read((struct view){body.ptr + NUMBER_DIGITS + 1, TIME_DIGITS}, 16, due_at_ns) &&
           digits_read((struct view){body.ptr + NUMBER_DIGITS + TIME_DIGITS + 2, DIGEST_DIGITS}, 16, &digest) &&
           digest == digest_of(*number, *due_at_ns) && *number < record_counted(record, COUNT_ASKED) &&
           memcmp(body.ptr + BODY_HEAD, text_of(*number), body.size - BODY_HEAD) == 0;
}

/* --- What happens to a message ------------------------------------------------------------------------------------ */

void record_sent(struct record *record, uint64_t number)
{
    mark(record, number, MARK_SENT);
    record_count(record, COUNT_SENT, 1);
}

static void count_twice(struct record *record, uint64_t number)
{
    if ((mark(record, number, MARK_TWICE) & MARK_TWICE) == 0)
        record_count(record, COUNT_TWICE, 1);
}

/* What was asked of a message before it came (back) has not ended it, and can't any more: a newer handle is out. That
 * of another worker who has it now is safe as long as nobody reads a delivery later than its lease lasts. */
bool record_delivered(struct record *record, struct record_slot *slot, struct view body, uint64_t now_ns,
                      uint64_t *number)
{
    uint64_t due_at_ns = 0, read = 0;
    record_count(record, COUNT_DELIVERIES, 1);
    if (!body_read(record, body, &read, &due_at_ns)) {
        fprintf(stderr, "a body that nobody sent: %.*s\n", (int)body.size, body.ptr);
        record_count(record, COUNT_WRONG, 1);
        return false;
    }
    *number = read;
    uint8_t before = mark(record, read, MARK_SEEN);
    if ((before & MARK_END_ASKED) != 0)
        unmark(record, read, MARK_END_ASKED);
    if ((before & MARK_ENDED) != 0)
        count_twice(record, read);
    if ((before & MARK_HELD) != 0)
        record_count(record, COUNT_HELD_TWICE, 1);
    if ((before & MARK_SEEN) == 0 && now_ns > due_at_ns)
        histogram_add(&slot->latency[KIND_AGE], now_ns - due_at_ns);
    return true;
}

void record_held(struct record *record, uint64_t number)
{
    mark(record, number, MARK_HELD);
}

void record_given_back(struct record *record, uint64_t number)
{
    unmark(record, number, MARK_HELD);
}

/* Each of these counts before it marks or after, so that who is killed in between leaves one more delete without an
 * answer, not one less. */
void record_end_asked(struct record *record, uint64_t number)
{
    record_count(record, COUNT_END_ASKED, 1);
    mark(record, number, MARK_END_ASKED);
}

void record_end_refused(struct record *record, uint64_t number)
{
    unmark(record, number, MARK_END_ASKED);
    record_count(record, COUNT_REFUSED, 1);
    record_count(record, COUNT_ANSWERED, 1);
}

void record_end_late(struct record *record)
{
    record_count(record, COUNT_LATE, 1);
}

void record_ended(struct record *record, uint64_t number)
{
    if ((mark(record, number, MARK_ENDED) & MARK_ENDED) == 0)
        record_count(record, COUNT_ENDED, 1);
    else
        count_twice(record, number);
    record_count(record, COUNT_ANSWERED, 1);
}

/* --- What is printed ---------------------------------------------------------------------------------------------- */

void record_counts_print(const struct record *record, FILE *file)
{
    for (unsigned count = 0; count < COUNT_COUNT; count++)
        fprintf(file, "%s\"%s\":%" PRIu64, count == 0 ? "" : ",", COUNT_NAMES[count], record_counted(record, count));
}

void record_latency(const struct record *record, enum record_kind kind, struct histogram *latency)
{
    histogram_reset(latency);
    latency->max_ns = UINT64_MAX;
    for (unsigned slot = 0; slot < RECORD_SLOTS; slot++) {
        const struct histogram *one = &record->slots[slot].latency[kind];
        for (unsigned bucket = 0; one->count > 0 && bucket < HISTOGRAM_BUCKETS; bucket++) {
            const uint64_t count =
                one->buckets[bucket]; /* its process may be adding to it: what is counted is what was read */
            latency->buckets[bucket] += count;
            latency->count += count;
        }
    }
}

void record_percentiles_print(enum record_kind kind, const struct histogram *latency, FILE *file)
{
    static const char *const NAMES[KIND_COUNT] = {
        [KIND_SEND] = "send",
        [KIND_RECEIVE] = "receive",
        [KIND_DELETE] = "delete",
        [KIND_AGE] = "age",
    };
    if (latency->count == 0)
        return;
    fprintf(file, ",\"%s_us\":[%.1f,%.1f,%.1f]", NAMES[kind], (double)histogram_percentile_ns(latency, 0.5) / 1e3,
            (double)histogram_percentile_ns(latency, 0.99) / 1e3,
            (double)histogram_percentile_ns(latency, 0.999) / 1e3);
}

void record_verdict_print(const struct record *record, FILE *file)
{
    uint64_t lost = 0, never_seen = 0, maybe_ended = 0, unacknowledged_seen = 0;
    for (uint64_t number = 0; number < record->messages; number++) {
        uint8_t marks = record->marks[number];
        bool was_sent = (marks & MARK_SENT) != 0, has_ended = (marks & MARK_ENDED) != 0;
        bool was_seen = (marks & MARK_SEEN) != 0, may_have_ended = !has_ended && (marks & MARK_END_ASKED) != 0;
        lost += was_sent && !has_ended && !may_have_ended;
        never_seen += was_sent && !was_seen;
        maybe_ended += may_have_ended;
        unacknowledged_seen += was_seen && !was_sent;
    }
    fputc('{', file);
    record_counts_print(record, file);
    fprintf(file,
            ",\"lost\":%" PRIu64 ",\"never_seen\":%" PRIu64 ",\"maybe_ended\":%" PRIu64 ",\"unanswered\":%" PRIu64
            ",\"unacknowledged_seen\":%" PRIu64,
            lost, never_seen, maybe_ended,
            record_counted(record, COUNT_END_ASKED) - record_counted(record, COUNT_ANSWERED), unacknowledged_seen);
    static struct histogram latency; /* large for a stack */
    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        record_latency(record, kind, &latency);
        record_percentiles_print(kind, &latency, file);
    }
    fputs("}\n", file);
}
