/* What the files of MySQL's source share: source_mysql.c (rows), source_mysql_floor.c (what a scan passes over),
 * source_mysql_intents.c (what is noted of rows), source_mysql_admin.c (admin queries). */
#ifndef TALLY_RELAY_SOURCE_MYSQL_PARTS_H
#define TALLY_RELAY_SOURCE_MYSQL_PARTS_H

#include "base/assert.h"
#include "relay/mysql_session.h"
#include "relay/source.h"
#include "relay/tombstones.h"

/* What is known of this connection in this term, and forgotten with either. */
struct mysql_floor {
    struct term term;
    unsigned connection;
    uint64_t whole_ms; /* when the next scan reads everything */
    bool is_whole;     /* this one does */
    struct tombstones tombstones;
};

struct source_mysql {
    struct source source;
    struct mysql_session session;
    struct mysql_floor floor;
    bool is_scanning;    /* between begin_scan() and end_scan() */
    uint64_t horizon_ms; /* when to look at old transactions again */
    char horizon[FAULT_TEXT_SIZE];
};

static inline struct source_mysql *source_mysql_of(struct source *source)
{
    ASSERT(source != NULL);
    return CONTAINER_OF(source, struct source_mysql, source);
}

/* The columns of a row in the order in which source_mysql_read_rows() takes them; of the table `o`. */
#define MYSQL_ROW_COLUMNS                                                                                              \
    "o.id, o.uid, o.kind, o.delay_s, o.queue, o.group_id, o.dedup_id, o.attributes, o.body, " MYSQL_AGE_MS("o."        \
                                                                                                           "created")

/* Appends what a statement with these columns yielded. STEP_UNFIT: a row has a name that can't be one. */
enum step source_mysql_read_rows(MYSQL_RES *result, struct rows *rows, struct fault *fault);

/* A transaction begun by its owner: the row of the lease is locked, so the term stays true until the end. STEP_FENCED:
 * another relay has taken over. On failure there is no transaction. */
enum step source_mysql_begin(struct source_mysql *self, const struct term *term, struct fault *fault);

/* Deletes rows by id and uid within a transaction; how many were there. */
enum step source_mysql_delete(struct source_mysql *self, const struct row_name *names, size_t count, uint64_t *deleted,
                              struct fault *fault);

/* With a connection: what was known over another one, or in another term, is forgotten. */
void mysql_floor_renew(struct source_mysql *self, const struct term *term);
/* The same, before each scan: decides whether it is one of everything. */
void mysql_floor_begin(struct source_mysql *self, const struct term *term);
/* Appends the condition of a scan on `id`. */
void mysql_floor_say(struct source_mysql *self);
/* These rows were there and are deleted, and the commit is known. */
void mysql_floor_note_deleted(struct source_mysql *self, const struct row_name *names, size_t count);
/* What the scan found, in the order of ids. */
void mysql_floor_note_found(struct source_mysql *self, const struct rows *rows);

/* The rest is of struct source_ops. */
enum step source_mysql_note(struct source *source, const struct term *term, uint64_t last, uint64_t next,
                            const struct row_name *names, size_t count, struct fault *fault);
enum step source_mysql_find_intent(struct source *source, const struct term *term, const struct intent *after,
                                   struct intent *intent, struct rows *rows, bool *is_open, struct fault *fault);
enum step source_mysql_end_intent(struct source *source, const struct term *term, const struct intent *intent,
                                  const struct row_name *done, size_t count, struct fault *fault);
enum step source_mysql_check_health(struct source *source, struct source_health *health, struct fault *fault);
enum step source_mysql_list_parked(struct source *source, unsigned limit, struct arena *arena, struct parked **parked,
                                   size_t *count, struct fault *fault);
enum step source_mysql_resolve(struct source *source, const struct uid *uid, enum resolution resolution, bool *is_found,
                               struct fault *fault);

#endif
