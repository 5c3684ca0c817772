/* sigv4: how long a verification of a signature takes, without a server around it. Prints one line of JSON:
 * microseconds a request, of the process's CPU time, for a signature in the header and for one in the query string.
 *
 * The only one of these programs that links Tally (src/auth). The requests are what botocore signs: a body of 200
 * bytes, and the head that it sends. */
#include "auth/sigv4.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOW_S 1795176000 /* 20261120T120000Z */
#define CREDENTIAL "AKIDEXAMPLE wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY 000000000000 write"
#define TEN "abcdefghij"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define ROUND 1000 /* verifications between two looks at the clock */

static const struct signed_request in_header = {
    .method = BYTES("POST"),
    .path = BYTES("/"),
    .head =
        BYTES("Host: 127.0.0.1:9324\r\nAccept-Encoding: identity\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
              "Content-Type: application/x-amz-json-1.0\r\nx-amzn-query-mode: true\r\n"
              "User-Agent: Boto3/1.34.100 md/Botocore#1.34.100 ua/2.0 os/linux#6.1 md/arch#x86_64 lang/python#3.11\r\n"
              "X-Amz-Date: 20261120T120000Z\r\nAuthorization: AWS4-HMAC-SHA256 "
              "Credential=AKIDEXAMPLE/20261120/us-east-1/sqs/aws4_request, "
              "SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
              "Signature=65d956dc6f48fce171db4f7f461816a9656b2c807b4267fa697f1f0200a35bd0\r\n"
              "amz-sdk-invocation-id: 3f0c6b1a-2f4d-4b6e-9a39-4a1f0c7be001\r\namz-sdk-request: attempt=1\r\n"
              "Content-Length: 200\r\n\r\n"),
    .body = BYTES("{\"QueueUrl\":\"http://127.0.0.1:9324/000000000000/bench\",\"MessageBody\":\"" HUNDRED TEN TEN
                  "abcdefgh\"}"),
};

static const struct signed_request in_query = {
    .method = BYTES("GET"),
    .path = BYTES("/000000000000/bench"),
    .query = BYTES("Action=SendMessage&MessageBody=" HUNDRED HUNDRED
                   "&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20261120%2Fus-east-1%2Fsqs"
                   "%2Faws4_request&X-Amz-Date=20261120T120000Z&X-Amz-Expires=604800&X-Amz-SignedHeaders=host"
                   "&X-Amz-Signature=9552ff00264c6e79b5bbe564fae8852cd91434b1d5de34851ce6d9ba3c79f07c"),
    .head = BYTES("Host: 127.0.0.1:9324\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"),
};

static double cpu_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Microseconds a verification, over at least that many seconds. */
static double measure_us(struct sigv4 *sigv4, const struct credentials *credentials,
                         const struct signed_request *request, double seconds)
{
    struct failure failure = {0};
    const struct credential *credential;
    double begin_s = cpu_now_s(), now_s = begin_s;
    uint64_t count = 0;
    for (; now_s - begin_s < seconds; now_s = cpu_now_s(), count += ROUND)
        for (unsigned i = 0; i < ROUND; i++)
            if (sigv4_verify(sigv4, credentials, request, NOW_S, &credential, &failure) != OK) {
                fprintf(stderr, "sigv4: the example is refused: %s\n", failure.text);
                exit(1);
            }
    return (now_s - begin_s) * 1e6 / (double)count;
}

static void core_pin(unsigned core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof(cores), &cores) != 0) {
        perror("sigv4: can't run on that core");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seconds", required_argument, NULL, 's'}, {"core", required_argument, NULL, 'c'}, {0}};
    double seconds = 1;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == '?')
            return 2;
        if (option == 's')
            seconds = strtod(optarg, NULL);
        else
            core_pin((unsigned)strtoul(optarg, NULL, 10));
    }
    struct credentials *credentials = NULL;
    if (credentials_parse(BYTES(CREDENTIAL), &credentials, NULL) != OK)
        return 1;
    struct sigv4 *sigv4 = sigv4_create("sqs");
    printf("{\"mode\":\"sigv4\",\"header_us\":%.3f,\"query_us\":%.3f}\n",
           measure_us(sigv4, credentials, &in_header, seconds), measure_us(sigv4, credentials, &in_query, seconds));
    sigv4_destroy(sigv4);
    credentials_destroy(credentials);
    return 0;
}
