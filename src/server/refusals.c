#include "server/refusals.h"

#include "base/assert.h"
#include "server/report.h"

#include <stdio.h>

void refusals_note(struct refusals *refusals, enum refusal kind, uint64_t now_ms)
{
    struct refusals_kind *noted = &refusals->kinds[kind];
    if (noted->count++ == 0)
        noted->begun_ms = now_ms;
}

void refusals_note_error(struct refusals *refusals, enum error error, uint64_t now_ms)
{
    static const struct {
        enum error error;
        enum refusal kind;
    } rows[] = {
        {ERROR_MEMORY_IS_FULL, REFUSAL_BY_MEMORY},       {ERROR_DISK_IS_FULL, REFUSAL_BY_DISK},
        {ERROR_INVALID_SIGNATURE, REFUSAL_BY_SIGNATURE}, {ERROR_INCOMPLETE_SIGNATURE, REFUSAL_BY_SIGNATURE},
        {ERROR_UNKNOWN_ACCESS_KEY, REFUSAL_BY_KEY},      {ERROR_ACCESS_DENIED, REFUSAL_BY_RIGHTS},
        {ERROR_REQUEST_TOO_LARGE, REFUSAL_BY_SIZE},      {ERROR_MALFORMED_REQUEST, REFUSAL_BY_FORM},
    };
    for (size_t i = 0; error != OK && i < ARRAY_LENGTH(rows); i++)
        if (rows[i].error == error)
            refusals_note(refusals, rows[i].kind, now_ms);
}

static const struct {
    const char *what;
    const char *why;
} words[REFUSAL_COUNT] = {
    [REFUSAL_BY_MEMORY] = {"requests", "the state takes as much memory as it may (MemoryIsFull, --memory-max)"},
    [REFUSAL_BY_DISK] = {"requests", "the disk is nearly full (DiskIsFull, --disk-min-free)"},
    [REFUSAL_BY_CONNECTIONS] = {"connections", "there are too many (--connections-max, ulimit -n)"},
    [REFUSAL_BY_INPUT] = {"requests", "unfinished ones take too much memory (--input-memory-max)"},
    [REFUSAL_BY_SIGNATURE] = {"requests", "their signature is wrong (SignatureDoesNotMatch, IncompleteSignature)"},
    [REFUSAL_BY_KEY] = {"requests", "their access key or token is not known (InvalidClientTokenId)"},
    [REFUSAL_BY_RIGHTS] = {"requests", "they were not allowed (AccessDenied)"},
    [REFUSAL_BY_SIZE] = {"requests", "they are too large (RequestTooLarge, --body-max, --header-max)"},
    [REFUSAL_BY_FORM] = {"requests", "they are not HTTP/1.1 as it is spoken here (MalformedRequest)"},
};

void refusals_tell(struct refusals *refusals, uint64_t now_ms, const struct server_options *options)
{
    for (enum refusal kind = 0; kind < REFUSAL_COUNT; kind++) {
        struct refusals_kind *noted = &refusals->kinds[kind];
        char text[256];
        if (noted->count == 0 || !report_may(&noted->told_ms, now_ms))
            continue;
        (void)snprintf(text, sizeof(text), "refused within %llu s: %llu %s, because %s.",
                       (unsigned long long)((now_ms - noted->begun_ms) / 1000 + 1), (unsigned long long)noted->count,
                       words[kind].what, words[kind].why);
        options->report(options->report_context, text);
        noted->count = 0;
    }
}
