#include "socket/drain.h"

#include <fcntl.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "base/real.h"

#define NAP_LEAST_NS 50000

int unacked_bytes(int fd)
{
	int bytes = 0;

	return qclimb_syscall(SYS_ioctl, fd, SIOCOUTQ, &bytes) ? -1 : bytes;
}

int unsent_bytes(int fd)
{
	int bytes = 0;

	return qclimb_syscall(SYS_ioctl, fd, SIOCOUTQNSD, &bytes) ? -1 : bytes;
}

bool tcp_info_of(int fd, struct tcp_info *info)
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
static uint64_t due_ns(const struct tcp_info *info)
{
	return ((uint64_t)info->tcpi_rtt + 4 * (uint64_t)info->tcpi_rttvar + 10000) * QCLIMB_NS_PER_US;
}

uint64_t ack_due_ns(int fd)
{
	struct tcp_info info;

	return tcp_info_of(fd, &info) ? due_ns(&info) : UINT64_MAX;
}

bool is_drained(struct connection *connection, int fd, uint64_t now)
{
	const int bytes = unacked_bytes(fd);
	struct tcp_info info;

	if (bytes <= 0)
		return bytes == 0;
	if (bytes > 65536 || !tcp_info_of(fd, &info) || info.tcpi_unacked != 1 || unsent_bytes(fd) != 0)
		return false;
	return now - connection->last_write_ns > due_ns(&info) &&
	       info.tcpi_last_data_sent * QCLIMB_NS_PER_MS > due_ns(&info);
}

bool nap(uint64_t ns)
{
	struct timespec time = { 0, (long)ns };

	/* nanosleep says nothing of a signal that comes when the time is over and the thread waits for its turn. */
	return !qclimb_syscall(SYS_ppoll, NULL, 0, &time, NULL, 0) || errno != EINTR;
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

/* With `signals` in place of the application's own wait: as that one it can be cancelled (pthread_cancel). */
static enum waited poll_once(int fd, uint64_t timeout_ns, const uint64_t *signals, short *found)
{
	struct pollfd poll = { fd, POLLOUT, 0 };
	const struct timespec time = { (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000) };
	const struct timespec *most = timeout_ns == UINT64_MAX ? NULL : &time;
	sigset_t set;
	long got;

	if (signals) {
		sigemptyset(&set);
		__builtin_memcpy(&set, signals, sizeof(*signals));
		got = qclimb_real.ppoll(&poll, 1, most, &set);
	} else {
		got = qclimb_syscall(SYS_ppoll, &poll, 1, most, NULL, 0);
	}

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
enum waited wait_writable(int fd, uint64_t timeout_ns, const uint64_t *signals)
{
	const uint64_t end_ns = timeout_ns ? end_of(timeout_ns) : 0;
	enum waited waited;
	short found;

	for (;;) {
		waited = poll_once(fd, timeout_ns, signals, &found);
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

bool is_writable(int fd)
{
	return wait_writable(fd, 0, NULL) != WAITED_TIMEOUT;
}

bool has_hung_up(int fd)
{
	const int saved = errno;
	short found = 0;

	(void)poll_once(fd, 0, NULL, &found);
	errno = saved;
	return (found & POLLHUP) != 0;
}

bool is_blocking(int fd, int flags)
{
	int file;

	if (flags & MSG_DONTWAIT)
		return false;
	file = (int)qclimb_syscall(SYS_fcntl, fd, F_GETFL);
	return file >= 0 && !(file & O_NONBLOCK);
}

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

/*
 * Of a signal that a fault raises: its handler runs in the thread that faults, and says nothing of the one that ended
 * our wait.
 */
static bool is_fault(int signal)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		if (signal == faults[i])
			return true;
	return false;
}

bool hold_signals(uint64_t *before)
{
	sigset_t signals;

	sigfillset(&signals); /* all but libc's own */
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(&signals, faults[i]);
	return !qclimb_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals, before, sizeof(*before));
}

void release_signals(const uint64_t *before)
{
	const int saved = errno;

	(void)qclimb_syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, sizeof(*before));
	errno = saved;
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
