/* Ways to read a byte: the write after it begins a flow. */
#include "ways.h"

#include <sys/uio.h>

static int pipe_fds[2];

static void read_by(int fd, const char *way)
{
	uint8_t known[4];
	uint8_t *volatile unknown = known; /* nobody knows how large it is: the plain calls */
	volatile size_t len = 1;
	struct iovec part = { known, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct mmsghdr messages[1] = { { .msg_hdr = message } };
	ssize_t got;

	if (is(way, "recv"))
		got = recv(fd, unknown, len, 0);
	else if (is(way, "recvfrom"))
		got = recvfrom(fd, unknown, len, 0, NULL, NULL);
	else if (is(way, "read"))
		got = read(fd, unknown, len);
	else if (is(way, "__recv_chk"))
		got = recv(fd, known, len, 0);
	else if (is(way, "__recvfrom_chk"))
		got = recvfrom(fd, known, len, 0, NULL, NULL);
	else if (is(way, "__read_chk"))
		got = read(fd, known, len);
	else if (is(way, "readv"))
		got = readv(fd, &part, 1);
	else if (is(way, "recvmsg"))
		got = recvmsg(fd, &message, 0);
	else if (is(way, "recvmmsg"))
		got = recvmmsg(fd, messages, 1, 0, NULL);
	else if (is(way, "peek"))
		got = recv(fd, unknown, len, MSG_PEEK);
	else {
		MUST(is(way, "splice"));
		got = splice(fd, NULL, pipe_fds[1], NULL, 1, 0);
		MUST(read(pipe_fds[0], known, 1) == 1);
	}
	MUST(got == 1 && known[0] == '.');
}

void read_way(const char *way)
{
	const int fd = connected(0);

	MUST(!pipe(pipe_fds));
	send_all(fd, 0, 3000);
	read_by(fd, way);
	send_all(fd, 3000, 5000);
	end(fd);
}
