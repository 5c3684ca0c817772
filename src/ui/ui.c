#include "ui/ui.h"

static const char *const mode_names[] = {[UI_OFF] = "off", [UI_ON] = "on", [UI_READ_ONLY] = "read-only"};

const char *ui_mode_name(enum ui_mode mode)
{
    return mode_names[mode];
}

bool ui_mode_find(const char *word, enum ui_mode *mode)
{
    for (size_t i = 0; i < sizeof(mode_names) / sizeof(mode_names[0]); i++) {
        if (strcmp(mode_names[i], word) == 0) {
            *mode = (enum ui_mode)i;
            return true;
        }
    }
    return false;
}

const struct ui_file *ui_find(struct bytes name)
{
    for (size_t i = 0; i < ui_file_count; i++)
        if (bytes_equal(ui_files[i].name, name))
            return &ui_files[i];
    return NULL;
}
