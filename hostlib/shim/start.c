/*
 * Start, fork and exit: who of the others must be told, in which order. Invariant: after fork the child owns its copy
 * of every table and sends none of the parent's records.
 */
#include "shim.h"

#include <dlfcn.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <stdlib.h>

#include "connection.h"
#include "drain.h"
#include "filter.h"
#include "flow.h"
#include "log.h"
#include "mark.h"
#include "optax.h"
#include "process.h"
#include "records.h"
#include "rules.h"
#include "tagger.h"

struct real qclimb_real;
atomic_bool qclimb_is_started;

static void find_real(void)
{
	*(void **)&qclimb_syscall = dlsym(RTLD_NEXT, "syscall");
#define FIND(result, name, arguments) qclimb_real.name = (result(*) arguments)dlsym(RTLD_NEXT, #name);
	QCLIMB_REAL(FIND)
#undef FIND
	if (!qclimb_real.fcntl64)
		qclimb_real.fcntl64 = qclimb_real.fcntl;
	if (!qclimb_real.sendfile64) /* musl from 1.2.4 on has these names for its linker only */
		qclimb_real.sendfile64 = qclimb_real.sendfile;
}

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
	find_real();
	qclimb_process.is_passive = !libc_is_own() || !filter_lets_us(&qclimb_process.may_bpf);
	if (!qclimb_process.is_passive) {
		process_begin();
		process_read_environment();
		log_start(secure_getenv("QCLIMB_LOG"));
		rules_start();
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
		connections_finish();
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
	return syscall(SYS_kcmp, sys_getpid(), qclimb_process.pid, KCMP_VM, 0, 0) == 0;
}

static void leave_alone(struct connection *connection, int fd)
{
	connection->is_released = true;
	tagger_forget(connection, fd);
	drain_release(connection, fd);
	mark_nothing(connection, fd);
	if (optax_is_on())
		optax_release(connection, fd);
}

void qclimb_withdraw(void)
{
	const int saved = errno;

	(void)real();
	if (!qclimb_process.is_passive && !is_own_process() && !is_in_parents_memory())
		after_fork_in_child();
	if (is_own_process()) {
		LOG("withdraws: the process restricts its own system calls");
		connections_withdraw(leave_alone);
		records_flush();
		optax_end();
		qclimb_process.is_passive = true;
	}
	errno = saved;
}
