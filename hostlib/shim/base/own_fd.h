/* Descriptors of the library's own, in a process whose numbers belong to the application. */
#ifndef QCLIMB_OWN_FD_H
#define QCLIMB_OWN_FD_H

#include "base/shim.h"

/*
 * Moves a descriptor of ours to a number where applications seldom expect theirs; close-on-exec. The same number where
 * that fails.
 */
int own_fd(int fd);

#endif
