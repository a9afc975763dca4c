/*
 * A program that starts under a seccomp filter: `filtered kill|ERRNO CALL...` runs itself behind one that answers the
 * calls named so, and lets all others pass. It sends 300,000 bytes on a connection of its own and makes none of these
 * calls itself.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 300000
#define MUST(what) ((what) ? (void)0 : fail(#what, __LINE__))
#define CALL(name) { #name, __NR_##name },

static const struct {
	const char *name;
	int number;
} calls[] = {
#ifdef __GLIBC__ /* musl makes them too, in fork() and in its loader */
	CALL(gettid) CALL(fcntl)
#endif
	CALL(bpf) CALL(epoll_ctl) CALL(futex) CALL(geteuid) CALL(getpeername) CALL(getpid) CALL(getsockname)
	CALL(getsockopt) CALL(ioctl) CALL(kcmp) CALL(nanosleep) CALL(ppoll) CALL(prctl) CALL(sched_yield)
	CALL(sendmsg) CALL(setsockopt) CALL(shmget) CALL(tgkill)
};
#define CALLS (sizeof(calls) / sizeof(*calls))

static void fail(const char *what, int line)
{
	dprintf(2, "line %d: not so: %s\n", line, what);
	_exit(2);
}

static void send_all(unsigned int port)
{
	const struct sockaddr_in to = { AF_INET, htons((in_port_t)port), { htonl(INADDR_LOOPBACK) }, { 0 } };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	static char bytes[20000];
	size_t left = BYTES;

	MUST(!connect(fd, (const struct sockaddr *)&to, sizeof(to)));
	while (left) {
		const ssize_t sent = write(fd, bytes, left < sizeof(bytes) ? left : sizeof(bytes));

		MUST(sent > 0);
		left -= (size_t)sent;
	}
	close(fd);
}

static void receive_all(int listener)
{
	const int fd = accept(listener, NULL, NULL);
	static char bytes[65536];
	size_t left = BYTES;
	ssize_t got;

	MUST(fd >= 0);
	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		left -= (size_t)got;
	MUST(!got && !left);
}

/* Behind the filter, with a listener from before it. */
static int stream(int listener, unsigned int port)
{
	int status;
	sigset_t pending;
	pid_t sender;

	MUST(!sigpending(&pending) && !sigismember(&pending, SIGCHLD)); /* no child but its own */
	sender = fork();

	if (!sender) {
		close(listener);
		send_all(port);
		exit(0);
	}
	receive_all(listener);
	MUST(waitpid(sender, &status, 0) == sender);
	if (status)
		dprintf(2, "the sender ended with status %x\n", (unsigned int)status);
	return status != 0;
}

static void restrict_to(unsigned int answer, char **names, int count)
{
	struct sock_filter code[1 + 2 * CALLS + 1] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog filter = { 1, code };

	for (int i = 0; i < count; i++) {
		size_t at = 0;

		while (at < CALLS && strcmp(calls[at].name, names[i]))
			at++;
		MUST(at < CALLS);
		code[filter.len++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)calls[at].number, 0, 1);
		code[filter.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
	}
	code[filter.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	char listener[16], port[16];
	sigset_t blocked;
	int fd;

	if (argc == 4 && !strcmp(argv[1], "stream"))
		return stream(atoi(argv[2]), (unsigned int)atoi(argv[3]));
	if (argc == 2) { /* what it knows */
		for (size_t i = 0; i < CALLS; i++)
			puts(calls[i].name);
		return 0;
	}
	fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(argc > 2 && !bind(fd, (struct sockaddr *)&address, len) && !listen(fd, 1));
	MUST(!getsockname(fd, (struct sockaddr *)&address, &len));
	(void)snprintf(listener, sizeof(listener), "%d", fd);
	(void)snprintf(port, sizeof(port), "%d", ntohs(address.sin_port));
	MUST(!setenv("LD_PRELOAD", getenv("BEHIND") ? getenv("BEHIND") : "", 1));
	MUST(!sigemptyset(&blocked) && !sigaddset(&blocked, SIGCHLD) && !sigprocmask(SIG_BLOCK, &blocked, NULL));
	restrict_to(!strcmp(argv[1], "kill") ? SECCOMP_RET_KILL_PROCESS
					     : SECCOMP_RET_ERRNO | (unsigned int)atoi(argv[1]),
		    argv + 2, argc - 2);
	execl("/proc/self/exe", argv[0], "stream", listener, port, (char *)NULL);
	fail("exec", __LINE__);
}
