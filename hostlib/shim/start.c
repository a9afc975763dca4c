/*
 * Start, fork and exit: who of the others must be told, in which order. Invariant: after fork the child owns its copy of every table
 * and sends none of the parent's records.
 */
#include "shim.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>

#include "connection.h"
#include "flow.h"
#include "log.h"
#include "optax.h"
#include "process.h"
#include "records.h"
#include "rules.h"

struct real qclimb_real;
atomic_bool qclimb_is_started;

static void find_real(void)
{
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
	connections_share(false);
}

static void after_fork_in_child(void)
{
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
	/* 0 nobody yet, 1 somebody is at it, 2 done. The loader runs constructors in one thread: nobody waits here for long. */
	static atomic_int step;
	int none = 0;
	const int saved = errno;

	if (!atomic_compare_exchange_strong(&step, &none, 1)) {
		while (atomic_load(&step) != 2 && !qclimb_real.shutdown)
			sched_yield();
		return;
	}
	find_real();
	process_begin();
	qclimb_process.is_passive = !libc_is_own();
	if (!qclimb_process.is_passive) {
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
