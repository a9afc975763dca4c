/* Threads that begin to write on a fresh connection at one moment and always are in a write; argument: connections. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MUST(what) ((what) ? (void)0 : (perror(#what), exit(1)))
#define THREADS 4
#define WRITES 3
#define WRITE_BYTES 200000

static const char bytes[WRITE_BYTES];
static atomic_int waiting;
static int writer_fd;

static void *write_all(void *unused)
{
	atomic_fetch_sub(&waiting, 1);
	while (atomic_load(&waiting))
		;
	for (int i = 0; i < WRITES; i++)
		MUST(send(writer_fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
	return unused;
}

static void *read_all(void *fd)
{
	static char got[1 << 18];

	while (read(*(int *)fd, got, sizeof(got)) > 0)
		;
	close(*(int *)fd);
	return NULL;
}

static void one_connection(int listener, const struct sockaddr_in *address)
{
	pthread_t reader, writers[THREADS];
	int reader_fd;

	MUST((writer_fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	MUST(!connect(writer_fd, (const struct sockaddr *)address, sizeof(*address)));
	MUST((reader_fd = accept(listener, NULL, NULL)) >= 0);
	MUST(!pthread_create(&reader, NULL, read_all, &reader_fd));
	atomic_store(&waiting, THREADS);
	for (int i = 0; i < THREADS; i++)
		MUST(!pthread_create(&writers[i], NULL, write_all, NULL));
	for (int i = 0; i < THREADS; i++)
		pthread_join(writers[i], NULL);
	close(writer_fd);
	pthread_join(reader, NULL);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int listener;

	MUST(argc == 2);
	MUST((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
	MUST(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 8));
	MUST(!getsockname(listener, (struct sockaddr *)&address, &len));
	for (int left = atoi(argv[1]); left; left--)
		one_connection(listener, &address);
	return 0;
}
