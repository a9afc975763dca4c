/*
 * One writer at a time decides. Several threads may write on one connection; whoever has the gate may split its write
 * and wait, the others wait in enter(), where they may be made to. Knows nothing of priorities. Invariant: a holder
 * that ended (pthread_cancel) delays nobody, one that jumped away delays others by GATE_NS at most.
 */
#ifndef QCLIMB_GATE_H
#define QCLIMB_GATE_H

#include "base/process.h"
#include "socket/connection.h"
#include "socket/drain.h"
#include "socket/loans.h"

#define GATE_NS (2000 * QCLIMB_NS_PER_MS) /* longest wait for another writer's split */
#define GATE_NAP_NS 100000

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * connection->writing: who holds the gate (its thread, 0: nobody) in the low half, above it the number of threads in a
 * writing call. One word, so that a writer who finds nobody enters and takes the gate by one operation.
 */
#define ONE_WRITER (UINT64_C(1) << 32)

static inline uint32_t holder_of(uint64_t writing)
{
	return (uint32_t)writing;
}

static inline bool is_gone(uint32_t thread)
{
	return qclimb_syscall(SYS_tgkill, sys_getpid(), thread, 0) < 0 && errno == ESRCH;
}

/* The gate is nobody's, if it still is this holder's, and so many writers less are there. */
static inline void take_from(struct connection *connection, uint32_t holder, uint64_t writers)
{
	uint64_t writing = atomic_load(&connection->writing);

	while (holder_of(writing) == holder &&
	       !atomic_compare_exchange_weak(&connection->writing, &writing, writing - holder - writers))
		;
}

/* Where it was closed meanwhile and is a new one, or the one of a child that began in a handler, it counts nobody. */
static inline void leave(struct connection *connection)
{
	uint64_t writing = atomic_load(&connection->writing);

	while (writing >= ONE_WRITER &&
	       !atomic_compare_exchange_weak(&connection->writing, &writing, writing - ONE_WRITER))
		;
}

/*
 * Another thread is in the middle of a split write: bytes of ours would land inside its message, as they would not
 * without us. False, and errno: the caller waits no longer than the kernel would have it wait, for that thread may wait
 * for its peer.
 */
static __attribute__((cold, noinline)) bool wait_for_gate(struct connection *connection, int fd, size_t len, int flags)
{
	const int saved = errno;
	uint64_t now, timeout_ns, end_ns = 0, patient_ns = 0;
	uint32_t holder;

	for (int spins = 0; (holder = holder_of(atomic_load(&connection->writing))) != 0; spins++) {
		if (holder == this_thread())
			break; /* a signal handler that writes inside our own wait */
		if (spins < 100) {
			relax();
			continue;
		}
		now = now_ns();
		if (!end_ns) {
			end_ns = now + GATE_NS;
			timeout_ns = is_blocking(fd, flags) ? send_timeout_ns(fd) : 0;
			patient_ns = timeout_ns < GATE_NS ? now + timeout_ns : UINT64_MAX;
		}
		if (is_gone(holder)) {
			/* It was cancelled in a split: one writer less, too. */
			take_from(connection, holder, ONE_WRITER);
			break;
		}
		/* Where the kernel would take something the holder is about to move. */
		if (now >= patient_ns && !is_writable(fd)) {
			errno = EAGAIN;
			return false;
		}
		if (now > end_ns) {
			/* It jumped away, or waits for its peer: what it counted stays. */
			take_from(connection, holder, 0);
			break;
		}
		/* A bare kernel makes a write wait, and a signal end it, where it finds no room. */
		if (!nap(GATE_NAP_NS) && signal_interrupts(fd) && !has_room(connection, fd, len, false)) {
			errno = EINTR;
			return false;
		}
	}
	errno = saved;
	return true;
}

/* False, and errno: not entered, as the kernel would refuse a call that finds no room. */
static inline bool enter(struct connection *connection, int fd, size_t len, int flags)
{
	uint64_t before = atomic_fetch_add(&connection->writing, ONE_WRITER);

	while (unlikely(holder_of(before) != 0) && holder_of(before) != this_thread()) {
		leave(connection);
		if (!wait_for_gate(connection, fd, len, flags))
			return false;
		before = atomic_fetch_add(&connection->writing, ONE_WRITER);
	}
	return true;
}

/*
 * Whether this thread may decide; others then wait in enter(). `writers`, itself included, are in their calls: 1, it is
 * alone; more, they are past enter() and only count, and it may neither split nor wait.
 */
static inline bool take_gate(struct connection *connection, uint32_t writers)
{
	uint64_t writing = writers * ONE_WRITER;

	return atomic_compare_exchange_strong(&connection->writing, &writing, writing + this_thread());
}

static inline void give_gate(struct connection *connection)
{
	take_from(connection, this_thread(), 0);
}

/* enter() and take_gate() at once; false: neither. */
static inline bool enter_alone(struct connection *connection)
{
	uint64_t nobody = 0;

	return atomic_compare_exchange_strong(&connection->writing, &nobody, ONE_WRITER + this_thread());
}

/* leave() after give_gate(), at once where nobody waits. */
static inline void leave_gate(struct connection *connection)
{
	uint64_t alone = ONE_WRITER + this_thread();

	if (unlikely(!atomic_compare_exchange_strong(&connection->writing, &alone, 0))) {
		give_gate(connection);
		leave(connection);
	}
}

#endif
