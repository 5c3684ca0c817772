/* A picture of a simulation, as SVG: how long the tickets waited, and how many waited when. */
#ifndef TALLY_TALLY_SIMULATION_PLOT_H
#define TALLY_TALLY_SIMULATION_PLOT_H

#include "tally/simulation.h"

/* Writes the picture of a finished simulation. False if `out` can't be written to. */
bool simulation_plot(const struct simulation *simulation, const char *title, FILE *out);

#endif
