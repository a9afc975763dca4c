#include "life.h"

#include <arpa/inet.h>
#include <string.h>

#include "drain.h"
#include "forecast.h"
#include "history.h"
#include "log.h"
#include "process.h"
#include "records.h"
#include "unseen.h"

#define VERIFY_NS (50 * QCLIMB_NS_PER_MS)

static bool address_of(const struct sockaddr_storage *from, uint8_t *address, uint16_t *port)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

	memset(address, 0, 16);
	if (from->ss_family == AF_INET) {
		address[10] = address[11] = 0xff;
		memcpy(address + 12, &v4->sin_addr, 4);
		*port = ntohs(v4->sin_port);
		return true;
	}
	memcpy(address, &v6->sin6_addr, 16);
	*port = ntohs(v6->sin6_port);
	return from->ss_family == AF_INET6;
}

bool life_identify(struct connection *connection, int fd, uint64_t now)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t local_len = sizeof(local), peer_len = sizeof(peer);
	uint64_t cookie = 0;

	if (connection->has_addresses && now - connection->verified_ns < VERIFY_NS)
		return true;
	if (sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, sizeof(cookie)))
		return false;
	connection->verified_ns = now;
	if (connection->has_addresses && cookie == connection->cookie)
		return true;
	if (connection->has_addresses) {
		/* Another socket under the old number: nothing that we know holds. */
		LOG("fd=%d was reused behind our back", fd);
		connection->dscp = DSCP_NOT_SET;
		connection->pending = PENDING_NONE;
		connection->flows = 0;
		connection->own_nodelay = -1;
		unseen_forget(connection, fd);
	}
	if (syscall(SYS_getsockname, fd, &local, &local_len) || syscall(SYS_getpeername, fd, &peer, &peer_len) ||
	    !address_of(&local, connection->local_addr, &connection->local_port) ||
	    !address_of(&peer, connection->peer_addr, &connection->peer_port))
		return false;
	connection->cookie = cookie;
	connection->segment_bytes = 1448;
	connection->has_addresses = true;
	return true;
}

void life_finish(struct connection *connection, uint64_t now, uint8_t flags)
{
	struct qclimb_record *record = &connection->record;

	if (!connection->is_open)
		return;
	connection->is_open = false;
	connection->quiet_bytes = 0;
	if (!connection->sent_bytes && !connection->unseen_bytes)
		return;
	connection->flows++;
	record->size_bytes = connection->sent_bytes + connection->unseen_bytes;
	record->last_write_ns = connection->last_write_ns;
	record->footprint_lower_bytes = connection->footprint.is_fixed ? connection->footprint.fixed_lower_bytes
								       : connection->footprint.asked_bytes;
	record->last_priority = (uint8_t)connection->priority;
	record->flags |= flags;
	if (connection->unseen_bytes)
		record->flags |= QCLIMB_RECORD_UNOBSERVED; /* no size to learn from */
	else
		history_remember(connection, record);
	connection->unseen_bytes = 0;
	if (connection->is_shared) {
		connection->is_shared = false; /* the parent tells of it */
		return;
	}
	LOG("flow ends size=%llu priority=%u promotions=%u demotions=%u waited_us=%llu",
	    (unsigned long long)record->size_bytes, connection->priority, record->promotions, record->demotions,
	    (unsigned long long)(record->wait_ns / QCLIMB_NS_PER_US));
	records_add(record, connection->generation, now);
}

void life_address(struct connection *connection)
{
	struct qclimb_record *record = &connection->record;

	record->connection = connection->cookie;
	memcpy(record->local_addr, connection->local_addr, 16);
	memcpy(record->peer_addr, connection->peer_addr, 16);
	record->local_port = connection->local_port;
	record->peer_port = connection->peer_port;
}

void life_start(struct connection *connection, int fd, size_t call_bytes, uint64_t now, const struct rules *rules)
{
	struct qclimb_record *record = &connection->record;
	const struct qclimb_policy *policy = &rules->policy;

	memset(record, 0, sizeof(*record));
	record->start_ns = now;
	record->first_write_bytes = call_bytes;
	record->start_us = (now - qclimb_process.start_ns) / QCLIMB_NS_PER_US;
	record->upper_bytes = QCLIMB_UNKNOWN_BYTES;
	life_address(connection);
	record->pid = (uint32_t)qclimb_process.pid;
	record->flow_index = connection->flows;
	record->role = connection->role;
	record->mode = (uint8_t)policy->mode;
	memcpy(record->comm, qclimb_process.comm, sizeof(record->comm));
	history_recall(connection, record);

	qclimb_footprint_start(&connection->footprint);
	connection->is_forecast = false;
	connection->is_open = true;
	connection->is_shared = false;
	connection->sent_bytes = 0;
	connection->quiet_bytes = 0;
	connection->kept_bytes = 0;
	connection->last_write_ns = now;
	connection->gap_ns = policy->flow_gap_us * QCLIMB_NS_PER_US;
	connection->generation = policy->generation;
	LOG("fd=%d flow starts call=%zu", fd, call_bytes);
}

void life_is_told(struct connection *connection, uint64_t told_bytes)
{
	if (told_bytes == 0 || told_bytes == QCLIMB_UNKNOWN_BYTES)
		return;
	qclimb_footprint_tell(&connection->footprint, told_bytes);
	connection->is_forecast = true; /* nobody else need be asked */
	connection->record.flags |= QCLIMB_RECORD_HINT;
	LOG("told size=%llu", (unsigned long long)told_bytes);
}

void life_keep_told(struct connection *connection, uint64_t told_bytes)
{
	uint64_t nothing = 0;

	(void)atomic_compare_exchange_strong(&connection->told_bytes, &nothing, told_bytes);
}

void life_forecast_if_due(struct connection *connection, const struct rules *rules)
{
	struct qclimb_record *record = &connection->record;
	const struct qclimb_policy *policy = &rules->policy;

	if (connection->is_forecast || policy->mode != QCLIMB_FULL || !(policy->flags & QCLIMB_USE_FOREST) ||
	    !rules->forest || connection->footprint.asked_bytes <= policy->threshold_bytes[1])
		return;
	connection->is_forecast = true;
	if (forecast(rules->forest, connection, record)) {
		record->flags |= QCLIMB_RECORD_FOREST;
		qclimb_footprint_foretell(&connection->footprint, record->lower_bytes, record->upper_bytes);
	} else {
		record->lower_bytes = 0;
		record->upper_bytes = QCLIMB_UNKNOWN_BYTES;
	}
	LOG("forecast lower=%llu upper=%llu", (unsigned long long)record->lower_bytes,
	    (unsigned long long)record->upper_bytes);
}

bool life_is_over(struct connection *connection, int fd, uint64_t now, bool is_turned)
{
	if (!connection->is_open || !connection->sent_bytes)
		return true;
	if (!is_turned && now - connection->last_write_ns <= connection->gap_ns)
		return false;
	return is_drained(connection, fd, now);
}
