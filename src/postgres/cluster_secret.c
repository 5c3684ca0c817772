#include "postgres/cluster_secret.h"
#include "platform/random.h"

#include <openssl/evp.h>

#define COST 15u /* of a new row: N = 2^COST */
#define COST_MIN 14u
#define COST_MAX 20u /* 1 GiB */
#define BLOCK_SIZE 8u

struct cluster_row {
    uint32_t cost;
    uint8_t salt[CLUSTER_SALT_SIZE];
    uint8_t fingerprint[CLUSTER_FINGERPRINT_SIZE];
    char node[PG_NODE_SIZE]; /* that began the cluster */
    char address[PG_ADDRESS_SIZE];
    char began_at[32];
};

static enum error compute(struct bytes secret, const uint8_t salt[CLUSTER_SALT_SIZE], uint32_t cost,
                          uint8_t fingerprint[CLUSTER_FINGERPRINT_SIZE], struct failure *failure)
{
    const uint64_t rounds = UINT64_C(1) << cost, memory_max = 2 * 128 * BLOCK_SIZE * rounds;
    if (EVP_PBE_scrypt((const char *)secret.ptr, secret.size, salt, CLUSTER_SALT_SIZE, rounds, BLOCK_SIZE, 1,
                       memory_max, fingerprint, CLUSTER_FINGERPRINT_SIZE) == 1)
        return OK;
    return failure_set(failure, ERROR_INTERNAL_FAILURE, "the fingerprint of the cluster's secret can't be computed.");
}

static enum error read_row(struct pg_session *session, struct cluster_row *row, bool *is_there, uint64_t until_ms,
                           struct failure *failure)
{
    const struct pg_values none = {0};
    PGresult *result = NULL;
    if (pg_session_run(session, PG_CLUSTER, &none, until_ms, &result, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    *is_there = PQntuples(result) == 1;
    *row = (struct cluster_row){0};
    enum error error = OK;
    if (*is_there) {
        const struct bytes salt = pg_field(result, 0, 0), fingerprint = pg_field(result, 0, 2);
        row->cost = (uint32_t)pg_number(result, 0, 1);
        pg_text(result, 0, 3, row->node, sizeof(row->node));
        pg_text(result, 0, 4, row->address, sizeof(row->address));
        pg_text(result, 0, 5, row->began_at, sizeof(row->began_at));
        if (salt.size == CLUSTER_SALT_SIZE && fingerprint.size == CLUSTER_FINGERPRINT_SIZE && row->cost >= COST_MIN &&
            row->cost <= COST_MAX) {
            memcpy(row->salt, salt.ptr, CLUSTER_SALT_SIZE);
            memcpy(row->fingerprint, fingerprint.ptr, CLUSTER_FINGERPRINT_SIZE);
        } else {
            error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                                "The row of tally_log.cluster was changed: no secret fits it. To have the nodes write "
                                "it anew, stop them all and run: DELETE FROM tally_log.cluster;");
        }
    }
    PQclear(result);
    return error;
}

static void note_fit(struct cluster_fingerprint *known, const struct cluster_row *row)
{
    known->is_known = true;
    memcpy(known->salt, row->salt, CLUSTER_SALT_SIZE);
    memcpy(known->bytes, row->fingerprint, CLUSTER_FINGERPRINT_SIZE);
}

static enum error write_row(struct pg_session *session, struct bytes secret, struct cluster_fingerprint *known,
                            uint64_t until_ms, struct failure *failure)
{
    struct cluster_row row = {.cost = COST};
    random_fill(row.salt, sizeof(row.salt));
    const enum error error = compute(secret, row.salt, row.cost, row.fingerprint, failure);
    if (error != OK)
        return error;
    note_fit(known, &row);
    struct pg_values values = {0};
    pg_add_bytes(&values, bytes_make(row.salt, sizeof(row.salt)));
    pg_add_i32(&values, row.cost);
    pg_add_bytes(&values, bytes_make(row.fingerprint, sizeof(row.fingerprint)));
    pg_add_bytes(&values, bytes_from_string(session->options->node));
    pg_add_bytes(&values, bytes_from_string(session->options->address));
    return pg_session_run(session, PG_CLUSTER_BEGIN, &values, until_ms, NULL, failure) == PG_DONE
               ? OK
               : ERROR_SERVICE_UNAVAILABLE;
}

static bool is_known_to_fit(const struct cluster_fingerprint *known, const struct cluster_row *row)
{
    return known->is_known && memcmp(known->salt, row->salt, CLUSTER_SALT_SIZE) == 0 &&
           memcmp(known->bytes, row->fingerprint, CLUSTER_FINGERPRINT_SIZE) == 0;
}

static enum error compare(struct bytes secret, const struct cluster_row *row, struct cluster_fingerprint *known,
                          struct failure *failure)
{
    if (is_known_to_fit(known, row))
        return OK;
    uint8_t fingerprint[CLUSTER_FINGERPRINT_SIZE];
    const enum error error = compute(secret, row->salt, row->cost, fingerprint, failure);
    if (error != OK)
        return error;
    if (!bytes_equal_constant_time(bytes_make(fingerprint, sizeof(fingerprint)),
                                   bytes_make(row->fingerprint, sizeof(row->fingerprint))))
        return failure_set(
            failure, ERROR_INVALID_PARAMETER_VALUE,
            "The database that log names belongs to a cluster with another secret: node %s (%s) began it "
            "on %s. If this node is to join that cluster, copy the file that cluster-secret names from "
            "one of its nodes. If not, give this one a database of its own.",
            row->node, row->address, row->began_at);
    note_fit(known, row);
    return OK;
}

enum error cluster_secret_check(struct pg_session *session, struct bytes secret, struct cluster_fingerprint *known,
                                uint64_t until_ms, struct failure *failure)
{
    struct cluster_row row;
    bool is_there = false;
    enum error error = read_row(session, &row, &is_there, until_ms, failure);
    if (error == OK && !is_there) {
        error = write_row(session, secret, known, until_ms, failure);
        if (error == OK) /* another node may have been faster */
            error = read_row(session, &row, &is_there, until_ms, failure);
        if (error == OK && !is_there)
            error = failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "the row of tally_log.cluster is gone again.");
    }
    return error == OK ? compare(secret, &row, known, failure) : error;
}
