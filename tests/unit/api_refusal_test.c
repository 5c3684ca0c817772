/* What is refused, and what keeps something from going on, in whole replies: the words, the values and the limits. */
#include "session.h"

static void play(const struct step *steps, size_t count)
{
    struct world *world = session_open();
    session_play(world, steps, count);
    sqs_close(world);
}

static void what_a_message_waits_for_is_named_when_it_has_failed_and_when_a_type_comes_first(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'dead.fifo','Attributes':{'FifoQueue':'true'}}",
         "{'QueueUrl':'http://localhost/000000000000/dead.fifo'}", NULL},
        {"CreateQueue",
         "{'QueueName':'f.fifo','Attributes':{'FifoQueue':'true','Tally.OnGroupFailure':'cancel-rest','RedrivePolicy':'"
         "{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead.fifo\\',\\'maxReceiveCount\\':2}'}}",
         "{'QueueUrl':'http://localhost/000000000000/f.fifo'}", NULL},
        {"SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g','MessageDeduplicationId':'1'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<1>','SequenceNumber':'"
         "00000000000000000001'}",
         NULL},
        {"SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g','MessageDeduplicationId':'2'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<2>','SequenceNumber':'"
         "00000000000000000002'}",
         NULL},
        {"SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g','MessageDeduplicationId':'3'}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MessageId':'<3>','SequenceNumber':'"
         "00000000000000000003'}",
         NULL},
        {"ReceiveMessage", "{'QueueUrl':'f.fifo','MaxNumberOfMessages':3}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<4>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body':'"
         "m'},{'MessageId':'<2>','ReceiptHandle':'<5>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body':'m'},{'"
         "MessageId':'<3>','ReceiptHandle':'<6>','MD5OfBody':'6f8f57715090da2632453988d9a1501b','Body':'m'}]}",
         NULL},
        {"Tally.FailMessage", "{'QueueUrl':'f.fifo','ReceiptHandle':'<6>','Final':true,'Reason':'no hope'}",
         "{'Outcome':'held','Attempt':1,'MaxAttempts':2}", NULL},
        {"Tally.FailMessage", "{'QueueUrl':'f.fifo','ReceiptHandle':'<5>','Final':true}",
         "{'Outcome':'held','Attempt':1,'MaxAttempts':2}", NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'f.fifo','MessageId':'<1>'}",
         "{'State':'in-flight','Why':[{'Code':'InFlight','Text':'It is in flight since 22:13:20Z (delivery 1) until "
         "22:13:50Z.','Since':1700000000.0,'Until':1700000030.0,'Delivery':1}]}",
         NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'f.fifo','MessageId':'<2>'}",
         "{'State':'blocked','Why':[{'Code':'GroupHead','Text':'It waits behind message <1>, the head of its group, "
         "which is in flight since 22:13:20Z (delivery 1) until "
         "22:13:50Z.','MessageId':'<1>','Since':1700000000.0,'Until':1700000030.0,'Delivery':1},{'Code':'FailedForGood'"
         ",'Text':'It failed for good: the next receive that meets it gives it up, as the queue's Tally.OnGroupFailure "
         "says.'}]}",
         NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'f.fifo','MessageId':'<3>'}",
         "{'State':'blocked','Why':[{'Code':'GroupHead','Text':'It waits behind message <1>, the head of its group, "
         "which is in flight since 22:13:20Z (delivery 1) until "
         "22:13:50Z.','MessageId':'<1>','Since':1700000000.0,'Until':1700000030.0,'Delivery':1},{'Code':'FailedForGood'"
         ",'Text':'It failed for good: no hope: the next receive that meets it gives it up, as the queue's "
         "Tally.OnGroupFailure says.','Reason':'no hope'}]}",
         NULL},
        {"Tally.ListGroups", "{'QueueUrl':'f.fifo'}",
         "{'Groups':[{'MessageGroupId':'g','State':'busy','Messages':3,'InFlight':1,'Reason':'It is in flight since "
         "22:13:20Z (delivery 1) until 22:13:50Z.','Since':1700000000.0,'HeadMessageId':'<1>'}]}",
         NULL},
        {"ChangeMessageVisibility", "{'QueueUrl':'f.fifo','ReceiptHandle':'<4>','VisibilityTimeout':0}", "", NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'f.fifo','MessageId':'<1>'}",
         "{'State':'ready','Why':[{'Code':'Returned','Text':'It was returned 1 time.','Count':1}]}", NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'f.fifo','MessageId':'<2>'}",
         "{'State':'blocked','Why':[{'Code':'GroupHead','Text':'It waits behind message <1>, the head of its group, "
         "which comes first.','MessageId':'<1>'},{'Code':'FailedForGood','Text':'It failed for good: the next receive "
         "that meets it gives it up, as the queue's Tally.OnGroupFailure says.'}]}",
         NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'f.fifo','MessageId':'<3>'}",
         "{'State':'blocked','Why':[{'Code':'GroupHead','Text':'It waits behind message <1>, the head of its group, "
         "which comes first.','MessageId':'<1>'},{'Code':'FailedForGood','Text':'It failed for good: no hope: the next "
         "receive that meets it gives it up, as the queue's Tally.OnGroupFailure says.','Reason':'no hope'}]}",
         NULL},
        {"CreateQueue", "{'QueueName':'q'}", "{'QueueUrl':'http://localhost/000000000000/q'}", NULL},
        {"Tally.PutTypeOrder", "{'Name':'r','Types':['v','w'],'Require':true}",
         "{'Name':'r','Types':['v','w'],'Require':true,'RetentionSeconds':1209600}", NULL},
        {"SendMessage",
         "{'QueueUrl':'q','MessageBody':'m','MessageGroupId':'g','MessageAttributes':{'Tally.Type':{'DataType':'String'"
         ",'StringValue':'w'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "c6766202ac037536f3bfc392a8ec74d6','MessageId':'<7>'}",
         NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<7>'}",
         "{'State':'blocked','Why':[{'Code':'TypeRequired','Text':'It waits until a message of type 'v' has succeeded, "
         "as a type order requires.','Type':'v','Since':1700000000.0}]}",
         NULL},
    };
    play(steps, ARRAY_LENGTH(steps));
}

/* Those who wait are told in portions, at the latest in the next tick: until then they wait for something that has
 * ended. */
static void a_batch_that_has_completed_is_not_said_to_go_on(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'q'}", "{'QueueUrl':'http://localhost/000000000000/q'}", NULL},
        {"Tally.CreateBatch", "{'BatchId':'b'}", "{'BatchId':'b','State':'open'}", NULL},
        {"SendMessage",
         "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':"
         "'batch:b'}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "a0760f122d265544de7d7652ab9d9893','MessageId':'<1>'}",
         NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits for batch 'b', which has not "
         "completed.','BatchId':'b','Since':1700000000.0,'Remaining':0}]}",
         NULL},
        {"Tally.SealBatch", "{'BatchId':'b'}", "{'State':'completed','Remaining':0,'Completed':true}", NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits to be told how batch 'b' has "
         "ended.','BatchId':'b','Since':1700000000.0,'Remaining':0}]}",
         NULL},
        {"Tally.DeleteBatch", "{'BatchId':'b'}", "", NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits to be told how a batch that is gone has "
         "ended.','Since':1700000000.0,'Remaining':0}]}",
         NULL},
        {NULL, "1", NULL, NULL},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}", "{'State':'ready','Why':[]}", NULL},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void requests_that_say_too_much_or_too_little_are_refused_with_what_they_said(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'a'}", "{'QueueUrl':'http://localhost/000000000000/a'}", NULL},
        {"CreateQueue", "{'QueueName':'f.fifo','Attributes':{'FifoQueue':'true'}}",
         "{'QueueUrl':'http://localhost/000000000000/f.fifo'}", NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','Total':1,'OnComplete':{'QueueUrl':'f.fifo'}}",
         "MissingRequiredParameterException: OnComplete: The request must contain the parameter MessageGroupId.", NULL},
        {"Tally.CreateBatch",
         "{'BatchId':'b','OnComplete':{'QueueUrl':'f.fifo','MessageGroupId':'g','MessageAttributes':{'Tally.X':{'"
         "DataType':'String','StringValue':'b'}}}}",
         "InvalidParameterValueException: A target's MessageAttributes can't contain Tally.X: names that begin with "
         "Tally. are set by Tally; to make this batch a unit of another one, use Parent.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','Tracking':'odd'}",
         "InvalidParameterValueException: Value odd for parameter Tracking is invalid. Reason: It must be exact or "
         "xor.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b c'}",
         "InvalidParameterValueException: Value b c for parameter BatchId is invalid. Reason: It can only include "
         "ASCII letters, digits and punctuation, 1 to 128 of them.",
         NULL},
        {"Tally.CreateBatch", "{'Parent':'b c'}",
         "InvalidParameterValueException: Value b c for parameter Parent is invalid. Reason: It can only include ASCII "
         "letters, digits and punctuation, 1 to 128 of them.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','Total':-1}",
         "InvalidParameterValueException: Value -1 for parameter Total is invalid. Reason: It must be from 0 to "
         "100000000.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','Total':100000001}",
         "InvalidParameterValueException: Value 100000001 for parameter Total is invalid. Reason: It must be from 0 to "
         "100000000.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','ExpiresAfterSeconds':0}",
         "InvalidParameterValueException: Value 0 for parameter ExpiresAfterSeconds is invalid. Reason: It must be "
         "from 1 to 31536000.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','ExpiresAfterSeconds':31536001}",
         "InvalidParameterValueException: Value 31536001 for parameter ExpiresAfterSeconds is invalid. Reason: It must "
         "be from 1 to 31536000.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','RetentionSeconds':-1}",
         "InvalidParameterValueException: Value -1 for parameter RetentionSeconds is invalid. Reason: It must be from "
         "0 to 31536000.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','RetentionSeconds':31536001}",
         "InvalidParameterValueException: Value 31536001 for parameter RetentionSeconds is invalid. Reason: It must be "
         "from 0 to 31536000.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'a','MessageBody':'\\\\u0001'}}",
         "{'BatchId':'b','State':'open'}", NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'a','MessageBody':7}}",
         "SerializationException: The value of MessageBody can not be converted to a String.", NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'a','MessageGroupId':7}}",
         "SerializationException: The value of MessageGroupId can not be converted to a String.", NULL},
        {"Tally.CreateBatch",
         "{'BatchId':'b','OnComplete':{'QueueUrl':'a','MessageAttributes':{'n':{'DataType':'String'}}}}",
         "InvalidParameterValueException: Message (user) attribute 'n' must contain a non-empty value of type "
         "'String'.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'a','MessageGroupId':'g h'}}",
         "InvalidParameterValueException: Value g h for parameter MessageGroupId is invalid. Reason: MessageGroupId "
         "can only include alphanumeric and punctuation characters. 1 to 128 in length.",
         NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','OnComplete':7}",
         "SerializationException: The value of OnComplete can not be converted to a Map.", NULL},
        {"Tally.CreateBatch", "{'BatchId':'b','Total':2}",
         "BatchAlreadyExists: Batch 'b' exists and was created with other arguments.", NULL},
        {"Tally.AddUnits", "{'BatchId':'b','Units':['u','v']}", "{'Added':2,'Total':2}", NULL},
        {"Tally.CreateBatch", "{'BatchId':'b.1','Parent':'b'}", "{'BatchId':'b.1','State':'open'}", NULL},
        {"Tally.AddUnits", "{'BatchId':'b','Units':['w']}", "{'Added':1,'Total':4}", NULL},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[]}",
         "MissingRequiredParameterException: The request must contain the parameter Units.", NULL},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':7}",
         "SerializationException: The value of Units can not be converted to a List.", NULL},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[7]}",
         "SerializationException: Entry 0 of Units is not an object.", NULL},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Status':'failed'}]}",
         "MissingRequiredParameterException: The request must contain the parameter Unit.", NULL},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'u','Status':'odd'}]}",
         "InvalidParameterValueException: Value odd for parameter Status is invalid. Reason: It must be succeeded or "
         "failed.",
         NULL},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'u','Status':'failed','Detail':'\\\\u0001'}]}",
         "{'Results':[{'Unit':'u','Recorded':true}],'Remaining':3,'Completed':false}", NULL},
        {"Tally.Commit", "{'CreateBatches':[{'BatchId':'n'},{'BatchId':'n'}]}",
         "InvalidParameterValueException: CreateBatches[1]: batch 'n' is among the CreateBatches already.", NULL},
        {"Tally.Commit", "{'CreateBatches':[{'BatchId':'n','Total':1}],'AddUnits':[{'BatchId':'n','Count':2}]}",
         "BatchTotalExceeded: AddUnits[0]: Batch 'n' would have more units than its Total.", NULL},
        {"Tally.XorUnits", "{'BatchId':'b','Value':'00000000000000ff','RequestToken':'t'}",
         "UnsupportedOperation: Batch 'b' has Tracking exact; use AddUnits and CompleteUnits.", NULL},
        {"SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g','MessageDeduplicationId':'d e'}",
         "InvalidParameterValueException: Value d e for parameter MessageDeduplicationId is invalid. Reason: "
         "MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.",
         NULL},
        {"SendMessage",
         "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g','MessageDeduplicationId':'d','DelaySeconds':1}",
         "InvalidParameterValueException: Value 1 for parameter DelaySeconds is invalid. Reason: The request include "
         "parameter that is not valid for this queue type.",
         NULL},
        {"SendMessage", "{'QueueUrl':'a','MessageBody':'m','DelaySeconds':901}",
         "InvalidParameterValueException: Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must "
         "be >= 0 and <= 900.",
         NULL},
        {"SendMessage", "{'QueueUrl':'a','MessageBody':'m','DelaySeconds':-1}",
         "InvalidParameterValueException: Value -1 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be "
         ">= 0 and <= 900.",
         NULL},
        {"SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'m'}",
         "MissingRequiredParameterException: The request must contain the parameter MessageGroupId.", NULL},
        {"ReceiveMessage", "{'QueueUrl':'f.fifo','ReceiveRequestAttemptId':'a b'}",
         "InvalidParameterValueException: Value a b for parameter ReceiveRequestAttemptId is invalid. Reason: "
         "ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length.",
         NULL},
        {"SetQueueAttributes", "{'QueueUrl':'f.fifo','Attributes':{'DeduplicationScope':'odd'}}",
         "InvalidAttributeValue: Invalid value for the parameter DeduplicationScope. Reason: Must be queue or "
         "messageGroup.",
         NULL},
        {"SetQueueAttributes", "{'QueueUrl':'f.fifo','Attributes':{'FifoThroughputLimit':'odd'}}",
         "InvalidAttributeValue: Invalid value for the parameter FifoThroughputLimit. Reason: Must be perQueue or "
         "perMessageGroupId.",
         NULL},
        {"SetQueueAttributes", "{'QueueUrl':'f.fifo','Attributes':{'FifoThroughputLimit':'perMessageGroupId'}}",
         "InvalidParameterValueException: The perMessageGroupId value is allowed only when the value for "
         "DeduplicationScope is messageGroup",
         NULL},
        {"SetQueueAttributes",
         "{'QueueUrl':'f.fifo','Attributes':{'Tally.DeliveryMode':'at-most-once','Tally.OnGroupFailure':'hold'}}",
         "InvalidAttributeValue: Tally.DeliveryMode at-most-once and Tally.OnGroupFailure hold exclude each other: "
         "what ended when it was received can't be held.",
         NULL},
        {"SetQueueAttributes", "{'QueueUrl':'a','Attributes':{'DelaySeconds':-1}}",
         "InvalidAttributeValue: Invalid value for the parameter DelaySeconds. Reason: Must be an integer from 0 to "
         "900.",
         NULL},
        {"SetQueueAttributes", "{'QueueUrl':'a','Attributes':{'DelaySeconds':7}}", "", NULL},
        {"TagQueue", "{'QueueUrl':'a','Tags':{'k':'1','j':'2','k':'1'}}", "", NULL},
        {"ListQueueTags", "{'QueueUrl':'a'}", "{'Tags':{'j':'2','k':'1'}}", NULL},
        {"GetQueueUrl", "{}",
         "InvalidParameterValueException: Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
         NULL},
        {"GetQueueUrl", "{'QueueName':'a','QueueOwnerAWSAccountId':7}",
         "SerializationException: The value of QueueOwnerAWSAccountId can not be converted to a String.", NULL},
        {"GetQueueUrl", "{'QueueName':'a','QueueOwnerAWSAccountId':'1'}",
         "QueueDoesNotExist: The specified queue does not exist. Its account is '1', and this server has these "
         "namespaces: 000000000000.",
         NULL},
        {"Tally.ListSchedules", "{'Prefix':7}",
         "SerializationException: The value of Prefix can not be converted to a String.", NULL},
        {"Tally.ListSchedules", "{'MaxResults':0}",
         "InvalidParameterValueException: Value for parameter MaxResults is invalid. Reason: MaxResults must be an "
         "integer between 1 and 1000.",
         NULL},
        {"Tally.ListPools", "{'Prefix':7}",
         "SerializationException: The value of Prefix can not be converted to a String.", NULL},
        {"Tally.ListPools", "{'MaxResults':1001}",
         "InvalidParameterValueException: Value for parameter MaxResults is invalid. Reason: MaxResults must be an "
         "integer between 1 and 1000.",
         NULL},
        {"Tally.PutSchedule", "{'Name':'x','Cron':'* * * * *','QueueUrl':'a','MessageBody':7}",
         "SerializationException: The value of MessageBody can not be converted to a String.", NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'Binary','BinaryValue':'eA=="
         "'}}}",
         "InvalidParameterValueException: Value (binary) for parameter Tally.After is invalid. Reason: It must be of "
         "type String or Number.",
         NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.Afetr':{'DataType':'String','StringValue':'x'}}"
         "}",
         "InvalidParameterValueException: There is no message attribute 'Tally.Afetr': names that begin with Tally. "
         "are the server's own, such as Tally.Batch, Tally.After, Tally.AfterFailure, Tally.Type, Tally.Priority, "
         "Tally.Producer and Tally.Sequence.",
         NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.AfterFailure':{'DataType':'String','"
         "StringValue':'odd'}}}",
         "InvalidParameterValueException: Value odd for parameter Tally.AfterFailure is invalid. Reason: It must be "
         "cancel, run or hold.",
         NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.Producer':{'DataType':'String','StringValue':'"
         "p'}}}",
         "InvalidParameterValueException: Tally.Producer and Tally.Sequence go together: the message has only "
         "Tally.Producer.",
         NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.Sequence':{'DataType':'String','StringValue':'"
         "1'}}}",
         "InvalidParameterValueException: Tally.Producer and Tally.Sequence go together: the message has only "
         "Tally.Sequence.",
         NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.Type':{'DataType':'String','StringValue':'a "
         "b'}}}",
         "InvalidParameterValueException: Value a b for parameter Tally.Type is invalid. Reason: It can only include "
         "ASCII letters, digits and punctuation, 1 to 128 of them.",
         NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.Priority':{'DataType':'String','StringValue':'-"
         "1'}}}",
         "InvalidParameterValueException: Value -1 for parameter Tally.Priority is invalid. Reason: It must be an "
         "integer from 0 to 9.",
         NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "dedup:"
         "f.fifo/d'}}}",
         "DependencyDoesNotExist: Tally.After: dedup:f.fifo/d is not known in this namespace.", NULL},
        {"SendMessage",
         "{'QueueUrl':'a','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "dedup:"
         "f.fif/d'}}}",
         "InvalidParameterValueException: Value dedup:f.fif/d for parameter Tally.After is invalid. Reason: An item "
         "must "
         "be message:<MessageId>, batch:<BatchId> or dedup:<queue name>/<MessageDeduplicationId>.",
         NULL},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void a_ticket_says_which_rules_keep_it_from_the_others(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'r'}", "{'QueueUrl':'http://localhost/000000000000/r'}", NULL},
        {"Tally.CreatePool",
         "{'PoolName':'p','ResultQueueUrl':'r','Matcher':'external','Verify':true,'Attributes':{'m':'num','mode':'str',"
         "'maps':'set'},'Rules':[{'type':'equal','attr':'mode'},{'type':'near','attr':'m','max':5,'expand':[{'after':'"
         "1s','max':9},{'after':'2s','off':true}]}]}",
         "{'PoolName':'p','RulesVersion':1}", NULL},
        {"Tally.OfferTickets",
         "{'PoolName':'p','Tickets':[{'TicketId':'t','Attributes':{'m':1,'mode':'x','maps':['k']},'ExclusiveSet':'s'},{"
         "'TicketId':'fits','Attributes':{'m':2,'mode':'x'}},{'TicketId':'mode','Attributes':{'m':2,'mode':'y'}},{'"
         "TicketId':'far','Attributes':{'m':12,'mode':'x'}},{'TicketId':'far2','Attributes':{'m':13,'mode':'x'}},{'"
         "TicketId':'set','Attributes':{'m':1,'mode':'x'},'ExclusiveSet':'s'},{'TicketId':'need','Attributes':{'m':1,'"
         "mode':'x'},'Need':{'m':{'not':[1,7.5]},'maps':{'all':['k','l']},'mode':{'in':['x','y'],'not':['z']}}}]}",
         "{'Results':[{'TicketId':'t','Status':'waiting','Version':1,'AlreadyOffered':false},{'TicketId':'fits','"
         "Status':'waiting','Version':1,'AlreadyOffered':false},{'TicketId':'mode','Status':'waiting','Version':1,'"
         "AlreadyOffered':false},{'TicketId':'far','Status':'waiting','Version':1,'AlreadyOffered':false},{'TicketId':'"
         "far2','Status':'waiting','Version':1,'AlreadyOffered':false},{'TicketId':'set','Status':'waiting','Version':"
         "1,'AlreadyOffered':false},{'TicketId':'need','Status':'waiting','Version':1,'AlreadyOffered':false}]}",
         NULL},
        {"Tally.GetTicket", "{'PoolName':'p','TicketId':'need'}",
         "{'Status':'waiting','TicketId':'need','Version':1,'Part':23,'Attributes':{'m':1,'mode':'x'},'Need':{'m':{'"
         "not':[1,7.5]},'mode':{'in':['y','x'],'not':['z']},'maps':{'all':['k','l']}},'Weight':1,'Priority':0,'"
         "OfferedAt':1700000000.0,'Level':0}",
         NULL},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'t'}",
         "{'TicketId':'t','Status':'waiting','Level':0,'Rules':[{'Rule':'equal(mode)'},{'Rule':'near(m)','Value':5}],'"
         "NextStepAt':1700000001.0,'Candidates':6,'Fits':1,'Rejects':[{'Rule':'equal(mode)','Count':1},{'Rule':'near(m)"
         "','Count':2},{'Rule':'their-need','Count':1},{'Rule':'exclusive-set','Count':1}],'Conflicts':0,'Complete':"
         "true}",
         NULL},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'far'}",
         "{'TicketId':'far','Status':'waiting','Level':0,'Rules':[{'Rule':'equal(mode)'},{'Rule':'near(m)','Value':5}],"
         "'NextStepAt':1700000001.0,'Candidates':6,'Fits':1,'Rejects':[{'Rule':'equal(mode)','Count':1},{'Rule':'near("
         "m)','Count':4}],'Conflicts':0,'Complete':true}",
         NULL},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'need'}",
         "{'TicketId':'need','Status':'waiting','Level':0,'Rules':[{'Rule':'equal(mode)'},{'Rule':'near(m)','Value':5}]"
         ",'NextStepAt':1700000001.0,'Candidates':6,'Fits':0,'Rejects':[{'Rule':'equal(mode)','Count':1},{'Rule':'near("
         "m)','Count':2},{'Rule':'need','Count':3}],'Conflicts':0,'Complete':true}",
         NULL},
        {"Tally.ProposeMatches",
         "{'PoolName':'p','Proposals':[{'ProposalId':'mode','Members':[{'TicketId':'t','Version':1},{'TicketId':'mode',"
         "'Version':1}]},{'ProposalId':'far','Members':[{'TicketId':'t','Version':1},{'TicketId':'far','Version':1}]},{"
         "'ProposalId':'set','Members':[{'TicketId':'t','Version':1},{'TicketId':'set','Version':1}]},{'ProposalId':'"
         "need','Members':[{'TicketId':'t','Version':1},{'TicketId':'need','Version':1}]},{'ProposalId':'none','"
         "Members':[{'TicketId':'t','Version':1},{'TicketId':'none','Version':1}]},{'ProposalId':'t','Members':[{'"
         "TicketId':'t','Version':1},{'TicketId':'t','Version':1}]}]}",
         "{'Results':[{'ProposalId':'mode','Status':'invalid','Why':'equal(mode)'},{'ProposalId':'far','Status':'"
         "invalid','Why':'near(m)'},{'ProposalId':'set','Status':'conflict','Members':[{'TicketId':'t','Why':'"
         "exclusive-set','Version':1},{'TicketId':'set','Why':'exclusive-set','Version':1}]},{'ProposalId':'need','"
         "Status':'invalid','Why':'need'},{'ProposalId':'none','Status':'invalid','Why':'A ticket is unknown, or is "
         "named twice.','Members':[{'TicketId':'none','Why':'unknown'}]},{'ProposalId':'t','Status':'invalid','Why':'A "
         "ticket is unknown, or is named twice.','Members':[{'TicketId':'t','Why':'twice','Version':1}]}]}",
         NULL},
        {"Tally.ProposeMatches", "{'PoolName':'p','Proposals':[]}",
         "EmptyBatchRequest: Proposals must hold at least one proposal.", NULL},
        {"Tally.ProposeMatches", "{'PoolName':'p','Proposals':7}",
         "SerializationException: The value of Proposals can not be converted to a List.", NULL},
        {NULL, "1000", "", NULL},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'t'}",
         "{'TicketId':'t','Status':'waiting','Level':1,'Rules':[{'Rule':'equal(mode)'},{'Rule':'near(m)','Value':9}],'"
         "NextStepAt':1700000002.0,'Candidates':6,'Fits':1,'Rejects':[{'Rule':'equal(mode)','Count':1},{'Rule':'near(m)"
         "','Count':2},{'Rule':'their-need','Count':1},{'Rule':'exclusive-set','Count':1}],'Conflicts':7,'Complete':"
         "true}",
         NULL},
        {NULL, "1000", "", NULL},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'t'}",
         "{'TicketId':'t','Status':'waiting','Level':2,'Rules':[{'Rule':'equal(mode)'},{'Rule':'near(m)','Value':'off'}"
         "],'Candidates':6,'Fits':3,'Rejects':[{'Rule':'equal(mode)','Count':1},{'Rule':'their-need','Count':1},{'Rule'"
         ":'exclusive-set','Count':1}],'Conflicts':7,'Complete':true}",
         NULL},
        {"Tally.ProposeMatches",
         "{'PoolName':'p','Proposals':[{'ProposalId':'a','Members':[{'TicketId':'t','Version':1},{'TicketId':'far','"
         "Version':1}],'Body':'now'}]}",
         "{'Results':[{'ProposalId':'a','Status':'matched','MatchId':'<1>'}]}", NULL},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'t'}",
         "{'TicketId':'t','Status':'matched','MatchId':'<1>'}", NULL},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'set'}", "{'TicketId':'set','Status':'cancelled'}", NULL},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'fits'}",
         "{'TicketId':'fits','Status':'waiting','Level':2,'Rules':[{'Rule':'equal(mode)'},{'Rule':'near(m)','Value':'"
         "off'}],'Candidates':3,'Fits':1,'Rejects':[{'Rule':'equal(mode)','Count':1},{'Rule':'their-need','Count':1}],'"
         "Conflicts':0,'Complete':true}",
         NULL},
        {"Tally.CountTickets", "{'PoolName':'p','Filter':{'m':{'max':12}}}", "{'Tickets':3,'Weight':3}", NULL},
        {"Tally.UpdatePool", "{'PoolName':'p','Attributes':{'m':'num'}}", "{'PoolName':'p','RulesVersion':1}", NULL},
    };
    play(steps, ARRAY_LENGTH(steps));
}

#define PUBLISH                                                                                                        \
    "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':1,'Owner':'aaaa0000-0000-4000-8000-000000000001',"    \
    "'Batch':1,'ConfirmedBatch':0,'Rows':[{}"
#define PROPOSE                                                                                                        \
    "{'PoolName':'p','Proposals':[{'ProposalId':'a','Members':[{'TicketId':'t','Version':1},{'TicketId':'u',"          \
    "'Version':1}],'Body':'"

/* Is it the text, or, behind a *, a part of it? */
static bool is_message(const char *message, const char *expected)
{
    return expected[0] == '*' ? strstr(message, expected + 1) != NULL : strcmp(message, expected) == 0;
}

/* Why the first entry was refused, or "OK". */
static const char *first_why(struct answer answer)
{
    const char *why = sqs_text(yyjson_arr_get(yyjson_obj_get(answer.root, "Results"), 0), "Why");
    return why[0] == '\0' ? "OK" : why;
}

/* Bodies with one entry too many, or a text that is one byte too long. */
static void one_more_than_the_limit_is_refused_with_the_limit(void **state)
{
    static const struct {
        const char *action;
        const char *begin;
        const char *item;
        unsigned count; /* how often */
        const char *end;
        const char *message;
    } rows[] = {
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[7", ",7", 100000, "]}",
         "Units holds 100001 entries; give at most 100000 in one request."},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'v','Status':'failed','Detail':'", "x", 1025, "'}]}",
         "The Detail of entry 0 has 1025 bytes; the limit is 1024, of the characters a message body may have."},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'v','Status':'failed','Detail':'", "x", 1024, "'}]}",
         "OK"},
        {"Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'", "y", 300, "','Status':'failed'}]}",
         "*yyyy'; nothing was recorded."},
        {"Tally.Publish", PUBLISH, ",{}", 1000, "]}", "Rows holds 1001 rows; a Publish takes at most 1000."},
        {"Tally.Publish", PUBLISH, ",{}", 999, "]}", "Rows[0]: The request must contain the parameter Id."},
        {"Tally.ProposeMatches", "{'PoolName':'p','Proposals':[{}", ",{}", 100, "]}",
         "Proposals holds 101 proposals; ProposeMatches takes at most 100."},
        {"Tally.ProposeMatches", PROPOSE, "x", 65537, "'}]}", "*Body is 65537 bytes; the limit is 65536."},
        {"Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'x','Reason':'", "x", 1025, "'}",
         "Reason has 1025 bytes; the limit is 1024."},
        {"Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'x','Reason':'", "x", 1024, "'}",
         "The input receipt handle \"x\" is not a valid receipt handle."},
        {"Tally.PutSchedule", "{'Name':'s','Cron':'* * * * *','QueueUrl':'small','MessageBody':'", "x", 1025, "'}",
         "The message is too long: body and attributes are 1025 bytes; the limit is 1024."},
        {"Tally.CreateBatch", "{'BatchId':'c','OnComplete':{'QueueUrl':'small','MessageBody':'", "x", 1025, "'}}",
         "OnComplete is too long: body and attributes are 1025 bytes; the limit is 1024."},
        {"Tally.CreateBatch", "{'BatchId':'", "x", 128, "'}", "OK"},
        {"Tally.CreateBatch", "{'BatchId':'", "x", 129, "'}",
         "*xx for parameter BatchId is invalid. Reason: It can only include ASCII letters, digits and punctuation, 1 "
         "to 128 "
         "of them."},
        {"Tally.CreateBatch", "{'BatchId':'", "x", 1500, "'}", "*xx for parameter BatchId is invalid. Reason: It can"},
        {"Tally.CreateBatch", "{'BatchId':'", "x", 1501, "'}", "*xx... (1501 bytes) for parameter BatchId is invalid."},
        {"Tally.Commit", "{'Sends':[{'QueueUrl':'q','MessageBody':'y'},{'QueueUrl':'q','MessageBody':'", "x", 1048576,
         "'}]}", "The sends of a Commit cannot be longer than 1048576 bytes in sum. You have sent 1048577 bytes."},
    };
    struct world *world = sqs_open(state);
    unsigned faults = 0;
    world_create_queue(world, "small", "'MaximumMessageSize':'1024'");
    sqs_call(world, "Tally.CreateBatch", "{'BatchId':'b'}");
    sqs_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['u','v']}");
    sqs_call(world, "Tally.CreatePool", "{'PoolName':'p','ResultQueueUrl':'q','Matcher':'external'}");
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct buffer body;
        buffer_init(&body);
        buffer_append_format(&body, "%s", rows[i].begin);
        for (unsigned k = 0; k < rows[i].count; k++)
            buffer_append_bytes(&body, bytes_from_string(rows[i].item));
        buffer_append_format(&body, "%s%c", rows[i].end, '\0');
        struct answer answer = world_call(world, rows[i].action, "%s", (const char *)body.data_owned);
        buffer_deinit(&body);
        const char *message = answer.error == NULL ? first_why(answer) : answer_text(answer, "message");
        if (!is_message(message, rows[i].message))
            print_error("%s %s\n  gave %s\n  not  %s\n", rows[i].action, rows[i].begin, message, rows[i].message);
        faults += !is_message(message, rows[i].message);
    }
    sqs_close(world);
    assert_int_equal(faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_message_waits_for_is_named_when_it_has_failed_and_when_a_type_comes_first),
        cmocka_unit_test(a_batch_that_has_completed_is_not_said_to_go_on),
        cmocka_unit_test(requests_that_say_too_much_or_too_little_are_refused_with_what_they_said),
        cmocka_unit_test(a_ticket_says_which_rules_keep_it_from_the_others),
        cmocka_unit_test(one_more_than_the_limit_is_refused_with_the_limit),
    };
    return cmocka_run_group_tests_name("api: refusals", tests, NULL, NULL);
}
