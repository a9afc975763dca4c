#include "optax/line.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>

#include "tell/log.h"
#include "base/process.h"

#define LINE_MAGIC UINT64_C(0x384c584f4d4c4351) /* "QCLMOXL8" */
#define LOOK_NS (200 * QCLIMB_NS_PER_US)
#define LEAST_BYTES (2 * 1448) /* what one read of a flow behind the head lets in */

/* A place in the line, in a cache line of its own. */
struct place {
	_Alignas(64) _Atomic uint64_t id; /* 0: free */
	_Atomic uint64_t arrived_ns;
	_Atomic uint64_t active_ns;
	_Atomic uint64_t large_ns; /* a process of this task has a large flow: until then nobody of it is held back */
	_Atomic uint64_t bytes; /* received since it arrived, */
	_Atomic uint32_t is_beyond; /* more than small tasks do */
	_Atomic uint32_t flows; /* small ones, of all its processes */
};

struct line {
	_Atomic uint64_t magic;
	_Atomic uint32_t turn; /* futex: the order may have changed */
	_Atomic uint32_t joined; /* tasks after the head that have its window too */
	_Atomic uint64_t joined_ns; /* when so many came to be */
	_Atomic uint64_t small_bytes; /* the largest of the tasks that ended here lately; 0: none did */
	_Atomic uint32_t begun; /* connections, since the last sample */
	_Atomic uint32_t begun_before; /* and in the one before */
	struct rates rates;
	struct place places[QCLIMB_TASKS];
};

static struct line *line;
static int segment = -1;
static uint64_t told_capacity; /* bytes a second; 0: learned */
static bool has_name; /* QCLIMB_TASK: the task may have other processes too */
static uint64_t own_id; /* the task's */
static _Atomic(struct place *) own_place;
static _Atomic uint32_t own_flows, own_larges; /* that this process receives */
static _Atomic uint32_t placed_flows; /* of them counted in its place */
static _Atomic uint64_t told_large_ns;
static __thread struct line_view view __attribute__((tls_model("initial-exec"))); /* what the thread saw last, */
static __thread uint64_t looked_ns __attribute__((tls_model("initial-exec"))); /* when, */
static __thread uint32_t looked_turn __attribute__((tls_model("initial-exec"))); /* in which order */

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

#define HASH_START UINT64_C(0xcbf29ce484222325)

static key_t key_of_host(void)
{
	struct stat space = { 0 };
	const uid_t user = geteuid();
	uint64_t hash = HASH_START;

	(void)stat("/proc/self/ns/net", &space);
	hash = mix(hash, "qclimb optax 8", 14);
	hash = mix(hash, &space.st_ino, sizeof(space.st_ino));
	hash = mix(hash, &user, sizeof(user));
	hash ^= hash >> 32;
	return (key_t)((hash & 0x7fffffff) | 1); /* 0 is IPC_PRIVATE */
}

/* Of a process by itself; 0 is no task. */
static uint64_t id_of_process(void)
{
	return (qclimb_process.start_ns << 23 ^ (uint64_t)qclimb_process.pid << 1) | 1;
}

bool line_open(const char *task, uint64_t capacity)
{
	struct shmid_ds about;
	uint64_t none = 0;
	struct line *found;
	int id;

	id = shmget(key_of_host(), sizeof(struct line), IPC_CREAT | 0600);
	if (id < 0 || shmctl(id, IPC_STAT, &about) || about.shm_perm.uid != geteuid() ||
	    about.shm_perm.cuid != geteuid() || about.shm_perm.mode & 0077 || about.shm_segsz < sizeof(struct line)) {
		LOG("optax: no memory for the line: nobody is held back");
		return false;
	}
	found = shmat(id, NULL, 0);
	if (found == (void *)-1)
		return false;
	if (!atomic_compare_exchange_strong(&found->magic, &none, LINE_MAGIC) && none != LINE_MAGIC) {
		shmdt(found);
		return false;
	}
	told_capacity = capacity;
	has_name = task && *task;
	own_id = has_name ? mix(HASH_START, task, strlen(task)) | 1 : id_of_process();
	segment = id;
	line = found;
	return true;
}

void line_after_fork(void)
{
	atomic_store(&own_place, NULL);
	atomic_store(&own_flows, 0);
	atomic_store(&own_larges, 0);
	atomic_store(&placed_flows, 0);
	if (!has_name)
		own_id = id_of_process();
}

/* --- places */

static void order_changed(void)
{
	atomic_fetch_add(&line->turn, 1);
	(void)qclimb_syscall(SYS_futex, &line->turn, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool is_own(const struct place *place)
{
	return place && relaxed_get(place->id) == own_id;
}

/* The task has its place in line by this time, and got nothing yet. */
static void arrives(struct place *place, uint64_t now)
{
	atomic_store(&place->bytes, 0);
	atomic_store(&place->is_beyond, 0);
	atomic_store(&place->arrived_ns, now);
}

/* The task's place, or a free one, made its own. NULL: the line is full, and this task is not held back. */
static struct place *claim(uint64_t now)
{
	for (uint32_t i = 0; i < QCLIMB_TASKS; i++)
		if (is_own(&line->places[i]))
			return &line->places[i];
	for (uint32_t i = 0; i < QCLIMB_TASKS; i++) {
		struct place *place = &line->places[i];
		uint64_t id = atomic_load(&place->id);

		if (id && !is_past(now, atomic_load(&place->active_ns), LINE_FORGET_NS))
			continue;
		/* Young before it is ours, so that nobody takes it for forgotten meanwhile. */
		atomic_store(&place->active_ns, now);
		if (!atomic_compare_exchange_strong(&place->id, &id, own_id))
			continue;
		atomic_store(&place->flows, 0);
		atomic_store(&place->large_ns, 0);
		arrives(place, now);
		return place;
	}
	return NULL;
}

/* Where the process's task stands now; one that was forgotten meanwhile has no place. */
static struct place *place_of_own(void)
{
	struct place *place = relaxed_get(own_place);

	return is_own(place) ? place : NULL;
}

bool line_has_place(void)
{
	return place_of_own() != NULL;
}

/* The task is there; one that was quiet for long arrives anew. */
static void touch(struct place *place, uint64_t now)
{
	if (is_past(now, relaxed_get(place->active_ns), LINE_LOSES_PLACE_NS))
		arrives(place, now);
	relaxed_set(place->active_ns, now);
}

/* So many flows of the process stand in its task's place; with none it leaves. */
static void place_flows(struct place *place, uint32_t flows)
{
	const uint32_t more = flows - atomic_exchange(&placed_flows, flows);
	const uint32_t tasks = atomic_fetch_add(&place->flows, more) + more;
	uint64_t id = own_id;

	if (flows)
		return;
	atomic_store(&own_place, NULL);
	if (!tasks)
		atomic_compare_exchange_strong(&place->id, &id, 0);
	LOG("optax: leaves the line");
	order_changed();
}

void line_count(int small, int large, uint64_t now)
{
	const uint32_t flows = atomic_fetch_add(&own_flows, (uint32_t)small) + (uint32_t)small;
	const uint32_t larges = atomic_fetch_add(&own_larges, (uint32_t)large) + (uint32_t)large;
	const uint32_t placed = larges ? 0 : flows;
	struct place *place = place_of_own();

	if (!place && placed && (place = claim(now))) {
		touch(place, now);
		atomic_store(&placed_flows, 0);
		atomic_store(&own_place, place);
		LOG("optax: joins the line");
	}
	if (!place)
		return;
	if (!flows && !larges)
		atomic_store(&line->small_bytes,
			     qclimb_task_bytes_next(atomic_load(&line->small_bytes), atomic_load(&place->bytes)));
	place_flows(place, placed);
}

void line_end(void)
{
	struct place *place = place_of_own();
	struct shmid_ds about;

	if (place)
		place_flows(place, 0);
	/* The last one out takes the memory along; who comes at this very moment may make another line, for a while. */
	if (!shmctl(segment, IPC_STAT, &about) && about.shm_nattch == 1)
		shmctl(segment, IPC_RMID, NULL);
}

/* --- what the host receives */

static void goes_behind(struct place *place, uint64_t arrived_ns)
{
	atomic_store(&place->arrived_ns, arrived_ns);
	order_changed();
}

/*
 * A task that got more than the small ones that ended here goes behind those that come soon: it is likely a large one
 * that nobody knows yet.
 */
static void count_bytes(struct place *place, uint64_t bytes, uint64_t now)
{
	const uint64_t bound = qclimb_task_bound(relaxed_get(line->small_bytes));
	const uint64_t sum = atomic_fetch_add_explicit(&place->bytes, bytes, memory_order_relaxed) + bytes;

	if (sum <= bound || relaxed_get(place->is_beyond) || atomic_exchange(&place->is_beyond, 1))
		return;
	LOG("optax: got more than %llu bytes, others go before", (unsigned long long)bound);
	goes_behind(place, now + LINE_LATER_NS);
}

/* A process of a task of several has a large flow: the others are to know. */
static void tell_large(uint64_t now)
{
	struct place *place;

	if (!is_past(now, relaxed_get(told_large_ns), LINE_LOSES_PLACE_NS / 2))
		return;
	atomic_store(&told_large_ns, now);
	place = claim(now);
	if (place)
		atomic_store(&place->large_ns, now + LINE_LOSES_PLACE_NS);
}

/* Flows of the tasks that stand in line and are heard of. */
static uint32_t flows_in_line(uint64_t now)
{
	uint32_t flows = 0;

	for (uint32_t i = 0; i < QCLIMB_TASKS; i++) {
		const struct place *place = &line->places[i];

		if (relaxed_get(place->id) && !is_past(now, relaxed_get(place->active_ns), LINE_PATIENCE_NS))
			flows += relaxed_get(place->flows);
	}
	return flows;
}

static void sample(uint64_t now)
{
	const uint64_t interval_ns = rates_due(&line->rates, now);

	if (!interval_ns)
		return;
	atomic_store(&line->begun_before, atomic_exchange(&line->begun, 0));
	if (rates_sample(&line->rates, told_capacity, flows_in_line(now), interval_ns, now))
		order_changed();
}

/* Whether nobody is held back while so many flows stand in line; those that just began may be about to. */
static bool is_free(uint32_t flows, uint64_t now)
{
	const uint32_t begun = relaxed_get(line->begun) + relaxed_get(line->begun_before);
	const uint64_t bytes = relaxed_get(line->small_bytes);
	const enum qclimb_link link = rates_link(&line->rates, now);
	const uint32_t slack_flows = link == QCLIMB_LINK_SLACK ? relaxed_get(line->rates.slack_flows) : 0;

	if (qclimb_tasks_are_brief(bytes, rates_capacity(&line->rates, told_capacity)))
		return true;
	if (link == QCLIMB_LINK_FULL)
		return false;
	return qclimb_flows_are_few(flows > begun ? flows : begun, slack_flows) || qclimb_tasks_are_tiny(bytes);
}

bool line_begins_free(uint64_t now)
{
	sample(now);
	atomic_fetch_add(&line->begun, 1);
	return is_free(flows_in_line(now) + 1, now);
}

void line_received(uint64_t bytes, enum line_flow flow, _Atomic uint32_t *counted, uint64_t now)
{
	struct place *place = counted ? place_of_own() : NULL;

	rates_received(&line->rates, flow, bytes);
	if (place) {
		touch(place, now);
		count_bytes(place, bytes, now);
	}
	if (flow == LINE_LARGE)
		rates_count_large(&line->rates, counted, now);
	if (flow == LINE_LARGE && has_name)
		tell_large(now);
	sample(now);
}

/* --- where one stands */

/* The first task of those that are left; QCLIMB_TASKS: none is. */
static uint32_t first_of(const struct qclimb_task *tasks)
{
	uint32_t first = QCLIMB_TASKS;

	for (uint32_t i = 0; i < QCLIMB_TASKS; i++)
		if (tasks[i].id && (first == QCLIMB_TASKS || qclimb_task_is_before(&tasks[i], &tasks[first])))
			first = i;
	return first;
}

/* How many tasks after the head have its window too. */
static uint32_t joined_by(bool others_wait, uint64_t now)
{
	uint64_t since = atomic_load(&line->joined_ns);
	const uint32_t joined = atomic_load(&line->joined);
	const bool has_slack = rates_have_slack(&line->rates);
	const uint64_t pause_ns = has_slack ? LINE_HURRY_NS : LINE_JOIN_NS;
	uint32_t next = joined;

	if (others_wait && is_past(now, since, pause_ns) && is_past(now, relaxed_get(line->rates.room_ns), pause_ns))
		next = qclimb_joined_next(joined, has_slack ? QCLIMB_LINK_SLACK : QCLIMB_LINK_UNKNOWN);
	else if (!has_slack && is_past(now, since, LINE_ALONE_NS))
		next = qclimb_joined_next(joined, QCLIMB_LINK_FULL);
	if (next == joined || !atomic_compare_exchange_strong(&line->joined_ns, &since, now))
		return joined < QCLIMB_TASKS ? joined : QCLIMB_TASKS;
	atomic_store(&line->joined, next);
	LOG("optax: the head can't fill the link, joined by %u", next);
	order_changed();
	return next;
}

/* Of a process whose task has the place `own`. */
static void look(struct place *own, uint64_t now)
{
	struct qclimb_task tasks[QCLIMB_TASKS];
	uint32_t flows[QCLIMB_TASKS], behind = 0, joined = 0, first;

	for (uint32_t i = 0; i < QCLIMB_TASKS; i++) {
		const struct place *place = &line->places[i];

		tasks[i] = (struct qclimb_task){ relaxed_get(place->id), relaxed_get(place->arrived_ns),
						 relaxed_get(place->active_ns) };
		flows[i] = relaxed_get(place->flows);
		if (place != own && !qclimb_task_is_active(&tasks[i], now, LINE_PATIENCE_NS))
			tasks[i].id = 0;
		behind += tasks[i].id ? flows[i] : 0;
	}
	view.is_free = is_free(behind, now);
	view.is_behind = !view.is_free && atomic_load(&own->large_ns) <= now;
	for (uint32_t n = 0; n <= joined && !view.is_free && (first = first_of(tasks)) < QCLIMB_TASKS; n++) {
		behind -= flows[first];
		if (!n)
			joined = joined_by(behind > 0, now);
		view.is_behind &= &line->places[first] != own;
		tasks[first].id = 0;
	}
	view.delay_ns = qclimb_ack_delay_ns(behind, LEAST_BYTES, rates_capacity(&line->rates, told_capacity),
					    relaxed_get(line->rates.before), 0, LINE_DELAY_MOST_NS);
	if (!view.is_behind && behind && is_past(now, atomic_load(&own->arrived_ns), LINE_TENURE_NS))
		goes_behind(own, now); /* to the end of the line */
}

struct line_view line_look(uint64_t now)
{
	struct place *place = place_of_own();
	const uint32_t turn = atomic_load_explicit(&line->turn, memory_order_acquire);

	sample(now);
	if (!place) {
		view = (struct line_view){ .is_free = true };
		looked_ns = 0;
	} else if (turn != looked_turn || !looked_ns || now - looked_ns >= LOOK_NS) {
		look(place, now);
		looked_ns = now;
		looked_turn = turn;
	}
	if (view.is_behind)
		touch(place, now);
	view.window = relaxed_get(line->rates.window);
	view.large_window = relaxed_get(line->rates.large_window);
	return view;
}

bool line_wait(uint64_t timeout_ns)
{
	const struct timespec time = { (time_t)(timeout_ns / QCLIMB_NS_PER_S), (long)(timeout_ns % QCLIMB_NS_PER_S) };

	return qclimb_syscall(SYS_futex, &line->turn, FUTEX_WAIT, looked_turn, &time, NULL, 0) && errno == EINTR;
}
