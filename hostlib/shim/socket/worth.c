#include "socket/worth.h"

#include <linux/tcp.h>

#include "socket/drain.h"

/*
 * In a drain the path is empty for a round trip, and for as long as it takes to wake the writer. It is made where what
 * is to follow would wait at least this many times as long in queues at the present rate.
 */
#define DRAIN_PAYS 4
#define DRAIN_LEAST_US 500
#define SEND_MOST_NS UINT64_C(1000000000) /* that what is unsent is given for, however slow the path */
/*
 * In a loaded path's round trips, once what was unsent has left. One that took longer waited for a timer (a delayed ACK),
 * and none is made for so many times the excess, REST_MOST_NS at most.
 */
#define DRAIN_ROUND_TRIPS 4
#define DRAIN_REST 32
#define REST_MOST_NS UINT64_C(60000000000)
#define REST_SHIFT 26 /* of the clock that 16 bits hold: 67 ms, 73 minutes in all */
#define VAIN_FLOWS 15

static uint64_t at_least(uint64_t bytes, const struct tcp_info *info)
{
	return bytes > 2 * info->tcpi_snd_mss ? bytes : 2 * info->tcpi_snd_mss;
}

static uint64_t cost_us(const struct tcp_info *info)
{
	return info->tcpi_min_rtt < DRAIN_LEAST_US ? DRAIN_LEAST_US : info->tcpi_min_rtt;
}

/*
 * Bytes a second. What the kernel measured where the application wrote too little to fill the path tells how fast the
 * application is: then, and where it measures none (before Linux 4.9), what the window lets through is the rate.
 */
static uint64_t rate_of(const struct tcp_info *info)
{
	const uint64_t window =
		(uint64_t)info->tcpi_snd_cwnd * info->tcpi_snd_mss * 1000000 / (info->tcpi_rtt ? info->tcpi_rtt : 1);

	if (info->tcpi_delivery_rate && (!info->tcpi_delivery_rate_app_limited || info->tcpi_delivery_rate > window))
		return info->tcpi_delivery_rate;
	return window;
}

uint64_t round_trip_bytes(int fd)
{
	struct tcp_info info;

	if (!tcp_info_of(fd, &info))
		return 0;
	return at_least(info.tcpi_delivery_rate * info.tcpi_min_rtt / 1000000, &info);
}

static bool rests(struct connection *connection, uint64_t now)
{
	/* In 16 bits a moment comes again: an idle connection's rest is over. */
	if (connection->climbs_from && (int16_t)(connection->climbs_from - (uint16_t)(now >> REST_SHIFT)) > 0 &&
	    now - connection->last_write_ns < REST_MOST_NS)
		return true;
	connection->climbs_from = 0;
	return false;
}

/* The application holds its last segment back: its ACK comes by a timer. */
static bool is_corked(int fd)
{
	return sys_option(fd, IPPROTO_TCP, TCP_CORK) != 0;
}

uint64_t climb_pays_bytes(struct connection *connection, int fd, uint64_t now)
{
	struct tcp_info info;
	uint64_t rate, queued;

	if (rests(connection, now) || !tcp_info_of(fd, &info) || info.tcpi_rtt <= info.tcpi_min_rtt || is_corked(fd))
		return UINT64_MAX;
	/* After a drain of ours it was not the application that filled the path too little. */
	rate = connection->facts.promotions && info.tcpi_delivery_rate ? info.tcpi_delivery_rate : rate_of(&info);
	queued = rate * cost_us(&info) / 1000000 * info.tcpi_rtt / (info.tcpi_rtt - info.tcpi_min_rtt);
	return DRAIN_PAYS * at_least(queued, &info);
}

bool climb_may_pay(struct connection *connection, int fd, uint64_t bytes)
{
	struct tcp_info info;

	if (connection->vain_flows) {
		connection->vain_flows--;
		return false;
	}
	if (!tcp_info_of(fd, &info) || bytes >= DRAIN_PAYS * (info.tcpi_delivery_rate * cost_us(&info) / 1000000))
		return true;
	connection->vain_flows = VAIN_FLOWS;
	return false;
}

uint32_t climb_begins(int fd, uint64_t now)
{
	const int unsent = unsent_bytes(fd);
	struct tcp_info info;
	uint64_t sent_ns = 0;

	if (unsent > 0 && tcp_info_of(fd, &info) && rate_of(&info))
		sent_ns = (uint64_t)unsent * UINT64_C(1000000000) / rate_of(&info);
	return tick_of(now + (sent_ns < SEND_MOST_NS ? sent_ns : SEND_MOST_NS));
}

void climb_took(struct connection *connection, int fd, uint64_t now)
{
	const int32_t ticks = (int32_t)(tick_of(now) - connection->wait_since_tick);
	const uint64_t took_ns = ticks > 0 ? (uint64_t)ticks << 10 : 0;
	struct tcp_info info;
	uint64_t expected_ns, rest_ns;

	connection->climbs_from = 0;
	if (!tcp_info_of(fd, &info))
		return;
	expected_ns = DRAIN_ROUND_TRIPS * (uint64_t)info.tcpi_rtt * QCLIMB_NS_PER_US;
	if (took_ns <= expected_ns)
		return;
	rest_ns = DRAIN_REST * (took_ns - expected_ns);
	rest_ns = rest_ns < REST_MOST_NS ? rest_ns : REST_MOST_NS;
	connection->climbs_from = (uint16_t)((now + rest_ns) >> REST_SHIFT) | 1u;
}
