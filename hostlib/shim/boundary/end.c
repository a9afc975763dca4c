/* The end of a descriptor (flow_closed in boundary/flow.h): its last look, its last mark, what is lent goes back. */
#include "boundary/flow.h"

#include <errno.h>

#include "life/life.h"
#include "life/unseen.h"
#include "rules/rules.h"
#include "socket/loans.h"
#include "socket/mark.h"
#include "tell/records.h"

/* The last look at a descriptor that is still open. */
static void look_at_end(struct connection *connection, int fd, uint64_t now)
{
	struct rules *rules;

	if (connection->is_open && !connection->has_addresses)
		(void)life_identify(connection, fd,
				    now); /* of a connection that its first write made (TCP Fast Open) */
	if (unseen_is_due(connection, now)) {
		rules = rules_acquire(now);
		if (rules->policy.mode != QCLIMB_OFF &&
		    (!connection->has_addresses || life_identify(connection, fd, now)))
			unseen_look(connection, fd, 0);
		if (connection->unseen_bytes && !connection->is_open && life_identify(connection, fd, now))
			life_start(connection, fd, 0, now, rules); /* nothing of it came by here */
		rules_release(rules);
	}
	if (connection->is_tagged && !connection->is_released) {
		rules = rules_acquire(now);
		if (rules->policy.mode >= QCLIMB_PIAS)
			mark_end(connection, fd, &rules->policy);
		rules_release(rules);
	}
}

void flow_closed(struct connection *connection, int fd)
{
	const int saved = errno;
	const uint64_t now = now_ns();

	if (fd >= 0) {
		look_at_end(connection, fd, now);
		if (connection->lent)
			loans_give(connection, fd); /* another process may have it, too */
	}
	life_finish(connection, now, QCLIMB_RECORD_CLOSED | (fd == FD_LOST ? QCLIMB_RECORD_UNOBSERVED : 0));
	records_flush_if_due(now);
	errno = saved;
}
