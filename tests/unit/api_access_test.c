/* What each credential may do and see, in whole replies: rights, namespaces, and queues= (docs/reference/access.md). */
#include "auth/patterns.h"
#include "session.h"

/* What DescribeBatch says of the batch 'mine' as it was made. */
#define MINE                                                                                                           \
    "'Tracking':'exact','OnFirstFailure':{'QueueUrl':'http://localhost/000000000000/a1'},'ExpiresAt':1701209600.0"

static const char credentials_text[] = "OPS secret-of-OPS 000000000000 read,write,admin\n"
                                       "ADMINALL secret-of-ADMINALL 000000000000 write,admin\n"
                                       "CONF secret-of-CONF 000000000000 read,write,admin queues=a*\n"
                                       "CONF2 secret-of-CONF2 000000000000 read,write queues=a*\n"
                                       "BETA secret-of-BETA 000000000000 read,write queues=b*\n"
                                       "READ secret-of-READ 000000000000 read\n"
                                       "WRITE secret-of-WRITE 000000000000 write\n"
                                       "ADMIN secret-of-ADMIN 000000000000 admin\n"
                                       "OTHER secret-of-OTHER 111111111111 read,write,admin\n";

static void play(const struct step *steps, size_t count)
{
    struct world *world = session_open();
    struct credentials *credentials = signer_credentials(credentials_text);
    assert_false(front_has_credentials(world->front));
    front_set_credentials(world->front, credentials);
    assert_true(front_has_credentials(world->front));
    session_play(world, steps, count);
    front_set_credentials(world->front, NULL);
    sqs_close(world);
    credentials_destroy(credentials);
}

static void a_credential_may_do_what_its_rights_say(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'a'}", "{'QueueUrl':'http://localhost/000000000000/a'}", "OPS"},
        {"ListQueues", "{}", "UnrecognizedClientException: The security token included in the request is invalid.",
         "NOBODY"},
        {"ListQueues", "{}",
         "InvalidSignatureException: The request signature we calculated does not match the signature you provided. "
         "Check your AWS Secret Access Key and signing method, and whether something between client and server changes "
         "the request, e.g. its Host.",
         "READ:wrong"},
        {"SendMessage", "{'QueueUrl':'a','MessageBody':'m'}",
         "AccessDeniedException: Access is denied: the credential READ lacks the right 'write', which SendMessage "
         "needs.",
         "READ"},
        {"SendMessage", "{'QueueUrl':'a','MessageBody':'m'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<1>'}", "WRITE"},
        {"ReceiveMessage", "{'QueueUrl':'a'}",
         "AccessDeniedException: Access is denied: the credential WRITE lacks the right 'read', which ReceiveMessage "
         "needs.",
         "WRITE"},
        {"ReceiveMessage", "{'QueueUrl':'a','MaxNumberOfMessages':1,'VisibilityTimeout':0}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<2>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body':'"
         "m'}]}",
         "READ"},
        {"ReceiveMessage", "{'QueueUrl':'a','WaitTimeSeconds':5}",
         "AccessDeniedException: Access is denied: the credential ADMIN lacks the right 'read', which ReceiveMessage "
         "needs.",
         "ADMIN"},
        {"DeleteQueue", "{'QueueUrl':'a'}",
         "AccessDeniedException: Access is denied: the credential READ lacks the right 'admin', which DeleteQueue "
         "needs.",
         "READ"},
        {"GetQueueUrl", "{'QueueName':'a'}", "{'QueueUrl':'http://localhost/000000000000/a'}", "READ"},
        {"GetQueueUrl", "{'QueueName':'a'}", "{'QueueUrl':'http://localhost/000000000000/a'}", "ADMIN"},
        {"Tally.FailMessage", "{'QueueUrl':'a','ReceiptHandle':'<2>','DeadLetterQueueUrl':'a'}",
         "AccessDeniedException: Access is denied: the credential READ lacks the right 'write', which FailMessage "
         "needs.",
         "READ"},
        {"Tally.Commit", "{'Sends':[{'QueueUrl':'a','MessageBody':'1'}]}",
         "AccessDeniedException: Access is denied: the credential READ lacks the right 'write', which Commit needs.",
         "READ"},
        {"Tally.Commit", "{'Deletes':[{'QueueUrl':'a','ReceiptHandle':'<2>'}]}",
         "AccessDeniedException: Access is denied: the credential WRITE lacks the right 'read', which Commit needs.",
         "WRITE"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "{'Accepted':true,'Epoch':1,'Owner':'<3>','LastBatch':0,'Unconfirmed':[]}", "WRITE"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001','ReceiptHandle':'<"
         "2>'},{'Id':2,'Uid':'00000000-0000-4000-8000-000000000002','QueueUrl':'a','MessageBody':'a'}]}",
         "{'Results':[{'Id':1,'Status':'blocked','Code':'AccessDenied','Message':'Access is denied: the credential "
         "WRITE lacks the right 'read', which Publish needs.'}],'Stored':1}",
         "WRITE"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "AccessDeniedException: Access is denied: the credential READ lacks the right 'write', which OpenPublisher "
         "needs.",
         "READ"},
        {"CreateQueue", "{'QueueName':'x'}",
         "AccessDeniedException: Access is denied: CreateQueue is for credentials of namespace 000000000000 only; "
         "OTHER is one of namespace 111111111111.",
         "OTHER"},
        {"SendMessage", "{'QueueUrl':'a','MessageBody':'m'}",
         "AccessDeniedException: Access is denied: namespace 111111111111 has no queue 'a', and no policy of a queue "
         "of that name lets it call SendMessage.",
         "OTHER"},
        {"GetQueueUrl", "{'QueueName':'a'}",
         "AccessDeniedException: Access is denied: namespace 111111111111 has no queue 'a', and no policy of a queue "
         "of that name lets it call GetQueueUrl.",
         "OTHER"},
        {"GetQueueUrl", "{'QueueName':'none'}",
         "AccessDeniedException: Access is denied: namespace 111111111111 has no queue 'none', and no policy of a "
         "queue of that name lets it call GetQueueUrl.",
         "OTHER"},
        {"AddPermission", "{'QueueUrl':'a','Label':'l','AWSAccountIds':['111111111111'],'Actions':['SendMessage']}", "",
         "OPS"},
        {"SendMessage", "{'QueueUrl':'a','MessageBody':'m'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<4>'}", "OTHER"},
        {"ReceiveMessage", "{'QueueUrl':'a'}",
         "AccessDeniedException: Access is denied: namespace 111111111111 has no queue 'a', and no policy of a queue "
         "of that name lets it call ReceiveMessage.",
         "OTHER"},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'b'}}"
         "}",
         "AccessDeniedException: Access is denied: Tally.Batch is for credentials of namespace 000000000000 only.",
         "OTHER"},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:b'}}}",
         "AccessDeniedException: Access is denied: Tally.After is for credentials of namespace 000000000000 only.",
         "OTHER"},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.Type':{'DataType':'String','StringValue':'t'}}"
         "}",
         "AccessDeniedException: Access is denied: Tally.Type is for credentials of namespace 000000000000 only.",
         "OTHER"},
        {"SendMessageBatch",
         "{'QueueUrl':'a','Entries':[{'Id':'1','MessageBody':'x'},{'Id':'2','MessageBody':'y','MessageAttributes':{'"
         "Tally.Batch':{'DataType':'String','StringValue':'b'}}}]}",
         "{'Successful':[{'Id':'1','MD5OfMessageBody':'9dd4e461268c8034f5c8564e155c67a6','MessageId':'<5>'}],'Failed':["
         "{'Id':'2','SenderFault':true,'Code':'AccessDenied','Message':'Access is denied: Tally.Batch is for "
         "credentials of namespace 000000000000 only.'}]}",
         "OTHER"},
        {"Tally.PauseQueue", "{'QueueUrl':'a'}",
         "AccessDeniedException: Access is denied: PauseQueue is for credentials of namespace 000000000000 only; OTHER "
         "is one of namespace 111111111111.",
         "OTHER"},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void a_confined_credential_sees_batches_of_its_queues_only(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'a1'}", "{'QueueUrl':'http://localhost/000000000000/a1'}", "OPS"},
        {"CreateQueue", "{'QueueName':'a2'}", "{'QueueUrl':'http://localhost/000000000000/a2'}", "OPS"},
        {"CreateQueue", "{'QueueName':'b1'}", "{'QueueUrl':'http://localhost/000000000000/b1'}", "OPS"},
        {"ListQueues", "{}", "{'QueueUrls':['http://localhost/000000000000/a1','http://localhost/000000000000/a2']}",
         "CONF"},
        {"SendMessage", "{'QueueUrl':'b1','MessageBody':'m'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"SendMessage", "{'QueueUrl':'none','MessageBody':'m'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'none'.", "CONF"},
        {"CreateQueue", "{'QueueName':'a3'}", "{'QueueUrl':'http://localhost/000000000000/a3'}", "CONF"},
        {"CreateQueue", "{'QueueName':'b3'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b3'.", "CONF"},
        {"Tally.ListTypeOrders", "{}",
         "AccessDeniedException: Access is denied: the credential CONF covers some queues only (queues=), and "
         "ListTypeOrders may concern all of them.",
         "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'whole'}", "{'BatchId':'whole','State':'open'}", "OPS"},
        {"Tally.CreateBatch",
         "{'BatchId':'ab','OnComplete':{'QueueUrl':'a1','MessageBody':'c'},'OnSuccess':{'QueueUrl':'b1'}}",
         "{'BatchId':'ab','State':'open'}", "OPS"},
        {"Tally.CreateBatch", "{'BatchId':'mine','OnFirstFailure':{'QueueUrl':'a1'}}",
         "{'BatchId':'mine','State':'open'}", "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'mine','OnFirstFailure':{'QueueUrl':'a1'}}",
         "{'BatchId':'mine','State':'open'}", "CONF"},
        {"Tally.DescribeBatch", "{'BatchId':'whole'}",
         "BatchDoesNotExist: There is no batch 'whole' within the queues of this credential.", "CONF"},
        {"Tally.DescribeBatch", "{'BatchId':'ab'}",
         "BatchDoesNotExist: There is no batch 'ab' within the queues of this credential.", "CONF"},
        {"Tally.DescribeBatch", "{'BatchId':'mine'}",
         "{'BatchId':'mine','State':'open','Total':0,'Succeeded':0,'Failed':0,'Cancelled':0,'Remaining':0,'CreatedAt':"
         "1700000000.0," MINE "}",
         "CONF"},
        {"Tally.ListBatches", "{}",
         "{'Batches':[{'BatchId':'mine','State':'open','Total':0,'Succeeded':0,'Failed':0,'Cancelled':0,'Remaining':0,'"
         "CreatedAt':1700000000.0," MINE "}]}",
         "CONF"},
        {"Tally.ListBatches", "{'MaxResults':2}",
         "{'Batches':[{'BatchId':'mine','State':'open','Total':0,'Succeeded':0,'Failed':0,'Cancelled':0,'Remaining':0,'"
         "CreatedAt':1700000000.0," MINE "}]}",
         "CONF"},
        {"Tally.AddUnits", "{'BatchId':'ab','Units':['u']}",
         "BatchDoesNotExist: There is no batch 'ab' within the queues of this credential.", "CONF"},
        {"Tally.SealBatch", "{'BatchId':'whole'}",
         "BatchDoesNotExist: There is no batch 'whole' within the queues of this credential.", "CONF"},
        {"Tally.CompleteUnits", "{'BatchId':'whole','Units':[{'Unit':'u','Status':'failed'}]}",
         "BatchDoesNotExist: There is no batch 'whole' within the queues of this credential.", "CONF"},
        {"Tally.CreateBatch", "{}",
         "AccessDeniedException: Access is denied: a batch without a target is no queue's, and the credential CONF "
         "covers some queues only (queues=). Give it OnComplete, OnSuccess or OnFirstFailure.",
         "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'n','OnComplete':{'QueueUrl':'b1','MessageBody':'c'}}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'n','Parent':'ab','OnComplete':{'QueueUrl':'a1','MessageBody':'c'}}",
         "BatchDoesNotExist: Parent: there is no batch 'ab' within the queues of this credential.", "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'n','Parent':'none','OnComplete':{'QueueUrl':'a1','MessageBody':'c'}}",
         "BatchDoesNotExist: Parent: there is no batch 'none' within the queues of this credential.", "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'n','Parent':'none','OnComplete':{'QueueUrl':'a1','MessageBody':'c'}}",
         "BatchDoesNotExist: Parent: there is no batch 'none'.", "OPS"},
        {"Tally.CreateBatch", "{'BatchId':'n','Parent':'mine','OnSuccess':{'QueueUrl':'a2'}}",
         "{'BatchId':'n','State':'open'}", "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'ab','OnComplete':{'QueueUrl':'a1','MessageBody':'c'}}",
         "BatchAlreadyExists: Batch 'ab' exists and was created with other arguments.", "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'big','OnComplete':{'QueueUrl':'a1','MessageBody':'c'},'Total':0}",
         "{'BatchId':'big','State':'completed'}", "OPS"},
        {"Tally.CreateBatch", "{'BatchId':'big.1','Parent':'big','OnComplete':{'QueueUrl':'a1','MessageBody':'c'}}",
         "BatchSealed: Parent: batch 'big' has completed (succeeded): nothing can join it any more.", "OPS"},
        {"Tally.CreateBatch", "{'BatchId':'one','OnComplete':{'QueueUrl':'a1','MessageBody':'c'},'Total':1}",
         "{'BatchId':'one','State':'open'}", "OPS"},
        {"SendMessage",
         "{'QueueUrl':'b1','MessageBody':'m','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'"
         "one'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "b119abf5b5988bbe2de33dc2e350c845','MessageId':'<1>'}",
         "OPS"},
        {"Tally.DescribeBatch", "{'BatchId':'one'}",
         "BatchDoesNotExist: There is no batch 'one' within the queues of this credential.", "CONF"},
        {"Tally.CreateBatch", "{'BatchId':'one.1','Parent':'one'}",
         "BatchSealed: Parent: batch 'one' is sealed: no more units can join it. Only a unit of it that has not ended "
         "can add some, by a Commit that names it.",
         "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'ab'"
         "}}}",
         "BatchDoesNotExist: Tally.Batch: there is no batch 'ab' within the queues of this credential; create it "
         "first.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'"
         "none'}}}",
         "BatchDoesNotExist: Tally.Batch: there is no batch 'none' within the queues of this credential; create it "
         "first.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'"
         "mine'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "a4e54a43c22df1b27baffc900d080226','MessageId':'<2>'}",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'"
         "mine'},'Tally.After':{'DataType':'String','StringValue':'batch:mine'}}}",
         "DependencyCycle: The message would wait for itself: through something that it waits for.", "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'"
         "mine'},'Tally.After':{'DataType':'String','StringValue':'batch:mine'}}}",
         "DependencyCycle: The message would wait for itself: this message waits for batch mine, which waits for its "
         "unit this message.",
         "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:ab'}}}",
         "DependencyDoesNotExist: Tally.After: batch:ab is not known within the queues of this credential. A message "
         "that has ended is known by dedup:<queue name>/<MessageDeduplicationId> only.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:none'}}}",
         "DependencyDoesNotExist: Tally.After: batch:none is not known within the queues of this credential. A message "
         "that has ended is known by dedup:<queue name>/<MessageDeduplicationId> only.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:none'}}}",
         "DependencyDoesNotExist: Tally.After: batch:none is not known in this namespace.", "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:mine'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "985e48b4202278208afebcfe63e8bf00','MessageId':'<3>'}",
         "CONF"},
        {"SendMessage", "{'QueueUrl':'b1','MessageBody':'m'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<4>'}", "OPS"},
        {"SendMessage", "{'QueueUrl':'a2','MessageBody':'m'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<5>'}", "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "message:<4>'}}}",
         "DependencyDoesNotExist: Tally.After: message:00000000-0000-805f-8fe4-d61ff99e8394 is not known within the "
         "queues of this credential. A message that has ended is known by dedup:<queue name>/<MessageDeduplicationId> "
         "only.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "message:<5>'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "eb0b9e7556aa92fb03d16c0f4b2ed362','MessageId':'<6>'}",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "message:x'}}}",
         "DependencyDoesNotExist: Tally.After: message:x is not known within the queues of this credential. A message "
         "that has ended is known by dedup:<queue name>/<MessageDeduplicationId> only.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "message:<5>, batch:ab'}}}",
         "DependencyDoesNotExist: Tally.After: batch:ab is not known within the queues of this credential. A message "
         "that has ended is known by dedup:<queue name>/<MessageDeduplicationId> only.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "dedup:b1/x'}}}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "dedup:a2/x'}}}",
         "DependencyDoesNotExist: Tally.After: dedup:a2/x is not known in this namespace.", "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "odd:x'}}}",
         "InvalidParameterValueException: Value odd:x for parameter Tally.After is invalid. Reason: An item must be "
         "message:<MessageId>, batch:<BatchId> or dedup:<queue name>/<MessageDeduplicationId>.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.Type':{'DataType':'String','StringValue':'t'}}"
         "}",
         "AccessDeniedException: Access is denied: the credential CONF covers some queues only (queues=), and "
         "Tally.Type may concern all of them.",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.Priority':{'DataType':'String','StringValue':'"
         "007'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "cb915e1f5c04c575815f58d95a0fe539','MessageId':'<7>'}",
         "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.Priority':{'DataType':'String','StringValue':'"
         "10'}}}",
         "InvalidParameterValueException: Value 10 for parameter Tally.Priority is invalid. Reason: It must be an "
         "integer from 0 to 9.",
         "CONF"},
        {"Tally.PutSchedule", "{'Name':'a','Cron':'0 12 * * *','QueueUrl':'a1','MessageBody':'t'}",
         "{'Name':'a','NextAt':1700049600.0,'Paused':false}", "OPS"},
        {"Tally.PutSchedule", "{'Name':'b','Cron':'0 12 * * *','QueueUrl':'b1','MessageBody':'t'}",
         "{'Name':'b','NextAt':1700049600.0,'Paused':false}", "OPS"},
        {"Tally.ListSchedules", "{}",
         "{'Schedules':[{'Name':'a','NextAt':1700049600.0,'Paused':false,'Cron':'0 12 * * "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/a1','CatchUp':'one'}]}",
         "CONF"},
        {"Tally.DescribeSchedule", "{'Name':'b'}",
         "ScheduleDoesNotExist: There is no schedule 'b' within the queues of this credential.", "CONF"},
        {"Tally.PauseSchedule", "{'Name':'b'}",
         "ScheduleDoesNotExist: There is no schedule 'b' within the queues of this credential.", "CONF"},
        {"Tally.FireSchedule", "{'Name':'b'}",
         "ScheduleDoesNotExist: There is no schedule 'b' within the queues of this credential.", "CONF"},
        {"Tally.DeleteSchedule", "{'Name':'b'}",
         "ScheduleDoesNotExist: There is no schedule 'b' within the queues of this credential.", "CONF"},
        {"Tally.PauseSchedule", "{'Name':'a'}", "{'Name':'a','Paused':true}", "CONF"},
        {"Tally.PutSchedule", "{'Name':'b','Cron':'0 12 * * *','QueueUrl':'a1','MessageBody':'t'}",
         "AccessDeniedException: Access is denied: there is a schedule 'b' that sends to a queue which the credential "
         "CONF does not cover. Choose another name.",
         "CONF"},
        {"Tally.PutSchedule", "{'Name':'c','Cron':'0 12 * * *','QueueUrl':'b1','MessageBody':'t'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"DeleteQueue", "{'QueueUrl':'a2'}",
         "QueueInUse: 1 targets of batches that have not completed, schedules and pools send messages to this queue; "
         "complete or cancel those batches and delete those schedules and pools first.",
         "CONF"},
        {"Tally.DescribeBatch", "{'BatchId':'n'}",
         "{'BatchId':'n','State':'open','Total':0,'Succeeded':0,'Failed':0,'Cancelled':0,'Remaining':0,'CreatedAt':"
         "1700000000.0,'Tracking':'exact','Parent':'mine','OnSuccess':{'QueueUrl':"
         "'http://localhost/000000000000/a2'},'ExpiresAt':1701209600.0}",
         "CONF"},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void a_confined_credential_learns_only_what_kind_of_thing_a_message_waits_for(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'a-dead'}", "{'QueueUrl':'http://localhost/000000000000/a-dead'}", "OPS"},
        {"CreateQueue", "{'QueueName':'b-dead'}", "{'QueueUrl':'http://localhost/000000000000/b-dead'}", "OPS"},
        {"CreateQueue",
         "{'QueueName':'a1','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:"
         "000000000000:b-dead\\',\\'maxReceiveCount\\':3}'}}",
         "{'QueueUrl':'http://localhost/000000000000/a1'}", "OPS"},
        {"CreateQueue",
         "{'QueueName':'b1','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:"
         "000000000000:a-dead\\',\\'maxReceiveCount\\':1}'}}",
         "{'QueueUrl':'http://localhost/000000000000/b1'}", "OPS"},
        {"CreateQueue",
         "{'QueueName':'a2','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:"
         "000000000000:a-dead\\',\\'maxReceiveCount\\':3}'}}",
         "{'QueueUrl':'http://localhost/000000000000/a2'}", "OPS"},
        {"Tally.CreateBatch", "{'BatchId':'ab','OnComplete':{'QueueUrl':'b1','MessageBody':'c'}}",
         "{'BatchId':'ab','State':'open'}", "OPS"},
        {"Tally.CreateBatch", "{'BatchId':'mine','OnComplete':{'QueueUrl':'a1','MessageBody':'c'}}",
         "{'BatchId':'mine','State':'open'}", "OPS"},
        {"Tally.AddUnits", "{'BatchId':'mine','Count':2}", "{'Added':2,'Total':2}", "OPS"},
        {"SendMessage", "{'QueueUrl':'b1','MessageBody':'m'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<1>'}", "OPS"},
        {"SendMessage", "{'QueueUrl':'a2','MessageBody':'m'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<2>'}", "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:ab'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "6189df799ed9d6bd30c89b6432481322','MessageId':'<3>'}",
         "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:mine'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "985e48b4202278208afebcfe63e8bf00','MessageId':'<4>'}",
         "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "message:<1>'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "adaa879a87e0486611c0f2ba9b544057','MessageId':'<5>'}",
         "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "message:<2>'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "b13fb0e2edb36cc12e96b44a5bf7d499','MessageId':'<6>'}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<3>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits for something that this credential may not see: "
         "it has ended, or it has to do with queues that the credential does not cover.'}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<3>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits for batch 'ab', which has not "
         "completed.','BatchId':'ab','Since':1700000000.0,'Remaining':0}]}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<4>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits for batch 'mine' (2 units "
         "outstanding).','BatchId':'mine','Since':1700000000.0,'Remaining':2}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<4>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits for batch 'mine' (2 units "
         "outstanding).','BatchId':'mine','Since':1700000000.0,'Remaining':2}]}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<5>'}",
         "{'State':'blocked','Why':[{'Code':'Message','Text':'It waits for something that this credential may not see: "
         "it has ended, or it has to do with queues that the credential does not cover.'}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<5>'}",
         "{'State':'blocked','Why':[{'Code':'Message','Text':'It waits for message "
         "<1> in queue b1, which is ready.','MessageId':'<1>','Since':1700000000.0,'QueueName':'b1'}]}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<6>'}",
         "{'State':'blocked','Why':[{'Code':'Message','Text':'It waits for message "
         "<2> in queue a2, which is ready.','MessageId':'<2>','Since':1700000000.0,'QueueName':'a2'}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<6>'}",
         "{'State':'blocked','Why':[{'Code':'Message','Text':'It waits for message "
         "<2> in queue a2, which is ready.','MessageId':'<2>','Since':1700000000.0,'QueueName':'a2'}]}",
         "OPS"},
        {"Tally.PutTypeOrder", "{'Name':'o','Types':['x','y']}", "{'Name':'o','Types':['x','y'],'Require':false}",
         "OPS"},
        {"Tally.PutTypeOrder", "{'Name':'r','Types':['v','w'],'Require':true}",
         "{'Name':'r','Types':['v','w'],'Require':true,'RetentionSeconds':1209600}", "OPS"},
        {"SendMessage",
         "{'QueueUrl':'b1','MessageBody':'m','MessageGroupId':'t','MessageAttributes':{'Tally.Type':{'DataType':'"
         "String','StringValue':'x'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "458f2f8c74436cf51c32741a0bc5dc3d','MessageId':'<7>'}",
         "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a2','MessageBody':'m','MessageGroupId':'t','MessageAttributes':{'Tally.Type':{'DataType':'"
         "String','StringValue':'y'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "ac224ec522e5f0335f90ff166e2be241','MessageId':'<8>'}",
         "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a2','MessageBody':'m','MessageGroupId':'t','MessageAttributes':{'Tally.Type':{'DataType':'"
         "String','StringValue':'w'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "c6766202ac037536f3bfc392a8ec74d6','MessageId':'<9>'}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a2','MessageId':'<8>'}",
         "{'State':'blocked','Why':[{'Code':'TypeOrder','Text':'It waits for something that this credential may not "
         "see: it has ended, or it has to do with queues that the credential does not cover.'}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a2','MessageId':'<8>'}",
         "{'State':'blocked','Why':[{'Code':'TypeOrder','Text':'It waits for message <7> of type 'x', which a type "
         "order puts first.','MessageId':'<7>','Type':'x','Since':1700000000.0}]}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a2','MessageId':'<9>'}",
         "{'State':'blocked','Why':[{'Code':'TypeRequired','Text':'It waits for something that this credential may not "
         "see: it has ended, or it has to do with queues that the credential does not cover.'}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a2','MessageId':'<9>'}",
         "{'State':'blocked','Why':[{'Code':'TypeRequired','Text':'It waits until a message of type 'v' has succeeded, "
         "as a type order requires.','Type':'v','Since':1700000000.0}]}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'b1','MessageId':'<1>'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "message:<1>'},'Tally.AfterFailure':{'DataType':'String','StringValue':'hold'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "d9f1caa83c092b60051ef9e35fb29eaf','MessageId':'<10>'}",
         "OPS"},
        {"SendMessage",
         "{'QueueUrl':'a1','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:ab'},'Tally.AfterFailure':{'DataType':'String','StringValue':'hold'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "ba7e8d5f3e5590f004b8db72473f4c9b','MessageId':'<11>'}",
         "OPS"},
        {"ReceiveMessage", "{'QueueUrl':'b1','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<12>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body':"
         "'m'}]}",
         "OPS"},
        {"Tally.FailMessage", "{'QueueUrl':'b1','ReceiptHandle':'<12>','Reason':'bad'}",
         "{'Outcome':'dead-lettered','Attempt':1,'MaxAttempts':1,'QueueName':'a-dead'}", "OPS"},
        {"Tally.CancelBatch", "{'BatchId':'ab'}",
         "{'BatchId':'ab','State':'completed','Status':'cancelled','Total':0,'Succeeded':0,'Failed':0,'Cancelled':0,'"
         "Remaining':0,'CreatedAt':1700000000.0,'CompletedAt':1700000000.0,'CompletionMessageId':'<13>','Tracking':'"
         "exact','OnComplete':{'QueueUrl':'http://localhost/000000000000/b1'}}",
         "OPS"},
        {NULL, "0", "", NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<10>'}",
         "{'State':'held','Why':[{'Code':'AntecedentFailed','Text':'It is held because message <1> "
         "failed.','MessageId':'<1>','Outcome':'failed'}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<10>'}",
         "{'State':'held','Why':[{'Code':'AntecedentFailed','Text':'It is held because message <1> "
         "failed.','MessageId':'<1>','Outcome':'failed'}]}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<11>'}",
         "{'State':'held','Why':[{'Code':'AntecedentFailed','Text':'It waits for something that this credential may "
         "not see: it has ended, or it has to do with queues that the credential does not cover.'}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<11>'}",
         "{'State':'held','Why':[{'Code':'AntecedentFailed','Text':'It is held because batch 'ab' was "
         "cancelled.','BatchId':'ab','Outcome':'cancelled','Since':1700000000.0}]}",
         "OPS"},
        {"Tally.ListDependents", "{'MessageId':'<1>'}",
         "{'Dependents':[{'MessageId':'<10>','QueueUrl':'http://localhost/000000000000/a1','State':'held'}]}", "CONF"},
        {"Tally.ListDependents", "{'MessageId':'<1>'}", "{'Dependents':[]}", "BETA"},
        {"Tally.ListDependents", "{'BatchId':'ab'}",
         "{'Dependents':[{'MessageId':'<11>','QueueUrl':'http://localhost/000000000000/a1','State':'held'}]}", "OPS"},
        {"Tally.ListDependents", "{'BatchId':'ab'}",
         "BatchDoesNotExist: There is no batch 'ab' within the queues of this credential.", "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<3>'}", "{'State':'unknown','Why':[]}", "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'b1','MessageId':'<1>'}",
         "{'State':'ended','Why':[{'Code':'OtherQueue','Text':'It was returned 1 time, last failure: bad; it was "
         "dead-lettered and is in queue a-dead now.','QueueName':'a-dead','Reason':'bad','Count':1}]}",
         "OPS"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a-dead','MessageId':'<1>'}",
         "{'State':'ready','Why':[{'Code':'Returned','Text':'It was returned 1 time, last failure: "
         "bad.','Reason':'bad','Count':1}]}",
         "CONF"},
        {"ReceiveMessage",
         "{'QueueUrl':'a-dead','MaxNumberOfMessages':1,'VisibilityTimeout':0,'AttributeNames':['"
         "DeadLetterQueueSourceArn']}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<14>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body':"
         "'m'}]}",
         "CONF"},
        {"ReceiveMessage",
         "{'QueueUrl':'a-dead','MaxNumberOfMessages':1,'VisibilityTimeout':0,'AttributeNames':['"
         "DeadLetterQueueSourceArn']}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<15>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body':"
         "'m','Attributes':{'DeadLetterQueueSourceArn':'arn:aws:sqs:us-east-1:000000000000:b1'}}]}",
         "OPS"},
        {"ListDeadLetterSourceQueues", "{'QueueUrl':'a-dead'}", "{'queueUrls':['http://localhost/000000000000/a2']}",
         "CONF"},
        {"ListDeadLetterSourceQueues", "{'QueueUrl':'a-dead'}",
         "{'queueUrls':['http://localhost/000000000000/a2','http://localhost/000000000000/b1']}", "OPS"},
        {"GetQueueAttributes", "{'QueueUrl':'a1','AttributeNames':['RedrivePolicy']}",
         "{'Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:b-dead\\',"
         "\\'maxReceiveCount\\':3}'}}",
         "CONF"},
        {"SetQueueAttributes",
         "{'QueueUrl':'a2','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:"
         "000000000000:b-dead\\',\\'maxReceiveCount\\':1}'}}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b-dead'.", "CONF"},
        {"StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:a-dead'}",
         "AccessDeniedException: Access is denied: some messages of this queue came from queues that the credential "
         "CONF does not cover. Give a DestinationArn that it covers.",
         "CONF"},
        {"StartMessageMoveTask",
         "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:a-dead','DestinationArn':'arn:aws:sqs:us-east-1:"
         "000000000000:b1'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:b-dead'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b-dead'.", "CONF"},
        {"StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs:us-east-1:111111111111:b-dead'}",
         "ResourceNotFoundException: The resource that you specified for the SourceArn parameter doesn't exist.",
         "OPS"},
        {"StartMessageMoveTask", "{'SourceArn':'arn:aws:sns:us-east-1:000000000000:a-dead'}",
         "ResourceNotFoundException: The resource that you specified for the SourceArn parameter doesn't exist.",
         "OPS"},
        {"StartMessageMoveTask", "{'SourceArn':'aws:arn:sqs:us-east-1:000000000000:a-dead'}",
         "InvalidParameterValueException: You must use this format to specify the SourceArn: "
         "arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
         "OPS"},
        {"StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:'}",
         "InvalidParameterValueException: You must use this format to specify the SourceArn: "
         "arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
         "OPS"},
        {"StartMessageMoveTask",
         "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:a-dead','DestinationArn':'arn:aws:sqs:us-east-1:"
         "000000000000:b1'}",
         "{'TaskHandle':'"
         "eyJ0YXNrSWQiOiIwMzUwZjc3ZS0wNmVlLThiYmItOTU4Mi03YmE5NDBmMTI5MWEiLCJzb3VyY2VBcm4iOiJhcm46YXdzOnNxczp1cy1lYXN0L"
         "TE6MDAwMDAwMDAwMDAwOmEtZGVhZCJ9'}",
         "OPS"},
        {"ListMessageMoveTasks", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:a-dead'}",
         "{'Results':[{'TaskHandle':'"
         "eyJ0YXNrSWQiOiIwMzUwZjc3ZS0wNmVlLThiYmItOTU4Mi03YmE5NDBmMTI5MWEiLCJzb3VyY2VBcm4iOiJhcm46YXdzOnNxczp1cy1lYXN0L"
         "TE6MDAwMDAwMDAwMDAwOmEtZGVhZCJ9','Status':'RUNNING','SourceArn':'arn:aws:sqs:us-east-1:000000000000:a-dead','"
         "ApproximateNumberOfMessagesMoved':0,'ApproximateNumberOfMessagesToMove':1,'StartedTimestamp':1700000000000}]"
         "}",
         "CONF"},
        {"ListMessageMoveTasks", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:a-dead'}",
         "{'Results':[{'TaskHandle':'"
         "eyJ0YXNrSWQiOiIwMzUwZjc3ZS0wNmVlLThiYmItOTU4Mi03YmE5NDBmMTI5MWEiLCJzb3VyY2VBcm4iOiJhcm46YXdzOnNxczp1cy1lYXN0L"
         "TE6MDAwMDAwMDAwMDAwOmEtZGVhZCJ9','Status':'RUNNING','SourceArn':'arn:aws:sqs:us-east-1:000000000000:a-dead','"
         "DestinationArn':'arn:aws:sqs:us-east-1:000000000000:b1','ApproximateNumberOfMessagesMoved':0,'"
         "ApproximateNumberOfMessagesToMove':1,'StartedTimestamp':1700000000000}]}",
         "OPS"},
        {"SendMessage", "{'QueueUrl':'a1','MessageBody':'m'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<16>'}", "OPS"},
        {"ReceiveMessage", "{'QueueUrl':'a1','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<16>','ReceiptHandle':'<17>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body'"
         ":'m'}]}",
         "CONF"},
        {"Tally.FailMessage", "{'QueueUrl':'a1','ReceiptHandle':'<17>','DeadLetterQueueUrl':'b-dead'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b-dead'.", "CONF"},
        {"Tally.FailMessage", "{'QueueUrl':'a1','ReceiptHandle':'<17>'}",
         "{'Outcome':'returned','Attempt':1,'MaxAttempts':3,'RetryAfterSeconds':0.0}", "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<16>'}",
         "{'State':'ready','Why':[{'Code':'Returned','Text':'It was returned 1 time.','Count':1}]}", "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<16>'}",
         "{'State':'ready','Why':[{'Code':'Returned','Text':'It was returned 1 time.','Count':1}]}", "OPS"},
        {"ReceiveMessage", "{'QueueUrl':'a1','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<16>','ReceiptHandle':'<18>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body'"
         ":'m'}]}",
         "CONF"},
        {"Tally.FailMessage", "{'QueueUrl':'a1','ReceiptHandle':'<18>','Final':true}",
         "{'Outcome':'dead-lettered','Attempt':2,'MaxAttempts':3}", "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<16>'}",
         "{'State':'ended','Why':[{'Code':'OtherQueue','Text':'It was dead-lettered and is in a queue that this "
         "credential does not cover.'}]}",
         "CONF"},
        {"Tally.ExplainMessage", "{'QueueUrl':'a1','MessageId':'<16>'}",
         "{'State':'ended','Why':[{'Code':'OtherQueue','Text':'It was returned 2 times; it was dead-lettered and is in "
         "queue b-dead now.','QueueName':'b-dead','Count':2}]}",
         "OPS"},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void a_confined_credential_publishes_what_is_its_own(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'a1'}", "{'QueueUrl':'http://localhost/000000000000/a1'}", "OPS"},
        {"CreateQueue", "{'QueueName':'b1'}", "{'QueueUrl':'http://localhost/000000000000/b1'}", "OPS"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':4611686018427387905,'Owner':'aaaa0000-0000-4000-"
         "8000-000000000001'}",
         "InvalidParameterValueException: Epoch 4611686018427387905 is 4611686018427387905 above the one known, 0; the "
         "limit is 4611686018427387904, because an epoch too high would fence the publisher for ever. Only a "
         "credential with the right 'admin' and without queues= may go further.",
         "CONF"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000002','Epoch':4611686018427387904,'Owner':'aaaa0000-0000-4000-"
         "8000-000000000001'}",
         "{'Accepted':true,'Epoch':4611686018427387904,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "WRITE"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000003','Epoch':4611686018427387905,'Owner':'aaaa0000-0000-4000-"
         "8000-000000000001'}",
         "{'Accepted':true,'Epoch':4611686018427387905,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "OPS"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000004','Epoch':4611686018427387905,'Owner':'aaaa0000-0000-4000-"
         "8000-000000000001'}",
         "{'Accepted':true,'Epoch':4611686018427387905,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "ADMINALL"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':5,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "{'Accepted':true,'Epoch':5,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "CONF"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':6,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "AccessDeniedException: Access is denied: the credential BETA does not cover all queues of this publisher, or "
         "did not open it first.",
         "BETA"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':6,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "{'Accepted':true,'Epoch':6,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "CONF2"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':6,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "{'Accepted':true,'Epoch':6,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "OPS"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':6,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'a1','"
         "MessageBody':'a'},{'Id':2,'Uid':'00000000-0000-4000-8000-000000000002','QueueUrl':'b1','MessageBody':'a'},{'"
         "Id':3,'Uid':'00000000-0000-4000-8000-000000000003','QueueUrl':'none','MessageBody':'a'}]}",
         "AccessDeniedException: Access is denied: the credential BETA does not cover all queues of this publisher, or "
         "did not open it first.",
         "BETA"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':6,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'a1','"
         "MessageBody':'a'},{'Id':2,'Uid':'00000000-0000-4000-8000-000000000002','QueueUrl':'b1','MessageBody':'a'},{'"
         "Id':3,'Uid':'00000000-0000-4000-8000-000000000003','QueueUrl':'none','MessageBody':'a'}]}",
         "{'Results':[{'Id':2,'Status':'blocked','Code':'AccessDenied','Message':'Access is denied: the credential "
         "CONF does not cover the queue 'b1'.'},{'Id':3,'Status':'blocked','Code':'AccessDenied','Message':'Access is "
         "denied: the credential CONF does not cover the queue 'none'.'}],'Stored':1}",
         "CONF"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':1048583,'Owner':'aaaa0000-0000-4000-8000-"
         "000000000001'}",
         "InvalidParameterValueException: Epoch 1048583 is 1048577 above the one known, 6; the limit is 1048576, "
         "because an epoch too high would fence the publisher for ever. Only a credential with the right 'admin' and "
         "without queues= may go further.",
         "CONF"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':1048582,'Owner':'aaaa0000-0000-4000-8000-"
         "000000000001'}",
         "{'Accepted':true,'Epoch':1048582,'Owner':'<1>','LastBatch':1,'Unconfirmed':[{'Id':1,'Uid':'<2>'}]}", "CONF"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':2097161,'Owner':'aaaa0000-0000-4000-8000-"
         "000000000001'}",
         "{'Accepted':true,'Epoch':2097161,'Owner':'<1>','LastBatch':1,'Unconfirmed':[{'Id':1,'Uid':'<2>'}]}", "OPS"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':2097161,'Owner':'aaaa0000-0000-4000-8000-"
         "000000000001'}",
         "AccessDeniedException: Access is denied: the credential BETA does not cover all queues of this publisher, or "
         "did not open it first.",
         "BETA"},
        {"ReceiveMessage", "{'QueueUrl':'a1','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<3>','ReceiptHandle':'<4>','MD5OfBody':'0cc175b9c0f1b6a831c399e269772661','Body':'"
         "a'}]}",
         "OPS"},
        {"SendMessage", "{'QueueUrl':'b1','MessageBody':'m'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<5>'}", "OPS"},
        {"ReceiveMessage", "{'QueueUrl':'b1','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<5>','ReceiptHandle':'<6>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body':'"
         "m'}]}",
         "OPS"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "{'Accepted':true,'Epoch':1,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':4,'Uid':'00000000-0000-4000-8000-000000000004','ReceiptHandle':'<"
         "6>'},{'Id':5,'Uid':'00000000-0000-4000-8000-000000000005','ReceiptHandle':'<4>'},{'Id':6,'Uid':'00000000-"
         "0000-4000-8000-000000000006','ReceiptHandle':'x'}]}",
         "{'Results':[{'Id':4,'Status':'blocked','Code':'AccessDenied','Message':'Access is denied: the credential "
         "CONF does not cover the queue of this receipt "
         "handle.'},{'Id':6,'Status':'refused','Code':'ReceiptHandleIsInvalid','Message':'The input receipt handle "
         "\\'x\\' is not a valid receipt handle.'}],'Stored':1}",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':2,'ConfirmedBatch':0,'Refused':'block','Rows':[{'Id':7,'Uid':'00000000-0000-4000-8000-000000000007','"
         "QueueUrl':'a1','MessageBody':'a'},{'Id':8,'Uid':'00000000-0000-4000-8000-000000000008','MessageBody':'a'}]}",
         "{'Results':[{'Id':8,'Status':'refused','Code':'MissingParameter','Message':'The request must contain the "
         "parameter QueueUrl.'}],'Stored':1}",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':2,'ConfirmedBatch':0,'Rows':[{'Id':9,'Uid':'00000000-0000-4000-8000-000000000009','QueueUrl':'a1','"
         "MessageBody':'a'}]}",
         "PublisherBatchConflict: Batch 2 has been published with other rows. Nothing was done.", "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':4,'ConfirmedBatch':0,'Rows':[{'Id':9,'Uid':'00000000-0000-4000-8000-000000000009','QueueUrl':'a1','"
         "MessageBody':'a'}]}",
         "PublisherBatchOutOfOrder: Batch is 4; the last one was 2, so it must be that one again or 3. Nothing was "
         "done.",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':2,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':3,'ConfirmedBatch':0,'Rows':[{'Id':9,'Uid':'00000000-0000-4000-8000-000000000009','QueueUrl':'a1','"
         "MessageBody':'a'}]}",
         "PublisherFenced: The publisher belongs to owner aaaa0000-0000-4000-8000-000000000001 with epoch 1; this "
         "Publish comes from another one, with epoch 2.",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000006','Epoch':2,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':3,'ConfirmedBatch':0,'Rows':[{'Id':9,'Uid':'00000000-0000-4000-8000-000000000009','QueueUrl':'a1','"
         "MessageBody':'a'}]}",
         "PublisherFenced: This publisher was never opened; call OpenPublisher first.", "OPS"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':3,'ConfirmedBatch':0,'Rows':[]}",
         "EmptyBatchRequest: Rows must hold at least one row.", "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':3,'ConfirmedBatch':0,'Rows':[7]}",
         "SerializationException: Rows[0]: It is not an object.", "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':3,'ConfirmedBatch':0,'Rows':[{'Id':0,'Uid':'x'}]}",
         "InvalidParameterValueException: Rows[0]: Value 0 for parameter Id is invalid. Reason: It must be an integer "
         "from 1 to 9223372036854775807.",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':3,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'x'}]}",
         "InvalidParameterValueException: Rows[0]: Value x for parameter Uid is invalid. Reason: It must be a UUID, "
         "such as 01234567-89ab-4def-8123-456789abcdef.",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':3,'ConfirmedBatch':0,'Order':'odd','Rows':[{'Id':9,'Uid':'00000000-0000-4000-8000-000000000009','"
         "QueueUrl':'a1','MessageBody':'a'}]}",
         "InvalidParameterValueException: Value odd for parameter Order is invalid. Reason: It must be group or "
         "strict.",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000005','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':3,'ConfirmedBatch':0,'Refused':'odd','Rows':[{'Id':9,'Uid':'00000000-0000-4000-8000-000000000009','"
         "QueueUrl':'a1','MessageBody':'a'}]}",
         "InvalidParameterValueException: Value odd for parameter Refused is invalid. Reason: It must be park or "
         "block.",
         "CONF"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000006','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "{'Accepted':true,'Epoch':1,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "CONF"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000007','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "{'Accepted':true,'Epoch':1,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}", "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000006','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'b1','"
         "MessageBody':'a'}]}",
         "{'Results':[],'Stored':1}", "OPS"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000006','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover all queues of this publisher, or "
         "did not open it first.",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000006','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'b1','"
         "MessageBody':'a'}]}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover all queues of this publisher, or "
         "did not open it first.",
         "CONF"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000007','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'a1','"
         "MessageBody':'a'}]}",
         "{'Results':[],'Stored':1}", "OPS"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000007','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "AccessDeniedException: Access is denied: the credential BETA does not cover all queues of this publisher, or "
         "did not open it first.",
         "BETA"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000007','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':2,'ConfirmedBatch':0,'Rows':[{'Id':2,'Uid':'00000000-0000-4000-8000-000000000002','QueueUrl':'a1','"
         "MessageBody':'a'}]}",
         "{'Results':[],'Stored':1}", "CONF"},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void a_confined_credential_reaches_pools_of_its_queues(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'a1'}", "{'QueueUrl':'http://localhost/000000000000/a1'}", "OPS"},
        {"CreateQueue", "{'QueueName':'a2'}", "{'QueueUrl':'http://localhost/000000000000/a2'}", "OPS"},
        {"CreateQueue", "{'QueueName':'b1'}", "{'QueueUrl':'http://localhost/000000000000/b1'}", "OPS"},
        {"Tally.CreatePool",
         "{'PoolName':'a','ResultQueueUrl':'a1','OnExpiryQueueUrl':'a2','Attributes':{'m':'num'},'Rules':[{'type':'"
         "near','attr':'m','max':3}]}",
         "{'PoolName':'a','RulesVersion':1}", "CONF"},
        {"Tally.CreatePool", "{'PoolName':'ab','ResultQueueUrl':'a1','OnExpiryQueueUrl':'b1'}",
         "{'PoolName':'ab','RulesVersion':1,'Warnings':['The rules name no attribute to search by (equal, pairs, near "
         "or share; of these only near with \\'missing\\': \\'any\\'): each look goes through all tickets.']}",
         "OPS"},
        {"Tally.CreatePool", "{'PoolName':'b','ResultQueueUrl':'b1'}",
         "{'PoolName':'b','RulesVersion':1,'Warnings':['The rules name no attribute to search by (equal, pairs, near "
         "or share; of these only near with \\'missing\\': \\'any\\'): each look goes through all tickets.']}",
         "OPS"},
        {"Tally.CreatePool", "{'PoolName':'n','ResultQueueUrl':'b1'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"Tally.CreatePool", "{'PoolName':'n','ResultQueueUrl':'a1','OnExpiryQueueUrl':'b1'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"Tally.CreatePool", "{'PoolName':'b','ResultQueueUrl':'a1'}",
         "PoolAlreadyExists: There is a pool 'b' with other arguments: change it with UpdatePool, or choose another "
         "name.",
         "CONF"},
        {"Tally.ListPools", "{}", "{'Pools':[{'PoolName':'a','Waiting':0,'RulesVersion':1}]}", "CONF"},
        {"Tally.ListPools", "{'MaxResults':1}", "{'Pools':[{'PoolName':'a','Waiting':0,'RulesVersion':1}]}", "CONF"},
        {"Tally.DescribePool", "{'PoolName':'ab'}",
         "PoolDoesNotExist: There is no pool 'ab' within the queues of this credential.", "CONF"},
        {"Tally.CountTickets", "{'PoolName':'b'}",
         "PoolDoesNotExist: There is no pool 'b' within the queues of this credential.", "CONF"},
        {"Tally.CountTickets", "{'PoolName':'a'}", "{'Tickets':0,'Weight':0}", "CONF"},
        {"Tally.UpdatePool", "{'PoolName':'a','OnExpiryQueueUrl':'b1'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"Tally.UpdatePool", "{'PoolName':'a','ResultQueueUrl':'b1'}",
         "AccessDeniedException: Access is denied: the credential CONF does not cover the queue 'b1'.", "CONF"},
        {"Tally.UpdatePool", "{'PoolName':'a','OnExpiryQueueUrl':'a1'}", "{'PoolName':'a','RulesVersion':1}", "CONF"},
        {"Tally.OfferTickets", "{'PoolName':'b','Tickets':[{'TicketId':'t'}]}",
         "PoolDoesNotExist: There is no pool 'b' within the queues of this credential.", "CONF"},
        {"Tally.OfferTickets", "{'PoolName':'a','Tickets':[{'TicketId':'t','Attributes':{'m':1}}]}",
         "{'Results':[{'TicketId':'t','Status':'waiting','Version':1,'AlreadyOffered':false}]}", "CONF"},
        {"Tally.OfferTickets", "{'PoolName':'a','Tickets':[{'TicketId':'u','Attributes':{'m':1}}]}",
         "AccessDeniedException: Access is denied: the credential READ lacks the right 'write', which OfferTickets "
         "needs.",
         "READ"},
        {"Tally.GetTicket", "{'PoolName':'a','TicketId':'t'}",
         "AccessDeniedException: Access is denied: the credential WRITE lacks the right 'read', which GetTicket needs.",
         "WRITE"},
        {"Tally.FeedTickets", "{'PoolName':'ab','From':0}",
         "PoolDoesNotExist: There is no pool 'ab' within the queues of this credential.", "CONF"},
        {"Tally.DeletePool", "{'PoolName':'ab'}",
         "PoolDoesNotExist: There is no pool 'ab' within the queues of this credential.", "CONF"},
        {"Tally.DeletePool", "{'PoolName':'a'}", "", "CONF"},
    };
    play(steps, ARRAY_LENGTH(steps));
}

/* --- walks of queues ---------------------------------------------------------------------------------------------- */

#define STRANGE_QUEUES 120u
#define PATTERNS_SIZE (100u * (PATTERN_SIZE_MAX + 1))

/* A world with queues that the credential LONG does not cover, between a-mine and z-mine, which it does. It has those
 * two patterns, and 98 as long as may be that begin with `begin` and fit nothing. */
static struct world *open_long(const char *begin, const char *mine, struct credentials **credentials)
{
    static char text[PATTERNS_SIZE + 100];
    char pattern[PATTERN_SIZE_MAX + 1], body[200], name[QUEUE_NAME_SIZE_MAX + 1];
    struct world *world = session_open();
    size_t size = (size_t)sprintf(text, "LONG secret-of-LONG 000000000000 read,write,admin queues=%s", mine);
    for (unsigned i = 0; i < 98; i++) {
        memset(pattern, 'x', PATTERN_SIZE_MAX);
        memcpy(pattern, begin, strlen(begin));
        pattern[PATTERN_SIZE_MAX - 1] = 'y';
        pattern[PATTERN_SIZE_MAX] = '\0';
        size += (size_t)sprintf(text + size, ",%s", pattern);
    }
    sqs_call(world, "CreateQueue", "{'QueueName':'a-mine'}");
    sqs_call(world, "CreateQueue", "{'QueueName':'z-mine'}");
    for (unsigned i = 0; i < STRANGE_QUEUES; i++) {
        sprintf(name, "q%03u-%.*s", i, (int)(60 + i % 16),
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
        sprintf(body, "{'QueueName':'%s'}", name);
        sqs_call(world, "CreateQueue", body);
    }
    strcpy(text + size, "\n");
    *credentials = signer_credentials(text);
    front_set_credentials(world->front, *credentials);
    return world;
}

static void close_long(struct world *world, struct credentials *credentials)
{
    front_set_credentials(world->front, NULL);
    sqs_close(world);
    credentials_destroy(credentials);
}

/* Asks for page after page; *pages: how many there were. Returns how many things they have. */
static size_t read_pages(struct world *world, const char *action, const char *body, const char *member, unsigned *pages)
{
    char token[300] = "", asked[400];
    size_t count = 0, token_size = 0;
    *pages = 0;
    do {
        yyjson_doc *doc;
        sprintf(asked, "{%s%s%s%s%s}", body, body[0] != '\0' && token[0] != '\0' ? "," : "",
                token[0] == '\0' ? "" : "'NextToken':'", token, token[0] == '\0' ? "" : "'");
        const struct answer answer = signer_call(world, "LONG", action, asked, &doc);
        assert_int_equal(answer.status, 200);
        count += yyjson_arr_size(yyjson_obj_get(answer.root, member));
        sprintf(token, "%s", answer_text(answer, "NextToken"));
        assert_true(token[0] == '\0' || token_size == 0 || strlen(token) == token_size);
        token_size = strlen(token);
        yyjson_doc_free(doc);
        assert_true(++*pages < 100);
    } while (token[0] != '\0');
    return count;
}

static const struct walk {
    const char *action, *body, *member;
    size_t count;
} walks[] = {
    {"ListQueues", "", "QueueUrls", 2},
    {"ListQueues", "'MaxResults':1000", "QueueUrls", 2},
    {"ListQueues", "'QueueNamePrefix':'z'", "QueueUrls", 1},
    {"Tally.ListQueueStats", "", "Queues", 2},
    {"Tally.ListQueueStats", "'SortBy':'age'", "Queues", 2},
    {"Tally.ListQueueStats", "'Having':'pause'", "Queues", 0},
    {"Tally.ListInFlight", "", "Messages", 0},
    {"Tally.FindMessage", "'Text':'nothing'", "Messages", 0},
};

static void a_walk_jumps_over_queues_that_no_pattern_can_fit(void **state)
{
    (void)state;
    struct credentials *credentials;
    struct world *world = open_long("q1y", "a-mine,z-*", &credentials);
    for (size_t i = 0; i < ARRAY_LENGTH(walks); i++) {
        unsigned pages;
        assert_int_equal(read_pages(world, walks[i].action, walks[i].body, walks[i].member, &pages), walks[i].count);
        assert_int_equal(pages, 1);
    }
    close_long(world, credentials);
}

static void a_walk_along_queues_that_long_patterns_might_fit_ends_and_goes_on(void **state)
{
    (void)state;
    struct credentials *credentials;
    struct world *world = open_long("*", "a-mine,*-mine", &credentials);
    for (size_t i = 0; i < ARRAY_LENGTH(walks); i++) {
        unsigned pages;
        assert_int_equal(read_pages(world, walks[i].action, walks[i].body, walks[i].member, &pages), walks[i].count);
        assert_true(strstr(walks[i].body, "'z'") != NULL ? pages == 1 : pages > 2);
    }
    close_long(world, credentials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_credential_may_do_what_its_rights_say),
        cmocka_unit_test(a_confined_credential_sees_batches_of_its_queues_only),
        cmocka_unit_test(a_confined_credential_learns_only_what_kind_of_thing_a_message_waits_for),
        cmocka_unit_test(a_confined_credential_publishes_what_is_its_own),
        cmocka_unit_test(a_confined_credential_reaches_pools_of_its_queues),
        cmocka_unit_test(a_walk_jumps_over_queues_that_no_pattern_can_fit),
        cmocka_unit_test(a_walk_along_queues_that_long_patterns_might_fit_ends_and_goes_on),
    };
    return cmocka_run_group_tests_name("api: access", tests, NULL, NULL);
}
