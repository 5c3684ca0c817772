/* The table of actions. To add one: a row here, a declaration in action.h, a function in a file of its own, a test. */
#include "api/action.h"

const struct action actions[] = {
    {"AmazonSQS.SendMessage", false, action_send_message},
    {"AmazonSQS.SendMessageBatch", false, action_send_message_batch},
    {"AmazonSQS.ReceiveMessage", false, action_receive_message},
    {"AmazonSQS.DeleteMessage", true, action_delete_message},
    {"AmazonSQS.DeleteMessageBatch", false, action_delete_message_batch},
    {"AmazonSQS.ChangeMessageVisibility", true, action_change_message_visibility},
    {"AmazonSQS.ChangeMessageVisibilityBatch", false, action_change_message_visibility_batch},
    {"AmazonSQS.CreateQueue", false, action_create_queue},
    {"AmazonSQS.GetQueueUrl", false, action_get_queue_url},
    {"AmazonSQS.ListQueues", false, action_list_queues},
    {"AmazonSQS.DeleteQueue", true, action_delete_queue},
    {"AmazonSQS.PurgeQueue", true, action_purge_queue},
    {"AmazonSQS.GetQueueAttributes", false, action_get_queue_attributes},
    {"AmazonSQS.SetQueueAttributes", true, action_set_queue_attributes},
    {"Tally.CreateBatch", false, action_create_batch},
    {"Tally.AddUnits", false, action_add_units},
    {"Tally.CompleteUnits", false, action_complete_units},
    {"Tally.XorUnits", false, action_xor_units},
    {"Tally.SealBatch", false, action_seal_batch},
    {"Tally.CancelBatch", false, action_cancel_batch},
    {"Tally.DescribeBatch", false, action_describe_batch},
    {"Tally.ListBatches", false, action_list_batches},
    {"Tally.ListUnits", false, action_list_units},
    {"Tally.DeleteBatch", true, action_delete_batch},
    {"Tally.FailMessage", true, action_fail_message},
    {"Tally.PauseQueue", true, action_pause_queue},
    {"Tally.ResumeQueue", true, action_resume_queue},
    {"Tally.PauseGroup", true, action_pause_group},
    {"Tally.ResumeGroup", true, action_resume_group},
    {"Tally.ReleaseGroup", true, action_release_group},
};

const size_t action_count = ARRAY_LENGTH(actions);
