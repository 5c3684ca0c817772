/* Credentials: who may ask, and what they may do. Read from a text by credentials_parse(), then never changed.
 *
 * One credential a line, fields apart by blanks; what follows a # at the start of a word is a comment:
 *
 *     # access key   secret                     namespace      rights        options
 *     AKIAORDERS     8Jc0RZQ1nPvYq3oTg5dXsW7b   000000000000   read,write    queues=orders-*,refunds.fifo
 *     AKIAOPS        qZ6mVt1HfN2kLr9eYbU4xC0s   000000000000   admin         token=3f0c6b1a
 *
 *   access key   1 to 128 of A-Z a-z 0-9 _ -, once in a file
 *   secret       1 to 128 printable ASCII characters
 *   namespace    12 digits
 *   rights       read, write, admin: one or more, with commas between them
 *   queues=      patterns of queue names, at most 100, in which a * stands for any characters; without it: every
 *                queue, and what belongs to no queue (docs/reference/access.md)
 *   token=       the session token (X-Amz-Security-Token) that must come with each request; without it tokens are
 *                passed over
 *
 * Knows no file: whoever reads one gives its text here. No message repeats a word of the text, because the word might
 * be a secret in the wrong place. */
#ifndef TALLY_AUTH_CREDENTIALS_H
#define TALLY_AUTH_CREDENTIALS_H

#include "base/bytes.h"
#include "base/error.h"

#define CREDENTIALS_COUNT_MAX 100000u
#define CREDENTIALS_TEXT_SIZE_MAX (64u << 20)
#define CREDENTIAL_WORD_SIZE_MAX 128u /* of an access key and of a secret */
#define CREDENTIAL_TOKEN_SIZE_MAX 4096u
#define CREDENTIAL_PATTERN_COUNT_MAX 100u
#define NAMESPACE_NAME_SIZE 12u

enum right { RIGHT_READ = 1, RIGHT_WRITE = 2, RIGHT_ADMIN = 4, RIGHT_ANY = RIGHT_READ | RIGHT_WRITE | RIGHT_ADMIN };

/* "read", "write" or "admin"; of RIGHT_ANY "any". */
const char *right_name(enum right right);

/* Views live as long as the credentials. */
struct credential {
    struct bytes access_key;
    struct bytes secret;
    struct bytes namespace_name;
    struct bytes token;    /* empty: none is asked for */
    struct bytes patterns; /* with commas between them; empty: every queue */
    unsigned rights;       /* of enum right */
};

struct credentials;

/* Reads the whole text. The caller destroys *credentials. ERROR_INVALID_PARAMETER_VALUE, with the number of the
 * line. */
enum error credentials_parse(struct bytes text, struct credentials **credentials, struct failure *failure);

/* Wipes the secrets. NULL is none. */
void credentials_destroy(struct credentials *credentials);

size_t credentials_count(const struct credentials *credentials);

/* Their namespaces, each once, in order of appearance; how many there are, up to max + 1, of which `max` are written.
 * Views. NULL has none. O(credentials * namespaces). */
size_t credentials_namespaces(const struct credentials *credentials, struct bytes *names, size_t max);

/* The credential with this access key, or NULL. O(1). */
const struct credential *credentials_find(const struct credentials *credentials, struct bytes access_key);

/* Does one of its patterns match the name? O(patterns * name). */
bool credential_covers(const struct credential *credential, struct bytes queue_name);

#endif
