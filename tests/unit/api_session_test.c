/* A session with whole replies: what each action answers, what it says of what happened before, and the words in which
 * ExplainMessage and ListGroups say why a message waits. */
#include "session.h"

/* What DescribeBatch says of the batch 'all' as it was made. */
#define DONE "{'QueueUrl':'http://localhost/000000000000/done'}"
#define ALL "'Tracking':'exact','ExpectedTotal':6,'OnComplete':" DONE ",'OnSuccess':" DONE ",'OnFirstFailure':" DONE

static void play(const struct step *steps, size_t count)
{
    struct world *world = session_open();
    session_play(world, steps, count);
    sqs_close(world);
}

static void batches_say_what_is_in_them(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'done'}", "{'QueueUrl':'http://localhost/000000000000/done'}"},
        {"CreateQueue", "{'QueueName':'q'}", "{'QueueUrl':'http://localhost/000000000000/q'}"},
        {"Tally.CreateBatch",
         "{'BatchId':'all','Total':6,'RetentionSeconds':100,'ExpiresAfterSeconds':1000,'OnComplete':{'QueueUrl':'done',"
         "'MessageBody':'c'},'OnSuccess':{'QueueUrl':'done'},'OnFirstFailure':{'QueueUrl':'done','MessageBody':'f'}}",
         "{'BatchId':'all','State':'open'}"},
        {"Tally.CreateBatch", "{'BatchId':'child','Parent':'all'}", "{'BatchId':'child','State':'open'}"},
        {"Tally.AddUnits", "{'BatchId':'all','Units':['a','b']}", "{'Added':2,'Total':3}"},
        {"Tally.AddUnits", "{'BatchId':'all','Units':['a']}", "{'Added':0,'Total':3}"},
        {"Tally.AddUnits", "{'BatchId':'all','Count':2}", "{'Added':2,'Total':5}"},
        {"SendMessage",
         "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'all'"
         "}}}",
         "{'MD5OfMessageBody':'6f8f57715090da2632453988d9a1501b','MD5OfMessageAttributes':'"
         "7e49e23c079981ec42998ce9ca3ac416','MessageId':'<1>'}"},
        {"Tally.DescribeBatch", "{'BatchId':'all'}",
         "{'BatchId':'all','State':'sealed','Total':6,'Succeeded':0,'Failed':0,'Cancelled':0,'Remaining':6,'CreatedAt':"
         "1700000000.0,'SealedAt':1700000000.0," ALL ",'ExpiresAt':1700001000.0}"},
        {"Tally.ListUnits", "{'BatchId':'all'}",
         "{'Units':[{'Unit':'child','BatchId':'child','State':'outstanding'},{'Unit':'a','State':'outstanding'},{'Unit'"
         ":'b','State':'outstanding'},{'Unit':'0','State':'outstanding'},{'Unit':'1','State':'outstanding'},{'Unit':'<"
         "1>','MessageId':'<1>','State':'outstanding'}]}"},
        {"Tally.ListUnits", "{'BatchId':'all','MaxResults':2}",
         "{'Units':[{'Unit':'child','BatchId':'child','State':'outstanding'},{'Unit':'a','State':'outstanding'}],'"
         "NextToken':'<page>'}"},
        {"Tally.ListUnits", "{'BatchId':'all','NextToken':'<page>'}",
         "{'Units':[{'Unit':'b','State':'outstanding'},{'Unit':'0','State':'outstanding'},{'Unit':'1','State':'"
         "outstanding'},{'Unit':'<1>','MessageId':'<1>','State':'outstanding'}]}"},
        {"Tally.CompleteUnits",
         "{'BatchId':'all','Units':[{'Unit':'a','Status':'succeeded','Detail':'well'},{'Unit':'b','Status':'failed','"
         "Detail':'why'}]}",
         "{'Results':[{'Unit':'a','Recorded':true},{'Unit':'b','Recorded':true}],'Remaining':4,'Completed':false}"},
        {"Tally.CompleteUnits",
         "{'BatchId':'all','Units':[{'Unit':'a','Status':'failed'},{'Unit':'0','Status':'succeeded'}]}",
         "{'Results':[{'Unit':'a','Recorded':false},{'Unit':'0','Recorded':true}],'Remaining':3,'Completed':false}"},
        {"Tally.CompleteUnits", "{'BatchId':'all','Units':[{'Unit':'z','Status':'failed'}]}",
         "UnitDoesNotExist: Batch 'all' has no external unit 'z'; nothing was recorded."},
        {"Tally.ListUnits", "{'BatchId':'all','State':'outstanding'}",
         "{'Units':[{'Unit':'child','BatchId':'child','State':'outstanding'},{'Unit':'1','State':'outstanding'},{'Unit'"
         ":'<1>','MessageId':'<1>','State':'outstanding'}]}"},
        {"Tally.ListUnits", "{'BatchId':'all','State':'succeeded'}",
         "{'Units':[{'Unit':'a','State':'succeeded','Detail':'well'},{'Unit':'0','State':'succeeded'}]}"},
        {"Tally.ListUnits", "{'BatchId':'all','State':'failed'}",
         "{'Units':[{'Unit':'b','State':'failed','Detail':'why'}]}"},
        {"Tally.ListUnits", "{'BatchId':'all','State':'cancelled'}", "{'Units':[]}"},
        {"Tally.ListUnits", "{'BatchId':'all','State':'odd'}",
         "InvalidParameterValueException: Value odd for parameter State is invalid. Reason: It must be outstanding, "
         "succeeded, failed or cancelled."},
        {"Tally.ListUnits", "{'BatchId':'all','State':'succeeded','MaxResults':1}",
         "{'Units':[{'Unit':'a','State':'succeeded','Detail':'well'}],'NextToken':'<page>'}"},
        {"Tally.DescribeBatch", "{'BatchId':'all'}",
         "{'BatchId':'all','State':'sealed','Total':6,'Succeeded':2,'Failed':1,'Cancelled':0,'Remaining':3,'CreatedAt':"
         "1700000000.0,'SealedAt':1700000000.0," ALL ",'ExpiresAt':1700001000.0}"},
        {"ReceiveMessage", "{'QueueUrl':'done','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<2>','ReceiptHandle':'<3>','MD5OfBody':'8fa14cdd754f91cc6554c9e71929cce7','Body':'"
         "f'}]}"},
        {NULL, "1500", ""},
        {"Tally.SealBatch", "{'BatchId':'child'}", "{'State':'completed','Remaining':0,'Completed':true}"},
        {"Tally.DescribeBatch", "{'BatchId':'child'}",
         "{'BatchId':'child','State':'completed','Status':'succeeded','Total':0,'Succeeded':0,'Failed':0,'Cancelled':0,"
         "'Remaining':0,'CreatedAt':1700000000.0,'SealedAt':1700000001.5,'CompletedAt':1700000001.5,'Tracking':'exact',"
         "'Parent':'all'}"},
        {"Tally.DeleteBatch", "{'BatchId':'child'}", ""},
        {"Tally.CreateBatch", "{'BatchId':'xor','Tracking':'xor'}", "{'BatchId':'xor','State':'open'}"},
        {"Tally.XorUnits",
         "{'BatchId':'xor','Value':'00000000000000ff','RequestToken':'t','Registered':2,'Finished':1}",
         "{'Zero':false,'Completed':false}"},
        {"Tally.XorUnits",
         "{'BatchId':'xor','Value':'00000000000000ff','RequestToken':'t','Registered':2,'Finished':1}",
         "{'Zero':false,'Completed':false}"},
        {"Tally.ListUnits", "{'BatchId':'xor'}",
         "UnsupportedOperation: Batch 'xor' has Tracking xor, which does not remember its units."},
        {"Tally.CompleteUnits", "{'BatchId':'xor','Units':[{'Unit':'z','Status':'failed'}]}",
         "UnsupportedOperation: Batch 'xor' has Tracking xor, which knows no keys; use XorUnits."},
        {"Tally.DescribeBatch", "{'BatchId':'xor'}",
         "{'BatchId':'xor','State':'open','Total':2,'Succeeded':1,'Failed':0,'Cancelled':0,'Remaining':1,'CreatedAt':"
         "1700000001.5,'Tracking':'xor','ExpiresAt':1701209601.5}"},
        {"Tally.ListBatches", "{}",
         "{'Batches':[{'BatchId':'all','State':'sealed','Total':6,'Succeeded':3,'Failed':1,'Cancelled':0,'Remaining':2,"
         "'CreatedAt':1700000000.0,'SealedAt':1700000000.0," ALL
         ",'ExpiresAt':1700001000.0},{'BatchId':'xor','State':'open','Total':2,'Succeeded':1,'"
         "Failed':0,'Cancelled':0,'Remaining':1,'CreatedAt':1700000001.5,'Tracking':'xor','ExpiresAt':1701209601.5}]}"},
        {"Tally.ListBatches", "{'MaxResults':1}",
         "{'Batches':[{'BatchId':'all','State':'sealed','Total':6,'Succeeded':3,'Failed':1,'Cancelled':0,'Remaining':2,"
         "'CreatedAt':1700000000.0,'SealedAt':1700000000.0," ALL ",'ExpiresAt':1700001000.0}],'NextToken':'<page>'}"},
        {"Tally.ListBatches", "{'MaxResults':2}",
         "{'Batches':[{'BatchId':'all','State':'sealed','Total':6,'Succeeded':3,'Failed':1,'Cancelled':0,'Remaining':2,"
         "'CreatedAt':1700000000.0,'SealedAt':1700000000.0," ALL
         ",'ExpiresAt':1700001000.0},{'BatchId':'xor','State':'open','Total':2,'Succeeded':1,'"
         "Failed':0,'Cancelled':0,'Remaining':1,'CreatedAt':1700000001.5,'Tracking':'xor','ExpiresAt':1701209601.5}]}"},
        {"Tally.CancelBatch", "{'BatchId':'all'}",
         "{'BatchId':'all','State':'completed','Status':'cancelled','Total':6,'Succeeded':3,'Failed':1,'Cancelled':2,'"
         "Remaining':0,'CreatedAt':1700000000.0,'SealedAt':1700000000.0,'CompletedAt':1700000001.5,'"
         "CompletionMessageId':'<4>'," ALL "}"},
        {"Tally.ListUnits", "{'BatchId':'all'}",
         "{'Units':[{'Unit':'child','BatchId':'child','State':'succeeded'},{'Unit':'a','State':'succeeded','Detail':'"
         "well'},{'Unit':'b','State':'failed','Detail':'why'},{'Unit':'0','State':'succeeded'},{'Unit':'1','State':'"
         "cancelled'},{'Unit':'<1>','MessageId':'<1>','State':'cancelled'}]}"},
        {"Tally.DescribeBatch", "{'BatchId':'all'}",
         "{'BatchId':'all','State':'completed','Status':'cancelled','Total':6,'Succeeded':3,'Failed':1,'Cancelled':2,'"
         "Remaining':0,'CreatedAt':1700000000.0,'SealedAt':1700000000.0,'CompletedAt':1700000001.5,'"
         "CompletionMessageId':'<4>'," ALL "}"},
        {"ReceiveMessage", "{'QueueUrl':'done','MaxNumberOfMessages':10}",
         "{'Messages':[{'MessageId':'<4>','ReceiptHandle':'<5>','MD5OfBody':'4a8a08f09d37b73795649038408b5f33','Body':'"
         "c'}]}"},
        {"Tally.SealBatch", "{'BatchId':'all'}", "{'State':'completed','Remaining':0,'Completed':false}"},
        {NULL, "100000", ""},
        {"Tally.DescribeBatch", "{'BatchId':'all'}",
         "{'BatchId':'all','State':'completed','Status':'cancelled','Total':6,'Succeeded':3,'Failed':1,'Cancelled':2,'"
         "Remaining':0,'CreatedAt':1700000000.0,'SealedAt':1700000000.0,'CompletedAt':1700000001.5,'"
         "CompletionMessageId':'<4>'," ALL "}"},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void a_message_says_why_it_is_not_delivered(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'dead'}", "{'QueueUrl':'http://localhost/000000000000/dead'}"},
        {"CreateQueue",
         "{'QueueName':'q','Attributes':{'VisibilityTimeout':'30','RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:"
         "aws:sqs:us-east-1:000000000000:dead\\',\\'maxReceiveCount\\':3}'}}",
         "{'QueueUrl':'http://localhost/000000000000/q'}"},
        {"CreateQueue", "{'QueueName':'g','Attributes':{'Tally.GroupConcurrency':'1'}}",
         "{'QueueUrl':'http://localhost/000000000000/g'}"},
        {"CreateQueue", "{'QueueName':'l.fifo','Attributes':{'FifoQueue':'true','Tally.OnGroupFailure':'hold'}}",
         "{'QueueUrl':'http://localhost/000000000000/l.fifo'}"},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'one'}",
         "{'MD5OfMessageBody':'f97c5d29941bfb1b2fdab0874906ab82','MessageId':'<1>'}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}", "{'State':'ready','Why':[]}"},
        {"ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<2>','MD5OfBody':'f97c5d29941bfb1b2fdab0874906ab82','Body':'"
         "one'}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'in-flight','Why':[{'Code':'InFlight','Text':'It is in flight since 22:13:20Z (delivery 1) until "
         "22:13:50Z.','Since':1700000000.0,'Until':1700000030.0,'Delivery':1}]}"},
        {"Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'<2>','Reason':'bad luck','RetryAfterSeconds':90}",
         "{'Outcome':'returned','Attempt':1,'MaxAttempts':3,'RetryAfterSeconds':90.0}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'delayed','Why':[{'Code':'BackOff','Text':'It was returned 1 time, last failure: bad luck, next "
         "attempt in 90 s.','Reason':'bad luck','Until':1700000090.0,'Count':1}]}"},
        {NULL, "30500", ""},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'delayed','Why':[{'Code':'BackOff','Text':'It was returned 1 time, last failure: bad luck, next "
         "attempt in 60 s.','Reason':'bad luck','Until':1700000090.0,'Count':1}]}"},
        {NULL, "60000", ""},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'ready','Why':[{'Code':'Returned','Text':'It was returned 1 time, last failure: bad "
         "luck.','Reason':'bad luck','Count':1}]}"},
        {"ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<3>','MD5OfBody':'f97c5d29941bfb1b2fdab0874906ab82','Body':'"
         "one'}]}"},
        {"Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'<3>'}",
         "{'Outcome':'returned','Attempt':2,'MaxAttempts':3,'RetryAfterSeconds':0.0}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'ready','Why':[{'Code':'Returned','Text':'It was returned 2 times.','Count':2}]}"},
        {"ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<4>','MD5OfBody':'f97c5d29941bfb1b2fdab0874906ab82','Body':'"
         "one'}]}"},
        {"Tally.FailMessage",
         "{'QueueUrl':'q','ReceiptHandle':'<4>','Reason':'worse','MaxAttempts':5,'Backoff':{'min':7,'max':7,'jitter':0}"
         "}",
         "{'Outcome':'dead-lettered','Attempt':3,'MaxAttempts':3,'QueueName':'dead'}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'ended','Why':[{'Code':'OtherQueue','Text':'It was returned 3 times, last failure: worse; it was "
         "dead-lettered and is in queue dead now.','QueueName':'dead','Reason':'worse','Count':3}]}"},
        {NULL, "7000", ""},
        {"ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':1}", "{}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'ended','Why':[{'Code':'OtherQueue','Text':'It was returned 3 times, last failure: worse; it was "
         "dead-lettered and is in queue dead now.','QueueName':'dead','Reason':'worse','Count':3}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'dead','MessageId':'<1>'}",
         "{'State':'ready','Why':[{'Code':'Returned','Text':'It was returned 3 times, last failure: "
         "worse.','Reason':'worse','Count':3}]}"},
        {"ReceiveMessage", "{'QueueUrl':'dead','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<5>','MD5OfBody':'f97c5d29941bfb1b2fdab0874906ab82','Body':'"
         "one'}]}"},
        {"DeleteMessage", "{'QueueUrl':'dead','ReceiptHandle':'<5>'}", ""},
        {"Tally.ExplainMessage", "{'QueueUrl':'dead','MessageId':'<1>'}",
         "{'State':'ended','Why':[{'Code':'Ended','Text':'It failed at 22:14:57Z. Its reason is not kept: only a "
         "message that is still there, as in a dead-letter queue, has "
         "one.','Outcome':'failed','Since':1700000097.5}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<1>'}",
         "{'State':'ended','Why':[{'Code':'Ended','Text':'It failed at 22:14:57Z. Its reason is not kept: only a "
         "message that is still there, as in a dead-letter queue, has "
         "one.','Outcome':'failed','Since':1700000097.5}]}"},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'late','DelaySeconds':100}",
         "{'MD5OfMessageBody':'f2c67381db28fa11c59fe7a6df0f2587','MessageId':'<6>'}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<6>'}",
         "{'State':'delayed','Why':[{'Code':'Delayed','Text':'It is delayed until "
         "22:16:37Z.','Since':1700000097.5,'Until':1700000197.5}]}"},
        {"Tally.PauseQueue", "{'QueueUrl':'q'}", ""},
        {"SendMessage", "{'QueueUrl':'q','MessageBody':'p'}",
         "{'MD5OfMessageBody':'83878c91171338902e0fe0fb97a8c47a','MessageId':'<7>'}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<7>'}",
         "{'State':'blocked','Why':[{'Code':'QueuePaused','Text':'The queue is paused; ResumeQueue lets it go on.'}]}"},
        {"Tally.ResumeQueue", "{'QueueUrl':'q'}", ""},
        {"SendMessage",
         "{'QueueUrl':'q','MessageBody':'after','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "message:<7>'}}}",
         "{'MD5OfMessageBody':'632a2406bbcbcd553eec45ac14b40a0a','MD5OfMessageAttributes':'"
         "05bc89d0c0f07f71efc06baeeb94736c','MessageId':'<8>'}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<8>'}",
         "{'State':'blocked','Why':[{'Code':'Message','Text':'It waits for message "
         "<7> in queue q, which is ready.','MessageId':'<7>','Since':1700000097.5,'QueueName':'q'}]}"},
        {"Tally.CreateBatch", "{'BatchId':'b'}", "{'BatchId':'b','State':'open'}"},
        {"Tally.AddUnits", "{'BatchId':'b','Count':1}", "{'Added':1,'Total':1}"},
        {"SendMessage",
         "{'QueueUrl':'q','MessageBody':'after','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:b'}}}",
         "{'MD5OfMessageBody':'632a2406bbcbcd553eec45ac14b40a0a','MD5OfMessageAttributes':'"
         "a0760f122d265544de7d7652ab9d9893','MessageId':'<9>'}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<9>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits for batch 'b' (1 unit "
         "outstanding).','BatchId':'b','Since':1700000097.5,'Remaining':1}]}"},
        {"Tally.AddUnits", "{'BatchId':'b','Count':1}", "{'Added':0,'Total':1}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<9>'}",
         "{'State':'blocked','Why':[{'Code':'Batch','Text':'It waits for batch 'b' (1 unit "
         "outstanding).','BatchId':'b','Since':1700000097.5,'Remaining':1}]}"},
        {"SendMessage",
         "{'QueueUrl':'q','MessageBody':'after','MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'"
         "batch:b'},'Tally.AfterFailure':{'DataType':'String','StringValue':'hold'}}}",
         "{'MD5OfMessageBody':'632a2406bbcbcd553eec45ac14b40a0a','MD5OfMessageAttributes':'"
         "dedb2910810b8e548c10a65d79317823','MessageId':'<10>'}"},
        {"Tally.CancelBatch", "{'BatchId':'b'}",
         "{'BatchId':'b','State':'completed','Status':'cancelled','Total':1,'Succeeded':0,'Failed':0,'Cancelled':1,'"
         "Remaining':0,'CreatedAt':1700000097.5,'CompletedAt':1700000097.5,'Tracking':'exact'}"},
        {NULL, "1000", ""},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<9>'}",
         "{'State':'ended','Why':[{'Code':'Ended','Text':'It failed at 22:14:57Z. Its reason is not kept: only a "
         "message that is still there, as in a dead-letter queue, has "
         "one.','Outcome':'failed','Since':1700000097.5}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<10>'}",
         "{'State':'held','Why':[{'Code':'AntecedentFailed','Text':'It is held because batch 'b' was "
         "cancelled.','BatchId':'b','Outcome':'cancelled','Since':1700000097.5}]}"},
        {"PurgeQueue", "{'QueueUrl':'q'}", ""},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<7>'}",
         "{'State':'ended','Why':[{'Code':'Cancelled','Text':'It was purged or cancelled and is not delivered any "
         "more.'}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<10>'}",
         "{'State':'ended','Why':[{'Code':'Cancelled','Text':'It was purged or cancelled and is not delivered any "
         "more.'}]}"},
        {"SendMessage", "{'QueueUrl':'g','MessageBody':'1','MessageGroupId':'a'}",
         "{'MD5OfMessageBody':'c4ca4238a0b923820dcc509a6f75849b','MessageId':'<11>'}"},
        {"SendMessage", "{'QueueUrl':'g','MessageBody':'2','MessageGroupId':'a'}",
         "{'MD5OfMessageBody':'c81e728d9d4c2f636f067f89cc14862c','MessageId':'<12>'}"},
        {"ReceiveMessage", "{'QueueUrl':'g','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<11>','ReceiptHandle':'<13>','MD5OfBody':'c4ca4238a0b923820dcc509a6f75849b','Body'"
         ":'1'}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'g','MessageId':'<12>'}",
         "{'State':'blocked','Why':[{'Code':'GroupConcurrency','Text':'Its group has 1 messages in flight; "
         "Tally.GroupConcurrency allows 1.','Count':1,'Limit':1}]}"},
        {"Tally.PauseGroup", "{'QueueUrl':'g','MessageGroupId':'a'}", ""},
        {"Tally.ExplainMessage", "{'QueueUrl':'g','MessageId':'<12>'}",
         "{'State':'blocked','Why':[{'Code':'GroupPaused','Text':'Its group is paused; ResumeGroup lets it go "
         "on.'},{'Code':'GroupConcurrency','Text':'Its group has 1 messages in flight; Tally.GroupConcurrency allows "
         "1.','Count':1,'Limit':1}]}"},
        {"Tally.ListGroups", "{'QueueUrl':'g'}",
         "{'Groups':[{'MessageGroupId':'a','State':'paused','Paused':true,'Messages':2,'InFlight':1,'Reason':'paused','"
         "HeadMessageId':'<11>'}]}"},
        {"Tally.ResumeGroup", "{'QueueUrl':'g','MessageGroupId':'a'}", ""},
        {"SendMessage", "{'QueueUrl':'l.fifo','MessageBody':'0','MessageGroupId':'a','MessageDeduplicationId':'0'}",
         "{'MD5OfMessageBody':'cfcd208495d565ef66e7dff9f98764da','MessageId':'<14>','SequenceNumber':'"
         "00000000000000000009'}"},
        {"SendMessage", "{'QueueUrl':'l.fifo','MessageBody':'1','MessageGroupId':'a','MessageDeduplicationId':'1'}",
         "{'MD5OfMessageBody':'c4ca4238a0b923820dcc509a6f75849b','MessageId':'<15>','SequenceNumber':'"
         "00000000000000000010'}"},
        {"SendMessage", "{'QueueUrl':'l.fifo','MessageBody':'2','MessageGroupId':'a','MessageDeduplicationId':'2'}",
         "{'MD5OfMessageBody':'c81e728d9d4c2f636f067f89cc14862c','MessageId':'<16>','SequenceNumber':'"
         "00000000000000000011'}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'l.fifo','MessageId':'<14>'}", "{'State':'ready','Why':[]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'l.fifo','MessageId':'<15>'}",
         "{'State':'blocked','Why':[{'Code':'GroupHead','Text':'It waits behind message <14>, the head of its group, "
         "which comes first.','MessageId':'<14>'}]}"},
        {"ReceiveMessage", "{'QueueUrl':'l.fifo','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<14>','ReceiptHandle':'<17>','MD5OfBody':'cfcd208495d565ef66e7dff9f98764da','Body'"
         ":'0'}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'l.fifo','MessageId':'<15>'}",
         "{'State':'blocked','Why':[{'Code':'GroupHead','Text':'It waits behind message <14>, the head of its group, "
         "which is in flight since 22:14:58Z (delivery 6) until "
         "22:15:28Z.','MessageId':'<14>','Since':1700000098.5,'Until':1700000128.5,'Delivery':6}]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo'}",
         "{'Groups':[{'MessageGroupId':'a','State':'busy','Messages':3,'InFlight':1,'Reason':'It is in flight since "
         "22:14:58Z (delivery 6) until 22:15:28Z.','Since':1700000098.5,'HeadMessageId':'<14>'}]}"},
        {"Tally.FailMessage", "{'QueueUrl':'l.fifo','ReceiptHandle':'<17>','Reason':'broken','Final':true}",
         "{'Outcome':'held','Attempt':1}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'l.fifo','MessageId':'<14>'}",
         "{'State':'held','Why':[{'Code':'GroupHeld','Text':'Its group is held since 22:14:58Z: broken; ReleaseGroup "
         "lets it go on.','Reason':'broken','Since':1700000098.5}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'l.fifo','MessageId':'<15>'}",
         "{'State':'held','Why':[{'Code':'GroupHead','Text':'It waits behind message <14>, the head of its group, "
         "which comes first.','MessageId':'<14>'},{'Code':'GroupHeld','Text':'Its group is held since 22:14:58Z: "
         "broken; ReleaseGroup lets it go on.','Reason':'broken','Since':1700000098.5}]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo'}",
         "{'Groups':[{'MessageGroupId':'a','State':'held','Messages':3,'InFlight':0,'Since':1700000098.5,'Reason':'"
         "broken','HeadMessageId':'<14>'}]}"},
        {"Tally.ReleaseGroup", "{'QueueUrl':'l.fifo','MessageGroupId':'a','Action':'skip'}", ""},
        {"Tally.ExplainMessage", "{'QueueUrl':'l.fifo','MessageId':'<14>'}",
         "{'State':'ended','Why':[{'Code':'Ended','Text':'It failed at 22:14:58Z. Its reason is not kept: only a "
         "message that is still there, as in a dead-letter queue, has "
         "one.','Outcome':'failed','Since':1700000098.5}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'l.fifo','MessageId':'<15>'}", "{'State':'ready','Why':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','State':'held'}", "{'Groups':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','State':'held','MessageGroupId':'a'}", "{'Groups':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','MessageGroupId':'b'}", "{'Groups':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','State':'busy'}", "{'Groups':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','State':'ready'}",
         "{'Groups':[{'MessageGroupId':'a','State':'ready','Messages':2,'InFlight':0,'HeadMessageId':'<15>'}]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','State':'paused'}", "{'Groups':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','State':'odd'}",
         "InvalidParameterValueException: Value odd for parameter State is invalid. Reason: It must be held, busy, "
         "ready or paused."},
        {"Tally.ListGroups", "{'QueueUrl':'g','State':'held'}", "{'Groups':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'g','State':'busy'}",
         "{'Groups':[{'MessageGroupId':'a','State':'busy','Messages':2,'InFlight':1,'Reason':'It is in flight since "
         "22:14:58Z (delivery 5) until 22:15:28Z.','Since':1700000098.5,'HeadMessageId':'<11>'}]}"},
        {"Tally.ListGroups", "{'QueueUrl':'g','State':'ready'}", "{'Groups':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'g','State':'paused'}", "{'Groups':[]}"},
        {"Tally.ListGroups", "{'QueueUrl':'g','State':'odd'}",
         "InvalidParameterValueException: Value odd for parameter State is invalid. Reason: It must be held, busy, "
         "ready or paused."},
        {"SendMessage", "{'QueueUrl':'l.fifo','MessageBody':'9','MessageGroupId':'b','MessageDeduplicationId':'9'}",
         "{'MD5OfMessageBody':'45c48cce2e2d7fbdea1afc51c7c6ad26','MessageId':'<18>','SequenceNumber':'"
         "00000000000000000012'}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','MaxResults':1}",
         "{'Groups':[{'MessageGroupId':'a','State':'ready','Messages':2,'InFlight':0,'HeadMessageId':'<15>'}],'"
         "NextToken':'<page>'}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','MessageGroupId':'b','MaxResults':1}",
         "{'Groups':[{'MessageGroupId':'b','State':'ready','Messages':1,'InFlight':0,'HeadMessageId':'<18>'}]}"},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo','MessageGroupId':''}",
         "InvalidParameterValueException: Value  for parameter MessageGroupId is invalid. Reason: MessageGroupId can "
         "only include alphanumeric and punctuation characters. 1 to 128 in length."},
        {"Tally.PauseQueue", "{'QueueUrl':'l.fifo'}", ""},
        {"Tally.ListGroups", "{'QueueUrl':'l.fifo'}",
         "{'Groups':[{'MessageGroupId':'a','State':'ready','Messages':2,'InFlight':0,'Reason':'the queue is "
         "paused','HeadMessageId':'<15>'},{'MessageGroupId':'b','State':'ready','Messages':1,'InFlight':0,'Reason':'"
         "the queue is paused','HeadMessageId':'<18>'}]}"},
        {"SetQueueAttributes",
         "{'QueueUrl':'dead','Attributes':{'Tally.RateLimit':'{\\'queue\\':{\\'rate\\':0.1,\\'burst\\':1}}'}}", ""},
        {"SendMessage", "{'QueueUrl':'dead','MessageBody':'1'}",
         "{'MD5OfMessageBody':'c4ca4238a0b923820dcc509a6f75849b','MessageId':'<19>'}"},
        {"SendMessage", "{'QueueUrl':'dead','MessageBody':'2'}",
         "{'MD5OfMessageBody':'c81e728d9d4c2f636f067f89cc14862c','MessageId':'<20>'}"},
        {"ReceiveMessage", "{'QueueUrl':'dead','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<19>','ReceiptHandle':'<21>','MD5OfBody':'c4ca4238a0b923820dcc509a6f75849b','Body'"
         ":'1'}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'dead','MessageId':'<20>'}",
         "{'State':'blocked','Why':[{'Code':'QueueRate','Text':'Limited: the queue's rate lets the next one through at "
         "22:15:08Z.','Until':1700000108.5}]}"},
        {"SetQueueAttributes",
         "{'QueueUrl':'dead','Attributes':{'Tally.RateLimit':'{\\'group\\':{\\'rate\\':0.1,\\'burst\\':1}}'}}", ""},
        {"SendMessage", "{'QueueUrl':'dead','MessageBody':'1','MessageGroupId':'r'}",
         "{'MD5OfMessageBody':'c4ca4238a0b923820dcc509a6f75849b','MessageId':'<22>'}"},
        {"SendMessage", "{'QueueUrl':'dead','MessageBody':'2','MessageGroupId':'r'}",
         "{'MD5OfMessageBody':'c81e728d9d4c2f636f067f89cc14862c','MessageId':'<23>'}"},
        {"ReceiveMessage", "{'QueueUrl':'dead','MaxNumberOfMessages':2}",
         "{'Messages':[{'MessageId':'<20>','ReceiptHandle':'<24>','MD5OfBody':'c81e728d9d4c2f636f067f89cc14862c','Body'"
         ":'2'},{'MessageId':'<22>','ReceiptHandle':'<25>','MD5OfBody':'c4ca4238a0b923820dcc509a6f75849b','Body':'1'}]"
         "}"},
        {"ReceiveMessage", "{'QueueUrl':'dead','MaxNumberOfMessages':2}", "{}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'dead','MessageId':'<22>'}",
         "{'State':'in-flight','Why':[{'Code':'InFlight','Text':'It is in flight since 22:14:58Z (delivery 9) until "
         "22:15:28Z.','Since':1700000098.5,'Until':1700000128.5,'Delivery':9}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'dead','MessageId':'<23>'}",
         "{'State':'blocked','Why':[{'Code':'GroupRate','Text':'Limited: the group's rate lets the next one through at "
         "22:15:08Z.','Until':1700000108.5}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'dead','MessageId':'<24>'}", "{'State':'unknown','Why':[]}"},
        {"Tally.PutTypeOrder", "{'Name':'o','Types':['post','like']}",
         "{'Name':'o','Types':['post','like'],'Require':false}"},
        {"SendMessage",
         "{'QueueUrl':'q','MessageBody':'p','MessageGroupId':'t','MessageAttributes':{'Tally.Type':{'DataType':'String'"
         ",'StringValue':'post'}}}",
         "{'MD5OfMessageBody':'83878c91171338902e0fe0fb97a8c47a','MD5OfMessageAttributes':'"
         "ecaca973cbe805a7ea99a0ce885b50f7','MessageId':'<26>'}"},
        {"SendMessage",
         "{'QueueUrl':'q','MessageBody':'l','MessageGroupId':'t','MessageAttributes':{'Tally.Type':{'DataType':'String'"
         ",'StringValue':'like'}}}",
         "{'MD5OfMessageBody':'2db95e8e1a9267b7a1188556b2013b33','MD5OfMessageAttributes':'"
         "5a10e1c99db12a77c6b4513e1812a603','MessageId':'<27>'}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<26>'}", "{'State':'ready','Why':[]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<27>'}",
         "{'State':'blocked','Why':[{'Code':'TypeOrder','Text':'It waits for message <26> of type 'post', which a type "
         "order puts first.','MessageId':'<26>','Type':'post','Since':1700000098.5}]}"},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'x'}", "{'State':'unknown','Why':[]}"},
        {NULL, "90000000", ""},
        {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<26>'}", "{'State':'ready','Why':[]}"},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void schedules_and_type_orders_are_described(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'t'}", "{'QueueUrl':'http://localhost/000000000000/t'}"},
        {"CreateQueue", "{'QueueName':'t.fifo','Attributes':{'FifoQueue':'true'}}",
         "{'QueueUrl':'http://localhost/000000000000/t.fifo'}"},
        {"Tally.PutSchedule", "{'Name':'a','Cron':'0 12 * * *','QueueUrl':'t','MessageBody':'tick'}",
         "{'Name':'a','NextAt':1700049600.0,'Paused':false}"},
        {"Tally.PutSchedule",
         "{'Name':'a.b-c','Cron':'@daily','TimeZone':'Europe/"
         "Berlin','CatchUp':'all','QueueUrl':'t.fifo','MessageGroupId':'g','MessageBody':'tock','MessageAttributes':{'"
         "n':{'DataType':'Number','StringValue':'1'}}}",
         "{'Name':'a.b-c','NextAt':1700002800.0,'Paused':false}"},
        {"Tally.PutSchedule", "{'Name':'never','Cron':'0 0 30 2 *','CatchUp':'none','QueueUrl':'t','MessageBody':'x'}",
         "{'Name':'never','Paused':false}"},
        {"Tally.DescribeSchedule", "{'Name':'a'}",
         "{'Name':'a','NextAt':1700049600.0,'Paused':false,'Cron':'0 12 * * "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/"
         "t','CatchUp':'one','MessageBody':'tick','MessageAttributes':{'Tally.Schedule':{'StringValue':'a','DataType':'"
         "String'}},'MD5OfMessageAttributes':'02920e7f54efd9e85a8881337bbd3269'}"},
        {"Tally.DescribeSchedule", "{'Name':'a.b-c'}",
         "{'Name':'a.b-c','NextAt':1700002800.0,'Paused':false,'Cron':'@daily','TimeZone':'Europe/"
         "Berlin','QueueUrl':'http://localhost/000000000000/"
         "t.fifo','CatchUp':'all','MessageBody':'tock','MessageGroupId':'g','MessageAttributes':{'Tally.Schedule':{'"
         "StringValue':'a.b-c','DataType':'String'},'n':{'StringValue':'1','DataType':'Number'}},'"
         "MD5OfMessageAttributes':'0c322bc5ad6122154383d6b9fc2b2db4'}"},
        {"Tally.DescribeSchedule", "{'Name':'never'}",
         "{'Name':'never','Paused':false,'Cron':'0 0 30 2 "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/"
         "t','CatchUp':'none','MessageBody':'x','MessageAttributes':{'Tally.Schedule':{'StringValue':'never','DataType'"
         ":'String'}},'MD5OfMessageAttributes':'f2727abddeb0cbb2247c8d12cc8a2143'}"},
        {"Tally.ListSchedules", "{}",
         "{'Schedules':[{'Name':'a','NextAt':1700049600.0,'Paused':false,'Cron':'0 12 * * "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/"
         "t','CatchUp':'one'},{'Name':'a.b-c','NextAt':1700002800.0,'Paused':false,'Cron':'@daily','TimeZone':'Europe/"
         "Berlin','QueueUrl':'http://localhost/000000000000/"
         "t.fifo','CatchUp':'all'},{'Name':'never','Paused':false,'Cron':'0 0 30 2 "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/t','CatchUp':'none'}]}"},
        {"Tally.ListSchedules", "{'MaxResults':2}",
         "{'Schedules':[{'Name':'a','NextAt':1700049600.0,'Paused':false,'Cron':'0 12 * * "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/"
         "t','CatchUp':'one'},{'Name':'a.b-c','NextAt':1700002800.0,'Paused':false,'Cron':'@daily','TimeZone':'Europe/"
         "Berlin','QueueUrl':'http://localhost/000000000000/t.fifo','CatchUp':'all'}],'NextToken':'<page>'}"},
        {"Tally.ListSchedules", "{'MaxResults':3}",
         "{'Schedules':[{'Name':'a','NextAt':1700049600.0,'Paused':false,'Cron':'0 12 * * "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/"
         "t','CatchUp':'one'},{'Name':'a.b-c','NextAt':1700002800.0,'Paused':false,'Cron':'@daily','TimeZone':'Europe/"
         "Berlin','QueueUrl':'http://localhost/000000000000/"
         "t.fifo','CatchUp':'all'},{'Name':'never','Paused':false,'Cron':'0 0 30 2 "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/t','CatchUp':'none'}]}"},
        {"Tally.ListSchedules", "{'Prefix':'a.'}",
         "{'Schedules':[{'Name':'a.b-c','NextAt':1700002800.0,'Paused':false,'Cron':'@daily','TimeZone':'Europe/"
         "Berlin','QueueUrl':'http://localhost/000000000000/t.fifo','CatchUp':'all'}]}"},
        {"Tally.ListSchedules", "{'NextToken':'<page>'}",
         "{'Schedules':[{'Name':'never','Paused':false,'Cron':'0 0 30 2 "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/t','CatchUp':'none'}]}"},
        {"Tally.PauseSchedule", "{'Name':'a'}", "{'Name':'a','Paused':true}"},
        {"Tally.PutSchedule", "{'Name':'a','Cron':'0 12 * * *','QueueUrl':'t','MessageBody':'tick'}",
         "{'Name':'a','Paused':true}"},
        {"Tally.ResumeSchedule", "{'Name':'a'}", "{'Name':'a','NextAt':1700049600.0,'Paused':false}"},
        {"Tally.ResumeSchedule", "{'Name':'a'}", "{'Name':'a','NextAt':1700049600.0,'Paused':false}"},
        {NULL, "86400000", ""},
        {"Tally.DescribeSchedule", "{'Name':'a'}",
         "{'Name':'a','NextAt':1700136000.0,'Paused':false,'Cron':'0 12 * * "
         "*','TimeZone':'UTC','QueueUrl':'http://localhost/000000000000/"
         "t','CatchUp':'one','LastAt':1700049600.0,'LastMessageId':'<1>','MessageBody':'tick','MessageAttributes':{'"
         "Tally.Schedule':{'StringValue':'a','DataType':'String'}},'MD5OfMessageAttributes':'"
         "02920e7f54efd9e85a8881337bbd3269'}"},
        {"ReceiveMessage",
         "{'QueueUrl':'t','MaxNumberOfMessages':1,'MessageAttributeNames':['All','Tally.*'],'AttributeNames':['All']}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<2>','MD5OfBody':'e5e5c0754f1e26bf915455e21cf2eba5','Body':'"
         "tick','Attributes':{'SenderId':'000000000000','SentTimestamp':'1700049600000','ApproximateReceiveCount':'1','"
         "ApproximateFirstReceiveTimestamp':'1700086400000','MessageDeduplicationId':'a/"
         "1700049600'},'MessageAttributes':{'Tally.FencingToken':{'StringValue':'1','DataType':'Number'},'Tally."
         "Schedule':{'StringValue':'a','DataType':'String'}},'MD5OfMessageAttributes':'"
         "8a7b09e448ce2993f92b67706068baa9'}]}"},
        {"Tally.DeleteSchedule", "{'Name':'a'}", ""},
        {"Tally.DescribeSchedule", "{'Name':'a'}", "ScheduleDoesNotExist: There is no schedule 'a'."},
        {"Tally.PutSchedule", "{'Name':'a b','Cron':'* * * * *','QueueUrl':'t','MessageBody':'x'}",
         "InvalidParameterValueException: Value a b for parameter Name is invalid. Reason: It must be 1 to 80 letters, "
         "digits, hyphens, underscores and dots."},
        {"Tally.PutSchedule", "{'Name':'x','Cron':'* * * *','QueueUrl':'t','MessageBody':'x'}",
         "InvalidParameterValueException: Value * * * * for parameter Cron is invalid. Reason: It has 4 fields; it "
         "must have 5: minute, hour, day of the month, month, day of the week."},
        {"Tally.PutSchedule", "{'Name':'x','Cron':'* * * * *','TimeZone':'Mars','QueueUrl':'t','MessageBody':'x'}",
         "InvalidParameterValueException: Value Mars for parameter TimeZone is invalid. Reason: It must be a zone of "
         "the system's time-zone data, like UTC or Europe/Berlin."},
        {"Tally.PutSchedule", "{'Name':'x','Cron':'* * * * *','CatchUp':'some','QueueUrl':'t','MessageBody':'x'}",
         "InvalidParameterValueException: Value some for parameter CatchUp is invalid. Reason: It must be one, none or "
         "all."},
        {"Tally.PutSchedule", "{'Name':'x','Cron':'* * * * *','QueueUrl':'t.fifo','MessageBody':'x'}",
         "MissingRequiredParameterException: The request must contain the parameter MessageGroupId: messages of a FIFO "
         "queue have one."},
        {"Tally.PutSchedule", "{'Name':'x','Cron':'* * * * *','QueueUrl':'t','MessageBody':'\\u0001'}",
         "InvalidMessageContents: Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to "
         "#xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF."},
        {"Tally.PutSchedule",
         "{'Name':'x','Cron':'* * * * "
         "*','QueueUrl':'t','MessageBody':'x','MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'b'"
         "}}}",
         "InvalidParameterValueException: A schedule's MessageAttributes can't contain Tally.Batch: names that begin "
         "with Tally. are set by Tally."},
        {"Tally.PutTypeOrder", "{'Name':'o1','Types':['a','b','c']}",
         "{'Name':'o1','Types':['a','b','c'],'Require':false}"},
        {"Tally.PutTypeOrder", "{'Name':'o2','Types':['x','y']}", "{'Name':'o2','Types':['x','y'],'Require':false}"},
        {"Tally.PutTypeOrder", "{'Name':'o1','Types':['a','b','c']}",
         "{'Name':'o1','Types':['a','b','c'],'Require':false}"},
        {"Tally.PutTypeOrder", "{'Name':'o3','Types':['b','a']}",
         "TypeOrderConflict: Type order 'o3' contradicts what is in force: \"a\" before \"b\" (order \"o1\"). Change "
         "the list, or delete that order first."},
        {"Tally.ListTypeOrders", "{}",
         "{'TypeOrders':[{'Name':'o1','Types':['a','b','c'],'Require':false},{'Name':'o2','Types':['x','y'],'Require':"
         "false}]}"},
        {"Tally.ListTypeOrders", "{'MaxResults':1}",
         "{'TypeOrders':[{'Name':'o1','Types':['a','b','c'],'Require':false}],'NextToken':'<page>'}"},
        {"Tally.ListTypeOrders", "{'MaxResults':2}",
         "{'TypeOrders':[{'Name':'o1','Types':['a','b','c'],'Require':false},{'Name':'o2','Types':['x','y'],'Require':"
         "false}]}"},
        {"Tally.ListTypeOrders", "{'NextToken':'6f32'}",
         "InvalidParameterValueException: Invalid or expired next token."},
        {"Tally.DeleteTypeOrder", "{'Name':'o1'}", ""},
        {"Tally.DeleteTypeOrder", "{'Name':'o1'}", "TypeOrderDoesNotExist: There is no type order 'o1'."},
        {"Tally.ListTypeOrders", "{}", "{'TypeOrders':[{'Name':'o2','Types':['x','y'],'Require':false}]}"},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void pools_and_tickets_are_described(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'results'}", "{'QueueUrl':'http://localhost/000000000000/results'}"},
        {"CreateQueue", "{'QueueName':'expired'}", "{'QueueUrl':'http://localhost/000000000000/expired'}"},
        {"Tally.CreatePool",
         "{'PoolName':'p','ResultQueueUrl':'results','OnExpiryQueueUrl':'expired','Matcher':'external','Attributes':{'"
         "mmr':'num','mode':'str'},'Rules':[{'type':'equal','attr':'mode'}],'Size':2,'ConfirmSeconds':30,'"
         "RetentionSeconds':60,'ResultsMax':200}",
         "{'PoolName':'p','RulesVersion':1}"},
        {"Tally.CreatePool", "{'PoolName':'q','ResultQueueUrl':'results'}",
         "{'PoolName':'q','RulesVersion':1,'Warnings':['The rules name no attribute to search by (equal, pairs, near "
         "or share; of these only near with \\'missing\\': \\'any\\'): each look goes through all tickets.']}"},
        {"Tally.DescribePool", "{'PoolName':'p'}",
         "{'PoolName':'p','ResultQueueUrl':'http://localhost/000000000000/results','OnExpiryQueueUrl':'http://"
         "localhost/000000000000/"
         "expired','Matcher':'external','WindowMilliseconds':0,'TicketTtlSeconds':0,'ConfirmSeconds':30,'Verify':false,"
         "'ResultsMax':200,'RetentionSeconds':60,'Attributes':{'mmr':'num','mode':'str'},'Rules':[{'type':'equal','"
         "attr':'mode'}],'Size':2,'Pick':'oldest','RulesVersion':1,'Plan':'bucket(mode)','Sequence':0,'Tickets':{'"
         "Offered':0,'Waiting':0,'Held':0,'Matched':0,'Cancelled':0,'Expired':0,'AlreadyOffered':0},'Weight':0,'"
         "Matches':0,'PutBacks':0,'Conflicts':0,'Stale':0,'Probes':0,'Candidates':0,'BudgetStops':0,'ExpressionErrors':"
         "0,'Seeds':0,'WaitedMs':{'P50':0,'P90':0,'P99':0,'Max':0},'Levels':[{'Matched':0,'P50':0,'P90':0,'P99':0,'Max'"
         ":0}]}"},
        {"Tally.DescribePool", "{'PoolName':'q'}",
         "{'PoolName':'q','ResultQueueUrl':'http://localhost/000000000000/"
         "results','Matcher':'built-in','WindowMilliseconds':0,'TicketTtlSeconds':0,'ConfirmSeconds':0,'Verify':false,'"
         "ResultsMax':0,'RetentionSeconds':86400,'Attributes':{},'Rules':[],'Size':2,'Pick':'oldest','RulesVersion':1,'"
         "Plan':'all','Warnings':['The rules name no attribute to search by (equal, pairs, near or share; of these "
         "only near with \\'missing\\': \\'any\\'): each look goes through all "
         "tickets.'],'Sequence':0,'Tickets':{'Offered':0,'Waiting':0,'Held':0,'Matched':0,'Cancelled':0,'Expired':0,'"
         "AlreadyOffered':0},'Weight':0,'Matches':0,'PutBacks':0,'Conflicts':0,'Stale':0,'Probes':0,'Candidates':0,'"
         "BudgetStops':0,'ExpressionErrors':0,'Seeds':0,'WaitedMs':{'P50':0,'P90':0,'P99':0,'Max':0},'Levels':[{'"
         "Matched':0,'P50':0,'P90':0,'P99':0,'Max':0}]}"},
        {"Tally.ListPools", "{}",
         "{'Pools':[{'PoolName':'p','Waiting':0,'RulesVersion':1},{'PoolName':'q','Waiting':0,'RulesVersion':1}]}"},
        {"Tally.ListPools", "{'MaxResults':1}",
         "{'Pools':[{'PoolName':'p','Waiting':0,'RulesVersion':1}],'NextToken':'<page>'}"},
        {"Tally.ListPools", "{'MaxResults':2}",
         "{'Pools':[{'PoolName':'p','Waiting':0,'RulesVersion':1},{'PoolName':'q','Waiting':0,'RulesVersion':1}]}"},
        {"Tally.OfferTickets",
         "{'PoolName':'p','Tickets':[{'TicketId':'a','Attributes':{'mmr':1.5,'mode':'x'},'Body':'hello','TtlSeconds':"
         "100},{'TicketId':'b','Attributes':{'mmr':2,'mode':'x'},'ExclusiveSet':'s'},{'TicketId':'c','Attributes':{'"
         "mode':'y'}},{'TicketId':'a'}]}",
         "{'Results':[{'TicketId':'a','Status':'waiting','Version':1,'AlreadyOffered':false},{'TicketId':'b','Status':'"
         "waiting','Version':1,'AlreadyOffered':false},{'TicketId':'c','Status':'waiting','Version':1,'AlreadyOffered':"
         "false},{'TicketId':'a','Status':'key-reused','AlreadyOffered':true,'Why':'The TicketId was offered before "
         "with other arguments.'}]}"},
        {"Tally.OfferTickets",
         "{'PoolName':'p','Tickets':[{'TicketId':'a','Attributes':{'mmr':1.5,'mode':'x'},'Body':'hello','TtlSeconds':"
         "100}]}",
         "{'Results':[{'TicketId':'a','Status':'waiting','Version':1,'AlreadyOffered':true}]}"},
        {"Tally.GetTicket", "{'PoolName':'p','TicketId':'a'}",
         "{'Status':'waiting','TicketId':'a','Version':1,'Part':1,'Attributes':{'mmr':1.5,'mode':'x'},'Weight':1,'"
         "Priority':0,'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0,'Body':'hello'}"},
        {"Tally.GetTicket", "{'PoolName':'p','TicketId':'b'}",
         "{'Status':'waiting','TicketId':'b','Version':1,'Part':14,'Attributes':{'mmr':2,'mode':'x'},'Weight':1,'"
         "Priority':0,'ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':0}"},
        {"Tally.GetTicket", "{'PoolName':'p','TicketId':'c'}",
         "{'Status':'waiting','TicketId':'c','Version':1,'Part':45,'Attributes':{'mode':'y'},'Weight':1,'Priority':0,'"
         "OfferedAt':1700000000.0,'Level':0}"},
        {"Tally.GetTicket", "{'PoolName':'p','TicketId':'z'}", "TicketDoesNotExist: Pool 'p' knows no ticket 'z'."},
        {"Tally.ListTickets", "{'PoolName':'p'}",
         "{'Tickets':[{'TicketId':'a','Version':1,'Part':1,'Attributes':{'mmr':1.5,'mode':'x'},'Weight':1,'Priority':0,"
         "'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0},{'TicketId':'b','Version':1,'Part':14,'"
         "Attributes':{'mmr':2,'mode':'x'},'Weight':1,'Priority':0,'ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':"
         "0},{'TicketId':'c','Version':1,'Part':45,'Attributes':{'mode':'y'},'Weight':1,'Priority':0,'OfferedAt':"
         "1700000000.0,'Level':0}],'Sequence':3,'RulesVersion':1}"},
        {"Tally.ListTickets", "{'PoolName':'p','MaxResults':2}",
         "{'Tickets':[{'TicketId':'a','Version':1,'Part':1,'Attributes':{'mmr':1.5,'mode':'x'},'Weight':1,'Priority':0,"
         "'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0},{'TicketId':'b','Version':1,'Part':14,'"
         "Attributes':{'mmr':2,'mode':'x'},'Weight':1,'Priority':0,'ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':"
         "0}],'Sequence':3,'RulesVersion':1,'NextToken':'<page>'}"},
        {"Tally.ListTickets", "{'PoolName':'p','MaxResults':3}",
         "{'Tickets':[{'TicketId':'a','Version':1,'Part':1,'Attributes':{'mmr':1.5,'mode':'x'},'Weight':1,'Priority':0,"
         "'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0},{'TicketId':'b','Version':1,'Part':14,'"
         "Attributes':{'mmr':2,'mode':'x'},'Weight':1,'Priority':0,'ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':"
         "0},{'TicketId':'c','Version':1,'Part':45,'Attributes':{'mode':'y'},'Weight':1,'Priority':0,'OfferedAt':"
         "1700000000.0,'Level':0}],'Sequence':3,'RulesVersion':1}"},
        {"Tally.CountTickets", "{'PoolName':'p'}", "{'Tickets':3,'Weight':3}"},
        {"Tally.UpdateTicket", "{'PoolName':'p','TicketId':'c','Attributes':{'mode':'x','mmr':7}}",
         "{'TicketId':'c','Status':'waiting','Version':2}"},
        {"Tally.FeedTickets", "{'PoolName':'p','From':0,'MaxResults':20}",
         "{'Events':[{'Sequence':1,'Type':'offer','TicketId':'a','Version':1,'Part':1,'Attributes':{'mmr':1.5,'mode':'"
         "x'},'Weight':1,'Priority':0,'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0},{'Sequence':2,'Type'"
         ":'offer','TicketId':'b','Version':1,'Part':14,'Attributes':{'mmr':2,'mode':'x'},'Weight':1,'Priority':0,'"
         "ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':0},{'Sequence':3,'Type':'offer','TicketId':'c','Version':"
         "2,'Part':45,'Attributes':{'mode':'x','mmr':7},'Weight':1,'Priority':0,'OfferedAt':1700000000.0,'Level':0},{'"
         "Sequence':4,'Type':'offer','TicketId':'c','Version':2,'Part':45,'Attributes':{'mode':'x','mmr':7},'Weight':1,"
         "'Priority':0,'OfferedAt':1700000000.0,'Level':0}],'Next':5}"},
        {"Tally.FeedTickets", "{'PoolName':'p','From':1,'MaxResults':2}",
         "{'Events':[{'Sequence':1,'Type':'offer','TicketId':'a','Version':1,'Part':1,'Attributes':{'mmr':1.5,'mode':'"
         "x'},'Weight':1,'Priority':0,'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0},{'Sequence':2,'Type'"
         ":'offer','TicketId':'b','Version':1,'Part':14,'Attributes':{'mmr':2,'mode':'x'},'Weight':1,'Priority':0,'"
         "ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':0}],'Next':3}"},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'a'}",
         "{'TicketId':'a','Status':'waiting','Level':0,'Rules':[{'Rule':'equal(mode)'}],'ExpiresAt':1700000100.0,'"
         "Candidates':2,'Fits':2,'Rejects':[],'Conflicts':0,'Complete':true}"},
        {"Tally.ExplainTicket", "{'PoolName':'q','TicketId':'a'}", "TicketDoesNotExist: Pool 'q' knows no ticket 'a'."},
        {"Tally.ProposeMatches",
         "{'PoolName':'p','Proposals':[{'ProposalId':'1','Members':[{'TicketId':'a','Version':1},{'TicketId':'b','"
         "Version':1}]},{'ProposalId':'2','Members':[{'TicketId':'a','Version':1},{'TicketId':'c','Version':1}]},{'"
         "ProposalId':'3','Members':[{'TicketId':'c','Version':1}]}]}",
         "{'Results':[{'ProposalId':'1','Status':'matched','MatchId':'<1>'},{'ProposalId':'2','Status':'conflict','"
         "Members':[{'TicketId':'a','Why':'held','MatchId':'<1>','Version':1},{'TicketId':'c','Why':'stale','Version':"
         "2}]},{'ProposalId':'3','Status':'invalid','Why':'The members' weights are not 2 together.'}]}"},
        {"Tally.GetTicket", "{'PoolName':'p','TicketId':'a'}",
         "{'Status':'held','MatchId':'<1>','TicketId':'a','Version':1,'Part':1,'Attributes':{'mmr':1.5,'mode':'x'},'"
         "Weight':1,'Priority':0,'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0,'Body':'hello'}"},
        {"Tally.CountTickets", "{'PoolName':'p'}", "{'Tickets':1,'Weight':1}"},
        {"Tally.ExplainTicket", "{'PoolName':'p','TicketId':'a'}", "{'TicketId':'a','Status':'held','MatchId':'<1>'}"},
        {"Tally.ConfirmMatch", "{'PoolName':'p','MatchId':'<1>','TicketId':'a','Accept':true}",
         "{'MatchId':'<1>','Status':'held'}"},
        {"Tally.ConfirmMatch", "{'PoolName':'p','MatchId':'<1>','TicketId':'b','Accept':true}",
         "{'MatchId':'<1>','Status':'matched'}"},
        {"Tally.GetTicket", "{'PoolName':'p','TicketId':'a'}",
         "{'Status':'matched','MatchId':'<1>','TicketId':'a','Version':1,'Part':1,'Attributes':{'mmr':1.5,'mode':'x'},'"
         "Weight':1,'Priority':0,'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0,'Body':'hello'}"},
        {"ReceiveMessage", "{'QueueUrl':'results','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<1>','ReceiptHandle':'<2>','MD5OfBody':'857a83eda79206d3c38f06a70b58e4ed','Body':'"
         "{\\'pool\\':\\'p\\',\\'match\\':\\'<1>\\',\\'members\\':[{\\'ticket\\':\\'a\\',\\'attributes\\':{\\'mmr\\':1."
         "5,\\'mode\\':\\'x\\'},\\'body\\':\\'hello\\',\\'waitedMs\\':0},{\\'ticket\\':\\'b\\',\\'attributes\\':{\\'"
         "mmr\\':2,\\'mode\\':\\'x\\'},\\'body\\':null,\\'waitedMs\\':0}]}'}]}"},
        {"Tally.PutBackMatch", "{'PoolName':'p','MatchId':'<1>'}", "{'MatchId':'<1>','Status':'put-back'}"},
        {"Tally.DescribePool", "{'PoolName':'p'}",
         "{'PoolName':'p','ResultQueueUrl':'http://localhost/000000000000/results','OnExpiryQueueUrl':'http://"
         "localhost/000000000000/"
         "expired','Matcher':'external','WindowMilliseconds':0,'TicketTtlSeconds':0,'ConfirmSeconds':30,'Verify':false,"
         "'ResultsMax':200,'RetentionSeconds':60,'Attributes':{'mmr':'num','mode':'str'},'Rules':[{'type':'equal','"
         "attr':'mode'}],'Size':2,'Pick':'oldest','RulesVersion':1,'Plan':'bucket(mode)','Sequence':10,'Tickets':{'"
         "Offered':3,'Waiting':3,'Held':0,'Matched':0,'Cancelled':0,'Expired':0,'AlreadyOffered':1},'"
         "OldestOfferedAt':1700000000.0,'Weight':3,'"
         "Matches':1,'PutBacks':1,'Conflicts':1,'Stale':0,'Probes':0,'Candidates':0,'BudgetStops':0,'ExpressionErrors':"
         "0,'Seeds':0,'WaitedMs':{'P50':0,'P90':0,'P99':0,'Max':0},'Levels':[{'Matched':2,'P50':0,'P90':0,'P99':0,'Max'"
         ":0}]}"},
        {"Tally.CancelTickets", "{'PoolName':'p','TicketIds':['c','z']}",
         "{'Results':[{'TicketId':'c','Status':'cancelled'},{'TicketId':'z','Status':'unknown'}]}"},
        {"Tally.CountTickets", "{'PoolName':'p'}", "{'Tickets':2,'Weight':2}"},
        {"Tally.FeedTickets", "{'PoolName':'p','From':0,'MaxResults':50}",
         "{'Events':[{'Sequence':1,'Type':'offer','TicketId':'a','Version':2,'Part':1,'Attributes':{'mmr':1.5,'mode':'"
         "x'},'Weight':1,'Priority':0,'OfferedAt':1700000000.0,'ExpiresAt':1700000100.0,'Level':0},{'Sequence':2,'Type'"
         ":'offer','TicketId':'b','Version':2,'Part':14,'Attributes':{'mmr':2,'mode':'x'},'Weight':1,'Priority':0,'"
         "ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':0},{'Sequence':3,'Type':'retire','TicketId':'c','Reason':'"
         "cancel'},{'Sequence':4,'Type':'retire','TicketId':'c','Reason':'cancel'},{'Sequence':5,'Type':'retire','"
         "TicketId':'a','Reason':'hold','MatchId':'<1>'},{'Sequence':6,'Type':'retire','TicketId':'b','Reason':'hold','"
         "MatchId':'<1>'},{'Sequence':7,'Type':'retire','TicketId':'a','Reason':'match','MatchId':'<1>'},{'Sequence':8,"
         "'Type':'retire','TicketId':'b','Reason':'match','MatchId':'<1>'},{'Sequence':9,'Type':'offer','TicketId':'a',"
         "'Version':2,'Part':1,'Attributes':{'mmr':1.5,'mode':'x'},'Weight':1,'Priority':0,'OfferedAt':1700000000.0,'"
         "ExpiresAt':1700000100.0,'Level':0},{'Sequence':10,'Type':'offer','TicketId':'b','Version':2,'Part':14,'"
         "Attributes':{'mmr':2,'mode':'x'},'Weight':1,'Priority':0,'ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':"
         "0},{'Sequence':11,'Type':'retire','TicketId':'c','Reason':'cancel'}],'Next':12}"},
        {NULL, "100000", ""},
        {"ReceiveMessage", "{'QueueUrl':'expired','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<3>','ReceiptHandle':'<4>','MD5OfBody':'d82dabeedca051473e41ad0fd9b86a5e','Body':'"
         "{\\'pool\\':\\'p\\',\\'ticket\\':\\'a\\',\\'attributes\\':{\\'mmr\\':1.5,\\'mode\\':\\'x\\'},\\'body\\':\\'"
         "hello\\',\\'waitedMs\\':100000}'}]}"},
        {"Tally.CountTickets", "{'PoolName':'p'}", "{'Tickets':1,'Weight':1}"},
        {"Tally.ListTickets", "{'PoolName':'p'}",
         "{'Tickets':[{'TicketId':'b','Version':2,'Part':14,'Attributes':{'mmr':2,'mode':'x'},'Weight':1,'Priority':0,'"
         "ExclusiveSet':'s','OfferedAt':1700000000.0,'Level':0}],'Sequence':12,'RulesVersion':1}"},
        {"Tally.UpdatePool",
         "{'PoolName':'p','Rules':[{'type':'near','attr':'mmr','max':3,'expand':[{'after':'1s','max':9}]}]}",
         "{'PoolName':'p','RulesVersion':2}"},
        {"Tally.DescribePool", "{'PoolName':'p'}",
         "{'PoolName':'p','ResultQueueUrl':'http://localhost/000000000000/results','OnExpiryQueueUrl':'http://"
         "localhost/000000000000/"
         "expired','Matcher':'external','WindowMilliseconds':0,'TicketTtlSeconds':0,'ConfirmSeconds':30,'Verify':false,"
         "'ResultsMax':200,'RetentionSeconds':60,'Attributes':{'mmr':'num','mode':'str'},'Rules':[{'type':'near','attr'"
         ":'mmr','max':3,'expand':[{'after':'1s','max':9}]}],'Size':2,'Pick':'oldest','RulesVersion':2,'Plan':'window("
         "mmr)','Sequence':13,'Tickets':{'Offered':3,'Waiting':1,'Held':0,'Matched':0,'Cancelled':1,'Expired':1,'"
         "AlreadyOffered':1},'OldestOfferedAt':1700000000.0,'Weight':1,'Matches':1,'PutBacks':1,'Conflicts':1,'Stale':"
         "0,'Probes':0,'Candidates':0,'"
         "BudgetStops':0,'ExpressionErrors':0,'Seeds':0,'WaitedMs':{'P50':0,'P90':0,'P99':0,'Max':0},'Levels':[{'"
         "Matched':2,'P50':0,'P90':0,'P99':0,'Max':0},{'Matched':0,'P50':0,'P90':0,'P99':0,'Max':0}]}"},
        {"Tally.DeletePool", "{'PoolName':'p'}", ""},
        {"Tally.DescribePool", "{'PoolName':'p'}", "PoolDoesNotExist: There is no pool 'p'."},
    };
    play(steps, ARRAY_LENGTH(steps));
}

static void publishers_commits_and_moves_say_what_they_did(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {"CreateQueue", "{'QueueName':'a'}", "{'QueueUrl':'http://localhost/000000000000/a'}"},
        {"CreateQueue", "{'QueueName':'dead'}", "{'QueueUrl':'http://localhost/000000000000/dead'}"},
        {"CreateQueue",
         "{'QueueName':'src','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:"
         "000000000000:dead\\',\\'maxReceiveCount\\':1}'}}",
         "{'QueueUrl':'http://localhost/000000000000/src'}"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':7,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
         "}",
         "{'Accepted':true,'Epoch':7,'Owner':'<1>','LastBatch':0,'Unconfirmed':[]}"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':7,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'a','"
         "MessageBody':'a'},{'Id':2,'Uid':'00000000-0000-4000-8000-000000000002','QueueUrl':'none','MessageBody':'a'},{"
         "'Id':3,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'a','MessageBody':'a'}]}",
         "{'Results':[{'Id':2,'Status':'blocked','Code':'AWS.SimpleQueueService.NonExistentQueue','Message':'The "
         "specified queue does not exist. Namespace 000000000000 has no queue "
         "'none'.'},{'Id':3,'Status':'duplicate'}],'Stored':1}"},
        {"Tally.Publish",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':7,'Owner':'aaaa0000-0000-4000-8000-000000000001',"
         "'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'a','"
         "MessageBody':'a'},{'Id':2,'Uid':'00000000-0000-4000-8000-000000000002','QueueUrl':'none','MessageBody':'a'},{"
         "'Id':3,'Uid':'00000000-0000-4000-8000-000000000001','QueueUrl':'a','MessageBody':'a'}]}",
         "{'Results':[{'Id':1,'Status':'duplicate'},{'Id':2,'Status':'blocked','Code':'AWS.SimpleQueueService."
         "NonExistentQueue','Message':'The specified queue does not exist. Namespace 000000000000 has no queue "
         "'none'.'},{'Id':3,'Status':'duplicate'}],'Stored':0}"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':6,'Owner':'aaaa0000-0000-4000-8000-000000000002'"
         "}",
         "{'Accepted':false,'Epoch':7,'Owner':'<1>','LastBatch':1}"},
        {"Tally.OpenPublisher",
         "{'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':8,'Owner':'aaaa0000-0000-4000-8000-000000000002'"
         "}",
         "{'Accepted':true,'Epoch':8,'Owner':'<2>','LastBatch':1,'Unconfirmed':[{'Id':1,'Uid':'<3>'}]}"},
        {"ReceiveMessage", "{'QueueUrl':'a','MaxNumberOfMessages':1}",
         "{'Messages':[{'MessageId':'<4>','ReceiptHandle':'<5>','MD5OfBody':'0cc175b9c0f1b6a831c399e269772661','Body':'"
         "a'}]}"},
        {"SendMessage", "{'QueueUrl':'src','MessageBody':'s'}",
         "{'MD5OfMessageBody':'03c7c0ace395d80182db07ae2c30f034','MessageId':'<6>'}"},
        {"ReceiveMessage", "{'QueueUrl':'src','MaxNumberOfMessages':1,'VisibilityTimeout':0}",
         "{'Messages':[{'MessageId':'<6>','ReceiptHandle':'<7>','MD5OfBody':'03c7c0ace395d80182db07ae2c30f034','Body':'"
         "s'}]}"},
        {"ReceiveMessage", "{'QueueUrl':'src','MaxNumberOfMessages':1}", "{}"},
        {"ReceiveMessage",
         "{'QueueUrl':'dead','MaxNumberOfMessages':1,'VisibilityTimeout':0,'AttributeNames':['All'],'"
         "MessageAttributeNames':['Tally.*']}",
         "{'Messages':[{'MessageId':'<6>','ReceiptHandle':'<8>','MD5OfBody':'03c7c0ace395d80182db07ae2c30f034','Body':'"
         "s','Attributes':{'SenderId':'000000000000','SentTimestamp':'1700000000000','ApproximateReceiveCount':'2','"
         "ApproximateFirstReceiveTimestamp':'1700000000000','DeadLetterQueueSourceArn':'arn:aws:sqs:us-east-1:"
         "000000000000:src'},'MessageAttributes':{'Tally.FencingToken':{'StringValue':'3','DataType':'Number'}},'"
         "MD5OfMessageAttributes':'e8c5a1a199ce6d59bc5d3554df220375'}]}"},
        {"StartMessageMoveTask",
         "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead','MaxNumberOfMessagesPerSecond':5}",
         "{'TaskHandle':'"
         "eyJ0YXNrSWQiOiIwMzUwZjc3ZS0wNmVlLThiYmItOTU4Mi03YmE5NDBmMTI5MWEiLCJzb3VyY2VBcm4iOiJhcm46YXdzOnNxczp1cy1lYXN0L"
         "TE6MDAwMDAwMDAwMDAwOmRlYWQifQ=='}"},
        {"ListMessageMoveTasks", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead','MaxResults':10}",
         "{'Results':[{'TaskHandle':'"
         "eyJ0YXNrSWQiOiIwMzUwZjc3ZS0wNmVlLThiYmItOTU4Mi03YmE5NDBmMTI5MWEiLCJzb3VyY2VBcm4iOiJhcm46YXdzOnNxczp1cy1lYXN0L"
         "TE6MDAwMDAwMDAwMDAwOmRlYWQifQ==','Status':'RUNNING','SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead','"
         "MaxNumberOfMessagesPerSecond':5,'ApproximateNumberOfMessagesMoved':0,'ApproximateNumberOfMessagesToMove':1,'"
         "StartedTimestamp':1700000000000}]}"},
        {NULL, "2000", ""},
        {"ListMessageMoveTasks", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead'}",
         "{'Results':[{'Status':'COMPLETED','SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead','"
         "MaxNumberOfMessagesPerSecond':5,'ApproximateNumberOfMessagesMoved':1,'ApproximateNumberOfMessagesToMove':1,'"
         "StartedTimestamp':1700000000000}]}"},
        {"StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:a'}",
         "InvalidParameterValueException: Source queue must be configured as a Dead Letter Queue."},
        {"StartMessageMoveTask",
         "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead','MaxNumberOfMessagesPerSecond':501}",
         "InvalidParameterValueException: Value 501 for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: "
         "Must be between 1 and 500, if provided."},
        {"StartMessageMoveTask",
         "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead','MaxNumberOfMessagesPerSecond':0}",
         "InvalidParameterValueException: Value 0 for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: Must "
         "be between 1 and 500, if provided."},
        {"StartMessageMoveTask", "{'SourceArn':'dead'}",
         "InvalidParameterValueException: You must use this format to specify the SourceArn: "
         "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"},
        {"StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs:us-east-1:000000000000:dead:x'}",
         "InvalidParameterValueException: You must use this format to specify the SourceArn: "
         "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"},
        {"StartMessageMoveTask", "{'SourceArn':'arn:aws:sqs::000000000000:dead'}",
         "InvalidParameterValueException: You must use this format to specify the SourceArn: "
         "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"},
        {"CancelMessageMoveTask", "{'TaskHandle':'x'}",
         "InvalidParameterValueException: Value for parameter TaskHandle is invalid."},
        {"Tally.CreateBatch", "{'BatchId':'b'}", "{'BatchId':'b','State':'open'}"},
        {"Tally.AddUnits", "{'BatchId':'b','Units':['u']}", "{'Added':1,'Total':1}"},
        {"Tally.Commit",
         "{'Sends':[{'QueueUrl':'a','MessageBody':'1'},{'QueueUrl':'a','MessageBody':'2','MessageAttributes':{'Tally."
         "Batch':{'DataType':'String','StringValue':'b'}}}],'Units':[{'BatchId':'b','Unit':'u'}],'Deletes':[]}",
         "{'Sends':[{'MD5OfMessageBody':'c4ca4238a0b923820dcc509a6f75849b','MessageId':'<9>'},{'MD5OfMessageBody':'"
         "c81e728d9d4c2f636f067f89cc14862c','MD5OfMessageAttributes':'8800ab04d5976f81e9aa8e98d3751eac','MessageId':'<"
         "10>'}],'Units':[{'BatchId':'b','Unit':'u','Recorded':true,'Completed':false}]}"},
        {"Tally.DescribeBatch", "{'BatchId':'b'}",
         "{'BatchId':'b','State':'open','Total':2,'Succeeded':1,'Failed':0,'Cancelled':0,'Remaining':1,'CreatedAt':"
         "1700000002.0,'Tracking':'exact','ExpiresAt':1701209602.0}"},
        {"Tally.Commit", "{}",
         "EmptyBatchRequest: A Commit needs at least one entry in Sends, Units, Deletes, AddUnits or CreateBatches."},
        {"Tally.Commit", "{'Sends':[{'QueueUrl':'none','MessageBody':'1'}]}",
         "QueueDoesNotExist: Sends[0]: The specified queue does not exist. Namespace 000000000000 has no queue "
         "'none'."},
        {"Tally.Commit", "{'Deletes':[{'QueueUrl':'a','ReceiptHandle':'x'}]}",
         "ReceiptHandleIsInvalid: Deletes[0]: \"x\" holds no message of this queue: the message was delivered again, "
         "its visibility timeout is over (for Holds, or on a FIFO queue), or it has ended, maybe by this very Commit "
         "sent before. Nothing was done."},
    };
    play(steps, ARRAY_LENGTH(steps));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_say_what_is_in_them),
        cmocka_unit_test(a_message_says_why_it_is_not_delivered),
        cmocka_unit_test(schedules_and_type_orders_are_described),
        cmocka_unit_test(pools_and_tickets_are_described),
        cmocka_unit_test(publishers_commits_and_moves_say_what_they_did),
    };
    return cmocka_run_group_tests_name("api: sessions", tests, NULL, NULL);
}
