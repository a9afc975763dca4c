#include "optax/line.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>

#include "tell/log.h"
#include "base/process.h"

#define LINE_MAGIC UINT64_C(0x374c584f4d4c4351) /* "QCLMOXL7" */
#define LOOK_NS (200 * QCLIMB_NS_PER_US)

/* A place in the line, in a cache line of its own. */
struct place {
	_Atomic uint64_t id; /* 0: free */
	_Atomic uint64_t arrived_ns;
	_Atomic uint64_t active_ns;
	_Atomic uint64_t large_ns; /* a process of this task has a large flow: until then nobody of it is held back */
	_Atomic uint32_t processes; /* that receive small flows */
	_Atomic uint32_t flows;
	_Atomic uint64_t bytes; /* received since it arrived, */
	_Atomic uint32_t is_beyond; /* more than small tasks do */
	uint32_t unused[3];
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
static uint64_t task_id; /* of QCLIMB_TASK; 0: the process is its own task */
static uint64_t own_id;
static _Atomic(struct place *) own_place;
static _Atomic uint32_t own_flows, own_larges; /* that this process receives */
static _Atomic uint32_t placed_flows; /* of them counted in its place */
static _Atomic uint64_t told_large_ns;

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
	hash = mix(hash, "qclimb optax 7", 14);
	hash = mix(hash, &space.st_ino, sizeof(space.st_ino));
	hash = mix(hash, &user, sizeof(user));
	hash ^= hash >> 32;
	return (key_t)((hash & 0x7fffffff) | 1); /* 0 is IPC_PRIVATE */
}

static void name_task(void)
{
	uint64_t hash = HASH_START;

	if (task_id) {
		own_id = task_id;
		return;
	}
	hash = mix(hash, &qclimb_process.pid, sizeof(qclimb_process.pid));
	hash = mix(hash, &qclimb_process.start_ns, sizeof(qclimb_process.start_ns));
	own_id = hash | 1;
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
	task_id = task && *task ? mix(HASH_START, task, strlen(task)) | 1 : 0;
	name_task();
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
	name_task();
}

/* --- places */

static void order_changed(void)
{
	atomic_fetch_add(&line->turn, 1);
	(void)qclimb_syscall(SYS_futex, &line->turn, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool is_own(const struct place *place)
{
	return place && atomic_load_explicit(&place->id, memory_order_relaxed) == own_id;
}

static bool is_past(uint64_t now, uint64_t then, uint64_t ns)
{
	return now > then && now - then > ns;
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
		atomic_store(&place->processes, 0);
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
	struct place *place = atomic_load_explicit(&own_place, memory_order_relaxed);

	return is_own(place) ? place : NULL;
}

bool line_has_place(void)
{
	return place_of_own() != NULL;
}

static void join(uint64_t now)
{
	struct place *place = claim(now);
	const uint32_t flows = atomic_load(&own_flows);

	if (!place)
		return;
	atomic_fetch_add(&place->processes, 1);
	atomic_fetch_add(&place->flows, flows);
	atomic_store(&placed_flows, flows);
	if (is_past(now, atomic_load(&place->active_ns), LINE_LOSES_PLACE_NS))
		arrives(place, now);
	atomic_store(&place->active_ns, now);
	atomic_store(&own_place, place);
	LOG("optax: joins the line, flows=%u", flows);
}

static void leave(struct place *place, bool was_small)
{
	uint64_t id = own_id;

	if (was_small)
		atomic_store(&line->small_bytes,
			     qclimb_task_bytes_next(atomic_load(&line->small_bytes), atomic_load(&place->bytes)));

	atomic_store(&own_place, NULL);
	atomic_fetch_sub(&place->flows, atomic_exchange(&placed_flows, 0));
	if (atomic_fetch_sub(&place->processes, 1) == 1)
		atomic_compare_exchange_strong(&place->id, &id, 0);
	LOG("optax: leaves the line");
	order_changed();
}

/* The task's other processes are to know that it is large. */
static void tell_large(uint64_t now)
{
	struct place *place = task_id ? claim(now) : NULL;

	if (place)
		atomic_store(&place->large_ns, now + LINE_LOSES_PLACE_NS);
}

void line_count(int small, int large, uint64_t now)
{
	const uint32_t flows = atomic_fetch_add(&own_flows, (uint32_t)small) + (uint32_t)small;
	const uint32_t larges = atomic_fetch_add(&own_larges, (uint32_t)large) + (uint32_t)large;
	struct place *place = place_of_own();

	if (large > 0)
		tell_large(now);
	if (place && (larges || !flows)) {
		leave(place, !larges);
	} else if (!place && flows && !larges) {
		join(now);
	} else if (place && small) {
		atomic_fetch_add(&place->flows, (uint32_t)small);
		atomic_fetch_add(&placed_flows, (uint32_t)small);
	}
}

void line_end(void)
{
	struct place *place = place_of_own();
	struct shmid_ds about;

	if (place)
		leave(place, false);
	/* The last one out takes the memory along; who comes at this very moment may make another line, for a while. */
	if (!shmctl(segment, IPC_STAT, &about) && about.shm_nattch == 1)
		shmctl(segment, IPC_RMID, NULL);
}

void line_waits(uint64_t now)
{
	struct place *place = place_of_own();

	if (place)
		atomic_store_explicit(&place->active_ns, now, memory_order_relaxed);
}

/* --- what the host receives */

/*
 * A task that got more than the small ones that ended here goes behind those that come soon: it is likely a large one
 * that nobody knows yet.
 */
static void count_bytes(struct place *place, uint64_t bytes, uint64_t now)
{
	const uint64_t bound = qclimb_task_bound(atomic_load_explicit(&line->small_bytes, memory_order_relaxed));
	const uint64_t sum = atomic_fetch_add_explicit(&place->bytes, bytes, memory_order_relaxed) + bytes;

	if (sum <= bound || atomic_load_explicit(&place->is_beyond, memory_order_relaxed) ||
	    atomic_exchange(&place->is_beyond, 1))
		return;
	LOG("optax: got more than %llu bytes, others go before", (unsigned long long)bound);
	atomic_store(&place->arrived_ns, now + LINE_LATER_NS);
	order_changed();
}

/* Flows of the tasks that stand in line and are heard of. */
static uint32_t flows_in_line(uint64_t now)
{
	uint32_t flows = 0;

	for (uint32_t i = 0; i < QCLIMB_TASKS; i++) {
		const struct place *place = &line->places[i];

		if (atomic_load_explicit(&place->id, memory_order_relaxed) &&
		    !is_past(now, atomic_load_explicit(&place->active_ns, memory_order_relaxed), LINE_PATIENCE_NS))
			flows += atomic_load_explicit(&place->flows, memory_order_relaxed);
	}
	return flows;
}

static void sample(uint64_t now)
{
	uint32_t flows;

	if (!rates_sample(&line->rates, told_capacity, now))
		return;
	atomic_store(&line->begun_before, atomic_exchange(&line->begun, 0));
	flows = flows_in_line(now);
	rates_bound_large(&line->rates, told_capacity, flows, now);
	if (rates_note_slack(&line->rates, flows, now))
		order_changed();
}

/* Whether nobody is held back while so many flows stand in line; those that just began may be about to. */
static bool is_free(uint32_t flows, uint64_t now)
{
	const uint32_t begun = atomic_load_explicit(&line->begun, memory_order_relaxed) +
			       atomic_load_explicit(&line->begun_before, memory_order_relaxed);
	const uint64_t bytes = atomic_load_explicit(&line->small_bytes, memory_order_relaxed);
	uint32_t slack_flows;

	if (qclimb_tasks_are_brief(bytes, rates_capacity(&line->rates, told_capacity)))
		return true;
	if (rates_link(&line->rates, now, &slack_flows) == QCLIMB_LINK_FULL)
		return false;
	return qclimb_flows_are_few(flows > begun ? flows : begun, slack_flows) || qclimb_tasks_are_tiny(bytes);
}

bool line_begins_free(uint64_t now)
{
	sample(now);
	atomic_fetch_add(&line->begun, 1);
	return is_free(flows_in_line(now) + 1, now);
}

void line_hears(uint64_t bytes, uint64_t now)
{
	rates_received(&line->rates, LINE_OTHERS, bytes);
	sample(now);
}

void line_counts_large(_Atomic uint32_t *counted, uint64_t now)
{
	rates_count_large(&line->rates, counted, now);
}

void line_received(uint64_t bytes, enum line_flow flow, uint64_t now)
{
	struct place *place = place_of_own();

	rates_received(&line->rates, flow, bytes);
	if (place) {
		if (is_past(now, atomic_load_explicit(&place->active_ns, memory_order_relaxed), LINE_LOSES_PLACE_NS))
			arrives(place, now);
		atomic_store_explicit(&place->active_ns, now, memory_order_relaxed);
		count_bytes(place, bytes, now);
	}
	if (task_id && atomic_load_explicit(&own_larges, memory_order_relaxed) &&
	    is_past(now, atomic_load_explicit(&told_large_ns, memory_order_relaxed), LINE_LOSES_PLACE_NS / 2)) {
		atomic_store(&told_large_ns, now);
		tell_large(now);
	}
	sample(now);
}

/* --- where one stands */

static void copy_line(struct qclimb_task *tasks)
{
	for (uint32_t i = 0; i < QCLIMB_TASKS; i++) {
		struct place *place = &line->places[i];

		tasks[i].id = atomic_load_explicit(&place->id, memory_order_relaxed);
		tasks[i].arrived_ns = atomic_load_explicit(&place->arrived_ns, memory_order_relaxed);
		tasks[i].active_ns = atomic_load_explicit(&place->active_ns, memory_order_relaxed);
	}
}

/* The first task of those that are left; count: none is. */
static uint32_t first_of(const struct qclimb_task *tasks, uint32_t count)
{
	uint32_t first = count;

	for (uint32_t i = 0; i < count; i++)
		if (tasks[i].id && (first == count || qclimb_task_is_before(&tasks[i], &tasks[first])))
			first = i;
	return first;
}

/* How many tasks after the head have its window too. */
static uint32_t joined_by(bool others_wait, uint64_t now)
{
	uint64_t since = atomic_load(&line->joined_ns);
	const uint32_t joined = atomic_load(&line->joined);
	const bool has_slack = rates_have_slack(&line->rates);
	uint32_t next = joined;

	if (has_slack ? others_wait && is_past(now, since, LINE_HURRY_NS)
		      : others_wait && is_past(now, since, LINE_JOIN_NS) &&
				is_past(now, atomic_load(&line->rates.room_ns), LINE_JOIN_NS))
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

static void look(struct place *place, uint64_t now, struct line_view *view)
{
	struct qclimb_task tasks[QCLIMB_TASKS];
	uint32_t flows[QCLIMB_TASKS], behind = 0, first, joined = 0;

	copy_line(tasks);
	view->rank = qclimb_task_rank(tasks, QCLIMB_TASKS, own_id, now, LINE_PATIENCE_NS);
	for (uint32_t i = 0; i < QCLIMB_TASKS; i++) {
		flows[i] = atomic_load_explicit(&line->places[i].flows, memory_order_relaxed);
		if (qclimb_task_is_active(&tasks[i], now, LINE_PATIENCE_NS))
			behind += flows[i];
		else
			tasks[i].id = 0;
	}
	view->is_free = is_free(behind, now);
	for (uint32_t n = 0; n <= joined && !view->is_free; n++) {
		first = first_of(tasks, QCLIMB_TASKS);
		if (first == QCLIMB_TASKS)
			break;
		behind -= flows[first];
		if (!n)
			joined = joined_by(behind > 0, now);
		tasks[first].id = 0;
	}
	view->behind_flows = behind;
	if (view->is_free || view->rank == QCLIMB_NOT_IN_LINE || view->rank <= joined ||
	    atomic_load(&place->large_ns) > now)
		view->rank = 0;
	else
		view->rank -= joined;
}

const struct line_view *line_look(uint64_t now, struct line_view *view)
{
	static __thread struct line_view last __attribute__((tls_model("initial-exec")));
	static __thread uint64_t looked_ns __attribute__((tls_model("initial-exec")));
	struct place *place = place_of_own();
	const uint32_t turn = atomic_load_explicit(&line->turn, memory_order_acquire);

	sample(now);
	if (!place) {
		*view = (struct line_view){ .turn = turn };
	} else if (turn == last.turn && looked_ns && now - looked_ns < LOOK_NS) {
		*view = last;
	} else {
		view->turn = turn;
		look(place, now, view);
		looked_ns = now;
		last = *view;
		if (!view->rank && view->behind_flows &&
		    is_past(now, atomic_load(&place->arrived_ns), LINE_TENURE_NS)) {
			atomic_store(&place->arrived_ns, now); /* to the end of the line */
			order_changed();
		}
	}
	view->window = atomic_load_explicit(&line->rates.window, memory_order_relaxed);
	view->capacity = rates_capacity(&line->rates, told_capacity);
	view->large_window = atomic_load_explicit(&line->rates.large_window, memory_order_relaxed);
	view->rate_before = atomic_load_explicit(&line->rates.before, memory_order_relaxed);
	return view;
}

bool line_wait(uint32_t turn, uint64_t timeout_ns)
{
	const struct timespec time = { (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000) };

	return qclimb_syscall(SYS_futex, &line->turn, FUTEX_WAIT, turn, &time, NULL, 0) && errno == EINTR;
}
