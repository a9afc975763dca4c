/*
 * An application with many habits, for running under the library: `stress SCENARIO SECONDS SEED`. Every stream is checked byte by byte on
 * the other side; exit 0 and a line of counts, or an abort that says what was wrong. Knows nothing of qclimb.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(what) ((what) ? (void)0 : fail(#what, __LINE__))
#define FILE_BYTES (1 << 18)

static _Atomic uint64_t bytes_checked, connections;
static double end_s;
static int file_fd;

static void fail(const char *what, int line)
{
	fprintf(stderr, "stress:%d: not true: %s (errno %d: %s)\n", line, what, errno, strerror(errno));
	abort();
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The byte at a position of a stream; the file holds the same for positions modulo its size. */
static uint8_t byte_at(uint64_t position)
{
	position %= FILE_BYTES;
	return (uint8_t)(position * 131 + (position >> 8) * 29 + (position >> 16));
}

static void fill(uint8_t *bytes, size_t len, uint64_t position)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = byte_at(position + i);
}

static int listen_on(struct sockaddr_in6 *address)
{
	socklen_t len = sizeof(*address);
	const int family = address->sin6_family;
	const int fd = socket(family, SOCK_STREAM, 0);
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	MUST(fd >= 0);
	if (family == AF_INET) {
		MUST(!bind(fd, (struct sockaddr *)&v4, sizeof(v4)));
	} else {
		address->sin6_addr = in6addr_loopback;
		MUST(!bind(fd, (struct sockaddr *)address, sizeof(*address)));
	}
	MUST(!listen(fd, 64));
	MUST(!getsockname(fd, (struct sockaddr *)address, &len));
	return fd;
}

/* A connected pair over loopback. */
static void pair(unsigned int *seed, int *a, int *b)
{
	struct sockaddr_in6 address = { .sin6_family = rand_r(seed) % 2 ? AF_INET6 : AF_INET };
	const int listener = listen_on(&address);

	*a = socket(address.sin6_family, SOCK_STREAM, 0);
	MUST(*a >= 0);
	MUST(!connect(*a, (struct sockaddr *)&address,
		      address.sin6_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(address)));
	*b = rand_r(seed) % 2 ? accept(listener, NULL, NULL) : accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	MUST(*b >= 0);
	MUST(!close(listener));
	atomic_fetch_add(&connections, 1);
}

/* One write of up to `len` bytes of the stream at `position`, by a call that the seed picks: bytes written, 0 for EAGAIN. */
static size_t write_somehow(int fd, uint64_t position, size_t len, unsigned int *seed, int flags)
{
	uint8_t *bytes = malloc(len);
	struct iovec parts[100];
	struct mmsghdr messages[3] = { 0 };
	struct msghdr message = { .msg_iov = parts };
	const size_t count = 1 + (size_t)rand_r(seed) % 100;
	off_t offset = (off_t)(position % FILE_BYTES);
	ssize_t wrote = 0;

	fill(bytes, len, position);
	for (size_t i = 0, at = 0; i < count; i++) {
		const size_t part = i + 1 == count ? len - at : len / count;

		parts[i] = (struct iovec){ bytes + at, part };
		at += part;
	}
	message.msg_iovlen = count;
	switch (rand_r(seed) % 8) {
	case 0:
		wrote = send(fd, bytes, len, flags);
		break;
	case 1:
		wrote = flags ? send(fd, bytes, len, flags) : write(fd, bytes, len);
		break;
	case 2:
		wrote = flags ? sendmsg(fd, &message, flags) : writev(fd, parts, (int)count);
		break;
	case 3:
		wrote = sendmsg(fd, &message, flags);
		break;
	case 4:
		wrote = sendto(fd, bytes, len, flags, NULL, 0);
		break;
	case 5:
		for (size_t i = 0, at = 0; i < 3; i++) {
			parts[i] = (struct iovec){ bytes + at, i == 2 ? len - at : len / 3 };
			at += len / 3;
			messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
		}
		wrote = sendmmsg(fd, messages, 3, flags);
		if (wrote > 0) {
			const int done = (int)wrote;

			wrote = 0;
			for (int i = 0; i < done; i++)
				wrote += messages[i].msg_len;
		}
		break;
	case 6: {
		int ends[2];

		MUST(!pipe(ends)); /* what a short splice leaves in it goes with it */
		wrote = write(ends[1], bytes, len < 60000 ? len : 60000);
		MUST(wrote > 0);
		wrote = splice(ends[0], NULL, fd, NULL, len, 0);
		MUST(!close(ends[0]) && !close(ends[1]));
		break;
	}
	default:
		if (len > FILE_BYTES - (size_t)offset)
			len = FILE_BYTES - (size_t)offset;
		wrote = flags ? send(fd, bytes, len, flags) : sendfile(fd, file_fd, &offset, len);
		if (!flags && wrote > 0)
			MUST((size_t)offset == position % FILE_BYTES + (size_t)wrote);
	}
	free(bytes);
	if (wrote < 0) {
		MUST(errno == EAGAIN);
		return 0;
	}
	MUST(wrote > 0 && (size_t)wrote <= len);
	return (size_t)wrote;
}

struct side {
	int fd;
	uint64_t total;
	unsigned int seed;
	bool answers; /* reads turn by turn and answers a byte */
};

static void *reader(void *argument)
{
	struct side *side = argument;
	uint8_t bytes[65536];
	uint64_t position = 0;
	ssize_t got;

	for (;;) {
		const size_t room = 1 + (size_t)rand_r(&side->seed) % sizeof(bytes);
		struct iovec part = { bytes, room };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

		switch (rand_r(&side->seed) % 4) {
		case 0:
			got = recv(side->fd, bytes, room, 0);
			break;
		case 1:
			got = read(side->fd, bytes, room);
			break;
		case 2:
			got = recvmsg(side->fd, &message, 0);
			break;
		default:
			got = readv(side->fd, &part, 1);
		}
		MUST(got >= 0);
		if (!got)
			break;
		for (ssize_t i = 0; i < got; i++)
			MUST(bytes[i] == byte_at(position + (uint64_t)i));
		position += (uint64_t)got;
		atomic_fetch_add(&bytes_checked, (uint64_t)got);
		if (rand_r(&side->seed) % 8 == 0)
			(void)!send(side->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	MUST(position == side->total);
	MUST(!close(side->fd));
	return NULL;
}

/* One connection from its first byte to its last, with all that a program may do to a descriptor on the way. */
static void one_stream(unsigned int *seed)
{
	struct side other = { .seed = (unsigned int)rand_r(seed) };
	const uint64_t total = 1 + (uint64_t)rand_r(seed) % (rand_r(seed) % 4 ? 60000 : 1200000);
	const bool nonblocking = rand_r(seed) % 3 == 0;
	uint64_t position = 0;
	pthread_t thread;
	uint8_t bytes[512];
	int fd;

	pair(seed, &fd, &other.fd);
	other.total = total;
	MUST(!pthread_create(&thread, NULL, reader, &other));
	if (nonblocking)
		MUST(!fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	while (position < total) {
		const uint64_t left = total - position;
		size_t len = 1 + (size_t)rand_r(seed) % (rand_r(seed) % 2 ? 2000 : 150000);
		struct pollfd poll_fd = { fd, POLLOUT, 0 };
		size_t wrote;
		int moved;

		if (len > left)
			len = (size_t)left;
		wrote = write_somehow(fd, position, len, seed, rand_r(seed) % 10 ? 0 : MSG_DONTWAIT);
		position += wrote;
		if (!wrote)
			MUST(poll(&poll_fd, 1, 20000) == 1); /* an EAGAIN that no event ends */
		switch (rand_r(seed) % 40) {
		case 0:
			moved = dup(fd);
			MUST(moved >= 0 && !close(fd));
			fd = moved;
			break;
		case 1:
			moved = fcntl(fd, F_DUPFD_CLOEXEC, 50);
			MUST(moved >= 50 && dup2(moved, fd) == fd && !close(moved));
			break;
		case 2:
			while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
				;
			break;
		case 3:
			usleep((useconds_t)rand_r(seed) % 3000);
			break;
		case 4:
			moved = open("/dev/null", O_WRONLY);
			MUST(moved >= 0 && write(moved, bytes, 100) == 100 && !close(moved));
			break;
		case 5:
			MUST(!setsockopt(fd, IPPROTO_IP, IP_TOS, &(int){ 0x20 }, sizeof(int)));
			break;
		default:
			break;
		}
	}
	MUST(!shutdown(fd, SHUT_WR));
	pthread_join(thread, NULL);
	MUST(!close(fd));
}

static void *streams(void *argument)
{
	unsigned int seed = *(unsigned int *)argument;

	while (now_s() < end_s)
		one_stream(&seed);
	return NULL;
}

static void run_threads(int count, void *(*body)(void *), unsigned int seed)
{
	pthread_t thread[64];
	unsigned int seeds[64];

	for (int i = 0; i < count; i++) {
		seeds[i] = seed + (unsigned int)i * 7919;
		MUST(!pthread_create(&thread[i], NULL, body, &seeds[i]));
	}
	for (int i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
}

/* A child writes on from where its parent stopped, on the shared socket, and the parent after it. */
static void fork_scenario(unsigned int seed)
{
	while (now_s() < end_s) {
		struct side other = { .seed = seed, .total = 300000 };
		volatile uint64_t position = 0;
		pthread_t thread;
		int fd, status;
		pid_t child;

		pair(&seed, &fd, &other.fd);
		MUST(!pthread_create(&thread, NULL, reader, &other));
		while (position < 100000)
			position += write_somehow(fd, position, 1 + rand_r(&seed) % (100000 - position), &seed, 0);
		child = fork();
		MUST(child >= 0);
		if (!child) {
			close(other.fd);
			while (position < 200000)
				position +=
					write_somehow(fd, position, 1 + rand_r(&seed) % (200000 - position), &seed, 0);
			close(fd);
			exit(0);
		}
		MUST(waitpid(child, &status, 0) == child && status == 0);
		position = 200000;
		child = vfork();
		if (!child) {
			close(fd); /* its own descriptor, in memory that is the parent's */
			_exit(0);
		}
		MUST(waitpid(child, &status, 0) == child && status == 0);
		while (position < 300000)
			position += write_somehow(fd, position, 1 + rand_r(&seed) % (300000 - position), &seed, 0);
		MUST(!shutdown(fd, SHUT_WR)); /* closing with answers unread would reset */
		pthread_join(thread, NULL);
		MUST(!close(fd));
	}
}

/* Eight writers on one socket, a message a call; the buffer holds all of them, so that libc alone would never tear one. */
#define MESSAGE_BYTES 400
#define MESSAGES 250
static int shared_fd;

static void *shared_writer(void *argument)
{
	uint8_t message[MESSAGE_BYTES];
	unsigned int seed = *(unsigned int *)argument;

	memset(message, (int)(seed >> 3), sizeof(message));
	message[0] = 0xa5;
	for (int i = 0; i < MESSAGES; i++) {
		MUST(send(shared_fd, message, sizeof(message), 0) == sizeof(message));
		if (rand_r(&seed) % 16 == 0)
			usleep((useconds_t)rand_r(&seed) % 400);
	}
	return NULL;
}

static void *shared_reader(void *argument)
{
	const int fd = *(int *)argument;
	uint8_t message[MESSAGE_BYTES];

	for (int i = 0; i < 8 * MESSAGES; i++) {
		MUST(recv(fd, message, sizeof(message), MSG_WAITALL) == sizeof(message));
		MUST(message[0] == 0xa5);
		for (int k = 2; k < MESSAGE_BYTES; k++)
			MUST(message[k] == message[1]);
	}
	atomic_fetch_add(&bytes_checked, 8 * MESSAGES * MESSAGE_BYTES);
	return NULL;
}

static void shared_scenario(unsigned int seed)
{
	while (now_s() < end_s) {
		pthread_t thread;
		int other;

		pair(&seed, &shared_fd, &other);
		MUST(!setsockopt(shared_fd, SOL_SOCKET, SO_SNDBUF, &(int){ 1 << 21 }, sizeof(int)));
		MUST(!pthread_create(&thread, NULL, shared_reader, &other));
		run_threads(8, shared_writer, seed++);
		pthread_join(thread, NULL);
		MUST(!close(shared_fd) && !close(other));
	}
}

static void on_signal(int signal)
{
	(void)signal;
}

/* Timers that interrupt blocking writes: with SA_RESTART no call may say EINTR, without it short counts are right. */
static void signal_scenario(unsigned int seed, bool restarts)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = restarts ? SA_RESTART : 0 };
	struct itimerval timer = { { 0, 700 }, { 0, 700 } };

	MUST(!sigaction(SIGALRM, &action, NULL));
	while (now_s() < end_s) {
		struct side other = { .seed = seed, .total = 500000 };
		uint8_t bytes[50000];
		uint64_t position = 0;
		sigset_t set;
		pthread_t thread;
		int fd;

		pair(&seed, &fd, &other.fd);
		sigemptyset(&set);
		sigaddset(&set, SIGALRM);
		MUST(!pthread_sigmask(SIG_BLOCK, &set, NULL));
		MUST(!pthread_create(&thread, NULL, reader, &other));
		MUST(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
		MUST(!setitimer(ITIMER_REAL, &timer, NULL));
		while (position < other.total) {
			const size_t len =
				other.total - position < sizeof(bytes) ? other.total - position : sizeof(bytes);
			ssize_t wrote;

			fill(bytes, len, position);
			wrote = send(fd, bytes, len, 0);
			if (wrote < 0)
				MUST(errno == EINTR && !restarts);
			else
				position += (uint64_t)wrote;
		}
		MUST(!setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL));
		MUST(!shutdown(fd, SHUT_WR)); /* closing with answers unread would reset */
		pthread_join(thread, NULL);
		MUST(!close(fd));
	}
}

/* Both sides write before they read: what fits libc's buffers must not wait for ever. */
static void both_write_scenario(unsigned int seed)
{
	static uint8_t bytes[180000];
	int a, b;

	pair(&seed, &a, &b);
	MUST(!setsockopt(a, SOL_SOCKET, SO_SNDBUF, &(int){ 1 << 20 }, sizeof(int)));
	for (int i = 0; i < 3; i++)
		MUST(send(a, bytes, sizeof(bytes) / 3, 0) == sizeof(bytes) / 3);
	for (size_t got = 0; got < sizeof(bytes);)
		got += (size_t)recv(b, bytes, sizeof(bytes), 0);
	close(a);
	close(b);
}

/* An application that closes every descriptor that it does not know, and reuses the numbers. */
static void close_all_scenario(unsigned int seed)
{
	while (now_s() < end_s) {
		char path[] = "/tmp/qclimb-stressXXXXXX";
		struct stat state;
		int mine;

		one_stream(&seed);
		for (int fd = file_fd + 1; fd < 1100; fd++)
			close(fd);
		mine = mkstemp(path);
		for (int fd = 990; fd < 1020; fd++)
			dup2(mine, fd); /* numbers that somebody might hold to be his */
		one_stream(&seed);
		MUST(!fstat(mine, &state) && state.st_size == 0);
		unlink(path);
		for (int fd = 990; fd < 1020; fd++)
			close(fd);
		close(mine);
	}
}

/* A peer that resets: the write after the failure says what libc would have said. */
static void reset_scenario(unsigned int seed)
{
	static uint8_t bytes[400000];
	struct linger hard = { 1, 0 };

	while (now_s() < end_s) {
		ssize_t wrote = 1;
		int a, b, writes = 0;

		pair(&seed, &a, &b);
		MUST(!setsockopt(b, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)));
		MUST(send(a, bytes, 20000, 0) == 20000);
		MUST(!close(b));
		while (wrote > 0 && writes++ < 100)
			wrote = send(a, bytes, sizeof(bytes), MSG_NOSIGNAL);
		MUST(wrote < 0 && (errno == ECONNRESET || errno == EPIPE));
		MUST(send(a, bytes, 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
		MUST(!close(a));
		atomic_fetch_add(&bytes_checked, 1);
	}
}

int main(int count, char **argument)
{
	unsigned int seed;
	char path[] = "/tmp/qclimb-stressXXXXXX";
	uint8_t *bytes = malloc(FILE_BYTES);

	MUST(count == 4);
	end_s = now_s() + atof(argument[2]);
	seed = (unsigned int)atoi(argument[3]);
	file_fd = mkstemp(path);
	unlink(path);
	fill(bytes, FILE_BYTES, 0);
	MUST(write(file_fd, bytes, FILE_BYTES) == FILE_BYTES);
	free(bytes);
	if (!strcmp(argument[1], "streams"))
		run_threads(8, streams, seed);
	else if (!strcmp(argument[1], "fork"))
		fork_scenario(seed);
	else if (!strcmp(argument[1], "shared"))
		shared_scenario(seed);
	else if (!strcmp(argument[1], "signals"))
		signal_scenario(seed, false);
	else if (!strcmp(argument[1], "signals-restart"))
		signal_scenario(seed, true);
	else if (!strcmp(argument[1], "both-write"))
		both_write_scenario(seed);
	else if (!strcmp(argument[1], "close-all"))
		close_all_scenario(seed);
	else if (!strcmp(argument[1], "reset"))
		reset_scenario(seed);
	else
		MUST(!"known scenario");
	printf("%llu bytes on %llu connections\n", (unsigned long long)bytes_checked, (unsigned long long)connections);
	return 0;
}
