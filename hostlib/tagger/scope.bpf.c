/*
 * Which sockets the kernel mode serves: those that are opened in the cgroups to which this program is attached, and
 * there, where ports are named, whose listening side has one of them. It gives each a stream, and a rule by which all
 * its packets go first until a flow begins: SYN, SYN-ACK, bare ACKs. It sees the end of a socket's last flow, keeps
 * receive windows (windows.h), and where no device has the tagger gives each packet its DSCP (mark.h).
 * Invariant: a socket that it never saw has neither, and no other program here touches it.
 */
#include "windows.h"

#include <bpf/bpf_endian.h>
#include <qclimb/crc32.h>

#include "mark.h"
#include "scope.h"

struct digest {
	uint8_t address[16];
	uint32_t crc;
};

static long digest_byte(uint32_t at, struct digest *digest)
{
	digest->crc = qclimb_crc32_bits(digest->crc, digest->address[at & 15]);
	return 0;
}

/*
 * An address as a feature: the low 24 bits of IPv4, or of IPv6's CRC-32, as many as a float32 holds. As the library has
 * it (shim/life/forecast.c).
 */
static __noinline uint32_t number_of(const uint8_t *address, int is_ipv4)
{
	struct digest digest = { .crc = UINT32_MAX };

	if (is_ipv4)
		return (uint32_t)address[13] << 16 | (uint32_t)address[14] << 8 | address[15];
	__builtin_memcpy(digest.address, address, sizeof(digest.address));
	bpf_loop(sizeof(digest.address), digest_byte, &digest, 0);
	return ~digest.crc & 0xffffff;
}

/* By what the addresses tell: the same one, or 127.0.0.0/8. */
static __always_inline int is_same_host(const uint8_t *local, const uint8_t *peer)
{
	uint32_t one[4], other[4];

	__builtin_memcpy(one, local, sizeof(one));
	__builtin_memcpy(other, peer, sizeof(other));
	return (one[0] == other[0] && one[1] == other[1] && one[2] == other[2] && one[3] == other[3]) ||
	       (is_mapped(peer) && peer[12] == 127);
}

/* `volatile`: the verifier takes no load of two fields at once. */
static __always_inline void addresses_of(const volatile struct bpf_sock_ops *ops, struct stream *stream)
{
	const uint32_t local[4] = { ops->local_ip6[0], ops->local_ip6[1], ops->local_ip6[2], ops->local_ip6[3] };
	const uint32_t peer[4] = { ops->remote_ip6[0], ops->remote_ip6[1], ops->remote_ip6[2], ops->remote_ip6[3] };
	const uint32_t local4 = ops->local_ip4, peer4 = ops->remote_ip4;

	if (ops->family == 10) { /* AF_INET6; v4-mapped addresses stand there as they are */
		__builtin_memcpy(stream->local, local, sizeof(local));
		__builtin_memcpy(stream->peer, peer, sizeof(peer));
	} else {
		stream->local[10] = stream->local[11] = stream->peer[10] = stream->peer[11] = 0xff;
		__builtin_memcpy(&stream->local[12], &local4, sizeof(local4));
		__builtin_memcpy(&stream->peer[12], &peer4, sizeof(peer4));
	}
	stream->local_port = (uint16_t)ops->local_port;
	stream->peer_port = (uint16_t)bpf_ntohl(ops->remote_port);
	stream->local_number = number_of(stream->local, is_mapped(stream->local));
	stream->peer_number = number_of(stream->peer, is_mapped(stream->peer));
	stream->is_within = (uint8_t)is_same_host(stream->local, stream->peer);
}

static __always_inline void serve_first(struct bpf_sock *sk)
{
	struct tagger_socket *told = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (told && !told->now.start && !told->before.start) {
		told->now.start = UINT64_MAX;
		told->before.start = TAGGER_BY_KERNEL;
		told->has_no_order = 1;
	}
}

/* Windows are kept of connections that begin while the policy asks for it. */
static __always_inline int windows_flag(const struct stream *stream)
{
	const struct qclimb_policy *policy = ONLY(&host_policy);

	return policy && sets_windows(stream, policy) ? BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG : 0;
}

/* A connection begins, or one that was let in is there. */
static __always_inline void open_stream(struct bpf_sock_ops *ops, struct bpf_sock *sk, uint8_t role, int is_marking)
{
	struct stream *stream = bpf_sk_storage_get(&streams, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!stream)
		return;
	serve_first(sk);
	addresses_of(ops, stream);
	stream->role = role;
	stream->cookie = bpf_get_socket_cookie(ops);
	bpf_sock_ops_cb_flags_set(ops,
				  ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG |
					  (is_marking ? BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG : windows_flag(stream)));
}

/* A connection of this process begins: its task, whatever is written, and the first window. */
static __always_inline void connects(struct bpf_sock *sk)
{
	struct stream *stream = bpf_sk_storage_get(&streams, sk, 0, 0);

	if (stream)
		stream->pid = (uint32_t)((struct task_struct *)bpf_get_current_task_btf())->tgid;
}

/* The application writes no more. */
static __always_inline void close_stream(struct bpf_sock *sk)
{
	struct stream *stream = bpf_sk_storage_get(&streams, sk, 0, 0);
	const struct qclimb_policy *policy = ONLY(&host_policy);
	const struct tcp_sock *tcp = stream && policy ? (struct tcp_sock *)bpf_skc_to_tcp_sock(sk) : 0;

	if (tcp)
		stream_finish(stream, written_of(tcp), policy, QCLIMB_RECORD_CLOSED);
}

/*
 * The application's last byte has come, or only its FIN is on its way: what is still to leave are ACKs. The last of them
 * leave when only TIME_WAIT is left of the socket, which has no storage, but the DSCP that the socket itself had. Without
 * one they would wait among the unmarked, while the peer sends its FIN again and again.
 */
static __always_inline void leave_mark(struct bpf_sock_ops *ops, struct bpf_sock *sk)
{
	struct stream *stream = bpf_sk_storage_get(&streams, sk, 0, 0);
	const struct qclimb_policy *policy = ONLY(&host_policy);
	const struct tcp_sock *tcp = stream && policy ? (struct tcp_sock *)bpf_skc_to_tcp_sock(sk) : 0;

	if (tcp && policy->mode >= QCLIMB_PIAS)
		mark_socket(ops, tcp, stream, qclimb_policy_rest_dscp(policy), qclimb_so_priority(0));
}

static __always_inline void packet_leaves(struct bpf_sock_ops *ops, struct bpf_sock *sk, int is_marking)
{
	struct stream *stream = bpf_sk_storage_get(&streams, sk, 0, 0);
	const struct qclimb_policy *policy = ONLY(&host_policy);

	if (!stream || !policy)
		return;
	keep_window(ops, sk, stream, policy);
	mark_packet(ops, sk, stream, policy, is_marking);
}

static __always_inline int serve(struct bpf_sock_ops *ops, int is_marking)
{
	struct bpf_sock *sk = ops->sk;

	if (!sk || (ops->family != 2 && ops->family != 10))
		return 1;
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (is_in_scope(bpf_ntohl(ops->remote_port))) {
			open_stream(ops, sk, 0, is_marking);
			connects(sk);
			kernel_count(KERNEL_SOCKETS, 1);
		}
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB: {
		struct stream *stream = bpf_sk_storage_get(&streams, sk, 0, 0);

		if (stream)
			addresses_of(ops, stream); /* the own one is known by now */
		break;
	}
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		if (is_in_scope(ops->local_port))
			serve_first(sk); /* SYN-ACKs are the listener's */
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (is_in_scope(ops->local_port)) {
			open_stream(ops, sk, 1, is_marking);
			kernel_count(KERNEL_SOCKETS, 1);
		}
		break;
	case BPF_SOCK_OPS_RWND_INIT: {
		const struct stream *stream = bpf_sk_storage_get(&streams, sk, 0, 0);

		if (stream && windows_flag(stream))
			ops->reply = FIRST_SEGMENTS;
		break;
	}
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (ops->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS) /* that asks how large a segment may be */
			packet_leaves(ops, sk, is_marking);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (ops->args[0] == ESTABLISHED ? ops->args[1] != CLOSE_WAIT : ops->args[0] == CLOSE_WAIT)
			close_stream(sk);
		if (ops->args[1] == FIN_WAIT2 || ops->args[1] == CLOSING)
			leave_mark(ops, sk);
		break;
	}
	return 1;
}

/* Where the tagger marks packets at devices. */
SEC("sockops")
int scope(struct bpf_sock_ops *ops)
{
	return serve(ops, 0);
}

/* Where no device has it: by the sockets themselves. */
SEC("sockops")
int scope_marks(struct bpf_sock_ops *ops)
{
	return serve(ops, 1);
}

char _license[] SEC("license") = "Dual MIT/GPL";
