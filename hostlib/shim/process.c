/*
 * Start, fork and exit. The environment is read once, and not at all under secure execution (setuid): an unprivileged user must
 * not choose what a privileged process reads. Invariant: after fork the child owns its copy of every table and sends none of the
 * parent's records.
 */
#include "process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <qclimb/policy.h>

#include "connection.h"
#include "log.h"
#include "records.h"
#include "rules.h"

#define DEFAULT_RUN "/run/qclimb"

struct real qclimb_real;
atomic_bool qclimb_is_started;
__thread char qclimb_thread_mark __attribute__((tls_model("initial-exec")));
struct process qclimb_process = { .own_mode = -1 };

static void find_real(void)
{
#define FIND(result, name, arguments) qclimb_real.name = (result(*) arguments)dlsym(RTLD_NEXT, #name);
	QCLIMB_REAL(FIND)
#undef FIND
	if (!qclimb_real.fcntl64)
		qclimb_real.fcntl64 = qclimb_real.fcntl;
}

static void join(char *path, const char *run, const char *name)
{
	if ((size_t)snprintf(path, QCLIMB_PATH_BYTES, "%s%s", run, name) >= QCLIMB_PATH_BYTES)
		path[0] = 0;
}

static int mode_of(const char *word)
{
	static const char *const words[] = { "off", "observe", "pias", "qclimb" };

	for (int mode = QCLIMB_OFF; word && mode <= QCLIMB_FULL; mode++)
		if (!strcmp(word, words[mode]))
			return mode;
	return -1;
}

static void read_environment(void)
{
	const char *run = secure_getenv("QCLIMB_RUN");
	const char *own_policy = secure_getenv("QCLIMB_POLICY");

	if (!run || !*run)
		run = DEFAULT_RUN;
	join(qclimb_process.run_path, run, "");
	join(qclimb_process.policy_path, run, "/policy");
	join(qclimb_process.model_path, run, "/model");
	join(qclimb_process.records_path, run, "/records");
	join(qclimb_process.own_policy_path, own_policy ? own_policy : "", "");
	qclimb_process.own_mode = mode_of(secure_getenv("QCLIMB_MODE"));
}

static void begin_process(void)
{
	qclimb_process.pid = sys_getpid();
	qclimb_process.start_ns = now_ns();
	prctl(PR_GET_NAME, qclimb_process.comm);
}

static void after_fork_in_parent(void)
{
	connections_share(false);
}

static void after_fork_in_child(void)
{
	begin_process();
	rules_after_fork();
	records_after_fork();
	connections_share(true);
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
	read_environment();
	begin_process();
	log_start(secure_getenv("QCLIMB_LOG"));
	rules_start();
	pthread_atfork(NULL, after_fork_in_parent, after_fork_in_child);
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
		records_flush();
	}
	errno = saved;
}
