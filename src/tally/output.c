#include "tally/output.h"

#include "base/assert.h"
#include "base/shown.h"

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

void output_field(const char *name, const char *value)
{
    printf("%-11s ", name);
    output_in_line("", value);
    puts("");
}

void output_block(const char *name, const char *value)
{
    printf("%-11s ", name);
    output_in_lines("", value);
    puts("");
}

void output_number(const char *name, uint64_t value)
{
    printf("%-11s %llu\n", name, (unsigned long long)value);
}

static void output_member(const char *name, yyjson_val *value)
{
    char *text = yyjson_is_str(value) ? NULL : json_write_value(value, NULL);
    if (yyjson_is_str(value) || text != NULL)
        output_field(name, text == NULL ? yyjson_get_str(value) : text);
    free(text);
}

void output_members(yyjson_val *object, const char *const rows[][2], size_t count)
{
    for (size_t row = 0; row < count; row++) {
        yyjson_val *value = yyjson_obj_get(object, rows[row][1]), *item;
        size_t i, max;
        if (value != NULL && !yyjson_is_arr(value))
            output_member(rows[row][0], value);
        yyjson_arr_foreach(value, i, max, item)
        {
            output_member(rows[row][0], item);
        }
    }
}

void output_numbers(yyjson_val *object, const char *const rows[][2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        output_number(rows[i][0], json_number(object, rows[i][1]));
}

const char *output_text_of(yyjson_val *object, const char *member)
{
    const char *text = json_text(object, member);
    return text == NULL ? "" : text;
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

static void print_shown(const char *before, const char *text, struct bytes (*take)(struct bytes *text))
{
    printf("%s", before);
    for (struct bytes rest = bytes_from_string(text); rest.size > 0;) {
        const struct bytes shown = take(&rest);
        fwrite(shown.ptr, 1, shown.size, stdout);
    }
}

void output_in_line(const char *before, const char *text)
{
    print_shown(before, text, shown_take);
}

void output_in_lines(const char *before, const char *text)
{
    print_shown(before, text, shown_take_of_lines);
}

void output_age(uint64_t seconds, char text[OUTPUT_AGE_SIZE])
{
    static const struct {
        uint64_t below_s, unit_s; /* the last has no bound */
        const char *unit;
    } rows[] = {{120, 1, "s"}, {7200, 60, "min"}, {172800, 3600, "h"}, {0, 86400, "d"}};
    size_t row = 0;
    while (row + 1 < ARRAY_LENGTH(rows) && seconds >= rows[row].below_s)
        row++;
    snprintf(text, OUTPUT_AGE_SIZE, "%llu %s", (unsigned long long)(seconds / rows[row].unit_s), rows[row].unit);
}

void output_holder(yyjson_val *message, char text[OUTPUT_HOLDER_SIZE])
{
    yyjson_val *holder = yyjson_obj_get(message, "Holder");
    const char *const parts[][2] = {{"", json_text(holder, "Worker")},
                                    {"", json_text(holder, "Address")},
                                    {"key ", json_text(holder, "AccessKeyId")}};
    size_t count = 0;
    int size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        if (parts[i][1] == NULL)
            continue;
        const char *before = count == 0 ? "" : count == 1 ? " (" : ", ";
        size +=
            snprintf(text + size, (size_t)(OUTPUT_HOLDER_SIZE - size), "%s%s%.128s", before, parts[i][0], parts[i][1]);
        count++;
    }
    if (count > 1)
        snprintf(text + size, (size_t)(OUTPUT_HOLDER_SIZE - size), ")");
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

void output_value(yyjson_val *value)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_doc_set_root(doc, yyjson_val_mut_copy(doc, value));
    output_document(doc);
    yyjson_mut_doc_free(doc);
}

void output_document(const yyjson_mut_doc *doc)
{
    char *text = json_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, NULL);
    printf("%s\n", text == NULL ? "{}" : text);
    free(text);
}
