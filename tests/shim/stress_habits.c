/*
 * Habits of processes: forks, many writers on one socket, both sides writing first, closing what is not theirs, peers
 * that reset.
 */
#include "stress.h"

#include <sys/stat.h>
#include <sys/wait.h>

/* A child writes on from where its parent stopped, on the shared socket, and the parent after it. */
void fork_scenario(unsigned int seed)
{
	while (now_s() < end_s) {
		struct side other = { .seed = seed, .total = 300000 };
		const uint64_t checked_before = bytes_checked;
		volatile uint64_t position = 0;
		pthread_t thread;
		int fd, status;
		pid_t child;

		pair(&seed, &fd, &other.fd);
		MUST(!pthread_create(&thread, NULL, reader, &other));
		while (position < 100000)
			position += write_somehow(fd, position, 1 + rand_r(&seed) % (100000 - position), &seed, 0);
		while (bytes_checked == checked_before) /* a thread that begins takes from the heap */
			sched_yield();
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

/* Children that talk on connections of their own, out of a process whose threads are in the middle of calls. */
void fork_threads_scenario(unsigned int seed)
{
	pthread_t threads[3];
	unsigned int seeds[3];
	int status;

	for (int i = 0; i < 3; i++) {
		seeds[i] = seed + (unsigned int)i;
		MUST(!pthread_create(&threads[i], NULL, streams, &seeds[i]));
	}
	while (now_s() < end_s) {
		const pid_t child = fork();

		MUST(child >= 0);
		if (!child) {
			unsigned int own = seed ^ 77;

			end_s = now_s() + 0.02;
			streams(&own);
			exit(0); /* the library's last word, too */
		}
		MUST(waitpid(child, &status, 0) == child && status == 0);
		seed++;
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

int go_on(int fd, uint64_t position, uint64_t total)
{
	unsigned int seed = (unsigned int)position;

	while (position < total)
		position += write_somehow(fd, position, 1 + rand_r(&seed) % (total - position), &seed, 0);
	MUST(!shutdown(fd, SHUT_WR));
	return 0;
}

/* To itself, for ever. */
static void *talk_alone(void *argument)
{
	unsigned int seed = *(unsigned int *)argument;
	uint8_t bytes[3000] = { 0 };
	int a, b;

	pair(&seed, &a, &b);
	for (;;) {
		MUST(send(a, bytes, sizeof(bytes), 0) == sizeof(bytes));
		MUST(recv(b, bytes, sizeof(bytes), MSG_WAITALL) == sizeof(bytes));
		MUST(send(b, bytes, 1, 0) == 1 && recv(a, bytes, 1, 0) == 1);
	}
	return NULL;
}

/*
 * A process becomes another program in the middle of a stream, while its other threads are in calls; that one goes on.
 */
void exec_scenario(unsigned int seed)
{
	while (now_s() < end_s) {
		struct side other = { .seed = seed, .total = 400000 };
		int fd, status;
		pid_t child;

		pair(&seed, &fd, &other.fd);
		child = fork();
		MUST(child >= 0);
		if (!child) {
			char words[3][32];
			uint64_t position = 0;
			pthread_t thread;

			MUST(!close(other.fd) && !pthread_create(&thread, NULL, talk_alone, &other.seed));
			while (position < 100000)
				position +=
					write_somehow(fd, position, 1 + rand_r(&seed) % (200000 - position), &seed, 0);
			snprintf(words[0], sizeof(words[0]), "%d", fd);
			snprintf(words[1], sizeof(words[1]), "%llu", (unsigned long long)position);
			snprintf(words[2], sizeof(words[2]), "%llu", (unsigned long long)other.total);
			execl("/proc/self/exe", "stress", "go-on", words[0], words[1], words[2], (char *)NULL);
			MUST(!"executed");
		}
		MUST(!close(fd));
		check_stream(other.fd, other.total, &seed);
		MUST(!close(other.fd) && waitpid(child, &status, 0) == child && status == 0);
	}
}

/*
 * Eight writers on one socket, a message a call; the buffer holds all of them (as many as net.core.wmem_max allows), so
 * that libc alone would never tear one, however late the reader comes.
 */
#define MESSAGE_BYTES 400
#define MESSAGES 250 /* of each writer, at most */
static int shared_fd, shared_messages;

static void *shared_writer(void *argument)
{
	uint8_t message[MESSAGE_BYTES];
	unsigned int seed = *(unsigned int *)argument;

	memset(message, (int)(seed >> 3), sizeof(message));
	message[0] = 0xa5;
	for (int i = 0; i < shared_messages; i++) {
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

	for (int i = 0; i < 8 * shared_messages; i++) {
		MUST(recv(fd, message, sizeof(message), MSG_WAITALL) == sizeof(message));
		MUST(message[0] == 0xa5);
		for (int k = 2; k < MESSAGE_BYTES; k++)
			MUST(message[k] == message[1]);
	}
	atomic_fetch_add(&bytes_checked, 8 * (uint64_t)shared_messages * MESSAGE_BYTES);
	return NULL;
}

void shared_scenario(unsigned int seed)
{
	while (now_s() < end_s) {
		pthread_t thread;
		int other, room;

		pair(&seed, &shared_fd, &other);
		MUST(!setsockopt(shared_fd, SOL_SOCKET, SO_SNDBUF, &(int){ 1 << 21 }, sizeof(int)));
		/* A message that is sent at once in a segment of its own takes some 900 bytes more than it carries. */
		MUST(!getsockopt(shared_fd, SOL_SOCKET, SO_SNDBUF, &room, &(socklen_t){ sizeof(room) }));
		shared_messages = room / (8 * (MESSAGE_BYTES + 900));
		if (shared_messages > MESSAGES)
			shared_messages = MESSAGES;
		MUST(!pthread_create(&thread, NULL, shared_reader, &other));
		run_threads(8, shared_writer, seed++);
		pthread_join(thread, NULL);
		MUST(!close(shared_fd) && !close(other));
	}
}

/* Both sides write before they read: what fits libc's buffers must not wait for ever. */
void both_write_scenario(unsigned int seed)
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
void close_all_scenario(unsigned int seed)
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
void reset_scenario(unsigned int seed)
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
