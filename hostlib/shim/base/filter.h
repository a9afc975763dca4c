/*
 * A seccomp filter that was in force before the program started: a container's, a service manager's, a jail's. It may
 * kill for a call of ours that the program itself never makes.
 */
#ifndef QCLIMB_FILTER_H
#define QCLIMB_FILTER_H

#include <stdbool.h>

/*
 * Asked once, at start, before any other system call of ours; false: the process is to be left alone. `peek_too`:
 * whether own memory may be read by process_vm_readv, `bpf_too`: whether the tagger's maps may be asked for.
 */
bool filter_lets_us(bool *peek_too, bool *bpf_too);

#endif
