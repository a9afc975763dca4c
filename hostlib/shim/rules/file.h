/*
 * Files that steer the library, read so that nobody else can: whole, by nobody's leave but root's and this user's. Knows
 * nothing of what stands in them.
 */
#ifndef QCLIMB_FILE_H
#define QCLIMB_FILE_H

#include "base/shim.h"

/*
 * A file as stat sees it: hostd replaces files by rename. Another inode or time of change means another content, owner
 * or mode.
 */
struct stamp {
	dev_t device;
	ino_t inode;
	struct timespec changed;
	off_t bytes;
	bool exists;
};

struct stamp stamp_of(const char *path);
bool is_same(const struct stamp *a, const struct stamp *b);

/*
 * Reads at most `room` bytes: their number, or -errno; -EPERM where others may have written them. System calls of our
 * own: no cancellation point inside.
 */
ssize_t read_file(const char *path, void *bytes, size_t room);

#endif
