/* Which messages of a queue a request means: read from it, and what became of those that had to stay. And what an act
 * would do, told by DryRun (core/messages/preview.h). Private to src/api. */
#ifndef TALLY_API_SELECTION_H
#define TALLY_API_SELECTION_H

#include "api/action.h"
#include "core/messages/preview.h"

/* Reads MessageIds, Reason, MessageGroupId, SentBefore and SentAfter. *is_given: there is one of them; else all are
 * meant. Ids stand alone. What is there but empty is refused, because it would mean every message.
 * ERROR_SERIALIZATION, ERROR_INVALID_PARAMETER_VALUE. */
enum error selection_read(struct call *call, enum selection_act act, struct selection_command *selection,
                          bool *is_given);

/* MaxMessages; UINT64_MAX where it is absent. */
enum error selection_read_max(struct call *call, uint64_t *messages_max);

/* DryRun: the caller wants to know what would happen, and nothing is to be changed. Notes it in the call. */
enum error selection_read_dry_run(struct call *call, bool *is_dry_run);

/* The members Refused and Refusals. */
void selection_write_refusals(struct call *call, uint64_t refused, const struct refusal *refusals, uint32_t count);

/* The reply to a dry run: of a task, and of what ends messages at once. */
void selection_write_moves(struct call *call, const struct preview *preview);
void selection_write_ends(struct call *call, const struct preview *preview);

/* The reply to a dry run of what ends all messages of a queue. */
void selection_preview_purge(struct call *call, const struct queue *queue);

#endif
