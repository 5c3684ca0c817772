/* The story of the test of fields: requests of every action, which together name every field that an action knows. Each
 * is asked in the world that those before it have made. */
#ifndef TALLY_TESTS_UNIT_FIELDS_STORY_H
#define TALLY_TESTS_UNIT_FIELDS_STORY_H

struct told {
    const char *action; /* NULL: time passes, so many milliseconds as `body` says */
    const char *body;   /* <name> stands for a value that was kept */
    const char *keep;   /* "Member name name …": the first values of that member in the reply, by these names */
    const char *error;  /* that it must meet; NULL: none */
};

/* Most requests keep nothing. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define ARN "arn:aws:sqs:us-east-1:000000000000:"
#define TEXT_ATTRIBUTE(value) "{'DataType':'String','StringValue':'" value "'}"
#define NUMBER_ATTRIBUTE(value) "{'DataType':'Number','StringValue':'" value "'}"
#define REDRIVE(queue, count) "'{\\'deadLetterTargetArn\\':\\'" ARN queue "\\',\\'maxReceiveCount\\':" count "}'"
#define POLICY                                                                                                         \
    "'{\\'Version\\':\\'2012-10-17\\',\\'Statement\\':[{\\'Sid\\':\\'s\\',\\'Effect\\':\\'Allow\\',\\'Principal\\':"   \
    "\\'*\\',\\'Action\\':\\'SQS:SendMessage\\',\\'Resource\\':\\'*\\'}]}'"
#define BACKOFF "'{\\'min\\':2,\\'max\\':60,\\'factor\\':3,\\'jitter\\':0.5}'"
#define RATES "'{\\'queue\\':{\\'rate\\':100,\\'burst\\':50},\\'group\\':{\\'rate\\':0.5,\\'burst\\':2}}'"
#define CLAIM                                                                                                          \
    "'Publisher':'5eed0000-0000-4000-8000-000000000001','Epoch':7,'Owner':'aaaa0000-0000-4000-8000-000000000001'"
#define UID(digit) "'00000000-0000-4000-8000-00000000000" digit "'"
#define SCHEDULE                                                                                                       \
    "'Cron':'*/5 8-18 1,15 * 1-5','TimeZone':'Europe/Berlin','CatchUp':'all','QueueUrl':'q','MessageBody':'tick',"     \
    "'MessageGroupId':'g','MessageAttributes':{'a':" TEXT_ATTRIBUTE("b") "}"
#define RELAY                                                                                                          \
    "'Source':{'Type':'postgres','Connection':'host=a password=b','Table':'t','Pooler':true,'PublishAfterReplicas':1," \
    "'LeaseSeconds':30},'Sink':{'Type':'sqs','QueueUrl':'https://u:p@h/0/q?x=y','Region':'r','Credentials':{"          \
    "'AccessKeyId':'AK','SecretAccessKey':'S'},'Doubts':'park','Refused':'park','Url':'http://h/p','Mode':"            \
    "'at-least-once','TimeoutSeconds':5}"
#define DUEL                                                                                                           \
    "'Attributes':{'mode':'str','mmr':'num','maps':'set'},'Rules':[{'type':'equal','attr':'mode'},{'type':'near',"     \
    "'attr':'mmr','max':50,'agree':'either','missing':'any','scope':'pair','expand':[{'after':'10s','max':100},{"      \
    "'after':'20s','off':true}]},{'type':'share','attr':'maps','min':1,'expand':[{'after':'5s','min':0}]}],'Size':2,"  \
    "'Pick':'nearest:mmr'"
#define TEAMS                                                                                                          \
    "'Attributes':{'role':'str','mmr':'num'},'Rules':[{'type':'pairs','attr':'role','allow':[['a','b']]},{'type':"     \
    "'differ','attr':'role'},{'type':'expr','expr':'a.mmr + b.mmr < 100'},{'type':'team_near','attr':'mmr','max':9,"   \
    "'scope':'match'}],'Teams':[{'name':'red','size':1},{'name':'blue','size':2}],'Pick':'score:a.mmr - b.mmr'"

static const struct told story[] = {
    /* Queues. */
    {"CreateQueue", "{'QueueName':'dead','Attributes':{'RedriveAllowPolicy':'{\\'redrivePermission\\':\\'byQueue\\',"
                    "\\'sourceQueueArns\\':[\\'" ARN "q\\',\\'" ARN "full\\']}'}}"},
    {"CreateQueue", "{'QueueName':'dead.fifo','Attributes':{'FifoQueue':'true'}}"},
    {"CreateQueue",
     "{'QueueName':'full','Attributes':{'DelaySeconds':'1','MaximumMessageSize':'2048','"
     "MessageRetentionPeriod':'600',"
     "'ReceiveMessageWaitTimeSeconds':'2','VisibilityTimeout':'40','KmsDataKeyReusePeriodSeconds':'600',"
     "'KmsMasterKeyId':'key','SqsManagedSseEnabled':'false','RedrivePolicy':" REDRIVE(
         "dead", "3") ",'Policy':" POLICY ",'Tally.GroupConcurrency':'2','Tally.StaleReceipts':'refuse','"
                      "Tally.DeduplicationWindow':'60',"
                      "'Tally.DeliveryMode':'at-most-once','Tally.Backoff':" BACKOFF ",'Tally.RateLimit':" RATES
                      "},'tags':{'team':'a','cost':'b'}}"},
    {"CreateQueue",
     "{'QueueName':'f.fifo','Attributes':{'FifoQueue':'true','ContentBasedDeduplication':'false',"
     "'DeduplicationScope':'messageGroup','FifoThroughputLimit':'perMessageGroupId','Tally.StrictOrder':'"
     "true',"
     "'Tally.OnGroupFailure':'hold','Tally.StaleReceipts':'refuse','RedrivePolicy':" REDRIVE("dead.fifo", "2") "}}"},
    {"CreateQueue",
     "{'QueueName':'q','Attributes':{'VisibilityTimeout':'60','RedrivePolicy':" REDRIVE("dead", "3") "}}"},
    {"CreateQueue", "{'QueueName':'full','Attributes':{'VisibilityTimeout':'40','Tally.Backoff':" BACKOFF "}}"},
    {"CreateQueue", "{'QueueName':'done'}"},
    {"CreateQueue", "{'QueueName':'results','Attributes':{'Tally.DeduplicationWindow':'-1'}}"},
    {"SetQueueAttributes",
     "{'QueueUrl':'http://localhost/000000000000/"
     "full','Attributes':{'DelaySeconds':'2','Tally.RateLimit':'',"
     "'Tally.Backoff':'','RedriveAllowPolicy':'{\\'redrivePermission\\':\\'denyAll\\'}','Policy':'',"
     "'SqsManagedSseEnabled':'true','KmsMasterKeyId':'','Tally.DeliveryMode':'at-least-once'}}"},
    {"SetQueueAttributes", "{'QueueUrl':'f.fifo','Attributes':{'ContentBasedDeduplication':'true','"
                           "FifoThroughputLimit':'perQueue',"
                           "'DeduplicationScope':'queue','Tally.StrictOrder':'false','Tally.OnGroupFailure'"
                           ":'cancel-rest','FifoQueue':'true',"
                           "'RedriveAllowPolicy':'{\\'redrivePermission\\':\\'allowAll\\'}'}}"},
    {"SetQueueAttributes", "{'QueueUrl':'f.fifo','Attributes':{'ContentBasedDeduplication':'false','Tally."
                           "OnGroupFailure':'hold'}}"},
    {"GetQueueAttributes", "{'QueueUrl':'full','AttributeNames':['All']}"},
    {"GetQueueAttributes", "{'QueueUrl':'full','AttributeNames':['QueueArn','Tally.Backoff','Tally."
                           "RateLimit','DelaySeconds','RedrivePolicy',"
                           "'Tally.StaleReceipts','Tally.DeliveryMode','CreatedTimestamp','"
                           "ApproximateNumberOfMessages','Tally.Paused']}"},
    {"GetQueueAttributes", "{'QueueUrl':'f.fifo','AttributeNames':['All','FifoQueue','Tally.StaleReceipts']}"},
    {"GetQueueUrl", "{'QueueName':'q','QueueOwnerAWSAccountId':'000000000000'}"},
    {"ListQueues", "{'QueueNamePrefix':'d','MaxResults':2}", "NextToken queues"},
    {"ListQueues", "{'QueueNamePrefix':'d','MaxResults':2,'NextToken':'<queues>'}"},
    {"ListQueues", "{}"},
    {"ListDeadLetterSourceQueues", "{'QueueUrl':'dead','MaxResults':1}", "NextToken sources"},
    {"ListDeadLetterSourceQueues", "{'QueueUrl':'dead','MaxResults':1,'NextToken':'<sources>'}"},
    {"TagQueue", "{'QueueUrl':'q','Tags':{'a':'1','b':''}}"},
    {"UntagQueue", "{'QueueUrl':'q','TagKeys':['b','none']}"},
    {"ListQueueTags", "{'QueueUrl':'q'}"},
    {"AddPermission", "{'QueueUrl':'q','Label':'l','AWSAccountIds':['111111111111','222222222222'],'"
                      "Actions':['SendMessage','*']}"},
    {"AddPermission", "{'QueueUrl':'q','Label':'m','AWSAccountIds':['111111111111'],'Actions':['ReceiveMessage']}"},
    {"RemovePermission", "{'QueueUrl':'q','Label':'l'}"},
    {"RemovePermission", "{'QueueUrl':'done','Label':'l'}", NULL, "InvalidParameterValueException"},

    /* Batches. */
    {"Tally.PutTypeOrder", "{'Name':'order','Types':['first','second'],'Require':true,'RetentionSeconds':1000}"},
    {"Tally.PutTypeOrder", "{'Name':'other','Types':['second','third','fourth'],'Require':false}"},
    {"Tally.PutTypeOrder", "{'Name':'turned','Types':['third','first']}", NULL, "TypeOrderConflict"},
    {"Tally.ListTypeOrders", "{'MaxResults':1}", "NextToken orders"},
    {"Tally.ListTypeOrders", "{'MaxResults':1,'NextToken':'<orders>'}"},
    {"Tally.CreateBatch", "{'BatchId':'parent','OnComplete':{'QueueUrl':'done'}}"},
    {"Tally.CreateBatch",
     "{'BatchId':'b','Tracking':'exact','OnComplete':{'QueueUrl':'done','MessageBody':"
     "'over','MessageGroupId':'g',"
     "'MessageAttributes':{'a':" TEXT_ATTRIBUTE("b") "}},'OnSuccess':{'QueueUrl':'dead.fifo','MessageGroupId':'g'},"
                                                     "'OnFirstFailure':{'QueueUrl':'done'},'Parent':'parent','"
                                                     "ExpiresAfterSeconds':5000,'RetentionSeconds':1000}"},
    {"Tally.CreateBatch", "{'BatchId':'total','Total':4,'OnComplete':{'QueueUrl':'done'}}"},
    {"Tally.CreateBatch", "{'BatchId':'xor','Tracking':'xor','Total':3,'RetentionSeconds':0}"},
    {"Tally.CreateBatch", "{'BatchId':'small','OnComplete':{'QueueUrl':'done'}}"},
    {"Tally.AddUnits", "{'BatchId':'b','Units':['u','v','w']}"},
    {"Tally.AddUnits", "{'BatchId':'total','Count':3}"},
    {"Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'u','Status':'succeeded','Detail':'well'},{'"
                            "Unit':'v','Status':'failed',"
                            "'Detail':'bad'}]}"},
    {"Tally.CompleteUnits", "{'BatchId':'total','Units':[{'Unit':'1'}]}"},
    {"Tally.XorUnits", "{'BatchId':'xor','Value':'00112233aabbccdd','Registered':2,'Finished':1,'RequestToken':'t'}"},
    {"Tally.XorUnits", "{'BatchId':'xor','Value':'00112233aabbccdd','Registered':2,'Finished':1,'RequestToken':'t'}"},
    {"Tally.ListUnits", "{'BatchId':'b','State':'outstanding','MaxResults':1}"},
    {"Tally.ListUnits", "{'BatchId':'b','MaxResults':2}", "NextToken units"},
    {"Tally.ListUnits", "{'BatchId':'b','MaxResults':1,'NextToken':'<units>'}"},
    {"Tally.ListUnits", "{'BatchId':'parent'}"},
    {"Tally.SealBatch", "{'BatchId':'small'}"},
    {"Tally.SealBatch", "{'BatchId':'xor'}"},
    {"Tally.CreateBatch", "{'BatchId':'bare'}"},
    {"Tally.SealBatch", "{'BatchId':'bare'}"},
    {"Tally.DescribeBatch", "{'BatchId':'bare'}"},
    {"Tally.DescribeBatch", "{'BatchId':'b'}"},
    {"Tally.DescribeBatch", "{'BatchId':'small'}"},
    {"Tally.ListBatches", "{'State':'open','Prefix':'','MaxResults':2}", "NextToken batches"},
    {"Tally.ListBatches", "{'State':'open','Prefix':'','MaxResults':2,'NextToken':'<batches>'}"},
    {"Tally.ListBatches", "{'State':'completed','Prefix':'sm'}"},
    {"Tally.AddUnits", "{'BatchId':'total','Count':5}", NULL, "BatchTotalExceeded"},
    {"Tally.AddUnits", "{'BatchId':'small','Units':['u']}", NULL, "BatchSealed"},
    {"Tally.AddUnits", "{'BatchId':'xor','Count':1}", NULL, "UnsupportedOperation"},
    {"Tally.CompleteUnits", "{'BatchId':'xor','Units':[{'Unit':'u'}]}", NULL, "UnsupportedOperation"},
    {"Tally.XorUnits", "{'BatchId':'b','Value':'0000000000000000','RequestToken':'t'}", NULL, "UnsupportedOperation"},
    {"Tally.XorUnits", "{'BatchId':'xor','Value':'0000000000000001','Registered':1,'RequestToken':'u'}", NULL,
     "BatchSealed"},
    {"Tally.ListUnits", "{'BatchId':'xor'}", NULL, "UnsupportedOperation"},
    {"Tally.CreateBatch", "{'BatchId':'late','Parent':'small'}", NULL, "BatchSealed"},
    {"Tally.CreateBatch", "{'BatchId':'b','Tracking':'xor'}", NULL, "BatchAlreadyExists"},
    {"Tally.DeleteBatch", "{'BatchId':'b'}", NULL, "BatchNotCompleted"},

    /* Messages. */
    {"SendMessage",
     "{'QueueUrl':'q','MessageBody':'first','DelaySeconds':0,'MessageGroupId':'g',"
     "'MessageDeduplicationId':'d1','MessageAttributes':{'text':{'StringValue':'v','DataType':'String',"
     "'StringListValues':[],'BinaryListValues':[]},"
     "'number':{'DataType':'Number','StringValue':'12'},"
     "'bytes':{'DataType':'Binary.png','BinaryValue':'AQIDBA=='}},"
     "'MessageSystemAttributes':{'AWSTraceHeader':{'DataType':'String','StringValue':'Root=1-5'}}}",
     "MessageId m1"},
    {"SendMessage",
     "{'QueueUrl':'q','MessageBody':'second','MessageGroupId':'g',"
     "'MessageAttributes':{'Tally.Batch':{'DataType':'String','StringValue':'b'},"
     "'Tally.Priority':{'DataType':'Number','StringValue':'7'},"
     "'Tally.Producer':{'DataType':'String','StringValue':'p'},"
     "'Tally.Sequence':{'DataType':'Number','StringValue':'5'},"
     "'Tally.Type':{'DataType':'String','StringValue':'first'}}}",
     "MessageId m2"},
    {"SendMessage",
     "{'QueueUrl':'q','MessageBody':'third','MessageGroupId':'g',"
     "'MessageAttributes':{'Tally.After':{'DataType':'String','StringValue':'message:<m1>, batch:parent,"
     "dedup:q/d1'},"
     "'Tally.AfterFailure':{'DataType':'String','StringValue':'hold'},"
     "'Tally.Type':{'DataType':'String','StringValue':'second'},"
     "'Tally.OutboxId':{'DataType':'String','StringValue':'o'},"
     "'Tally.Match':{'DataType':'String','StringValue':'a'},"
     "'Tally.Ticket':{'DataType':'String','StringValue':'b'},"
     "'Tally.Schedule':{'DataType':'String','StringValue':'c'},"
     "'Tally.FailureReason':{'DataType':'String','StringValue':'d'},"
     "'Tally.Batch.Event':{'DataType':'String','StringValue':'e'},"
     "'Tally.FencingToken':{'DataType':'String','StringValue':'f'}}}",
     "MessageId m3"},
    {"SendMessage", "{'QueueUrl':'q','MessageBody':'later','DelaySeconds':50}", "MessageId m4"},
    {"CreateQueue", "{'QueueName':'c.fifo','Attributes':{'FifoQueue':'true','ContentBasedDeduplication':'"
                    "true','DelaySeconds':'5'}}"},
    {"SendMessage", "{'QueueUrl':'c.fifo','MessageBody':'same','MessageGroupId':'g'}"},
    {"SendMessage", "{'QueueUrl':'c.fifo','MessageBody':'same','MessageGroupId':'g'}"},
    {"SendMessage",
     "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{'Tally.Batch':" TEXT_ATTRIBUTE(
         "b") ",'Tally.After':" TEXT_ATTRIBUTE("batch:b") "}}",
     NULL, "DependencyCycle"},
    {"SendMessage", "{'QueueUrl':'http://localhost/q','MessageBody':'m'}", NULL, "QueueDoesNotExist"},
    {"SendMessage",
     "{'QueueUrl':'q','MessageBody':'m','MessageAttributes':{'Tally.Batch':" TEXT_ATTRIBUTE("small") "}}", NULL,
     "BatchSealed"},
    {"SendMessage",
     "{'QueueUrl':'f.fifo','MessageBody':'one','MessageGroupId':'g','MessageDeduplicationId':'d','"
     "DelaySeconds':0}",
     "MessageId f1"},
    {"SendMessage",
     "{'QueueUrl':'f.fifo','MessageBody':'two','MessageGroupId':'g','MessageAttributes':{"
     "'Tally.Producer':" TEXT_ATTRIBUTE("p") ",'Tally.Sequence':" NUMBER_ATTRIBUTE("0012") "}}",
     "MessageId f2"},
    {"SendMessageBatch",
     "{'QueueUrl':'q','Entries':[{'Id':'a','MessageBody':'a','DelaySeconds':0,'MessageAttributes':{'x'"
     ":" TEXT_ATTRIBUTE("y") "}},{'Id':'b','MessageBody':'b','MessageGroupId':'h','MessageDeduplicationId':'d2'}]}",
     "MessageId m5 m6"},
    {"SendMessageBatch", "{'QueueUrl':'f.fifo','Entries':[{'Id':'a','MessageBody':'a','MessageGroupId':'h','"
                         "MessageDeduplicationId':'e'},"
                         "{'Id':'b','MessageBody':'b','MessageGroupId':'h','MessageDeduplicationId':'f'}]}"},
    {"ReceiveMessage",
     "{'QueueUrl':'q','MaxNumberOfMessages':1,'VisibilityTimeout':30,'WaitTimeSeconds':1,'AttributeNames':["
     "'All'],"
     "'MessageSystemAttributeNames':['SenderId','AWSTraceHeader'],'MessageAttributeNames':['te.*','Tally.*'"
     ",'number']}",
     "ReceiptHandle h2"},
    {"ReceiveMessage",
     "{'QueueUrl':'q','MaxNumberOfMessages':3,'MessageAttributeNames':['All'],"
     "'MessageSystemAttributeNames':['All','Tally.FencingToken']}",
     "ReceiptHandle h1 h5 h6"},
    {"ReceiveMessage",
     "{'QueueUrl':'f.fifo','MaxNumberOfMessages':2,'ReceiveRequestAttemptId':'again','AttributeNames':['"
     "All']}",
     "ReceiptHandle g1 g2"},
    {"ReceiveMessage", "{'QueueUrl':'f.fifo','MaxNumberOfMessages':2,'ReceiveRequestAttemptId':'again'}",
     "ReceiptHandle g1 g2"},
    {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m1>'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m3>'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m4>'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'f.fifo','MessageId':'<f2>'}"},
    {"Tally.ExplainMessage", "{'MessageId':'<f2>'}"},
    {"Tally.GetMessage", "{'MessageId':'<f2>','Body':'preview'}"},
    {"Tally.FindMessage", "{'MessageId':'<f2>','Body':'preview'}"},
    {"Tally.FindMessage", "{'QueueUrl':'f.fifo','MessageDeduplicationId':'d','MessageGroupId':'g'}"},
    {"Tally.FindMessage", "{'OutboxId':'o'}"},
    {"Tally.FindMessage", "{'OutboxId':'o','QueueUrl':'q','NextToken':'0.0.0.0.0'}", NULL,
     "InvalidParameterValueException"},
    {"Tally.FindMessage", "{'QueueUrl':'q','Producer':'p','Sequence':1}"},
    {"Tally.FindMessage", "{'Text':'order 17'}"},
    {"Tally.SummarizeFailures", "{'QueueUrl':'q'}"},
    {"Tally.ListMessages", "{'QueueUrl':'q','MaxResults':1,'Body':'full'}", "NextToken looked"},
    {"Tally.ListMessages",
     "{'QueueUrl':'q','MaxResults':1,'NextToken':'<looked>','State':'ready','BatchId':'b','Reason':'r','OlderThan':1}"},
    {"Tally.ListMessages", "{'QueueUrl':'f.fifo','MessageGroupId':'g'}"},
    {"Tally.ListInFlight", "{'MaxResults':1}", "NextToken flying"},
    {"Tally.ListInFlight", "{'MaxResults':1,'NextToken':'<flying>','AccessKeyId':'a','Worker':'w'}"},
    {"Tally.ListInFlight", "{'QueueUrl':'q'}"},
    {"Tally.ListDependents", "{'MessageId':'<m1>','MaxResults':1,'NextToken':'waiting.0'}", NULL,
     "InvalidParameterValueException"},
    {"Tally.ListDependents", "{'BatchId':'b'}"},
    {"Tally.ListQueueStats", "{'MaxResults':1}", "NextToken stats"},
    {"Tally.ListQueueStats", "{'MaxResults':1000,'NextToken':'<stats>','QueueNamePrefix':''}"},
    {"Tally.GetSeries", "{'QueueUrl':'q','Period':5,'Points':2}"},
    {"Tally.GetSeries", "{'Period':60,'Points':1}"},
    {"Tally.ListQueueStats", "{'SortBy':'age','NextToken':'0'}", NULL, "InvalidParameterValueException"},
    {"Tally.ListQueueStats", "{'Having':'dead-letters','QueueNamePrefix':'d'}"},
    {"Tally.DescribeServer", "{}"},
    {"Tally.StartBackup", "{}", NULL, "UnsupportedOperation"},
    {"Tally.DescribeBackup", "{'BackupId':'b'}", NULL, "UnsupportedOperation"},
    {"Tally.DeleteBackup", "{'BackupId':'b'}", NULL, "UnsupportedOperation"},
    {"Tally.FeedEvents", "{'After':0,'MaxResults':2,'WaitTimeSeconds':0}"},
    {"ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'<h1>','VisibilityTimeout':100}"},
    {"ChangeMessageVisibilityBatch", "{'QueueUrl':'q','Entries':[{'Id':'a','ReceiptHandle':'<h5>','"
                                     "VisibilityTimeout':7},{'Id':'b','ReceiptHandle':"
                                     "'<h6>','VisibilityTimeout':9}]}"},
    {"Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'<h5>','Reason':'no "
                          "luck','Final':false,'Backoff':{'min':1,'max':3,'factor':2,"
                          "'jitter':0.1},'MaxAttempts':5,'DeadLetterQueueUrl':'dead'}"},
    {"Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'<h6>','Final':true,'RetryAfterSeconds':5,'"
                          "DeadLetterQueueUrl':'dead'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m5>'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m6>'}"},
    {"Tally.ReleaseMessage", "{'QueueUrl':'q','MessageId':'<m1>','DryRun':true}"},
    {"Tally.ReleaseMessage", "{'QueueUrl':'q','MessageId':'<m1>','FencingToken':9000,'DryRun':false}", NULL,
     "UnsupportedOperation"},
    {"Tally.ReleaseMessage", "{'QueueUrl':'q','MessageId':'<m1>'}"},
    {"DeleteMessage", "{'QueueUrl':'q','ReceiptHandle':'<h1>'}"},
    {"DeleteMessageBatch",
     "{'QueueUrl':'q','Entries':[{'Id':'a','ReceiptHandle':'<h1>'},{'Id':'b','ReceiptHandle':'none'}]}"},

    /* Groups. */
    {"Tally.PauseGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'h'}"},
    {"Tally.PauseQueue", "{'QueueUrl':'full'}"},
    {"Tally.ListGroups", "{'QueueUrl':'f.fifo','State':'paused'}"},
    {"Tally.ReleaseGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'h','Action':'skip'}", NULL, "GroupNotHeld"},
    {"Tally.FailMessage", "{'QueueUrl':'f.fifo','ReceiptHandle':'<g1>','Final':true,'Reason':'broken'}"},
    {"Tally.ListGroups", "{'QueueUrl':'f.fifo','MaxResults':1}", "NextToken groups"},
    {"Tally.ListGroups", "{'QueueUrl':'f.fifo','MaxResults':1,'NextToken':'<groups>'}"},
    {"Tally.ListGroups", "{'QueueUrl':'f.fifo','State':'held','MessageGroupId':'g'}"},
    {"Tally.ListGroups", "{'QueueUrl':'q'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'f.fifo','MessageId':'<f1>'}"},
    {"Tally.ReleaseGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'g','Action':'cancel-rest','DryRun':true}"},
    {"Tally.ReleaseGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'g','Action':'retry'}"},
    {"Tally.ResumeGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'h'}"},
    {"Tally.ResumeQueue", "{'QueueUrl':'full'}"},
    {"CreateQueue",
     "{'QueueName':'slow','Attributes':{'Tally.GroupConcurrency':'1','Tally.StaleReceipts':'refuse','Tally."
     "RateLimit':"
     "'{\\'queue\\':{\\'rate\\':1,\\'burst\\':2},\\'group\\':{\\'rate\\':0.1,\\'burst\\':1}}'}}"},
    {"SendMessageBatch",
     "{'QueueUrl':'slow','Entries':[{'Id':'a','MessageBody':'a','MessageGroupId':'g'},{'Id':'b','"
     "MessageBody':'b',"
     "'MessageGroupId':'g'},{'Id':'c','MessageBody':'c','MessageGroupId':'h'},{'Id':'d','MessageBody':'d'}]"
     "}",
     "MessageId s1 s2 s3 s4"},
    {"ReceiveMessage", "{'QueueUrl':'slow','MaxNumberOfMessages':2,'VisibilityTimeout':2}", "ReceiptHandle r1 r2"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<s2>'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<s4>'}"},
    {"Tally.PauseQueue", "{'QueueUrl':'slow'}"},
    {"Tally.PauseGroup", "{'QueueUrl':'slow','MessageGroupId':'g'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<s2>'}"},
    {"Tally.ListGroups", "{'QueueUrl':'slow'}"},
    {"SendMessage", "{'QueueUrl':'results','MessageBody':'m'}", "MessageId a0"},
    {"Tally.ReplaceMessage",
     "{'QueueUrl':'results','MessageId':'<a0>','MessageBody':'n','MessageAttributes':{'a':" TEXT_ATTRIBUTE("b") "}}",
     "MessageId a1"},
    {"Tally.CreateBatch", "{'BatchId':'gone'}"},
    {"Tally.AddUnits", "{'BatchId':'gone','Units':['u']}"},
    {"SendMessage",
     "{'QueueUrl':'slow','MessageBody':'m','MessageAttributes':{'Tally.After':" TEXT_ATTRIBUTE(
         "message:<a1>,batch:gone") ",'Tally.AfterFailure':" TEXT_ATTRIBUTE("hold") "}}",
     "MessageId a2"},
    {"PurgeQueue", "{'QueueUrl':'results','DryRun':true}"},
    {"DeleteQueue", "{'QueueUrl':'results','DryRun':true}"},
    {"PurgeQueue", "{'QueueUrl':'results'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<a2>'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'results','MessageId':'<a1>'}"},
    {"Tally.CancelBatch", "{'BatchId':'gone','DryRun':true}"},
    {"Tally.CancelBatch", "{'BatchId':'gone'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<a2>'}"},
    {"Tally.DeleteBatch", "{'BatchId':'gone'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<a2>'}"},
    {NULL, "1"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<a2>'}"},
    {NULL, "3000"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<s1>'}"},
    {"DeleteMessage", "{'QueueUrl':'slow','ReceiptHandle':'<r1>'}"},
    {"Tally.ExplainMessage", "{'QueueUrl':'slow','MessageId':'<s1>'}"},

    /* All at once. */
    {"SendMessage",
     "{'QueueUrl':'q','MessageBody':'unit','MessageAttributes':{'Tally.Batch':" TEXT_ATTRIBUTE("total") "}}"},
    {"ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':10,'VisibilityTimeout':500}", "ReceiptHandle c1 c2"},
    {"Tally.Commit",
     "{'CreateBatches':[{'BatchId':'child','Parent':'parent','OnComplete':{'QueueUrl':'done'}}],'AddUnits':"
     "[{'BatchId':"
     "'total','Units':['x','y']},{'BatchId':'child','Count':2}],'Sends':[{'QueueUrl':'q','MessageBody':'"
     "sent',"
     "'DelaySeconds':3},{'QueueUrl':'f.fifo','MessageBody':'sent','MessageGroupId':'g','"
     "MessageDeduplicationId':'s',"
     "'MessageAttributes':{'Tally.Batch':" TEXT_ATTRIBUTE(
         "child") "}}],'Units':[{'BatchId':'b','Unit':'w','Status':"
                  "'succeeded','Detail':'fine'},{'BatchId':'total','Unit':'2','Status':'failed'}],'Deletes'"
                  ":[{'QueueUrl':'q',"
                  "'ReceiptHandle':'<c1>'}],'Holds':[{'QueueUrl':'q','ReceiptHandle':'<c2>'}]}"},
    {"Tally.CancelBatch", "{'BatchId':'child'}"},
    {"Tally.DeleteBatch", "{'BatchId':'small'}"},
    {"Tally.DescribeBatch", "{'BatchId':'child'}"},

    /* Dead letters move back, or end. */
    {"StartMessageMoveTask", "{'SourceArn':'" ARN "dead','Reason':'no','MessageGroupId':'g','SentBefore':9000000000.5,"
                             "'SentAfter':1,'MaxMessages':1,'DryRun':true}"},
    {"StartMessageMoveTask", "{'SourceArn':'" ARN "dead','MessageIds':['<m1>','<m3>'],'DryRun':true}"},
    {"Tally.DeleteMessages", "{'QueueUrl':'dead','Reason':'none has it','MessageGroupId':'g','SentBefore':9000000000,"
                             "'SentAfter':1.5,'MaxMessages':9,'MaxNumberOfMessagesPerSecond':9,'DryRun':false}"},
    {NULL, "1000"},
    {"Tally.DeleteMessages", "{'QueueUrl':'dead','MessageIds':['<m1>'],'DryRun':true}"},
    {"StartMessageMoveTask",
     "{'SourceArn':'" ARN "dead','DestinationArn':'" ARN "done','MaxNumberOfMessagesPerSecond':1}", "TaskHandle task"},
    {"ListMessageMoveTasks", "{'SourceArn':'" ARN "dead','MaxResults':2}"},
    {"CancelMessageMoveTask", "{'TaskHandle':'<task>'}"},
    {"StartMessageMoveTask", "{'SourceArn':'" ARN "dead'}"},
    {"StartMessageMoveTask", "{'SourceArn':'" ARN "dead'}", NULL, "InvalidParameterValueException"},
    {"StartMessageMoveTask", "{'SourceArn':'" ARN "q'}", NULL, "InvalidParameterValueException"},
    {NULL, "1000"},
    {"ListMessageMoveTasks", "{'SourceArn':'" ARN "dead','MaxResults':10}"},

    /* Publishers. */
    {"Tally.OpenPublisher", "{" CLAIM "}"},
    {"ReceiveMessage", "{'QueueUrl':'done','MaxNumberOfMessages':2}", "ReceiptHandle p1 p2"},
    {"Tally.Publish",
     "{" CLAIM ",'Batch':1,'ConfirmedBatch':0,'Order':'group','Refused':'park','Rows':[{'Id':1,'Uid':" UID(
         "1") ",'QueueUrl':'q','MessageBody':'row','MessageGroupId':'g','MessageAttributes':{'a'"
              ":" TEXT_ATTRIBUTE("b") "}},{'Id':2,'Uid':" UID("2") ",'ReceiptHandle':'<p1>','"
                                                                   "MessageGroupId':'g'},{'Id':3,'Uid'"
                                                                   ":" UID("3") ",'QueueUrl':'f.fifo','"
                                                                                "MessageBody':'row','"
                                                                                "MessageGroupId':'g'},{'Id'"
                                                                                ":4,'Uid':" UID("4") ",'"
                                                                                                     "Queue"
                                                                                                     "Url':"
                                                                                                     "'none"
                                                                                                     "','"
                                                                                                     "Messa"
                                                                                                     "geBod"
                                                                                                     "y':'"
                                                                                                     "row'}"
                                                                                                     "]}"},
    {"Tally.Publish", "{" CLAIM ",'Batch':1,'ConfirmedBatch':0,'Order':'group','Refused':'park','Rows':[{'"
                      "Id':1,'Uid':" UID("1") ",'QueueUrl':'q','MessageBody':'row'},{'Id':2,'Uid'"
                                              ":" UID("2") ",'ReceiptHandle':'<p1>'},{'Id':3,'"
                                                           "Uid':" UID("3") ",'QueueUrl':'f.fifo'},{'Id':"
                                                                            "4,'Uid':" UID("4") ",'"
                                                                                                "QueueUrl"
                                                                                                "':'none'"
                                                                                                "}]}"},
    {"Tally.Publish", "{" CLAIM ",'Batch':2,'ConfirmedBatch':1,'Order':'strict','Refused':'block','Rows':[{'Id':5,'Uid'"
                      ":" UID("5") ",'QueueUrl':'q','MessageBody':'row'},{'Id':6,'Uid':" UID(
                          "6") ",'QueueUrl':'q','MessageBody':''},{'Id':7,'Uid':" UID("7") ",'QueueUrl':'q','"
                                                                                           "MessageBody':'row'}]"
                                                                                           "}"},
    {"Tally.OpenPublisher", "{" CLAIM "}"},

    {"Tally.OpenPublisher", "{'Publisher':" UID("a") ",'Epoch':3,'Owner':" UID("b") "}"},
    {"Tally.OpenPublisher", "{'Publisher':" UID("a") ",'Epoch':1048579,'Owner':" UID("b") "}"},
    {"Tally.OpenPublisher", "{'Publisher':" UID("a") ",'Epoch':2097156,'Owner':" UID("b") "}"},
    {"Tally.OpenPublisher", "{'Publisher':" UID("c") ",'Epoch':4611686018427387905,'Owner':" UID("b") "}"},

    /* Schedules. */
    {"Tally.PutSchedule", "{'Name':'s'," SCHEDULE "}"},
    {"Tally.PutSchedule", "{'Name':'each.minute','Cron':'* * * * *','QueueUrl':'f.fifo','MessageBody':'tick',"
                          "'MessageGroupId':'g'}"},
    {"Tally.PauseSchedule", "{'Name':'s'}"},
    {"Tally.PutSchedule", "{'Name':'s'," SCHEDULE "}"},
    {"Tally.DescribeSchedule", "{'Name':'s'}"},
    {"Tally.FireSchedule", "{'Name':'s'}"},
    {"Tally.ResumeSchedule", "{'Name':'s'}"},
    {NULL, "120000"},
    {"Tally.DescribeSchedule", "{'Name':'each.minute'}"},
    {"Tally.ListSchedules", "{'Prefix':'','MaxResults':1}", "NextToken schedules"},
    {"Tally.ListSchedules", "{'Prefix':'','MaxResults':1,'NextToken':'<schedules>'}"},
    {"Tally.ListSchedules", "{'Prefix':'e'}"},
    {"Tally.DeleteSchedule", "{'Name':'each.minute'}"},

    /* Relays. */
    {"Tally.CreateRelay", "{'RelayName':'r','Order':'strict'," RELAY "}"},
    {"Tally.CreateRelay", "{'RelayName':'r','Order':'strict'," RELAY "}"},
    {"Tally.CreateRelay", "{'RelayName':'second','Source':{'Type':'queue','QueueUrl':'q'},'Sink':{'Type':'queue'}}"},
    {"Tally.DescribeRelay", "{'RelayName':'r'}"},
    {"Tally.ListRelays", "{'MaxResults':1}", "NextToken relays"},
    {"Tally.ListRelays", "{'MaxResults':1,'NextToken':'<relays>'}"},
    {"Tally.PauseRelay", "{'RelayName':'r'}"},
    {"Tally.ResumeRelay", "{'RelayName':'r'}"},
    {"Tally.ListDoubts", "{'RelayName':'r','MaxResults':2}", "NextToken doubts"},
    {"Tally.ListDoubts", "{'RelayName':'r','MaxResults':1,'NextToken':'<doubts>'}"},
    {"Tally.ResolveDoubt", "{'RelayName':'r','Id':8,'Action':'send'}"},
    {"Tally.ResolveDoubt", "{'RelayName':'r','Uid':'00000000-0000-0000-0000-00000000000b','Action':'drop'}"},
    {"Tally.DeleteRelay", "{'RelayName':'second'}"},

    /* Pools. */
    {"Tally.CreatePool",
     "{'PoolName':'duel'," DUEL ",'ResultQueueUrl':'results','OnExpiryQueueUrl':'done','Matcher':'built-in',"
     "'WindowMilliseconds':0,'TicketTtlSeconds':100,'ConfirmSeconds':5,'Verify':true,'ResultsMax':50,"
     "'RetentionSeconds':600}"},
    {"Tally.CreatePool", "{'PoolName':'teams'," TEAMS ",'ResultQueueUrl':'results','Matcher':'external'}"},
    {"Tally.CreatePool", "{'PoolName':'teams'," TEAMS ",'ResultQueueUrl':'results','Matcher':'external'}"},
    {"Tally.CreatePool", "{'PoolName':'both'," TEAMS ",'Size':3,'ResultQueueUrl':'results','Matcher':'external'}", NULL,
     "InvalidParameterValueException"},
    {"Tally.CreatePool", "{'PoolName':'plain','Attributes':{'n':'num'},'ResultQueueUrl':'results','Matcher':'both',"
                         "'Size':3,'Verify':true}"},
    {"Tally.UpdatePool",
     "{'PoolName':'teams','Attributes':{'role':'str','more':'set'},'Verify':true,'WindowMilliseconds':10,"
     "'TicketTtlSeconds':50,'ResultsMax':2,'RetentionSeconds':60,'OnExpiryQueueUrl':'done','ResultQueueUrl'"
     ":'results'}"},
    {"Tally.UpdatePool", "{'PoolName':'plain','Rules':[{'type':'near','attr':'n','max':5}],'Pick':'first','Size':2,"
                         "'Matcher':'external'}"},
    {"Tally.DescribePool", "{'PoolName':'duel'}"},
    {"Tally.ListPools", "{'Prefix':'','MaxResults':2}", "NextToken pools"},
    {"Tally.ListPools", "{'Prefix':'','MaxResults':1,'NextToken':'<pools>'}"},
    {"Tally.ListPools", "{'Prefix':'t'}"},
    {"Tally.FeedTickets", "{'PoolName':'plain','From':0}"},
    {"Tally.OfferTickets", "{'PoolName':'duel','Tickets':[{'TicketId':'t1','Attributes':{'mode':'x','mmr':"
                           "1000,'maps':['a','b']},'Need':{"
                           "'mmr':{'min':900,'max':1100},'mode':{'in':['x','y'],'not':['z']},'maps':{'any':"
                           "['a'],'all':['b']}},'Weight':1,"
                           "'Priority':5,'TtlSeconds':60,'ExclusiveSet':'set','Body':'hello'},{'TicketId':'"
                           "t2','Attributes':{'mode':'y',"
                           "'mmr':1500.5,'maps':['c']},'Need':{'mode':{'eq':'y'}}}]}"},
    {"Tally.OfferTickets",
     "{'PoolName':'duel','Tickets':[{'TicketId':'t3','Attributes':{'mode':'x','mmr':1010,'maps':['a','b']}}"
     ",{"
     "'TicketId':'t2','Attributes':{'mode':'y','mmr':1500.5,'maps':['c']},'Need':{'mode':{'eq':'y'}}}]}",
     "MatchId match"},
    {"Tally.GetTicket", "{'PoolName':'duel','TicketId':'t1'}"},
    {"Tally.GetTicket", "{'PoolName':'duel','TicketId':'t2'}"},
    {"Tally.ConfirmMatch", "{'PoolName':'duel','MatchId':'<match>','TicketId':'t1','Accept':true}"},
    {"Tally.ConfirmMatch", "{'PoolName':'duel','MatchId':'<match>','TicketId':'t3','Accept':true}"},
    {"Tally.PutBackMatch", "{'PoolName':'duel','MatchId':'<match>'}"},
    {"Tally.ExplainTicket", "{'PoolName':'duel','TicketId':'t2'}"},
    {"Tally.OfferTickets", "{'PoolName':'plain','Tickets':[{'TicketId':'p1','Attributes':{'n':1}},{'"
                           "TicketId':'p2','Attributes':{'n':2}},{"
                           "'TicketId':'p3','Attributes':{'n':30}},{'TicketId':'p4','Attributes':{}}]}"},
    {"Tally.OfferTickets", "{'PoolName':'teams','Tickets':[{'TicketId':'a','Attributes':{'role':'a','mmr':"
                           "1},'Weight':2},{'TicketId':'b',"
                           "'Attributes':{'role':'b','mmr':2}}]}"},
    {"Tally.UpdateTicket", "{'PoolName':'plain','TicketId':'p3','Version':1,'Attributes':{'n':3},'Need':{'"
                           "n':{'not':[7],'in':[1,2,3]}}}"},
    {"Tally.GetTicket", "{'PoolName':'plain','TicketId':'p3'}"},
    {"Tally.ListTickets", "{'PoolName':'plain','Parts':2,'MaxResults':2}", "NextToken tickets"},
    {"Tally.ListTickets", "{'PoolName':'plain','Parts':2,'MaxResults':1,'NextToken':'<tickets>'}"},
    {"Tally.CountTickets", "{'PoolName':'plain','Filter':{'n':{'min':2,'max':5}}}"},
    {"Tally.CountTickets", "{'PoolName':'duel'}"},
    {"Tally.FeedTickets", "{'PoolName':'plain','From':0,'MaxResults':2,'WaitTimeSeconds':0,'Part':1,'Parts':3}"},
    {"Tally.FeedTickets", "{'PoolName':'plain','From':3,'WaitTimeSeconds':2}"},
    {"Tally.ExplainTicket", "{'PoolName':'plain','TicketId':'p1'}"},
    {"Tally.ProposeMatches",
     "{'PoolName':'plain','Proposals':[{'ProposalId':'one','Members':[{'TicketId':'p1','Version':1},{'"
     "TicketId':'p2',"
     "'Version':1}],'Score':1.5,'RulesVersion':2,'Body':'pair'},{'ProposalId':'two','Members':[{'TicketId':"
     "'p3',"
     "'Version':1},{'TicketId':'p4','Version':1}]}]}",
     "MatchId proposed"},
    {"Tally.ProposeMatches", "{'PoolName':'teams','Proposals':[{'ProposalId':'one','Members':[{'TicketId':'a',"
                             "'Version':1},{'TicketId':'b','Version':1}]}]}"},
    {"Tally.PutBackMatch", "{'PoolName':'plain','MatchId':'<proposed>'}"},
    {"Tally.FeedTickets", "{'PoolName':'plain','From':0,'Parts':2}"},
    {"Tally.CancelTickets", "{'PoolName':'plain','TicketIds':['p1','p4','none']}"},
    {"Tally.GetTicket", "{'PoolName':'plain','TicketId':'p1'}"},
    {NULL, "200000"},
    {"Tally.DescribePool", "{'PoolName':'teams'}"},
    {"Tally.GetTicket", "{'PoolName':'duel','TicketId':'t2'}"},
    {"Tally.ListTickets", "{'PoolName':'plain'}"},
    {"Tally.FeedTickets", "{'PoolName':'plain','From':1}"},
    {"Tally.DeletePool", "{'PoolName':'duel'}"},

    /* The end. */
    {"ListQueues", "{'MaxResults':100}"},
    {"Tally.DeleteTypeOrder", "{'Name':'other'}"},
    {"PurgeQueue", "{'QueueUrl':'q'}"},
    {"DeleteQueue", "{'QueueUrl':'q'}", NULL, "QueueInUse"},
    {"PurgeQueue", "{'QueueUrl':'q'}", NULL, "PurgeQueueInProgress"},
    {"DeleteQueue", "{'QueueUrl':'full'}"},
    {"CreateQueue", "{'QueueName':'full'}", NULL, "QueueDeletedRecently"},
    {NULL, "60000"},
    {"CreateQueue", "{'QueueName':'full'}"},
};

/* What is asked after a request that has changed something: how the change is shown. */
static const struct {
    const char *action;
    const char *look;
    const char *body;
} looks[] = {
    {"CreateQueue", "ListQueues", "{}"},
    {"CreateQueue", "GetQueueAttributes", "{'QueueUrl':'full','AttributeNames':['All']}"},
    {"CreateQueue", "GetQueueAttributes", "{'QueueUrl':'f.fifo','AttributeNames':['All']}"},
    {"CreateQueue", "GetQueueAttributes", "{'QueueUrl':'dead','AttributeNames':['All']}"},
    {"CreateQueue", "ListQueueTags", "{'QueueUrl':'full'}"},
    {"SetQueueAttributes", "GetQueueAttributes", "{'QueueUrl':'full','AttributeNames':['All']}"},
    {"SetQueueAttributes", "GetQueueAttributes", "{'QueueUrl':'f.fifo','AttributeNames':['All']}"},
    {"TagQueue", "ListQueueTags", "{'QueueUrl':'q'}"},
    {"UntagQueue", "ListQueueTags", "{'QueueUrl':'q'}"},
    {"AddPermission", "GetQueueAttributes", "{'QueueUrl':'q','AttributeNames':['Policy']}"},
    {"RemovePermission", "GetQueueAttributes", "{'QueueUrl':'q','AttributeNames':['Policy']}"},
    {"Tally.PutTypeOrder", "Tally.ListTypeOrders", "{}"},
    {"Tally.CreateBatch", "Tally.ListBatches", "{}"},
    {"Tally.AddUnits", "Tally.ListBatches", "{}"},
    {"Tally.CompleteUnits", "Tally.ListUnits", "{'BatchId':'b'}"},
    {"Tally.XorUnits", "Tally.DescribeBatch", "{'BatchId':'xor'}"},
    {"Tally.Commit", "Tally.ListBatches", "{}"},
    {"Tally.Commit", "Tally.ListGroups", "{'QueueUrl':'f.fifo'}"},
    {"SendMessage", "Tally.ListGroups", "{'QueueUrl':'q'}"},
    {"SendMessage", "ReceiveMessage",
     "{'QueueUrl':'q','MaxNumberOfMessages':10,'MessageAttributeNames':['All'],'AttributeNames':['All']}"},
    {"SendMessage", "ReceiveMessage",
     "{'QueueUrl':'f.fifo','MaxNumberOfMessages':10,'MessageAttributeNames':['All'],'AttributeNames':['All']}"},
    {"SendMessage", "Tally.ListUnits", "{'BatchId':'b'}"},
    {"SendMessageBatch", "ReceiveMessage",
     "{'QueueUrl':'q','MaxNumberOfMessages':10,'MessageAttributeNames':['All'],'AttributeNames':['All']}"},
    {"Tally.FailMessage", "Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m5>'}"},
    {"Tally.FailMessage", "Tally.ListGroups", "{'QueueUrl':'f.fifo'}"},
    {"Tally.FailMessage", "ReceiveMessage",
     "{'QueueUrl':'dead','MessageAttributeNames':['Tally.*'],'AttributeNames':['All']}"},
    {"ChangeMessageVisibility", "Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m1>'}"},
    {"ChangeMessageVisibilityBatch", "Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m5>'}"},
    {"Tally.PauseGroup", "Tally.ListGroups", "{'QueueUrl':'f.fifo'}"},
    {"Tally.ReleaseGroup", "Tally.ListGroups", "{'QueueUrl':'f.fifo'}"},
    {"Tally.ReleaseMessage", "Tally.ExplainMessage", "{'QueueUrl':'q','MessageId':'<m1>'}"},
    {"Tally.PauseQueue", "GetQueueAttributes", "{'QueueUrl':'full','AttributeNames':['All']}"},
    {"StartMessageMoveTask", "ListMessageMoveTasks", "{'SourceArn':'" ARN "dead'}"},
    {"Tally.DeleteMessages", "ListMessageMoveTasks", "{'SourceArn':'" ARN "dead'}"},
    {"Tally.Publish", "Tally.OpenPublisher", "{" CLAIM "}"},
    {"Tally.PutSchedule", "Tally.DescribeSchedule", "{'Name':'s'}"},
    {"Tally.PutSchedule", "Tally.ListSchedules", "{}"},
    {"Tally.CreateRelay", "Tally.DescribeRelay", "{'RelayName':'r'}"},
    {"Tally.CreateRelay", "Tally.ListRelays", "{}"},
    {"Tally.CreatePool", "Tally.ListPools", "{}"},
    {"Tally.CreatePool", "Tally.DescribePool", "{'PoolName':'duel'}"},
    {"Tally.CreatePool", "Tally.DescribePool", "{'PoolName':'teams'}"},
    {"Tally.UpdatePool", "Tally.DescribePool", "{'PoolName':'plain'}"},
    {"Tally.UpdatePool", "Tally.DescribePool", "{'PoolName':'teams'}"},
    {"Tally.OfferTickets", "Tally.ListTickets", "{'PoolName':'duel'}"},
    {"Tally.OfferTickets", "Tally.ListTickets", "{'PoolName':'plain'}"},
    {"Tally.OfferTickets", "Tally.GetTicket", "{'PoolName':'duel','TicketId':'t1'}"},
    {"Tally.OfferTickets", "Tally.ExplainTicket", "{'PoolName':'duel','TicketId':'t2'}"},
    {"Tally.UpdateTicket", "Tally.GetTicket", "{'PoolName':'plain','TicketId':'p3'}"},
};

#endif
