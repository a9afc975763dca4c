/*
 * How a host's files and datagrams lie in memory, and the ranges of a policy's numbers. Little endian, no padding.
 * Not written by hand: `make layout` takes it from the types in gnmi-models/qclimb (policy.py, record.py, hostfile.py),
 * and a test holds it to them. policy.h, model.h and record.h say what is done with it.
 */
#ifndef QCLIMB_LAYOUT_H
#define QCLIMB_LAYOUT_H

#include <stdint.h>

#define QCLIMB_POLICY_MAGIC 0x314c4351u /* "QCL1" */
#define QCLIMB_POLICY_VERSION 1

enum qclimb_policy_flag {
	QCLIMB_USE_FOREST = 1, /* the forest's bounds count in mode `qclimb` */
	QCLIMB_USE_FOOTPRINT = 2, /* what was asked to be sent counts in mode `qclimb` */
	QCLIMB_QUICKACK = 4, /* receivers re-arm TCP_QUICKACK, so that drains are short */
	/*
	 * receivers serve one small task after another in modes `pias` and `qclimb`, in processes that start while it
	 * holds (coflow.h)
	 */
	QCLIMB_OPTAX = 8,
	/* lengths that applications write into their messages don't count, and no byte of theirs is looked at */
	QCLIMB_WITHOUT_LENGTHS = 32,
	/*
	 * on several spines a demotion to another one waits until what went before is ACKed, so that nothing overtakes
	 */
	QCLIMB_DRAIN_PATHS = 16,
};

struct qclimb_policy {
	uint32_t magic;
	uint16_t version;
	uint16_t struct_bytes; /* sizeof(struct qclimb_policy) */
	uint64_t generation;
	uint32_t mode; /* enum qclimb_mode */
	uint32_t flags; /* enum qclimb_policy_flag, or-ed */
	uint32_t priorities; /* 1 to QCLIMB_MAX_PRIORITIES */
	uint32_t flow_gap_us; /* a pause after which a drained connection's next write starts a new flow */
	uint32_t promote_wait_us; /* longest wait for the drain before a promotion */
	/*
	 * the last so many us before a deadline that the application told belong to priority 0 in mode `qclimb`, twice
	 * as many to each later one (deadline.h); 0: not honoured, for who tells false ones is served before others
	 */
	uint32_t deadline_step_us;
	uint64_t slack_bytes; /* that a flow may send at priority 0 past its lower bound (QCLIMB, Algorithm 1) */
	uint64_t small_coflow_bytes; /* a coflow is small while none of its flows has a larger footprint (OPTAX) */
	uint64_t model_generation; /* the forest that belongs to it; 0: none */
	/* [p]: where priority p begins, strictly ascending; in files [0] = 0 and the unused ones are 2^64-1 */
	uint64_t threshold_bytes[64];
	uint8_t dscp[64]; /* [p]: of priority p, served-first order; 0..63, distinct, P of them from 1 to 64 */
	/*
	 * that priorities are pinned to, row by row: p to number p mod spines, the last one to none (Big-Spine); 0, 1:
	 * all priorities take one path
	 */
	uint8_t spines;
	/*
	 * of packets that carry no flow's bytes for the first time (SYN, pure ACK, retransmission): served as priority
	 * 0, pinned to no spine; 0: none, they carry priority 0's
	 */
	uint8_t unpinned_dscp;
	uint16_t reserved1;
	uint32_t crc32; /* of all bytes before */
};

/* What tells the file's kind, and each field that has a default at it. */
static inline void qclimb_policy_set_defaults(struct qclimb_policy *policy)
{
	policy->magic = QCLIMB_POLICY_MAGIC;
	policy->version = QCLIMB_POLICY_VERSION;
	policy->struct_bytes = sizeof(*policy);
	policy->flags = QCLIMB_USE_FOREST | QCLIMB_USE_FOOTPRINT | QCLIMB_QUICKACK;
	policy->small_coflow_bytes = 1048576;
	policy->flow_gap_us = 5000;
	policy->promote_wait_us = 100000;
	policy->model_generation = 0;
	policy->deadline_step_us = 0;
	policy->spines = 0;
	policy->unpinned_dscp = 0;
	policy->reserved1 = 0;
}

/* Whether no number is beyond its range. */
static inline int qclimb_policy_is_in_range(const struct qclimb_policy *policy)
{
	if (policy->mode > 3)
		return 0;
	if (policy->flags > 63)
		return 0;
	if (policy->promote_wait_us > 10000000)
		return 0;
	if (policy->spines > 63)
		return 0;
	if (policy->unpinned_dscp > 63)
		return 0;
	return 1;
}

#define QCLIMB_MODEL_MAGIC 0x314d4351u /* "QCM1" */
#define QCLIMB_MODEL_VERSION 1

struct qclimb_model_header {
	uint32_t magic;
	uint16_t version;
	uint16_t header_bytes; /* sizeof(struct qclimb_model_header) */
	uint64_t generation;
	uint32_t trees;
	uint32_t depth;
	uint32_t nodes;
	uint32_t leaves; /* == nodes: the two bound arrays have an entry a node */
	uint32_t features;
	uint8_t feature_id[16];
	uint32_t reserved;
};

struct qclimb_node {
	int32_t threshold_key; /* row key <= this: to child, else to child + 1 */
	int32_t feature;
	int32_t child;
};

#define QCLIMB_RECORD_MAGIC 0x31524351u /* "QCR1" */
#define QCLIMB_RECORD_VERSION 2
#define QCLIMB_RECORD_MANY 64 /* flows: QCLIMB_RECORD_FOR_MANY */

enum qclimb_record_flag {
	QCLIMB_RECORD_CLOSED = 1, /* ended by close or shutdown, not by a next flow */
	QCLIMB_RECORD_WAIT_RAN_OUT = 2, /* promote_wait_us passed before a drain at least once */
	QCLIMB_RECORD_FOREST = 4, /* had bounds from a forest */
	QCLIMB_RECORD_HINT = 8, /* had the application's own size */
	QCLIMB_RECORD_UNOBSERVED = 16, /* some bytes went past the library, by the kernel's count: one flow or many */
	QCLIMB_RECORD_DEADLINE = 32, /* had the application's own deadline, honoured or not */
	QCLIMB_RECORD_LENGTH = 64, /* what its bytes announced was a bound of its size */
	/* ended amid the message that was announced; the next flow of the connection goes on with it */
	QCLIMB_RECORD_CUT = 128,
	/* tells of 64 small flows, this one among them; in a sample it is one as any other */
	QCLIMB_RECORD_FOR_MANY = 256,
};

enum qclimb_announced_by {
	QCLIMB_BY_NOBODY = 0,
	QCLIMB_BY_HTTP = 1, /* Content-Length, as HTTP/1.x has it */
	QCLIMB_BY_RULE = 2, /* a rule in force for the service (lengths.py) */
	QCLIMB_BY_TRIAL = 3, /* a rule on trial: told, not used */
};

struct qclimb_record_header {
	uint32_t magic;
	uint16_t version;
	uint16_t record_bytes; /* sizeof(struct qclimb_record) */
	uint32_t count;
	uint32_t dropped; /* records that this process could not hand over since the last header */
	uint64_t hostlib_generation; /* generation of the policy in force */
};

struct qclimb_record {
	uint64_t start_ns; /* CLOCK_MONOTONIC of the host, as the next two */
	uint64_t last_write_ns;
	uint64_t drained_ns; /* 0: not seen */
	uint64_t size_bytes; /* what the flow turned out to be, at least 1 */
	uint64_t lower_bytes; /* the forest's bounds at the start; 0 and 2^64-1 without */
	uint64_t upper_bytes;
	uint64_t first_write_bytes; /* what the first call asked to send */
	/*
	 * asked for at the first ACK seen, at a call (observe: at each; qclimb: past a burst; pias: never), or in all
	 */
	uint64_t footprint_lower_bytes;
	uint64_t announced_bytes; /* what its first bytes, or those of the message before, said; 0: nothing */
	uint64_t start_us; /* since the process started */
	uint64_t gap_us; /* since the history's previous flow ended */
	uint64_t last_size_bytes[5]; /* the history's, newest first; 0: none */
	uint64_t connection; /* SO_COOKIE */
	uint64_t wait_ns; /* that the application's data waited at boundaries */
	uint32_t pid;
	uint32_t flow_index; /* on its connection */
	uint16_t promotions;
	uint16_t demotions;
	uint32_t flags; /* enum qclimb_record_flag, or-ed */
	uint8_t local_addr[16]; /* IPv4 as v4-mapped */
	uint8_t peer_addr[16];
	uint16_t local_port; /* host order */
	uint16_t peer_port;
	uint8_t role; /* 1: this side accepted the connection, 0: it connected */
	uint8_t mode; /* enum qclimb_mode */
	uint8_t last_priority;
	uint8_t announced_by; /* enum qclimb_announced_by */
	char comm[16]; /* the process's name */
};

#define QCLIMB_LENGTHS_MAGIC 0x314e4351u /* "QCN1" */
#define QCLIMB_LENGTHS_VERSION 1

struct qclimb_lengths_header {
	uint32_t magic;
	uint16_t version;
	uint16_t entry_bytes; /* sizeof(struct qclimb_length_entry) */
	uint32_t count; /* of entries, which follow; then a CRC-32 (uint32_t) of all bytes before it */
	uint32_t reserved;
};

struct qclimb_length_entry {
	char comm[16]; /* the process's name */
	uint16_t port; /* of the listening side; 0: all of the kernel's choice */
	uint8_t role; /* 1: this side accepts, 0: it connects */
	uint8_t state; /* 0: its bytes are not looked at, 1: on trial, 2: in force */
	int16_t constant_bytes; /* of the rule, as the next ones (length.h) */
	uint8_t offset;
	uint8_t width; /* 0: there is no rule, and HTTP needs none; on trial: proposals tell tags, too */
	uint8_t is_big_endian;
	uint8_t has_tag;
	uint8_t tag_offset;
	uint8_t tag;
	uint8_t is_exact; /* seen exact, so often that it is an upper bound, too */
	uint8_t reserved0;
	uint16_t reserved1;
};

#define QCLIMB_PROPOSAL_MAGIC 0x31504351u /* "QCP1" */
#define QCLIMB_PROPOSAL_VERSION 1

struct qclimb_proposal {
	uint32_t magic;
	uint16_t version;
	uint16_t candidates; /* which follow: QCLIMB_CANDIDATES_MOST at most */
	uint64_t size_bytes; /* what the flow turned out to be */
	uint64_t first_write_bytes; /* less than that */
	char comm[16];
	uint16_t port;
	uint8_t role;
	uint8_t tags; /* which follow the candidates: QCLIMB_TAGS_MOST at most */
	uint32_t reserved1;
};

struct qclimb_candidate {
	int16_t constant_bytes; /* the flow's size - the number */
	uint8_t offset;
	uint8_t shape; /* the number's width, and 128 where it is big endian */
};

struct qclimb_tag {
	uint8_t offset;
	uint8_t tag; /* the byte there: a small number */
};

#endif
