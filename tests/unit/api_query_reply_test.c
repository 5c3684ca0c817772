/* Replies to AWS Query, in XML and, for who asks for that, in JSON: members that AWS has always, maps as lists of
 * pairs, and errors. Source: reference, SQS, 4.2. */
#include "sqs.h"

#define ID "00000000-1111-2222-3333-444444444444"

struct row {
    const char *form;
    int status;
    const char *json; /* with ' for " */
    const char *xml;
};

/* The reply, which lives as long as the exchange. */
static const char *ask(struct world *world, struct exchange *exchange, const char *form, bool takes_json)
{
    exchange_init(exchange);
    memcpy(exchange->request_id, ID, REQUEST_ID_SIZE);
    exchange->request = (struct request){.method = BYTES("POST"),
                                         .path = BYTES("/"),
                                         .host = BYTES("localhost"),
                                         .body = bytes_from_string(form),
                                         .is_form = true,
                                         .takes_json = takes_json};
    front_submit(world->front, exchange, world->now_ms);
    EXPECT(world, front_take_finished(world->front) == exchange);
    buffer_append_u8(&exchange->reply.body, 0);
    char *text = (char *)exchange->reply.body.data_owned;
    for (char *at = text; takes_json && *at != '\0'; at++)
        *at = *at == '"' ? '\'' : *at;
    return text;
}

static const struct row rows[] = {
    {"Action=GetQueueUrl&QueueName=q", 200,
     "{'GetQueueUrlResponse':{'GetQueueUrlResult':{'QueueUrl':'http://localhost/000000000000/"
     "q'},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<GetQueueUrlResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><GetQueueUrlResult><QueueUrl>http://localhost/000000000000/"
     "q</QueueUrl></GetQueueUrlResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></GetQueueUrlResponse>\n"},
    {"Action=ListQueues", 200,
     "{'ListQueuesResponse':{'ListQueuesResult':{'NextToken':null,'queueUrls':['http://localhost/000000000000/"
     "q']},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ListQueuesResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ListQueuesResult><QueueUrl>http://localhost/000000000000/"
     "q</QueueUrl></ListQueuesResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></ListQueuesResponse>\n"},
    {"Action=ListQueues&MaxResults=1", 200,
     "{'ListQueuesResponse':{'ListQueuesResult':{'NextToken':null,'queueUrls':['http://localhost/000000000000/"
     "q']},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ListQueuesResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ListQueuesResult><QueueUrl>http://localhost/000000000000/"
     "q</QueueUrl></ListQueuesResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></ListQueuesResponse>\n"},
    {"Action=CreateQueue&QueueName=r&Tag.1.Key=a&Tag.1.Value=b&Tag.2.Key=c&Tag.2.Value=", 200,
     "{'CreateQueueResponse':{'CreateQueueResult':{'QueueUrl':'http://localhost/000000000000/"
     "r'},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<CreateQueueResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><CreateQueueResult><QueueUrl>http://localhost/000000000000/"
     "r</QueueUrl></CreateQueueResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></CreateQueueResponse>\n"},
    {"Action=ListQueues&MaxResults=1", 200,
     "{'ListQueuesResponse':{'ListQueuesResult':{'NextToken':'mb6sc2EGQg_qQ6M1eaR-NZo','queueUrls':['http://localhost/"
     "000000000000/"
     "q']},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ListQueuesResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ListQueuesResult><QueueUrl>http://localhost/000000000000/"
     "q</QueueUrl><NextToken>mb6sc2EGQg_qQ6M1eaR-NZo</NextToken></"
     "ListQueuesResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></ListQueuesResponse>\n"},
    {"Action=ListQueueTags&QueueUrl=r", 200,
     "{'ListQueueTagsResponse':{'ListQueueTagsResult':{'Tags':[{'Key':'a','Value':'b'},{'Key':'c','Value':''}]},'"
     "ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ListQueueTagsResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ListQueueTagsResult><Tag><Key>a</Key><Value>b</Value></"
     "Tag><Tag><Key>c</Key><Value></Value></Tag></"
     "ListQueueTagsResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></ListQueueTagsResponse>\n"},
    {"Action=ListQueueTags&QueueUrl=q", 200,
     "{'ListQueueTagsResponse':{'ListQueueTagsResult':{'Tags':null},'ResponseMetadata':{'RequestId':'00000000-1111-"
     "2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ListQueueTagsResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ListQueueTagsResult/"
     "><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></ResponseMetadata></"
     "ListQueueTagsResponse>\n"},
    {"Action=SetQueueAttributes&QueueUrl=q&Attribute.1.Name=DelaySeconds&Attribute.1.Value=7", 200,
     "{'SetQueueAttributesResponse':{'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<SetQueueAttributesResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/"
     "\"><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></ResponseMetadata></"
     "SetQueueAttributesResponse>\n"},
    {"Action=GetQueueAttributes&QueueUrl=q&AttributeName.1=DelaySeconds&AttributeName.2=VisibilityTimeout", 200,
     "{'GetQueueAttributesResponse':{'GetQueueAttributesResult':{'Attributes':[{'Name':'DelaySeconds','Value':'7'},{'"
     "Name':'VisibilityTimeout','Value':'30'}]},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}"
     "}}",
     "<?xml version=\"1.0\"?>\n<GetQueueAttributesResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><GetQueueAttributesResult><Attribute><Name>DelaySeconds</"
     "Name><Value>7</Value></Attribute><Attribute><Name>VisibilityTimeout</Name><Value>30</Value></Attribute></"
     "GetQueueAttributesResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></GetQueueAttributesResponse>\n"},
    {"Action=GetQueueAttributes&QueueUrl=q", 200,
     "{'GetQueueAttributesResponse':{'GetQueueAttributesResult':{'Attributes':null},'ResponseMetadata':{'RequestId':'"
     "00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<GetQueueAttributesResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><GetQueueAttributesResult/"
     "><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></ResponseMetadata></"
     "GetQueueAttributesResponse>\n"},
    {"Action=ReceiveMessage&QueueUrl=q", 200,
     "{'ReceiveMessageResponse':{'ReceiveMessageResult':{'messages':null},'ResponseMetadata':{'RequestId':'00000000-"
     "1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ReceiveMessageResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ReceiveMessageResult/"
     "><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></ResponseMetadata></"
     "ReceiveMessageResponse>\n"},
    {"Action=ListDeadLetterSourceQueues&QueueUrl=q", 200,
     "{'ListDeadLetterSourceQueuesResponse':{'ListDeadLetterSourceQueuesResult':{'NextToken':null,'queueUrls':null},'"
     "ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ListDeadLetterSourceQueuesResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ListDeadLetterSourceQueuesResult/"
     "><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></ResponseMetadata></"
     "ListDeadLetterSourceQueuesResponse>\n"},
    {"Action=SendMessage&QueueUrl=r&MessageBody=a%3Cb&MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType="
     "Number&MessageAttribute.1.Value.StringValue=3",
     200,
     "{'SendMessageResponse':{'SendMessageResult':{'MD5OfMessageAttributes':'c9f498bff6d51c85e3f28b29b5485f42','"
     "MD5OfMessageBody':'1a382af93ed4b8a29ebd8e859a0168d7','MD5OfMessageSystemAttributes':null,'MessageId':'00000000-"
     "0000-8017-b7d5-1b1876900006','SequenceNumber':null},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-"
     "444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<SendMessageResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/"
     "\"><SendMessageResult><MD5OfMessageBody>1a382af93ed4b8a29ebd8e859a0168d7</"
     "MD5OfMessageBody><MD5OfMessageAttributes>c9f498bff6d51c85e3f28b29b5485f42</"
     "MD5OfMessageAttributes><MessageId>00000000-0000-802d-9d7b-efeb7f0e54f1</MessageId></"
     "SendMessageResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></SendMessageResponse>\n"},
    {"Action=SendMessageBatch&QueueUrl=r&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1."
     "MessageBody=x&SendMessageBatchRequestEntry.2.Id=b",
     200,
     "{'SendMessageBatchResponse':{'SendMessageBatchResult':{'Failed':[{'Id':'b','SenderFault':true,'Code':'"
     "MissingParameter','Message':'The request must contain the parameter "
     "MessageBody.'}],'Successful':[{'MD5OfMessageAttributes':null,'MD5OfMessageBody':'"
     "9dd4e461268c8034f5c8564e155c67a6','MD5OfMessageSystemAttributes':null,'MessageId':'00000000-0000-8038-a8bb-"
     "7feea554c569','SequenceNumber':null,'Id':'a'}]},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-"
     "444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<SendMessageBatchResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><SendMessageBatchResult><SendMessageBatchResultEntry><Id>a</"
     "Id><MD5OfMessageBody>9dd4e461268c8034f5c8564e155c67a6</"
     "MD5OfMessageBody><MessageId>00000000-0000-804a-aa87-e2bd944e64fa</MessageId></"
     "SendMessageBatchResultEntry><BatchResultErrorEntry><Id>b</Id><SenderFault>true</"
     "SenderFault><Code>MissingParameter</Code><Message>The request must contain the parameter "
     "MessageBody.</Message></BatchResultErrorEntry></"
     "SendMessageBatchResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></SendMessageBatchResponse>\n"},
    {"Action=ReceiveMessage&QueueUrl=r&VisibilityTimeout=0&MessageAttributeName.1=All&AttributeName.1="
     "ApproximateReceiveCount",
     200,
     "{'ReceiveMessageResponse':{'ReceiveMessageResult':{'messages':[{'Attributes':[{'Name':'ApproximateReceiveCount','"
     "Value':'1'}],'Body':'a<b','MD5OfBody':'1a382af93ed4b8a29ebd8e859a0168d7','MD5OfMessageAttributes':'"
     "c9f498bff6d51c85e3f28b29b5485f42','MessageAttributes':[{'Name':'n','Value':{'BinaryListValues':null,'BinaryValue'"
     ":null,'DataType':'Number','StringListValues':null,'StringValue':'3'}}],'MessageId':'00000000-0000-8017-b7d5-"
     "1b1876900006','ReceiptHandle':'AgAAAAEAAAAAAAAAAQAAAAAAAABBPglXPr0rkg'}]},'ResponseMetadata':{'RequestId':'"
     "00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ReceiveMessageResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/"
     "\"><ReceiveMessageResult><Message><MessageId>00000000-0000-8017-b7d5-1b1876900006</"
     "MessageId><ReceiptHandle>AgAAAAEAAAAAAAAAAgAAAAAAAABfb2S2QwiFdQ</"
     "ReceiptHandle><MD5OfBody>1a382af93ed4b8a29ebd8e859a0168d7</MD5OfBody><Body>a&lt;b</"
     "Body><Attribute><Name>ApproximateReceiveCount</Name><Value>2</Value></Attribute><MessageAttribute><Name>n</"
     "Name><Value><StringValue>3</StringValue><DataType>Number</DataType></Value></"
     "MessageAttribute><MD5OfMessageAttributes>c9f498bff6d51c85e3f28b29b5485f42</MD5OfMessageAttributes></Message></"
     "ReceiveMessageResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></ReceiveMessageResponse>\n"},
    {"Action=DeleteMessageBatch&QueueUrl=r&DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.1."
     "ReceiptHandle=x",
     200,
     "{'DeleteMessageBatchResponse':{'DeleteMessageBatchResult':{'Failed':[{'Id':'a','SenderFault':true,'Code':'"
     "ReceiptHandleIsInvalid','Message':'The input receipt handle \\'x\\' is not a valid receipt "
     "handle.'}],'Successful':null},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<DeleteMessageBatchResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><DeleteMessageBatchResult><BatchResultErrorEntry><Id>a</"
     "Id><SenderFault>true</SenderFault><Code>ReceiptHandleIsInvalid</Code><Message>The input receipt handle "
     "&quot;x&quot; is not a valid receipt "
     "handle.</Message></BatchResultErrorEntry></"
     "DeleteMessageBatchResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ResponseMetadata></DeleteMessageBatchResponse>\n"},
    {"Action=ChangeMessageVisibilityBatch&QueueUrl=r&ChangeMessageVisibilityBatchRequestEntry.1.Id=a&"
     "ChangeMessageVisibilityBatchRequestEntry.1.ReceiptHandle=x&ChangeMessageVisibilityBatchRequestEntry.1."
     "VisibilityTimeout=1",
     200,
     "{'ChangeMessageVisibilityBatchResponse':{'ChangeMessageVisibilityBatchResult':{'Failed':[{'Id':'a','SenderFault':"
     "true,'Code':'ReceiptHandleIsInvalid','Message':'The input receipt handle \\'x\\' is not a valid receipt "
     "handle.'}],'Successful':null},'ResponseMetadata':{'RequestId':'00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ChangeMessageVisibilityBatchResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/"
     "\"><ChangeMessageVisibilityBatchResult><BatchResultErrorEntry><Id>a</Id><SenderFault>true</"
     "SenderFault><Code>ReceiptHandleIsInvalid</Code><Message>The input receipt handle &quot;x&quot; is not a valid "
     "receipt "
     "handle.</Message></BatchResultErrorEntry></"
     "ChangeMessageVisibilityBatchResult><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</"
     "RequestId></ResponseMetadata></ChangeMessageVisibilityBatchResponse>\n"},
    {"Action=ListMessageMoveTasks&SourceArn=arn%3Aaws%3Asqs%3Aus-east-1%3A000000000000%3Ar", 200,
     "{'ListMessageMoveTasksResponse':{'ListMessageMoveTasksResult':{'Results':null},'ResponseMetadata':{'RequestId':'"
     "00000000-1111-2222-3333-444444444444'}}}",
     "<?xml version=\"1.0\"?>\n<ListMessageMoveTasksResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><ListMessageMoveTasksResult/"
     "><ResponseMetadata><RequestId>00000000-1111-2222-3333-444444444444</RequestId></ResponseMetadata></"
     "ListMessageMoveTasksResponse>\n"},
    {"Action=SendMessage&QueueUrl=none&MessageBody=x", 400,
     "{'Error':{'Code':'AWS.SimpleQueueService.NonExistentQueue','Message':'The specified queue does not exist for "
     "this wsdl version. Namespace 000000000000 has no queue "
     "'none'.','Type':'Sender'},'RequestId':'00000000-1111-2222-3333-444444444444'}",
     "<?xml version=\"1.0\"?>\n<ErrorResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error><Type>Sender</"
     "Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code><Message>The specified queue does not exist for this "
     "wsdl version. Namespace 000000000000 has no queue "
     "'none'.</Message><Detail/></Error><RequestId>00000000-1111-2222-3333-444444444444</RequestId></ErrorResponse>\n"},
    {"Action=SendMessage&QueueUrl=q", 400,
     "{'Error':{'Code':'MissingParameter','Message':'The request must contain the parameter "
     "MessageBody.','Type':'Sender'},'RequestId':'00000000-1111-2222-3333-444444444444'}",
     "<?xml version=\"1.0\"?>\n<ErrorResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error><Type>Sender</Type><Code>MissingParameter</"
     "Code><Message>The request must contain the parameter "
     "MessageBody.</Message><Detail/></Error><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ErrorResponse>\n"},
    {"Action=Odd", 400,
     "{'Error':{'Code':'InvalidAction','Message':'The action Odd is not valid for this "
     "endpoint.','Type':'Sender'},'RequestId':'00000000-1111-2222-3333-444444444444'}",
     "<?xml version=\"1.0\"?>\n<ErrorResponse "
     "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error><Type>Sender</Type><Code>InvalidAction</"
     "Code><Message>The action Odd is not valid for this "
     "endpoint.</Message><Detail/></Error><RequestId>00000000-1111-2222-3333-444444444444</RequestId></"
     "ErrorResponse>\n"},
    {"QueueUrl=q", 404,
     "{'Error':{'Code':'NotFound','Message':'There is nothing at this "
     "address.','Type':'Sender'},'RequestId':'00000000-1111-2222-3333-444444444444'}",
     "<UnknownOperationException/>\n<!-- Send a POST with the header X-Amz-Target or a field Action, as AWS SDKs do; "
     "GET /health and GET /metrics answer too. -->\n"},
};

static void replies_to_query_have_what_aws_has(void **state)
{
    struct world *world = sqs_open(state);
    unsigned faults = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        for (unsigned k = 0; k < 2; k++) {
            struct exchange exchange;
            const char *got = ask(world, &exchange, rows[i].form, k == 0);
            const char *expected = k == 0 ? rows[i].json : rows[i].xml;
            bool is_expected = strcmp(got, expected) == 0 && exchange.reply.status == rows[i].status;
            if (!is_expected)
                fprintf(stderr, "%s\n  gave %d %s\n  not  %s\n", rows[i].form, exchange.reply.status, got, expected);
            faults += !is_expected;
            exchange_deinit(&exchange);
        }
    assert_int_equal(faults, 0);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_to_query_have_what_aws_has),
    };
    return cmocka_run_group_tests_name("api: replies to Query", tests, NULL, NULL);
}
