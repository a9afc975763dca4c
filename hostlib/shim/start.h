/*
 * The library begins with whatever of it is called first, and can leave a process that restricts itself.
 */
#ifndef QCLIMB_START_H
#define QCLIMB_START_H

#include "base/shim.h"

extern QCLIMB_OURS atomic_bool qclimb_is_started;

/*
 * Resolves libc's functions and reads the environment, once; another library's constructor may call us before ours has
 * run.
 */
void qclimb_start(void);

/* Leaves every socket as if the library had never been here, and does nothing any more in this process. */
void qclimb_withdraw(void);

#endif
