/* Reading contents of a damaged folder. See salvage_state.h. */
#include "engine/salvage_state.h"

#include "base/assert.h"
#include "core/messages/content.h"
#include "log/segment.h"

#define WINDOW_SIZE (1u << 20)

void content_reader_init(struct content_reader *reader, struct disk *disk, uint64_t segment_size)
{
    *reader = (struct content_reader){.disk = disk, .segment_size = segment_size};
    buffer_init(&reader->window);
}

static void close_file(struct content_reader *reader)
{
    if (reader->file != NULL)
        reader->disk->operations->close(reader->file);
    reader->file = NULL;
    buffer_truncate(&reader->window, 0);
}

void content_reader_deinit(struct content_reader *reader)
{
    close_file(reader);
    buffer_deinit(&reader->window);
}

static bool open_file(struct content_reader *reader, uint64_t ordinal)
{
    if (reader->file != NULL && reader->ordinal == ordinal)
        return true;
    close_file(reader);
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * reader->segment_size, name);
    if (reader->disk->operations->open(reader->disk, name, &reader->file, NULL) != OK)
        return false;
    reader->ordinal = ordinal;
    if (reader->disk->operations->size(reader->file, &reader->file_size, NULL) != OK)
        reader->file_size = 0;
    return true;
}

/* Fills the window from `offset` on: far, or, where the disk does not give all of that, only as far as needed. */
static bool fill_window(struct content_reader *reader, uint64_t offset, uint32_t size)
{
    uint64_t wanted = size > WINDOW_SIZE ? size : WINDOW_SIZE;
    wanted = wanted < reader->file_size - offset ? wanted : reader->file_size - offset;
    buffer_truncate(&reader->window, 0);
    reader->window_offset = offset;
    const struct disk_operations *operations = reader->disk->operations;
    if (operations->read(reader->file, offset, buffer_extend(&reader->window, (size_t)wanted), (size_t)wanted, NULL) ==
        OK)
        return true;
    buffer_truncate(&reader->window, 0);
    if (operations->read(reader->file, offset, buffer_extend(&reader->window, size), size, NULL) == OK)
        return true;
    buffer_truncate(&reader->window, 0);
    return false;
}

bool content_reader_read(struct content_reader *reader, uint64_t position, uint32_t size, struct bytes *encoded)
{
    const uint64_t offset = position % reader->segment_size;
    if (!open_file(reader, position / reader->segment_size) || offset > reader->file_size ||
        size > reader->file_size - offset)
        return false;
    const bool is_there = offset >= reader->window_offset && reader->window.size > 0 &&
                          offset + size <= reader->window_offset + reader->window.size;
    if (!is_there && !fill_window(reader, offset, size))
        return false;
    *encoded = bytes_make(reader->window.data_owned + (offset - reader->window_offset), size);
    struct content content;
    return content_decode(*encoded, &content);
}
