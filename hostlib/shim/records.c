#include "records.h"

#include <string.h>
#include <sys/un.h>

#include "own_fd.h"
#include "process.h"

#define RING 64u
#define BATCH 8u
#define BATCH_NS (200 * QCLIMB_NS_PER_MS)
#define CLOSE_NS (20 * QCLIMB_NS_PER_MS)
#define RETRY_NS (1000 * QCLIMB_NS_PER_MS)
#define FULL_NS                                                                                                        \
	(5 *                                                                                                           \
	 QCLIMB_NS_PER_MS) /* a full socket is left alone for: a refused datagram costs as much as one that is taken */

enum { SLOT_FREE, SLOT_FILLING, SLOT_READY };

static struct slot {
	_Atomic int state;
	struct qclimb_record record;
} ring[RING];
static _Atomic uint32_t head;
static _Atomic uint32_t waiting;
static _Atomic uint32_t dropped;
static _Atomic uint64_t flushed_ns;
static _Atomic uint64_t full_ns; /* the socket was full then; 0: it was not, last time */
static _Atomic uint64_t policy_generation;
static atomic_flag is_flushing = ATOMIC_FLAG_INIT; /* tried, never waited for */

/* Used by the one that flushes. */
static int socket_fd = -1;
static uint64_t socket_cookie;
static uint64_t failed_ns;

static bool socket_is_ours(void)
{
	uint64_t cookie = 0;

	return socket_fd >= 0 && !sys_getsockopt(socket_fd, SOL_SOCKET, SO_COOKIE, &cookie, sizeof(cookie)) &&
	       cookie == socket_cookie;
}

static bool open_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const size_t len = strlen(qclimb_process.records_path);
	int fd;

	if (!len || len >= sizeof(address.sun_path))
		return false;
	memcpy(address.sun_path, qclimb_process.records_path, len + 1);
	fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	fd = own_fd(fd);
	if (syscall(SYS_connect, fd, &address, sizeof(address)) ||
	    sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &socket_cookie, sizeof(socket_cookie))) {
		(void)syscall(SYS_close, fd);
		return false;
	}
	socket_fd = fd;
	return true;
}

/* Sends a datagram; a hostd that was restarted is found again once. False: nobody took it. */
static bool send_datagram(const struct msghdr *message, uint64_t now)
{
	if (failed_ns && now - failed_ns < RETRY_NS)
		return false;
	for (int attempt = 0; attempt < 2; attempt++) {
		if (!socket_is_ours()) {
			socket_fd = -1;
			if (!open_socket())
				break;
		}
		if (syscall(SYS_sendmsg, socket_fd, message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
			failed_ns = 0;
			atomic_store(&full_ns, 0);
			return true;
		}
		if (errno == EAGAIN || errno == ENOBUFS) {
			atomic_store(&full_ns, now);
			return false; /* hostd is slow, not gone */
		}
		(void)syscall(SYS_close, socket_fd);
		socket_fd = -1;
	}
	failed_ns = now;
	return false;
}

/* Sends the slots given, at most BATCH, and frees them. */
static void send_slots(struct slot *const *slots, uint32_t count, uint64_t now)
{
	struct qclimb_record_header header = {
		QCLIMB_RECORD_MAGIC,   QCLIMB_RECORD_VERSION,		sizeof(struct qclimb_record), count,
		atomic_load(&dropped), atomic_load(&policy_generation),
	};
	struct iovec parts[1 + BATCH] = { { &header, sizeof(header) } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 1 + count };

	for (uint32_t i = 0; i < count; i++)
		parts[1 + i] = (struct iovec){ &slots[i]->record, sizeof(slots[i]->record) };
	if (send_datagram(&message, now))
		atomic_fetch_sub(&dropped, header.dropped);
	else
		atomic_fetch_add(&dropped, count);
	for (uint32_t i = 0; i < count; i++)
		atomic_store(&slots[i]->state, SLOT_FREE);
	atomic_fetch_sub(&waiting, count);
}

static bool is_full(uint64_t now)
{
	const uint64_t since_ns = atomic_load_explicit(&full_ns, memory_order_relaxed);

	return since_ns && now - since_ns < FULL_NS;
}

static void flush(uint64_t now)
{
	struct slot *slots[BATCH];
	const int saved = errno;
	uint32_t count = 0, found = 0, ready, first;

	if (atomic_flag_test_and_set(&is_flushing))
		return;
	atomic_store(&flushed_ns, now);
	ready = atomic_load(&waiting);
	first = atomic_load(&head) - ready;
	for (uint32_t i = 0; i < RING && found < ready; i++) {
		struct slot *slot = &ring[(first + i) % RING]; /* from the oldest */

		if (atomic_load_explicit(&slot->state, memory_order_acquire) != SLOT_READY)
			continue;
		found++;
		slots[count++] = slot;
		if (count == BATCH) {
			send_slots(slots, count, now);
			count = 0;
			if (is_full(now))
				break; /* the others stay in the ring */
		}
	}
	if (count)
		send_slots(slots, count, now);
	atomic_flag_clear(&is_flushing);
	errno = saved;
}

struct qclimb_record *records_begin(void)
{
	struct slot *slot = &ring[atomic_fetch_add_explicit(&head, 1, memory_order_relaxed) % RING];
	int state = SLOT_FREE;

	if (!atomic_compare_exchange_strong(&slot->state, &state, SLOT_FILLING)) {
		atomic_fetch_add(&dropped, 1);
		return NULL;
	}
	return &slot->record;
}

void records_end(struct qclimb_record *record, uint64_t generation, uint64_t now)
{
	struct slot *slot = (struct slot *)((char *)record - offsetof(struct slot, record));

	atomic_store_explicit(&policy_generation, generation, memory_order_relaxed);
	atomic_store_explicit(&slot->state, SLOT_READY, memory_order_release);
	if ((atomic_fetch_add(&waiting, 1) + 1 >= BATCH ||
	     now - atomic_load_explicit(&flushed_ns, memory_order_relaxed) > BATCH_NS) &&
	    !is_full(now))
		flush(now);
}

void records_flush(void)
{
	if (atomic_load(&waiting))
		flush(now_ns());
}

void records_flush_if_due(uint64_t now)
{
	if (atomic_load(&waiting) && now - atomic_load(&flushed_ns) >= CLOSE_NS && !is_full(now))
		flush(now);
}

void records_after_fork(void)
{
	for (uint32_t i = 0; i < RING; i++)
		atomic_store(&ring[i].state, SLOT_FREE);
	atomic_store(&waiting, 0);
	atomic_store(&dropped, 0);
	atomic_flag_clear(&is_flushing);
}
