#include "auth/credentials.h"

#include "auth/patterns.h"
#include "base/assert.h"
#include "base/memory.h"
#include "base/table.h"
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

struct credentials {
    struct bytes text_owned; /* what the views of the entries point into */
    struct credential *entries_owned;
    size_t count;
    size_t capacity;
    struct table entry_by_access_key; /* index in entries, plus 1 */
};

/* One line being read. */
struct line {
    struct bytes rest;
    size_t number;
    struct failure *failure;
};

__attribute__((format(printf, 2, 3))) static enum error line_refuse(const struct line *line, const char *format, ...)
{
    char reason[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof(reason), format, arguments);
    va_end(arguments);
    return failure_set(line->failure, ERROR_INVALID_PARAMETER_VALUE, "line %zu: %s", line->number, reason);
}

static bool is_blank(uint8_t character)
{
    return character == ' ' || character == '\t' || character == '\r';
}

/* The next word of the line; empty behind the last, or where a comment begins. */
static struct bytes line_word(struct line *line)
{
    while (line->rest.size > 0 && is_blank(line->rest.ptr[0]))
        line->rest = bytes_skip(line->rest, 1);
    if (line->rest.size > 0 && line->rest.ptr[0] == '#')
        line->rest.size = 0;
    size_t size = 0;
    while (size < line->rest.size && !is_blank(line->rest.ptr[size]))
        size++;
    struct bytes word = bytes_make(line->rest.ptr, size);
    line->rest = bytes_skip(line->rest, size);
    return word;
}

static bool is_word_character(uint8_t character)
{
    uint8_t lower = character | 0x20;
    return (lower >= 'a' && lower <= 'z') || (character >= '0' && character <= '9') || character == '_' ||
           character == '-';
}

static bool is_access_key(struct bytes word)
{
    for (size_t i = 0; i < word.size; i++)
        if (!is_word_character(word.ptr[i]))
            return false;
    return word.size > 0 && word.size <= CREDENTIAL_WORD_SIZE_MAX;
}

static bool is_printable(struct bytes word, size_t size_max)
{
    return word.size > 0 && word.size <= size_max && bytes_is_graphic(word);
}

static bool is_namespace(struct bytes word)
{
    for (size_t i = 0; i < word.size; i++)
        if (word.ptr[i] < '0' || word.ptr[i] > '9')
            return false;
    return word.size == NAMESPACE_NAME_SIZE;
}

static const struct {
    const char *name;
    enum right right;
} right_rows[] = {{"read", RIGHT_READ}, {"write", RIGHT_WRITE}, {"admin", RIGHT_ADMIN}};

const char *right_name(enum right right)
{
    for (size_t i = 0; i < ARRAY_LENGTH(right_rows); i++)
        if (right_rows[i].right == right)
            return right_rows[i].name;
    return "any";
}

/* The bits of a list of rights; 0 if it is none. */
static unsigned read_rights(struct bytes list)
{
    unsigned rights = 0;
    while (list.size > 0) {
        struct bytes name = comma_list_take(&list);
        size_t i = 0;
        while (i < ARRAY_LENGTH(right_rows) && !bytes_equal(name, bytes_from_string(right_rows[i].name)))
            i++;
        if (i == ARRAY_LENGTH(right_rows))
            return 0;
        rights |= right_rows[i].right;
    }
    return rights;
}

static enum error read_patterns(const struct line *line, struct bytes list, struct credential *credential)
{
    if (credential->patterns.ptr != NULL)
        return line_refuse(line, "queues= stands twice.");
    credential->patterns = list;
    size_t count;
    if (!patterns_are_sound(list, &count))
        return line_refuse(line, "a pattern behind queues= is 1 to %u of A-Z a-z 0-9 _ - . and *.", PATTERN_SIZE_MAX);
    if (count > CREDENTIAL_PATTERN_COUNT_MAX)
        return line_refuse(line, "queues= has %zu patterns; it may have at most %u.", count,
                           CREDENTIAL_PATTERN_COUNT_MAX);
    return OK;
}

static enum error read_token(const struct line *line, struct bytes token, struct credential *credential)
{
    if (credential->token.ptr != NULL)
        return line_refuse(line, "token= stands twice.");
    if (!is_printable(token, CREDENTIAL_TOKEN_SIZE_MAX))
        return line_refuse(line, "the token is not 1 to %u printable ASCII characters.", CREDENTIAL_TOKEN_SIZE_MAX);
    credential->token = token;
    return OK;
}

static enum error read_options(struct line *line, struct credential *credential)
{
    struct bytes word;
    enum error error = OK;
    while (error == OK && (word = line_word(line)).size > 0)
        if (bytes_starts_with(word, BYTES("queues=")))
            error = read_patterns(line, bytes_skip(word, 7), credential);
        else if (bytes_starts_with(word, BYTES("token=")))
            error = read_token(line, bytes_skip(word, 6), credential);
        else
            error = line_refuse(line, "behind the rights can stand queues=PATTERN,… and token=TOKEN only.");
    return error;
}

/* Reads a line that holds a credential. */
static enum error read_credential(struct line *line, struct bytes access_key, struct credential *credential)
{
    *credential = (struct credential){.access_key = access_key};
    credential->secret = line_word(line);
    credential->namespace_name = line_word(line);
    struct bytes rights = line_word(line);
    if (rights.size == 0)
        return line_refuse(line, "a credential is: access-key secret namespace rights [queues=…] [token=…].");
    if (!is_access_key(access_key))
        return line_refuse(line, "the access key (first) is not 1 to %u of A-Z a-z 0-9 _ and -.",
                           CREDENTIAL_WORD_SIZE_MAX);
    if (!is_printable(credential->secret, CREDENTIAL_WORD_SIZE_MAX))
        return line_refuse(line, "the secret (second) is not 1 to %u printable ASCII characters.",
                           CREDENTIAL_WORD_SIZE_MAX);
    if (!is_namespace(credential->namespace_name))
        return line_refuse(line, "the namespace (third) is not %u digits, like 000000000000.", NAMESPACE_NAME_SIZE);
    credential->rights = read_rights(rights);
    if (credential->rights == 0)
        return line_refuse(line, "the rights (fourth) are not a list of read, write and admin, like read,write.");
    return read_options(line, credential);
}

static enum error add_credential(struct credentials *credentials, const struct line *line,
                                 const struct credential *credential)
{
    if (credentials_find(credentials, credential->access_key) != NULL)
        return line_refuse(line, "another line before it has this access key.");
    if (credentials->count == CREDENTIALS_COUNT_MAX)
        return line_refuse(line, "there are more than %u credentials.", CREDENTIALS_COUNT_MAX);
    ARRAY_GROW(credentials->entries_owned, credentials->count, credentials->capacity);
    credentials->entries_owned[credentials->count++] = *credential;
    table_insert(&credentials->entry_by_access_key, bytes_hash(credential->access_key), (uint32_t)credentials->count);
    return OK;
}

static enum error read_lines(struct credentials *credentials, struct failure *failure)
{
    struct bytes rest = credentials->text_owned;
    struct line line = {.failure = failure};
    while (rest.size > 0) {
        const uint8_t *line_feed = memchr(rest.ptr, '\n', rest.size);
        size_t size = line_feed == NULL ? rest.size : (size_t)(line_feed - rest.ptr);
        line.number++;
        line.rest = bytes_make(rest.ptr, size);
        rest = bytes_skip(rest, size + (line_feed != NULL));
        struct bytes access_key = line_word(&line);
        if (access_key.size == 0)
            continue;
        struct credential credential;
        enum error error = read_credential(&line, access_key, &credential);
        if (error == OK)
            error = add_credential(credentials, &line, &credential);
        if (error != OK)
            return error;
    }
    if (credentials->count == 0)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "there is no credential in it; a line is: access-key secret namespace rights.");
    return OK;
}

enum error credentials_parse(struct bytes text, struct credentials **credentials, struct failure *failure)
{
    if (text.size > CREDENTIALS_TEXT_SIZE_MAX)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "it has %zu bytes; at most %u can be read.",
                           text.size, CREDENTIALS_TEXT_SIZE_MAX);
    struct credentials *read = memory_allocate_zeroed(sizeof(*read));
    read->text_owned = memory_duplicate(text);
    table_init(&read->entry_by_access_key);
    enum error error = read_lines(read, failure);
    if (error == OK)
        *credentials = read;
    else
        credentials_destroy(read);
    return error;
}

void credentials_destroy(struct credentials *credentials)
{
    if (credentials == NULL)
        return;
    OPENSSL_cleanse((void *)credentials->text_owned.ptr, credentials->text_owned.size);
    free((void *)credentials->text_owned.ptr);
    free(credentials->entries_owned);
    table_deinit(&credentials->entry_by_access_key);
    free(credentials);
}

size_t credentials_count(const struct credentials *credentials)
{
    return credentials->count;
}

/* Whose places in `names`, plus one, stand in the table. */
static bool is_among(const struct table *table, struct bytes name, const struct bytes *names)
{
    for (struct table_probe probe = table_probe_start(table, bytes_hash(name)); table_probe_next(table, &probe);)
        if (bytes_equal(name, names[probe.slot - 1]))
            return true;
    return false;
}

size_t credentials_namespaces(const struct credentials *credentials, struct bytes *names, size_t max)
{
    struct table found;
    table_init(&found);
    size_t count = 0;
    for (size_t i = 0; credentials != NULL && i < credentials->count && count <= max; i++) {
        const struct bytes name = credentials->entries_owned[i].namespace_name;
        if (is_among(&found, name, names))
            continue;
        if (count < max) {
            names[count] = name;
            table_insert(&found, bytes_hash(name), (uint32_t)count + 1);
        }
        count++;
    }
    table_deinit(&found);
    return count;
}

const struct credential *credentials_find(const struct credentials *credentials, struct bytes access_key)
{
    for (struct table_probe probe = table_probe_start(&credentials->entry_by_access_key, bytes_hash(access_key));
         table_probe_next(&credentials->entry_by_access_key, &probe);)
        if (bytes_equal(credentials->entries_owned[probe.slot - 1].access_key, access_key))
            return &credentials->entries_owned[probe.slot - 1];
    return NULL;
}

bool credential_covers(const struct credential *credential, struct bytes queue_name)
{
    return credential->patterns.size == 0 || patterns_match(credential->patterns, queue_name);
}
