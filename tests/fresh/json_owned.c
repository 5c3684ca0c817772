/* A program of somebody else that looks into a reply of libtally, built against what `make install` has put there. */
#include <stdio.h>
#include <stdlib.h>
#include <tally/tally.h>
#include <yyjson.h>

int main(void)
{
    struct tally_client *client;
    struct tally_reply reply;
    if (tally_client_create(NULL, &client, NULL) != TALLY_OK)
        return 1;
    if (tally_call(client, "AmazonSQS.CreateQueue", "{\"QueueName\": \"looked-into\"}", &reply) != TALLY_OK)
        return 2;
    char *text = yyjson_write(reply.json_owned, 0, NULL); /* of the library, not of its header alone */
    if (text == NULL)
        return 3;
    puts(yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(reply.json_owned), "QueueUrl")));
    free(text);
    tally_reply_deinit(&reply);
    tally_client_destroy(client);
    return 0;
}
