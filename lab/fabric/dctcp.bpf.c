/*
 * DCTCP (RFC 8257) as a congestion control of BPF, for kernels that were built without it. Loss recovery, slow start
 * and the additive increase are the kernel's (Reno).
 *
 * Invariant: alpha is the share of marked packets in units of 1/1024, 0..1024, and changes once a window of data.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifndef NAME
#define NAME lab_dctcp /* congestion controls are the whole machine's: each fabric has its own, by -DNAME */
#endif
#define AS_TEXT(word) #word
#define TEXT(word) AS_TEXT(word)
#define OF_THE_KERNEL __attribute__((preserve_access_index))
#define ALPHA_ONE 1024
#define GAIN_SHIFT 4 /* RFC 8257's g = 1/16 */
#define NEEDS_ECN 2  /* the kernel's TCP_CONG_NEEDS_ECN: packets can carry a mark, whatever tcp_ecn says */
#define ACK_TIMER 2  /* enum inet_csk_ack_state_t */
#define ACK_NOW 16
#define DEMAND_CWR 4 /* TCP_ECN_DEMAND_CWR: ACKs carry ECE */
#define CA_RECOVERY 3
#define EVENT_LOSS 3
#define EVENT_NO_CE 4
#define EVENT_CE 5

/* By name in the running kernel's BTF (CO-RE). */
struct sock {
	int unused_here;
} OF_THE_KERNEL;

struct inet_connection_sock {
	uint8_t icsk_ca_state : 5;
	struct {
		uint8_t pending;
	} icsk_ack;
	uint64_t icsk_ca_priv[13];
} OF_THE_KERNEL;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	uint8_t ecn_flags;
	uint32_t snd_cwnd, snd_ssthresh, snd_nxt, snd_una, rcv_nxt, delivered, delivered_ce;
} OF_THE_KERNEL;

struct ack_sample;

struct tcp_congestion_ops {
	uint32_t (*ssthresh)(struct sock *);
	void (*cong_avoid)(struct sock *, uint32_t, uint32_t);
	void (*set_state)(struct sock *, uint8_t);
	void (*cwnd_event)(struct sock *, int);
	void (*in_ack_event)(struct sock *, uint32_t);
	uint32_t (*undo_cwnd)(struct sock *);
	char name[16];
	uint32_t flags;
	void (*init)(struct sock *);
} OF_THE_KERNEL;

struct dctcp {
	uint32_t alpha, window_end; /* window_end: the sequence at which this window of data is over */
	uint32_t delivered, delivered_ce; /* the connection's counters when it began */
	uint32_t cwnd_before_loss;
	uint32_t prior_rcv_nxt; /* receiver: what was ACKed when the last packet's mark was seen */
	uint32_t saw_ce;        /* receiver: the last packet was marked */
};

extern void tcp_reno_cong_avoid(struct sock *sk, uint32_t ack, uint32_t acked) __ksym;

static struct dctcp *state_of(struct tcp_sock *tp)
{
	return (struct dctcp *)tp->inet_conn.icsk_ca_priv;
}

static void begin_window(const struct tcp_sock *tp, struct dctcp *ca)
{
	ca->window_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

SEC("struct_ops/dctcp_init")
void BPF_PROG(dctcp_init, struct tcp_sock *tp)
{
	struct dctcp *ca = state_of(tp);

	ca->alpha = ALPHA_ONE; /* RFC 8257, 4.2: to be cautious at first */
	ca->cwnd_before_loss = 0;
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->saw_ce = 0;
	begin_window(tp, ca);
}

/* RFC 8257, 3.3: cwnd x (1 - alpha / 2). */
SEC("struct_ops/dctcp_ssthresh")
uint32_t BPF_PROG(dctcp_ssthresh, struct tcp_sock *tp)
{
	struct dctcp *ca = state_of(tp);
	const uint32_t cwnd = tp->snd_cwnd, less = (uint32_t)((uint64_t)cwnd * ca->alpha / (2 * ALPHA_ONE));

	ca->cwnd_before_loss = cwnd;
	return cwnd - less > 2 ? cwnd - less : 2;
}

/* Once a window: alpha = (1 - g) alpha + g x the share of marked packets. */
SEC("struct_ops/dctcp_in_ack_event")
void BPF_PROG(dctcp_in_ack_event, struct tcp_sock *tp, uint32_t flags)
{
	struct dctcp *ca = state_of(tp);

	if ((int32_t)(tp->snd_una - ca->window_end) < 0)
		return;
	const uint32_t delivered = tp->delivered - ca->delivered, marked = tp->delivered_ce - ca->delivered_ce;
	uint32_t alpha = ca->alpha, decay = alpha >> GAIN_SHIFT;

	alpha -= decay || !alpha ? decay : 1; /* or it would never reach 0 */
	if (marked && delivered) {
		alpha += (uint32_t)(((uint64_t)marked << (10 - GAIN_SHIFT)) / delivered);
		if (alpha > ALPHA_ONE)
			alpha = ALPHA_ONE;
	}
	ca->alpha = alpha;
	begin_window(tp, ca);
}

/* RFC 8257, 3.5: a loss halves, as without DCTCP. */
static void react_to_loss(struct tcp_sock *tp)
{
	const uint32_t cwnd = tp->snd_cwnd, half = cwnd / 2;

	state_of(tp)->cwnd_before_loss = cwnd;
	tp->snd_ssthresh = half > 2 ? half : 2;
}

SEC("struct_ops/dctcp_set_state")
void BPF_PROG(dctcp_set_state, struct tcp_sock *tp, uint8_t now)
{
	if (now == CA_RECOVERY && now != tp->inet_conn.icsk_ca_state)
		react_to_loss(tp);
}

static void echo(struct tcp_sock *tp, uint32_t ce)
{
	if (ce)
		tp->ecn_flags |= DEMAND_CWR;
	else
		tp->ecn_flags &= (uint8_t)~DEMAND_CWR;
}

/* RFC 8257, 3.2: an ACK tells of packets that were all marked, or all not. */
static void packet_came(struct tcp_sock *tp, uint32_t ce)
{
	struct dctcp *ca = state_of(tp);

	if (ca->saw_ce != ce) {
		if (tp->inet_conn.icsk_ack.pending & ACK_TIMER) {
			echo(tp, ca->saw_ce);
			bpf_tcp_send_ack(tp, ca->prior_rcv_nxt);
		}
		tp->inet_conn.icsk_ack.pending |= ACK_NOW;
	}
	ca->prior_rcv_nxt = tp->rcv_nxt;
	ca->saw_ce = ce;
	echo(tp, ce);
}

SEC("struct_ops/dctcp_cwnd_event")
void BPF_PROG(dctcp_cwnd_event, struct tcp_sock *tp, int event)
{
	if (event == EVENT_LOSS)
		react_to_loss(tp);
	else if (event == EVENT_CE || event == EVENT_NO_CE)
		packet_came(tp, event == EVENT_CE);
}

SEC("struct_ops/dctcp_cong_avoid")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, uint32_t ack, uint32_t acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/dctcp_undo_cwnd")
uint32_t BPF_PROG(dctcp_undo_cwnd, struct tcp_sock *tp)
{
	const uint32_t cwnd = tp->snd_cwnd, before = state_of(tp)->cwnd_before_loss;

	return cwnd > before ? cwnd : before;
}

SEC(".struct_ops")
struct tcp_congestion_ops NAME = {
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.set_state = (void *)dctcp_set_state,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.flags = NEEDS_ECN,
	.name = TEXT(NAME),
};

char _license[] SEC("license") = "GPL";
