/*
 * What an application tells of its flows (hostlib/include/qclimb.h): noted here, used by the next write that decides.
 */
#include "life/turned.h"

#include "../../include/qclimb.h"

static struct connection *listening(int fd)
{
	struct connection *connection = connection_of(fd);

	return connection && !connection->is_listener ? connection : NULL;
}

/* In parentheses: the header's macros of these names are for callers. */
QCLIMB_EXPORT int(qclimb_flow_size)(int fd, uint64_t bytes)
{
	struct connection *connection = listening(fd);
	uint64_t told;

	if (!connection || !bytes)
		return 0;
	told = atomic_load(&connection->told);
	while (!told_change(connection, &told, told_size(told, bytes)))
		;
	return 1;
}

QCLIMB_EXPORT int(qclimb_flow_deadline)(int fd, uint32_t us)
{
	struct connection *connection = listening(fd);
	uint64_t told, now;

	if (!connection || !us || us > TOLD_FARTHEST_US)
		return 0;
	now = now_ns();
	told = atomic_load(&connection->told);
	while (!told_change(connection, &told, told_deadline(told, now, us)))
		;
	return 1;
}

QCLIMB_EXPORT int(qclimb_flow_end)(int fd)
{
	struct connection *connection = listening(fd);
	uint64_t told;

	if (!connection)
		return 0;
	told = atomic_load(&connection->told);
	while (!told_change(connection, &told, TOLD_BEGINS))
		;
	return 1;
}
