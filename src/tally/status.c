/* tally status: what needs a person, the worst first, in sentences. */
#include "base/assert.h"
#include "base/memory.h"
#include "tally/output.h"
#include "tally/queue_stats.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Nobody has asked for messages for so long: then nobody works at the queue. */
#define SILENT_S 300

#define MEMORY_SHARE 0.85 /* of what there may be */
#define DISK_SHARE 2      /* times what must be free for sends */
#define CERTIFICATE_S (14 * 86400)
#define FAILED_MIN 0.05       /* a second: three a minute */
#define GROUPS_ASKED_MAX 200u /* queues whose held groups are asked for one by one */

struct settings {
    struct option_number older_than;
    struct option_number limit;
};

static const struct setting settings_table[] = {
    {"older-than", offsetof(struct settings, older_than)},
    {"limit", offsetof(struct settings, limit)},
};

/* --- findings ----------------------------------------------------------------------------------------------------- */

/* The worst first. */
enum severity {
    SEVERITY_REFUSING, /* clients are refused, or will be soon */
    SEVERITY_STUCK,    /* something does not go on, and nobody works at it */
    SEVERITY_FAILING,  /* something has failed, and waits for a decision */
    SEVERITY_LATE,     /* it goes on, too slowly */
};

static const char *const severities[] = {"refusing", "stuck", "failing", "late"};

#define TEXT_SIZE 1024
#define SORTS_MAX 32u /* of findings; there are fewer than sentences in this file */
#define ALIKE_MAX 5u  /* that come before others */

struct finding {
    enum severity severity;
    uint64_t weight;      /* of two with the same severity, the heavier is worse */
    const char *kind;     /* of the subject: "queue", "group", "relay", "server" */
    const char *sentence; /* what `text` was made of: the same for all findings of a sort */
    bool is_one_of_many;
    char subject[256];
    char text[TEXT_SIZE];
    char command[512]; /* what helps, or shows more */
};

struct report {
    struct invocation *invocation;
    const struct settings *settings;
    struct finding *findings_owned;
    size_t count;
    size_t capacity;
    struct queue_stats_list queues;
    const struct queue_stats **sources_owned;
    size_t source_count;
    char unseen[4][TEXT_SIZE]; /* what could not be asked, and why */
    size_t unseen_count;
};

static struct finding *report_add(struct report *report, enum severity severity, uint64_t weight, const char *kind,
                                  const char *subject)
{
    ARRAY_GROW(report->findings_owned, report->count, report->capacity);
    struct finding *finding = &report->findings_owned[report->count++];
    *finding = (struct finding){.severity = severity, .weight = weight, .kind = kind};
    snprintf(finding->subject, sizeof finding->subject, "%s", subject);
    return finding;
}

__attribute__((format(printf, 2, 3))) static void say(struct finding *finding, const char *format, ...)
{
    va_list arguments;
    finding->sentence = format;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 2, 3))) static void advise(struct finding *finding, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->command, sizeof finding->command, format, arguments);
    va_end(arguments);
}

static int compare_findings(const void *one, const void *other)
{
    const struct finding *left = one, *right = other;
    if (left->is_one_of_many != right->is_one_of_many)
        return left->is_one_of_many ? 1 : -1;
    if (left->severity != right->severity)
        return left->severity < right->severity ? -1 : 1;
    if (left->weight != right->weight)
        return left->weight > right->weight ? -1 : 1;
    return strcmp(left->subject, right->subject);
}

/* The worst first. Behind the worst of each sort come the many others: 5,000 queues that stand still must not hide one
 * group that is held. */
static void sort_findings(struct report *report)
{
    struct {
        const char *sentence;
        size_t count;
    } sorts[SORTS_MAX] = {{NULL, 0}};
    qsort(report->findings_owned, report->count, sizeof *report->findings_owned, compare_findings);
    for (size_t i = 0; i < report->count; i++) {
        size_t at = 0;
        while (at < SORTS_MAX - 1 && sorts[at].sentence != NULL &&
               sorts[at].sentence != report->findings_owned[i].sentence)
            at++;
        sorts[at].sentence = report->findings_owned[i].sentence;
        report->findings_owned[i].is_one_of_many = ++sorts[at].count > ALIKE_MAX;
    }
    qsort(report->findings_owned, report->count, sizeof *report->findings_owned, compare_findings);
}

/* Asks one page of an action that the caller may not be allowed, or that an older server does not know. NULL: it was
 * not answered, and that is noted unless the server does not know it. */
static yyjson_val *ask(struct report *report, struct json_body *body, const char *action, const char *what,
                       struct tally_reply *reply)
{
    struct tally_client *client = report->invocation->client;
    if (json_body_call(body, client, action, reply) == TALLY_OK)
        return json_root(reply);
    const struct tally_error *error = tally_client_error(client);
    if (strstr(error->code, "UnknownOperation") == NULL && report->unseen_count < ARRAY_LENGTH(report->unseen))
        snprintf(report->unseen[report->unseen_count++], TEXT_SIZE, "%s: %.900s", what, error->message);
    return NULL;
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

static int compare_sources(const void *one, const void *other)
{
    const struct queue_stats *left = *(const struct queue_stats *const *)one;
    const struct queue_stats *right = *(const struct queue_stats *const *)other;
    const int order = strcmp(left->dead_letter_queue, right->dead_letter_queue);
    return order != 0 ? order : strcmp(left->name, right->name);
}

/* The queues that have a dead-letter queue, by the names of those. */
static void sort_sources(struct report *report)
{
    report->sources_owned = memory_allocate((report->queues.count + 1) * sizeof(*report->sources_owned));
    for (size_t i = 0; i < report->queues.count; i++)
        if (report->queues.items_owned[i].dead_letter_queue[0] != '\0')
            report->sources_owned[report->source_count++] = &report->queues.items_owned[i];
    if (report->source_count > 0)
        qsort(report->sources_owned, report->source_count, sizeof *report->sources_owned, compare_sources);
}

/* The first of those whose dead letters come to this queue; source_count: it is no dead-letter queue. */
static size_t find_sources(const struct report *report, const struct queue_stats *queue)
{
    size_t from = 0, to = report->source_count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (strcmp(report->sources_owned[middle]->dead_letter_queue, queue->name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    const bool is_found =
        from < report->source_count && strcmp(report->sources_owned[from]->dead_letter_queue, queue->name) == 0;
    return is_found ? from : report->source_count;
}

/* Their names, as far as there is room. */
static void list_sources(const struct report *report, const struct queue_stats *queue, char text[256])
{
    size_t size = 0;
    for (size_t i = find_sources(report, queue); i < report->source_count && size < 160; i++) {
        const struct queue_stats *source = report->sources_owned[i];
        if (strcmp(source->dead_letter_queue, queue->name) != 0)
            return;
        size += (size_t)snprintf(text + size, 256 - size, "%s%s", size > 0 ? ", " : "", source->name);
    }
}

static void note_dead_letters(struct report *report, const struct queue_stats *queue)
{
    char sources[256] = "";
    const uint64_t count = queue->visible + queue->in_flight + queue->delayed;
    if (count == 0)
        return;
    list_sources(report, queue, sources);
    struct finding *finding = report_add(report, SEVERITY_FAILING, count, "queue", queue->name);
    say(finding, "%s has %llu dead %s, of %s.", queue->name, (unsigned long long)count,
        count == 1 ? "letter" : "letters", sources);
    advise(finding, "tally messages %s; tally queue redrive %s", queue->name, queue->name);
}

static void note_pause(struct report *report, const struct queue_stats *queue)
{
    const uint64_t count = queue->visible + queue->in_flight + queue->delayed;
    struct finding *finding = report_add(report, SEVERITY_STUCK, queue->oldest_s, "queue", queue->name);
    say(finding, "%s is paused, and %llu %s in it.", queue->name, (unsigned long long)count,
        count == 1 ? "message waits" : "messages wait");
    advise(finding, "tally queue resume %s", queue->name);
}

/* For how long nobody has asked for messages there, in words; "" if somebody has lately. */
static void describe_silence(const struct queue_stats *queue, char text[128])
{
    const double silent_s = (double)time(NULL) - queue->last_receive_at;
    char age[OUTPUT_AGE_SIZE];
    text[0] = '\0';
    if (queue->waiting_receives > 0 || (queue->last_receive_at > 0 && silent_s < SILENT_S))
        return;
    if (queue->last_receive_at > 0) {
        output_age((uint64_t)silent_s, age);
        snprintf(text, 128, "nobody has asked for messages for %s", age);
    } else {
        snprintf(text, 128, "nobody has asked for messages since the server was started");
    }
}

static void note_age(struct report *report, const struct queue_stats *queue)
{
    const bool is_of_before = !queue->knows_held_groups; /* a server that does not tell what could be delivered */
    const uint64_t age_s = queue->has_deliverable               ? queue->deliverable_s
                           : is_of_before && queue->visible > 0 ? queue->oldest_s
                                                                : 0;
    char age[OUTPUT_AGE_SIZE], silence[128];
    if (age_s < report->settings->older_than.value)
        return;
    output_age(age_s, age);
    describe_silence(queue, silence);
    const bool is_stuck = silence[0] != '\0';
    struct finding *finding =
        report_add(report, is_stuck ? SEVERITY_STUCK : SEVERITY_LATE, age_s, "queue", queue->name);
    if (is_stuck) {
        say(finding, "%s stands still: its oldest message is %s old, and %s.", queue->name, age, silence);
        advise(finding, "tally work --queue %s -- COMMAND", queue->name);
        return;
    }
    say(finding, "%s is behind: its oldest message is %s old; %.1f a second come, and %.1f go.", queue->name, age,
        queue->sent, queue->deleted);
    advise(finding, "tally messages %s --older-than %llu", queue->name,
           (unsigned long long)report->settings->older_than.value);
}

/* "1 is in flight, 2 are blocked": why nothing of a queue can be received. What is visible all the same stands behind
 * others of its group. */
static void describe_waits(const struct queue_stats *queue, char text[256])
{
    const struct {
        uint64_t count;
        const char *one, *many;
    } waits[] = {{queue->in_flight, "is in flight", "are in flight"},
                 {queue->blocked, "is blocked", "are blocked"},
                 {queue->delayed - queue->blocked, "is delayed", "are delayed"},
                 {queue->has_deliverable ? 0 : queue->visible, "waits for its group", "wait for their groups"}};
    size_t size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(waits); i++)
        if (waits[i].count > 0)
            size += (size_t)snprintf(text + size, 256 - size, "%s%llu %s", size > 0 ? ", " : "",
                                     (unsigned long long)waits[i].count,
                                     waits[i].count == 1 ? waits[i].one : waits[i].many);
}

/* Nobody can get its oldest message, and nothing of that age. A held group is a finding of its own. */
static void note_withheld(struct report *report, const struct queue_stats *queue)
{
    const uint64_t old_s = report->settings->older_than.value;
    char age[OUTPUT_AGE_SIZE], waits[256];
    const bool is_old = queue->knows_held_groups && queue->has_oldest && queue->oldest_s >= old_s;
    if (!is_old || queue->held_groups > 0 || (queue->has_deliverable && queue->deliverable_s >= old_s))
        return;
    output_age(queue->oldest_s, age);
    describe_waits(queue, waits);
    struct finding *finding = report_add(report, SEVERITY_LATE, queue->oldest_s, "queue", queue->name);
    say(finding, "%s: its oldest message is %s old and can't be received: %s.", queue->name, age, waits);
    advise(finding, "tally messages %s --older-than %llu", queue->name, (unsigned long long)old_s);
}

static void note_failures(struct report *report, const struct queue_stats *queue)
{
    if (queue->failed < FAILED_MIN || queue->failed * 2 < queue->received)
        return;
    struct finding *finding = report_add(report, SEVERITY_LATE, 0, "queue", queue->name);
    say(finding, "%s fails: %.1f attempts a second fail or run out of time, of %.1f.", queue->name, queue->failed,
        queue->received);
    advise(finding, "tally messages %s --reason '' --body preview", queue->name);
}

static void note_queues(struct report *report)
{
    for (size_t i = 0; i < report->queues.count; i++) {
        const struct queue_stats *queue = &report->queues.items_owned[i];
        if (find_sources(report, queue) < report->source_count) {
            note_dead_letters(report, queue);
            continue;
        }
        if (queue->is_paused && queue->has_oldest)
            note_pause(report, queue);
        else if (!queue->is_paused) {
            note_age(report, queue);
            note_withheld(report, queue);
        }
        note_failures(report, queue);
    }
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

static void add_held(struct report *report, const struct queue_stats *queue, uint64_t count, bool are_more)
{
    struct finding *finding = report_add(report, SEVERITY_FAILING, count, "group", queue->name);
    say(finding, "%s: %llu%s %s held because a message of it failed.", queue->name, (unsigned long long)count,
        are_more     ? " groups or more"
        : count == 1 ? " group"
                     : " groups",
        count == 1 && !are_more ? "is" : "are each");
    advise(finding, "tally group list %s --state held; tally group release --help", queue->name);
}

/* Asks for a page of the held groups of a queue. False: no further queue need be asked. */
static bool ask_held(struct report *report, const struct queue_stats *queue)
{
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", queue->name);
    json_add_text(&body, body.root, "State", "held");
    yyjson_val *root = ask(report, &body, "Tally.ListGroups", "held groups", &reply);
    if (root == NULL)
        return false;
    const size_t count = yyjson_arr_size(yyjson_obj_get(root, "Groups"));
    if (count > 0)
        add_held(report, queue, count, yyjson_obj_get(root, "NextToken") != NULL);
    tally_reply_deinit(&reply);
    return true;
}

static void note_groups(struct report *report)
{
    unsigned asked = 0;
    bool goes_on = true;
    for (size_t i = 0; i < report->queues.count; i++) {
        const struct queue_stats *queue = &report->queues.items_owned[i];
        if (queue->held_groups > 0)
            add_held(report, queue, queue->held_groups, false);
        else if (!queue->knows_held_groups && queue->groups > 0 && goes_on && asked++ < GROUPS_ASKED_MAX)
            goes_on = ask_held(report, queue);
    }
}

/* --- relays ------------------------------------------------------------------------------------------------------- */

static void note_relay(struct report *report, yyjson_val *relay)
{
    const char *name = output_text_of(relay, "RelayName"), *state = output_text_of(relay, "State");
    const uint64_t parked = json_number(relay, "Parked"), doubts = json_number(relay, "InDoubt");
    if (strcmp(state, "failed") == 0 || strcmp(state, "blocked") == 0) {
        struct finding *finding = report_add(report, SEVERITY_STUCK, 0, "relay", name);
        say(finding, "The relay %s is %s: %s", name, state, output_text_of(relay, "LastError"));
        advise(finding, "tally relay show %s", name);
    }
    if (parked > 0) {
        struct finding *finding = report_add(report, SEVERITY_FAILING, parked, "relay", name);
        say(finding, "The relay %s has put %llu %s aside, %llu of them in doubt.", name, (unsigned long long)parked,
            parked == 1 ? "row" : "rows", (unsigned long long)doubts);
        advise(finding, "tally relay doubts %s", name);
    }
}

static void note_relays(struct report *report)
{
    char token[4096] = "";
    do {
        struct json_body body;
        struct tally_reply reply;
        size_t i, max;
        yyjson_val *relay;
        json_body_init(&body);
        json_add_text(&body, body.root, "NextToken", *token == '\0' ? NULL : token);
        yyjson_val *root = ask(report, &body, "Tally.ListRelays", "relays", &reply);
        if (root == NULL)
            return;
        yyjson_arr_foreach(yyjson_obj_get(root, "Relays"), i, max, relay)
        {
            note_relay(report, relay);
        }
        json_copy(root, "NextToken", token, sizeof token);
        tally_reply_deinit(&reply);
    } while (*token != '\0');
}

/* --- the server --------------------------------------------------------------------------------------------------- */

static void note_memory(struct report *report, yyjson_val *memory)
{
    const double used = json_real(memory, "Used"), max = json_real(memory, "Max");
    if (max <= 0 || used < max * MEMORY_SHARE)
        return;
    struct finding *finding = report_add(report, SEVERITY_REFUSING, (uint64_t)(100 * used / max), "server", "memory");
    say(finding, "The server's memory is %.0f %% of what it may be: sends are refused at 100 %%.", 100 * used / max);
    advise(finding, "tally top --sort ready; or raise --memory-max");
}

/* How much of its bound the log takes says nothing: cleaning works up to that. It is what is free that counts. */
static void note_disk(struct report *report, yyjson_val *disk)
{
    const char *room = json_text(disk, "Room");
    const double available = json_real(disk, "Free"), least = json_real(disk, "MinFree");
    const bool is_refusing = room != NULL && strcmp(room, "ample") != 0;
    if (!is_refusing && available >= least * DISK_SHARE)
        return;
    struct finding *finding = report_add(report, SEVERITY_REFUSING, is_refusing, "server", "disk");
    say(finding, "%.0f MiB are free on the server's disk: sends are refused %s.", available / (1 << 20),
        is_refusing ? "until there is more" : "soon");
    advise(finding, "df -h; free room, or give it a larger disk");
}

static void note_server(struct report *report)
{
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    yyjson_val *root = ask(report, &body, "Tally.DescribeServer", "the server", &reply);
    if (root == NULL)
        return;
    note_memory(report, yyjson_obj_get(root, "Memory"));
    note_disk(report, yyjson_obj_get(root, "Disk"));
    if (json_is_true(yyjson_obj_get(root, "Snapshot"), "IsFailing")) {
        struct finding *finding = report_add(report, SEVERITY_REFUSING, 0, "server", "snapshot");
        say(finding, "The server's snapshots fail, so no room comes free on its disk.");
        advise(finding, "df -h; journalctl -u tallyd");
    }
    const double expires_at = json_real(yyjson_obj_get(root, "Certificate"), "ExpiresAt");
    if (expires_at > 0 && expires_at < (double)time(NULL) + CERTIFICATE_S) {
        struct finding *finding = report_add(report, SEVERITY_REFUSING, 0, "server", "certificate");
        say(finding, "The server's certificate %s.",
            expires_at < (double)time(NULL) ? "has expired" : "expires within two weeks");
        advise(finding, "replace the file of --tls-certificate, and send SIGHUP");
    }
    tally_reply_deinit(&reply);
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

static void print_calm(const struct report *report)
{
    uint64_t messages = 0;
    double sent = 0, deleted = 0;
    for (size_t i = 0; i < report->queues.count; i++) {
        const struct queue_stats *queue = &report->queues.items_owned[i];
        messages += queue->visible + queue->in_flight + queue->delayed;
        sent += queue->sent;
        deleted += queue->deleted;
    }
    printf("All is calm: %zu %s, %llu %s; %.1f a second come, and %.1f go.\n", report->queues.count,
           report->queues.count == 1 ? "queue" : "queues", (unsigned long long)messages,
           messages == 1 ? "message" : "messages", sent, deleted);
}

static void print_words(const struct report *report)
{
    const size_t limit = report->settings->limit.value;
    for (size_t i = 0; i < report->count && i < limit; i++) {
        output_in_line("", report->findings_owned[i].text);
        output_in_line("\n    ", report->findings_owned[i].command);
        puts("");
    }
    if (report->count > limit)
        printf("And %zu more: tally status --limit %zu\n", report->count - limit, report->count);
    if (report->count == 0)
        print_calm(report);
    for (size_t i = 0; i < report->unseen_count; i++) {
        output_in_line("Not seen: ", report->unseen[i]);
        puts("");
    }
}

static void print_json(const struct report *report)
{
    struct json_body answer;
    json_body_init(&answer);
    yyjson_mut_obj_add_bool(answer.doc_owned, answer.root, "IsCalm", report->count == 0);
    yyjson_mut_val *findings = json_add_array(&answer, answer.root, "Findings");
    for (size_t i = 0; i < report->count; i++) {
        const struct finding *finding = &report->findings_owned[i];
        yyjson_mut_val *object = json_append_object(&answer, findings);
        json_add_text(&answer, object, "Severity", severities[finding->severity]);
        json_add_text(&answer, object, "Kind", finding->kind);
        json_add_text(&answer, object, "Subject", finding->subject);
        json_add_text(&answer, object, "Text", finding->text);
        json_add_text(&answer, object, "Command", finding->command);
    }
    yyjson_mut_val *unseen = json_add_array(&answer, answer.root, "NotSeen");
    for (size_t i = 0; i < report->unseen_count; i++)
        yyjson_mut_arr_add_str(answer.doc_owned, unseen, report->unseen[i]);
    output_document(answer.doc_owned);
    yyjson_mut_doc_free(answer.doc_owned);
}

static int run(struct invocation *invocation)
{
    struct report report = {.invocation = invocation, .settings = invocation->settings};
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    status = queue_stats_read(invocation, NULL, &report.queues);
    if (status == EXIT_DONE) {
        sort_sources(&report);
        note_server(&report);
        note_queues(&report);
        note_groups(&report);
        note_relays(&report);
        if (report.count > 0)
            sort_findings(&report);
        if (invocation->is_json)
            print_json(&report);
        else
            print_words(&report);
        status = report.count == 0 ? EXIT_DONE : EXIT_REFUSED;
    }
    free(report.findings_owned);
    free(report.sources_owned);
    free(report.queues.items_owned);
    return status;
}

const struct command command_status = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
