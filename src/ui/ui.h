/* The dashboard: its files, which stand in the program. embed.py makes them of the folder web/ when Tally is built.
 *
 * Knows no connection and no request; src/server/dashboard.c answers with them. */
#ifndef TALLY_UI_UI_H
#define TALLY_UI_UI_H

#include "base/bytes.h"

enum ui_mode {
    UI_OFF,
    UI_ON,
    UI_READ_ONLY, /* the page shows no button that changes something */
};

/* What the word in the configuration means; false: it is none of on, read-only, off. */
bool ui_mode_find(const char *word, enum ui_mode *mode);
const char *ui_mode_name(enum ui_mode mode);

/* The header lines of everything under /ui/. Scripts, styles and connections are this server's own; no page frames it;
 * text never becomes markup. */
#define UI_FIELDS                                                                                                      \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "               \
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "                                \
    "require-trusted-types-for 'script'; trusted-types 'none'\r\n"                                                     \
    "X-Content-Type-Options: nosniff\r\n"                                                                              \
    "Referrer-Policy: no-referrer\r\n"                                                                                 \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                                      \
    "Cross-Origin-Resource-Policy: same-origin\r\n"

/* A file as it is sent. */
struct ui_form {
    struct bytes content;
    struct bytes etag;  /* strong, with its quotes: a digest of the content */
    const char *fields; /* header lines, UI_FIELDS among them */
};

struct ui_file {
    struct bytes name; /* what stands behind /ui/; empty: the page itself */
    const char *content_type;
    struct ui_form plain;
    struct ui_form zipped; /* by gzip */
};

/* NULL: there is no file of that name. */
const struct ui_file *ui_find(struct bytes name);

/* The table that embed.py makes. */
extern const struct ui_file ui_files[];
extern const size_t ui_file_count;

#endif
