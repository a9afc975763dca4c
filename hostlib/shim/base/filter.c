#include "base/filter.h"

#include "base/shim.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/kcmp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>

/*
 * Whether there is a filter, by openat, read and close alone: the loader made them too, so that no filter kills for
 * them. prctl(PR_GET_SECCOMP) is cheaper, and kills where prctl is not allowed. Where /proc can't be read: maybe.
 */
static bool may_be_filtered(void)
{
	static const char name[] = "\nSeccomp:\t";
	const int fd = (int)qclimb_syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC);
	bool may = true;
	char piece[2048];
	size_t known = 0;
	long got;

	if (fd < 0)
		return true;
	while ((got = qclimb_syscall(SYS_read, fd, piece, sizeof(piece))) > 0) {
		for (long i = 0; i < got; i++) {
			if (known == sizeof(name) - 1) {
				may = piece[i] != '0';
				break;
			}
			known = piece[i] == name[known] ? known + 1 : piece[i] == '\n';
		}
		if (!may)
			break;
	}
	(void)qclimb_syscall(SYS_close, fd);
	return may;
}

/*
 * Every system call of the library's, with what a filter may look at; none does anything. Without a descriptor (-1)
 * they fail after the filter has let them pass. Not tried: sched_yield, for two threads that start the library at once;
 * rt_sigaction; SO_DOMAIN, SO_TYPE, SO_SNDTIMEO, SO_RCVTIMEO, SO_BUF_LOCK and TCP_WINDOW_CLAMP.
 */
static void try_all(void)
{
	static const int levels[][2] = {
		{ IPPROTO_IP, IP_TOS },		{ IPPROTO_IPV6, IPV6_TCLASS }, { SOL_SOCKET, SO_PRIORITY },
		{ SOL_SOCKET, SO_COOKIE },	{ SOL_SOCKET, SO_PROTOCOL },   { SOL_SOCKET, SO_RCVBUF },
		{ IPPROTO_TCP, TCP_QUICKACK },	{ IPPROTO_TCP, TCP_CORK },     { IPPROTO_TCP, TCP_NOTSENT_LOWAT },
		{ IPPROTO_TCP, TCP_NODELAY },	{ IPPROTO_TCP, TCP_INFO },     { SOL_SOCKET, SO_SNDBUF },
		{ SOL_SOCKET, SO_SNDBUFFORCE },
	};
	static const long asked[] = { SIOCOUTQ, SIOCOUTQNSD, FIONREAD };
	const long pid = qclimb_syscall(SYS_getpid);
	const struct timespec never = { -1, 0 }; /* refused at once: a wait, however short, gives the processor away */
	struct sockaddr_storage address = { .ss_family = AF_UNIX };
	socklen_t len = sizeof(int);
	struct msghdr message = { 0 };
	struct rlimit limit;
	struct stat file;
	char name[16];
	int word = 0;

	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++) {
		(void)qclimb_syscall(SYS_getsockopt, -1, levels[i][0], levels[i][1], &word, &len);
		(void)qclimb_syscall(SYS_setsockopt, -1, levels[i][0], levels[i][1], &word, len);
	}
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		(void)qclimb_syscall(SYS_ioctl, -1, asked[i], &word);
	(void)qclimb_syscall(SYS_getpeername, -1, &address, &len);
	(void)qclimb_syscall(SYS_getsockname, -1, &address, &len);
	(void)qclimb_syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			     0); /* ends with the child */
	(void)qclimb_syscall(SYS_connect, -1, &address, sizeof(address));
	(void)qclimb_syscall(SYS_sendmsg, -1, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)qclimb_syscall(SYS_write, -1, &word, 0);
	(void)qclimb_syscall(SYS_fcntl, -1, F_GETFL);
	(void)qclimb_syscall(SYS_fcntl, -1, F_DUPFD_CLOEXEC, 40);
	(void)qclimb_syscall(SYS_fstat, -1, &file);
	(void)stat("/", &file);
	(void)geteuid();
	(void)getrlimit(RLIMIT_NOFILE, &limit);
	(void)qclimb_syscall(SYS_prctl, PR_GET_NAME, name);
	(void)qclimb_syscall(SYS_gettid);
	(void)qclimb_syscall(SYS_tgkill, pid, pid, 0);
	(void)qclimb_syscall(SYS_kcmp, pid, pid, KCMP_VM, 0, 0);
	(void)qclimb_syscall(SYS_ppoll, NULL, 0, &never, NULL, 0);
	(void)qclimb_syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, NULL, sizeof(uint64_t));
	(void)qclimb_syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
	(void)qclimb_syscall(SYS_epoll_ctl, -1, 0, -1, NULL);
	(void)shmget(IPC_PRIVATE, 0, 0600);
	(void)shmat(-1, NULL, 0);
	(void)shmctl(-1, IPC_RMID, NULL);
}

enum { KILLED, SURVIVED, SURVIVED_PEEK, SURVIVED_BPF };

/* By a child that a killing filter may have; a page that both see tells how far it came. */
static int try_by_child(void)
{
	const size_t len = 4096;
	atomic_int *reached = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int came_to = KILLED;
	long child;

	if (reached == MAP_FAILED)
		return KILLED;
	child = qclimb_syscall(SYS_clone, 0, 0, 0, 0,
			       0); /* no handler of a fork runs; its end sends no signal, which might stay pending */
	if (!child) {
		(void)qclimb_syscall(SYS_prctl, PR_SET_DUMPABLE, 0); /* its end is nobody's crash */
		try_all();
		atomic_store(reached, SURVIVED);
		/* Whoever never writes much at once can do without. */
		(void)qclimb_syscall(SYS_process_vm_readv, qclimb_syscall(SYS_getpid), NULL, 0, NULL, 0, 0);
		atomic_store(reached, SURVIVED_PEEK);
		(void)qclimb_syscall(SYS_bpf, -1, NULL, 0); /* only the tagger's friends need it */
		atomic_store(reached, SURVIVED_BPF);
		for (;;)
			(void)qclimb_syscall(SYS_exit_group, 0);
	}
	if (child > 0) {
		while (qclimb_syscall(SYS_wait4, child, NULL, __WALL, NULL) < 0 && errno == EINTR)
			;
		came_to = atomic_load(reached);
	}
	munmap((void *)reached, len);
	return came_to;
}

bool filter_lets_us(bool *peek_too, bool *bpf_too)
{
	const int came_to = may_be_filtered() ? try_by_child() : SURVIVED_BPF;

	*peek_too = came_to >= SURVIVED_PEEK;
	*bpf_too = came_to == SURVIVED_BPF;
	return came_to != KILLED;
}
