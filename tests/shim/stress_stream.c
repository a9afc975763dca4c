/*
 * Streams that are checked byte by byte: how they are written, read, and what else a program does to a descriptor on
 * the way.
 */
#include "stress.h"

#include <poll.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <time.h>

_Atomic uint64_t bytes_checked, connections;
double end_s;
bool may_interrupt;
int file_fd;

void fail(const char *file, const char *what, int line)
{
	fprintf(stderr, "%s:%d: not true: %s (errno %d: %s)\n", file, line, what, errno, strerror(errno));
	abort();
}

double now_s(void)
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

void fill(uint8_t *bytes, size_t len, uint64_t position)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = byte_at(position + i);
}

int listen_on(struct sockaddr_in6 *address)
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
void pair(unsigned int *seed, int *a, int *b)
{
	struct sockaddr_in6 address = { .sin6_family = rand_r(seed) % 2 ? AF_INET6 : AF_INET };
	const int listener = listen_on(&address);

	*a = socket(address.sin6_family, SOCK_STREAM, 0);
	MUST(*a >= 0);
	while (connect(*a, (struct sockaddr *)&address,
		       address.sin6_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(address)))
		MUST(may_interrupt && errno == EINTR);
	do
		*b = rand_r(seed) % 2 ? accept(listener, NULL, NULL) : accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	while (*b < 0 && may_interrupt && errno == EINTR);
	MUST(*b >= 0);
	MUST(!close(listener));
	atomic_fetch_add(&connections, 1);
}

/*
 * One write of up to `len` bytes of the stream at `position`, by a call that the seed picks: bytes written, 0 for
 * EAGAIN.
 */
size_t write_somehow(int fd, uint64_t position, size_t len, unsigned int *seed, int flags)
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
		MUST(errno == EAGAIN || (may_interrupt && errno == EINTR));
		return 0;
	}
	MUST(wrote > 0 && (size_t)wrote <= len);
	return (size_t)wrote;
}

/*
 * Reads by one way and another to the end, and checks each byte. Takes nothing from the heap: a child forked beside
 * this would find the lock of a heap that knows of no fork (libasan's of gcc 12) held for ever.
 */
static void check(int fd, uint64_t total, unsigned int *seed, bool answers)
{
	uint8_t bytes[1 << 16];
	uint64_t position = 0;
	ssize_t got;

	for (;;) {
		const size_t room = 1 + (size_t)rand_r(seed) % sizeof(bytes);
		struct iovec part = { bytes, room };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

		switch (rand_r(seed) % 4) {
		case 0:
			got = recv(fd, bytes, room, 0);
			break;
		case 1:
			got = read(fd, bytes, room);
			break;
		case 2:
			got = recvmsg(fd, &message, 0);
			break;
		default:
			got = readv(fd, &part, 1);
		}
		if (got < 0 && may_interrupt && errno == EINTR)
			continue;
		MUST(got >= 0);
		if (!got)
			break;
		for (ssize_t i = 0; i < got; i++)
			MUST(bytes[i] == byte_at(position + (uint64_t)i));
		position += (uint64_t)got;
		atomic_fetch_add(&bytes_checked, (uint64_t)got);
		if (answers && rand_r(seed) % 8 == 0)
			(void)!send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	MUST(position == total);
}

void check_stream(int fd, uint64_t total, unsigned int *seed)
{
	check(fd, total, seed, false);
}

void *reader(void *argument)
{
	struct side *side = argument;

	check(side->fd, side->total, &side->seed, true);
	MUST(!close(side->fd));
	return NULL;
}

/* One connection from its first byte to its last, with all that a program may do to a descriptor on the way. */
void one_stream(unsigned int *seed)
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
			MUST(poll(&poll_fd, 1, 20000) == 1 || errno == EINTR); /* an EAGAIN that no event ends */
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

void *streams(void *argument)
{
	unsigned int seed = *(unsigned int *)argument;

	while (now_s() < end_s)
		one_stream(&seed);
	return NULL;
}

void run_threads(int count, void *(*body)(void *), unsigned int seed)
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

void streams_scenario(unsigned int seed)
{
	run_threads(8, streams, seed);
}
