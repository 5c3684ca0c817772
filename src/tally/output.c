#include "tally/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void output_reply(const struct tally_reply *reply)
{
    printf("%s\n", reply->body_size == 0 ? "{}" : reply->body_owned);
}

int output_call(struct invocation *invocation, struct json_body *body, const char *action,
                void (*print)(yyjson_val *answer))
{
    struct tally_reply reply;

    if (json_body_call(body, invocation->client, action, &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        output_reply(&reply);
    else if (print != NULL)
        print(json_root(&reply));
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

int output_named(struct invocation *invocation, const char *member, const char *target,
                 void (*print)(yyjson_val *answer))
{
    struct json_body body;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, member, invocation->arguments[0]);
    return output_call(invocation, &body, target, print);
}

void output_field(const char *name, const char *value)
{
    printf("%-11s %s\n", name, value);
}

void output_number(const char *name, uint64_t value)
{
    printf("%-11s %llu\n", name, (unsigned long long)value);
}

void output_time(const char *name, double seconds)
{
    char text[64];
    time_t whole = (time_t)seconds;
    struct tm parts;
    if (seconds <= 0 || gmtime_r(&whole, &parts) == NULL)
        return;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
    output_field(name, text);
}

void output_text(const struct invocation *invocation, const char *member, const char *text)
{
    struct json_body answer;
    if (!invocation->is_json) {
        puts(text);
        return;
    }
    json_body_init(&answer);
    json_add_text(&answer, answer.root, member, text);
    output_document(answer.doc_owned);
    yyjson_mut_doc_free(answer.doc_owned);
}

void output_document(const yyjson_mut_doc *doc)
{
    char *text = json_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    printf("%s\n", text == NULL ? "{}" : text);
    free(text);
}
