#include "server/pace.h"

#include "base/assert.h"

void pace_note(struct pace *pace, uint64_t now_ns, uint64_t idle_ns, uint64_t requests)
{
    ASSERT(now_ns >= pace->begun_ns && idle_ns >= pace->idle_ns && requests >= pace->requests);
    uint64_t taken = requests - pace->requests;
    if (pace->begun_ns != 0 && taken < PACE_REQUESTS_MIN)
        return;
    if (pace->begun_ns != 0) {
        uint64_t passed_ns = now_ns - pace->begun_ns;
        uint64_t waited_ns = idle_ns - pace->idle_ns;
        uint64_t each_ns = waited_ns < passed_ns ? (passed_ns - waited_ns) / taken : 0;
        pace->request_ns = pace->request_ns == 0 ? each_ns : (pace->request_ns * 7 + each_ns) / 8;
    }
    pace->begun_ns = now_ns;
    pace->idle_ns = idle_ns;
    pace->requests = requests;
}
