#include "tallyd/description.h"

#include "tallyd/namespaces.h"

#include <time.h>

/* --- the configuration -------------------------------------------------------------------------------------------- */

static void write_settings(struct description *description)
{
    size_t begins[CONFIG_KEY_COUNT + 1] = {0};
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++) {
        config_show(description->config, (enum config_key)key, &description->values);
        begins[key + 1] = description->values.size;
    }
    const struct bytes values = buffer_bytes(&description->values); /* it grows no more */
    for (size_t key = 0; key < CONFIG_KEY_COUNT; key++)
        description->settings[key] = (struct server_setting){
            .name = config_name((enum config_key)key),
            .value = bytes_make(values.ptr + begins[key], begins[key + 1] - begins[key]),
            .is_default = config_is_default(description->config, (enum config_key)key),
        };
}

void description_init(struct description *description, const struct config *config, const struct cluster *cluster,
                      const struct server *server)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *description = (struct description){
        .config = config,
        .cluster = cluster,
        .server = server,
        .started_at_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
    };
    buffer_init(&description->values);
    write_settings(description);
}

void description_renew(struct description *description)
{
    buffer_truncate(&description->values, 0);
    write_settings(description);
}

void description_deinit(struct description *description)
{
    buffer_deinit(&description->values);
}

/* --- the cluster -------------------------------------------------------------------------------------------------- */

static struct bytes copy_text(struct arena *arena, const char *text)
{
    return arena_copy(arena, bytes_from_string(text));
}

static void list_nodes(const struct view *view, struct arena *arena, struct server_facts *facts)
{
    struct server_node *nodes = arena_allocate(arena, (view->node_count + 1) * sizeof(*nodes));
    for (size_t i = 0; i < view->node_count; i++) {
        const struct view_node *node = &view->nodes_owned[i];
        nodes[i] = (struct server_node){.name = copy_text(arena, node->name),
                                        .address = copy_text(arena, node->address),
                                        .version = copy_text(arena, node->version),
                                        .is_alive = node->is_alive,
                                        .is_draining = node->is_draining,
                                        .owned = node->owned_count,
                                        .wanted = node->wanted_count};
    }
    facts->nodes = nodes;
    facts->node_count = view->node_count;
}

void description_fill(void *context, struct arena *arena, struct server_facts *facts)
{
    const struct description *description = context;
    struct registry *registry = description->cluster->registry;
    const struct view *view = registry == NULL ? NULL : registry_acquire(registry);
    *facts = (struct server_facts){
        .started_at_ms = description->started_at_ms,
        .certificate_expires_at_s = server_certificate_expires_at_s(description->server),
        .settings = description->settings,
        .setting_count = CONFIG_KEY_COUNT,
    };
    if (namespaces_are_in_postgres(description->config))
        facts->node = bytes_from_string(namespaces_node_name(description->config));
    if (view == NULL)
        return;
    list_nodes(view, arena, facts);
    registry_release(view);
}
