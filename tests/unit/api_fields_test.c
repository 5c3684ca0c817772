/* Every action is asked with each of its fields wrong, in every way of variants.h, and by callers who may not. What it
 * must answer is not written here: the replies, and what the server wrote, are this test's history (support/history.h).
 *
 * The variants of a request are asked in a copy of the world that the story has made so far (fields_story.h). A change
 * of that copy is shown and then undone, so that a variant meets little of what others did. */
#include "api/action.h"
#include "fields_story.h"
#include "relay_runner.h"
#include "signer.h"
#include "support/history.h"
#include "variants.h"

#include <ctype.h>

/* --- names -------------------------------------------------------------------------------------------------------- */

#define NAMES_MAX 60u
#define NAME_SIZE 16u

static struct {
    char name[NAME_SIZE];
    char value[400];
} names[NAMES_MAX];
static unsigned name_count;

static const char *name_find(const char *name, size_t size)
{
    for (unsigned i = name_count; i-- > 0;)
        if (strlen(names[i].name) == size && memcmp(names[i].name, name, size) == 0)
            return names[i].value;
    fail_msg("nothing is kept as %.*s", (int)size, name);
    return NULL;
}

/* Keeps the values of members called `member`, wherever they are, by the names at *rest. */
static void name_keep(yyjson_val *value, const char *member, const char **rest)
{
    size_t index, count;
    yyjson_val *key, *inner;
    if (yyjson_is_arr(value)) {
        yyjson_arr_foreach(value, index, count, inner)
        {
            name_keep(inner, member, rest);
        }
        return;
    }
    yyjson_obj_foreach(value, index, count, key, inner)
    {
        if (!yyjson_equals_str(key, member) || **rest == '\0') {
            name_keep(inner, member, rest);
            continue;
        }
        const size_t size = strcspn(*rest, " ");
        assert_true(name_count < NAMES_MAX && size < NAME_SIZE);
        snprintf(names[name_count].name, NAME_SIZE, "%.*s", (int)size, *rest);
        snprintf(names[name_count++].value, sizeof(names[0].value), "%s", yyjson_get_str(inner));
        *rest += size;
        *rest += strspn(*rest, " ");
    }
}

/* The body with " for ', and the values for their names. */
static void fill(const char *body, struct buffer *out)
{
    buffer_truncate(out, 0);
    for (const char *at = body; *at != '\0'; at++) {
        const size_t size = *at == '<' ? strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789") : 0;
        if (size == 0 || at[size + 1] != '>') {
            buffer_append_u8(out, *at == '\'' ? '"' : (uint8_t)*at);
            continue;
        }
        buffer_append_bytes(out, bytes_from_string(name_find(at + 1, size)));
        at += size + 1;
    }
    buffer_append_u8(out, 0);
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

struct fields {
    struct runner runner;
    struct world *world;
    struct world *copy; /* for the variants of the request that comes next in `world` */
    struct credentials *callers;
    struct buffer body, look, form, path;
    const char *action;
    unsigned every; /* of so many variants one is asked */
    unsigned variant_count, change_count;
};

/* An error has its words, and has changed nothing. */
static void check_answer(const struct fields *fields, const struct world *world, struct answer answer,
                         const char *request, bool has_changed)
{
    const bool is_good = answer.error == NULL ? answer.status == 200
                                              : answer.status >= 400 && answer.status < 500 && !has_changed &&
                                                    answer_text(answer, "message")[0] != '\0';
    if (!is_good)
        fail_msg("%s %s: %d %s (%s)%s", fields->action, request, answer.status,
                 answer.error == NULL ? "OK" : answer.error, answer_text(answer, "message"),
                 has_changed ? ", and something has changed" : "");
    if (has_changed)
        core_check(world_core(world));
}

static void reset_copy(struct fields *fields)
{
    struct world *copy = fields->copy;
    world_stop(copy, false);
    memory_disk_destroy(copy->disk);
    copy->disk = memory_disk_clone(fields->world->disk, 1);
    copy->now_ms = fields->world->now_ms;
    world_start(copy);
    /* What the start makes due, and what the first request writes; a feed begins when it is first read. */
    world_pass_time(copy, 0);
    world_call(copy, "ListQueues", "{}");
    if (strcmp(fields->action, "Tally.FeedTickets") == 0)
        world_call(copy, fields->action, "{'PoolName':'plain','From':0}");
}

static void look(struct fields *fields)
{
    for (size_t i = 0; i < ARRAY_LENGTH(looks); i++) {
        if (strcmp(looks[i].action, fields->action) != 0)
            continue;
        fill(looks[i].body, &fields->look);
        world_call(fields->copy, looks[i].look, "%s", (const char *)fields->look.data_owned);
    }
}

/* --- as AWS Query ------------------------------------------------------------------------------------------------- */

static void form_add_field(struct fields *fields, struct bytes name, struct bytes value)
{
    struct buffer *form = &fields->form;
    buffer_append_format(form, "&%.*s=", BYTES_FORMAT(name));
    for (size_t i = 0; i < value.size; i++)
        if (isalnum(value.ptr[i]))
            buffer_append_u8(form, value.ptr[i]);
        else
            buffer_append_format(form, "%%%02x", value.ptr[i]);
}

/* The name of a list or map: its member's, but for one thing of it. */
static void form_add_name(const struct fields *fields, const char *member, struct buffer *path)
{
    const size_t size = strlen(member);
    if (strcmp(member, "Entries") == 0)
        buffer_append_format(path, "%sRequestEntry", fields->action);
    else if (strcmp(member, "Actions") == 0)
        buffer_append_bytes(path, BYTES("ActionName"));
    else if (strcmp(member, "tags") == 0)
        buffer_append_bytes(path, BYTES("Tag"));
    else
        buffer_append_bytes(path, bytes_make(member, size > 0 && member[size - 1] == 's' ? size - 1 : size));
}

static bool form_is_map(const char *member)
{
    return strcmp(member, "Tags") == 0 || strcmp(member, "tags") == 0 || strstr(member, "Attributes") != NULL;
}

/* The fields of `value`, whose names begin with `path`. */
static void form_add(struct fields *fields, struct buffer *path, yyjson_val *value, bool is_map)
{
    const size_t size = path->size;
    size_t index, count;
    yyjson_val *key, *inner;
    if (!yyjson_is_ctn(value)) {
        char *text = yyjson_is_str(value) ? NULL : yyjson_val_write(value, 0, NULL);
        form_add_field(fields, buffer_bytes(path), text == NULL ? params_bytes(value) : bytes_from_string(text));
        free(text);
        return;
    }
    yyjson_arr_foreach(value, index, count, inner)
    {
        buffer_append_format(path, ".%zu", index + 1);
        form_add(fields, path, inner, false);
        buffer_truncate(path, size);
    }
    yyjson_obj_foreach(value, index, count, key, inner)
    {
        const char *name = yyjson_get_str(key);
        if (is_map) {
            buffer_append_format(path, ".%zu.%s", index + 1, index % 2 == 0 ? "Name" : "Key");
            form_add_field(fields, buffer_bytes(path), params_bytes(key));
            buffer_truncate(path, size);
            buffer_append_format(path, ".%zu.Value", index + 1);
        } else {
            buffer_append_bytes(path, size == 0 ? BYTES("") : BYTES("."));
            if (yyjson_is_ctn(inner))
                form_add_name(fields, name, path);
            else
                buffer_append_bytes(path, params_bytes(key));
        }
        form_add(fields, path, inner, !is_map && form_is_map(name));
        buffer_truncate(path, size);
    }
}

/* The same request in the older protocol of SQS. Its reply is XML or, for who asks for that, JSON. */
static void ask_form(struct fields *fields, const char *request, bool takes_json)
{
    yyjson_doc *doc = yyjson_read(request, strlen(request), YYJSON_READ_NOFLAG);
    struct exchange exchange;
    buffer_truncate(&fields->form, 0);
    buffer_truncate(&fields->path, 0);
    buffer_append_format(&fields->form, "Action=%s", fields->action);
    form_add(fields, &fields->path, yyjson_doc_get_root(doc), false);
    exchange_init(&exchange);
    exchange.request = (struct request){.method = BYTES("POST"),
                                        .path = takes_json ? BYTES("/") : BYTES("/000000000000/q"),
                                        .host = BYTES("localhost"),
                                        .body = buffer_bytes(&fields->form),
                                        .trace_header = BYTES("Root=2"),
                                        .is_form = true,
                                        .takes_json = takes_json};
    front_submit(fields->copy->front, &exchange, fields->copy->now_ms);
    if (exchange.state == EXCHANGE_WAITING)
        api_release_waiting(fields->copy->api);
    assert_ptr_equal(front_take_finished(fields->copy->front), &exchange);
    EXPECT(fields->copy, world_flush(fields->copy));
    if (exchange.reply.body.size == 0 || exchange.reply.status < 200 || exchange.reply.status >= 500)
        fail_msg("%.*s: %d", BYTES_FORMAT(buffer_bytes(&fields->form)), exchange.reply.status);
    history_note_reply(&exchange);
    exchange_deinit(&exchange);
    yyjson_doc_free(doc);
}

/* --- variants ----------------------------------------------------------------------------------------------------- */

/* Shows what has changed, and undoes it: at once, but for a request with many changes. */
static void end_change(struct fields *fields)
{
    look(fields);
    fields->change_count++;
    if (fields->change_count <= 16 || fields->change_count % 8 == 0)
        reset_copy(fields);
}

static void ask_variant(void *context, const char *request)
{
    struct fields *fields = context;
    if (fields->variant_count++ % fields->every != 0)
        return;
    const uint64_t before = namespace_durable(fields->copy->ns);
    struct answer answer = world_call(fields->copy, fields->action, "%s", request);
    const bool has_changed = namespace_durable(fields->copy->ns) != before;
    check_answer(fields, fields->copy, answer, request, has_changed);
    if (has_changed)
        end_change(fields);
    world_forget(fields->copy);
    if (strchr(fields->action, '.') != NULL || fields->variant_count % 3 != 0)
        return;
    const uint64_t between = namespace_durable(fields->copy->ns);
    ask_form(fields, request, fields->variant_count % 2 == 0);
    if (namespace_durable(fields->copy->ns) != between)
        end_change(fields);
}

/* Callers with fewer rights, with other queues, of another namespace. */
static const char callers_text[] = "READ secret-of-READ 000000000000 read\n"
                                   "WRITE secret-of-WRITE 000000000000 write\n"
                                   "ADMIN secret-of-ADMIN 000000000000 admin\n"
                                   "SOME secret-of-SOME 000000000000 read,write,admin queues=q\n"
                                   "MORE secret-of-MORE 000000000000 read,write,admin queues=q,d*,results\n"
                                   "OTHER secret-of-OTHER 111111111111 read,write,admin\n";

static void ask_callers(struct fields *fields, const char *request)
{
    static const char *const callers[] = {"READ", "WRITE", "ADMIN", "SOME", "MORE", "OTHER"};
    for (size_t i = 0; i < ARRAY_LENGTH(callers); i++) {
        yyjson_doc *doc;
        const uint64_t before = namespace_durable(fields->copy->ns);
        front_set_credentials(fields->copy->front, fields->callers);
        struct answer answer = signer_call(fields->copy, callers[i], fields->action, request, &doc);
        front_set_credentials(fields->copy->front, NULL);
        const bool has_changed = namespace_durable(fields->copy->ns) != before;
        check_answer(fields, fields->copy, answer, request, has_changed);
        yyjson_doc_free(doc);
        if (has_changed)
            reset_copy(fields);
    }
}

static void ask(struct fields *fields, const struct told *told)
{
    fields->action = told->action;
    fields->change_count = 0;
    fill(told->body, &fields->body);
    const char *body = (const char *)fields->body.data_owned;
    reset_copy(fields);
    ask_callers(fields, body);
    ask_variant(fields, body);
    variants_tell_all(body, ask_variant, fields);
    struct answer answer = world_call(fields->world, told->action, "%s", body);
    if (told->error == NULL ? answer.error != NULL : !answer_fails(answer, told->error))
        fail_msg("%s %s: %s (%s)", told->action, body, answer.error == NULL ? "OK" : answer.error,
                 answer_text(answer, "message"));
    if (told->keep != NULL) {
        char member[40];
        const size_t size = strcspn(told->keep, " ");
        const char *rest = told->keep + size + 1;
        snprintf(member, sizeof(member), "%.*s", (int)size, told->keep);
        name_keep(answer.root, member, &rest);
        if (*rest != '\0')
            fail_msg("%s %s has no %s", told->action, body, told->keep);
    }
    world_forget(fields->world);
}

static void every_field_of_every_action_may_be_wrong(void **state)
{
    (void)state;
    struct fields fields = {.every = scaled(100) < 10 ? 19 : 1, .callers = signer_credentials(callers_text)};
    runner_init(&fields.runner);
    fields.runner.report = (struct relay_report){.state = "standby",
                                                 .since_ms = 1700000000123,
                                                 .epoch = 3,
                                                 .position = 4,
                                                 .lag_rows = 5,
                                                 .lag_s = 6,
                                                 .parked_count = 7,
                                                 .in_doubt_count = 8,
                                                 .delivered = 9,
                                                 .duplicates = 10,
                                                 .retries = 11,
                                                 .parked = 12,
                                                 .takeovers = 13,
                                                 .last_error = "e",
                                                 .last_error_ms = 1700000000456,
                                                 .warning = "w"};
    const struct world_options options = {.seed = 1,
                                          .segment_size = 64u << 10,
                                          .frame_size_max = 16u << 10,
                                          .enforce_intervals = true,
                                          .keeps_history = true,
                                          .relays = &fields.runner.control};
    fields.world = world_create(&options);
    fields.copy = world_create(&options);
    buffer_init(&fields.body);
    buffer_init(&fields.look);
    buffer_init(&fields.form);
    buffer_init(&fields.path);
    for (size_t i = 0; i < ARRAY_LENGTH(story); i++)
        if (story[i].action == NULL)
            world_pass_time(fields.world, strtoull(story[i].body, NULL, 10));
        else
            ask(&fields, &story[i]);
    buffer_deinit(&fields.body);
    buffer_deinit(&fields.look);
    buffer_deinit(&fields.form);
    buffer_deinit(&fields.path);
    sqs_close(fields.copy);
    sqs_close(fields.world);
    credentials_destroy(fields.callers);
}

static void every_action_is_in_the_story(void **state)
{
    (void)state;
    for (size_t i = 0; i < action_count; i++) {
        bool is_told = false;
        for (size_t k = 0; k < ARRAY_LENGTH(story); k++) {
            const char *name = story[k].action == NULL ? "" : story[k].action;
            const char *known = actions[i].target;
            is_told = is_told || strcmp(name, known) == 0 || strcmp(name, known + strlen("AmazonSQS.")) == 0;
        }
        if (!is_told)
            fail_msg("%s is asked by nobody", actions[i].target);
    }
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

/* Longer texts than the variants have: so many x between the two parts are taken, and one more is not. */
static const struct {
    const char *action;
    const char *begin;
    unsigned size;
    const char *end;
} sizes[] = {
    {"SendMessage", "{'QueueUrl':'small','MessageBody':'", 1024, "'}"},
    {"SendMessage", "{'QueueUrl':'small','MessageBody':'", 1014,
     "','MessageAttributes':{'a':{'DataType':'Binary','BinaryValue':'AQID'}}}"},
    {"SendMessage",
     "{'QueueUrl':'small','MessageBody':'m','MessageAttributes':{'a':{'DataType':'String','StringValue':'", 1016,
     "'}}}"},
    {"SendMessage", "{'QueueUrl':'q','MessageBody':'", 1048576, "'}"},
    {"SendMessageBatch", "{'QueueUrl':'q','Entries':[{'Id':'a','MessageBody':'m'},{'Id':'b','MessageBody':'", 1048575,
     "'}]}"},
    {"Tally.Commit", "{'Sends':[{'QueueUrl':'q','MessageBody':'m'},{'QueueUrl':'q','MessageBody':'", 1048575, "'}]}"},
    {"ReceiveMessage", "{'QueueUrl':'q','MessageAttributeNames':['", 65491, "']}"},
    {"SetQueueAttributes",
     "{'QueueUrl':'q','Attributes':{'Policy':'{\\'Statement\\':{\\'Effect\\':\\'Deny\\',\\'Principal\\':\\'*\\',"
     "\\'Action\\':\\'*\\',\\'Sid\\':\\'",
     32699, "\\'}}'}}"},
    {"Tally.CreateBatch", "{'BatchId':'a','OnComplete':{'QueueUrl':'small','MessageBody':'", 1024, "'}}"},
    {"Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'q','MessageBody':'", 65536, "'}}"},
    {"Tally.PutSchedule", "{'Name':'s','Cron':'* * * * *','QueueUrl':'small','MessageBody':'", 1024, "'}"},
    {"Tally.PutSchedule", "{'Name':'s','Cron':'* * * * *','QueueUrl':'q','MessageBody':'", 65536, "'}"},
    {"Tally.CreateRelay", "{'RelayName':'r','Source':{'Type':'sqlite','Table':'", 16305, "'},'Sink':{'Type':'queue'}}"},
    {"Tally.OfferTickets", "{'PoolName':'p','Tickets':[{'TicketId':'t','Body':'", 65536, "'}]}"},
    {"Tally.OfferTickets", "{'PoolName':'large','Tickets':[{'TicketId':'t','Body':'", 32768, "'}]}"},
    {"Tally.OfferTickets", "{'PoolName':'p','Tickets':[{'TicketId':'u','Attributes':{'a':'", 256, "'}}]}"},
    {"Tally.UpdateTicket", "{'PoolName':'p','TicketId':'u','Attributes':{'a':'b'},'Need':{'a':{'eq':'", 256, "'}}}"},
    {"Tally.ProposeMatches",
     "{'PoolName':'p','Proposals':[{'ProposalId':'a','Members':[{'TicketId':'t','Version':1}],'Body':'", 65536, "'}]}"},
};

static void a_text_may_be_as_long_as_its_limit_and_no_longer(void **state)
{
    struct world *world = sqs_open(state);
    struct buffer text;
    unsigned faults = 0;
    world_create_queue(world, "small", "'MaximumMessageSize':'1024'");
    sqs_call(world, "Tally.CreatePool",
             "{'PoolName':'p','Attributes':{'a':'str'},'Size':0,'Matcher':'external','ResultQueueUrl':'q'}");
    sqs_call(world, "Tally.CreatePool",
             "{'PoolName':'large','Attributes':{'a':'str'},'Size':16,'Matcher':'external','ResultQueueUrl':'q'}");
    buffer_init(&text);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        for (unsigned more = 0; more < 2; more++) {
            buffer_truncate(&text, 0);
            for (unsigned k = 0; k < sizes[i].size + more; k++)
                buffer_append_u8(&text, 'x');
            struct answer answer = world_call(world, sizes[i].action, "%s%.*s%s", sizes[i].begin,
                                              BYTES_FORMAT(buffer_bytes(&text)), sizes[i].end);
            char *reply = answer.root == NULL ? strdup("") : yyjson_val_write(answer.root, 0, NULL);
            const bool is_refused =
                answer.error != NULL || strstr(reply, "\"Failed\"") != NULL || strstr(reply, "\"invalid\"") != NULL;
            if (is_refused != (more == 1))
                print_error("%s %s with %u: %.300s\n", sizes[i].action, sizes[i].begin, sizes[i].size + more, reply);
            faults += is_refused != (more == 1);
            free(reply);
        }
        world_forget(world);
    }
    buffer_deinit(&text);
    assert_int_equal(faults, 0);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_action_is_in_the_story),
        cmocka_unit_test(a_text_may_be_as_long_as_its_limit_and_no_longer),
        cmocka_unit_test(every_field_of_every_action_may_be_wrong),
    };
    return cmocka_run_group_tests_name("api: fields", tests, NULL, NULL);
}
