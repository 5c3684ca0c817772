#include "relay/webhook_answer.h"

#include "base/assert.h"
#include <stdio.h>

/* What an answer other than 2xx says. */
enum fault_kind {
    FAULT_OF_ROW,      /* this message can't be taken, now or later */
    FAULT_TURNED_AWAY, /* no message would be accepted now: nothing was done */
    FAULT_UNCLEAR,     /* it may have been done, or begun */
};

static enum fault_kind kind_of(int status)
{
    static const int of_row[] = {400, 413, 415, 422, 431};
    static const int unclear[] = {406, 408, 409, 424, 425};
    for (size_t i = 0; i < ARRAY_LENGTH(of_row); i++)
        if (status == of_row[i])
            return FAULT_OF_ROW;
    for (size_t i = 0; i < ARRAY_LENGTH(unclear); i++)
        if (status == unclear[i])
            return FAULT_UNCLEAR;
    if (status / 100 == 3)
        return status == 301 || status == 307 || status == 308 ? FAULT_TURNED_AWAY : FAULT_UNCLEAR;
    return status < 500 ? FAULT_TURNED_AWAY : FAULT_UNCLEAR;
}

/* Would the next row get the same answer? */
static bool is_general(int status, bool is_at_most_once)
{
    if (status >= 500)
        return status == 503 || is_at_most_once;
    return status / 100 == 3 || kind_of(status) == FAULT_TURNED_AWAY;
}

/* What an operator can do about it; "": nothing, it will pass. */
static const char *advice_on(int status)
{
    if (status / 100 == 3)
        return " (redirects are not followed: give the relay the new address)";
    if (status == 401 || status == 403 || status == 407)
        return " (rows wait: give the relay the address or the secret that it wants)";
    if (status == 410)
        return " (it wants no more: delete the relay, or give it the new address; rows wait)";
    if (status != 429 && kind_of(status) == FAULT_TURNED_AWAY)
        return " (rows wait: is the address of the sink right?)";
    return "";
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
    enum fault_kind kind = kind_of(end->status);
    copy_text(end->text, text, sizeof(text));
    snprintf(attempt->reason, sizeof(attempt->reason), "the receiver answered %d%s%s%.180s", end->status,
             advice_on(end->status), text[0] == '\0' ? "" : ": ", text);
    attempt->verdict = VERDICT_REFUSED;
    if (kind == FAULT_OF_ROW || (kind == FAULT_UNCLEAR && is_at_most_once))
        return;
    attempt->verdict = VERDICT_RETRY;
    attempt->may_have_arrived = kind == FAULT_UNCLEAR;
    if (end->retry_after_s > WEBHOOK_RETRY_MAX_MS / 1000)
        attempt->retry_ms = WEBHOOK_RETRY_MAX_MS;
    else
        attempt->retry_ms = (uint32_t)end->retry_after_s * 1000;
}

static void judge_silence(const struct webhook_end *end, bool is_at_most_once, struct attempt *attempt)
{
    attempt->may_have_arrived = end->was_sent;
    attempt->verdict = end->was_sent && is_at_most_once ? VERDICT_DOUBTED : VERDICT_RETRY;
    snprintf(attempt->reason, sizeof(attempt->reason), "%s: %s",
             end->was_sent ? "no answer came to a request that was sent" : "can't reach the receiver", end->fault);
}

bool webhook_judge(const struct webhook_end *end, bool is_at_most_once, struct attempt *attempt)
{
    attempt->may_have_arrived = false;
    attempt->retry_ms = 0;
    if (end->status == 0) {
        judge_silence(end, is_at_most_once, attempt);
        return !end->was_sent;
    }
    if (end->status / 100 == 2) {
        attempt->verdict = VERDICT_DELIVERED;
        attempt->reason[0] = '\0';
        return false;
    }
    judge_answer(end, is_at_most_once, attempt);
    return is_general(end->status, is_at_most_once);
}
