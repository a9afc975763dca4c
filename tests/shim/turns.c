/* TURNS times 64 bytes there and back over a loopback connection of this process: a flow each way, a turn. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);
	char bytes[64] = { 0 };
	int other;

	if (count != 2 || bind(listener, (struct sockaddr *)&at, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &len) || connect(one, (struct sockaddr *)&at, len) ||
	    (other = accept(listener, NULL, NULL)) < 0)
		return 1;
	for (int turn = 0; turn < atoi(words[1]); turn++)
		if (send(one, bytes, sizeof(bytes), 0) != sizeof(bytes) ||
		    recv(other, bytes, sizeof(bytes), MSG_WAITALL) != sizeof(bytes) ||
		    send(other, bytes, sizeof(bytes), 0) != sizeof(bytes) ||
		    recv(one, bytes, sizeof(bytes), MSG_WAITALL) != sizeof(bytes))
			return 2;
	return close(one) | close(other) | close(listener);
}
