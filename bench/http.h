/* HTTP/1.1 as far as a benchmark needs it: requests as an AWS SDK words them, and where a message ends. */
#ifndef TALLY_BENCH_HTTP_H
#define TALLY_BENCH_HTTP_H

#include "text.h"

struct http_message {
    int status; /* of a reply; 0 for a request */
    struct view head;
    struct view body;
    size_t size; /* head and body */
};

/* The first whole message (head, and a body of Content-Length bytes; none means no body) of `in`. False, with *message
 * untouched, while bytes are missing; ends the program on a chunked message. Views borrow from `in`. */
bool http_message_find(struct view in, struct http_message *message);

/* The same of replies with status 200; ends the program on one with another. */
bool http_reply_find(struct view in, struct http_message *reply);

/* Appends the head of a request for an action (`target`: AmazonSQS.SendMessage) up to and including "Content-Length: ":
 * about 650 bytes with the names and sizes that boto3 sends. The signature has the right form and is not valid, until
 * signer.h puts another in its place: tallyd without credentials, like nginx, does not check it. */
void http_request_begin(struct text *out, const char *target, uint16_t port);

/* Appends what follows "Content-Length: ". */
void http_request_end(struct text *out, struct view body);

#endif
