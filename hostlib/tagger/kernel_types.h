/*
 * The fields of the kernel's own structs that the kernel mode reads, found by name in the running kernel's BTF whatever
 * lies around them (CO-RE). For BPF only.
 */
#ifndef QCLIMB_TAGGER_KERNEL_TYPES_H
#define QCLIMB_TAGGER_KERNEL_TYPES_H

#include <stdint.h>

#define OF_THE_KERNEL __attribute__((preserve_access_index))

struct sock {
	int unused_here;
} OF_THE_KERNEL;

struct tcp_sock {
	uint64_t bytes_acked, bytes_received;
	uint32_t write_seq, snd_una, copied_seq, window_clamp;
} OF_THE_KERNEL;

struct iov_iter {
	unsigned long count;
} OF_THE_KERNEL;

struct msghdr {
	struct iov_iter msg_iter;
} OF_THE_KERNEL;

struct task_struct {
	struct task_struct *group_leader;
	int tgid;
	uint64_t start_time; /* ns, CLOCK_MONOTONIC */
} OF_THE_KERNEL;

#endif
