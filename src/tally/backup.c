/* tally backup: has the server make a backup, and takes it from there. */
#include "backup/take.h"
#include "base/assert.h"
#include "client/json.h"
#include "platform/monotonic.h"
#include "tally/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAUSE_FIRST_MS 20u
#define PAUSE_MAX_MS 500u

struct made {
    char id[BACKUP_ID_SIZE];
    struct tally_reply reply; /* of DescribeBackup */
};

static enum tally_status ask(const struct invocation *invocation, const char *action, const char *id,
                             struct tally_reply *reply)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "BackupId", id);
    return json_body_call(&body, invocation->client, action, reply);
}

/* The server's copy is needed no more, or of no use. */
static void delete_backup(const struct invocation *invocation, const char *id)
{
    struct tally_reply reply;
    if (ask(invocation, "Tally.DeleteBackup", id, &reply) == TALLY_OK)
        tally_reply_deinit(&reply);
}

static int start(const struct invocation *invocation, struct made *made)
{
    struct tally_reply reply;
    if (ask(invocation, "Tally.StartBackup", NULL, &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    json_copy(json_root(&reply), "BackupId", made->id, sizeof(made->id));
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

/* Of two tools at once, the second may begin when the first one's backup has been made and not yet been taken. */
static int fail_await(const struct invocation *invocation, const struct made *made)
{
    if (strcmp(tally_client_error(invocation->client)->code, "BackupDoesNotExist") != 0)
        return invocation_failed(invocation, invocation->client);
    complain("the backup %s has gone: another one began, or the server ended, before it was taken. Type it again.",
             made->id);
    return EXIT_REFUSED;
}

/* Waits until it is finished, and keeps what the server says of it then. */
static int await(const struct invocation *invocation, struct made *made)
{
    for (unsigned pause_ms = PAUSE_FIRST_MS;; pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS) {
        if (ask(invocation, "Tally.DescribeBackup", made->id, &made->reply) != TALLY_OK)
            return fail_await(invocation, made);
        const char *state = output_text_of(json_root(&made->reply), "State");
        if (strcmp(state, "finished") == 0)
            return EXIT_DONE;
        if (strcmp(state, "running") != 0)
            break;
        tally_reply_deinit(&made->reply);
        sleep_for(pause_ms);
    }
    complain("the backup failed: %s", output_text_of(json_root(&made->reply), "FailureReason"));
    return EXIT_REFUSED;
}

/* Is it on this machine? */
static int find(const struct made *made, struct manifest *manifest)
{
    const char *folder = output_text_of(json_root(&made->reply), "Folder");
    struct failure failure;
    failure_init(&failure);
    if (manifest_read(folder, manifest, &failure) == OK && strcmp(manifest->id, made->id) == 0)
        return EXIT_DONE;
    complain("the server made the backup in its folder %s, which can't be read here%s%s Type the command on the "
             "server's machine, as the user of tallyd or as root.",
             folder, failure.error == OK ? "." : ": ", failure.text);
    return EXIT_LOCAL;
}

static void show(const struct invocation *invocation, const struct manifest *manifest, const char *to)
{
    const struct manifest_sum sum = manifest_sum(manifest);
    if (!invocation->is_json) {
        output_field("backup", to);
        output_time("instant", (double)manifest->instant_ms / 1000);
        output_number("queues", sum.queues);
        output_number("messages", sum.messages);
        output_number("files", sum.files);
        output_number("bytes", sum.bytes);
        return;
    }
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *object = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, object);
    yyjson_mut_obj_add_str(doc, object, "BackupId", manifest->id);
    yyjson_mut_obj_add_str(doc, object, "Folder", to);
    yyjson_mut_obj_add_real(doc, object, "Instant", (double)manifest->instant_ms / 1000);
    yyjson_mut_obj_add_uint(doc, object, "Queues", sum.queues);
    yyjson_mut_obj_add_uint(doc, object, "Messages", sum.messages);
    yyjson_mut_obj_add_uint(doc, object, "Files", sum.files);
    yyjson_mut_obj_add_uint(doc, object, "Bytes", sum.bytes);
    output_document(doc);
    yyjson_mut_doc_free(doc);
}

static int take(const struct invocation *invocation, const struct made *made, const char *to)
{
    struct manifest manifest = {0};
    struct failure failure;
    failure_init(&failure);
    const char *folder = output_text_of(json_root(&made->reply), "Folder");
    const bool is_tar = strcmp(to, "-") == 0;
    int status = find(made, &manifest);
    if (status != EXIT_DONE)
        return status;
    const enum error error = is_tar ? backup_write_tar(&manifest, folder, STDOUT_FILENO, &failure)
                                    : backup_take(&manifest, folder, to, &failure);
    if (error != OK) {
        complain("%s", failure.text);
        status = EXIT_LOCAL;
    } else if (!is_tar) {
        show(invocation, &manifest, to);
    }
    manifest_deinit(&manifest);
    return status;
}

/* Where it goes must be free before the server begins. */
static int check(const struct invocation *invocation, const char *to)
{
    struct stat status;
    if (strcmp(to, "-") == 0)
        return isatty(STDOUT_FILENO)
                   ? complain_usage(invocation, "a tar is nothing for a terminal: send it to a file or a program.")
                   : EXIT_DONE;
    const bool is_there = lstat(to, &status) == 0;
    if (!is_there && errno != ENOENT)
        return complain_usage(invocation, "%.200s can't be made: %s.", to, strerror(errno));
    if (!is_there)
        return EXIT_DONE;
    return complain_usage(invocation, "%s exists already: name a folder that does not.", to);
}

static int run(struct invocation *invocation)
{
    struct made made = {.id = ""};
    const char *to = invocation->arguments[0];
    int status = check(invocation, to);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        status = start(invocation, &made);
    if (status != EXIT_DONE)
        return status;
    status = await(invocation, &made);
    if (status == EXIT_DONE)
        status = take(invocation, &made, to);
    delete_backup(invocation, made.id);
    tally_reply_deinit(&made.reply);
    return status;
}

const struct command command_backup = {
    .run = run,
};
