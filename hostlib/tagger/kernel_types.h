/*
 * The fields of the kernel's own structs that the kernel mode reads, found by name in the running kernel's BTF whatever
 * lies around them (CO-RE). For BPF only.
 */
#ifndef QCLIMB_TAGGER_KERNEL_TYPES_H
#define QCLIMB_TAGGER_KERNEL_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define OF_THE_KERNEL __attribute__((preserve_access_index))

struct kernfs_node {
	uint64_t id;
} OF_THE_KERNEL;

struct cgroup {
	struct kernfs_node *kn;
} OF_THE_KERNEL;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} OF_THE_KERNEL;

struct sock_common {
	uint16_t skc_dport, skc_num; /* the peer's as on the wire */
	uint8_t skc_state;
} OF_THE_KERNEL;

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
	void *sk_bpf_storage;
	uint32_t sk_priority;
} OF_THE_KERNEL;

struct tcp_sock {
	uint64_t bytes_acked, bytes_received;
	uint32_t write_seq, snd_una, snd_nxt, copied_seq, window_clamp;
	uint16_t advmss;
	uint8_t bpf_sock_ops_cb_flags;
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
	unsigned int msg_flags;
} OF_THE_KERNEL;

struct inode {
	uint16_t i_mode;
	int64_t i_size;
} OF_THE_KERNEL;

struct file {
	struct inode *f_inode;
	int64_t f_pos;
} OF_THE_KERNEL;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} OF_THE_KERNEL;

struct files_struct {
	struct fdtable *fdt;
} OF_THE_KERNEL;

/* Of a system call, as the processor left them: x86-64's. Elsewhere the fields are not there. */
struct pt_regs {
	unsigned long orig_ax, si, dx, r10;
} OF_THE_KERNEL;

struct task_struct {
	struct task_struct *group_leader;
	struct files_struct *files;
	int tgid;
	uint64_t start_time; /* ns, CLOCK_MONOTONIC */
	char comm[16];
} OF_THE_KERNEL;

#endif
