/*
 * Which sockets of a network namespace carry no DSCP of ours though they are in scope, where sockets carry it (mark.h): for
 * hostd's status, which knows whose cgroups those are. Reads alone.
 */
#include "mark.h"
#include "scope.h"

struct bpf_iter_meta {
	struct seq_file *seq;
} OF_THE_KERNEL;

/* As the kernel hands it to a program of this kind. */
struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	void *sk_common;
} OF_THE_KERNEL;

/* Why, as hostd/unmarked.py has it. */
enum unmarked_why {
	MARKED,
	EARLIER, /* it was there before the program that marks */
	OWN, /* its application chose a DSCP */
	MAPPED, /* this kernel refuses IP_TOS on an IPv6 socket, whose peer is v4-mapped */
	LISTENS, /* SYN-ACKs are the listener's */
};

struct unmarked {
	uint64_t cgroup; /* its number */
	uint64_t why;
};

static __always_inline int has_tos(struct tcp_sock *tcp)
{
	int tos = 0, class = 0;

	bpf_getsockopt(tcp, LEVEL_IPV4, TOS, &tos, sizeof(tos));
	bpf_getsockopt(tcp, LEVEL_IPV6, TRAFFIC_CLASS, &class, sizeof(class));
	return ((tos | class) & ~3) != 0;
}

static __always_inline enum unmarked_why why_unmarked(struct tcp_sock *tcp, uint8_t state)
{
	const struct stream *stream = bpf_sk_storage_get(&streams, tcp, 0, 0);
	int tos;

	if (state == LISTEN)
		return has_tos(tcp) ? MARKED : LISTENS;
	if (state != ESTABLISHED && state != CLOSE_WAIT)
		return MARKED;
	if (!stream || !(tcp->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG))
		return EARLIER;
	if (stream->has_own_tos)
		return OWN;
	return is_mapped(stream->peer) && bpf_getsockopt(tcp, LEVEL_IPV4, TOS, &tos, sizeof(tos)) ? MAPPED : MARKED;
}

SEC("iter/tcp")
int unmarked(struct bpf_iter__tcp *at)
{
	void *found = at->sk_common;
	struct tcp_sock *tcp = found ? (struct tcp_sock *)bpf_skc_to_tcp_sock(found) : 0;
	const struct sock *sk = (const struct sock *)tcp;
	struct unmarked told;

	if (!tcp || (!is_in_scope(sk->__sk_common.skc_num) && !is_in_scope(bpf_ntohs(sk->__sk_common.skc_dport))))
		return 0;
	told.why = why_unmarked(tcp, sk->__sk_common.skc_state);
	if (!told.why)
		return 0;
	told.cgroup = sk->sk_cgrp_data.cgroup->kn->id;
	bpf_seq_write(at->meta->seq, &told, sizeof(told));
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
