/* What happens to descriptors: copied, closed by many at once, closed by a child, passed in a message. */
#include "ways.h"

#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

/* musl lacks some of them. */
int fcntl64(int fd, int command, ...) __attribute__((weak));
int close_range(unsigned int first, unsigned int last, int flags) __attribute__((weak));
void closefrom(int first) __attribute__((weak));

static int another(int fd, const char *way)
{
	if (is(way, "dup"))
		return dup(fd);
	if (is(way, "dup2"))
		return dup2(fd, 60);
	if (is(way, "dup3"))
		return dup3(fd, 60, O_CLOEXEC);
	if (is(way, "fcntl"))
		return fcntl(fd, F_DUPFD, 60);
	if (!fcntl64)
		lack("fcntl64");
	return fcntl64(fd, F_DUPFD_CLOEXEC, 60);
}

/* A flow goes on by another descriptor while the first one closes. */
void another_way(const char *way)
{
	const int fd = connected(0);
	int other;

	send_all(fd, 0, 5000);
	other = another(fd, way);
	MUST(other > fd && !close(fd));
	send_all(other, 5000, 20000);
	end(other);
}

/* All at once: the flow ends, and its number is a file's. */
void close_way(const char *way)
{
	const int fd = connected(0);
	int other;

	if (is(way, "closefrom") ? !closefrom : !close_range || (close_range(~0u, ~0u, 0) && errno == ENOSYS))
		lack(way);
	send_all(fd, 0, 5000);
	if (is(way, "close_range-cloexec")) {
		MUST(!close_range(3, ~0u, CLOSE_RANGE_CLOEXEC));
		send_all(fd, 5000, 20000);
		end(fd);
		return;
	}
	if (is(way, "closefrom"))
		closefrom(3);
	else
		MUST(!close_range(3, ~0u, 0));
	do
		other = open("/dev/null", O_WRONLY);
	while (other >= 0 && other < fd);
	MUST(other == fd && write(other, stream, TOTAL) == TOTAL);
	MUST(send(other, stream, 1, 0) < 0 && errno == ENOTSOCK);
}

/* stdio writes the rest and closes: its number is another socket's before the library hears of it. */
void fclose_way(void)
{
	const int fd = connected(0);
	FILE *file = fdopen(fd, "w");
	int other;

	send_all(fd, 0, 5000);
	MUST(file && fwrite(stream + 5000, 1, 15000, file) == 15000 && !fclose(file));
	other = socket(AF_INET, SOCK_STREAM, 0);
	MUST(other == fd && !close(other));
}

/* What a child does to its descriptors is not done to its parent's. */
void child_way(const char *way)
{
	char *command[] = { "cat", NULL };
	const int fd = connected(0);
	posix_spawn_file_actions_t actions;
	int input[2], status;
	pid_t child;

	send_all(fd, 0, 5000);
	if (is(way, "vfork")) {
		child = vfork();
		if (!child) {
			dup2(2, fd);
			close(fd);
			_exit(0);
		}
	} else {
		MUST(!pipe2(input, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
		MUST(!posix_spawn_file_actions_adddup2(&actions, input[0], 0));
		if (is(way, "posix_spawn"))
			MUST(!posix_spawn_file_actions_addclose(&actions, fd));
		else
			MUST(!posix_spawn_file_actions_adddup2(&actions, fd,
							       1)); /* the child goes on where we stopped */
		MUST(!posix_spawnp(&child, command[0], &actions, NULL, command, environ));
		if (!is(way, "posix_spawn"))
			MUST(write(input[1], stream + 5000, 3000) == 3000);
		MUST(!close(input[1]) && !close(input[0]));
	}
	MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	send_all(fd, is(way, "posix_spawn-writes") ? 8000 : 5000, 20000);
	end(fd);
}

static void pass(int over, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { "x", 1 };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	MUST(sendmsg(over, &message, 0) == 1);
}

static int passed(int over, bool by_many)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = { &byte, 1 };
	struct mmsghdr many = { .msg_hdr = { .msg_iov = &part,
					     .msg_iovlen = 1,
					     .msg_control = control,
					     .msg_controllen = sizeof(control) } };
	int fd;

	if (by_many)
		MUST(recvmmsg(over, &many, 1, 0, NULL) == 1);
	else
		MUST(recvmsg(over, &many.msg_hdr, 0) == 1);
	MUST(CMSG_FIRSTHDR(&many.msg_hdr) && CMSG_FIRSTHDR(&many.msg_hdr)->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&many.msg_hdr)), sizeof(fd));
	return fd;
}

/* A descriptor that comes in a message takes the number of a connection that was closed by a system call of our own. */
void rights_way(const char *way)
{
	const int fd = connected(0);
	int over[2], other, hidden;

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, over));
	other = socket(AF_INET, SOCK_STREAM, 0);
	MUST(syscall(SYS_fcntl, fd, F_DUPFD, 70) >= 70);
	hidden = 70;
	pass(over[0], hidden);
	MUST(!syscall(SYS_close, other));
	send_all(fd, 0, 5000);
	MUST(passed(over[1], is(way, "rights-recvmmsg")) == other);
	send_all(other, 5000, 20000);
	MUST(!syscall(SYS_close, hidden) && !close(other));
	end(fd);
}
