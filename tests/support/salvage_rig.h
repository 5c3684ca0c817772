/* Damage on purpose, and a judge of what a salvage makes of it.
 *
 * The judge knows the truth: the same folder without the damage. Whatever is not in the salvage's notes must be as it
 * was, byte for byte; whatever is in them may be otherwise, but only in the way that the note says. */
#ifndef TALLY_TESTS_SUPPORT_SALVAGE_RIG_H
#define TALLY_TESTS_SUPPORT_SALVAGE_RIG_H

#include "engine/salvage.h"
#include "support/memory_disk.h"

struct salvage_rig_report {
    uint64_t tries;
    uint64_t refused;    /* damaged folders that recovery refuses */
    uint64_t unreadable; /* of which nothing could be read */
    uint64_t cut;        /* whose end looks as a crash leaves it, so that nobody can tell that it was damaged */
    uint64_t messages;   /* in the folders without the damage */
    uint64_t kept;       /* of those, in the new folders */
    uint64_t notes[SALVAGE_NOTE_COUNT];
};

/* Damages a copy of the folder as the seed says, salvages that into a new folder, opens this one as a daemon would, and
 * judges. False, with what is wrong in `wrong`: the salvage is. The disk stays as it is; it must be one that recovery
 * takes. */
bool salvage_rig_try(struct disk *disk, uint64_t seed, struct salvage_rig_report *report, char wrong[512]);

#endif
