/*
 * Gives every socket of a network namespace back the DSCP and SO_PRIORITY that it had before the kernel mode (mark.h):
 * run once, as the mode is taken away, for a quiet socket sends no packet that would.
 */
#include "mark.h"

/* As the kernel hands it to a program of this kind. */
struct bpf_iter__tcp {
	void *sk_common;
} OF_THE_KERNEL;

SEC("iter/tcp")
int restore(struct bpf_iter__tcp *at)
{
	void *found = at->sk_common;
	struct tcp_sock *tcp = found ? (struct tcp_sock *)bpf_skc_to_tcp_sock(found) : 0;
	struct stream *stream = tcp ? bpf_sk_storage_get(&streams, tcp, 0, 0) : 0;

	if (stream)
		mark_socket(tcp, tcp, stream, 0, 0);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
