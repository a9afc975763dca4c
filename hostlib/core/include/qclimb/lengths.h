/*
 * The file /run/qclimb/lengths: which services' messages tell their size, and how. Its layout stands in layout.h.
 * Written by hostd, by rename; read into private memory. Invariant: an entry of a file that qclimb_lengths_verify()
 * accepted has a rule that holds (length.h), or none.
 */
#ifndef QCLIMB_LENGTHS_H
#define QCLIMB_LENGTHS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "crc32.h"
#include "layout.h"
#include "length.h"

enum qclimb_length_state { QCLIMB_LENGTH_FORBIDDEN, QCLIMB_LENGTH_TRIAL, QCLIMB_LENGTH_IN_FORCE };

/* Linux's default, and above: for where the range can't be read. */
static inline struct qclimb_port_range qclimb_port_range_default(void)
{
	const struct qclimb_port_range range = { 32768, 65535 };

	return range;
}

/* Two decimal numbers, as /proc/sys/net/ipv4/ip_local_port_range has them; else the default. */
static inline struct qclimb_port_range qclimb_port_range_of(const char *text, size_t len)
{
	struct qclimb_port_range range;
	uint32_t port[2] = { 0, 0 };
	size_t at = 0;

	for (int i = 0; i < 2; i++) {
		const size_t from = at;

		for (; at < len && text[at] >= '0' && text[at] <= '9' && at - from < 5; at++)
			port[i] = 10 * port[i] + (uint32_t)(text[at] - '0');
		if (at == from)
			return qclimb_port_range_default();
		while (at < len && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n'))
			at++;
	}
	if (at != len || port[0] < 1 || port[0] > port[1] || port[1] > 65535)
		return qclimb_port_range_default();
	range.first = (uint16_t)port[0];
	range.last = (uint16_t)port[1];
	return range;
}

/* The entry number `index`, which must be one. */
static inline struct qclimb_length_entry qclimb_length_entry_at(const void *bytes, uint32_t index)
{
	struct qclimb_length_entry entry;

	memcpy(&entry, (const char *)bytes + sizeof(struct qclimb_lengths_header) + index * sizeof(entry),
	       sizeof(entry));
	return entry;
}

static inline int qclimb_length_entry_holds(const struct qclimb_length_entry *entry)
{
	const struct qclimb_length_rule rule = qclimb_length_rule_of(entry);

	if (entry->role > 1 || entry->state > QCLIMB_LENGTH_IN_FORCE || entry->is_exact > 1 ||
	    memchr(entry->comm, 0, sizeof(entry->comm)) == NULL)
		return 0;
	return !rule.width || qclimb_length_rule_holds(&rule);
}

/*
 * Whether `len` bytes (aligned to 4) are such a file: the number of its entries, else -EMSGSIZE (length), -EINVAL (no
 * such file, or an entry that is impossible), -EPROTONOSUPPORT (another version) or -EBADMSG (the checksum differs).
 */
static inline int qclimb_lengths_verify(const void *bytes, size_t len)
{
	struct qclimb_lengths_header header;
	uint32_t crc;

	if (len < sizeof(header) + sizeof(crc))
		return -EMSGSIZE;
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != QCLIMB_LENGTHS_MAGIC)
		return -EINVAL;
	if (header.version != QCLIMB_LENGTHS_VERSION || header.entry_bytes != sizeof(struct qclimb_length_entry))
		return -EPROTONOSUPPORT;
	if (header.count > QCLIMB_LENGTHS_MOST ||
	    len != sizeof(header) + header.count * sizeof(struct qclimb_length_entry) + sizeof(crc))
		return -EMSGSIZE;
	memcpy(&crc, (const char *)bytes + len - sizeof(crc), sizeof(crc));
	if (crc != qclimb_crc32(bytes, len - sizeof(crc)))
		return -EBADMSG;
	for (uint32_t i = 0; i < header.count; i++) {
		const struct qclimb_length_entry entry = qclimb_length_entry_at(bytes, i);

		if (!qclimb_length_entry_holds(&entry))
			return -EINVAL;
	}
	return (int)header.count;
}

#endif
