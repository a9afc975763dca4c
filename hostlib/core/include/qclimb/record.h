/*
 * What a shim tells hostd about finished flows: datagrams to /run/qclimb/records, a header and `count` records each.
 * Plain data, little endian; the Python twin is qclimb.record. Invariant: no padding, so that no stack byte leaves the
 * process.
 */
#ifndef QCLIMB_RECORD_H
#define QCLIMB_RECORD_H

#include <stdint.h>

#define QCLIMB_RECORD_MAGIC 0x31524351u /* "QCR1" */
#define QCLIMB_RECORD_VERSION 1
#define QCLIMB_LAST_SIZES 5

enum qclimb_record_flag {
	QCLIMB_RECORD_CLOSED = 1, /* ended by close or shutdown, not by a next flow */
	QCLIMB_RECORD_WAIT_RAN_OUT = 2, /* promote_wait_us passed before a drain at least once */
	QCLIMB_RECORD_FOREST = 4, /* had bounds from a forest */
	QCLIMB_RECORD_HINT = 8, /* had the application's own size */
	QCLIMB_RECORD_UNOBSERVED =
		16, /* size_bytes has bytes that went past the library, by the kernel's count: one flow or many */
	QCLIMB_RECORD_DEADLINE = 32, /* had the application's own deadline, honoured or not */
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
	uint64_t start_ns, last_write_ns, drained_ns; /* CLOCK_MONOTONIC; drained 0: not seen */
	uint64_t size_bytes;
	uint64_t lower_bytes, upper_bytes; /* the forest's at the start; 0 and UINT64_MAX if none */
	uint64_t first_write_bytes;
	uint64_t footprint_lower_bytes; /* asked for at the first ACK seen (observe; qclimb past a burst), or in all */
	uint64_t start_us; /* since the process started */
	uint64_t gap_us; /* since the history's previous flow ended */
	uint64_t last_size_bytes[QCLIMB_LAST_SIZES]; /* the history's, newest first; 0 if none */
	uint64_t connection; /* SO_COOKIE */
	uint64_t wait_ns; /* waited at boundaries */
	uint32_t pid;
	uint32_t flow_index; /* on its connection */
	uint32_t promotions, demotions;
	uint8_t local_addr[16], peer_addr[16]; /* IPv4 as v4-mapped */
	uint16_t local_port, peer_port; /* host order */
	uint8_t role; /* 1: this side accepted */
	uint8_t mode; /* enum qclimb_mode */
	uint8_t last_priority;
	uint8_t flags; /* enum qclimb_record_flag, or-ed */
	char comm[16];
};

#endif
