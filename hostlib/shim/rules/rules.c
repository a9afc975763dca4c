#include "rules/rules.h"

#include <string.h>
#include <sys/mman.h>

#include <qclimb/model.h>
#include <qclimb/wire.h>

#include "tell/log.h"
#include "base/process.h"
#include "rules/file.h"
#include "rules/services.h"

#define LOOK_NS (200 * QCLIMB_NS_PER_MS)
#define RULES_SLOTS 16 /* a slot that a killed thread left acquired is lost; with none free the last rules stay */
#define MODEL_SLOTS 4
#define MODEL_MAX_BYTES (64u << 20)

struct model {
	struct qclimb_forest forest;
	void *memory;
	size_t memory_bytes;
};

_Atomic uint64_t qclimb_rules_generation;
atomic_bool qclimb_rules_quickack;
_Atomic uint32_t qclimb_rules_calm;
_Atomic uint8_t qclimb_rules_rest;
atomic_bool qclimb_rules_heads;
static void (*also_look)(void);
static struct rules slots[RULES_SLOTS];
static struct model models[MODEL_SLOTS];
static _Atomic(struct rules *) current;
static _Atomic uint64_t looked_ns;
static atomic_flag is_looking = ATOMIC_FLAG_INIT; /* tried, never waited for */
static struct stamp policy_stamp, model_stamp; /* of the files last read, by whoever is looking */
static bool has_file_policy; /* a verified policy came from the run directory at least once */

/*
 * The policy of a file: 0 or -errno (ENOEXEC: JSON). One byte more than a policy is asked for: a longer file is no policy. Called by
 * whoever is looking: what it reads into is nobody else's, and not on the stack, of which an application's thread or
 * signal handler may have little.
 */
static int read_policy(const char *path, struct qclimb_policy *policy)
{
	static union {
		struct qclimb_policy policy;
		char bytes[sizeof(struct qclimb_policy) + 8];
	} file;
	const ssize_t len = path[0] ? read_file(path, &file, sizeof(file)) : -ENOENT;
	int error;

	if (len < 0)
		return (int)len;
	error = qclimb_policy_verify(&file, (size_t)len);
	if (!error)
		*policy = file.policy;
	else if (len && file.bytes[0] == '{')
		error = -ENOEXEC;
	return error;
}

static bool model_is_used(int model)
{
	for (int i = 0; i < RULES_SLOTS; i++)
		if (slots[i].model == model && (&slots[i] == atomic_load(&current) || atomic_load(&slots[i].readers)))
			return true;
	return false;
}

static void *map_private(size_t len)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Loads a model of `generation` into a free slot: the slot, or -1. One already loaded is taken as it is. */
static int load_model(const char *path, uint64_t generation)
{
	struct qclimb_forest forest;
	void *bytes, *memory = NULL;
	size_t room, memory_bytes = 0;
	ssize_t len;
	int slot = -1;

	for (int i = 0; i < MODEL_SLOTS; i++)
		if (models[i].memory && models[i].forest.generation == generation)
			return i;
	for (int i = 0; i < MODEL_SLOTS && slot < 0; i++)
		if (!model_is_used(i))
			slot = i;
	if (slot < 0 || !model_stamp.exists || model_stamp.bytes <= 0 || model_stamp.bytes > MODEL_MAX_BYTES)
		return -1;
	room = (size_t)model_stamp.bytes + 1;
	bytes = map_private(room);
	if (!bytes)
		return -1;
	len = read_file(path, bytes, room);
	if (len > 0)
		memory_bytes = qclimb_model_memory_bytes(bytes, (size_t)len);
	if (memory_bytes)
		memory = map_private(memory_bytes);
	if (!memory || qclimb_model_load(bytes, (size_t)len, memory, memory_bytes, &forest) ||
	    forest.generation != generation) {
		LOG("model refused or not of generation %llu", (unsigned long long)generation);
		if (memory)
			munmap(memory, memory_bytes);
		slot = -1;
	} else {
		if (models[slot].memory)
			munmap(models[slot].memory, models[slot].memory_bytes);
		models[slot] = (struct model){ forest, memory, memory_bytes };
	}
	munmap(bytes, room);
	return slot;
}

uint32_t calm_of(const struct qclimb_policy *policy)
{
	uint64_t bytes = CALM_MOST_BYTES;

	if (policy->mode < QCLIMB_PIAS)
		return 0;
	/* A flow of exactly the first threshold, if that is certain, starts at priority 1 with its first byte. */
	if (policy->priorities > 1 && policy->threshold_bytes[1] - 1 < bytes)
		bytes = policy->threshold_bytes[1] - 1;
	return policy->mode << 24 | (uint32_t)qclimb_dscp_of(policy->dscp, policy->priorities, 0) << 16 |
	       (uint32_t)bytes;
}

/* Puts a policy, with its model if there is one, in force. */
static void publish(const struct qclimb_policy *policy)
{
	struct rules *old = atomic_load(&current);
	struct rules *free_slot = NULL;

	for (int i = 0; i < RULES_SLOTS && !free_slot; i++)
		if (&slots[i] != old && !atomic_load(&slots[i].readers))
			free_slot = &slots[i];
	if (!free_slot)
		return;
	/*
	 * A reader that came late may have counted itself into this slot before it sees that it is no longer in force;
	 * it reads nothing then. So the slot may be written.
	 */
	free_slot->policy = *policy;
	free_slot->model = -1;
	free_slot->forest = NULL;
	if (policy->model_generation) {
		free_slot->model = load_model(qclimb_process.model_path, policy->model_generation);
		if (free_slot->model >= 0)
			free_slot->forest = &models[free_slot->model].forest;
	}
	atomic_store(&current, free_slot);
	atomic_store(&qclimb_rules_generation, policy->generation);
	atomic_store(&qclimb_rules_calm, calm_of(policy));
	atomic_store(&qclimb_rules_rest, qclimb_policy_rest_dscp(policy));
	atomic_store(&qclimb_rules_heads, (policy->mode == QCLIMB_OBSERVE || policy->mode == QCLIMB_FULL) &&
						  !(policy->flags & QCLIMB_WITHOUT_LENGTHS));
	atomic_store(&qclimb_rules_quickack, policy->mode >= QCLIMB_PIAS && policy->flags & QCLIMB_QUICKACK);
	LOG("policy generation=%llu mode=%s priorities=%u forest=%d", (unsigned long long)policy->generation,
	    mode_word(policy->mode), policy->priorities, free_slot->forest != NULL);
}

static const char *refusal_of(int error)
{
	switch (-error) {
	case ENOENT:
		return "there is no such file";
	case EACCES:
		return "this user may not read it";
	case EPERM:
		return "others than this user and root may write it";
	case ENOEXEC:
		return "it is JSON";
	case EPROTONOSUPPORT:
		return "it is a policy of another version";
	case EBADMSG:
		return "it is damaged (its checksum differs)";
	default:
		return "it is no policy";
	}
}

/* What holds without a file: built-in PIAS, but where an operator decides, nobody is marked without his word. */
static void policy_without_file(bool is_managed, bool is_first, struct qclimb_policy *policy)
{
	int error = 0;

	qclimb_policy_default(policy);
	if (is_managed) {
		policy->mode = QCLIMB_OBSERVE;
		return;
	}
	if (qclimb_process.own_policy_path[0])
		error = read_policy(qclimb_process.own_policy_path, policy);
	if (error != -EPERM && qclimb_process.own_mode >= 0)
		policy->mode = (uint32_t)qclimb_process.own_mode;
	if (error && is_first)
		SAY("QCLIMB_POLICY=%s: %s; expected a file as qclimb-hostd writes it (qclimb-run --policy also takes "
		    "JSON): mode %s, as if none was given",
		    qclimb_process.own_policy_path, refusal_of(error), mode_word(policy->mode));
	if (qclimb_process.own_mode < -1 && is_first)
		SAY("QCLIMB_MODE: expected off, observe, pias or qclimb: mode %s, as if none was given",
		    mode_word(policy->mode));
}

bool rules_are_managed(void)
{
	return has_file_policy || stamp_of(qclimb_process.run_path).exists;
}

/* Reads what changed. Called by one thread at a time. */
static void reread(bool is_first)
{
	const struct stamp policy_now = stamp_of(qclimb_process.policy_path);
	const struct stamp model_now = stamp_of(qclimb_process.model_path);
	const bool has_new_model = !is_same(&model_now, &model_stamp);
	const bool has_new_policy = !is_same(&policy_now, &policy_stamp);
	static struct qclimb_policy policy;

	services_look();

	if (!is_first && !has_new_policy && !has_new_model)
		return;
	policy_stamp = policy_now;
	model_stamp = model_now;
	if (policy_now.exists) {
		const int error = read_policy(qclimb_process.policy_path, &policy);

		if (!error) {
			has_file_policy = true;
			publish(&policy);
			return;
		}
		LOG("policy file refused: error %d", -error);
	}
	if (has_file_policy)
		return;
	policy_without_file(rules_are_managed(), is_first, &policy);
	if (is_first || atomic_load(&current)->policy.mode != policy.mode)
		publish(&policy);
}

void rules_start(void (*look_too)(void))
{
	for (int i = 0; i < RULES_SLOTS; i++)
		slots[i].model = -1;
	also_look = look_too;
	reread(true);
	also_look();
	atomic_store(&looked_ns, now_ns());
}

void rules_after_fork(void)
{
	atomic_flag_clear(&is_looking);
	for (int i = 0; i < RULES_SLOTS; i++)
		atomic_store(&slots[i].readers, 0);
}

struct rules *rules_acquire(uint64_t now)
{
	struct rules *rules;

	if (unlikely(now - atomic_load_explicit(&looked_ns, memory_order_relaxed) > LOOK_NS) &&
	    !atomic_flag_test_and_set(&is_looking)) {
		const int saved = errno;

		atomic_store(&looked_ns, now);
		reread(false);
		also_look();
		atomic_flag_clear(&is_looking);
		errno = saved;
	}
	for (;;) {
		rules = atomic_load(&current);
		atomic_fetch_add(&rules->readers, 1);
		if (likely(rules == atomic_load(&current)))
			return rules;
		atomic_fetch_sub(&rules->readers, 1);
	}
}

void rules_release(struct rules *rules)
{
	atomic_fetch_sub(&rules->readers, 1);
}
