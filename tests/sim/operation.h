/* What a simulated client asks for, in numbers; and how it is said in JSON. */
#ifndef TALLY_TESTS_SIM_OPERATION_H
#define TALLY_TESTS_SIM_OPERATION_H

#include "base/buffer.h"

enum operation_kind {
    OPERATION_CREATE_QUEUE,
    OPERATION_SET_QUEUE,
    OPERATION_DELETE_QUEUE,
    OPERATION_PURGE_QUEUE,
    OPERATION_COUNT_QUEUE, /* GetQueueAttributes */
    OPERATION_TAG_QUEUE,
    OPERATION_UNTAG_QUEUE,
    OPERATION_LIST_TAGS,
    OPERATION_ADD_PERMISSION,
    OPERATION_REMOVE_PERMISSION,
    OPERATION_SEND,
    OPERATION_RECEIVE,
    OPERATION_DELETE,
    OPERATION_CHANGE_VISIBILITY,
    OPERATION_FAIL,
    OPERATION_RELEASE_GROUP,
    OPERATION_PAUSE,
    OPERATION_COMMIT,
    OPERATION_OPEN_PUBLISHER,
    OPERATION_PUBLISH,
    OPERATION_EXPLAIN,
    OPERATION_LIST_GROUPS, /* the held ones */
    OPERATION_PUT_TYPE_ORDER,
    OPERATION_DELETE_TYPE_ORDER,
    OPERATION_START_MOVE,
    OPERATION_DELETE_SOME, /* DeleteMessages */
    OPERATION_REPLACE,
    OPERATION_CANCEL_MOVE,
    OPERATION_LIST_MOVES,
    OPERATION_CREATE_BATCH,
    OPERATION_ADD_UNITS,
    OPERATION_COMPLETE_UNITS,
    OPERATION_XOR_UNITS,
    OPERATION_SEAL_BATCH,
    OPERATION_CANCEL_BATCH,
    OPERATION_DESCRIBE_BATCH,
    OPERATION_LIST_UNITS,
    OPERATION_LIST_BATCHES,
    OPERATION_DELETE_BATCH,
    OPERATION_KIND_COUNT
};

#define NONE (-1)
#define ENTRIES_MAX 10u
#define KEYS_MAX 12u
#define IDS_MAX 4u
#define TARGETS 3u
#define HANDLE_SIZE 40u
#define MESSAGE_ID_TEXT_SIZE 40
#define TASK_HANDLE_SIZE 200
#define FIRST_FIFO_QUEUE 8
#define LAST_FIFO_QUEUE 11

/* What CreateQueue says of a queue once and for all, the same for each life of its name. */
struct queue_traits {
    bool is_fifo;
    bool is_strict;
    bool is_content_based;
    bool is_scope_group;
    enum { ON_FAILURE_SKIP, ON_FAILURE_HOLD, ON_FAILURE_CANCEL_REST } on_failure;
    bool is_at_most_once;
    bool refuses_stale; /* of a standard queue */
    int window_s;       /* of deduplication; NONE: not said; WINDOW_EVER */
    int concurrency;    /* of a group; 0: no limit */
    bool has_backoff;
    int backoff_min_s, backoff_max_s, backoff_factor;
    int backoff_jitter;             /* in hundredths */
    int queue_rate_ms, queue_burst; /* one delivery each so many milliseconds; 0: no limit */
    int group_rate_ms, group_burst;
};
#define WINDOW_EVER (-2)

/* What CreateQueue and SetQueueAttributes say of a queue. */
struct queue_numbers {
    int delay_s;
    int visibility_s;
    int retention_s;
    int dead_letters; /* name of the dead-letter queue, or NONE */
    int receive_max;
};

/* One thing that a message is to wait for. */
struct after {
    enum { AFTER_MESSAGE, AFTER_BATCH, AFTER_DEDUP } kind;
    int queue; /* of a deduplication id */
    int name;  /* batch, deduplication id */
    char id[MESSAGE_ID_TEXT_SIZE];
};
#define AFTERS_MAX 3u
enum { AFTER_CANCEL, AFTER_RUN, AFTER_HOLD };
#define TYPES 5       /* "t0" to "t4" */
#define TAGS 4        /* of a queue, "t0" to "t3" */
#define LABELS 3      /* of its permissions, "l0" to "l2" */
#define TYPE_ORDERS 3 /* "o0" to "o2" */
#define PUBLISHERS 2
#define OWNERS 3 /* that publishers may have */
#define ROW_UUID_SIZE 37

struct entry {
    uint32_t tag;  /* send: the body says it, no two calls share one (a repeated call is the same call) */
    uint32_t size; /* send: of the body */
    int delay_s;   /* send: or NONE */
    int batch;     /* send: or NONE */
    int handle;    /* delete, change: index in the table of handles */
    int timeout_s; /* change */
    int group;     /* send: "g<group>", or NONE */
    int priority;  /* send: or NONE */
    int dedup;     /* send: "d<dedup>", or NONE */
    int producer;  /* send: "p<producer>", or NONE */
    int sequence;  /* send: with a producer */
    int queue;     /* commit: of the send, of the handle */
    int type;      /* send: "t<type>", or NONE */
    unsigned after_count;
    struct after after[AFTERS_MAX];
    int after_failure;
    int row_id; /* publish: of the row, and its uid */
    int row_uid;
    bool is_ack; /* publish: the row deletes what `handle` names */
};

struct operation {
    enum operation_kind kind;
    int queue; /* a name: "q<queue>" */
    struct queue_numbers numbers;
    struct queue_traits traits; /* create queue; set queue, with has_traits: those that may change */
    bool has_traits;
    int tags[TAGS]; /* tag: the value "v<n>", 0: not named; untag: not 0: named */
    int label;      /* add, remove permission */
    bool is_many;   /* the form with entries (SendMessageBatch …) */
    unsigned count; /* of entries or keys */
    struct entry entries[ENTRIES_MAX];
    unsigned receive_max; /* receive */
    int timeout_s;        /* receive: or NONE */
    int lease_s;          /* receive: the same, or what the queue said when the request came; the oracle fills it in */
    int wait_s;           /* receive */
    int group;            /* release, pause; NONE: the queue */
    enum { RELEASE_RETRY_, RELEASE_SKIP_, RELEASE_CANCEL_REST_ } action; /* release */
    bool is_paused;                                                      /* pause, or resume */
    bool is_final;                                                       /* fail */
    int reason;                                                          /* fail: or NONE */
    int retry_after_s, attempts_max, bury_in;                            /* fail: the same; the last a queue */
    /* Commit: sends, then deletes, then holds are in `entries`, units in `keys`, a batch that it makes where that of
     * create batch is. */
    unsigned delete_count, hold_count, unit_count;
    int unit_batches[KEYS_MAX];
    bool has_child;
    int added_batch; /* commit: of AddUnits, or NONE */
    unsigned added_count;
    int added_keys[KEYS_MAX];
    int publisher; /* open, publish */
    int owner;
    int epoch;
    int publish_batch;
    int confirmed_batch;
    bool is_strict;                          /* publish: Order */
    bool blocks_refused;                     /* publish: Refused */
    char id[MESSAGE_ID_TEXT_SIZE];           /* explain, replace; that puts the body of entries[0] in the place */
    int attempt;                             /* receive: "a<attempt>", or NONE */
    int order_retention_s;                   /* put type order: Require, and for how long a success counts; 0: not */
    int order;                               /* put type order (its types are in `keys`), delete type order */
    int destination;                         /* start move: a queue, or NONE */
    int move_rate;                           /* start move: messages a second; 0: no limit */
    int move_max;                            /* start move: so many at most; 0: no limit */
    int move_group;                          /* start move, delete some: only messages of this group, or NONE */
    char ids[IDS_MAX][MESSAGE_ID_TEXT_SIZE]; /* delete some: `count` of them; 0: by the group */
    char task[TASK_HANDLE_SIZE];             /* cancel move */
    int batch;                               /* a name: "b<batch>" */
    bool is_xor;                             /* create batch */
    int total;                               /* create batch: or NONE */
    int parent;                              /* create batch: or NONE */
    int expires_s;
    int retention_s;
    int targets[TARGETS];       /* create batch, by event - 1: queue or NONE */
    int target_groups[TARGETS]; /* or NONE */
    bool has_body[TARGETS];
    int keys[KEYS_MAX];       /* add, complete: a key below 1,000 is written as that number, others as "k<key>" */
    bool is_failed[KEYS_MAX]; /* complete */
    int detail;               /* complete: what each report says besides, or NONE */
    int only;                 /* list: a state, or NONE */
    int counted;              /* add: Count, or NONE */
    uint64_t value;           /* xor */
    int registered;
    int finished;
    uint32_t token;
};

/* Words of the protocol, in the order of the model's numbers. */
extern const char *const operation_batch_states[3];
extern const char *const operation_unit_states[4];

/* The value of X-Amz-Target. */
const char *operation_target(const struct operation *operation);

/* Appends the request's JSON. `handles` is the table that entries name. */
void operation_write(const struct operation *operation, char (*handles)[HANDLE_SIZE], struct buffer *out);

/* The body of a sent message, and that of a batch's message whose target gives one. */
void operation_write_body(uint32_t tag, uint32_t size, struct buffer *out);
void operation_write_target_body(int batch, unsigned event, struct buffer *out);

/* "q<queue>", with .fifo behind the names of FIFO queues. */
void operation_write_queue(int queue, struct buffer *out);
bool operation_is_fifo(int queue);
void operation_write_arn(int queue, struct buffer *out);

/* UUIDs of rows and of publishers' owners. */
void operation_write_uid(int uid, char text[ROW_UUID_SIZE]);
void operation_write_owner(int owner, char text[ROW_UUID_SIZE]);

/* A unit's key as text. */
void operation_write_key(int key, struct buffer *out);

#endif
