# Amazon::SQS::Simple as a program would use it: sqs_life.pl ENDPOINT SCENARIO.
# It sends forms with an X-Amz-Target, and a Host without a port, and goes to the queue URLs that it is given.
use strict;
use warnings;
use utf8;

use Amazon::SQS::Simple;

my ($endpoint, $scenario) = @ARGV;
my $sqs = Amazon::SQS::Simple->new($ENV{AWS_ACCESS_KEY_ID}, $ENV{AWS_SECRET_ACCESS_KEY}, Endpoint => $endpoint);

sub check {
    my ($claim, $what) = @_;
    die "not so: $what\n" unless $claim;
}

# The text of the error that a call dies with.
sub error_of {
    my ($call) = @_;
    eval { $call->(); 1 } and die "it did not fail\n";
    return $@;
}

my %scenarios = (
    life => sub {
        my $queue = $sqs->CreateQueue('life', 'Attribute.1.Name' => 'VisibilityTimeout', 'Attribute.1.Value' => 60);
        check($queue->Endpoint eq "$endpoint/000000000000/life", $queue->Endpoint);
        check(join(',', map { $_->Endpoint } @{$sqs->ListQueues(QueueNamePrefix => 'li')}) eq $queue->Endpoint, 'list');
        check(!defined $sqs->ListQueues(QueueNamePrefix => 'zz'), 'an empty list');
        check(!defined scalar $queue->ReceiveMessage, 'nothing to receive');
        my $body = "Gr\x{fc}\x{df}e <&>\"' 100% + a=b\n\x{1f389}";
        my $sent = $queue->SendMessage($body);
        check($sent->MessageId && $sent->MD5OfMessageBody =~ /^[0-9a-f]{32}$/, 'sent');
        my $message = $queue->ReceiveMessage(WaitTimeSeconds => 5);
        check($message->MessageBody eq $body && $message->MessageId eq $sent->MessageId, 'received');
        $queue->ChangeMessageVisibility($message->ReceiptHandle, 0);
        $message = $queue->ReceiveMessage;
        $queue->DeleteMessage($message);
        my $attributes = $queue->GetAttributes;
        check($attributes->{VisibilityTimeout} == 60 && $attributes->{ApproximateNumberOfMessages} == 0, 'attributes');
        $queue->SetAttribute(VisibilityTimeout => 61);
        check($queue->GetAttributes(AttributeName => 'VisibilityTimeout')->{VisibilityTimeout} == 61, 'set');
        $queue->AddPermission('label', {'111111111111' => ['SendMessage', 'ReceiveMessage']});
        $queue->RemovePermission('label');
        $queue->Delete;
    },
    batches => sub {
        my $queue = $sqs->CreateQueue('tens');
        my @sent = $queue->SendMessageBatch([map { "body $_" } 0 .. 9]);
        check(@sent == 10 && !grep({ !$_->VerifyReceipt } @sent), 'ten with the right digests');
        my @taken = $queue->ReceiveMessageBatch;
        check(join(',', sort map { $_->MessageBody } @taken) eq join(',', map { "body $_" } 0 .. 9), 'ten received');
        $queue->DeleteMessageBatch(\@taken);
        $queue->SendMessage('x');
        $queue->Purge;
        check($queue->GetAttributes->{ApproximateNumberOfMessages} == 0, 'purged');
    },
    errors => sub {
        my $queue = $sqs->CreateQueue('q');
        my $missing = $sqs->GetQueue("$endpoint/000000000000/qx");
        my $said = error_of(sub { $missing->SendMessage('a') });
        check($said =~ /AWS.SimpleQueueService.NonExistentQueue/ && $said =~ /has no queue 'qx'/, $said);
        $said = error_of(sub { $queue->DeleteMessage('garbage') });
        check($said =~ /<Code>ReceiptHandleIsInvalid</, $said);
        # A trailing slash means nothing.
        check($sqs->GetQueue($queue->Endpoint . '/')->SendMessage('a')->MessageId, 'with a slash');
    },
);

$scenarios{$scenario}->();
