/* Signals in the middle of calls. */
#include "stress.h"

#include <sys/time.h>

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
