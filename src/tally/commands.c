#include "tally/commands.h"

#include "base/assert.h"
#include <string.h>

extern const struct command command_queue_create, command_queue_list, command_queue_show, command_queue_set,
    command_queue_tag, command_queue_untag, command_queue_tags, command_queue_purge, command_queue_redrive,
    command_queue_redrives, command_queue_redrive_stop, command_queue_delete, command_send, command_receive,
    command_delete, command_batch_create, command_batch_add, command_batch_complete, command_batch_seal,
    command_batch_show, command_batch_list, command_batch_units, command_batch_cancel, command_batch_delete,
    command_work, command_run, command_call, command_explain, command_queue_pause, command_queue_resume,
    command_group_list, command_group_release, command_group_pause, command_group_resume, command_schedule_put,
    command_schedule_list, command_schedule_show, command_schedule_pause, command_schedule_resume,
    command_schedule_delete, command_relay_schema, command_relay_run, command_relay_create, command_relay_list,
    command_relay_show, command_relay_pause, command_relay_resume, command_relay_delete, command_relay_doubts,
    command_relay_resolve, command_pool_create, command_pool_update, command_pool_list, command_pool_show,
    command_pool_delete, command_pool_offer, command_pool_tickets, command_pool_ticket, command_pool_count,
    command_pool_explain, command_pool_cancel, command_pool_putback, command_pool_feed, command_pool_simulate,
    command_match, command_commit, command_type_order_put, command_type_order_list, command_type_order_delete;

const struct command_row commands[] = {
    {"queue create", "make a queue", &command_queue_create},
    {"queue list", "list the queues, how full they are and how old the oldest message is", &command_queue_list},
    {"queue show", "show a queue's attributes and how many messages it holds", &command_queue_show},
    {"queue set", "change a queue's attributes", &command_queue_set},
    {"queue tag", "give a queue tags", &command_queue_tag},
    {"queue untag", "take tags from a queue", &command_queue_untag},
    {"queue tags", "list the tags of a queue", &command_queue_tags},
    {"queue pause", "stop deliveries from a queue", &command_queue_pause},
    {"queue resume", "let a paused queue deliver again", &command_queue_resume},
    {"queue redrive", "move dead letters back to the queues they failed in", &command_queue_redrive},
    {"queue redrives", "list the newest redrives of a dead-letter queue", &command_queue_redrives},
    {"queue redrive-stop", "stop the redrive that is running", &command_queue_redrive_stop},
    {"queue purge", "delete all messages of a queue", &command_queue_purge},
    {"queue delete", "delete a queue and its messages", &command_queue_delete},
    {"send", "put a message, or one for each line, into a queue", &command_send},
    {"receive", "take messages out of a queue", &command_receive},
    {"delete", "delete a message that was received", &command_delete},
    {"commit", "delete a message and send others, in one step", &command_commit},
    {"explain", "say where a message is, and why it is not delivered", &command_explain},
    {"group list", "list the groups of a queue, for example the held ones", &command_group_list},
    {"group release", "let a group go on that was held because a message failed", &command_group_release},
    {"group pause", "stop deliveries from one group", &command_group_pause},
    {"group resume", "let a paused group deliver again", &command_group_resume},
    {"type-order put", "fix which types of messages come before which", &command_type_order_put},
    {"type-order list", "list the type orders", &command_type_order_list},
    {"type-order delete", "delete a type order", &command_type_order_delete},
    {"work", "run a command for each message of a queue, again and again", &command_work},
    {"run", "run a command for each file of a folder, or each line, as one batch", &command_run},
    {"batch create", "make a batch: units to count, and what to send when all have ended", &command_batch_create},
    {"batch add", "register external units of a batch by their keys", &command_batch_add},
    {"batch complete", "say that external units have ended", &command_batch_complete},
    {"batch seal", "say that no more units will come", &command_batch_seal},
    {"batch show", "show how far a batch is", &command_batch_show},
    {"batch list", "list the batches", &command_batch_list},
    {"batch units", "list the units of a batch, for example the outstanding ones", &command_batch_units},
    {"batch cancel", "cancel the units that have not ended", &command_batch_cancel},
    {"batch delete", "forget a completed batch", &command_batch_delete},
    {"schedule put", "send a message at times that a cron expression names", &command_schedule_put},
    {"schedule list", "list the schedules", &command_schedule_list},
    {"schedule show", "show a schedule, and when it is next due", &command_schedule_show},
    {"schedule pause", "stop a schedule for a while", &command_schedule_pause},
    {"schedule resume", "let a paused schedule go on", &command_schedule_resume},
    {"schedule delete", "delete a schedule", &command_schedule_delete},
    {"relay run", "run a relay here, in the foreground", &command_relay_run},
    {"relay schema", "print the tables of an outbox, for your database", &command_relay_schema},
    {"relay create", "have the server carry messages from a source to a sink", &command_relay_create},
    {"relay list", "list the relays and how they are", &command_relay_list},
    {"relay show", "show a relay, how it is and what waits", &command_relay_show},
    {"relay pause", "stop a relay for a while", &command_relay_pause},
    {"relay resume", "let a paused relay go on", &command_relay_resume},
    {"relay delete", "delete a relay", &command_relay_delete},
    {"relay doubts", "list the rows that a relay has put aside", &command_relay_doubts},
    {"relay resolve", "send or drop one of them", &command_relay_resolve},
    {"pool create", "make a pool: tickets that wait until some of them fit together", &command_pool_create},
    {"pool update", "change what a pool asks of its tickets", &command_pool_update},
    {"pool list", "list the pools", &command_pool_list},
    {"pool show", "show a pool, and how long its tickets wait", &command_pool_show},
    {"pool delete", "delete a pool and forget its tickets", &command_pool_delete},
    {"pool offer", "put tickets into a pool", &command_pool_offer},
    {"pool tickets", "list the tickets that wait", &command_pool_tickets},
    {"pool ticket", "show a ticket", &command_pool_ticket},
    {"pool count", "count the tickets that wait, or some of them", &command_pool_count},
    {"pool explain", "say why a ticket is not matched", &command_pool_explain},
    {"pool cancel", "take tickets out of a pool", &command_pool_cancel},
    {"pool putback", "undo a match whose message has not been deleted", &command_pool_putback},
    {"pool feed", "print what happens to the tickets of a pool", &command_pool_feed},
    {"pool simulate", "try rules on recorded tickets", &command_pool_simulate},
    {"match", "look for matches in a pool from outside of the server", &command_match},
    {"call", "call any action of the server with a JSON body", &command_call},
};
const size_t command_count = ARRAY_LENGTH(commands);

/* How many of the words spell the name; 0 if they do not. */
static int match_name(const char *name, int count, char *const *words)
{
    int used = 0;
    while (used < count) {
        size_t size = strlen(words[used]);
        if (strncmp(name, words[used], size) != 0)
            return 0;
        used++;
        if (name[size] == '\0')
            return used;
        if (name[size] != ' ')
            return 0;
        name += size + 1;
    }
    return 0;
}

const struct command_row *command_find(int count, char *const *words, int *name_count)
{
    for (size_t i = 0; i < command_count; i++) {
        int used = match_name(commands[i].name, count, words);
        if (used > 0) {
            *name_count = used;
            return &commands[i];
        }
    }
    return NULL;
}

bool command_is_group(const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i < command_count; i++)
        if (size > 0 && strncmp(commands[i].name, word, size) == 0 && commands[i].name[size] == ' ')
            return true;
    return false;
}
