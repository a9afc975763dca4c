/* Signals in the middle of calls: calls go on, are jumped out of, or end with their thread. */
#include "stress.h"

#include <dirent.h>
#include <linux/sockios.h>
#include <setjmp.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

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
	/* As Java and sanitizers have one: a fault interrupts no call, so that it says nothing of how calls go on. */
	MUST(!sigaction(SIGSEGV, &(struct sigaction){ .sa_handler = on_signal }, NULL));
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

void signals_scenario(unsigned int seed)
{
	signal_scenario(seed, false);
}

void signals_restart_scenario(unsigned int seed)
{
	signal_scenario(seed, true);
}

/* --- each thread, in whatever call it is, every 30 us or so */

static atomic_bool is_stormy;

static void *storm(void *unused)
{
	const pid_t me = (pid_t)syscall(SYS_gettid);
	sigset_t all;

	(void)unused;
	sigfillset(&all);
	MUST(!pthread_sigmask(SIG_BLOCK, &all, NULL));
	while (atomic_load(&is_stormy)) {
		DIR *tasks = opendir("/proc/self/task");
		struct dirent *task;

		MUST(tasks);
		while ((task = readdir(tasks))) {
			const pid_t thread = (pid_t)atoi(task->d_name);

			if (thread > 0 && thread != me)
				(void)syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
			usleep(30);
		}
		MUST(!closedir(tasks));
	}
	return NULL;
}

static void storm_over_streams(unsigned int seed, bool restarts)
{
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = restarts ? SA_RESTART : 0 };
	pthread_t thread;

	MUST(!sigaction(SIGUSR1, &action, NULL));
	may_interrupt = !restarts;
	atomic_store(&is_stormy, true);
	MUST(!pthread_create(&thread, NULL, storm, NULL));
	run_threads(3, streams, seed);
	atomic_store(&is_stormy, false);
	pthread_join(thread, NULL);
}

void storm_scenario(unsigned int seed)
{
	storm_over_streams(seed, false);
}

void storm_restart_scenario(unsigned int seed)
{
	storm_over_streams(seed, true);
}

/* --- a handler that writes on the socket of the call that it interrupts: of a call, no byte comes after its */

#define MESSAGE_BYTES 200000
#define MARK_BYTES 16

static int marked_fd;
static volatile int marks;

static void on_mark(int signal)
{
	uint8_t mark[MARK_BYTES];

	(void)signal;
	memset(mark, 255, sizeof(mark));
	MUST(send(marked_fd, mark, sizeof(mark), 0) == sizeof(mark));
	marks++;
}

struct marked {
	int fd;
	atomic_bool may_read;
	int count;
	uint64_t at[100000]; /* bytes of the messages before each mark */
};

/* Messages are zeros, marks are not. */
static void *read_marks(void *argument)
{
	struct marked *self = argument;
	uint8_t bytes[16384];
	uint64_t of_messages = 0, of_marks = 0;
	ssize_t got;

	while (!atomic_load(&self->may_read))
		usleep(100);
	while ((got = recv(self->fd, bytes, sizeof(bytes), 0)) > 0) {
		for (ssize_t i = 0; i < got; i++) {
			if (!bytes[i]) {
				MUST(of_marks % MARK_BYTES == 0);
				of_messages++;
			} else if (of_marks++ % MARK_BYTES == 0) {
				MUST(self->count < 100000);
				self->at[self->count++] = of_messages;
			}
		}
		atomic_fetch_add(&bytes_checked, (uint64_t)got);
	}
	MUST(!got);
	return NULL;
}

static ssize_t write_zeros(int fd, int zeros_fd, size_t len, unsigned int *seed)
{
	static uint8_t zeros[MESSAGE_BYTES];
	struct iovec parts[2] = { { zeros, len / 3 }, { zeros, len - len / 3 } };
	struct mmsghdr messages[2]
		__attribute__((unused)) = { { .msg_hdr = { .msg_iov = parts, .msg_iovlen = 1 } },
					    { .msg_hdr = { .msg_iov = parts + 1, .msg_iovlen = 1 } } };
	off_t from = 0;

	switch (rand_r(seed) % 5) {
	case 0:
		return write(fd, zeros, len);
	case 1:
		return writev(fd, parts, 2);
	case 2:
		return sendfile(fd, zeros_fd, &from, len);
#ifdef __GLIBC__ /* musl's own is a loop of sendmsg */
	case 3:
		messages[0].msg_len = messages[1].msg_len = 0;
		if (sendmmsg(fd, messages, 2, 0) < 0)
			return -1;
		return messages[0].msg_len + messages[1].msg_len;
#endif
	default:
		return send(fd, zeros, len, 0);
	}
}

void handler_writes_scenario(unsigned int seed)
{
	struct sigaction action = { .sa_handler = on_mark };
	char path[] = "/tmp/qclimb-stressXXXXXX";
	const int zeros_fd = mkstemp(path);
	struct marked *other = malloc(sizeof(*other));
	uint64_t position, *ends = malloc(sizeof(*ends) * 100000);
	sigset_t set;
	pthread_t thread;

	MUST(!unlink(path) && !ftruncate(zeros_fd, MESSAGE_BYTES));
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	do {
		int calls = 0, call = 0;

		other->count = marks = 0;
		atomic_store(&other->may_read, false);
		position = 0;
		action.sa_flags = rand_r(&seed) % 2 ? SA_RESTART : 0;
		MUST(!sigaction(SIGALRM, &action, NULL));
		pair(&seed, &marked_fd, &other->fd);
		MUST(!pthread_sigmask(SIG_BLOCK, &set, NULL));
		MUST(!pthread_create(&thread, NULL, read_marks, other));
		MUST(!pthread_sigmask(SIG_UNBLOCK, &set, NULL));
		MUST(!setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 700 }, { 0, 700 } }, NULL));
		while (position < 10 * MESSAGE_BYTES) {
			const size_t len = calls ? 1 + (size_t)rand_r(&seed) % MESSAGE_BYTES : 60000;
			const ssize_t wrote = write_zeros(marked_fd, zeros_fd, len, &seed);

			atomic_store(&other->may_read, true); /* the first call has its room, and no reader */
			MUST(wrote > 0 || (errno == EINTR && !(action.sa_flags & SA_RESTART)));
			if (wrote > 0)
				position += (uint64_t)wrote;
			MUST(calls < 100000);
			ends[calls++] = position;
		}
		MUST(!setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL));
		MUST(!shutdown(marked_fd, SHUT_WR));
		pthread_join(thread, NULL);
		MUST(other->count == marks);
		for (int i = 0; i < other->count; i++) {
			while (call < calls && ends[call] < other->at[i])
				call++;
			if (other->at[i])
				MUST(call < calls && ends[call] == other->at[i]);
		}
		MUST(!close(marked_fd) && !close(other->fd));
	} while (now_s() < end_s);
	free(ends);
	free(other);
}

/* --- calls that never return: nobody knows how much of one went out, until it has arrived */

/* Reads and checks what `from` accepted, at `to`: the position after it. */
static uint64_t drain(int from, int to, uint64_t position)
{
	uint8_t bytes[65536], wanted[65536];
	int unacked, unread;

	for (;;) {
		ssize_t got;

		MUST(!ioctl(from, SIOCOUTQ, &unacked) && !ioctl(to, SIOCINQ, &unread));
		if (!unacked && !unread)
			return position;
		got = recv(to, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (got < 0) {
			MUST(errno == EAGAIN || errno == EINTR);
			usleep(100);
			continue;
		}
		fill(wanted, (size_t)got, position);
		MUST(!memcmp(bytes, wanted, (size_t)got));
		position += (uint64_t)got;
		atomic_fetch_add(&bytes_checked, (uint64_t)got);
	}
}

static sigjmp_buf out;
static volatile sig_atomic_t may_jump;

static void on_jump(int signal)
{
	(void)signal;
	if (!may_jump)
		return;
	may_jump = 0;
	siglongjmp(out, 1);
}

/* As old programs do their timeouts. */
void jump_scenario(unsigned int seed)
{
	const struct sigaction action = { .sa_handler = on_jump, .sa_flags = SA_RESTART };
	static uint8_t bytes[60000];
	volatile int jumps = 0;

	MUST(!sigaction(SIGALRM, &action, NULL));
	do {
		volatile uint64_t position = 0;
		int a, b;

		pair(&seed, &a, &b);
		for (volatile int i = 0; i < 30; i = i + 1) {
			const size_t len = 1 + (size_t)rand_r(&seed) % sizeof(bytes);
			const struct itimerval timer = { .it_value.tv_usec = 1 + rand_r(&seed) % 300 };
			ssize_t wrote;

			fill(bytes, len, position);
			if (sigsetjmp(out, 1)) {
				jumps = jumps + 1;
				position = drain(a, b, position);
				continue;
			}
			may_jump = 1;
			MUST(!setitimer(ITIMER_REAL, &timer, NULL));
			wrote = send(a, bytes, len, 0);
			may_jump = 0;
			MUST(wrote > 0);
			MUST(drain(a, b, position) == position + (uint64_t)wrote);
			position = position + (uint64_t)wrote;
		}
		MUST(!setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL));
		MUST(!close(a) && !close(b));
	} while (now_s() < end_s || !jumps);
}

struct cancelled {
	int fd;
	uint64_t position;
	unsigned int seed;
};

static void *write_on(void *argument)
{
	struct cancelled *self = argument;
	uint8_t bytes[50000];

	for (;;) {
		const size_t len = 1 + (size_t)rand_r(&self->seed) % sizeof(bytes);
		ssize_t wrote;

		fill(bytes, len, self->position);
		wrote = send(self->fd, bytes, len, 0);
		MUST(wrote > 0);
		self->position += (uint64_t)wrote;
	}
	return NULL;
}

/* A writer is cancelled, where POSIX has it: in send(). Another thread goes on from where it was. */
void cancel_scenario(unsigned int seed)
{
	while (now_s() < end_s) {
		uint64_t position = 0;
		int a, b;

		pair(&seed, &a, &b);
		for (int i = 0; i < 5; i++) {
			struct cancelled writer = { a, position, (unsigned int)rand_r(&seed) };
			pthread_t thread;
			uint8_t bytes[3000];

			MUST(!pthread_create(&thread, NULL, write_on, &writer));
			usleep((useconds_t)rand_r(&seed) % 3000);
			MUST(!pthread_cancel(thread) && !pthread_join(thread, NULL));
			position = drain(a, b, position);
			fill(bytes, sizeof(bytes), position);
			MUST(send(a, bytes, sizeof(bytes), 0) == sizeof(bytes));
			MUST(drain(a, b, position) == position + sizeof(bytes));
			position += sizeof(bytes);
		}
		MUST(!close(a) && !close(b));
	}
}
