#include "support/history.h"

#include "support/memory_disk.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "TALLY_HISTORY"

static uint64_t history;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool is_wanted;

__attribute__((constructor)) static void ask_for_history(void)
{
    is_wanted = getenv(VARIABLE) != NULL;
}

bool history_is_wanted(void)
{
    return is_wanted;
}

void history_begin(void)
{
    history = 0;
}

void history_note(struct bytes seen)
{
    if (!is_wanted)
        return;
    (void)pthread_mutex_lock(&mutex);
    const uint64_t both[2] = {history, bytes_hash(seen)};
    history = bytes_hash(bytes_make(both, sizeof(both)));
    (void)pthread_mutex_unlock(&mutex);
}

void history_note_number(uint64_t seen)
{
    history_note(bytes_make(&seen, sizeof(seen)));
}

/* How much is free on a disk depends on how the C library rounds memory, as the server keeps room for that.
 * DescribeServer tells that, too, and the version. */
void history_note_reply(const struct exchange *exchange)
{
    const uint64_t facts[] = {exchange->reply.status, exchange->hold_sequence};
    history_note(bytes_make(facts, sizeof(facts)));
    const bool is_of_machine = exchange->action != NULL && strcmp(exchange->action, "DescribeServer") == 0;
    if (exchange->reply.error != ERROR_DISK_IS_FULL && !is_of_machine)
        history_note(buffer_bytes(&exchange->reply.body));
}

void history_note_salvage(const struct salvage_note *note)
{
    const uint64_t facts[] = {note->kind, note->offset,  note->size,    note->first,
                              note->last, note->from_ms, note->until_ms};
    history_note(bytes_make(facts, sizeof(facts)));
    history_note(note->name);
    history_note(bytes_from_string(note->file == NULL ? "" : note->file));
    history_note(bytes_from_string(note->text == NULL ? "" : note->text));
}

void history_note_metrics(const struct front *front)
{
    struct arena arena;
    struct buffer text;
    arena_init(&arena);
    buffer_init(&text);
    front_metrics_write(front, &arena, &text);
    buffer_append_u8(&text, '\0');
    char *rest = NULL;
    for (char *line = strtok_r((char *)text.data_owned, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, "_bytes") == NULL)
            history_note(bytes_from_string(line));
    buffer_deinit(&text);
    arena_deinit(&arena);
}

static void note_file(void *context, const char *name)
{
    history_note(bytes_from_string(name));
    history_note(memory_disk_content(context, name));
}

void history_note_disk(struct disk *disk)
{
    struct failure failure;
    failure_init(&failure);
    (void)disk->operations->list(disk, note_file, disk, &failure);
}

uint64_t history_value(void)
{
    return history;
}

__attribute__((destructor)) static void write_history(void)
{
    const char *path = getenv(VARIABLE);
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (file == NULL)
        return;
    fprintf(file, "%016" PRIx64 "\n", history);
    fclose(file);
}
