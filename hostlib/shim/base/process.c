#include "base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <qclimb/policy.h>

#define DEFAULT_RUN "/run/qclimb"

__thread uint32_t qclimb_thread __attribute__((tls_model("initial-exec")));
struct process qclimb_process = { .own_mode = -1 };

static void join(char *path, const char *run, const char *name)
{
	if ((size_t)snprintf(path, QCLIMB_PATH_BYTES, "%s%s", run, name) >= QCLIMB_PATH_BYTES)
		path[0] = 0;
}

static const char *const mode_words[] = { "off", "observe", "pias", "qclimb" };

static int mode_of(const char *word)
{
	if (!word || !*word)
		return -1;
	for (int mode = QCLIMB_OFF; mode <= QCLIMB_FULL; mode++)
		if (!strcmp(word, mode_words[mode]))
			return mode;
	return -2;
}

const char *mode_word(uint32_t mode)
{
	return mode <= QCLIMB_FULL ? mode_words[mode] : "?";
}

void process_read_environment(void)
{
	const char *run = secure_getenv("QCLIMB_RUN");
	const char *own_policy = secure_getenv("QCLIMB_POLICY");

	if (!run || !*run)
		run = DEFAULT_RUN;
	join(qclimb_process.run_path, run, "");
	join(qclimb_process.policy_path, run, "/policy");
	join(qclimb_process.model_path, run, "/model");
	join(qclimb_process.lengths_path, run, "/lengths");
	join(qclimb_process.records_path, run, "/records");
	join(qclimb_process.flows_path, run, "/bpf/flows");
	join(qclimb_process.paths_path, run, "/bpf/paths");
	join(qclimb_process.own_policy_path, own_policy ? own_policy : "", "");
	qclimb_process.own_mode = mode_of(secure_getenv("QCLIMB_MODE"));
}

void process_begin(void)
{
	qclimb_process.pid = sys_getpid();
	qclimb_thread = 0;
	qclimb_process.start_ns = now_ns();
	(void)qclimb_syscall(SYS_prctl, PR_GET_NAME, qclimb_process.comm);
}
