/*
 * The fields of the kernel's own structs that the kernel mode reads, found by name in the running kernel's BTF whatever
 * lies around them (CO-RE). For BPF only.
 */
#ifndef QCLIMB_TAGGER_KERNEL_TYPES_H
#define QCLIMB_TAGGER_KERNEL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define OF_THE_KERNEL __attribute__((preserve_access_index))

struct sock {
	int unused_here;
} OF_THE_KERNEL;

struct tcp_sock {
	uint64_t bytes_acked, bytes_received;
	uint32_t write_seq, snd_una, copied_seq, window_clamp;
} OF_THE_KERNEL;

struct iovec {
	void *iov_base;
	size_t iov_len;
} OF_THE_KERNEL;

enum iter_type { ITER_UBUF, ITER_IOVEC }; /* which is which depends on the kernel */

struct iov_iter {
	uint8_t iter_type;
	unsigned long count;
	const struct iovec *__iov;
	void *ubuf;
} OF_THE_KERNEL;

struct iov_iter___before_6_4 {
	const struct iovec *iov;
} OF_THE_KERNEL;

struct msghdr {
	struct iov_iter msg_iter;
} OF_THE_KERNEL;

struct task_struct {
	struct task_struct *group_leader;
	int tgid;
	uint64_t start_time; /* ns, CLOCK_MONOTONIC */
	char comm[16];
} OF_THE_KERNEL;

#endif
