/* Answers what a browser asks of the dashboard: the files under /ui/ (ui/ui.h), and the way to them.
 *
 * They are the same for everybody and say nothing of what is in the server, so neither a credential nor a log is asked
 * for; what the page shows it gets by signed requests like any client. A node that serves no namespace answers them
 * too. */
#ifndef TALLY_SERVER_DASHBOARD_H
#define TALLY_SERVER_DASHBOARD_H

#include "server/hub.h"

/* Is the request for dashboard_answer()? A GET or HEAD of /ui, of what is under it, or of / by a browser. */
bool dashboard_takes(const struct hub *hub, const struct request *request, const struct http *http);

/* Fills all of the reply but what route.c adds. O(files) and a copy of one of them. */
void dashboard_answer(const struct hub *hub, const struct request *request, struct reply *reply);

#endif
