/* tally queue create: makes a queue. */
#include "base/assert.h"
#include "base/memory.h"
#include "tally/assignment.h"
#include "tally/output.h"
#include "tally/queue_arn.h"
#include "worker/worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_S_MAX 43200

struct settings {
    struct option_list attributes;
    const char *dead_letter;
    struct option_number max_attempts;
    const char *backoff;
};

static const struct setting settings_table[] = {
    {"dead-letter", offsetof(struct settings, dead_letter)},
    {"max-attempts", offsetof(struct settings, max_attempts)},
    {"backoff", offsetof(struct settings, backoff)},
    {"attribute", offsetof(struct settings, attributes)},
};

/* The attributes of the new queue, and the texts of those that come from options. */
struct attributes {
    struct tally_pair *pairs_owned; /* with room for three more than the command line gives */
    size_t count;
    char policy[256];
    char backoff[64];
};

/* No other queue may have such a name. */
static bool is_fifo_name(const char *name)
{
    size_t size = strlen(name);
    return size >= 5 && strcmp(name + size - 5, ".fifo") == 0;
}

static bool has_pair(const struct attributes *attributes, const char *name)
{
    for (size_t i = 0; i < attributes->count; i++)
        if (strcmp(attributes->pairs_owned[i].name, name) == 0)
            return true;
    return false;
}

/* Both forms of attributes. */
static int read_attributes(struct invocation *invocation, struct attributes *attributes)
{
    const struct option_list *given = &((const struct settings *)invocation->settings)->attributes;
    size_t count = (size_t)invocation->argument_count - 1;
    char *texts[OPTION_LIST_MAX];
    int status;

    attributes->pairs_owned = memory_allocate_zeroed((given->count + count + 3) * sizeof *attributes->pairs_owned);
    for (size_t i = 0; i < given->count; i++)
        texts[i] = (char *)(uintptr_t)given->items[i]; /* words of main() may be written to */
    status = assignment_pairs(invocation, texts, given->count, attributes->pairs_owned);
    if (status == EXIT_DONE)
        status = assignment_pairs(invocation, invocation->arguments + 1, count, attributes->pairs_owned + given->count);
    attributes->count = given->count + count;
    return status;
}

static void add_pair(struct attributes *attributes, const char *name, const char *value)
{
    attributes->pairs_owned[attributes->count++] = (struct tally_pair){.name = name, .value = value};
}

static bool read_number(const char **text, unsigned *number)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    unsigned long value = strtoul(*text, &end, 10);
    *text = end;
    *number = (unsigned)value;
    return value <= BACKOFF_S_MAX;
}

/* --backoff MIN..MAX. */
static int add_backoff(struct invocation *invocation, struct attributes *attributes)
{
    const char *given = ((const struct settings *)invocation->settings)->backoff, *at = given;
    unsigned min, max;
    if (given == NULL)
        return EXIT_DONE;
    bool is_good = read_number(&at, &min) && strncmp(at, "..", 2) == 0;
    at += is_good ? 2 : 0;
    if (!is_good || !read_number(&at, &max) || *at != '\0' || min > max)
        return complain_usage(invocation, "--backoff takes MIN..MAX, seconds from 0 to %d like 1..900, not \"%s\"",
                              BACKOFF_S_MAX, given);
    if (has_pair(attributes, "Tally.Backoff"))
        return complain_usage(invocation, "--backoff and Tally.Backoff say the same; give one of them");
    snprintf(attributes->backoff, sizeof attributes->backoff, "{\"min\": %u, \"max\": %u}", min, max);
    add_pair(attributes, "Tally.Backoff", attributes->backoff);
    return EXIT_DONE;
}

/* Are the options about dead letters valid? */
static int check_dead_letter(const struct invocation *invocation, const struct attributes *attributes)
{
    const struct settings *settings = invocation->settings;
    const char *name = invocation->arguments[0];
    if (settings->dead_letter == NULL && settings->max_attempts.is_given)
        return complain_usage(invocation, "--max-attempts needs --dead-letter: where a message goes that had them all");
    if (settings->dead_letter == NULL)
        return EXIT_DONE;
    if (has_pair(attributes, "RedrivePolicy"))
        return complain_usage(invocation, "--dead-letter and RedrivePolicy say the same; give one of them");
    if (strcmp(settings->dead_letter, name) == 0)
        return complain_usage(invocation, "%s can't be its own dead-letter queue", name);
    if (is_fifo_name(settings->dead_letter) != is_fifo_name(name))
        return complain_usage(invocation,
                              "the dead-letter queue of a FIFO queue is one too, and only of such: its name "
                              "ends with .fifo like the other's");
    return EXIT_DONE;
}

/* The ARN of the dead-letter queue, which is made if it does not exist; the caller frees it. NULL: invocation_failed()
 * tells why. */
static char *find_dead_letter_queue(struct invocation *invocation, const char *name)
{
    static const struct tally_pair fifo[] = {{"FifoQueue", "true"}};
    char *arn = queue_arn(invocation, name);
    if (arn != NULL || strcmp(tally_client_error(invocation->client)->code, "QueueDoesNotExist") != 0)
        return arn;
    if (tally_queue_create(invocation->client, name, fifo, is_fifo_name(name) ? 1 : 0, NULL) != TALLY_OK)
        return NULL;
    complain("made the queue %s, too", name);
    return queue_arn(invocation, name);
}

/* --dead-letter QUEUE and --max-attempts N. */
static int add_policy(struct invocation *invocation, struct attributes *attributes)
{
    const struct settings *settings = invocation->settings;
    unsigned count = settings->max_attempts.is_given ? (unsigned)settings->max_attempts.value : WORKER_ATTEMPTS_MAX;
    char *arn;
    if (settings->dead_letter == NULL)
        return EXIT_DONE;
    arn = find_dead_letter_queue(invocation, settings->dead_letter);
    if (arn == NULL)
        return invocation_failed(invocation, invocation->client);
    snprintf(attributes->policy, sizeof attributes->policy, "{\"deadLetterTargetArn\":\"%s\",\"maxReceiveCount\":%u}",
             arn, count);
    free(arn);
    add_pair(attributes, "RedrivePolicy", attributes->policy);
    return EXIT_DONE;
}

static int create(struct invocation *invocation, struct attributes *attributes)
{
    char *url;
    int status = read_attributes(invocation, attributes);
    if (status == EXIT_DONE)
        status = add_backoff(invocation, attributes);
    if (status == EXIT_DONE)
        status = check_dead_letter(invocation, attributes);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        status = add_policy(invocation, attributes);
    if (status != EXIT_DONE)
        return status;
    if (is_fifo_name(invocation->arguments[0]) && !has_pair(attributes, "FifoQueue"))
        add_pair(attributes, "FifoQueue", "true");
    if (tally_queue_create(invocation->client, invocation->arguments[0], attributes->pairs_owned, attributes->count,
                           &url) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    output_text(invocation, "QueueUrl", url);
    free(url);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    struct attributes attributes = {.count = 0};
    int status = create(invocation, &attributes);
    free(attributes.pairs_owned);
    return status;
}

const struct command command_queue_create = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
