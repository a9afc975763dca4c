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
	if (connection->dscp == dscp) {
		relaxed_set(connection->priority, (uint8_t)priority);
		return true;
	}
	if (!set(connection, fd, dscp,
		 connection->has_so_priority ? connection->own_so_priority : (int)qclimb_so_priority(priority),
		 is_all_ipv6(connection)))
		return false;
	if (connection->is_released) { /* meanwhile, by another thread */
		const int saved = errno;

		if (connection->is_ipv6)
			(void)sys_setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, connection->own_dscp << 2);
		(void)sys_setsockopt(fd, IPPROTO_IP, IP_TOS, connection->own_dscp << 2);
		errno = saved;
		return false;
	}
	relaxed_set(connection->priority, (uint8_t)priority);
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

	if (set(connection, fd, dscp, connection->own_so_priority, is_all_ipv6(connection)))
		connection->dscp = dscp;
}

static void unmark(struct connection *connection, int fd, uint8_t dscp)
{
	relaxed_set(connection->priority, 0);
	if (connection->dscp == DSCP_NOT_SET)
		return;
	(void)set(connection, fd, dscp, connection->own_so_priority, false);
	connection->dscp = DSCP_NOT_SET;
}

void mark_nothing(struct connection *connection, int fd)
{
	unmark(connection, fd, connection->own_dscp);
}

void mark_release(struct connection *connection, int fd, uint8_t own_dscp)
{
	connection->own_dscp = own_dscp;
	connection->is_released = true;
	tagger_forget(connection, fd);
	unmark(connection, fd, 0); /* so that the application's own changes it, and what the kernel derives from it */
	quiet_no_more(connection);
}

/*
 * It has what the listener had when its handshake ended, or by tcp_reflect_tos what the peer's SYN had. One that waited
 * to be accepted may have an older policy's DSCP: once the listener's has changed, none is believed.
 */
void mark_inherit(struct connection *connection, int fd, const struct connection *listener)
{
	const int saved = errno;
	int dscp;

	connection->is_released = listener->is_released;
	connection->has_so_priority = listener->has_so_priority;
	connection->own_so_priority = listener->own_so_priority;
	connection->dscp = listener->dscp == listener->listened_dscp ? listener->dscp : DSCP_UNKNOWN;
	if (connection->dscp >= DSCP_UNKNOWN)
		return;
	if (is_all_ipv6(connection))
		dscp = sys_option(fd, IPPROTO_IPV6, IPV6_TCLASS) >> 2;
	else
		dscp = sys_option(fd, IPPROTO_IP, IP_TOS) >> 2;
	if (dscp != connection->dscp) {
		connection->own_dscp = (uint8_t)dscp;
		connection->dscp = DSCP_UNKNOWN;
	}
	errno = saved;
}

uint8_t mark_shown(const struct connection *connection, int level)
{
	return (level == IPPROTO_IPV6) == is_all_ipv6(connection) ? connection->own_dscp : 0;
}
