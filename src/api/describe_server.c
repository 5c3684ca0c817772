/* DescribeServer: how the server is, and who asks. Nothing secret. */
#include "api/access.h"
#include "api/reach.h"
#include "api/server_facts.h"
#include "api/state.h"
#include "auth/patterns.h"

/* The actions with a parameter DryRun, without their service. */
static const char *const dry_runs[] = {"StartMessageMoveTask", "DeleteMessages", "PurgeQueue", "DeleteQueue",
                                       "ReleaseGroup",         "ReleaseMessage", "CancelBatch"};

static void write_seconds(struct writer *reply, const char *name, uint64_t ms)
{
    writer_real(reply, name, (double)ms / 1000);
}

/* --- what the namespace uses -------------------------------------------------------------------------------------- */

static void write_memory(struct call *call)
{
    const struct front_memory memory = front_memory(call->front);
    writer_object_begin(call->reply, "Memory");
    writer_number(call->reply, "Used", memory.used);
    if (memory.max > 0)
        writer_number(call->reply, "Max", memory.max);
    writer_object_end(call->reply);
}

static void write_disk(struct call *call)
{
    static const char *const levels[] = {[DISK_AMPLE] = "ample", [DISK_SHORT] = "short", [DISK_SPENT] = "spent"};
    const struct namespace_usage usage = namespace_usage(call->ns);
    writer_object_begin(call->reply, "Disk");
    writer_number(call->reply, "Used", usage.disk_bytes);
    if (usage.bound_bytes > 0)
        writer_number(call->reply, "Max", usage.bound_bytes);
    writer_number(call->reply, "Free", usage.free_bytes);
    writer_number(call->reply, "MinFree", usage.min_free_bytes);
    writer_string(call->reply, "Room", levels[namespace_disk_level(call->ns)]);
    writer_object_end(call->reply);
}

static void write_snapshot(struct call *call)
{
    const struct namespace_snapshot snapshot = namespace_snapshot(call->ns);
    writer_object_begin(call->reply, "Snapshot");
    if (snapshot.at_ms > 0) {
        writer_time(call->reply, "LastAt", snapshot.at_ms);
        writer_number(call->reply, "Bytes", snapshot.size);
    }
    writer_boolean(call->reply, "IsFailing", snapshot.is_failing);
    writer_object_end(call->reply);
}

/* --- who asks ----------------------------------------------------------------------------------------------------- */

static void write_rights(struct writer *reply, unsigned rights)
{
    static const enum right all[] = {RIGHT_READ, RIGHT_WRITE, RIGHT_ADMIN};
    writer_list_begin(reply, "Rights");
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        if ((rights & all[i]) != 0)
            writer_string(reply, NULL, right_name(all[i]));
    writer_list_end(reply);
}

static void write_patterns(struct writer *reply, struct bytes patterns)
{
    writer_list_begin(reply, "Queues");
    while (patterns.size > 0)
        writer_text(reply, NULL, comma_list_take(&patterns));
    writer_list_end(reply);
}

static void write_caller(struct call *call)
{
    const struct credential *caller = call->caller;
    writer_object_begin(call->reply, "Caller");
    if (caller != NULL)
        writer_text(call->reply, "AccessKeyId", caller->access_key);
    writer_text(call->reply, "Namespace", core_name(call->core));
    write_rights(call->reply, caller == NULL ? RIGHT_ANY : caller->rights);
    if (reach_is_confined(call))
        write_patterns(call->reply, caller->patterns);
    writer_object_end(call->reply);
}

/* --- the process around it ---------------------------------------------------------------------------------------- */

static void write_settings(struct writer *reply, const struct server_facts *facts)
{
    writer_list_begin(reply, "Config");
    for (size_t i = 0; i < facts->setting_count; i++) {
        writer_object_begin(reply, NULL);
        writer_string(reply, "Name", facts->settings[i].name);
        writer_text(reply, "Value", facts->settings[i].value);
        writer_boolean(reply, "IsDefault", facts->settings[i].is_default);
        writer_object_end(reply);
    }
    writer_list_end(reply);
}

static void write_node(struct writer *reply, const struct server_node *node)
{
    writer_object_begin(reply, NULL);
    writer_text(reply, "Node", node->name);
    if (node->address.size > 0)
        writer_text(reply, "Address", node->address);
    writer_text(reply, "Version", node->version);
    writer_string(reply, "State", !node->is_alive ? "gone" : node->is_draining ? "draining" : "alive");
    writer_number(reply, "Owned", node->owned);
    writer_number(reply, "Wanted", node->wanted);
    writer_object_end(reply);
}

static void write_nodes(struct writer *reply, const struct server_facts *facts)
{
    writer_list_begin(reply, "Nodes");
    for (size_t i = 0; i < facts->node_count; i++)
        write_node(reply, &facts->nodes[i]);
    writer_list_end(reply);
}

/* The dashboard's mode is a key of the configuration, where this server has one. */
static void write_ui(struct writer *reply, const struct server_facts *facts)
{
    for (size_t i = 0; i < facts->setting_count; i++)
        if (strcmp(facts->settings[i].name, "ui") == 0)
            writer_text(reply, "Ui", facts->settings[i].value);
}

static void write_process(struct call *call, const struct server_facts *facts)
{
    struct writer *reply = call->reply;
    if (facts->node.size > 0)
        writer_text(reply, "Node", facts->node);
    if (facts->started_at_ms > 0)
        writer_time(reply, "StartedAt", facts->started_at_ms);
    if (facts->certificate_expires_at_s != 0) {
        writer_object_begin(reply, "Certificate");
        writer_integer(reply, "ExpiresAt", facts->certificate_expires_at_s);
        writer_object_end(reply);
    }
    write_ui(reply, facts);
    if (reach_is_confined(call))
        return;
    write_settings(reply, facts);
    if (facts->node_count > 0)
        write_nodes(reply, facts);
}

static void write_slow_request(struct writer *reply, const struct slow_request *slow)
{
    writer_object_begin(reply, NULL);
    writer_time(reply, "At", slow->at_ms);
    writer_string(reply, "Action", slow->action);
    if (slow->queue_size > 0)
        writer_text(reply, "QueueName", bytes_make(slow->queue, slow->queue_size));
    writer_number(reply, "Milliseconds", slow_times_sum(&slow->times));
    writer_number(reply, "Wait", slow->times.wait);
    writer_number(reply, "Decide", slow->times.decide);
    writer_number(reply, "Flush", slow->times.flush);
    writer_number(reply, "Write", slow->times.write);
    writer_number(reply, "RequestBytes", slow->request_size);
    writer_number(reply, "ReplyBytes", slow->reply_size);
    if (slow->access_key_size > 0)
        writer_text(reply, "AccessKeyId", bytes_make(slow->access_key, slow->access_key_size));
    writer_text(reply, "RequestId", bytes_make(slow->request_id, sizeof(slow->request_id)));
    writer_object_end(reply);
}

/* Those of this namespace, the newest first. */
static void write_slow_requests(struct call *call)
{
    const struct slow_requests *requests = &call->front->slow_requests;
    const struct slow_request *slow;
    writer_list_begin(call->reply, "SlowRequests");
    for (unsigned back = 0; (slow = slow_requests_at(requests, back)) != NULL; back++) {
        const bool is_here = bytes_equal(core_name(call->core), bytes_make(slow->namespace_name, NAMESPACE_NAME_SIZE));
        const bool is_covered =
            !reach_is_confined(call) ||
            (slow->queue_size > 0 && access_covers(call, bytes_make(slow->queue, slow->queue_size)));
        if (is_here && is_covered)
            write_slow_request(call->reply, slow);
    }
    writer_list_end(call->reply);
}

static void write_dry_runs(struct writer *reply)
{
    writer_list_begin(reply, "DryRun");
    for (size_t i = 0; i < ARRAY_LENGTH(dry_runs); i++)
        writer_string(reply, NULL, dry_runs[i]);
    writer_list_end(reply);
}

enum error action_describe_server(struct call *call)
{
    const struct front_options *options = call_options(call);
    struct server_facts facts = {0};
    if (options->describe != NULL)
        options->describe(options->describe_context, call->arena, &facts);
    writer_string(call->reply, "Version", TALLY_VERSION);
    writer_time(call->reply, "Now", call->now_ms);
    if (!call->api->is_taken_over)
        write_seconds(call->reply, "RecoverySeconds", call->api->recovery_ms);
    write_memory(call);
    write_disk(call);
    write_snapshot(call);
    write_caller(call);
    write_slow_requests(call);
    write_dry_runs(call->reply);
    write_process(call, &facts);
    return OK;
}
