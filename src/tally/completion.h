/* The completion of command lines in bash, zsh and fish. `tally completion` prints their scripts, which ask
 * `tally __complete` what fits. */
#ifndef TALLY_TALLY_COMPLETION_H
#define TALLY_TALLY_COMPLETION_H

/* `tally __complete WORD…`, which no help names: prints what fits at the last word, each on a line with a tab and what
 * it means. EXIT_DONE, or COMPLETION_FILES: the names of files fit. It ends within 300 ms, and is silent on errors. */
#define COMPLETION_FILES 1
int completion_run(int count, char **words);

#endif
