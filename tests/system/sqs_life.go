// The AWS SDK for Go, version 2, as a program would use it: sqs_life ENDPOINT runs every scenario to its good end.
//
// Built without modules, from the sources that the distribution installs (test_clients_go.py).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

var ctx = context.Background()

// check ends the program unless the claim holds.
func check(claim bool, format string, values ...any) {
	if !claim {
		fmt.Fprintf(os.Stderr, format+"\n", values...)
		os.Exit(1)
	}
}

// must is for calls that have to succeed.
func must[T any](value T, err error) T {
	check(err == nil, "%v", err)
	return value
}

func makeQueue(client *sqs.Client, name string, attributes map[string]string) *string {
	made := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes}))
	return made.QueueUrl
}

func receiveOne(client *sqs.Client, url *string, names ...string) types.Message {
	taken := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: 10, WaitTimeSeconds: 5,
		AttributeNames: []types.QueueAttributeName{"All"}, MessageAttributeNames: names,
	}))
	check(len(taken.Messages) == 1, "%d messages", len(taken.Messages))
	return taken.Messages[0]
}

func text(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

// The life of a message. The SDK checks MD5OfBody and MD5OfMessageBody itself.
func life(client *sqs.Client) {
	url := makeQueue(client, "life", map[string]string{"VisibilityTimeout": "60"})
	found := must(client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("life")}))
	check(*found.QueueUrl == *url, "another URL")
	listed := must(client.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: aws.String("li")})).QueueUrls
	check(reflect.DeepEqual(listed, []string{*url}), "%v", listed)
	body := "Grüße\r\n<&>\"' 🎉"
	sent := must(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}))
	message := receiveOne(client, url)
	check(*message.Body == body && *message.MessageId == *sent.MessageId, "%v", message)
	check(message.Attributes["ApproximateReceiveCount"] == "1", "%v", message.Attributes)
	must(client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: url, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: 0,
	}))
	message = receiveOne(client, url)
	must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: message.ReceiptHandle}))
	empty := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url}))
	check(len(empty.Messages) == 0, "%v", empty.Messages)
	must(client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: url}))
}

func batches(client *sqs.Client) {
	url := makeQueue(client, "tens", nil)
	var entries []types.SendMessageBatchRequestEntry
	for n := 0; n < 10; n++ {
		body := fmt.Sprintf("body %d", n)
		if n == 3 {
			body = "bad \x01"
		}
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(n)), MessageBody: &body})
	}
	answer := must(client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: url, Entries: entries}))
	check(len(answer.Successful) == 9 && len(answer.Failed) == 1, "%v", answer)
	check(*answer.Failed[0].Id == "3" && *answer.Failed[0].Code == "InvalidMessageContents", "%v", *answer.Failed[0].Code)
	taken := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10}))
	check(len(taken.Messages) == 9, "%d messages", len(taken.Messages))
	var deletes []types.DeleteMessageBatchRequestEntry
	for n, message := range taken.Messages {
		entry := types.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(n)), ReceiptHandle: message.ReceiptHandle}
		deletes = append(deletes, entry)
	}
	gone := must(client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: deletes}))
	check(len(gone.Successful) == 9 && len(gone.Failed) == 0, "%v", gone)
}

func fifo(client *sqs.Client) {
	url := makeQueue(client, "line.fifo", map[string]string{"FifoQueue": "true"})
	send := &sqs.SendMessageInput{
		QueueUrl: url, MessageBody: aws.String("a"), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("1"),
	}
	first, again := must(client.SendMessage(ctx, send)), must(client.SendMessage(ctx, send))
	check(*first.MessageId == *again.MessageId && *first.SequenceNumber == *again.SequenceNumber, "%v %v", first, again)
	message := receiveOne(client, url)
	check(message.Attributes["MessageGroupId"] == "g", "%v", message.Attributes)
	check(message.Attributes["SequenceNumber"] == *first.SequenceNumber, "%v", message.Attributes)
}

// A message with ten attributes is sent on as it came.
func forward(client *sqs.Client) {
	here, there := makeQueue(client, "here", nil), makeQueue(client, "there", nil)
	ten := map[string]types.MessageAttributeValue{"blob": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}}}
	for n := 0; n < 9; n++ {
		ten[fmt.Sprintf("a%d", n)] = text(fmt.Sprint(n))
	}
	sent := must(client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: here, MessageBody: aws.String("a"), MessageAttributes: ten,
	}))
	message := receiveOne(client, here, "All")
	check(*message.MD5OfMessageAttributes == *sent.MD5OfMessageAttributes, "another digest")
	on := must(client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: there, MessageBody: message.Body, MessageAttributes: message.MessageAttributes,
	}))
	came := receiveOne(client, there, "All")
	check(*on.MD5OfMessageAttributes == *sent.MD5OfMessageAttributes, "another digest")
	check(*came.MD5OfMessageAttributes == *sent.MD5OfMessageAttributes && len(came.MessageAttributes) == 10, "%v", came)
	message = receiveOneAgain(client, there, came, "Tally.*")
	check(message.MessageAttributes["Tally.FencingToken"].StringValue != nil, "%v", message.MessageAttributes)
}

func receiveOneAgain(client *sqs.Client, url *string, message types.Message, names ...string) types.Message {
	must(client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: url, ReceiptHandle: message.ReceiptHandle,
	}))
	return receiveOne(client, url, names...)
}

// refused says whether the call failed with one of the two names that SQS has for the error.
func refused(err error, names ...string) bool {
	var told smithy.APIError
	if !errors.As(err, &told) {
		return false
	}
	for _, name := range names {
		if told.ErrorCode() == name {
			return true
		}
	}
	return false
}

// Where Query and JSON call an error by two names, the SDK of Debian 12 has no type for that of Query.
func errorsHaveTypes(client *sqs.Client) {
	url := makeQueue(client, "q", nil)
	wrong := aws.String(*url + "x")
	_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: wrong, MessageBody: aws.String("a")})
	check(refused(err, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"), "%v", err)
	check(strings.Contains(err.Error(), "has no queue 'qx'"), "%v", err)
	_, err = client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String("garbage")})
	var handle *types.ReceiptHandleIsInvalid
	check(errors.As(err, &handle), "%v", err)
	_, err = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("\x01")})
	var contents *types.InvalidMessageContents
	check(errors.As(err, &contents), "%v", err)
	other := map[string]string{"DelaySeconds": "7"}
	_, err = client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("q"), Attributes: other})
	check(refused(err, "QueueNameExists", "QueueAlreadyExists"), "%v", err)
}

func main() {
	key, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	client := sqs.New(sqs.Options{
		Region:           "us-east-1",
		Credentials:      credentials.NewStaticCredentialsProvider(key, secret, ""),
		EndpointResolver: sqs.EndpointResolverFromURL(os.Args[1]),
	})
	for _, scenario := range []func(*sqs.Client){life, batches, fifo, forward, errorsHaveTypes} {
		scenario(client)
	}
	fmt.Println("good")
}
