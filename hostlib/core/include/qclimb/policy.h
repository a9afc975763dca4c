/*
 * The policy file of a host, /run/qclimb/policy, and what must hold before a byte of it is used.
 * Little endian, fixed size; the Python twin is qclimb.hostfile. Written by hostd, by rename; read into private memory.
 * Invariant: a struct that qclimb_policy_verify() accepted cannot make any function of these headers leave its bounds.
 */
#ifndef QCLIMB_POLICY_H
#define QCLIMB_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "priority.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "qclimb's host files are little endian, and so must the host be"
#endif

#define QCLIMB_POLICY_MAGIC 0x314c4351u /* "QCL1" */
#define QCLIMB_POLICY_VERSION 1
#define QCLIMB_MAX_PROMOTE_WAIT_US                                                                                     \
	10000000u /* an application never waits longer than 10 s for us, whatever a file says */

enum qclimb_mode {
	QCLIMB_OFF, /* pass through */
	QCLIMB_OBSERVE, /* records only */
	QCLIMB_PIAS, /* demotion by bytes sent */
	QCLIMB_FULL, /* Algorithm 1 with forest and footprint as the flags say */
};

enum qclimb_policy_flag {
	QCLIMB_USE_FOREST = 1,
	QCLIMB_USE_FOOTPRINT = 2,
	QCLIMB_QUICKACK = 4, /* receiving shims re-arm TCP_QUICKACK */
	QCLIMB_OPTAX = 8, /* receiving shims serve one small task after another (coflow.h) */
};

struct qclimb_policy {
	uint32_t magic;
	uint16_t version;
	uint16_t struct_bytes; /* sizeof(struct qclimb_policy) */
	uint64_t generation;
	uint32_t mode; /* enum qclimb_mode */
	uint32_t flags; /* enum qclimb_policy_flag, or-ed */
	uint32_t priorities; /* 1 to QCLIMB_MAX_PRIORITIES */
	uint32_t flow_gap_us; /* a quiet time that ends a flow */
	uint32_t promote_wait_us; /* longest wait for a drain, 0 to QCLIMB_MAX_PROMOTE_WAIT_US */
	uint32_t deadline_step_us; /* deadline.h; 0: deadlines that applications tell are not honoured */
	uint64_t slack_bytes;
	uint64_t small_coflow_bytes;
	uint64_t model_generation; /* 0: none */
	uint64_t threshold_bytes[QCLIMB_MAX_PRIORITIES]; /* [0] = 0, [p] = where p begins; unused: UINT64_MAX */
	uint8_t dscp[QCLIMB_MAX_PRIORITIES]; /* [p] of priority p */
	uint32_t reserved1;
	uint32_t crc32; /* of all bytes before */
};

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

	policy->magic = QCLIMB_POLICY_MAGIC;
	policy->version = QCLIMB_POLICY_VERSION;
	policy->struct_bytes = sizeof(*policy);
	policy->generation = 0;
	policy->mode = QCLIMB_PIAS;
	policy->flags = QCLIMB_USE_FOREST | QCLIMB_USE_FOOTPRINT | QCLIMB_QUICKACK;
	policy->priorities = 8;
	policy->flow_gap_us = 5000;
	policy->promote_wait_us = 100000;
	policy->deadline_step_us = 0;
	policy->slack_bytes = 0;
	policy->small_coflow_bytes = 1 << 20;
	policy->model_generation = 0;
	for (uint32_t p = 0; p < QCLIMB_MAX_PRIORITIES; p++) {
		policy->threshold_bytes[p] = p < 8 ? UINT64_C(1460) * packets[p] : UINT64_MAX;
		policy->dscp[p] = p < 8 ? qclimb_default_dscp(p) : 0;
	}
	policy->reserved1 = 0;
	policy->crc32 = qclimb_crc32(policy, offsetof(struct qclimb_policy, crc32));
}

/* 0, or -EINVAL where a field that the other headers rely on is impossible. */
static inline int qclimb_policy_check(const struct qclimb_policy *policy)
{
	uint64_t dscps = 0; /* a bit for each DSCP seen */

	if (policy->mode > QCLIMB_FULL)
		return -EINVAL;
	if (policy->flags & ~(uint32_t)(QCLIMB_USE_FOREST | QCLIMB_USE_FOOTPRINT | QCLIMB_QUICKACK | QCLIMB_OPTAX))
		return -EINVAL;
	if (policy->priorities < 1 || policy->priorities > QCLIMB_MAX_PRIORITIES)
		return -EINVAL;
	if (policy->promote_wait_us > QCLIMB_MAX_PROMOTE_WAIT_US)
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
