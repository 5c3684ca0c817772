#include "server/dashboard.h"

#include "auth/head.h"
#include "auth/patterns.h"

#define NOT_KEPT "Cache-Control: no-store\r\n"

static bool has(struct bytes text, struct bytes part)
{
    return text.size > 0 && memmem(text.ptr, text.size, part.ptr, part.size) != NULL;
}

/* A browser that shows a page names text/html; no client of SQS does. */
static bool is_for_a_page(const struct request *request)
{
    struct head head;
    head_init(&head);
    head_read(&head, request->head);
    const size_t accept = head_find(&head, 0, BYTES("accept"));
    const bool is_page = accept < head.count && has(head.fields_owned[accept].value, BYTES("text/html"));
    head_deinit(&head);
    return is_page;
}

bool dashboard_takes(const struct hub *hub, const struct request *request, const struct http *http)
{
    if (hub->options.ui == UI_OFF || !(http_is_method(http, HTTP_GET) || http_is_method(http, HTTP_HEAD)))
        return false;
    if (bytes_equal(request->path, BYTES("/ui")) || bytes_starts_with(request->path, BYTES("/ui/")))
        return true;
    const bool asks_for_nothing = bytes_equal(request->path, BYTES("/")) && request->query.size == 0 &&
                                  request->target.size == 0 && request->body.size == 0;
    return asks_for_nothing && is_for_a_page(request);
}

static void answer_text(struct reply *reply, int status, const char *type, const char *fields, struct bytes text)
{
    reply->status = status;
    reply->content_type = type;
    reply->fields = fields;
    buffer_append_bytes(&reply->body, text);
}

/* What the page must know before it can ask anything. */
static void answer_config(const struct hub *hub, struct reply *reply)
{
    answer_text(reply, 200, "application/json", NOT_KEPT UI_FIELDS, BYTES(""));
    buffer_append_format(&reply->body, "{\"Version\":\"%s\",\"Ui\":\"%s\",\"HasCredentials\":%s,\"Actions\":{",
                         TALLY_VERSION, ui_mode_name(hub->options.ui),
                         front_has_credentials(hub->front) ? "true" : "false");
    front_actions_write(&reply->body);
    buffer_append_bytes(&reply->body, BYTES("}}\n"));
}

static struct bytes field_value(const struct head *head, struct bytes name)
{
    const size_t at = head_find(head, 0, name);
    return at < head->count ? head->fields_owned[at].value : BYTES("");
}

static struct bytes skip_blanks(struct bytes text)
{
    while (text.size > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
        text = bytes_skip(text, 1);
    return text;
}

/* A weight of gzip other than 1 counts as a refusal: the plain form is always right. */
static bool takes_gzip(struct bytes encodings)
{
    while (encodings.size > 0) {
        const struct bytes coding = skip_blanks(comma_list_take(&encodings));
        if (!bytes_starts_with(coding, BYTES("gzip")))
            continue;
        const struct bytes weight = skip_blanks(bytes_skip(coding, strlen("gzip")));
        if (weight.size == 0 ||
            (weight.ptr[0] == ';' && bytes_starts_with(skip_blanks(bytes_skip(weight, 1)), BYTES("q=1"))))
            return true;
    }
    return false;
}

static void answer_file(const struct request *request, const struct ui_file *file, struct reply *reply)
{
    struct head head;
    head_init(&head);
    head_read(&head, request->head);
    const struct ui_form *form =
        takes_gzip(field_value(&head, BYTES("accept-encoding"))) ? &file->zipped : &file->plain;
    const bool is_known = has(field_value(&head, BYTES("if-none-match")), form->etag);
    head_deinit(&head);
    answer_text(reply, is_known ? 304 : 200, is_known ? NULL : file->content_type, form->fields,
                is_known ? BYTES("") : form->content);
}

void dashboard_answer(const struct hub *hub, const struct request *request, struct reply *reply)
{
    static const struct bytes folder = BYTES("/ui/");
    if (!bytes_starts_with(request->path, folder)) {
        answer_text(reply, 302, "text/plain", "Location: ui/\r\n" NOT_KEPT UI_FIELDS,
                    BYTES("The dashboard is at /ui/.\n"));
        return;
    }
    const struct bytes name = bytes_skip(request->path, folder.size);
    const struct ui_file *file = ui_find(name);
    if (bytes_equal(name, BYTES("config")))
        answer_config(hub, reply);
    else if (file != NULL)
        answer_file(request, file, reply);
    else
        answer_text(reply, 404, "text/plain", NOT_KEPT UI_FIELDS, BYTES("The dashboard has no such file: try /ui/.\n"));
}
