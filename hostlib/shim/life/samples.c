#include "life/samples.h"

#include <string.h>

#include <qclimb/propose.h>

#include "base/process.h"
#include "rules/services.h"
#include "tell/log.h"
#include "tell/records.h"

#define SAMPLES 32u
#define SAMPLE_NS (5 * QCLIMB_NS_PER_MS) /* from one to the next, on average */
#define BURST_NS (40 * SAMPLE_NS)
#define OLD_NS (10000 * QCLIMB_NS_PER_MS) /* whose flow nobody saw end */

struct sample {
	_Atomic(struct connection *) owner; /* NULL: free; BUSY: somebody reads or fills it */
	_Atomic uint64_t taken_ns;
	atomic_bool is_paused;
	uint32_t head_bytes; /* as what follows, whoever's who made it BUSY */
	uint64_t on_trial_bytes;
	uint8_t head[QCLIMB_LENGTH_HEAD_BYTES];
};

#define BUSY ((struct connection *)1)

static struct sample samples[SAMPLES];
static _Atomic uint64_t due_ns; /* the generic cell rate algorithm's theoretical arrival time (ITU-T I.371) */

static struct sample *sample_of(const struct connection *connection)
{
	for (uint32_t i = 0; i < SAMPLES; i++)
		if (relaxed_get(samples[i].owner) == connection)
			return &samples[i];
	return NULL;
}

static bool make_busy(struct sample *sample, struct connection *owner)
{
	return atomic_compare_exchange_strong(&sample->owner, &owner, BUSY);
}

/* A free one, or one whose owner forgot it, made BUSY. */
static struct sample *take(const struct connection *connection, uint64_t now)
{
	for (uint32_t i = 0; i < SAMPLES; i++) {
		struct connection *owner = atomic_load(&samples[i].owner);

		if (owner != BUSY &&
		    (!owner || owner == connection || now - relaxed_get(samples[i].taken_ns) > OLD_NS) &&
		    make_busy(&samples[i], owner))
			return &samples[i];
	}
	return NULL;
}

static bool is_due(uint64_t now)
{
	uint64_t due = relaxed_get(due_ns);

	if (due > now + BURST_NS)
		return false;
	/* Of two threads at once one may go without. */
	return atomic_compare_exchange_strong(&due_ns, &due, (due > now ? due : now) + SAMPLE_NS);
}

void samples_take(struct connection *connection, const uint8_t *head, uint32_t head_bytes, uint64_t on_trial_bytes,
		  uint64_t now)
{
	struct sample *sample;

	if (!records_are_taken(now) || !is_due(now) || !(sample = take(connection, now)))
		return;
	relaxed_set(sample->taken_ns, now);
	sample->on_trial_bytes = on_trial_bytes;
	relaxed_set(sample->is_paused, false);
	sample->head_bytes = head_bytes < sizeof(sample->head) ? head_bytes : (uint32_t)sizeof(sample->head);
	memcpy(sample->head, head, sample->head_bytes);
	atomic_store(&sample->owner, connection);
	connection->is_sampled = true;
}

/* Whether hostd asks for what may be the type of a service's messages: its rule was right of some of them alone. */
static bool is_asked_for_tags(uint16_t port, uint8_t role)
{
	const struct service service = service_of(port, role);

	return service.is_known && service.state == QCLIMB_LENGTH_TRIAL && !service.rule.width;
}

static __attribute__((noinline)) void propose(const struct connection *connection, const struct sample *sample,
					      uint64_t size_bytes, uint64_t now)
{
	struct {
		struct qclimb_proposal told;
		struct qclimb_candidate found[QCLIMB_CANDIDATES_MOST];
		struct qclimb_tag room[QCLIMB_TAGS_MOST]; /* tags begin where the candidates end */
	} proposal = { 0 };
	struct qclimb_tag tags[QCLIMB_TAGS_MOST];
	const uint16_t port = connection->role ? connection->local_port : connection->peer_port;
	const uint32_t count = qclimb_length_candidates(sample->head, sample->head_bytes, size_bytes, proposal.found);
	size_t len = sizeof(proposal.told) + count * sizeof(proposal.found[0]);

	if (is_asked_for_tags(port, connection->role)) {
		proposal.told.tags = (uint8_t)qclimb_length_tags(sample->head, sample->head_bytes, tags);
		memcpy((char *)&proposal + len, tags, proposal.told.tags * sizeof(tags[0]));
		len += proposal.told.tags * sizeof(tags[0]);
	}
	proposal.told.magic = QCLIMB_PROPOSAL_MAGIC;
	proposal.told.version = QCLIMB_PROPOSAL_VERSION;
	proposal.told.candidates = (uint16_t)count;
	proposal.told.size_bytes = size_bytes;
	proposal.told.first_write_bytes = connection->facts.first_write_bytes;
	proposal.told.port = service_port(port);
	proposal.told.role = connection->role;
	memcpy(proposal.told.comm, qclimb_process.comm, sizeof(proposal.told.comm));
	LOG("proposes candidates=%u size=%llu", count, (unsigned long long)size_bytes);
	(void)records_send(&proposal, len, now);
}

void samples_paused(const struct connection *connection)
{
	struct sample *sample = sample_of(connection);

	if (sample)
		relaxed_set(sample->is_paused, true);
}

uint64_t samples_end(struct connection *connection, uint64_t size_bytes, bool is_whole, uint64_t now)
{
	struct sample *sample = sample_of(connection);
	uint64_t on_trial_bytes = 0;

	connection->is_sampled = false;
	if (!sample || !make_busy(sample, connection))
		return 0;
	if (sample->on_trial_bytes)
		on_trial_bytes = is_whole && (!relaxed_get(sample->is_paused) || sample->on_trial_bytes <= size_bytes)
					 ? sample->on_trial_bytes
					 : 0;
	else if (is_whole && size_bytes > connection->facts.first_write_bytes && connection->has_addresses)
		propose(connection, sample, size_bytes, now);
	atomic_store(&sample->owner, NULL);
	return on_trial_bytes;
}

void samples_after_fork(void)
{
	for (uint32_t i = 0; i < SAMPLES; i++)
		atomic_store(&samples[i].owner, NULL);
}
