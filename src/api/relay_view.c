#include "api/relay_view.h"

/* The members of Source or Sink that may be shown. A member without a row is left out, so that a new member does not
 * show a secret by mistake. */
enum shown {
    SHOWN_WHOLE,
    SHOWN_CONNECTION,  /* of PostgreSQL as the daemon shows it; a path as a whole */
    SHOWN_URL,         /* without user, password and query, which may be secrets */
    SHOWN_CREDENTIALS, /* the name of the key */
};

static const struct {
    const char *member;
    enum shown shown;
} rows[] = {
    {"Type", SHOWN_WHOLE},
    {"Connection", SHOWN_CONNECTION},
    {"Table", SHOWN_WHOLE},
    {"Pooler", SHOWN_WHOLE},
    {"PublishAfterReplicas", SHOWN_WHOLE},
    {"LeaseSeconds", SHOWN_WHOLE},
    {"QueueUrl", SHOWN_URL},
    {"Region", SHOWN_WHOLE},
    {"Credentials", SHOWN_CREDENTIALS},
    {"Doubts", SHOWN_WHOLE},
    {"Refused", SHOWN_WHOLE},
    {"Url", SHOWN_URL},
    {"Mode", SHOWN_WHOLE},
    {"TimeoutSeconds", SHOWN_WHOLE},
};

static struct bytes hide_in_url(struct bytes url, struct arena *arena)
{
    const uint8_t *question = url.size == 0 ? NULL : memchr(url.ptr, '?', url.size);
    struct bytes shown = question == NULL ? url : bytes_make(url.ptr, (size_t)(question - url.ptr));
    size_t host = 0;
    for (size_t i = 0; host == 0 && i + 3 <= shown.size; i++)
        host = memcmp(shown.ptr + i, "://", 3) == 0 ? i + 3 : 0;
    size_t end = host, user_end = 0;
    for (; end < shown.size && shown.ptr[end] != '/'; end++)
        user_end = shown.ptr[end] == '@' ? end + 1 : user_end;
    struct bytes scheme = bytes_make(shown.ptr, host);
    struct bytes rest = bytes_skip(shown, user_end > host ? user_end : host);
    return arena_format(arena, "%.*s%.*s%s", BYTES_FORMAT(scheme), BYTES_FORMAT(rest), question == NULL ? "" : "?…");
}

static void write_connection(struct call *call, yyjson_val *object, struct bytes connection)
{
    const struct relay_control *control = call_options(call)->relays;
    yyjson_val *type = yyjson_obj_get(object, "Type");
    if (!yyjson_equals_str(type, "postgres") && !yyjson_equals_str(type, "mysql"))
        writer_text(call->reply, "Connection", connection);
    else if (control != NULL)
        writer_text(call->reply, "Connection", control->show_connection(control->context, connection, call->arena));
}

static void write_credentials(struct call *call, yyjson_val *credentials)
{
    writer_object_begin(call->reply, "Credentials");
    writer_text(call->reply, "AccessKeyId", params_bytes(yyjson_obj_get(credentials, "AccessKeyId")));
    writer_object_end(call->reply);
}

static void write_member(struct call *call, yyjson_val *object, const char *name, enum shown shown)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    struct bytes text;
    if (shown == SHOWN_CREDENTIALS && yyjson_is_obj(value))
        write_credentials(call, value);
    else if (shown == SHOWN_CONNECTION && yyjson_is_str(value))
        write_connection(call, object, params_bytes(value));
    else if (shown == SHOWN_URL && yyjson_is_str(value))
        writer_text(call->reply, name, hide_in_url(params_bytes(value), call->arena));
    else if (shown == SHOWN_WHOLE && yyjson_is_uint(value))
        writer_number(call->reply, name, yyjson_get_uint(value));
    else if (shown == SHOWN_WHOLE && yyjson_is_real(value))
        writer_real(call->reply, name, yyjson_get_real(value));
    else if (shown == SHOWN_WHOLE && params_scalar_text(value, call->arena, &text))
        writer_text(call->reply, name, text);
}

static void write_side(struct call *call, const char *name, yyjson_val *object)
{
    writer_object_begin(call->reply, name);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        write_member(call, object, rows[i].member, rows[i].shown);
    writer_object_end(call->reply);
}

static void write_counts(struct writer *writer, const struct relay_report *report)
{
    writer_number(writer, "Position", report->position);
    writer_object_begin(writer, "Lag");
    writer_number(writer, "Rows", report->lag_rows);
    writer_number(writer, "Seconds", report->lag_s);
    writer_object_end(writer);
    writer_number(writer, "InDoubt", report->in_doubt_count);
    writer_number(writer, "Parked", report->parked_count);
    writer_number(writer, "Delivered", report->delivered);
    writer_number(writer, "Duplicates", report->duplicates);
    writer_number(writer, "Retries", report->retries);
    writer_number(writer, "Takeovers", report->takeovers);
}

void relay_view_report(const struct front_options *options, struct bytes namespace_name,
                       const struct relay_record *record, struct relay_report *report)
{
    const struct relay_control *control = options->relays;
    *report = (struct relay_report){.state = "stopped"};
    if (control != NULL)
        control->report(control->context, namespace_name, record, report);
}

void relay_view_write(struct call *call, const struct relay_record *record)
{
    struct writer *writer = call->reply;
    struct relay_report report;
    relay_view_report(call_options(call), core_name(call->core), record, &report);
    yyjson_val *spec = params_parse_text(record->spec_owned, call->arena);
    writer_text(writer, "RelayName", record->name_owned);
    writer_string(writer, "State", report.state);
    if (report.since_ms != 0)
        writer_time(writer, "Since", report.since_ms);
    writer_boolean(writer, "Paused", record->is_paused);
    write_side(call, "Source", yyjson_obj_get(spec, "Source"));
    write_side(call, "Sink", yyjson_obj_get(spec, "Sink"));
    writer_text(writer, "Order", params_bytes(yyjson_obj_get(spec, "Order")));
    if (report.epoch != 0)
        writer_number(writer, "Epoch", report.epoch);
    write_counts(writer, &report);
    if (report.last_error[0] != '\0') {
        writer_string(writer, "LastError", report.last_error);
        writer_time(writer, "LastErrorAt", report.last_error_ms);
    }
    if (report.warning[0] != '\0')
        writer_string(writer, "Warning", report.warning);
}
