/* send ADDRESS PORT SIZE CHUNK FLOWS: each flow a length line and bytes, SIZE in all, in writes of CHUNK; then a byte
 * is awaited. What tests/shim/talk.py's sink understands. With -DBY_IO_URING no write is a system call of its own. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef BY_IO_URING
#include <linux/io_uring.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static ssize_t give(int fd, const void *data, size_t len)
{
	static struct io_uring_params params;
	static struct io_uring_sqe *entries;
	static uint8_t *ring;
	static long ring_fd;
	const uint32_t *head;
	uint32_t tail;
	ssize_t done;

	if (!ring_fd) {
		ring_fd = syscall(SYS_io_uring_setup, 4, &params);
		if (ring_fd < 0)
			exit(3);
		ring = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, (int)ring_fd, IORING_OFF_SQ_RING);
		entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, (int)ring_fd, IORING_OFF_SQES);
		if (ring == MAP_FAILED || entries == MAP_FAILED)
			exit(3);
	}
	tail = *(uint32_t *)(ring + params.sq_off.tail);
	entries[tail & 3] = (struct io_uring_sqe){ .opcode = IORING_OP_SEND, .fd = fd, .len = (uint32_t)len };
	entries[tail & 3].addr = (uintptr_t)data;
	((uint32_t *)(ring + params.sq_off.array))[tail & 3] = tail & 3;
	__atomic_store_n((uint32_t *)(ring + params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring_fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return -1;
	head = (uint32_t *)(ring + params.cq_off.head);
	done = ((struct io_uring_cqe *)(ring + params.cq_off.cqes))[*head & (params.cq_entries - 1)].res;
	__atomic_store_n((uint32_t *)(ring + params.cq_off.head), *head + 1, __ATOMIC_RELEASE);
	return done;
}
#else
#define give write
#endif

int main(int argc, char **argv)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	const int is_v6 = argc == 6 && strchr(argv[1], ':') != NULL;
	const size_t size = argc == 6 ? strtoul(argv[3], NULL, 10) : 0;
	const size_t chunk = argc == 6 ? strtoul(argv[4], NULL, 10) : 0;
	const int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
	char *data = calloc(1, size + 32), line[32], answer;
	int length = 0;

	if (argc != 6 || fd < 0 || !data || !chunk)
		return 2;
	v4.sin_port = v6.sin6_port = htons((unsigned short)atoi(argv[2]));
	inet_pton(is_v6 ? AF_INET6 : AF_INET, argv[1], is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr);
	if (connect(fd, is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4, is_v6 ? sizeof(v6) : sizeof(v4)))
		return 1;
	for (int i = 0; i < 3; i++) /* the line's own length is part of the size */
		length = snprintf(line, sizeof(line), "%zu\n", size - (size_t)length);
	memcpy(data, line, (size_t)length);
	for (int flow = atoi(argv[5]); flow > 0; flow--) {
		for (size_t at = 0; at < size;) {
			const ssize_t done = give(fd, data + at, size - at < chunk ? size - at : chunk);

			if (done < 0)
				return 1;
			at += (size_t)done;
		}
		if (read(fd, &answer, 1) != 1)
			return 1;
	}
	return 0;
}
