/* What an answer of an SQS endpoint, or none, means for the rows of its request. */
#include "relay/sink_sqs_parts.h"
#include <stdio.h>

#define BATCH_SIZE_OLD (256u << 10) /* of endpoints from before August 2025 */

/* Requests in a row that failed in the server: one may be the fault of its messages, three are not. */
#define FAILURES_MAX 3u

/* --- verdicts ----------------------------------------------------------------------------------------------------- */

void sink_sqs_settle(struct call *call, size_t index, enum verdict verdict, const char *reason)
{
    struct attempt *attempt = &call->attempts[index];
    struct bytes name = sink_sqs_name_of(call->sqs, attempt->row);
    attempt->verdict = verdict;
    if (reason != NULL)
        snprintf(attempt->reason, sizeof(attempt->reason), "%s, queue %.*s: %.200s",
                 sqs_shown(call->sqs->endpoint_owned), name.size > 80 ? 80 : (int)name.size, (const char *)name.ptr,
                 reason);
    call->is_settled[index] = true;
    if (verdict == VERDICT_RETRY || verdict == VERDICT_BLOCKED ||
        (verdict == VERDICT_REFUSED && call->sqs->blocks_group))
        call->lines[call->line_of[index]].is_closed = true;
}

/* The message may be in the queue now or not. */
static void doubt(struct call *call, size_t index, const char *reason)
{
    struct attempt *attempt = &call->attempts[index];
    bool is_harmless = sink_sqs_memory_ms(&call->sqs->base, attempt->row) > 0;
    attempt->may_have_arrived = true;
    sink_sqs_settle(call, index, is_harmless || call->sqs->base.repeats ? VERDICT_RETRY : VERDICT_DOUBTED, reason);
}

/* Nobody can send to the queue of that row. */
static void block(struct call *call, size_t index, const char *reason)
{
    struct bytes name = sink_sqs_name_of(call->sqs, call->attempts[index].row);
    sink_sqs_settle(call, index, VERDICT_BLOCKED, reason);
    for (size_t i = 0; i < call->count; i++)
        if (bytes_equal(sink_sqs_name_of(call->sqs, call->attempts[i].row), name))
            call->lines[call->line_of[i]].is_closed = true;
    sqs_queues_forget(&call->sqs->queues, name);
}

static void set_wish(struct call *call, size_t index, unsigned retry_after_s)
{
    call->attempts[index].retry_ms = retry_after_s > UINT32_MAX / 1000 ? UINT32_MAX : retry_after_s * 1000;
}

const char *sink_sqs_reason_of(const struct sqs_exchange *exchange)
{
    return exchange->answer.reason[0] == '\0' ? NULL : exchange->answer.reason;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

void sink_sqs_read_no_url(struct call *call, size_t index, const struct sqs_exchange *exchange)
{
    struct sqs_outcome outcome;
    sqs_read_error(exchange->answer.status, buffer_bytes(&exchange->text), exchange->answer.query_error, &outcome);
    if (outcome.meaning == SQS_REFUSED) {
        sink_sqs_settle(call, index, VERDICT_REFUSED, outcome.reason); /* no queue can have this name */
    } else if (outcome.meaning == SQS_CLOSED) {
        block(call, index, outcome.reason);
    } else {
        sink_sqs_settle(call, index, VERDICT_RETRY, outcome.reason);
        set_wish(call, index, exchange->answer.retry_after_s);
        call->sqs->base.is_down = call->is_over = true;
    }
}

void sink_sqs_split(struct call *call, const struct batch_rows *rows, const char *reason)
{
    if (strncmp(reason, "BatchRequestTooLong", 19) == 0 && call->sqs->batch_size_max > BATCH_SIZE_OLD)
        call->sqs->batch_size_max = BATCH_SIZE_OLD;
    for (size_t i = 0; i < rows->member_count; i++)
        call->is_alone[rows->members[i]] = true;
}

void sink_sqs_read_refusal(struct call *call, const struct batch_rows *rows, const struct sqs_exchange *exchange)
{
    const struct transport_answer *answer = &exchange->answer;
    struct sink_sqs *sqs = call->sqs;
    struct sqs_outcome outcome;
    sqs_read_error(answer->status, buffer_bytes(&exchange->text), answer->query_error, &outcome);
    if (outcome.meaning == SQS_REFUSED && rows->member_count > 1) {
        sink_sqs_split(call, rows, outcome.reason);
        return;
    }
    if (outcome.meaning == SQS_CLOSED) {
        block(call, rows->members[0], outcome.reason);
        return;
    }
    for (size_t i = 0; i < rows->member_count; i++) {
        size_t index = rows->members[i];
        if (outcome.meaning == SQS_REFUSED)
            sink_sqs_settle(call, index, VERDICT_REFUSED, outcome.reason);
        else if (outcome.meaning == SQS_BUSY)
            sink_sqs_settle(call, index, VERDICT_RETRY, outcome.reason);
        else
            doubt(call, index, outcome.reason);
        set_wish(call, index, answer->retry_after_s);
    }
    sqs->failures += outcome.meaning == SQS_FAILED;
    if (outcome.meaning == SQS_BUSY || answer->status == 503 || sqs->failures >= FAILURES_MAX)
        sqs->base.is_down = call->is_over = true;
}

static void read_result(struct call *call, size_t index, const struct sqs_outcome *outcome)
{
    switch (outcome->meaning) {
    case SQS_TAKEN:
        sink_sqs_settle(call, index, VERDICT_DELIVERED, NULL);
        break;
    case SQS_REFUSED:
        sink_sqs_settle(call, index, VERDICT_REFUSED, outcome->reason);
        break;
    case SQS_BUSY:
        sink_sqs_settle(call, index, VERDICT_RETRY, outcome->reason);
        break;
    case SQS_FAILED:
        doubt(call, index, outcome->reason);
        break;
    case SQS_CLOSED:
        sink_sqs_settle(call, index, VERDICT_BLOCKED, outcome->reason);
        break;
    }
}

void sink_sqs_read_results(struct call *call, const struct batch_rows *rows, struct bytes text)
{
    struct sqs_outcome outcomes[SQS_BATCH_MAX];
    sqs_read_batch(text, outcomes, rows->member_count);
    call->sqs->failures = 0;
    for (size_t i = 0; i < rows->member_count; i++)
        read_result(call, rows->members[i], &outcomes[i]);
}

void sink_sqs_read_silence(struct call *call, const struct batch_rows *rows, const struct sqs_exchange *exchange)
{
    for (size_t i = 0; i < rows->member_count; i++)
        if (exchange->may_have_arrived)
            doubt(call, rows->members[i], exchange->answer.reason);
        else
            sink_sqs_settle(call, rows->members[i], VERDICT_UNTRIED, sink_sqs_reason_of(exchange));
}
