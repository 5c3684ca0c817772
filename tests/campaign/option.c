#include "option.h"

#include "text.h"

#include <stdlib.h>

double option_number(const char *text, double min, double max)
{
    char *end;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= min && value <= max))
        fatal("%s: expected a number from %g to %g", text, min, max);
    return value;
}
