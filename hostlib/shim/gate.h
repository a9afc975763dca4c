/*
 * One writer at a time decides. Several threads may write on one connection; whoever has the gate may split its write
 * and wait, the others wait in enter(). Knows nothing of priorities. Invariant: a holder that ended (pthread_cancel)
 * delays nobody, one that jumped away delays others by GATE_NS at most.
 */
#ifndef QCLIMB_GATE_H
#define QCLIMB_GATE_H

#include "connection.h"

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

static inline bool is_gone(uint32_t thread)
{
	return syscall(SYS_tgkill, sys_getpid(), thread, 0) < 0 && errno == ESRCH;
}

/*
 * Another thread is in the middle of a split write: bytes of ours would land inside its message, as they would not
 * without us.
 */
static void wait_for_gate(struct connection *connection)
{
	const struct timespec time = { 0, GATE_NAP_NS };
	uint64_t end_ns = 0;
	uint32_t holder;

	for (int spins = 0; (holder = atomic_load(&connection->gate)) != 0; spins++) {
		if (holder == this_thread())
			return; /* a signal handler that writes inside our own wait */
		if (spins < 100) {
			relax();
			continue;
		}
		if (!end_ns)
			end_ns = now_ns() + GATE_NS;
		if (is_gone(holder)) {
			/* It was cancelled in a split: one writer less, too. */
			if (atomic_compare_exchange_strong(&connection->gate, &holder, 0))
				atomic_fetch_sub(&connection->writers, 1);
			return;
		}
		if (now_ns() > end_ns) {
			/* It jumped away, or waits for its peer: what it counted stays. */
			atomic_compare_exchange_strong(&connection->gate, &holder, 0);
			return;
		}
		(void)syscall(SYS_nanosleep, &time, NULL);
	}
}

static inline void enter(struct connection *connection)
{
	const int saved = errno;

	atomic_fetch_add(&connection->writers, 1);
	while (unlikely(atomic_load(&connection->gate) != 0) && atomic_load(&connection->gate) != this_thread()) {
		atomic_fetch_sub(&connection->writers, 1);
		wait_for_gate(connection);
		atomic_fetch_add(&connection->writers, 1);
		errno = saved;
	}
}

static inline void leave(struct connection *connection)
{
	atomic_fetch_sub(&connection->writers, 1);
}

/* Whether this thread may decide: it is the only writer (`writers` counts it). Then others wait in enter(). */
static bool take_gate(struct connection *connection, uint32_t writers)
{
	uint32_t nobody = 0;

	if (!atomic_compare_exchange_strong(&connection->gate, &nobody, this_thread()))
		return false;
	if (atomic_load(&connection->writers) == writers)
		return true;
	atomic_store(&connection->gate, 0);
	return false;
}

static void give_gate(struct connection *connection)
{
	uint32_t me = this_thread();

	atomic_compare_exchange_strong(&connection->gate, &me, 0);
}

#endif
