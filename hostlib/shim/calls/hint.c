/*
 * What an application tells of its flows (hostlib/include/qclimb.h): noted here, used by the next write that decides.
 */
#include "socket/connection.h"
#include "life/told.h"

#include "../../include/qclimb.h"

static struct connection *listening(int fd)
{
	struct connection *connection = connection_of(fd);

	return connection && !connection->is_listener ? connection : NULL;
}

/* The next write decides, whatever was quiet. */
static int is_noted(struct connection *connection)
{
	atomic_store(&connection->is_turned, TURNED);
	return 1;
}

/* In parentheses: the header's macros of these names are for callers. */
QCLIMB_EXPORT int(qclimb_flow_size)(int fd, uint64_t bytes)
{
	struct connection *connection = listening(fd);
	uint64_t told;

	if (!connection || !bytes)
		return 0;
	told = atomic_load(&connection->told);
	while (!atomic_compare_exchange_weak(&connection->told, &told, told_size(told, bytes)))
		;
	return is_noted(connection);
}

QCLIMB_EXPORT int(qclimb_flow_deadline)(int fd, uint32_t us)
{
	struct connection *connection = listening(fd);
	uint64_t told, now;

	if (!connection || !us || us > TOLD_FARTHEST_US)
		return 0;
	now = now_ns();
	told = atomic_load(&connection->told);
	while (!atomic_compare_exchange_weak(&connection->told, &told, told_deadline(told, now, us)))
		;
	return is_noted(connection);
}

QCLIMB_EXPORT int(qclimb_flow_end)(int fd)
{
	struct connection *connection = listening(fd);

	if (!connection)
		return 0;
	atomic_store(&connection->told, TOLD_BEGINS);
	return is_noted(connection);
}
