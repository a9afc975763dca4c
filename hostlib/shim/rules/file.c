#include "rules/file.h"

#include <fcntl.h>
#include <sys/stat.h>

struct stamp stamp_of(const char *path)
{
	struct stamp stamp = { 0 };
	struct stat file;

	if (path[0] && !stat(path, &file))
		stamp = (struct stamp){ file.st_dev, file.st_ino, file.st_ctim, file.st_size, true };
	return stamp;
}

bool is_same(const struct stamp *a, const struct stamp *b)
{
	return a->exists == b->exists && a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Who else could have written it: root may, and the user that this process acts for. */
static bool is_trusted(int fd)
{
	struct stat file;

	return !sys_fstat(fd, &file) && S_ISREG(file.st_mode) && (file.st_uid == 0 || file.st_uid == geteuid()) &&
	       !(file.st_mode & (S_IWGRP | S_IWOTH));
}

ssize_t read_file(const char *path, void *bytes, size_t room)
{
	const int fd = (int)qclimb_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t len = 0;
	ssize_t got = 0;

	if (fd < 0)
		return -errno;
	if (!is_trusted(fd)) {
		qclimb_syscall(SYS_close, fd);
		return -EPERM;
	}
	while (len < room && (got = qclimb_syscall(SYS_read, fd, (char *)bytes + len, room - len)) > 0)
		len += (size_t)got;
	qclimb_syscall(SYS_close, fd);
	return got < 0 ? -errno : (ssize_t)len;
}
