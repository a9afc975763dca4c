/*
 * How much stack do calls take? `small_stack depth SECONDS`: a thread on a painted stack goes over connections with
 * every kind of call, and the deepest byte that was written is told. `small_stack thread SECONDS`: the same on the
 * smallest stack that a thread may have on glibc. `small_stack signal SECONDS`: a handler writes to a connection from an
 * alternate stack with 4 KB beside what the kernel itself puts there; what lies below can't be touched.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (256 << 10)
#define PAGE 4096
#define THREAD_BYTES (PTHREAD_STACK_MIN < 16384 ? 16384 : PTHREAD_STACK_MIN)
#define ROOM 4096 /* at least, of the alternate stack, for the handler and what it calls */
#define PAINT 0xa5
#define MUST(what) ((what) ? (void)0 : fail(#what, __LINE__))

static char bytes[200000];
static struct sockaddr_in at = { .sin_family = AF_INET };
static int listener, file, client;
static double seconds;
static atomic_ulong written;
static char *top;
static long kernels;

static void fail(const char *what, int line)
{
	dprintf(2, "line %d: not so: %s\n", line, what);
	_exit(2);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Whatever comes is read, one byte is the answer to each 100,000, until the other side closes. */
static void *serve(void *none)
{
	static char got[65536];
	int peer = accept(listener, NULL, NULL);

	for (; peer >= 0; close(peer), peer = accept(listener, NULL, NULL)) {
		ssize_t n, sum = 0;

		while ((n = read(peer, got, sizeof(got))) > 0)
			for (sum += n; sum >= 100000; sum -= 100000)
				if (write(peer, "a", 1) < 0)
					break;
	}
	return none;
}

/* 300,000 bytes by all kinds of calls, three answers. */
static void one_connection(void)
{
	struct iovec parts[3] = { { bytes, 7 }, { bytes, 30000 }, { bytes, 19993 } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };
	struct mmsghdr messages[1] = { { .msg_hdr = message } };
	struct epoll_event event = { .events = EPOLLIN };
	struct timeval wait = { 5, 0 };
	int fd = socket(AF_INET, SOCK_STREAM, 0), loop = epoll_create1(0);
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	off_t from = 0;
	fd_set set;
	char answer;

	MUST(fd >= 0 && loop >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at)));
	MUST(write(fd, bytes, 30000) == 30000 && send(fd, bytes, 70000, 0) == 70000);
	MUST(poll(&polled, 1, 5000) == 1 && recv(fd, &answer, 1, 0) == 1);
	MUST(writev(fd, parts, 3) == 50000 && sendmsg(fd, &message, 0) == 50000);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	MUST(select(fd + 1, &set, NULL, NULL, &wait) == 1 && read(fd, &answer, 1) == 1);
	MUST(sendmmsg(fd, messages, 1, 0) == 1 && messages[0].msg_len == 50000);
	MUST(sendfile(fd, file, &from, 50000) == 50000);
	MUST(!epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) && epoll_wait(loop, &event, 1, 5000) == 1);
	MUST(recv(fd, &answer, 1, MSG_WAITALL) == 1);
	MUST(!shutdown(fd, SHUT_WR) && !close(loop) && !close(fd));
}

static void *connect_and_write(void *none)
{
	for (const double end = now() + seconds; now() < end;)
		one_connection();
	return none;
}

static void on_signal(int number)
{
	(void)number;
	MUST(write(client, bytes, 100000) == 100000);
	atomic_fetch_add(&written, 1);
}

static char *guarded(size_t len)
{
	char *memory = mmap(NULL, len + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(memory != MAP_FAILED && !mprotect(memory, PAGE, PROT_NONE));
	return memory + PAGE;
}

/* How much of an alternate stack is gone when a handler begins. */
static void on_first_signal(int number)
{
	(void)number;
	kernels = top - (char *)__builtin_frame_address(0);
}

static void on_stack(size_t len, void (*handler)(int))
{
	const size_t whole = (len + PAGE - 1) / PAGE * PAGE;
	const stack_t stack = { .ss_sp = guarded(whole), .ss_size = whole };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART };

	top = (char *)stack.ss_sp + whole;
	MUST(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &action, NULL));
}

static void from_handlers(void)
{
	on_stack(STACK_BYTES, on_first_signal);
	MUST(!raise(SIGUSR1));
	client = socket(AF_INET, SOCK_STREAM, 0);
	MUST(!connect(client, (struct sockaddr *)&at, sizeof(at)));
	on_stack((size_t)kernels + ROOM, on_signal);
	for (const double end = now() + seconds; now() < end;)
		MUST(!raise(SIGUSR1) && read(client, bytes, 1) == 1);
	MUST(atomic_load(&written) > 10);
	close(client);
}

static void in_thread(pthread_attr_t *attributes)
{
	pthread_t thread;

	MUST(!pthread_create(&thread, attributes, connect_and_write, NULL) && !pthread_join(thread, NULL));
}

int main(int count, char **words)
{
	const char *how = count > 2 ? words[1] : "";
	socklen_t len = sizeof(at);
	pthread_attr_t attributes;
	pthread_t server;

	seconds = count > 2 ? atof(words[2]) : 0;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	file = memfd_create("file", 0);
	MUST(file >= 0 && write(file, bytes, sizeof(bytes)) == sizeof(bytes));
	listener = socket(AF_INET, SOCK_STREAM, 0);
	MUST(!bind(listener, (struct sockaddr *)&at, sizeof(at)) && !listen(listener, 16));
	MUST(!getsockname(listener, (struct sockaddr *)&at, &len));
	MUST(!pthread_create(&server, NULL, serve, NULL) && !pthread_attr_init(&attributes));
	if (!strcmp(how, "depth")) {
		unsigned char *stack = (unsigned char *)guarded(STACK_BYTES);
		size_t unused = 0;

		memset(stack, PAINT, STACK_BYTES);
		MUST(!pthread_attr_setstack(&attributes, stack, STACK_BYTES));
		in_thread(&attributes);
		while (unused < STACK_BYTES && stack[unused] == PAINT)
			unused++;
		printf("%zu\n", STACK_BYTES - unused);
	} else if (!strcmp(how, "thread")) {
		MUST(!pthread_attr_setstacksize(&attributes, THREAD_BYTES));
		in_thread(&attributes);
	} else {
		from_handlers();
	}
	return 0;
}
