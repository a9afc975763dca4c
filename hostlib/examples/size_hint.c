/*
 * A sender that makes its message in small pieces, and so must say how large it will be: nobody could tell from its
 * writes. Runs with and without the library:
 *
 *     cc -I hostlib/include -o size_hint hostlib/examples/size_hint.c
 *     LD_PRELOAD=hostlib/build/libqclimb.so QCLIMB_MODE=qclimb QCLIMB_LOG=stderr ./size_hint 192.0.2.1 5000 1000000
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <qclimb.h>

#define PIECE_BYTES 1000

static int connected(const char *address, const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1 ||
	    connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		return -1;
	return fd;
}

static int send_message(int fd, uint64_t size_bytes)
{
	char piece[PIECE_BYTES];

	memset(piece, 'q', sizeof(piece));
	for (uint64_t sent_bytes = 0; sent_bytes < size_bytes;) {
		const uint64_t left = size_bytes - sent_bytes;
		const ssize_t wrote = write(fd, piece, left < PIECE_BYTES ? (size_t)left : PIECE_BYTES);

		if (wrote < 0)
			return -1;
		sent_bytes += (uint64_t)wrote;
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t size_bytes;
	int fd, taken;

	if (argc != 4) {
		fprintf(stderr, "usage: %s IPV4-ADDRESS PORT BYTES\n", argv[0]);
		return 2;
	}
	size_bytes = strtoull(argv[3], NULL, 10);
	fd = connected(argv[1], argv[2]);
	if (fd < 0) {
		perror("connect");
		return 1;
	}
	taken = qclimb_flow_size(fd, size_bytes);
	if (send_message(fd, size_bytes)) {
		perror("write");
		return 1;
	}
	printf("%s\n", taken ? "hinted" : "unhinted");
	return close(fd) ? 1 : 0;
}
