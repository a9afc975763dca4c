/*
 * A program that seals itself: sends 300,000 bytes on a connection whose first ones went out before a seccomp filter
 * that kills for nearly every system call. `sealed HOW`: prctl, seccomp, strict; clone: by a child that no handler of
 * fork knows of; vfork: a child does it that shares its parent's memory.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

#define BEFORE 60000
#define AFTER 240000
#define MUST(what) ((what) ? (void)0 : fail(#what, __LINE__))
#define MAY(name)                                                                                                      \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void fail(const char *what, int line)
{
	dprintf(2, "line %d: not so: %s\n", line, what);
	_exit(2);
}

/* What a server needs that serves what it has; getsockopt for this test to look. */
static struct sock_filter code[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	MAY(read),
	MAY(write),
	MAY(close),
	MAY(getsockopt),
	MAY(exit),
	MAY(exit_group),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

static void seal(const char *how)
{
	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	/* As libseccomp asks what there is; it changes nothing. */
	MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0) < 0);
	MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0) < 0);
	if (!strcmp(how, "strict"))
		MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
	else if (!strcmp(how, "prctl"))
		MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
	else
		MUST(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter));
}

static void send_all(int fd, size_t len)
{
	static char bytes[20000];

	while (len) {
		const ssize_t sent = write(fd, bytes, len < sizeof(bytes) ? len : sizeof(bytes));

		MUST(sent > 0);
		len -= (size_t)sent;
	}
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	MUST(!syscall(SYS_getsockopt, fd, level, name, &value, &len));
	return value;
}

static int serve(int fd, const char *how)
{
	char word;

	send_all(fd, BEFORE);
	seal(how);
	send_all(fd, AFTER);
	MUST(read(fd, &word, 1) == 1);
	if (!strcmp(how, "strict"))
		syscall(SYS_exit, 0); /* no other call than read, write and this one */
	/* As if the library had never been here. */
	MUST(option(fd, IPPROTO_IP, IP_TOS) == 0);
	MUST(option(fd, SOL_SOCKET, SO_PRIORITY) == 0);
	MUST(option(fd, IPPROTO_TCP, TCP_CORK) == 0);
	MUST(option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT) <= 0);
	close(fd);
	return 0;
}

static void receive(const struct sockaddr_in *server)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	static char bytes[65536];
	size_t left = BEFORE + AFTER;

	MUST(!connect(fd, (const struct sockaddr *)server, sizeof(*server)));
	while (left) {
		const ssize_t got = read(fd, bytes, sizeof(bytes));

		MUST(got > 0);
		left -= (size_t)got;
	}
	MUST(write(fd, "!", 1) == 1);
	_exit(read(fd, bytes, 1) != 0);
}

static int status_of(pid_t child)
{
	int status;

	MUST(waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status))
		dprintf(2, "killed by signal %d\n", WTERMSIG(status));
	return !WIFEXITED(status) || WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	const int listener = socket(AF_INET, SOCK_STREAM, 0);
	pid_t peer, child;
	int fd, status;

	MUST(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 1));
	MUST(!getsockname(listener, (struct sockaddr *)&address, &len));
	peer = fork();
	if (!peer)
		receive(&address);
	fd = accept(listener, NULL, NULL);
	if (!strcmp(how, "vfork")) {
		child = vfork();
		if (!child) {
			(void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (void *)&filter);
			_exit(0);
		}
		status = status_of(child);
		send_all(fd, BEFORE + AFTER);
		MUST(option(fd, IPPROTO_IP, IP_TOS) != 0); /* the parent goes on as before */
		close(fd);
		return status;
	}
	child = !strcmp(how, "clone") ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	if (!child) {
		close(listener);
		exit(serve(fd, how)); /* through what the library does at exit */
	}
	close(fd);
	status = status_of(child);
	return status_of(peer) | status;
}
