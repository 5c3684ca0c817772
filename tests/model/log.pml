/* The log in PostgreSQL, as src/postgres uses it: seal, append, an outcome that nobody knows, and a takeover; with a
 * synchronous replica and one failover to it. Spin checks all of it for two nodes and three frames: tests/model/run.
 *
 * The database is a fence (epoch, owner) and a log of frames. A statement runs in a backend, which goes on when its
 * client's connection is cut, and may commit long afterwards. While it waits for the replica it holds its lock on the
 * fence and nobody sees what it wrote. A frame holds the number of a command; each command is given to one node.
 *
 * Checked, as assertions:
 *   L1  an append that commits had the fence's epoch and owner
 *   L2  a frame number is used once, and frames have no hole
 *   L5  when a seal is acknowledged, no append of the ended epoch commits any more
 *   L6  of two seals from one (epoch, owner) one succeeds
 *   L7  a new owner has a frame of its own epoch acknowledged before it answers
 *   L8, L20  what was answered is in the log for ever, also behind a failover
 *   L9  a command is in the log once
 *
 * Planted bugs, each of which must be found: -DBUG_NO_FENCE, -DBUG_SERVE_EARLY, -DBUG_LOOK_FIRST,
 * -DBUG_ANSWER_UNREPLICATED. */

#define FRAMES 3
#define COMMANDS 3
#define NOBODY 0

/* One statement for each node's connection, and one for a statement whose connection was cut. */
#define SLOTS 3
#define CUT 2 /* the slot of the one that was cut */

mtype = { APPEND, SEAL };                        /* what a statement does */
mtype = { EMPTY, QUEUED, FLUSHED };              /* how far it is */
mtype = { NONE, DONE, NOTHING, TAKEN, UNKNOWN }; /* its outcome, as the client sees it */

typedef statement {
    mtype what = APPEND;
    mtype state = EMPTY;
    byte epoch, owner; /* the fence that it compares */
    byte frame, command; /* of an append */
    byte heir;           /* of a seal: the owner to come */
    bool is_new;         /* the first of its owner */
}

/* The primary: what has been flushed. Nobody else sees it while `busy` holds the fence. */
byte epoch = 0, owner = NOBODY;
byte frames[FRAMES + 1]; /* frame n: its command plus 1; 0: there is none */
byte epochs[FRAMES + 1]; /* by which epoch it was written */
byte tail = 0;

/* The replica: what it has received. */
byte r_epoch = 0, r_owner = NOBODY, r_tail = 0;
byte r_frames[FRAMES + 1];
byte r_epochs[FRAMES + 1];
bool has_failed_over = false;

statement slots[SLOTS];
mtype outcomes[2] = NONE;
bool is_down[2]; /* the connection broke */

/* For the assertions. */
byte answered[COMMANDS + 1]; /* frame at which a command was answered; 0: it was not */
byte sealed_epoch = 0;       /* the newest that was acknowledged */
byte next_owner = 1, next_command = 1;
byte owners = 0; /* that have been drawn */

/* The statement goes on without its client. */
inline cut_off(s) {
    slots[CUT].what = slots[s].what; slots[CUT].state = slots[s].state;
    slots[CUT].epoch = slots[s].epoch; slots[CUT].owner = slots[s].owner;
    slots[CUT].frame = slots[s].frame; slots[CUT].command = slots[s].command;
    slots[CUT].heir = slots[s].heir;
    slots[s].state = EMPTY;
    outcomes[s] = UNKNOWN;
    is_down[s] = true
}

inline copy_to_replica() {
    r_epoch = epoch; r_owner = owner; r_tail = tail;
    for (k : 1 .. FRAMES) { r_frames[k] = frames[k]; r_epochs[k] = epochs[k] }
}

/* The outcome goes to the client, if it still listens. */
inline answer(s, outcome) {
    if
    :: s < CUT -> outcomes[s] = outcome
    :: else -> skip
    fi;
    slots[s].state = EMPTY
}

/* Does a statement hold the fence? Appends share it; a seal has it alone. */
#define FLUSHED_APPEND(s) (slots[s].state == FLUSHED && slots[s].what == APPEND)
#define FLUSHED_SEAL(s) (slots[s].state == FLUSHED && slots[s].what == SEAL)
#define SHARED_BY_OTHERS(s) ((s != 0 && FLUSHED_APPEND(0)) || (s != 1 && FLUSHED_APPEND(1)) || (s != CUT && FLUSHED_APPEND(CUT)))
#define SEALED_BY_OTHERS(s) ((s != 0 && FLUSHED_SEAL(0)) || (s != 1 && FLUSHED_SEAL(1)) || (s != CUT && FLUSHED_SEAL(CUT)))

/* What a statement does once it has its lock. */
inline execute(s) {
    if
    :: slots[s].what == APPEND ->
        if
#ifndef BUG_NO_FENCE
        :: slots[s].epoch != epoch || slots[s].owner != owner -> answer(s, NOTHING)
#endif
        :: else ->
            if
            :: frames[slots[s].frame] != 0 -> answer(s, TAKEN)
            :: else ->
#ifndef BUG_NO_FENCE
                assert(slots[s].epoch == epoch && slots[s].owner == owner); /* L1 */
#endif
                assert(slots[s].epoch >= sealed_epoch);  /* L5 */
                assert(slots[s].frame == tail + 1);      /* L2 */
                for (k : 1 .. FRAMES) {                  /* L9 */
                    assert(frames[k] != slots[s].command + 1)
                }
                frames[slots[s].frame] = slots[s].command + 1;
                epochs[slots[s].frame] = slots[s].epoch;
                tail = slots[s].frame;
                slots[s].state = FLUSHED
            fi
        fi
    :: else ->
        if
        :: slots[s].epoch != epoch || slots[s].owner != owner -> answer(s, NOTHING)
        :: else -> /* L6: the next one from there finds another epoch */
            epoch = epoch + 1;
            owner = slots[s].heir;
            slots[s].state = FLUSHED
        fi
    fi
}

/* A statement whose flush the replica has: it ends, its lock is free, and others see it. */
inline finish(s) {
    if
    :: slots[s].what == SEAL && s < CUT -> sealed_epoch = epoch
    :: else -> skip
    fi;
    answer(s, DONE)
}

#define REPLICA_HAS_ALL (r_epoch == epoch && r_owner == owner && r_tail == tail)

active proctype database() {
    byte k, s;
    do
    /* a statement gets its lock */
    :: atomic { slots[0].state == QUEUED && !SEALED_BY_OTHERS(0) && (slots[0].what == APPEND || !SHARED_BY_OTHERS(0)) -> execute(0) }
    :: atomic { slots[1].state == QUEUED && !SEALED_BY_OTHERS(1) && (slots[1].what == APPEND || !SHARED_BY_OTHERS(1)) -> execute(1) }
    :: atomic { slots[CUT].state == QUEUED && !SEALED_BY_OTHERS(CUT) && (slots[CUT].what == APPEND || !SHARED_BY_OTHERS(CUT)) -> execute(CUT) }
    /* the replica gets what was flushed */
    :: atomic { !has_failed_over && !REPLICA_HAS_ALL -> copy_to_replica() }
    /* a statement ends */
    :: atomic { slots[0].state == FLUSHED && (has_failed_over || REPLICA_HAS_ALL) -> finish(0) }
    :: atomic { slots[1].state == FLUSHED && (has_failed_over || REPLICA_HAS_ALL) -> finish(1) }
    :: atomic { slots[CUT].state == FLUSHED && (has_failed_over || REPLICA_HAS_ALL) -> finish(CUT) }
#ifdef BUG_ANSWER_UNREPLICATED
    /* somebody cancels the wait for the replica, and the client does not see the warning */
    :: atomic { slots[0].state == FLUSHED && slots[0].what == APPEND -> answer(0, DONE) }
#endif
    /* a statement of a client that has gone is rolled back when PostgreSQL notices */
    :: atomic { slots[CUT].state == QUEUED -> slots[CUT].state = EMPTY }
    /* a connection is cut while its statement runs; one at a time */
    :: atomic { slots[CUT].state == EMPTY && slots[0].state != EMPTY && !is_down[0] -> cut_off(0) }
    :: atomic { slots[CUT].state == EMPTY && slots[1].state != EMPTY && !is_down[1] -> cut_off(1) }
    /* the primary burns, and the replica takes its place */
    :: atomic { !has_failed_over ->
        has_failed_over = true;
        epoch = r_epoch; owner = r_owner; tail = r_tail;
        for (k : 1 .. FRAMES) { frames[k] = r_frames[k]; epochs[k] = r_epochs[k] }
        for (s : 0 .. SLOTS - 1) {
            if
            :: s < CUT && slots[s].state != EMPTY -> outcomes[s] = UNKNOWN; is_down[s] = true
            :: else -> skip
            fi;
            slots[s].state = EMPTY
        }
        for (k : 1 .. COMMANDS) { /* L20 */
            assert(answered[k] == 0 || frames[answered[k]] == k + 1)
        }
      }
    :: timeout -> break
    od
}

/* --- a node ------------------------------------------------------------------------------------------------------- */

inline send_seal(n, e, o, h) {
    atomic {
        slots[n].what = SEAL; slots[n].epoch = e; slots[n].owner = o; slots[n].heir = h;
        slots[n].state = QUEUED; outcomes[n] = NONE
    }
}

inline send_append(n, e, o, f, c) {
    atomic {
        slots[n].what = APPEND; slots[n].epoch = e; slots[n].owner = o; slots[n].frame = f; slots[n].command = c;
        slots[n].state = QUEUED; outcomes[n] = NONE
    }
}

/* A new connection; a statement of the old one may still be under way. */
inline reconnect(n) {
    atomic { is_down[n] = false; outcomes[n] = NONE }
}

#define FENCE_IS_FREE (!FLUSHED_SEAL(0) && !FLUSHED_SEAL(1) && !FLUSHED_SEAL(CUT))
#define TAIL_IS_VISIBLE (!FLUSHED_APPEND(0) && !FLUSHED_APPEND(1) && !FLUSHED_APPEND(CUT))

proctype node(byte n) {
    byte my_epoch, my_owner, heir, seen_epoch, seen_owner, my_tail, command, k;
    bool serves = false;
    mtype got;

standby:
    serves = false;
    reconnect(n);
    /* Owners are drawn at random; here they are numbered. A node may give up for good. */
    atomic {
        if
        :: owners < 4 -> owners++; heir = next_owner; next_owner++
        :: else -> goto end
        :: goto end
        fi
    }
    atomic { FENCE_IS_FREE -> seen_epoch = epoch; seen_owner = owner }
    if
    :: seen_epoch >= 4 -> goto end
    :: else -> skip
    fi;
    send_seal(n, seen_epoch, seen_owner, heir);
    outcomes[n] != NONE;
    got = outcomes[n];
    if
    :: got == DONE -> my_epoch = seen_epoch + 1; my_owner = heir
    :: got == UNKNOWN -> goto regain_first
    :: else -> goto standby
    fi;

recover:
    /* reads the tail, in a new statement */
    atomic { TAIL_IS_VISIBLE -> my_tail = tail };
    command = 0;
#ifdef BUG_SERVE_EARLY
    serves = true;
#endif
    goto next;

regain_first:
    my_epoch = seen_epoch; my_owner = seen_owner; /* sealed without an answer, perhaps */
    reconnect(n);
    atomic { FENCE_IS_FREE ->
        if
        :: epoch == my_epoch + 1 && owner == heir -> my_epoch = epoch; my_owner = owner; sealed_epoch = epoch; goto recover
        :: else -> goto standby
        fi
    };

next:
    if
    :: my_tail >= FRAMES -> goto end
    :: else -> skip
    fi;
    atomic {
        if
        :: command != 0 -> skip /* the one whose outcome was not known, and that is not there */
        :: command == 0 && next_command <= COMMANDS -> command = next_command; next_command++
        :: command == 0 && next_command > COMMANDS -> goto end
        fi
    };
    send_append(n, my_epoch, my_owner, my_tail + 1, command);
    outcomes[n] != NONE;
    got = outcomes[n];
    if
    :: got == DONE -> goto acknowledged
    :: got == NOTHING -> goto standby /* fenced */
    :: else -> goto regain /* TAKEN, UNKNOWN */
    fi;

regain:
    /* L9: first seals from its own epoch, then looks */
    reconnect(n);
#ifdef BUG_LOOK_FIRST
    goto look;
#endif
    atomic {
        if
        :: owners < 4 -> owners++; heir = next_owner; next_owner++
        :: else -> goto end
        fi
    }
    send_seal(n, my_epoch, my_owner, heir);
    outcomes[n] != NONE;
    got = outcomes[n];
    if
    :: got == DONE -> my_epoch = my_epoch + 1; my_owner = heir
    :: got == UNKNOWN ->
        reconnect(n);
        atomic { FENCE_IS_FREE ->
            if
            :: epoch == my_epoch + 1 && owner == heir -> my_epoch = epoch; my_owner = owner; sealed_epoch = epoch
            :: else -> goto standby
            fi
        }
    :: else -> goto standby
    fi;
look:
    atomic { TAIL_IS_VISIBLE ->
        if
        :: tail > my_tail && frames[my_tail + 1] == command + 1 -> skip
        :: tail == my_tail -> goto next /* again, in the new epoch */
        :: else -> goto standby
        fi
    };

acknowledged:
    atomic {
        my_tail++;
        serves = true;
        assert(answered[command] == 0); /* L9 */
        answered[command] = my_tail;
        assert(frames[my_tail] == command + 1); /* L8 */
        command = 0
    };
    goto next;

end:
    skip
}

/* A client asks a node that serves: it must have everything that was answered (L7, L8). BUG_SERVE_EARLY lets one serve
 * from a tail that it has read, before a frame of its own proves it. */

init { atomic { run node(0); run node(1) } }
