/* Manifests of backups, which come from any disk: what is taken for one is written and read again as it is. */
#include "backup/manifest.h"
#include "base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest manifest, again;
    struct failure failure;
    failure_init(&failure);
    if (manifest_decode(bytes_make(data, size), "backup", &manifest, &failure) != OK) {
        ASSERT(failure.error == ERROR_LOG_DAMAGED || failure.error == ERROR_UNSUPPORTED_OPERATION); /* a later one */
        ASSERT(failure.text[0] != '\0');
        return 0;
    }
    struct buffer text, other;
    buffer_init(&text);
    buffer_init(&other);
    manifest_write(&manifest, &text);
    ASSERT(manifest_decode(buffer_bytes(&text), "backup", &again, &failure) == OK);
    manifest_write(&again, &other);
    ASSERT(bytes_equal(buffer_bytes(&text), buffer_bytes(&other)));
    buffer_deinit(&other);
    buffer_deinit(&text);
    manifest_deinit(&again);
    manifest_deinit(&manifest);
    return 0;
}
