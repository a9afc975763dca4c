#include "rules/services.h"

#include <string.h>
#include <sys/mman.h>

#include "base/process.h"
#include "rules/file.h"
#include "tell/log.h"

#define TABLES 4
#define SERVICES_MOST 64 /* of one program */
#define FILE_MOST_BYTES                                                                                                \
	(sizeof(struct qclimb_lengths_header) + QCLIMB_LENGTHS_MOST * sizeof(struct qclimb_length_entry) +             \
	 sizeof(uint32_t))

/* What a service is known by, and what is known of it, in one word; the rule is another. */
#define KEY_OF(port, role) ((uint64_t)(port) | (uint64_t)(role) << 16 | UINT64_C(1) << 17)
#define KEY_MASK ((UINT64_C(1) << 18) - 1)
#define STATE_SHIFT 18
#define EXACT_SHIFT 20

struct table {
	_Atomic uint32_t count;
	struct {
		_Atomic uint64_t key;
		_Atomic uint64_t rule;
	} entry[SERVICES_MOST];
};

_Static_assert(sizeof(struct qclimb_length_rule) == sizeof(uint64_t), "a rule is read at once");

static struct table tables[TABLES]; /* the first is empty until three files were read */
static _Atomic uint32_t current;
_Atomic uint32_t qclimb_services;
static struct stamp stamp; /* of the file last read, by whoever is looking */
static _Atomic uint32_t kernels_ports; /* first and last, 16 bits each; 0: not read yet */

/* Once, when there is a hostd to learn: of the network namespace that this process is in then. */
static void read_kernels_ports(void)
{
	char text[32];
	const ssize_t len = read_file("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof(text));
	const struct qclimb_port_range range = qclimb_port_range_of(text, len > 0 ? (size_t)len : 0);

	relaxed_set(kernels_ports, (uint32_t)range.first << 16 | range.last);
	LOG("ports of the kernel's choice: %u to %u", range.first, range.last);
}

uint16_t service_port(uint16_t port)
{
	const uint32_t word = relaxed_get(kernels_ports);
	const struct qclimb_port_range range = { (uint16_t)(word >> 16), (uint16_t)word };

	return qclimb_length_port(port, word ? range : qclimb_port_range_default());
}

/* Those of this program; more than SERVICES_MOST, the first ones. */
static uint32_t take(struct table *table, const void *bytes, uint32_t entries)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < entries && count < SERVICES_MOST; i++) {
		const struct qclimb_length_entry entry = qclimb_length_entry_at(bytes, i);
		const struct qclimb_length_rule rule = qclimb_length_rule_of(&entry);
		uint64_t word;

		if (strncmp(entry.comm, qclimb_process.comm, sizeof(entry.comm)) != 0)
			continue;
		memcpy(&word, &rule, sizeof(word));
		relaxed_set(table->entry[count].rule, word);
		relaxed_set(table->entry[count].key, KEY_OF(entry.port, entry.role) |
							     (uint64_t)entry.state << STATE_SHIFT |
							     (uint64_t)entry.is_exact << EXACT_SHIFT);
		count++;
	}
	return count;
}

static void publish(const void *bytes, uint32_t entries)
{
	const uint32_t next = (atomic_load(&current) + 1) % TABLES;
	const uint32_t count = take(&tables[next], bytes, entries);

	atomic_store(&tables[next].count, count);
	atomic_store(&current, next);
	atomic_store(&qclimb_services, count);
	LOG("lengths services=%u of %u", count, entries);
}

void services_look(void)
{
	const struct stamp now = stamp_of(qclimb_process.lengths_path);
	void *bytes;
	ssize_t len;
	int count;

	if (is_same(&now, &stamp))
		return;
	stamp = now;
	if (!now.exists) {
		publish(NULL, 0);
		return;
	}
	if (!relaxed_get(kernels_ports))
		read_kernels_ports();
	/* Not on the stack, of which an application's thread may have little. */
	bytes = mmap(NULL, FILE_MOST_BYTES + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return;
	len = read_file(qclimb_process.lengths_path, bytes, FILE_MOST_BYTES + 1);
	count = len < 0 ? (int)len : qclimb_lengths_verify(bytes, (size_t)len);
	if (count >= 0)
		publish(bytes, (uint32_t)count);
	else
		LOG("lengths file refused: error %d", -count);
	munmap(bytes, FILE_MOST_BYTES + 1);
}

struct service service_of(uint16_t port, uint8_t role)
{
	const struct table *table = &tables[relaxed_get(current)];
	const uint64_t wanted = KEY_OF(port, role), any = KEY_OF(service_port(port), role);
	const uint32_t count = atomic_load_explicit(&table->count, memory_order_acquire);
	struct service found = { 0 };

	for (uint32_t i = 0; i < count && i < SERVICES_MOST; i++) {
		const uint64_t key = relaxed_get(table->entry[i].key), rule = relaxed_get(table->entry[i].rule);

		if ((key & KEY_MASK) != wanted && ((key & KEY_MASK) != any || found.is_known))
			continue;
		found.is_known = true;
		found.is_exact = key >> EXACT_SHIFT & 1;
		found.state = key >> STATE_SHIFT & 3;
		memcpy(&found.rule, &rule, sizeof(rule));
		if ((key & KEY_MASK) == wanted)
			break;
	}
	return found;
}
