/* tally cluster status: who has the logs in a PostgreSQL. */
#include "client/json.h"
#include "postgres/logs.h"
#include "tally/command.h"
#include <stdio.h>
#include <stdlib.h>

static void print_words(const struct pg_log_facts *facts)
{
    if (facts->epoch == 0)
        printf("%s  nobody has had it yet\n", facts->name);
    else
        printf("%s  %s %s since %s (epoch %llu), %llu stand by\n", facts->name,
               facts->is_owned ? "owned by" : "last owned by", facts->node, facts->since,
               (unsigned long long)facts->epoch, (unsigned long long)facts->stand_bys);
}

static void print_json(const struct pg_log_facts *facts)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *object = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, object);
    yyjson_mut_obj_add_str(doc, object, "Namespace", facts->name);
    yyjson_mut_obj_add_str(doc, object, "Node", facts->node);
    yyjson_mut_obj_add_str(doc, object, "Since", facts->since);
    yyjson_mut_obj_add_uint(doc, object, "Epoch", facts->epoch);
    yyjson_mut_obj_add_bool(doc, object, "Connected", facts->is_owned);
    yyjson_mut_obj_add_uint(doc, object, "StandBys", facts->stand_bys);
    char *text = json_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    printf("%s\n", text);
    free(text);
    yyjson_mut_doc_free(doc);
}

static void on_log(void *context, const struct pg_log_facts *facts)
{
    const struct invocation *invocation = context;
    if (invocation->is_json)
        print_json(facts);
    else
        print_words(facts);
}

static int run(struct invocation *invocation)
{
    struct failure failure;
    failure_init(&failure);
    const struct pg_options options = {.conninfo = invocation->arguments[0], .log = "", .node = ""};
    if (pg_logs_visit(&options, on_log, invocation, &failure) == OK)
        return EXIT_DONE;
    complain("%s", failure.text);
    return EXIT_UNREACHABLE;
}

const struct command command_cluster_status = {.run = run};
