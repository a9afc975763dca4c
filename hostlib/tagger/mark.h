/*
 * The DSCP on the socket itself: of each packet where no program can be at a device, set as its header is measured (sockops
 * HDR_OPT_LEN_CB), before the IP header takes it; and of a socket's last ACKs. SO_PRIORITY goes with it.
 *
 * What is sent again goes as the newest bytes go (of a flow that only sinks: latest). Nothing can cut SACKs here: no
 * flow may climb.
 * Invariant: a socket whose application chose a DSCP is left alone from then on, and the ECN bits always are.
 */
#ifndef QCLIMB_TAGGER_MARK_H
#define QCLIMB_TAGGER_MARK_H

#include <qclimb/wire.h>

#include "rule.h"
#include "stream.h"

#define ESTABLISHED 1 /* enum of TCP's states */
#define FIN_WAIT2 5
#define CLOSE_WAIT 8
#define LISTEN 10
#define CLOSING 11
#define LEVEL_SOCKET 1 /* SOL_SOCKET, SO_PRIORITY */
#define PRIORITY 12
#define LEVEL_IPV4 0 /* IPPROTO_IP, IP_TOS */
#define TOS 1
#define LEVEL_IPV6 41 /* IPPROTO_IPV6, IPV6_TCLASS */
#define TRAFFIC_CLASS 67
#define FLAG_FIN 1

/*
 * Has the socket's packets carry `dscp` from here on, 0: none of ours. `of`: the socket as this kind of program asks for
 * its options.
 */
static __always_inline void mark_socket(void *of, const struct tcp_sock *tcp, struct stream *stream, uint8_t dscp,
					uint32_t so_priority)
{
	const uint32_t found = ((const struct sock *)tcp)->sk_priority;
	int tos = 0, class = 0, priority, has_tos, has_class;

	if (stream->has_own_tos || stream->tos == dscp << 2)
		return;
	/* Some kernels (6.12) refuse IP_TOS on IPv6 sockets. TIME_WAIT of those goes by the class, to v4-mapped peers too. */
	has_tos = is_mapped(stream->peer) && !bpf_getsockopt(of, LEVEL_IPV4, TOS, &tos, sizeof(tos));
	has_class = !bpf_getsockopt(of, LEVEL_IPV6, TRAFFIC_CLASS, &class, sizeof(class));
	stream->has_own_tos = (has_tos && (tos & ~3) != stream->tos) || (has_class && (class & ~3) != stream->tos);
	if (!stream->has_own_tos) {
		tos = qclimb_tos(dscp, (uint8_t)(tos | class));
		if (has_tos)
			bpf_setsockopt(of, LEVEL_IPV4, TOS, &tos, sizeof(tos));
		if (has_class)
			bpf_setsockopt(of, LEVEL_IPV6, TRAFFIC_CLASS, &tos, sizeof(tos));
		stream->tos = (uint8_t)(dscp << 2);
	}
	if (found != stream->so_priority)
		stream->own_so_priority = found;
	priority = (int)(stream->own_so_priority || stream->has_own_tos ? stream->own_so_priority : so_priority);
	stream->so_priority = (uint32_t)priority;
	bpf_setsockopt(of, LEVEL_SOCKET, PRIORITY, &priority, sizeof(priority)); /* IP_TOS sets another one */
}

/* A packet is about to leave. Without a policy that marks, nothing of ours stays at the socket. */
static __always_inline void mark_packet(struct bpf_sock_ops *ops, struct bpf_sock *sk, struct stream *stream,
					const struct qclimb_policy *policy, int is_marking)
{
	const struct tagger_socket *told = bpf_sk_storage_get(&flows, sk, 0, 0);
	const struct tcp_sock *tcp;
	uint32_t priority = 0, bytes = ops->skb_len, so_priority = 0;
	uint8_t dscp = 0;

	if (!told)
		return;
	if (!is_marking || policy->mode < QCLIMB_PIAS) {
		if (ops->state == FIN_WAIT2 || ops->state == CLOSING) /* leave_mark()'s stays, for TIME_WAIT */
			return;
	} else {
		dscp = qclimb_policy_rest_dscp(policy);
		if (bytes || ops->skb_tcp_flags & FLAG_FIN) {
			if (told->now.start != UINT64_MAX) {
				tcp = (struct tcp_sock *)bpf_skc_to_tcp_sock(sk);
				if (!tcp)
					return;
				priority = priority_at(policy->threshold_bytes, policy->priorities, told,
						       tcp->bytes_acked + (uint32_t)(tcp->snd_nxt - tcp->snd_una) +
							       (bytes > ops->mss_cache ? bytes / 2 : 0));
			}
			dscp = qclimb_dscp_of(policy->dscp, policy->priorities, priority);
		}
		so_priority = qclimb_so_priority(priority);
	}
	if (stream->tos == dscp << 2) /* as the packet before: most flows are small */
		return;
	tcp = (struct tcp_sock *)bpf_skc_to_tcp_sock(sk);
	if (tcp)
		mark_socket(ops, tcp, stream, dscp, so_priority);
}

#endif
