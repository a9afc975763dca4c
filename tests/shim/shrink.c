/*
 * A window that was the kernel's shrinks to the smallest while its peer has more to send; argument: by what `way`. Tells
 * what window.c waits for before it takes the buffer away, and what was let in and has not been read by then.
 */
#include "base/shim.h"

#include "optax/window.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#undef syscall
long (*qclimb_syscall)(long number, ...) = syscall;

#define MUST(what) ((what) ? (void)0 : (perror(#what), exit(1)))
#define RCV_WND 58 /* words of 32 bits before tcpi_rcv_wnd, which the headers may not have */
#define READ_BYTES 2000000

static char bytes[1 << 16];

static void send_all(int listener)
{
	const int peer = accept(listener, NULL, NULL);

	while (write(peer, bytes, sizeof(bytes)) > 0)
		;
	_exit(0);
}

static unsigned int let_in(int fd)
{
	uint32_t info[RCV_WND + 1] = { 0 };
	socklen_t len = sizeof(info);
	int waiting;

	MUST(!getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) && !ioctl(fd, SIOCINQ, &waiting));
	return info[RCV_WND] + (unsigned int)waiting;
}

int main(int count, char **words)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct received flow = { 0 };
	socklen_t len = sizeof(address);
	int listener, fd;
	pid_t child;

	MUST(count == 2 && (listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	MUST(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 1));
	MUST(!getsockname(listener, (struct sockaddr *)&address, &len));
	child = fork();
	MUST(child >= 0);
	if (!child)
		send_all(listener);
	MUST((fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && window_begin(&flow, fd, true));
	MUST(!connect(fd, (struct sockaddr *)&address, sizeof(address)));
	window_kernels(&flow, fd);
	for (ssize_t got = 0, n = 1; got < READ_BYTES; got += n)
		MUST((n = read(fd, bytes, sizeof(bytes))) > 0);
	for (unsigned int same = 0, last = 0, now; same < 5; last = now) { /* the window fills */
		usleep(20000);
		now = let_in(fd);
		same = now == last ? same + 1 : 0;
	}
	if (!strcmp(words[1], "head"))
		window_heads(&flow, fd, 10);
	window_least(&flow, fd);
	printf("%llu %u\n", (unsigned long long)flow.offered, let_in(fd));
	close(fd);
	waitpid(child, NULL, 0);
	return 0;
}
