/* What an application tells of its flows (hostlib/include/qclimb.h): noted here, used by the next write that decides. */
#include "connection.h"

#include "../include/qclimb.h"

static int tell(int fd, uint64_t told_bytes)
{
	struct connection *connection = connection_of(fd);

	if (!connection || connection->is_listener)
		return 0;
	atomic_store(&connection->told_bytes, told_bytes);
	atomic_store(&connection->is_turned, true); /* the next write decides, whatever was quiet */
	return 1;
}

/* In parentheses: the header's macros of these names are for callers. */
QCLIMB_EXPORT int(qclimb_flow_size)(int fd, uint64_t bytes)
{
	return bytes ? tell(fd, bytes) : 0;
}

QCLIMB_EXPORT int(qclimb_flow_end)(int fd)
{
	return tell(fd, QCLIMB_UNKNOWN_BYTES);
}
