/* The log in PostgreSQL as src/postgres uses it: append, seal, an outcome that nobody knows, takeover; with a
 * synchronous replica and one failover to it. Spin checks every state, for two nodes and three frames: tests/model/run.
 * README.md says what is left out, and what was found.
 *
 * The database is its WAL: a row of commits. A commit is a seal, which makes another owner, or a frame with one command.
 * The head (epoch and owner) and the tail (the number of frames) follow from it. The replica has the first `received`
 * of the primary's `written` commits. A failover cuts the WAL there.
 *
 * A statement runs in a backend: it is sent, takes its lock on the head, commits, waits for the replica with its lock
 * held, and ends. Until it ends nobody sees what it wrote. When its connection is cut, the backend goes on. The wait for
 * the replica may be cancelled: everybody then sees the commit, and the replica gets it later or never. For those that
 * wait a restart of the primary is the same.
 *
 * What is claimed. -DONLY=n leaves out every claim but Ln.
 *   L1   An append that commits has the epoch and the owner of the head.
 *   L2   The frame that commits is the one behind the tail: each number is there once, without a hole.
 *   L5   No append commits in an epoch that was ended by an acknowledged seal.
 *   L6   Of the seals from one owner at most one is acknowledged. No two nodes take one owner for themselves.
 *   L7   Before a new owner shows what it has read, a commit of its own was acknowledged that came later in the WAL.
 *   L8   A command is answered when its frame's commit, or a later one of the same node, was acknowledged.
 *   L9   A command commits once, and never after its client was told that it did not. After an unknown outcome and a
 *        seal the log ends with the frame in question or with the one before it.
 *   L20  A failover keeps every frame that a client was shown.
 * "Acknowledged" means without a WARNING. Nobody waits for ever: Spin would report an invalid end state.
 *
 * A bug is planted with -D: BUG_NO_FENCE, BUG_NO_LOCK, BUG_LOOK_FIRST, BUG_IGNORE_WARNING, BUG_ASYNCHRONOUS,
 * BUG_SERVE_EARLY, BUG_OWNER_TWICE, BUG_NO_RECONNECT, and BUG_BELIEVE_HEAD, which is what src/postgres did when this was
 * written. */

#ifndef FRAMES
#define FRAMES 3
#endif
#ifndef SEALS
#define SEALS 4   /* the newest epoch */
#endif
#ifndef CANCELS
#define CANCELS 2 /* waits for the replica that may be cancelled */
#endif

/* A frame holds one command. Which one does not matter, so one of all is watched; the others are known by their node. */
#define WATCHED 3
#define OTHER(n) (n + 1)

#define NODES 2
#define BACKENDS 3
#define ORPHAN 2 /* the backend whose connection was cut; 0 and 1 are those of the nodes */
#define PENDING (FRAMES + SEALS)

#ifdef ONLY
#define CLAIM(number, claim) assert(ONLY != number || (claim))
#else
#define CLAIM(number, claim) assert(claim)
#endif

/* --- The database ------------------------------------------------------------------------------------------------- */

mtype = { IDLE, SENT, LOCKED, COMMITTED };      /* the state of a backend */
mtype = { NONE, DONE, NO_ROW, TAKEN, UNKNOWN }; /* an outcome, as its node sees it; TAKEN is SQLSTATE 23505 */

typedef backend_state {
    mtype state = IDLE;
    byte epoch, owner; /* the fence: what must stand in the head */
    byte frame;        /* its number; 0: the statement is a seal */
    byte value;        /* the frame's command, or the new owner */
    byte end           /* commits up to its own */
}

backend_state backends[BACKENDS];
mtype outcomes[NODES] = NONE;
bool is_broken[NODES]; /* the connection went to the primary that burnt */

/* The primary, with what is committed and not yet visible. Owner 0 is nobody. */
byte epoch, owner, tail;
byte frames[FRAMES + 1]; /* the command of each, from 1 on */

/* The replica, and the commits that it has not received: the new owner of a seal, 0 for a frame. */
byte replica_epoch, replica_owner, replica_tail;
byte pending[PENDING];
byte pending_count;
bool has_failed_over;
byte cancels;

/* A node as owner, or as one that wants to be. */
typedef node_state {
    byte epoch, owner; /* that it has, or that it seals from */
    byte heir;         /* the owner that it wants to be */
    bool is_owner
}
node_state nodes[NODES];

/* What the claims are about. */
byte ended;        /* acknowledged seals have ended the epochs below this one */
byte proof[NODES]; /* frames up to the last commit that was acknowledged to this node */
byte shown;        /* frames that some client was shown */
bool has_begun;
bool is_given;     /* the watched command, to a node */
bool is_refused;   /* its client was told that nothing was done */

hidden byte k; /* counts within one step */

#if defined(BUG_NO_FENCE) || defined(BUG_NO_LOCK)
#define HOLDS_LOCK(b) (backends[b].frame == 0 && (backends[b].state == LOCKED || backends[b].state == COMMITTED))
#else
#define HOLDS_LOCK(b) (backends[b].state == LOCKED || backends[b].state == COMMITTED)
#endif
#define IS_SEAL(b) (backends[b].frame == 0)
#define BLOCKS(other, b) (HOLDS_LOCK(other) && (IS_SEAL(other) || IS_SEAL(b))) /* FOR SHARE, and UPDATE */
#define IS_BLOCKED(b) (BLOCKS((b + 1) % BACKENDS, b) || BLOCKS((b + 2) % BACKENDS, b))

#ifdef BUG_NO_FENCE
#define IS_FENCED(b) (IS_SEAL(b) && (backends[b].epoch != epoch || backends[b].owner != owner))
#else
#define IS_FENCED(b) (backends[b].epoch != epoch || backends[b].owner != owner)
#endif

/* The primary key: an insert waits for one of the same number that is under way. */
#define INSERTS(other, b) (backends[other].state == COMMITTED && !IS_SEAL(b) && backends[other].frame == backends[b].frame)
#define WAITS_FOR_KEY(b) (INSERTS((b + 1) % BACKENDS, b) || INSERTS((b + 2) % BACKENDS, b))

inline clear(b) {
    backends[b].state = IDLE; backends[b].epoch = 0; backends[b].owner = 0;
    backends[b].frame = 0; backends[b].value = 0; backends[b].end = 0
}

/* Ends a statement. The outcome of an orphan interests nobody. */
inline end_with(b, outcome) {
    if
    :: b != ORPHAN -> outcomes[b] = outcome; printf("  backend %d ends: %e\n", b, outcome)
    :: else
    fi;
    clear(b)
}

inline note_commit(b, new_owner) {
    backends[b].end = epoch + tail;
    backends[b].state = COMMITTED;
    if
    :: !has_failed_over -> pending[pending_count] = new_owner; pending_count++
    :: else
    fi
}

inline commit_seal(b) {
    epoch++;
    owner = backends[b].value;
    printf("  backend %d commits: epoch %d, owner %d\n", b, epoch, owner);
#if !defined(BUG_NO_FENCE) && !defined(BUG_NO_LOCK)
    if /* an orphan that the fence will refuse is as good as gone */
    :: backends[ORPHAN].state == SENT && IS_FENCED(ORPHAN) -> clear(ORPHAN)
    :: else
    fi;
#endif
    note_commit(b, owner)
}

inline commit_frame(b) {
    printf("  backend %d commits: frame %d, command %d\n", b, backends[b].frame, backends[b].value);
    CLAIM(1, backends[b].epoch == epoch && backends[b].owner == owner);
    CLAIM(2, backends[b].frame == tail + 1);
    CLAIM(5, backends[b].epoch >= ended);
    if
    :: backends[b].value == WATCHED ->
        CLAIM(9, !is_refused);
        for (k : 1 .. tail) {
            CLAIM(9, frames[k] != WATCHED)
        }
    :: else
    fi;
    tail++;
    frames[tail] = backends[b].value;
    note_commit(b, 0)
}

inline execute(b) {
    if
    :: IS_SEAL(b) -> commit_seal(b)
    :: !IS_SEAL(b) && backends[b].frame > tail -> commit_frame(b)
    :: else -> end_with(b, TAKEN)
    fi
}

inline acknowledge(b) {
    if
    :: b != ORPHAN && IS_SEAL(b) ->
        CLAIM(6, backends[b].epoch >= ended);
        ended = backends[b].epoch + 1;
        proof[b] = backends[b].end - ended
    :: b != ORPHAN && !IS_SEAL(b) -> proof[b] = backends[b].frame
    :: else
    fi;
    end_with(b, DONE)
}

inline go_on_alone(b) {
    backends[ORPHAN].state = backends[b].state;
    backends[ORPHAN].epoch = backends[b].epoch; backends[ORPHAN].owner = backends[b].owner;
    backends[ORPHAN].frame = backends[b].frame; backends[ORPHAN].value = backends[b].value;
    backends[ORPHAN].end = backends[b].end;
    end_with(b, UNKNOWN)
}

#ifdef BUG_ASYNCHRONOUS
#define IS_REPLICATED(b) true
#else
#define IS_REPLICATED(b) (has_failed_over || replica_epoch + replica_tail >= backends[b].end)
#endif

#ifdef BUG_IGNORE_WARNING
#define CANCELLED DONE
#else
#define CANCELLED UNKNOWN /* DONE with WARNING 01000, which proves nothing */
#endif

active [BACKENDS] proctype backend() {
end:
    do
#ifdef BUG_NO_LOCK
    :: d_step { backends[_pid].state == SENT && !IS_BLOCKED(_pid) ->
        if
        :: IS_FENCED(_pid) -> end_with(_pid, NO_ROW)
        :: else -> backends[_pid].state = LOCKED
        fi }
    :: d_step { backends[_pid].state == LOCKED && !WAITS_FOR_KEY(_pid) -> execute(_pid) }
#else
    /* Takes the lock, compares, commits: with the lock held, nothing comes in between. */
    :: d_step { backends[_pid].state == SENT && !IS_BLOCKED(_pid) && !WAITS_FOR_KEY(_pid) ->
        if
        :: IS_FENCED(_pid) -> end_with(_pid, NO_ROW)
        :: else -> execute(_pid)
        fi }
#endif
    :: d_step { backends[_pid].state == COMMITTED && IS_REPLICATED(_pid) -> acknowledge(_pid) }
    :: d_step { backends[_pid].state == COMMITTED && !has_failed_over && cancels < CANCELS ->
        printf("  backend %d: its wait for the replica is cancelled\n", _pid);
        cancels++;
        end_with(_pid, CANCELLED) }
    :: d_step { _pid != ORPHAN && backends[_pid].state != IDLE && backends[ORPHAN].state == IDLE ->
        printf("  backend %d goes on without its client\n", _pid);
        go_on_alone(_pid) }
    /* A statement does not arrive. */
    :: d_step { _pid != ORPHAN && backends[_pid].state == SENT -> end_with(_pid, UNKNOWN) }
    /* PostgreSQL notices that the client of an orphan has gone. */
    :: d_step { _pid == ORPHAN && (backends[_pid].state == SENT || backends[_pid].state == LOCKED) -> clear(_pid) }
    od
}

inline receive() {
    if
    :: pending[0] == 0 -> replica_tail++
    :: else -> replica_epoch++; replica_owner = pending[0]
    fi;
    for (k : 1 .. pending_count - 1) {
        pending[k - 1] = pending[k]
    }
    pending_count--;
    pending[pending_count] = 0;
    printf("  the replica has epoch %d, %d frames\n", replica_epoch, replica_tail)
}

inline fail_over() {
    printf("  failover: %d commits are lost\n", pending_count);
    CLAIM(20, replica_tail >= shown);
    has_failed_over = true;
    epoch = replica_epoch; owner = replica_owner; tail = replica_tail;
    for (k : tail + 1 .. FRAMES) {
        frames[k] = 0
    }
    for (k : 0 .. BACKENDS - 1) {
        if
        :: backends[k].state != IDLE -> end_with(k, UNKNOWN)
        :: else
        fi
    }
    for (k : 0 .. NODES - 1) {
        is_broken[k] = true
    }
    /* nothing asks for these any more */
    for (k : 0 .. PENDING - 1) {
        pending[k] = 0
    }
    pending_count = 0; replica_epoch = 0; replica_owner = 0; replica_tail = 0; cancels = 0; shown = 0;
    k = 0
}

active proctype replica() {
end:
    do
    :: d_step { pending_count > 0 -> receive() }
    :: d_step { !has_failed_over -> fail_over() }
    od
}

/* --- A node ------------------------------------------------------------------------------------------------------- */

hidden byte seen_epoch, seen_owner, seen_tail;

/* What a SELECT sees: the commits whose statements have ended. */
inline read_log() {
    d_step {
        seen_epoch = epoch; seen_owner = owner; seen_tail = tail;
        for (k : 0 .. BACKENDS - 1) {
            if
            :: backends[k].state == COMMITTED && IS_SEAL(k) ->
                seen_epoch = backends[k].epoch; seen_owner = backends[k].owner
            :: backends[k].state == COMMITTED && !IS_SEAL(k) && backends[k].frame <= seen_tail ->
                seen_tail = backends[k].frame - 1
            :: else
            fi
        }
        k = 0
    }
}

#define FENCE_IS(e, o) (seen_epoch == e && seen_owner == o)

inline send(in_frame, with_value) {
    d_step {
        printf("node %d sends: epoch %d, owner %d, frame %d, value %d\n", n, nodes[n].epoch, nodes[n].owner, in_frame,
               with_value);
        if
#ifndef BUG_NO_RECONNECT
        :: is_broken[n] -> outcomes[n] = UNKNOWN
#endif
        :: else ->
            backends[n].epoch = nodes[n].epoch; backends[n].owner = nodes[n].owner;
            backends[n].frame = in_frame; backends[n].value = with_value;
            backends[n].state = SENT;
            outcomes[n] = NONE;
            proof[n] = 0;
            has_begun = true
        fi
    }
}

hidden byte j;
#define IN_NODE(m, e, o) (nodes[m].epoch == e && nodes[m].owner == o || nodes[m].epoch + 1 == e && nodes[m].heir == o)
#define IN_BACKEND(b, e, o)                                                                                            \
    (backends[b].epoch == e && backends[b].owner == o ||                                                               \
     IS_SEAL(b) && backends[b].epoch + 1 == e && backends[b].value == o)
#define IS_KNOWN(e, o)                                                                                                 \
    (epoch == e && owner == o || replica_epoch == e && replica_owner == o || IN_NODE(0, e, o) || IN_NODE(1, e, o) ||   \
     IN_BACKEND(0, e, o) || IN_BACKEND(1, e, o) || IN_BACKEND(ORPHAN, e, o))

/* In life a random number, which nobody else has. Here the smallest of this node that nobody knows, so that states are
 * alike. Owners of one epoch only are ever compared. */
inline draw_owner() {
    d_step {
        nodes[n].heir = 0;
        j = n + 1;
#ifndef BUG_OWNER_TWICE
        do
        :: IS_KNOWN(nodes[n].epoch + 1, j) -> j = j + NODES
        :: else ->
            for (k : 0 .. PENDING - 1) {
                if
                :: pending[k] == j -> break
                :: else
                fi
            }
            if
            :: k < PENDING -> j = j + NODES
            :: else -> break
            fi
        od;
#else
        j = 1;
#endif
        nodes[n].heir = j;
        j = 0; k = 0
    }
}

/* The seal succeeded: this node is the owner. */
inline adopt() {
    d_step {
        nodes[n].epoch++; nodes[n].owner = nodes[n].heir; nodes[n].heir = 0;
        printf("node %d is the owner: epoch %d, owner %d\n", n, nodes[n].epoch, nodes[n].owner);
        CLAIM(6, nodes[1 - n].owner != nodes[n].owner || !nodes[1 - n].is_owner);
        nodes[n].is_owner = true
    }
}

/* What this node knows goes into answers. */
inline tell_client() {
    CLAIM(7, proof[n] >= my_tail);
    if
    :: !has_failed_over && my_tail > shown -> shown = my_tail
    :: else
    fi
}

inline forget() {
    d_step {
        nodes[n].epoch = 0; nodes[n].owner = 0; nodes[n].heir = 0; nodes[n].is_owner = false;
        my_tail = 0; command = 0; is_proved = false;
        proof[n] = 0; outcomes[n] = NONE
    }
}

/* A node acts when the outcome of its statement is there: it reads, and sends the next one. It may be as slow as it
 * likes, so this is one step. */
proctype node(byte n) {
    byte my_tail;   /* frames that this node knows */
    byte command;   /* that it writes behind them; 0: none yet, it is taking over */
    bool is_proved; /* what it knows, by an answer that it gave */

standby:
    atomic {
        forget();
        is_broken[n] = false;
        read_log();
        if
        :: seen_epoch == SEALS -> goto stop
        :: else
        fi;
        nodes[n].epoch = seen_epoch; nodes[n].owner = seen_owner;
        draw_owner();

seal:   /* a round of pg_session_seal() or pg_session_regain(): seals, unless it finds that it has */
        is_broken[n] = false;
        read_log();
        if
        :: FENCE_IS(nodes[n].epoch, nodes[n].owner) -> send(0, nodes[n].heir)
        :: FENCE_IS(nodes[n].epoch + 1, nodes[n].heir) -> adopt(); goto found
        :: else -> goto standby /* fenced */
        fi;
        outcomes[n] != NONE;
        if
        :: outcomes[n] == DONE -> outcomes[n] = NONE; adopt()
        :: outcomes[n] != DONE -> outcomes[n] = NONE; goto seal
        :: outcomes[n] == UNKNOWN && command != 0 -> goto standby /* the lease is over */
        fi;
        if
        :: is_broken[n] && command == 0 -> goto standby
        :: is_broken[n] && command != 0 -> goto regain
        :: !is_broken[n] && command == 0 -> goto take_over
        :: !is_broken[n] && command != 0 -> goto look
        fi;

found:  /* nobody acknowledged the seal */
        if
        :: command == 0 /* its first frame will prove what it reads: L7 */
#ifdef BUG_BELIEVE_HEAD
        :: else -> goto look
#else
        :: else -> goto regain
#endif
        fi
    }
    true; /* somebody may do something meanwhile */
    atomic {
        if
        :: is_broken[n] -> goto standby
        :: else
        fi;

take_over:
        read_log();
        my_tail = seen_tail;
#ifdef BUG_SERVE_EARLY
        tell_client();
#endif

append:
        if
        :: my_tail == FRAMES -> goto stop
        :: my_tail < FRAMES && command == 0 && !is_given -> command = WATCHED; is_given = true
        :: my_tail < FRAMES && command == 0 -> command = OTHER(n)
        :: my_tail < FRAMES && command != 0 /* once more, in the new epoch */
        fi;
        send(my_tail + 1, command);
        outcomes[n] != NONE;
        if
        :: outcomes[n] == DONE -> outcomes[n] = NONE; goto answer
        :: outcomes[n] == NO_ROW -> goto standby /* fenced */
        :: outcomes[n] == UNKNOWN || outcomes[n] == TAKEN -> outcomes[n] = NONE
        fi;
#ifdef BUG_LOOK_FIRST
        is_broken[n] = false;
        goto look;
#endif

regain: /* L9: the seal comes first */
        if
        :: nodes[n].epoch == SEALS -> goto stop
        :: nodes[n].epoch < SEALS -> draw_owner(); goto seal
        :: goto standby /* the lease is over */
        fi;

look:
        read_log();
        if
        :: seen_tail == my_tail + 1 && frames[seen_tail] == command -> goto answer
        :: seen_tail == my_tail -> goto append
        :: seen_tail == my_tail -> /* the database refuses it, as when its disk is full */
            is_refused = is_refused || command == WATCHED;
            command = 0;
            goto append
        :: else -> /* there is a newer owner, or a failover took back what was read and not yet shown */
            CLAIM(9, seen_owner != nodes[n].owner || !is_proved);
            goto standby
        fi;

answer:
        CLAIM(8, proof[n] > my_tail);
        my_tail++;
        tell_client();
        is_proved = true;
        command = 0;
        goto append;

stop:
        forget()
    }
}

init {
    run node(0);
    has_begun; /* the nodes are alike: this is the one that begins */
    run node(1)
}
