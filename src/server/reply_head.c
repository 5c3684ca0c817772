#include "server/reply_head.h"

#include "base/assert.h"

/* 62 bits: the room in a version 4 UUID after its variant. */
#define REQUEST_ID_BITS_MASK ((UINT64_C(1) << 62) - 1)

/* The longest variable parts. They are static texts of the program, checked when they are written. */
#define CONTENT_TYPE_SIZE_MAX 64u
#define QUERY_CODE_SIZE_MAX 96u
#define FIELDS_SIZE_MAX 768u

struct status_row {
    int status;
    struct bytes line;
};

static const struct status_row status_rows[] = {
    {302, BYTES("HTTP/1.1 302 Found\r\n")},
    {304, BYTES("HTTP/1.1 304 Not Modified\r\n")},
    {400, BYTES("HTTP/1.1 400 Bad Request\r\n")},
    {403, BYTES("HTTP/1.1 403 Forbidden\r\n")},
    {404, BYTES("HTTP/1.1 404 Not Found\r\n")},
    {405, BYTES("HTTP/1.1 405 Method Not Allowed\r\n")},
    {408, BYTES("HTTP/1.1 408 Request Timeout\r\n")},
    {409, BYTES("HTTP/1.1 409 Conflict\r\n")},
    {413, BYTES("HTTP/1.1 413 Content Too Large\r\n")},
    {429, BYTES("HTTP/1.1 429 Too Many Requests\r\n")},
    {500, BYTES("HTTP/1.1 500 Internal Server Error\r\n")},
    {503, BYTES("HTTP/1.1 503 Service Unavailable\r\n")},
};

static const char hex_digits[16] = "0123456789abcdef";

static void hex_write(char *at, uint64_t value, unsigned digits)
{
    for (unsigned i = 0; i < digits; i++)
        at[i] = hex_digits[(value >> (4 * (digits - 1 - i))) & 15];
}

void request_ids_init(struct request_ids *ids, const uint64_t seed[2])
{
    hex_write(ids->prefix, seed[0] >> 32, 8);
    ids->prefix[8] = '-';
    hex_write(ids->prefix + 9, seed[0] >> 16, 4);
    ids->prefix[13] = '-';
    hex_write(ids->prefix + 14, UINT64_C(0x4000) | (seed[0] & 0xfff), 4);
    ids->prefix[18] = '-';
    ids->mask = seed[1];
    ids->count = 0;
}

void request_ids_next(struct request_ids *ids, char text[REQUEST_ID_SIZE])
{
    /* Each step maps the 62-bit numbers one to one, so two counts never give the same id. */
    uint64_t value = (ids->count++ ^ ids->mask) & REQUEST_ID_BITS_MASK;
    value = (value * UINT64_C(0xbf58476d1ce4e5b9)) & REQUEST_ID_BITS_MASK;
    value ^= value >> 31;
    value = (value * UINT64_C(0x94d049bb133111eb)) & REQUEST_ID_BITS_MASK;
    value ^= value >> 29;
    value |= UINT64_C(1) << 63; /* variant 10 */

    memcpy(text, ids->prefix, REQUEST_ID_PREFIX_SIZE);
    hex_write(text + REQUEST_ID_PREFIX_SIZE, value >> 48, 4);
    text[REQUEST_ID_PREFIX_SIZE + 4] = '-';
    hex_write(text + REQUEST_ID_PREFIX_SIZE + 5, value, 12);
}

static void two_digits(char *at, uint64_t value)
{
    at[0] = (char)('0' + value / 10 % 10);
    at[1] = (char)('0' + value % 10);
}

void http_date_format(uint64_t time_s, char text[HTTP_DATE_SIZE])
{
    static const char weekdays[] = "ThuFriSatSunMonTueWed"; /* 1 January 1970 was a Thursday */
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    uint64_t days = time_s / 86400;
    uint64_t second = time_s % 86400;

    /* Civil date of a day number. Years begin in March here, so that the leap day comes last. Source: Howard Hinnant,
     * "chrono-Compatible Low-Level Date Algorithms". */
    uint64_t shifted = days + 719468;
    uint64_t era = shifted / 146097;
    uint64_t day_of_era = shifted % 146097;
    uint64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t march_month = (5 * day_of_year + 2) / 153;
    uint64_t day = day_of_year - (153 * march_month + 2) / 5 + 1;
    uint64_t month = march_month < 10 ? march_month + 2 : march_month - 10; /* 0 is January */
    uint64_t year = year_of_era + era * 400 + (month <= 1 ? 1 : 0);

    memcpy(text, "Thu, 01 Jan 1970 00:00:00 GMT", HTTP_DATE_SIZE);
    memcpy(text, weekdays + days % 7 * 3, 3);
    two_digits(text + 5, day);
    memcpy(text + 8, months + month * 3, 3);
    two_digits(text + 12, year / 100);
    two_digits(text + 14, year);
    two_digits(text + 17, second / 3600);
    two_digits(text + 20, second / 60 % 60);
    two_digits(text + 23, second % 60);
}

static uint8_t *put(uint8_t *at, struct bytes text)
{
    memcpy(at, text.ptr, text.size);
    return at + text.size;
}

static uint8_t *put_decimal(uint8_t *at, uint64_t value)
{
    uint8_t digits[20];
    size_t start = sizeof(digits);
    do {
        digits[--start] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return put(at, bytes_make(digits + start, sizeof(digits) - start));
}

static uint8_t *put_status_line(uint8_t *at, int status)
{
    if (__builtin_expect(status == 200, 1))
        return put(at, BYTES("HTTP/1.1 200 OK\r\n"));
    for (size_t i = 0; i < ARRAY_LENGTH(status_rows); i++)
        if (status_rows[i].status == status)
            return put(at, status_rows[i].line);
    ASSERT(status >= 100 && status <= 999);
    at = put(at, BYTES("HTTP/1.1 "));
    at = put_decimal(at, (uint64_t)status);
    return put(at, BYTES(" Status\r\n"));
}

static uint8_t *put_error(uint8_t *at, enum error error)
{
    const struct error_row *row = error_row(error);
    struct bytes code = bytes_from_string(row->query);
    ASSERT(code.size <= QUERY_CODE_SIZE_MAX);
    at = put(at, BYTES("x-amzn-query-error: "));
    at = put(at, code);
    return row->status >= 500 ? put(at, BYTES(";Receiver\r\n")) : put(at, BYTES(";Sender\r\n"));
}

size_t reply_head_write(const struct reply_head *head, uint8_t *at)
{
    uint8_t *start = at;
    at = put_status_line(at, head->status);
    at = put(at, BYTES("Date: "));
    at = put(at, bytes_make(head->date, HTTP_DATE_SIZE));
    if (head->content_type != NULL) {
        struct bytes type = bytes_from_string(head->content_type);
        ASSERT(type.size <= CONTENT_TYPE_SIZE_MAX);
        at = put(at, BYTES("\r\nContent-Type: "));
        at = put(at, type);
    }
    if (head->status != 304) {
        at = put(at, BYTES("\r\nContent-Length: "));
        at = put_decimal(at, head->body_size);
    }
    at = put(at, BYTES("\r\nx-amzn-RequestId: "));
    at = put(at, bytes_make(head->request_id, REQUEST_ID_SIZE));
    at = put(at, BYTES("\r\n"));
    if (head->fields != NULL) {
        struct bytes fields = bytes_from_string(head->fields);
        ASSERT(fields.size <= FIELDS_SIZE_MAX);
        at = put(at, fields);
    }
    if (head->error != OK)
        at = put_error(at, head->error);
    if (head->is_not_owner)
        at = put(at, BYTES("Tally-Not-Owner: true\r\n"));
    if (head->is_last)
        at = put(at, BYTES("Connection: close\r\n"));
    else if (head->is_http_1_0)
        at = put(at, BYTES("Connection: keep-alive\r\n"));
    at = put(at, BYTES("\r\n"));
    ASSERT((size_t)(at - start) <= REPLY_HEAD_SIZE_MAX);
    return (size_t)(at - start);
}
