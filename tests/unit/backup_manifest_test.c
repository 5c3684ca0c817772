/* The manifest: what it says comes back, and whatever is wrong with it is refused. */
#include "backup/manifest.h"
#include "base/crc32c.h"
#include "platform/aside.h"

#include "random.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits.h>

#include <cmocka.h>

static struct manifest make(void)
{
    struct manifest manifest = {
        .id = "20261130T031000Z-1a2b3c4d", .version = "0.2.0", .data_format = 3, .instant_ms = 1795999638083};
    for (unsigned i = 0; i < 2; i++) {
        struct backup_namespace *ns = manifest_add_namespace(&manifest);
        (void)snprintf(ns->name, sizeof(ns->name), "%012u", i);
        ns->segment_size = 46137344;
        ns->epoch = 3;
        ns->sequence = UINT64_MAX;
        ns->position = 512 + i;
        ns->time_ms = 1795999638000;
        ns->queues = i;
        ns->messages = 1000000;
        for (unsigned j = 0; j <= i; j++) {
            struct backup_file *file = backup_namespace_add_file(ns);
            (void)snprintf(file->name, sizeof(file->name), "%016x.%s", j, j == 0 ? "segment" : "snapshot");
            file->size = 46137344;
            file->checksum = 0x00c0ffee + j;
        }
    }
    return manifest;
}

static bool is_taken(const char *text)
{
    struct manifest manifest;
    struct failure failure;
    failure_init(&failure);
    const enum error error = manifest_decode(bytes_from_string(text), "b", &manifest, &failure);
    assert_true(error == OK || (error == ERROR_LOG_DAMAGED && strstr(failure.text, "b/backup.json") != NULL));
    if (error == OK)
        manifest_deinit(&manifest);
    return error == OK;
}

static void what_it_says_comes_back(void **state)
{
    (void)state;
    struct manifest manifest = make(), read;
    struct failure failure;
    struct buffer text, again;
    buffer_init(&text);
    buffer_init(&again);
    failure_init(&failure);
    manifest_write(&manifest, &text);
    assert_int_equal(manifest_decode(buffer_bytes(&text), "b", &read, &failure), OK);
    manifest_write(&read, &again);
    assert_true(bytes_equal(buffer_bytes(&text), buffer_bytes(&again)));
    const struct manifest_sum sum = manifest_sum(&read);
    assert_true(sum.files == 3 && sum.queues == 1 && sum.messages == 2000000 && sum.bytes == 3 * UINT64_C(46137344));
    manifest_deinit(&read);
    manifest_deinit(&manifest);
    buffer_deinit(&again);
    buffer_deinit(&text);
}

/* Each member is needed; without one, or with another type, it is refused. */
static void a_member_that_is_missing_or_wrong_is_refused(void **state)
{
    (void)state;
    static const char *const members[] = {"format", "id",    "version",  "instantMs", "namespaces", "name",
                                          "epoch",  "files", "position", "sequence",  "timeMs",     "segmentSize",
                                          "queues", "size",  "messages", "crc32c"};
    struct manifest manifest = make();
    struct buffer text;
    buffer_init(&text);
    manifest_write(&manifest, &text);
    buffer_append_u8(&text, 0);
    assert_true(is_taken((const char *)text.data_owned));
    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
        char quoted[32];
        (void)snprintf(quoted, sizeof(quoted), "\"%s\":", members[i]);
        char *at = strstr((char *)text.data_owned, quoted);
        assert_non_null(at);
        at[1] ^= 1; /* another member */
        assert_false(is_taken((const char *)text.data_owned));
        at[1] ^= 1;
        char *value = at + strlen(quoted) + 1, old = *value;
        *value = *value == '"' ? '7' : *value == '[' ? '{' : '"';
        assert_false(is_taken((const char *)text.data_owned));
        *value = old;
    }
    manifest_deinit(&manifest);
    buffer_deinit(&text);
}

static void names_lead_nowhere_else(void **state)
{
    (void)state;
    static const struct {
        const char *ns, *file, *checksum;
        bool is_good;
    } rows[] = {
        {"000000000000", "0.segment", "00000000", true},
        {"000000000000", "../0.segment", "00000000", false},
        {"000000000000", "/0.segment", "00000000", false},
        {"000000000000", ".segment", "00000000", false},
        {"000000000000", "\\u001b[2J.segment", "00000000", false},
        {"000000000000", "a\\nb.segment", "00000000", false},
        {"000000000000", "a b.segment", "00000000", false},
        {"000000000000", "0.segment", "-0000001", false},
        {"000000000000", "0.segment", "0x000001", false},
        {"000000000000", "lock", "00000000", false},
        {"000000000000", "0.segment", "0000000g", false},
        {"000000000000", "0.segment", "0000000", false},
        {"00000000000", "0.segment", "00000000", false},
        {"00000000000x", "0.segment", "00000000", false},
        {"..", "0.segment", "00000000", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[600];
        (void)snprintf(text, sizeof(text),
                       "{\"format\":1,\"id\":\"a\",\"version\":\"1\",\"instantMs\":1,\"namespaces\":[{\"name\":\"%s\","
                       "\"segmentSize\":1,\"epoch\":1,\"sequence\":1,\"position\":1,\"timeMs\":1,\"queues\":0,"
                       "\"messages\":0,\"files\":[{\"name\":\"%s\",\"size\":1,\"crc32c\":\"%s\"}]}]}",
                       rows[i].ns, rows[i].file, rows[i].checksum);
        assert_int_equal(is_taken(text), rows[i].is_good);
    }
}

static void a_newer_format_is_told_as_such(void **state)
{
    (void)state;
    struct manifest manifest;
    struct failure failure;
    failure_init(&failure);
    assert_int_equal(manifest_decode(BYTES("{\"format\":2}"), "b", &manifest, &failure), ERROR_UNSUPPORTED_OPERATION);
    assert_non_null(strstr(failure.text, "format 2, and this version knows 1"));
}

static void what_is_shown_to_people_is_printable_and_a_data_format_may_be_unsaid(void **state)
{
    (void)state;
    static const struct {
        const char *version, *data_format;
        unsigned format; /* 0: it is refused */
    } rows[] = {
        {"0.2.0~rc1+x", "", 2},
        {"0.3.0", ",\"dataFormat\":7", 7},
        {"0.3.0", ",\"dataFormat\":99999999999", UINT_MAX},
        {"0.3.0", ",\"dataFormat\":0", 0},
        {"0.3.0", ",\"dataFormat\":\"3\"", 0},
        {"\\u001b[31m", "", 0},
        {"0.2.0\\n", "", 0},
        {"0 2 0", "", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[600];
        struct manifest manifest;
        struct failure failure;
        failure_init(&failure);
        (void)snprintf(text, sizeof(text),
                       "{\"format\":1,\"id\":\"a\",\"version\":\"%s\"%s,\"instantMs\":1,\"namespaces\":[{\"name\":"
                       "\"000000000000\",\"segmentSize\":1,\"epoch\":1,\"sequence\":1,\"position\":1,\"timeMs\":1,"
                       "\"queues\":0,\"messages\":0,\"files\":[{\"name\":\"0.segment\",\"size\":1,\"crc32c\":"
                       "\"00000000\"}]}]}",
                       rows[i].version, rows[i].data_format);
        const enum error error = manifest_decode(bytes_from_string(text), "b", &manifest, &failure);
        assert_int_equal(error, rows[i].format == 0 ? ERROR_LOG_DAMAGED : OK);
        assert_true(error != OK || manifest.data_format == rows[i].format);
        if (error == OK)
            manifest_deinit(&manifest);
    }
}

/* Cut anywhere, or with one bit changed: refused, or read as something. */
static void no_damage_crashes_the_decoder(void **state)
{
    (void)state;
    struct manifest manifest = make(), read;
    struct failure failure;
    struct buffer text;
    struct random random = {7};
    buffer_init(&text);
    manifest_write(&manifest, &text);
    for (size_t size = 0; size + 1 < text.size; size++) {
        failure_init(&failure);
        assert_int_equal(manifest_decode(bytes_make(text.data_owned, size), "b", &read, &failure), ERROR_LOG_DAMAGED);
    }
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t *byte = &text.data_owned[random_u64(&random) % text.size];
        const uint8_t bit = (uint8_t)(1u << (random_u64(&random) % 8));
        *byte ^= bit;
        failure_init(&failure);
        if (manifest_decode(buffer_bytes(&text), "b", &read, &failure) == OK)
            manifest_deinit(&read);
        *byte ^= bit;
    }
    manifest_deinit(&manifest);
    buffer_deinit(&text);
}

/* --- checksums ---------------------------------------------------------------------------------------------------- */

#define HOLE_SIZE ((size_t)4 << 20)
#define DATA_SIZE 50000u

/* How many pages of the file's hole are in memory. */
static size_t resident_pages(const char *path)
{
    static unsigned char pages[HOLE_SIZE / 4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    void *mapped = mmap(NULL, HOLE_SIZE, PROT_READ, MAP_SHARED, fileno(file), DATA_SIZE / 4096 * 4096 + 4096);
    assert_true(mapped != MAP_FAILED);
    assert_int_equal(mincore(mapped, HOLE_SIZE - 65536, pages), 0);
    size_t count = 0;
    for (size_t i = 0; i < (HOLE_SIZE - 65536) / 4096; i++)
        count += pages[i] & 1u;
    (void)munmap(mapped, HOLE_SIZE);
    (void)fclose(file);
    return count;
}

/* The kernel fills memory with zeros for each page of a hole that somebody reads, 8 MiB at once if it reads so far
 * ahead. On a core that the loop needs, that held up sends for 26 ms. */
static void a_hole_counts_as_zeros_and_is_not_read(void **state)
{
    (void)state;
    static uint8_t content[2 * DATA_SIZE + HOLE_SIZE];
    const atomic_bool is_cancelled = false;
    const atomic_bool *const ways[] = {NULL, &is_cancelled};
    struct backup_file file = {.name = ""};
    struct failure failure;
    char path[96];
    (void)snprintf(path, sizeof(path), "%.40s/tally-sum-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    memset(content, 'a', DATA_SIZE);
    memset(content + DATA_SIZE + HOLE_SIZE, 'b', DATA_SIZE);
    assert_int_equal(pwrite(descriptor, content, DATA_SIZE, 0), DATA_SIZE);
    assert_int_equal(pwrite(descriptor, content + DATA_SIZE + HOLE_SIZE, DATA_SIZE, DATA_SIZE + HOLE_SIZE), DATA_SIZE);
    (void)close(descriptor);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(backup_file_sum(path, ways[i], &file, &failure), OK);
        assert_int_equal(file.size, sizeof(content));
        assert_int_equal(file.checksum, crc32c(0, bytes_make(content, sizeof(content))));
        assert_in_range(resident_pages(path), 0, 32); /* the read that begins in data may end in the hole */
    }
    assert_int_equal(truncate(path, DATA_SIZE + HOLE_SIZE), 0);
    assert_int_equal(backup_file_sum(path, NULL, &file, &failure), OK);
    assert_int_equal(file.size, DATA_SIZE + HOLE_SIZE);
    assert_int_equal(file.checksum, crc32c(0, bytes_make(content, DATA_SIZE + HOLE_SIZE)));
    (void)unlink(path);
}

/* What the sum asks of the kernel besides reading. */
static struct {
    size_t seeks;
    uint64_t asked_ahead;
    off_t asked_at_once_max;
} calls;

off_t lseek(int descriptor, off_t offset, int whence)
{
    calls.seeks++;
    return (off_t)syscall(SYS_lseek, descriptor, offset, whence);
}

int posix_fadvise(int descriptor, off_t offset, off_t size, int advice)
{
    if (advice == POSIX_FADV_WILLNEED) {
        calls.asked_ahead += (uint64_t)size;
        calls.asked_at_once_max = size > calls.asked_at_once_max ? size : calls.asked_at_once_max;
    }
    return (int)syscall(SYS_fadvise64, descriptor, offset, size, advice);
}

/* On a file server each question for holes is a request: a question for each piece took longer than the bytes. And a
 * piece that is asked for only when it is due takes the disk's answering time each: on a cold file a backup's sum took
 * three times as long. */
static void holes_are_asked_for_once_and_data_is_asked_for_ahead_in_short_calls(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    static uint8_t content[SIZE];
    const atomic_bool is_cancelled = false;
    struct backup_file file = {.name = ""};
    struct failure failure;
    char path[96];
    (void)snprintf(path, sizeof(path), "%.40s/tally-sum-XXXXXX", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    memset(content, 'a', SIZE);
    assert_int_equal(pwrite(descriptor, content, SIZE, 0), SIZE);
    assert_int_equal(pwrite(descriptor, content, SIZE, SIZE + HOLE_SIZE), SIZE);
    (void)close(descriptor);
    memset(&calls, 0, sizeof(calls));
    assert_int_equal(backup_file_sum(path, NULL, &file, &failure), OK);
    assert_int_equal(file.size, 2 * SIZE + HOLE_SIZE);
    assert_in_range(calls.seeks, 1, 8);
    assert_int_equal(calls.asked_ahead, 0); /* nobody waits: the kernel does it */
    assert_int_equal(backup_file_sum(path, &is_cancelled, &file, &failure), OK);
    assert_int_equal(calls.asked_ahead, 2 * SIZE);
    assert_in_range(calls.asked_at_once_max, 1, ASIDE_CALL_SIZE);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_comes_back),
        cmocka_unit_test(a_member_that_is_missing_or_wrong_is_refused),
        cmocka_unit_test(names_lead_nowhere_else),
        cmocka_unit_test(a_newer_format_is_told_as_such),
        cmocka_unit_test(what_is_shown_to_people_is_printable_and_a_data_format_may_be_unsaid),
        cmocka_unit_test(no_damage_crashes_the_decoder),
        cmocka_unit_test(a_hole_counts_as_zeros_and_is_not_read),
        cmocka_unit_test(holes_are_asked_for_once_and_data_is_asked_for_ahead_in_short_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
