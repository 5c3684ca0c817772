#include "tallyd/inspect_report.h"

#include "base/buffer.h"
#include "base/quote.h"
#include "core/pools/ticket_pool.h"
#include "core/publishers/relay_record.h"
#include "core/schedules/schedule.h"

#include <inttypes.h>
#include <time.h>

/* For each kind of note: the text before its name, the text before a count, and how many are printed one by one. */
static const struct {
    const char *one;
    const char *many;
    unsigned printed_max;
} words[SALVAGE_NOTE_COUNT] = {
    [SALVAGE_DAMAGE] = {"damaged", "damaged places", 10},
    [SALVAGE_GAP] = {"lost", "runs of frames lost", 10},
    [SALVAGE_RESCUED] = {"saved all the same", "damaged frames of which messages could be saved", 10},
    [SALVAGE_FOUNDING] = {"lost: the key of the namespace", "keys lost", 10},
    [SALVAGE_MESSAGE] = {"lost, unless it had ended: message", "messages lost, unless they had ended", 10},
    [SALVAGE_CONTENT] = {"lost: the body of message", "messages whose bodies are lost", 10},
    [SALVAGE_MAY_REPEAT] = {"may be delivered again: message", "messages that may be delivered again", 3},
    [SALVAGE_REQUEUED] = {"in another queue: message", "messages in another queue", 3},
    [SALVAGE_UNNAMED_QUEUE] = {"its name and settings are lost: queue", "queues whose names and settings are lost", 10},
    [SALVAGE_BATCH] = {"does not complete by itself: batch", "batches that do not complete by themselves", 10},
    [SALVAGE_UNIT] = {"is no unit of its batch any more: message",
                      "messages that are no units of their batches any more", 3},
    [SALVAGE_POOL] = {"matches may be lost: pool", "pools of which matches may be lost", 10},
    [SALVAGE_PUBLISHER] = {"rows may be published twice: publisher", "publishers whose rows may be published twice",
                           10},
    [SALVAGE_EVENT] = {"could not be applied behind a gap: event", "events behind a gap that could not be applied", 0},
};

static const char *format_time(uint64_t time_ms, char text[32])
{
    const time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    if (time_ms == 0 || gmtime_r(&seconds, &parts) == NULL)
        return "?";
    char whole[24];
    if (strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        return "?"; /* a year of more than four digits comes from no clock */
    (void)snprintf(text, 32, "%s.%03uZ", whole, (unsigned)(time_ms % 1000));
    return text;
}

static void print_gap(const struct salvage_note *note)
{
    char from[32], until[32];
    if (note->last == 0)
        printf("frames from %" PRIu64 " on, after %s: how many is not known", note->first,
               format_time(note->from_ms, from));
    else
        printf("frames %" PRIu64 " to %" PRIu64 ", between %s and %s", note->first, note->last,
               format_time(note->from_ms, from), format_time(note->until_ms, until));
}

static void print_note(const struct salvage_note *note)
{
    printf("  %s", words[note->kind].one);
    if (note->kind == SALVAGE_GAP) {
        printf(": ");
        print_gap(note);
    }
    if (note->kind == SALVAGE_RESCUED)
        printf(": %" PRIu64 " messages or bodies", note->first);
    if (note->name.size > 0)
        printf(" %.*s", BYTES_FORMAT(note->name));
    if (note->file != NULL)
        printf(", %s, offset %" PRIu64, note->file, note->offset);
    if (note->size > 0)
        printf(", %" PRIu64 " bytes", note->size);
    if (note->text != NULL)
        printf(": %s", note->text);
    printf("\n");
}

/* --- lines for programs ------------------------------------------------------------------------------------------- */

static void append_text(struct buffer *out, const char *key, struct bytes text)
{
    buffer_append_format(out, ",\"%s\":", key);
    quote_append(out, text);
}

static void append_number(struct buffer *out, const char *key, uint64_t number)
{
    if (number != 0)
        buffer_append_format(out, ",\"%s\":%" PRIu64, key, number);
}

static void write_note(FILE *file, const struct salvage_note *note)
{
    struct buffer line;
    buffer_init(&line);
    buffer_append_format(&line, "{\"kind\":\"%s\"", salvage_note_name(note->kind));
    if (note->name.size > 0)
        append_text(&line, "name", note->name);
    if (note->file != NULL) {
        append_text(&line, "file", bytes_from_string(note->file));
        buffer_append_format(&line, ",\"offset\":%" PRIu64, note->offset);
    }
    append_number(&line, "size", note->size);
    append_number(&line, "first", note->first);
    append_number(&line, "last", note->last);
    append_number(&line, "fromMs", note->from_ms);
    append_number(&line, "untilMs", note->until_ms);
    if (note->text != NULL)
        append_text(&line, "text", bytes_from_string(note->text));
    fprintf(file, "%.*s}\n", BYTES_FORMAT(buffer_bytes(&line)));
    buffer_deinit(&line);
}

/* --- for people -------------------------------------------------------------------------------------------------- */

void inspect_report_note(void *context, const struct salvage_note *note)
{
    struct inspect_report *report = context;
    report->counts[note->kind]++;
    if (report->file != NULL)
        write_note(report->file, note);
    if (!report->is_headed)
        printf("%s:\n", report->folder);
    report->is_headed = true;
    if (report->printed[note->kind] == words[note->kind].printed_max)
        return;
    report->printed[note->kind]++;
    print_note(note);
}

static void print_counts(const struct inspect_report *report)
{
    for (unsigned kind = 0; kind < SALVAGE_NOTE_COUNT; kind++)
        if (report->counts[kind] > report->printed[kind])
            printf("  in all %" PRIu64 " %s\n", report->counts[kind], words[kind].many);
}

static void print_contents(const struct core *core, const struct salvage_facts *facts)
{
    const struct core_metrics metrics = core_metrics(core);
    uint64_t tickets = 0;
    for (uint32_t i = 0; i < ticket_pool_count(core); i++)
        tickets += ticket_pool_at(core, i)->tickets.used;
    printf("queues %zu, messages %" PRIu64 " (visible %" PRIu64 ", in flight %" PRIu64 ", delayed %" PRIu64
           "), batches %" PRIu64 ", pools %" PRIu32 ", tickets %" PRIu64 ", schedules %" PRIu32 ", relays %" PRIu32
           ", publishers %" PRIu64 "; frames %" PRIu64 ", segments %" PRIu64 ", bytes %" PRIu64 ".\n",
           core_queue_count(core), metrics.messages, metrics.messages - metrics.in_flight - metrics.delayed,
           metrics.in_flight, metrics.delayed, metrics.batches, ticket_pool_count(core), tickets, schedule_count(core),
           relay_record_count(core), metrics.publishers, facts->frames, facts->segments, facts->bytes);
}

void inspect_report_end(struct inspect_report *report, const struct salvage *salvage, const char *verdict)
{
    const struct salvage_facts facts = salvage_facts(salvage);
    print_counts(report);
    printf("%s%s%s ", report->is_headed ? "" : report->folder, report->is_headed ? "  " : ": ", verdict);
    if (facts.is_empty)
        printf("It is empty.\n");
    else
        print_contents(salvage_core(salvage), &facts);
}
