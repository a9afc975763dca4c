#include "tell/records.h"

#include <string.h>
#include <sys/un.h>

#include "base/own_fd.h"
#include "base/process.h"

#define RING 64u
#define BATCH 16u /* divides RING */
#define BATCH_NS (200 * QCLIMB_NS_PER_MS)
#define CLOSE_NS (20 * QCLIMB_NS_PER_MS)
#define RETRY_NS (1000 * QCLIMB_NS_PER_MS)
#define FULL_NS                                                                                                        \
	(5 *                                                                                                           \
	 QCLIMB_NS_PER_MS) /* a full socket is left alone for: a refused datagram costs as much as one that is taken */

#define STRETCH_SHIFT 26 /* of the clock: 67 ms */
#define EACH_MOST 64 /* in a stretch of time */

enum { SLOT_FREE, SLOT_FILLING, SLOT_READY };

/* Apart from what they are the states of, so that records that go together lie together. */
static _Atomic uint8_t states[RING];
static struct qclimb_record ring[RING];
static _Atomic uint32_t head; /* records ever begun: each has the slot of its number */
static _Atomic uint32_t tail; /* what was begun before is sent or dropped */
static _Atomic uint32_t dropped;
static _Atomic uint64_t stretch;
static _Atomic uint32_t told_in_it; /* small flows, each by its own record */
static _Atomic uint32_t beyond; /* others */
static _Atomic uint64_t flushed_ns;
static _Atomic uint64_t full_ns; /* the socket was full then; 0: it was not, last time */
static _Atomic uint64_t failed_ns; /* nobody was there to take it then; 0: somebody was, last time */
static _Atomic uint64_t policy_generation;
static atomic_flag is_flushing = ATOMIC_FLAG_INIT; /* tried, never waited for */

/* Used by the one that flushes. */
static int socket_fd = -1;
static uint64_t socket_cookie;

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
	fd = (int)qclimb_syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	fd = own_fd(fd);
	if (qclimb_syscall(SYS_connect, fd, &address, sizeof(address)) ||
	    sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &socket_cookie, sizeof(socket_cookie))) {
		(void)qclimb_syscall(SYS_close, fd);
		return false;
	}
	socket_fd = fd;
	return true;
}

/* Nobody takes records, as was found less than RETRY_NS ago. */
static inline bool is_alone(uint64_t now)
{
	const uint64_t since_ns = relaxed_get(failed_ns);

	return since_ns && now - since_ns < RETRY_NS;
}

/* Sends a datagram; a hostd that was restarted is found again once. False: nobody took it. */
static bool send_datagram(const struct msghdr *message, uint64_t now)
{
	if (is_alone(now))
		return false;
	for (int attempt = 0; attempt < 2; attempt++) {
		if (!socket_is_ours()) {
			socket_fd = -1;
			if (!open_socket())
				break;
		}
		if (qclimb_syscall(SYS_sendmsg, socket_fd, message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
			atomic_store(&failed_ns, 0);
			atomic_store(&full_ns, 0);
			return true;
		}
		if (errno == EAGAIN || errno == ENOBUFS) {
			atomic_store(&full_ns, now);
			return false; /* hostd is slow, not gone */
		}
		(void)qclimb_syscall(SYS_close, socket_fd);
		socket_fd = -1;
	}
	atomic_store(&failed_ns, now);
	return false;
}

/* Sends `count` records from slot `first` on, at most BATCH, and frees them. */
static void send_slots(uint32_t first, uint32_t count, uint64_t now)
{
	struct qclimb_record_header header = {
		QCLIMB_RECORD_MAGIC,   QCLIMB_RECORD_VERSION,		sizeof(struct qclimb_record), count,
		atomic_load(&dropped), atomic_load(&policy_generation),
	};
	struct iovec parts[] = { { &header, sizeof(header) }, { &ring[first], count * sizeof(ring[0]) } };
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	if (send_datagram(&message, now))
		atomic_fetch_sub(&dropped, header.dropped);
	else
		for (uint32_t i = first; i < first + count; i++)
			atomic_fetch_add(&dropped, ring[i].flags & QCLIMB_RECORD_FOR_MANY ? QCLIMB_RECORD_MANY : 1);
	for (uint32_t i = 0; i < count; i++)
		atomic_store_explicit(&states[first + i], SLOT_FREE, memory_order_release);
}

static bool is_full(uint64_t now)
{
	const uint64_t since_ns = atomic_load_explicit(&full_ns, memory_order_relaxed);

	return since_ns && now - since_ns < FULL_NS;
}

/* How many records from number `at` on are whole and lie together, a datagram's at most. */
static uint32_t run_of(uint32_t at, uint32_t end)
{
	uint32_t count = 0;

	while (count < BATCH && at + count != end && (count == 0 || (at + count) % RING != 0) &&
	       atomic_load_explicit(&states[(at + count) % RING], memory_order_acquire) == SLOT_READY)
		count++;
	return count;
}

static __attribute__((noinline)) void flush(uint64_t now)
{
	const int saved = errno;
	uint32_t at, end, kept, count;

	if (atomic_flag_test_and_set(&is_flushing))
		return;
	atomic_store(&flushed_ns, now);
	end = atomic_load(&head);
	at = atomic_load(&tail);
	if (end - at > RING)
		at = end - RING;
	kept = end; /* the first that is still being filled, or left */
	while (at != end) {
		count = run_of(at, end);
		if (count) {
			send_slots(at % RING, count, now);
		} else {
			if (kept == end && atomic_load(&states[at % RING]) != SLOT_FREE)
				kept = at;
			count = 1;
		}
		at += count;
		if (is_full(now)) {
			kept = kept == end ? at : kept; /* the others stay in the ring */
			break;
		}
	}
	atomic_store(&tail, kept);
	atomic_flag_clear(&is_flushing);
	errno = saved;
}

/* The record of this slot has come: whether it is time to send. Slots are numbered as records are, modulo RING. */
static inline void flush_if_due(uint32_t slot, uint64_t now)
{
	if (unlikely(slot % BATCH == BATCH - 1 || now - relaxed_get(flushed_ns) > BATCH_NS) && !is_full(now))
		flush(now);
}

uint32_t records_flows(uint64_t now)
{
	uint32_t number;

	/* Threads may lose one to each other, which then has a record more. */
	if (relaxed_get(stretch) != now >> STRETCH_SHIFT) {
		relaxed_set(stretch, now >> STRETCH_SHIFT);
		relaxed_set(told_in_it, 0);
	}
	if (relaxed_get(told_in_it) < EACH_MOST) {
		relaxed_set(told_in_it, relaxed_get(told_in_it) + 1);
		return 1;
	}
	/* One of so many, at a place that no order of requests follows (Fibonacci hashing: Knuth, TAOCP 3, 6.4). */
	_Static_assert(QCLIMB_RECORD_MANY == 1 << 6, "six bits are a place among them");
	number = atomic_fetch_add_explicit(&beyond, 1, memory_order_relaxed);
	return number % QCLIMB_RECORD_MANY == number / QCLIMB_RECORD_MANY * 2654435769u >> 26 ? QCLIMB_RECORD_MANY : 0;
}

struct qclimb_record *records_begin(uint32_t flows, uint64_t now)
{
	uint8_t state = SLOT_FREE;
	uint32_t slot;

	if (is_alone(now)) {
		/* Threads may lose one to each other here: no locked instruction for what nobody is there to hear. */
		relaxed_set(dropped, relaxed_get(dropped) + flows);
		return NULL;
	}
	slot = atomic_fetch_add_explicit(&head, 1, memory_order_relaxed) % RING;
	if (unlikely(!atomic_compare_exchange_strong(&states[slot], &state, SLOT_FILLING))) {
		atomic_fetch_add(&dropped, flows);
		flush_if_due(slot, now);
		return NULL;
	}
	return &ring[slot];
}

void records_end(struct qclimb_record *record, uint64_t generation, uint64_t now)
{
	const uint32_t slot = (uint32_t)(record - ring);

	if (unlikely(relaxed_get(policy_generation) != generation)) /* threads share its cache line */
		relaxed_set(policy_generation, generation);
	atomic_store_explicit(&states[slot], SLOT_READY, memory_order_release);
	flush_if_due(slot, now);
}

bool records_are_taken(uint64_t now)
{
	return !is_alone(now) && !is_full(now);
}

bool records_send(const void *bytes, size_t len, uint64_t now)
{
	struct iovec part = { (void *)(uintptr_t)bytes, len };
	const struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	const int saved = errno;
	bool is_sent;

	if (atomic_flag_test_and_set(&is_flushing))
		return false;
	is_sent = send_datagram(&message, now);
	atomic_flag_clear(&is_flushing);
	errno = saved;
	return is_sent;
}

static bool is_waiting(void)
{
	return relaxed_get(head) != relaxed_get(tail);
}

void records_flush(void)
{
	if (is_waiting())
		flush(now_ns());
}

void records_flush_if_due(uint64_t now)
{
	if (is_waiting() && now - relaxed_get(flushed_ns) >= CLOSE_NS && !is_full(now))
		flush(now);
}

void records_after_fork(void)
{
	for (uint32_t i = 0; i < RING; i++)
		atomic_store(&states[i], SLOT_FREE);
	atomic_store(&tail, atomic_load(&head));
	atomic_store(&dropped, 0);
	atomic_store(&beyond, 0);
	atomic_flag_clear(&is_flushing);
}
