#include "relay/webhook_answer.h"

#include <stdio.h>

static bool is_passing(int status)
{
    return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

/* Copies what a receiver wrote as one line of plain characters: it goes into logs and terminals. */
static void copy_text(struct bytes text, char *at, size_t size)
{
    size_t count = text.size < size - 1 ? text.size : size - 1;
    for (size_t i = 0; i < count; i++)
        at[i] = (char)(text.ptr[i] < 0x20 ? ' ' : text.ptr[i] > 0x7e ? '?' : text.ptr[i]);
    at[count] = '\0';
}

static void judge_answer(const struct webhook_end *end, bool is_at_most_once, struct attempt *attempt)
{
    char text[WEBHOOK_TEXT_MAX + 1];
    copy_text(end->text, text, sizeof(text));
    if (end->status / 100 == 2) {
        attempt->verdict = VERDICT_DELIVERED;
        attempt->reason[0] = '\0';
        return;
    }
    const char *advice = "";
    if (end->status / 100 == 3)
        advice = " (redirects are not followed: give the relay the new address)";
    snprintf(attempt->reason, sizeof(attempt->reason), "the receiver answered %d%s%s%s", end->status, advice,
             text[0] == '\0' ? "" : ": ", text);
    attempt->verdict = is_passing(end->status) && !is_at_most_once ? VERDICT_RETRY : VERDICT_REFUSED;
    if (attempt->verdict == VERDICT_REFUSED)
        return;
    /* It answered, but may have begun before it failed. */
    attempt->may_have_arrived = end->status != 429;
    if (end->retry_after_s > WEBHOOK_RETRY_MAX_MS / 1000)
        attempt->retry_ms = WEBHOOK_RETRY_MAX_MS;
    else
        attempt->retry_ms = (uint32_t)end->retry_after_s * 1000;
}

void webhook_judge(const struct webhook_end *end, bool is_at_most_once, struct attempt *attempt)
{
    attempt->may_have_arrived = false;
    attempt->retry_ms = 0;
    if (end->status != 0) {
        judge_answer(end, is_at_most_once, attempt);
        return;
    }
    attempt->may_have_arrived = end->was_sent;
    attempt->verdict = end->was_sent && is_at_most_once ? VERDICT_DOUBTED : VERDICT_RETRY;
    snprintf(attempt->reason, sizeof(attempt->reason), "%s: %s",
             end->was_sent ? "no answer came to a request that was sent" : "can't reach the receiver", end->fault);
}
