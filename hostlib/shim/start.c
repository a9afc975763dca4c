/*
 * Start, fork and exit: who of the others must be told, in which order. Invariant: after fork the child owns its copy
 * of every table and sends none of the parent's records.
 */
#include "start.h"

#include <linux/kcmp.h>
#include <sched.h>
#include <stdlib.h>

#include "socket/connection.h"
#include "socket/loans.h"
#include "base/filter.h"
#include "boundary/flow.h"
#include "tell/log.h"
#include "socket/mark.h"
#include "life/samples.h"
#include "optax/optax.h"
#include "base/process.h"
#include "base/real.h"
#include "tell/records.h"
#include "rules/rules.h"
#include "socket/tagger.h"

atomic_bool qclimb_is_started;

static void after_fork_in_parent(void)
{
	if (qclimb_process.is_passive)
		return;
	connections_share(false);
}

static void after_fork_in_child(void)
{
	if (qclimb_process.is_passive)
		return;
	process_begin();
	rules_after_fork();
	records_after_fork();
	samples_after_fork();
	connections_share(true);
	optax_after_fork();
}

static void closed(struct connection *connection, int fd)
{
	if (optax_is_on())
		optax_closed(connection);
	flow_closed(connection, fd);
}

void qclimb_start(void)
{
	/*
	 * 0 nobody yet, 1 somebody is at it, 2 done. The loader runs constructors in one thread: nobody waits here for
	 * long.
	 */
	static atomic_int step;
	static __thread bool is_starting __attribute__((tls_model("initial-exec")));
	int none = 0;
	const int saved = errno;

	if (!atomic_compare_exchange_strong(&step, &none, 1)) {
		/*
		 * The same thread again: an allocator that starts inside dlsym(). What it may call has been found by
		 * then.
		 */
		while (!is_starting && atomic_load(&step) != 2)
			sched_yield();
		return;
	}
	is_starting = true;
	real_find();
	qclimb_process.is_passive =
		!libc_is_own() || !filter_lets_us(&qclimb_process.may_peek, &qclimb_process.may_bpf);
	if (!qclimb_process.is_passive) {
		process_begin();
		process_read_environment();
		log_start(secure_getenv("QCLIMB_LOG"));
		rules_start(tagger_look);
		connections_start(closed);
		optax_start(secure_getenv("QCLIMB_OPTAX"), secure_getenv("QCLIMB_TASK"));
		libc_at_fork(after_fork_in_parent, after_fork_in_child);
	}
	atomic_store(&step, 2);
	atomic_store_explicit(&qclimb_is_started, true, memory_order_release);
	errno = saved;
}

__attribute__((constructor)) static void at_load(void)
{
	qclimb_start();
}

__attribute__((destructor)) static void at_exit(void)
{
	const int saved = errno;

	if (is_own_process()) {
		connections_visit(closed); /* every flow ends */
		optax_end();
		records_flush();
	}
	errno = saved;
}

/*
 * A child that no fork handler told of (clone() by a system call) has a memory of its own; a vfork child has its
 * parent's.
 */
static bool is_in_parents_memory(void)
{
	return qclimb_syscall(SYS_kcmp, sys_getpid(), qclimb_process.pid, KCMP_VM, 0, 0) == 0;
}

static void leave_alone(struct connection *connection, int fd)
{
	loans_give(connection, fd);
	mark_nothing(connection, fd);
	mark_release(connection, fd, connection->own_dscp);
	if (optax_is_on())
		optax_release(connection, fd);
	connection_set(fd, NULL, fd); /* its flow ends */
}

void qclimb_withdraw(void)
{
	const int saved = errno;

	qclimb_start();
	if (!qclimb_process.is_passive && !is_own_process() && !is_in_parents_memory())
		after_fork_in_child();
	if (is_own_process()) {
		LOG("withdraws: the process restricts its own system calls");
		connections_visit(leave_alone);
		records_flush();
		optax_end();
		qclimb_process.is_passive = true;
	}
	errno = saved;
}
