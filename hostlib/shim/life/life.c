#include "life/life.h"

#include <arpa/inet.h>
#include <string.h>

#include "life/announced.h"
#include "life/assumed.h"
#include "life/facts.h"
#include "life/forecast.h"
#include "life/history.h"
#include "socket/drain.h"
#include "socket/locals.h"
#include "socket/written.h"
#include "tell/log.h"
#include "base/process.h"
#include "life/samples.h"
#include "tell/records.h"
#include "life/turned.h"
#include "life/unseen.h"

/* False: no address of IPv4 or IPv6, or none in particular. */
static bool address_of(const struct sockaddr *from, socklen_t len, uint8_t *address, uint16_t *port)
{
	static const uint8_t none[16];
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (len >= sizeof(v4) && from->sa_family == AF_INET) {
		memcpy(&v4, from, sizeof(v4));
		memcpy(address, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
		memcpy(address + 12, &v4.sin_addr, 4);
		*port = ntohs(v4.sin_port);
		return v4.sin_addr.s_addr != INADDR_ANY;
	}
	if (len < sizeof(v6) || from->sa_family != AF_INET6)
		return false;
	memcpy(&v6, from, sizeof(v6));
	memcpy(address, &v6.sin6_addr, 16);
	*port = ntohs(v6.sin6_port);
	return memcmp(address, none, 16) != 0;
}

void life_connects(struct connection *connection)
{
	connection->has_addresses = false;
	connection->has_peer = false;
}

void life_met(struct connection *connection, const struct sockaddr *peer, socklen_t len)
{
	connection->has_peer = address_of(peer, len, connection->peer_addr, &connection->peer_port);
}

/* Both addresses; false: there is no peer. */
static bool ask_addresses(struct connection *connection, int fd)
{
	struct sockaddr_storage storage;
	struct sockaddr *address = (struct sockaddr *)&storage;
	socklen_t len = sizeof(storage);
	uint8_t local[16];

	if (!connection->has_peer) {
		if (qclimb_syscall(SYS_getpeername, fd, address, &len))
			return false;
		life_met(connection, address, len);
		len = sizeof(storage);
	}
	if (!connection->has_peer || qclimb_syscall(SYS_getsockname, fd, address, &len) ||
	    !address_of(address, len, local, &connection->local_port))
		return false;
	connection->local_place = locals_place(local);
	return true;
}

bool life_identify(struct connection *connection, int fd, uint64_t now)
{
	uint64_t cookie = 0;

	if (connection->has_addresses && tick_of(now) - connection->verified_tick < VERIFY_TICKS)
		return true;
	if (sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, sizeof(cookie)))
		return false;
	connection->verified_tick = tick_of(now);
	if (connection->has_addresses && cookie == connection->cookie)
		return true;
	if (connection->has_addresses) {
		/* Another socket under the old number: nothing that we know holds. */
		LOG("fd=%d was reused behind our back", fd);
		life_finish(connection, now, QCLIMB_RECORD_UNOBSERVED); /* stdio may have written more, and closed it */
		connection_forget(connection);
		unseen_forget(connection, fd);
	}
	if (!ask_addresses(connection, fd))
		return false;
	connection->cookie = cookie;
	connection->has_addresses = true;
	return true;
}

/*
 * What is known of the flow that ends, as hostd is told it. Field by field into the slot where it waits, padding there
 * is none of: the compiler would clear the whole of it first.
 */
static inline void record_of(const struct connection *connection, uint64_t size_bytes, struct qclimb_record *record)
{
	static const uint8_t nowhere[16];
	const struct flow_facts *facts = &connection->facts;
	const struct qclimb_footprint *footprint = &connection->footprint;
	const uint64_t sent = flow_bytes(connection);
	const uint64_t asked = footprint->asked_bytes > sent ? footprint->asked_bytes : sent;
	const uint64_t start_ns = connection->start_ns;
	const uint64_t last_write_ns = relaxed_get(connection->last_write_ns);
	const uint32_t drained_us = relaxed_get(facts->drained_us);
	const bool is_known = connection->has_addresses;

	record->start_ns = start_ns;
	record->last_write_ns = last_write_ns;
	record->drained_ns = 0;
	if (unlikely(drained_us)) {
		/* Kept in microseconds; of no use once more was written. */
		record->drained_ns = start_ns + (drained_us + UINT64_C(1)) * QCLIMB_NS_PER_US;
		if (record->drained_ns < last_write_ns)
			record->drained_ns = 0;
	}
	record->size_bytes = size_bytes;
	record->lower_bytes = footprint->has_forest ? footprint->foretold.lower_bytes : 0;
	record->upper_bytes = footprint->has_forest ? footprint->foretold.upper_bytes : QCLIMB_UNKNOWN_BYTES;
	record->first_write_bytes = facts->first_write_bytes;
	record->footprint_lower_bytes =
		(footprint->is_fixed ? footprint->fixed_lower_bytes : asked) - facts->before_bytes;
	record->announced_bytes = announced_bytes(connection);
	record->start_us = (start_ns - qclimb_process.start_ns) / QCLIMB_NS_PER_US;
	record->gap_us = facts->gap_us;
#pragma GCC unroll 5
	for (int i = 0; i < QCLIMB_LAST_SIZES; i++)
		record->last_size_bytes[i] = size_unpack(facts->last_sizes[i]);
	record->connection = is_known ? connection->cookie : 0;
	record->wait_ns = facts->wait_us * QCLIMB_NS_PER_US;
	record->pid = (uint32_t)qclimb_process.pid;
	record->flow_index = connection->flows;
	record->promotions = facts->promotions;
	record->demotions = facts->demotions;
	memcpy(record->local_addr, is_known ? locals_at(connection->local_place) : nowhere, sizeof(record->local_addr));
	memcpy(record->peer_addr, is_known ? connection->peer_addr : nowhere, sizeof(record->peer_addr));
	record->local_port = is_known ? connection->local_port : 0;
	record->peer_port = is_known ? connection->peer_port : 0;
	record->role = connection->role;
	record->mode = facts->mode;
	record->last_priority = relaxed_get(connection->priority);
	record->flags = facts->flags;
	record->announced_by = connection->announced_by;
	memcpy(record->comm, qclimb_process.comm, sizeof(record->comm));
}

/* Served first with every byte, and nobody asked or said anything of it. */
static inline bool is_plain(const struct connection *connection, uint64_t size_bytes)
{
	const struct flow_facts *facts = &connection->facts;

	return size_bytes <= calm_bytes(rules_calm()) && facts->mode >= QCLIMB_PIAS &&
	       !((facts->flags & ~QCLIMB_RECORD_CLOSED) | facts->demotions | connection->announced_by |
		 connection->footprint.has_forest);
}

/* The flow under way, of `size_bytes`, is over: told. */
static inline void tell(struct connection *connection, uint64_t size_bytes, uint64_t now)
{
	const struct flow_facts *facts = &connection->facts;
	struct qclimb_record *record;
	uint64_t on_trial_bytes = 0;
	uint32_t flows = 1;

	if (unlikely(connection->is_sampled))
		on_trial_bytes = samples_end(connection, size_bytes,
					     !connection->is_shared && !(facts->flags & QCLIMB_RECORD_UNOBSERVED), now);
	connection->is_untold = size_bytes > facts->first_write_bytes && !connection->announced_by;
	if (unlikely(connection->is_shared)) {
		connection->is_shared = false; /* the parent tells of it */
	} else {
		LOG("flow ends size=%llu priority=%u promotions=%u demotions=%u waited_us=%u",
		    (unsigned long long)size_bytes, relaxed_get(connection->priority), facts->promotions,
		    facts->demotions, facts->wait_us);
		if (is_plain(connection, size_bytes) && !on_trial_bytes)
			flows = records_flows(now);
		record = flows ? records_begin(flows, now) : NULL;
		if (record) {
			record_of(connection, size_bytes, record);
			if (flows > 1)
				record->flags |= QCLIMB_RECORD_FOR_MANY;
			if (unlikely(on_trial_bytes)) {
				record->announced_bytes = on_trial_bytes;
				record->announced_by = QCLIMB_BY_TRIAL;
			}
			records_end(record, relaxed_get(qclimb_rules_generation), now);
		}
	}
	connection->flows++;
}

void life_finish(struct connection *connection, uint64_t now, uint8_t flags)
{
	const struct flow_facts *facts = &connection->facts;
	const uint64_t size_bytes = flow_bytes(connection) - facts->before_bytes + connection->unseen_bytes;

	if (unlikely(connection->is_sampled) && !(connection->is_open && size_bytes))
		(void)samples_end(connection, 0, false, now);
	if (!connection->is_open)
		return;
	connection->is_open = false;
	quiet_no_more(connection);
	if (!size_bytes)
		return;
	facts_flag(connection, unseen_take(connection) ? flags | QCLIMB_RECORD_UNOBSERVED : flags);
	tell(connection, size_bytes, now);
	if (!(facts->flags & QCLIMB_RECORD_UNOBSERVED)) /* else no size to learn from */
		history_turn(connection, size_bytes, now);
}

void life_start(struct connection *connection, int fd, size_t call_bytes, uint64_t now, const struct rules *rules)
{
	const struct qclimb_policy *policy = &rules->policy;

	facts_begin(connection, call_bytes, now, policy->mode, 0, 0);
	history_recall(connection);
	qclimb_footprint_start(&connection->footprint);
	announced_forget(connection);
	connection->is_forecast = false;
	connection->is_open = true;
	connection->is_shared = false;
	flow_begins(connection, flow_bytes(connection));
	quiet_no_more(connection);
	written_at(connection, now);
	connection->flow_gap_us = policy->flow_gap_us;
	LOG("fd=%d flow starts call=%zu", fd, call_bytes);
}

void life_assume(struct connection *connection, int fd, size_t call_bytes, uint64_t now)
{
	const uint64_t sent = flow_bytes(connection);
	const uint64_t size_bytes = sent - connection->facts.before_bytes;
	const uint8_t assumed = connection->facts.assumed;

	if (likely(size_bytes)) {
		tell(connection, size_bytes, now);
		history_turn(connection, size_bytes, now);
	}
	if (connection->announced_by)
		announced_forget(connection);
	facts_begin(connection, call_bytes, now, connection->facts.mode, assumed + 1u, sent);
	if (unlikely(!size_bytes))
		history_recall(connection);
	LOG("fd=%d flow starts call=%zu assumed=%u", fd, call_bytes, assumed + 1u);
}

void life_is_told(struct connection *connection, uint64_t told, uint64_t now)
{
	const uint64_t size_bytes = size_told(told);
	const uint32_t deadline_tick = deadline_told(told, now);

	if (size_bytes) {
		qclimb_footprint_tell(&connection->footprint, size_bytes);
		connection->is_forecast = true; /* nobody else need be asked */
		facts_flag(connection, QCLIMB_RECORD_HINT);
		LOG("told size=%llu", (unsigned long long)size_bytes);
	}
	if (deadline_tick) {
		connection->footprint.deadline_tick = deadline_tick;
		facts_flag(connection, QCLIMB_RECORD_DEADLINE);
		LOG("told deadline_us=%lld", (long long)(int32_t)(deadline_tick - tick_of(now)) * 1024 / 1000);
	}
}

void life_not_begun(struct connection *connection, uint64_t told)
{
	connection->is_open = false;
	quiet_no_more(connection);
	told_keep(connection, told);
}

void life_forecast_if_due(struct connection *connection, int fd, const struct rules *rules)
{
	const struct qclimb_policy *policy = &rules->policy;
	uint64_t lower_bytes = 0, upper_bytes = QCLIMB_UNKNOWN_BYTES, began_ns;

	if (connection->is_forecast || policy->mode != QCLIMB_FULL || !(policy->flags & QCLIMB_USE_FOREST) ||
	    !rules->forest || connection->announced_by ||
	    connection->footprint.asked_bytes <= policy->threshold_bytes[1])
		return;
	connection->is_forecast = true;
	began_ns = unlikely(qclimb_log_fd >= 0) ? now_ns() : 0;
	if (forecast(rules->forest, connection, &lower_bytes, &upper_bytes)) {
		facts_flag(connection, QCLIMB_RECORD_FOREST);
		qclimb_footprint_foretell(&connection->footprint, lower_bytes, upper_bytes);
	}
	LOG("fd=%d forecast lower=%llu upper=%llu at=%llu took_ns=%llu", fd, (unsigned long long)lower_bytes,
	    (unsigned long long)upper_bytes, (unsigned long long)flow_bytes(connection),
	    (unsigned long long)(now_ns() - began_ns));
}

/* A read saw everything ACKed, and nothing was written since: the kernel need not be asked again. */
static bool was_drained(const struct connection *connection)
{
	const uint32_t drained_us = connection->facts.drained_us;

	return drained_us && connection->start_ns + drained_us * QCLIMB_NS_PER_US >= connection->last_write_ns;
}

bool life_is_over(struct connection *connection, int fd, uint64_t now, bool is_turned)
{
	bool is_over;

	if (!connection->is_open || !flow_bytes(connection))
		return true;
	if (connection->footprint.asked_bytes > flow_bytes(connection))
		return false; /* the kernel took a part of the last call: its rest is to come, however late */
	if (!is_turned && now - connection->last_write_ns <= connection->flow_gap_us * QCLIMB_NS_PER_US)
		return false;
	is_over = was_drained(connection) || is_drained(connection, fd, now);
	if (is_turned)
		assumed_learn(connection, is_over);
	return is_over;
}
