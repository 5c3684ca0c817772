#include "tally/suggestion.h"

#include "client/json.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MARK "has no queue '" /* the text before the name in the server's error */

/* The name that the server does not know. */
static bool read_missing(const char *message, char name[SUGGESTION_SIZE])
{
    const char *start = strstr(message, MARK);
    const char *end = start == NULL ? NULL : strchr(start + strlen(MARK), '\'');
    if (end == NULL || (size_t)(end - start) - strlen(MARK) >= SUGGESTION_SIZE)
        return false;
    start += strlen(MARK);
    memcpy(name, start, (size_t)(end - start));
    name[end - start] = '\0';
    return name[0] != '\0';
}

/* Its length without ".fifo", limited to the length of a queue's name. */
static size_t stem_size(const char *name)
{
    size_t size = strnlen(name, SUGGESTION_SIZE - 1);
    return size > 5 && strncmp(name + size - 5, ".fifo", 5) == 0 ? size - 5 : size;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters must be changed, inserted or removed to turn one name into the other. Case and a final ".fifo" do
 * not count. */
static size_t distance(const char *left, const char *right)
{
    const size_t left_size = stem_size(left), right_size = stem_size(right);
    size_t row[SUGGESTION_SIZE]; /* row[k]: the distance from the part of `left` read so far to the first k letters of
                                  * `right` */
    for (size_t k = 0; k <= right_size; k++)
        row[k] = k;
    for (size_t i = 0; i < left_size; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < right_size; k++) {
            bool is_same = tolower((unsigned char)left[i]) == tolower((unsigned char)right[k]);
            size_t changed = diagonal + !is_same;
            diagonal = row[k + 1];
            row[k + 1] = least(changed, 1 + least(row[k], row[k + 1]));
        }
    }
    return row[right_size];
}

/* The queue in the answer with the most similar name. */
static bool choose(yyjson_val *urls, const char *missing, char name[SUGGESTION_SIZE])
{
    const size_t size = stem_size(missing);
    size_t best = least((size + 2) / 3, size == 0 ? 0 : size - 1) + 1; /* a larger distance means another name */
    bool has_found = false;
    size_t index, count;
    yyjson_val *url;
    yyjson_arr_foreach(urls, index, count, url)
    {
        const char *text = yyjson_get_str(url), *slash = text == NULL ? NULL : strrchr(text, '/');
        if (slash == NULL || strlen(slash + 1) >= SUGGESTION_SIZE || distance(missing, slash + 1) >= best)
            continue;
        best = distance(missing, slash + 1);
        (void)snprintf(name, SUGGESTION_SIZE, "%s", slash + 1);
        has_found = true;
    }
    return has_found;
}

bool suggestion_find(const struct invocation *invocation, const struct tally_error *error, char name[SUGGESTION_SIZE])
{
    char missing[SUGGESTION_SIZE];
    struct tally_reply reply;
    if (strcmp(error->code, "QueueDoesNotExist") != 0 || !read_missing(error->message, missing))
        return false;
    struct tally_client *client = invocation_client_create(invocation);
    if (client == NULL)
        return false;
    bool has_found = false;
    if (tally_call(client, "AmazonSQS.ListQueues", "{}", &reply) == TALLY_OK) {
        has_found = choose(yyjson_obj_get(json_root(&reply), "QueueUrls"), missing, name);
        tally_reply_deinit(&reply);
    }
    tally_client_destroy(client);
    return has_found;
}
