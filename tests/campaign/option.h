/* What the programs of the campaigns read from their command lines. */
#ifndef TALLY_CAMPAIGN_OPTION_H
#define TALLY_CAMPAIGN_OPTION_H

/* The text as a number from `min` to `max`; ends the program if it is none. */
double option_number(const char *text, double min, double max);

#endif
