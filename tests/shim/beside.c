/*
 * A blocking write that waits, and what another thread, a handler or another process does beside it; the argument says
 * what. Tells how the calls ended. Nobody reads what is written before that, so that the wait has no end of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <qclimb.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif
#define MUST(what) ((what) ? (void)0 : (perror(#what), exit(1)))
#define SMALL_BUFFER 65536
#define LARGE_BUFFER 400000
#define MESSAGE_BYTES 400000
#define FORCED_BYTES 200000000 /* more than any host's net.core.wmem_max */
#define OTHERS 2000 /* connections that a withdrawal gives back, too: it takes longer than a write */

static char bytes[3000000];
static struct sockaddr_in address = { .sin_family = AF_INET };
static int listener, writer_fd, peer;
static size_t write_bytes = sizeof(bytes);
static _Atomic pid_t writing; /* the thread that has the write in hand */
static ssize_t wrote;
static int error;
static volatile sig_atomic_t signals;
static atomic_bool is_late;

static const char *word(ssize_t result, int number)
{
	if (result >= 0)
		return "-";
	return number == EAGAIN ? "EAGAIN" : number == EINTR ? "EINTR" : number == EPIPE ? "EPIPE" : strerror(number);
}

static void listen_with(int buffer_bytes)
{
	socklen_t len = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	MUST(!setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes)));
	MUST(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 64));
	MUST(!getsockname(listener, (struct sockaddr *)&address, &len));
}

static void connected(int *client, int *other, int buffer_bytes)
{
	MUST((*client = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	if (buffer_bytes)
		MUST(!setsockopt(*client, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes)));
	MUST(!connect(*client, (struct sockaddr *)&address, sizeof(address)));
	MUST((*other = accept(listener, NULL, NULL)) >= 0);
}

static int option(int level, int name)
{
	socklen_t len = sizeof(int);
	int value = -1;

	MUST(!getsockopt(writer_fd, level, name, &value, &len));
	return value;
}

static void set(int level, int name, int value)
{
	MUST(!setsockopt(writer_fd, level, name, &value, sizeof(value)));
}

static void time_out_after_ms(int ms)
{
	const struct timeval time = { 0, ms * 1000 };

	MUST(!setsockopt(writer_fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)));
}

static void on_signal(int number)
{
	(void)number;
	signals++;
}

static void alarm_every_ms(int ms, int flags)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
	const struct itimerval time = { { 0, ms * 1000 }, { 0, ms * 1000 } };

	MUST(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &time, NULL));
}

/* The time that nobody should wait who asked for a twentieth of it, and less than the library's longest wait. */
static void *watch(void *unused)
{
	usleep(1500000);
	is_late = true;
	return unused;
}

static void *write_all(void *unused)
{
	sigset_t all;

	sigfillset(&all);
	MUST(!pthread_sigmask(SIG_BLOCK, &all, NULL));
	writing = gettid();
	wrote = send(writer_fd, bytes, write_bytes, MSG_NOSIGNAL);
	error = errno;
	return unused;
}

static void *write_sized(void *unused)
{
	qclimb_flow_size(writer_fd, 2000000);
	for (int i = 0; i < 100; i++)
		MUST(send(writer_fd, bytes, 20000, 0) == 20000);
	return unused;
}

static char state_of(pid_t thread)
{
	char name[64], state = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", thread);
	MUST((file = fopen(name, "r")) && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && !fclose(file));
	return state;
}

/* Until the thread waits, for what it does not get. */
static void wait_for_writer(void)
{
	for (int asleep = 0; asleep < 20; asleep = writing && state_of(writing) == 'S' ? asleep + 1 : 0)
		usleep(5000);
}

static long read_all(int fd, long most)
{
	static __thread char got[1 << 16];
	long sum = 0;
	ssize_t n = 1;

	while (sum < most &&
	       (n = read(fd, got, most - sum < (long)sizeof(got) ? (size_t)(most - sum) : sizeof(got))) > 0)
		sum += n;
	return sum;
}

static void *read_peer(void *fd)
{
	return (void *)read_all(*(int *)fd, 1L << 40);
}

static pthread_t begun(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, NULL, body, argument));
	return thread;
}

/* The writer's wait is over, and so is its write. */
static void end(pthread_t writer)
{
	pthread_t reader = begun(read_peer, &peer);
	void *got;

	pthread_join(writer, NULL);
	MUST(!shutdown(writer_fd, SHUT_WR));
	pthread_join(reader, &got);
	printf("%zd %s %ld\n", wrote, word(wrote, error), (long)got);
}

static void *close_in_own_table(void *how)
{
	if (how)
		MUST(!unshare(CLONE_FILES) && !close(writer_fd));
	else
#ifdef __GLIBC__
		MUST(!close_range(3, ~0u, CLOSE_RANGE_UNSHARE));
#else
		MUST(!syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_UNSHARE));
#endif
	return NULL;
}

static void seal(void)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	const struct sock_fprog filter = { 1, &allow };

	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

/* A message and its answer, again and again, until the process has restricted itself. */
static void *write_until_sealed(void *is_sealed)
{
	bool was_sealed = false;
	char answer;

	while (!was_sealed && (wrote = send(writer_fd, bytes, MESSAGE_BYTES, MSG_NOSIGNAL)) == MESSAGE_BYTES) {
		was_sealed = *(atomic_bool *)is_sealed;
		MUST(read(writer_fd, &answer, 1) == 1);
	}
	error = errno;
	return NULL;
}

static void *answer_all(void *unused)
{
	while (read_all(peer, MESSAGE_BYTES) == MESSAGE_BYTES && write(peer, "a", 1) == 1)
		;
	return unused;
}

int main(int count, char **words)
{
	const char *how = count > 1 ? words[1] : "";
	struct rusage before, after;
	pthread_t writer;
	ssize_t n;

	listen_with(SMALL_BUFFER);
	if (!strcmp(how, "dontwait") || !strcmp(how, "timeout") || !strcmp(how, "alarm")) {
		connected(&writer_fd, &peer, SMALL_BUFFER);
		begun(write_all, NULL);
		wait_for_writer();
		if (!strcmp(how, "timeout"))
			time_out_after_ms(50);
		if (!strcmp(how, "alarm"))
			alarm_every_ms(100, 0); /* again: the first may come before the write */
		begun(watch, NULL);
		getrusage(RUSAGE_THREAD, &before);
		n = send(writer_fd, "x", 1, !strcmp(how, "dontwait") ? MSG_DONTWAIT : 0);
		printf("%zd %s", n, word(n, errno));
		getrusage(RUSAGE_THREAD, &after);
		printf("%s%s\n", is_late ? " late" : "",
		       !strcmp(how, "dontwait") && after.ru_nvcsw != before.ru_nvcsw ? " waited" : "");
	} else if (!strcmp(how, "own timeout")) {
		connected(&writer_fd, &peer, LARGE_BUFFER);
		time_out_after_ms(50);
		begun(watch, NULL);
		n = send(writer_fd, bytes, sizeof(bytes), 0);
		printf("%s%s\n", n > 0 ? "short" : word(n, errno), is_late ? " late" : "");
	} else if (!strcmp(how, "signals")) {
		connected(&writer_fd, &peer, LARGE_BUFFER);
		MUST(send(writer_fd, bytes, 300000, 0) == 300000);
		alarm_every_ms(20, SA_RESTART);
		printf("%zd\n", send(writer_fd, bytes, 100000, 0));
	} else if (!strcmp(how, "shutdown")) {
		connected(&writer_fd, &peer, 0);
		writer = begun(write_all, NULL);
		wait_for_writer();
		MUST(!shutdown(writer_fd, SHUT_WR));
		pthread_join(writer, NULL);
		signal(SIGPIPE, on_signal);
		n = send(writer_fd, "x", 1, 0);
		printf("%zd %s %d\n", n, word(n, errno), signals);
	} else if (!strcmp(how, "nodelay")) {
		connected(&writer_fd, &peer, LARGE_BUFFER);
		writer = begun(write_all, NULL);
		wait_for_writer();
		printf("%d %d\n", option(IPPROTO_TCP, TCP_NODELAY), option(IPPROTO_TCP, TCP_NOTSENT_LOWAT));
		set(IPPROTO_TCP, TCP_NODELAY, 1);
		set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 77777);
		end(writer);
		printf("%d %d\n", option(IPPROTO_TCP, TCP_NODELAY), option(IPPROTO_TCP, TCP_NOTSENT_LOWAT));
	} else if (!strcmp(how, "sndbuf") || !strcmp(how, "forced sndbuf")) {
		connected(&writer_fd, &peer, 0);
		if (strcmp(how, "sndbuf"))
			set(SOL_SOCKET, SO_SNDBUFFORCE, FORCED_BYTES);
		writer = begun(write_sized, NULL);
		usleep(300000);
		printf("%s\n", option(SOL_SOCKET, SO_SNDBUF) > 100000 ? "large" : "ours");
		if (!strcmp(how, "sndbuf"))
			set(SOL_SOCKET, SO_SNDBUF, 150000);
		MUST(read_all(peer, 2000000) == 2000000);
		pthread_join(writer, NULL);
		printf("%d\n", option(SOL_SOCKET, SO_SNDBUF));
	} else if (!strcmp(how, "unshared") || !strcmp(how, "unshared close")) {
		connected(&writer_fd, &peer, 0);
		writer = begun(write_all, NULL);
		wait_for_writer();
		pthread_join(begun(close_in_own_table, strcmp(how, "unshared") ? bytes : NULL), NULL);
		end(writer);
	} else if (!strcmp(how, "seal")) {
		const struct rlimit limit = { 2 * OTHERS + 100, 2 * OTHERS + 100 };
		atomic_bool is_sealed = false;
		int other[2];

		MUST(!setrlimit(RLIMIT_NOFILE, &limit));
		connected(&writer_fd, &peer, 0);
		for (int i = 0; i < OTHERS; i++) {
			connected(&other[0], &other[1], 0);
			MUST(write(other[0], "x", 1) == 1);
		}
		begun(answer_all, NULL);
		writer = begun(write_until_sealed, &is_sealed);
		usleep(100000);
		seal();
		is_sealed = true;
		pthread_join(writer, NULL);
		printf("%zd %s\n", wrote, word(wrote, error));
	} else if (!strcmp(how, "handed")) {
		int ends[2];

		connected(&writer_fd, &peer, LARGE_BUFFER);
		MUST(!fcntl(writer_fd, F_SETFL, O_NONBLOCK) && !pipe(ends));
		while (send(writer_fd, bytes, 100000, 0) > 0)
			;
		if (!fork()) {
			MUST(!close(ends[1]) && !read(ends[0], bytes, 1));
			printf("%d %d\n", option(IPPROTO_TCP, TCP_NOTSENT_LOWAT), option(IPPROTO_TCP, TCP_CORK));
			return 0;
		}
		MUST(!close(writer_fd) && !close(ends[1]));
		MUST(wait(NULL) > 0);
	} else if (!strcmp(how, "slot")) {
		int other;

		connected(&writer_fd, &other, SMALL_BUFFER);
		MUST(send(writer_fd, bytes, 20000, 0) == 20000); /* the next one needs no decision */
		writer = begun(write_all, NULL);
		wait_for_writer();
		MUST(!close(writer_fd));
		connected(&writer_fd, &peer, 0);
		MUST(!close(other));
		pthread_join(writer, NULL);
		begun(read_peer, &peer);
		for (int i = 0; i < 10; i++)
			MUST(send(writer_fd, bytes, 600000, 0) == 600000);
		MUST(!close(writer_fd));
	}
	return 0;
}
