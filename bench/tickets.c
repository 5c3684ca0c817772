#include "tickets.h"

enum { MODES = 8 };

/* Of `alone` and `pair`, whose pools let two fit that are at most 50 apart: those who wait stand further from each
 * other than that, and pairs come in between, where nobody waits. JSON knows no leading zeros, so positions begin far
 * from 0. */
static const uint64_t FIRST_POSITION = UINT64_C(10000000000), STEP = 200, SPOTS = 100000;
static const uint64_t TICKETS_FIT_SPOTS = 1000;

/* Of the kinds with maps: values are dense, so that hundreds or thousands are near, and only what they share tells them
 * apart. */
static const uint64_t MMR_RANGE = 3000, MMR_STRIDE = 7919;

static void alone_append(struct text *out, uint64_t number)
{
    text_append_format(out, "{\"mode\":\"m%u\",\"mmr\":%llu}", (unsigned)(number % MODES),
                       (unsigned long long)(FIRST_POSITION + number * STEP));
}

static void pair_append(struct text *out, uint64_t number)
{
    uint64_t spot = number / 2 % SPOTS;
    text_append_format(out, "{\"mode\":\"m%u\",\"mmr\":%llu}", (unsigned)(spot % MODES),
                       (unsigned long long)(FIRST_POSITION + spot * STEP + STEP / 2));
}

/* Newcomers for those of `alone` that wait: a thousand that fit one each, then a thousand that take the places of those
 * who left. */
static void fit_append(struct text *out, uint64_t number)
{
    uint64_t spot = number % TICKETS_FIT_SPOTS;
    text_append_format(out, "{\"mode\":\"m%u\",\"mmr\":%llu}", (unsigned)(spot % MODES),
                       (unsigned long long)(FIRST_POSITION + spot * STEP));
}

static void maps_append(struct text *out, uint64_t number, uint64_t owner, char letter)
{
    text_append_format(out, "{\"mode\":\"m%u\",\"mmr\":%u,\"maps\":[\"%c%llu\",\"%c%llu\"]}", (unsigned)(owner % MODES),
                       (unsigned)(owner * MMR_STRIDE % MMR_RANGE + number % 2 * 20), letter,
                       (unsigned long long)owner * 2, letter, (unsigned long long)owner * 2 + 1);
}

static void alone_maps_append(struct text *out, uint64_t number)
{
    maps_append(out, number, number, 'a');
}

static void pair_maps_append(struct text *out, uint64_t number)
{
    maps_append(out, number, number / 2, 'p');
}

static void same_append(struct text *out, uint64_t number)
{
    (void)number;
    text_append(out, VIEW("{\"mode\":\"m\"}"));
}

/* splitmix64: the same numbers on every machine. */
static uint64_t random_next(uint64_t *state)
{
    uint64_t value = *state += UINT64_C(0x9E3779B97F4A7C15);
    value = (value ^ (value >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94D049BB133111EB);
    return value ^ (value >> 31);
}

/* About N(0, 1), cut at 3: the sum of twelve uniform numbers, drawn again when it is beyond. */
static double skill_of(uint64_t number)
{
    uint64_t state = number;
    for (;;) {
        double sum = -6;
        for (unsigned at = 0; at < 12; at++)
            sum += (double)(random_next(&state) >> 11) / 9007199254740992.0;
        if (sum >= -3 && sum <= 3)
            return sum;
    }
}

static void player_append(struct text *out, uint64_t number)
{
    uint64_t state = ~number;
    const char *region = random_next(&state) % 2 == 0 ? "eu" : "us";
    const char *mode = random_next(&state) % 125 < 100 ? "common" : "rare";
    text_append_format(out, "{\"region\":\"%s\",\"mode\":\"%s\",\"skill\":%.6f}", region, mode, skill_of(number));
}

static const struct ticket_kind KINDS[] = {
    {"alone", "mode and mmr, no two of them fit", alone_append},
    {"pair", "the same, 2n and 2n + 1 fit each other and none that is alone", pair_append},
    {"fit", "the same, n fits the n-th of a thousand that are alone, or takes its place", fit_append},
    {"alone-maps", "mode, mmr and maps: many are near, none share a map", alone_maps_append},
    {"pair-maps", "the same, 2n and 2n + 1 share theirs", pair_maps_append},
    {"same", "all fit all", same_append},
    {"player", "region, mode and skill, for teams", player_append},
};

const struct ticket_kind *ticket_kind_at(unsigned index)
{
    return index < sizeof(KINDS) / sizeof(KINDS[0]) ? &KINDS[index] : NULL;
}

const struct ticket_kind *ticket_kind_find(const char *name)
{
    const struct ticket_kind *kind;
    for (unsigned index = 0; (kind = ticket_kind_at(index)) != NULL; index++)
        if (strcmp(kind->name, name) == 0)
            return kind;
    return NULL;
}

void ticket_name_append(struct text *out, uint64_t number)
{
    char name[TICKET_NAME_SIZE];
    name[0] = 't';
    for (unsigned digit = TICKET_NAME_SIZE; digit-- > 1; number /= 10)
        name[digit] = (char)('0' + number % 10);
    text_append(out, (struct view){name, sizeof(name)});
}
