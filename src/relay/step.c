#include "relay/step.h"

#include <stdio.h>

enum step fault_set(struct fault *fault, enum step step, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    return step;
}
