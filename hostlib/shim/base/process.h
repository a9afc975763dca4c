/*
 * The process as a whole: who it is, and what its environment says. The environment is read once, and not at all under
 * secure execution (setuid): an unprivileged user must not choose what a privileged process reads.
 */
#ifndef QCLIMB_PROCESS_H
#define QCLIMB_PROCESS_H

#include "base/shim.h"

#define QCLIMB_PATH_BYTES 4096

struct process {
	pid_t pid;
	uint64_t start_ns; /* CLOCK_MONOTONIC; a forked child starts anew */
	char comm[16];
	char policy_path[QCLIMB_PATH_BYTES]; /* of the run directory */
	char model_path[QCLIMB_PATH_BYTES];
	char lengths_path[QCLIMB_PATH_BYTES];
	char records_path[QCLIMB_PATH_BYTES];
	char run_path[QCLIMB_PATH_BYTES];
	char flows_path[QCLIMB_PATH_BYTES]; /* the tagger's maps */
	char paths_path[QCLIMB_PATH_BYTES];
	char own_policy_path[QCLIMB_PATH_BYTES]; /* QCLIMB_POLICY; "" if none */
	bool is_passive; /* on the other libc, or withdrawn: no socket is ours */
	bool may_peek; /* no filter kills for process_vm_readv (filter.h) */
	bool may_bpf; /* nor for bpf */
	int own_mode; /* QCLIMB_MODE as enum qclimb_mode; -1 if none, -2 if it is no mode */
};

extern QCLIMB_OURS struct process qclimb_process;

void process_read_environment(void);

/* An enum qclimb_mode as QCLIMB_MODE has it. */
const char *mode_word(uint32_t mode);

/* At start, and in a forked child: this process, from now on. */
void process_begin(void);

/*
 * Whether we run in the process whose memory this is: false in a vfork child, whose close() is not ours. One system
 * call; none, and false, where the library is passive.
 */
static inline bool is_own_process(void)
{
	return !qclimb_process.is_passive && sys_getpid() == qclimb_process.pid;
}

/* Who runs: the kernel's number of the thread, asked once a thread, and anew by the child of a fork. */
extern QCLIMB_OURS __thread uint32_t qclimb_thread __attribute__((tls_model("initial-exec")));

static inline uint32_t this_thread(void)
{
	if (unlikely(!qclimb_thread))
		qclimb_thread = (uint32_t)qclimb_syscall(SYS_gettid);
	return qclimb_thread;
}

#endif
