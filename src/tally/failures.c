/* tally failures: why the messages of a queue failed, the most frequent reason first. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>
#include <time.h>

static void print_reason(yyjson_val *reason)
{
    char age[OUTPUT_AGE_SIZE];
    const double age_s = (double)time(NULL) - json_real(reason, "NewestAt");
    const char *sample = yyjson_get_str(yyjson_arr_get_first(yyjson_obj_get(reason, "MessageIds")));
    output_age(age_s > 0 ? (uint64_t)age_s : 0, age);
    printf("%8llu %8s  %s", (unsigned long long)json_number(reason, "Count"), age, sample == NULL ? "" : sample);
    output_in_line("  ", output_text_of(reason, "Reason"));
    puts(json_is_true(reason, "IsCut") ? "..." : "");
}

static void print_summary(yyjson_val *answer)
{
    size_t i, max;
    yyjson_val *reason;
    const uint64_t silent = json_number(answer, "WithoutReason");
    printf("%8s %8s  %-36s  %s\n", "COUNT", "NEWEST", "ONE OF THEM", "REASON");
    yyjson_arr_foreach(yyjson_obj_get(answer, "Reasons"), i, max, reason)
    {
        print_reason(reason);
    }
    if (silent > 0)
        printf("%8llu %8s  %-36s  %s\n", (unsigned long long)silent, "-", "-", "(nobody said why)");
    if (!json_is_true(answer, "IsComplete"))
        complain("this is of %llu messages: the newest dead letters, and the oldest of the others",
                 (unsigned long long)json_number(answer, "Looked"));
}

const struct command command_failures = {
    .action = "Tally.SummarizeFailures", .members = {"QueueUrl"}, .print = print_summary};
