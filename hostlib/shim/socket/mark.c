#include "socket/mark.h"

#include <netinet/ip.h>
#include <qclimb/wire.h>
#include <string.h>

#include "socket/tagger.h"
#include "socket/written.h"
#include "tell/log.h"

/* All packets of this connection are IPv6: its peer is known, and no v4-mapped one. */
static bool is_all_ipv6(const struct connection *connection)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	if (!connection->is_ipv6)
		return false;
	__asm__ volatile("" : : : "memory"); /* else both are read by one word, with bits that a close writes */
	return connection->has_peer && memcmp(connection->peer_addr, mapped, sizeof(mapped));
}

/*
 * IP_TOS also covers v4-mapped peers of an IPv6 socket; elsewhere on IPv6 it is left out, for it makes the kernel look
 * up the route anew. It overwrites the socket's priority, so SO_PRIORITY comes last.
 */
static bool set(struct connection *connection, int fd, uint8_t dscp, int so_priority, bool is_ipv6_only)
{
	const int tos = dscp << 2; /* the kernel keeps the ECN bits of a TCP socket */
	const int saved = errno;
	bool ok = true;

	if (connection->is_ipv6)
		ok = !sys_setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
	if (ok && !is_ipv6_only && sys_setsockopt(fd, IPPROTO_IP, IP_TOS, tos) && !connection->is_ipv6)
		ok = false;
	if (ok)
		(void)sys_setsockopt(fd, SOL_SOCKET, SO_PRIORITY, so_priority);
	errno = saved;
	return ok;
}

static bool mark_as(struct connection *connection, int fd, uint32_t priority, uint8_t dscp)
{
	relaxed_set(connection->priority, (uint8_t)priority);
	if (connection->dscp == dscp)
		return true;
	if (!set(connection, fd, dscp,
		 connection->own_so_priority >= 0 ? connection->own_so_priority : (int)qclimb_so_priority(priority),
		 is_all_ipv6(connection)))
		return false;
	LOG("fd=%d priority=%u dscp=%u at=%llu", fd, priority, dscp, (unsigned long long)flow_bytes(connection));
	connection->dscp = dscp;
	return true;
}

bool mark(struct connection *connection, int fd, const struct qclimb_policy *policy, uint32_t priority)
{
	return mark_as(connection, fd, priority, qclimb_dscp_of(policy->dscp, policy->priorities, priority));
}

bool mark_rest(struct connection *connection, int fd, const struct qclimb_policy *policy)
{
	return mark_as(connection, fd, 0, qclimb_policy_rest_dscp(policy));
}

void mark_end(struct connection *connection, int fd, const struct qclimb_policy *policy)
{
	const uint8_t dscp = qclimb_policy_rest_dscp(policy);

	if (set(connection, fd, dscp, connection->own_so_priority >= 0 ? connection->own_so_priority : 0,
		is_all_ipv6(connection)))
		connection->dscp = dscp;
}

void mark_nothing(struct connection *connection, int fd)
{
	relaxed_set(connection->priority, 0);
	if (connection->dscp == DSCP_NOT_SET)
		return;
	(void)set(connection, fd, 0, connection->own_so_priority >= 0 ? connection->own_so_priority : 0, false);
	connection->dscp = DSCP_NOT_SET;
}

void mark_release(struct connection *connection, int fd)
{
	connection->is_released = true;
	tagger_forget(connection, fd);
	mark_nothing(connection, fd);
	quiet_no_more(connection);
}
