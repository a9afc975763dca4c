#include "drain.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif
#define NAP_LEAST_NS 50000
#define NAP_MOST_NS QCLIMB_NS_PER_MS
#define BUF_LOCK_SNDBUF 1 /* SOCK_SNDBUF_LOCK */
#define GIVE_BACK_TRIES 16

int unacked_bytes(int fd)
{
	int bytes = 0;

	return syscall(SYS_ioctl, fd, SIOCOUTQ, &bytes) ? -1 : bytes;
}

int unsent_bytes(int fd)
{
	int bytes = 0;

	return syscall(SYS_ioctl, fd, SIOCOUTQNSD, &bytes) ? -1 : bytes;
}

static bool tcp_info_of(int fd, struct tcp_info *info)
{
	*info = (struct tcp_info){ 0 };
	return !sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, sizeof(*info));
}

bool accepted_bytes(int fd, uint64_t *bytes)
{
	struct tcp_info info;
	int left;

	/* In this order: an ACK between the two makes the sum too small, never too large. */
	if (!tcp_info_of(fd, &info))
		return false;
	left = unacked_bytes(fd);
	*bytes = info.tcpi_bytes_acked + (uint64_t)left;
	return left >= 0;
}

/*
 * A time after which a segment that is still not ACKed is held back by a delayed ACK (40 ms or more on Linux), not by a
 * queue: SRTT + 4 RTTVAR, which is RTO without its floor, and 10 ms for the kernel's coarse clock.
 */
static uint64_t ack_due_ns(const struct tcp_info *info)
{
	return ((uint64_t)info->tcpi_rtt + 4 * (uint64_t)info->tcpi_rttvar + 10000) * QCLIMB_NS_PER_US;
}

bool is_drained(struct connection *connection, int fd, uint64_t now)
{
	const int bytes = unacked_bytes(fd);
	struct tcp_info info;

	if (bytes <= 0)
		return bytes == 0;
	if (bytes > 65536 || !tcp_info_of(fd, &info) || info.tcpi_unacked != 1 || unsent_bytes(fd) != 0)
		return false;
	return now - connection->last_write_ns > ack_due_ns(&info) &&
	       info.tcpi_last_data_sent * QCLIMB_NS_PER_MS > ack_due_ns(&info);
}

uint64_t drain_cost_bytes(struct connection *connection, int fd)
{
	struct tcp_info info;
	uint64_t bytes;

	if (!tcp_info_of(fd, &info))
		return 0;
	if (info.tcpi_snd_mss)
		connection->segment_bytes = info.tcpi_snd_mss;
	bytes = info.tcpi_delivery_rate * info.tcpi_min_rtt / 1000000;
	return bytes > 2 * connection->segment_bytes ? bytes : 2 * connection->segment_bytes;
}

bool nap(uint64_t ns)
{
	struct timespec time = { 0, (long)ns };

	/* nanosleep says nothing of a signal that comes when the time is over and the thread waits for its turn. */
	return !syscall(SYS_ppoll, NULL, 0, &time, NULL, 0) || errno != EINTR;
}

static uint64_t left_ns(uint64_t end_ns, uint64_t now)
{
	if (end_ns == UINT64_MAX)
		return UINT64_MAX;
	return end_ns > now ? end_ns - now : 0;
}

static uint64_t end_of(uint64_t timeout_ns)
{
	const uint64_t now = now_ns();

	return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

static enum waited poll_once(int fd, uint64_t timeout_ns, short *found)
{
	struct pollfd poll = { fd, POLLOUT, 0 };
	struct timespec time = { (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000) };
	const long got = syscall(SYS_ppoll, &poll, 1, timeout_ns == UINT64_MAX ? NULL : &time, NULL, 0);

	*found = poll.revents;
	if (got < 0)
		return errno == EINTR ? WAITED_SIGNAL : WAITED_ERROR;
	return got ? WAITED_DONE : WAITED_TIMEOUT;
}

/*
 * WAITED_DONE when the socket is writable. A connection that failed always hangs up as well. POLLERR alone means a
 * message in the error queue (completions of MSG_ZEROCOPY), which is the application's to read and lets no poll wait:
 * naps instead.
 */
static enum waited poll_writable(int fd, uint64_t timeout_ns)
{
	const uint64_t end_ns = timeout_ns ? end_of(timeout_ns) : 0;
	enum waited waited;
	short found;

	for (;;) {
		waited = poll_once(fd, timeout_ns, &found);
		if (waited != WAITED_DONE)
			return waited;
		if (found & (POLLHUP | POLLNVAL))
			return WAITED_ERROR;
		if (found & POLLOUT)
			return WAITED_DONE;
		timeout_ns = end_ns ? left_ns(end_ns, now_ns()) : 0;
		if (!timeout_ns)
			return WAITED_TIMEOUT;
		(void)nap(NAP_LEAST_NS);
	}
}

/*
 * A last segment that is not full waits for ACKs (Nagle) or for more (MSG_MORE, TCP_CORK): a split must not make it
 * wait. Returns whether TCP_NODELAY has to be taken back.
 */
static bool push(struct connection *connection, int fd)
{
	if (connection->own_nodelay < 0)
		connection->own_nodelay = sys_option(fd, IPPROTO_TCP, TCP_NODELAY) != 0;
	(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	return connection->own_nodelay == 0;
}

/* Another thread may have set it meanwhile: then it stays. */
static void unpush(const struct connection *connection, int fd, bool is_pushed)
{
	if (is_pushed && connection->own_nodelay == 0)
		(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, 0);
}

static void borrow_lowat(int fd)
{
	(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1);
}

/*
 * What is not given back stays with the application for good, which then waits in the midst of its writes: not after
 * the first refusal.
 */
static void give_back(const struct connection *connection, int fd, int level, int option, int value)
{
	const struct connection *now = connection_of(fd);

	if (now && now != connection)
		return; /* another thread put another socket under the number */
	for (int tries = 0; tries < GIVE_BACK_TRIES; tries++)
		if (!sys_setsockopt(fd, level, option, value) || errno == ENOPROTOOPT || errno == EBADF)
			break;
}

static void return_lowat(struct connection *connection, int fd)
{
	give_back(connection, fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, connection->own_lowat);
}

/*
 * The smallest buffer: the socket is writable again when at most about one segment is left of what it holds. False, and
 * old_sndbuf is 0: the kernel refused, and the buffer is as it was.
 */
static bool borrow_sndbuf(struct connection *connection, int fd)
{
	connection->old_sndbuf = sys_option(fd, SOL_SOCKET, SO_SNDBUF);
	connection->old_buf_lock = (uint8_t)sys_option(fd, SOL_SOCKET, SO_BUF_LOCK);
	if (connection->old_sndbuf && sys_setsockopt(fd, SOL_SOCKET, SO_SNDBUF, 1))
		connection->old_sndbuf = 0;
	return connection->old_sndbuf != 0;
}

static void return_sndbuf(struct connection *connection, int fd)
{
	if (!connection->old_sndbuf)
		return;
	/* The kernel doubles what it is given; beyond wmem_max it gives less, and autotuning grows it again. */
	give_back(connection, fd, SOL_SOCKET, SO_SNDBUF, connection->old_sndbuf / 2);
	/* One that the application forced beyond it stays as large as it was. */
	if (connection->old_buf_lock & BUF_LOCK_SNDBUF &&
	    sys_option(fd, SOL_SOCKET, SO_SNDBUF) < connection->old_sndbuf)
		(void)sys_setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, connection->old_sndbuf / 2);
	give_back(connection, fd, SOL_SOCKET, SO_BUF_LOCK, connection->old_buf_lock);
	connection->old_sndbuf = 0;
}

/* The wait on a connection of several processes: what is lent elsewhere would stop others in the midst of messages. */
static enum waited nap_until(int (*bytes_of)(int fd), int fd, int most, uint64_t end_ns)
{
	while (bytes_of(fd) > most) {
		if (now_ns() >= end_ns)
			return WAITED_TIMEOUT;
		if (!nap(NAP_LEAST_NS))
			return WAITED_SIGNAL;
	}
	return WAITED_DONE;
}

enum waited wait_transmitted(struct connection *connection, int fd, uint64_t timeout_ns)
{
	enum waited waited = WAITED_DONE;
	const uint64_t end_ns = end_of(timeout_ns);
	bool is_pushed;
	int bytes = unsent_bytes(fd);

	if (bytes <= 0)
		return bytes ? WAITED_ERROR : WAITED_DONE;
	is_pushed = push(connection, fd);
	if (connection->is_foreign) {
		waited = nap_until(unsent_bytes, fd, 0, end_ns);
	} else if (unsent_bytes(fd) > 0) {
		borrow_lowat(fd);
		waited = poll_writable(fd, left_ns(end_ns, now_ns()));
		/* Another thread shut it down: writable for good, so that a write finds that out. */
		if (waited == WAITED_DONE && unsent_bytes(fd) > 0)
			waited = WAITED_ERROR;
		return_lowat(connection, fd);
	}
	unpush(connection, fd, is_pushed);
	return waited;
}

enum waited wait_drained(struct connection *connection, int fd, uint64_t timeout_ns)
{
	const uint64_t end_ns = end_of(timeout_ns);
	enum waited waited = WAITED_DONE;
	uint64_t nap_ns, one_since_ns, now;
	struct tcp_info info;
	bool is_pushed;
	int bytes = unacked_bytes(fd);

	if (bytes <= 0)
		return bytes ? WAITED_ERROR : WAITED_DONE;
	is_pushed = push(connection, fd);
	if (connection->is_foreign) {
		waited = nap_until(unacked_bytes, fd, connection->segment_bytes, end_ns);
	} else {
		waited = borrow_sndbuf(connection, fd) ? poll_writable(fd, timeout_ns) : WAITED_ERROR;
		return_sndbuf(connection, fd);
	}
	/* The event comes with at most one segment left, and there is none for the last ACK: short sleeps. */
	if (waited == WAITED_DONE && unacked_bytes(fd) > 0 && tcp_info_of(fd, &info)) {
		one_since_ns = now_ns();
		/*
		 * An eighth of the round trip as it is under load: by the empty path's, a queue would be polled a
		 * hundred times.
		 */
		nap_ns = (uint64_t)info.tcpi_rtt * QCLIMB_NS_PER_US / 8;
		nap_ns = nap_ns < NAP_LEAST_NS ? NAP_LEAST_NS : nap_ns > NAP_MOST_NS ? NAP_MOST_NS : nap_ns;
		while ((bytes = unacked_bytes(fd)) > 0) {
			now = now_ns();
			if (now - one_since_ns > ack_due_ns(&info) && unsent_bytes(fd) == 0)
				break;
			if (now >= end_ns) {
				waited = WAITED_TIMEOUT;
				break;
			}
			(void)nap(nap_ns);
		}
		if (bytes < 0)
			waited = WAITED_ERROR;
	}
	unpush(connection, fd, is_pushed);
	return waited;
}

bool is_transmitted(struct connection *connection, int fd)
{
	if (unsent_bytes(fd) <= 0)
		return true;
	if (connection->pending == PENDING_TRANSMISSION)
		return false; /* was pushed when the wait began */
	unpush(connection, fd, push(connection, fd));
	return unsent_bytes(fd) <= 0;
}

bool is_writable(int fd)
{
	return poll_writable(fd, 0) != WAITED_TIMEOUT;
}

bool has_room(int fd, size_t len)
{
	int bytes;

	if (len > DRAIN_ROOM_BYTES)
		return false;
	bytes = unacked_bytes(fd);
	return bytes >= 0 && (size_t)bytes <= DRAIN_ROOM_BYTES - len;
}

bool poll_transmitted(struct connection *connection, int fd)
{
	if (connection->pending != PENDING_TRANSMISSION) {
		drain_release(connection, fd);
		borrow_lowat(fd);
		connection->pending = PENDING_TRANSMISSION;
	}
	return is_writable(fd);
}

void drain_hold_begin(struct connection *connection, int fd)
{
	drain_release(connection, fd);
	connection->old_cork = sys_option(fd, IPPROTO_TCP, TCP_CORK) != 0;
	(void)sys_setsockopt(fd, IPPROTO_TCP, TCP_CORK, 1);
}

void drain_hold_end(struct connection *connection, int fd)
{
	const int saved = errno; /* of the write in between */

	(void)borrow_sndbuf(connection, fd); /* refused: poll_held() finds the socket writable too soon */
	connection->pending = PENDING_ACK;
	errno = saved;
}

enum held poll_held(int fd)
{
	if (unacked_bytes(fd) == unsent_bytes(fd))
		return HELD_DRAINED;
	if (poll_writable(fd, 0) == WAITED_TIMEOUT)
		return HELD_WAIT;
	return unacked_bytes(fd) == unsent_bytes(fd) ? HELD_DRAINED : HELD_FAILED;
}

void drain_release(struct connection *connection, int fd)
{
	const int saved = errno;

	if (connection->pending == PENDING_PUT_OFF)
		return;
	if (connection->pending == PENDING_TRANSMISSION)
		return_lowat(connection, fd);
	if (connection->pending == PENDING_ACK) {
		return_sndbuf(connection, fd);
		if (!connection->old_cork)
			give_back(connection, fd, IPPROTO_TCP, TCP_CORK, 0);
	}
	connection->pending = PENDING_NONE;
	errno = saved;
}

bool is_blocking(int fd, int flags)
{
	int file;

	if (flags & MSG_DONTWAIT)
		return false;
	file = (int)syscall(SYS_fcntl, fd, F_GETFL);
	return file >= 0 && !(file & O_NONBLOCK);
}

/*
 * Of a signal that a fault raises: its handler runs in the thread that faults, and says nothing of the one that ended
 * our wait.
 */
static bool is_fault(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL || signal == SIGTRAP ||
	       signal == SIGSYS;
}

bool signal_interrupts(int fd)
{
	struct sigaction action;

	if (send_timeout_ns(fd) != UINT64_MAX)
		return true; /* as the kernel does: a call with a timeout is never restarted */
	for (int signal = 1; signal < NSIG; signal++)
		if (!is_fault(signal) && !sigaction(signal, NULL, &action) && action.sa_handler != SIG_DFL &&
		    action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART))
			return true;
	return false;
}

uint64_t send_timeout_ns(int fd)
{
	struct timeval time = { 0, 0 };

	if (sys_getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) || (!time.tv_sec && !time.tv_usec))
		return UINT64_MAX;
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_usec * QCLIMB_NS_PER_US;
}
