/* Where the certificates are, and what they are for. */
#ifndef TALLY_SERVER_TLS_FILES_H
#define TALLY_SERVER_TLS_FILES_H

enum tls_use {
    TLS_FOR_CLIENTS, /* accepts clients, who need no certificate. TLS 1.2 and 1.3 */
    TLS_FOR_NODES, /* joins nodes of a cluster, each of which shows a certificate. TLS 1.3, for both sides are Tally */
};

/* Paths of PEM files; borrowed. */
struct tls_files {
    const char *certificate; /* followed by those that vouch for it */
    const char *key;         /* of the certificate; not encrypted */
    const char *authority;   /* of TLS_FOR_NODES: whoever issues the nodes' certificates */
};

#endif
