/*
 * What the tagger's programs, hostd and the library agree on: plain data in pinned maps, below <run directory>/bpf.
 * hostlib/hostd/tagger.py mirrors `struct tagger_policy` and the counters. Invariant: a wrong value in any map gives a
 * wrong priority, never a wrong packet.
 *
 *   flows     socket storage, group qclimb 0660: the library leaves a flow's rule at its own socket. Key: the socket's
 *             descriptor, so that nobody reaches another one's flows, and the kernel takes the rule away with the
 *             socket.
 *   paths     group qclimb 0640: between which addresses the tagger has seen a connection begin. Only those are left to
 *             it.
 *   policy, counts, orders (socket storage: order.h), and those of the kernel mode (stream.h)   0600: hostd's.
 */
#ifndef QCLIMB_TAGGER_H
#define QCLIMB_TAGGER_H

#include <stdint.h>

#include <qclimb/priority.h>
#include <qclimb/record.h>

#define TAGGER_JUDGED 16 /* priorities that the filter knows; past them SACKs are shown */

enum tagger_flag {
	TAGGER_FILTER = 1, /* hide the SACKs of what was only overtaken */
	TAGGER_SCOPED = 2, /* and of sockets alone that have a rule: the kernel mode touches nobody else's */
};

/* tagger_socket.before.start where the kernel mode found the flow: there are no bytes before it, and no position. */
#define TAGGER_BY_KERNEL (UINT64_MAX - 1)

struct tagger_policy {
	uint64_t threshold_bytes[QCLIMB_MAX_PRIORITIES]; /* as in struct qclimb_policy */
	uint32_t priorities; /* 0: every packet is left as it is */
	uint32_t flags; /* enum tagger_flag, or-ed */
	uint8_t dscp[QCLIMB_MAX_PRIORITIES];
	/*
	 * [p]: a bit for each priority whose packets never overtake those of p: on the same path, and served no earlier.
	 * Where it passes bytes of p, they are lost (order.h)
	 */
	uint16_t proves[TAGGER_JUDGED];
	uint8_t rest_dscp; /* of SYNs and pure ACKs */
	uint8_t reserved[7];
};

/* The rule of one flow: struct qclimb_flow_rule and where it begins. */
struct tagger_flow {
	uint64_t
		start; /* position of its first byte in the connection's stream, by the kernel's count of bytes ACKed */
	struct qclimb_bounds bounds;
	uint64_t footprint_bytes; /* demotion goes by max(B, this) */
};

struct tagger_socket {
	struct tagger_flow now;
	struct tagger_flow
		before; /* bytes before now.start that are still to be sent; start UINT64_MAX: there are none */
	uint64_t asked_bytes; /* of `now`, what the application asked to send so far; less than was sent: not known */
	uint64_t has_no_order; /* the kernel mode's: it never left priority 0 */
};

/* IPv4 as v4-mapped IPv6 addresses. */
struct tagger_path {
	uint8_t local[16], peer[16];
};

enum tagger_count {
	TAGGER_TAGGED, /* packets whose DSCP was changed */
	TAGGER_HIDDEN, /* SACKs cut: what was only overtaken, so far */
	TAGGER_SHOWN, /* SACKs of connections that left priority 0 that were proof as a whole */
	TAGGER_COUNTS,
};

/* What the kernel mode tells of a finished flow. */
struct kernel_record {
	struct qclimb_record record;
	uint64_t flows; /* that it stands for: those like it that no record tells of, and itself */
};

enum kernel_count {
	KERNEL_FLOWS, /* flows that the kernel mode found, as its records tell */
	KERNEL_DROPPED, /* those of records that found no room */
	KERNEL_SOCKETS, /* sockets opened in scope */
	KERNEL_COUNTS,
};

#endif
