/*
 * Where the headers of a TCP packet lie, and how its DSCP and options are changed: IPv4 and IPv6, up to two VLAN tags.
 * For BPF only.
 * Invariant: what is written keeps ECN bits and checksums right.
 */
#ifndef QCLIMB_TAGGER_PACKET_H
#define QCLIMB_TAGGER_PACKET_H

#include <stddef.h>
#include <stdint.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include <qclimb/wire.h>

#define VLAN_TAGS 2
#define EXTENSIONS 3 /* IPv6 headers before TCP that are stepped over */
#define OPTIONS_BYTES 40
#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16
#define PROTOCOL_TCP 6

struct packet {
	uint32_t network; /* offset of the IP header */
	uint32_t transport; /* of the TCP header */
	uint32_t seq, ack;
	uint32_t payload_bytes;
	uint32_t options_bytes;
	uint8_t is_ipv6, dscp, tcp_flags;
	uint8_t head[12]; /* of the IP header: the DSCP lies in its first two bytes, IPv4's checksum in the last two */
};

/* Steps over extension headers: the offset of TCP's, 0 if none is found. */
static __always_inline uint32_t after_extensions(struct __sk_buff *skb, uint32_t at, uint8_t next)
{
	uint8_t extension[2];

	for (int i = 0; i < EXTENSIONS; i++) {
		if (next == PROTOCOL_TCP)
			return at;
		if (next != 0 && next != 43 && next != 60) /* hop-by-hop, routing, destination options */
			return 0;
		if (bpf_skb_load_bytes(skb, at, extension, sizeof(extension)))
			return 0;
		next = extension[0];
		at += 8 + 8 * (uint32_t)extension[1];
	}
	return next == PROTOCOL_TCP ? at : 0;
}

static __always_inline int read_ipv4(struct __sk_buff *skb, struct packet *packet, uint32_t *ip_bytes)
{
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, packet->network, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5 ||
	    ip.protocol != PROTOCOL_TCP || ip.frag_off & bpf_htons(0x1fff))
		return 0;
	packet->is_ipv6 = 0;
	packet->dscp = ip.tos >> 2;
	__builtin_memcpy(packet->head, &ip, sizeof(packet->head));
	packet->transport = packet->network + ip.ihl * 4u;
	*ip_bytes = bpf_ntohs(ip.tot_len);
	return 1;
}

static __always_inline int read_ipv6(struct __sk_buff *skb, struct packet *packet, uint32_t *ip_bytes)
{
	uint8_t ip[sizeof(struct ipv6hdr)];

	if (bpf_skb_load_bytes(skb, packet->network, ip, sizeof(ip)) || ip[0] >> 4 != 6)
		return 0;
	packet->is_ipv6 = 1;
	packet->dscp = (uint8_t)((ip[0] & 15) << 2 | ip[1] >> 6);
	packet->head[0] = ip[0];
	packet->head[1] = ip[1];
	packet->transport = after_extensions(skb, packet->network + (uint32_t)sizeof(ip), ip[6]);
	*ip_bytes = (uint32_t)ip[4] << 8 | ip[5];
	if (*ip_bytes)
		*ip_bytes += (uint32_t)sizeof(ip);
	return packet->transport != 0;
}

/* What the header of TCP says. */
static __always_inline void note_tcp(struct packet *packet, const struct tcphdr *tcp, uint32_t ip_bytes)
{
	const uint32_t header_bytes = packet->transport - packet->network + tcp->doff * 4u;

	packet->payload_bytes = ip_bytes > header_bytes ? ip_bytes - header_bytes : 0;
	packet->options_bytes = tcp->doff * 4u - (uint32_t)sizeof(*tcp);
	packet->seq = bpf_ntohl(tcp->seq);
	packet->ack = bpf_ntohl(tcp->ack_seq);
	packet->tcp_flags = (uint8_t)(tcp->fin | tcp->syn << 1 | tcp->rst << 2 | tcp->ack << 4);
}

/* Most packets: IPv4 without options or tags, headers in one piece. No call of the kernel's; 0: to be read with care. */
static __always_inline int read_plain(struct __sk_buff *skb, struct packet *packet)
{
	const struct ethhdr *frame = (void *)(long)skb->data;
	const struct iphdr *ip = (const void *)(frame + 1);
	const struct tcphdr *tcp = (const void *)(ip + 1);

	if ((const void *)(tcp + 1) > (const void *)(long)skb->data_end || frame->h_proto != bpf_htons(ETH_P_IP) ||
	    ip->version != 4 || ip->ihl != 5 || ip->protocol != PROTOCOL_TCP || ip->frag_off & bpf_htons(0x1fff) ||
	    !ip->tot_len || tcp->doff < 5)
		return 0;
	packet->network = ETH_HLEN;
	packet->transport = ETH_HLEN + sizeof(*ip);
	packet->is_ipv6 = 0;
	packet->dscp = ip->tos >> 2;
	__builtin_memcpy(packet->head, ip, sizeof(packet->head));
	note_tcp(packet, tcp, bpf_ntohs(ip->tot_len));
	return 1;
}

/* Of such a packet, what most carry as options: none, or timestamps alone. */
static __always_inline int is_without_options(const struct __sk_buff *skb)
{
	const struct ethhdr *frame = (void *)(long)skb->data;
	const struct iphdr *ip = (const void *)(frame + 1);
	const struct tcphdr *tcp = (const void *)(ip + 1);

	return (const void *)(tcp + 1) <= (const void *)(long)skb->data_end && frame->h_proto == bpf_htons(ETH_P_IP) &&
	       ip->ihl == 5 && (ip->protocol != PROTOCOL_TCP || tcp->doff == 5 || tcp->doff == 8);
}

/* All others. */
static __noinline int read_with_care(struct __sk_buff *skb, struct packet *packet)
{
	uint32_t ip_bytes = 0;
	struct tcphdr tcp;
	uint16_t type;

	packet->network = ETH_HLEN;
	if (bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_proto), &type, sizeof(type)))
		return 0;
	for (int i = 0; i < VLAN_TAGS; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if (bpf_skb_load_bytes(skb, packet->network + 2, &type, sizeof(type)))
			return 0;
		packet->network += 4;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		if (!read_ipv4(skb, packet, &ip_bytes))
			return 0;
	} else if (type != bpf_htons(ETH_P_IPV6) || !read_ipv6(skb, packet, &ip_bytes)) {
		return 0;
	}
	if (bpf_skb_load_bytes(skb, packet->transport, &tcp, sizeof(tcp)) || tcp.doff < 5)
		return 0;
	if (!ip_bytes) /* longer than 64 KB: "BIG TCP" leaves the field 0 */
		ip_bytes = skb->len - packet->network;
	note_tcp(packet, &tcp, ip_bytes);
	return 1;
}

/* Finds the headers: 1, or 0 where this is no TCP packet that can be read. */
static __always_inline int packet_read(struct __sk_buff *skb, struct packet *packet)
{
	return read_plain(skb, packet) || read_with_care(skb, packet);
}

/* Source and destination, IPv4 as v4-mapped; 0 or an error. */
static __always_inline long packet_addresses(struct __sk_buff *skb, const struct packet *packet, uint8_t *source,
					     uint8_t *destination)
{
	long error;

	if (packet->is_ipv6) {
		error = bpf_skb_load_bytes(skb, packet->network + offsetof(struct ipv6hdr, saddr), source, 16);
		return error
			       ?: bpf_skb_load_bytes(skb, packet->network + offsetof(struct ipv6hdr, daddr),
						     destination, 16);
	}
	__builtin_memset(source, 0, 16);
	__builtin_memset(destination, 0, 16);
	source[10] = source[11] = destination[10] = destination[11] = 0xff;
	error = bpf_skb_load_bytes(skb, packet->network + offsetof(struct iphdr, saddr), source + 12, 4);
	return error ?: bpf_skb_load_bytes(skb, packet->network + offsetof(struct iphdr, daddr), destination + 12, 4);
}

/* IPv4's checksum after the second byte changed: HC' = ~(~HC + ~m + m') (RFC 1624, equation 3). */
static __always_inline void correct(uint8_t *head, uint8_t old_tos)
{
	uint32_t sum = (uint32_t)(head[10] << 8 | head[11]) ^ 0xffff;

	sum += (uint32_t)(head[0] << 8 | old_tos) ^ 0xffff;
	sum += (uint32_t)(head[0] << 8 | head[1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ((sum & 0xffff) + (sum >> 16)) ^ 0xffff;
	head[10] = (uint8_t)(sum >> 8);
	head[11] = (uint8_t)sum;
}

/*
 * Changes the DSCP and nothing else: the ECN bits stay, IPv4's checksum is corrected by the difference (RFC 1624). 1:
 * it was changed.
 */
static __always_inline int packet_mark(struct __sk_buff *skb, const struct packet *packet, uint8_t dscp)
{
	uint8_t head[sizeof(packet->head)];

	if (packet->dscp == dscp)
		return 0;
	__builtin_memcpy(head, packet->head, sizeof(head));
	if (packet->is_ipv6) {
		const uint8_t class = qclimb_tos(dscp, (uint8_t)(head[1] >> 4));

		head[0] = (uint8_t)(0x60 | class >> 4);
		head[1] = (uint8_t)(class << 4 | (head[1] & 15));
		return !bpf_skb_store_bytes(skb, packet->network, head, 2, 0);
	}
	head[1] = qclimb_tos(dscp, head[1]);
	correct(head, packet->head[1]);
	return !bpf_skb_store_bytes(skb, packet->network, head, sizeof(head), 0);
}

#endif
