/*
 * The policy file of a host, /run/qclimb/policy, and what must hold before a byte of it is used.
 * Its layout and ranges stand in layout.h. Written by hostd, by rename; read into private memory.
 * Invariant: a struct that qclimb_policy_verify() accepted cannot make any function of these headers leave its bounds.
 */
#ifndef QCLIMB_POLICY_H
#define QCLIMB_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "priority.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "qclimb's host files are little endian, and so must the host be"
#endif

enum qclimb_mode {
	QCLIMB_OFF, /* pass through */
	QCLIMB_OBSERVE, /* records only */
	QCLIMB_PIAS, /* demotion by bytes sent */
	QCLIMB_FULL, /* Algorithm 1 with forest and footprint as the flags say */
};

#define QCLIMB_BALANCED UINT32_MAX

/*
 * The number of the spine that packets of `priority` take; QCLIMB_BALANCED: they spread over all, or there is one path.
 * Priorities stand on spines row by row (qclimb/bigspine.py), the last one on all.
 */
static inline uint32_t qclimb_policy_path(const struct qclimb_policy *policy, uint32_t priority)
{
	if (policy->spines < 2 || priority + 1 >= policy->priorities)
		return QCLIMB_BALANCED;
	return priority % policy->spines;
}

/* Whether packets of two priorities can't overtake each other by another spine, so that their queue alone matters. */
static inline int qclimb_policy_shares_path(const struct qclimb_policy *policy, uint32_t a, uint32_t b)
{
	return qclimb_policy_path(policy, a) == qclimb_policy_path(policy, b);
}

/* The DSCP of what carries no flow's bytes for the first time: SYN, pure ACK, retransmission; a socket at rest has it. */
static inline uint8_t qclimb_policy_rest_dscp(const struct qclimb_policy *policy)
{
	return policy->unpinned_dscp ? policy->unpinned_dscp & 63 : policy->dscp[0] & 63;
}

#ifndef __bpf__ /* verified in user space, before anything reaches the kernel */

#include <errno.h>

#include "crc32.h"
#include "wire.h"

/*
 * What a host without hostd runs on: PIAS over 8 priorities. Thresholds: web search, 46 to 2001 packets of 1460 bytes,
 * of the PIAS authors' NS-2 scripts of October 2015, the set closest to the NSDI'15 paper.
 */
static inline void qclimb_policy_default(struct qclimb_policy *policy)
{
	static const uint16_t packets[8] = { 0, 46, 1084, 1717, 1943, 1989, 1999, 2001 };

	qclimb_policy_set_defaults(policy);
	policy->generation = 0;
	policy->mode = QCLIMB_PIAS;
	policy->priorities = 8;
	policy->slack_bytes = 0;
	for (uint32_t p = 0; p < QCLIMB_MAX_PRIORITIES; p++) {
		policy->threshold_bytes[p] = p < 8 ? UINT64_C(1460) * packets[p] : UINT64_MAX;
		policy->dscp[p] = p < 8 ? qclimb_default_dscp(p) : 0;
	}
	policy->crc32 = qclimb_crc32(policy, offsetof(struct qclimb_policy, crc32));
}

/* 0, or -EINVAL where a field that the other headers rely on is impossible. */
static inline int qclimb_policy_check(const struct qclimb_policy *policy)
{
	uint64_t dscps = 0; /* a bit for each DSCP seen */
	const uint32_t spines = policy->spines;

	if (!qclimb_policy_is_in_range(policy))
		return -EINVAL;
	if (policy->priorities < 1 || policy->priorities > QCLIMB_MAX_PRIORITIES)
		return -EINVAL;
	if (policy->threshold_bytes[0] != 0)
		return -EINVAL;
	for (uint32_t p = 1; p < QCLIMB_MAX_PRIORITIES; p++) {
		if (p >= policy->priorities) {
			if (policy->threshold_bytes[p] != UINT64_MAX)
				return -EINVAL;
		} else if (policy->threshold_bytes[p] <= policy->threshold_bytes[p - 1] ||
			   policy->threshold_bytes[p] == UINT64_MAX) {
			return -EINVAL;
		}
	}
	for (uint32_t p = 0; p < policy->priorities; p++) {
		if (policy->dscp[p] > 63 || dscps >> policy->dscp[p] & 1)
			return -EINVAL;
		dscps |= UINT64_C(1) << policy->dscp[p];
	}
	if (spines > 1 && (policy->priorities == 1 || (policy->priorities - 1) % spines))
		return -EINVAL;
	if (policy->unpinned_dscp && dscps >> policy->unpinned_dscp & 1)
		return -EINVAL;
	return 0;
}

/*
 * Whether `len` bytes at `bytes` (aligned to 8) are a policy: 0, else -EMSGSIZE (length), -EINVAL (not a policy, or a
 * field that is impossible), -EPROTONOSUPPORT (another version) or -EBADMSG (damaged: the checksum differs).
 */
static inline int qclimb_policy_verify(const void *bytes, size_t len)
{
	const struct qclimb_policy *policy = (const struct qclimb_policy *)bytes;

	if (len != sizeof(*policy))
		return -EMSGSIZE;
	if (policy->magic != QCLIMB_POLICY_MAGIC)
		return -EINVAL;
	if (policy->version != QCLIMB_POLICY_VERSION || policy->struct_bytes != sizeof(*policy))
		return -EPROTONOSUPPORT;
	if (policy->crc32 != qclimb_crc32(bytes, offsetof(struct qclimb_policy, crc32)))
		return -EBADMSG;
	return qclimb_policy_check(policy);
}

#endif /* __bpf__ */
#endif
