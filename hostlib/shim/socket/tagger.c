#include "socket/tagger.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>

#include "socket/drain.h"
#include "socket/locals.h"
#include "socket/written.h"
#include "tell/log.h"
#include "base/own_fd.h"
#include "base/process.h"
#include "../../tagger/tagger.h"

#define START_TRIES 4

/* A pinned map that this process holds open. */
struct pinned {
	const char *path;
	uint32_t flags; /* BPF_F_RDONLY or 0 */
	_Atomic int fd; /* plus 1; 0: not open */
	_Atomic uint32_t id; /* the kernel's number of the map, by which a descriptor is known to be still ours */
};

static struct pinned flows = { .path = qclimb_process.flows_path };
static struct pinned paths = { .path = qclimb_process.paths_path, .flags = BPF_F_RDONLY };
#define EPOCH_MOST 61 /* odd; a connection keeps six bits of it */
static _Atomic uint32_t epoch; /* changes with the tagger; even: there is none, 0: there never was one */
static ino_t seen_inode;

static int bpf(int command, union bpf_attr *attributes)
{
	return (int)qclimb_syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

static bool id_of(int fd, uint32_t *id)
{
	struct bpf_map_info info = { 0 };
	union bpf_attr attributes = {
		.info = { .bpf_fd = (uint32_t)fd, .info_len = sizeof(info), .info = (uintptr_t)&info }
	};

	if (bpf(BPF_OBJ_GET_INFO_BY_FD, &attributes))
		return false;
	*id = info.id;
	return true;
}

static void let_go(struct pinned *map)
{
	const int fd = atomic_exchange(&map->fd, 0) - 1;
	uint32_t id;

	if (fd >= 0 && id_of(fd, &id) && id == atomic_load(&map->id))
		(void)qclimb_syscall(SYS_close, fd);
}

/*
 * A descriptor of the map, -1 if it can't be had. The application may have closed ours, and something else may have its
 * number.
 */
static int open_map(struct pinned *map)
{
	union bpf_attr attributes = { .pathname = (uintptr_t)map->path, .file_flags = map->flags };
	int fd = atomic_load(&map->fd) - 1, none = 0;
	uint32_t id;

	if (fd >= 0 && id_of(fd, &id) && id == atomic_load(&map->id))
		return fd;
	atomic_store(&map->fd, 0);
	fd = bpf(BPF_OBJ_GET, &attributes);
	if (fd < 0)
		return -1;
	fd = own_fd(fd);
	if (!id_of(fd, &id)) {
		(void)qclimb_syscall(SYS_close, fd);
		return -1;
	}
	atomic_store(&map->id, id);
	if (!atomic_compare_exchange_strong(&map->fd, &none, fd + 1)) {
		(void)qclimb_syscall(SYS_close, fd); /* another thread was faster */
		return none - 1;
	}
	return fd;
}

void tagger_look(void)
{
	const int saved = errno;
	struct stat file;
	uint32_t next;
	ino_t inode;

	inode = stat(flows.path, &file) || !qclimb_process.may_bpf ? 0 : file.st_ino;
	errno = saved;
	if (inode == seen_inode)
		return;
	seen_inode = inode;
	let_go(&flows);
	let_go(&paths);
	/* From even to odd, or from odd to the next odd one where it was replaced. */
	next = atomic_load(&epoch);
	next += (next & 1) == (inode != 0) ? 2 : 1;
	atomic_store(&epoch, next > EPOCH_MOST ? next - EPOCH_MOST + 1 : next);
	LOG("tagger present=%d", inode != 0);
}

/* Whether this connection began through the tagger. */
static bool is_on_path(const struct connection *connection)
{
	struct tagger_path path;
	uint32_t device;
	union bpf_attr attributes = { .key = (uintptr_t)&path, .value = (uintptr_t)&device };
	const int map = open_map(&paths);

	if (map < 0)
		return false;
	memcpy(path.local, locals_at(connection->local_place), 16);
	memcpy(path.peer, connection->peer_addr, 16);
	attributes.map_fd = (uint32_t)map;
	return !bpf(BPF_MAP_LOOKUP_ELEM, &attributes);
}

/* The position of the flow's first byte in the stream, and whether earlier bytes are still under way. */
static bool start_of(const struct connection *connection, int fd, uint64_t *start, bool *has_earlier)
{
	uint64_t accepted = 0, again = 1;
	int unacked = 0;

	/* Read until no ACK came between the two numbers that it is the sum of. */
	for (int i = 0; i < START_TRIES && accepted != again; i++) {
		if (!accepted_bytes(fd, &accepted))
			return false;
		unacked = unacked_bytes(fd);
		if (!unacked)
			break;
		if (!accepted_bytes(fd, &again))
			return false;
	}
	*start = accepted - flow_bytes(connection);
	*has_earlier = (uint64_t)unacked > flow_bytes(connection);
	return true;
}

static bool publish(struct connection *connection, int fd, const struct qclimb_flow_rule *rule)
{
	struct tagger_socket told = { .before.start = UINT64_MAX };
	union bpf_attr attributes = { .key = (uintptr_t)&fd, .value = (uintptr_t)&told };
	const bool is_new = !connection->tagged_from;
	const int map = open_map(&flows);
	uint64_t start = connection->tagged_from - 1;
	bool has_earlier = false;

	if (map < 0 || (is_new && !start_of(connection, fd, &start, &has_earlier)))
		return false;
	attributes.map_fd = (uint32_t)map;
	if (has_earlier || (!is_new && connection->tagged_has_before)) {
		if (bpf(BPF_MAP_LOOKUP_ELEM, &attributes))
			told.before.start = UINT64_MAX;
		else if (is_new)
			told.before = told.now;
	}
	told.now = (struct tagger_flow){ start, rule->bounds, rule->footprint_bytes };
	told.asked_bytes = connection->footprint.asked_bytes;
	if (bpf(BPF_MAP_UPDATE_ELEM, &attributes))
		return false;
	connection->tagged_has_before = has_earlier || (!is_new && connection->tagged_has_before);
	connection->tagged_from = start + 1;
	LOG("fd=%d tagger start=%llu lower=%llu upper=%llu slack=%llu footprint=%llu", fd,
	    (unsigned long long)told.now.start, (unsigned long long)rule->bounds.lower_bytes,
	    (unsigned long long)rule->bounds.upper_bytes, (unsigned long long)rule->bounds.slack_bytes,
	    (unsigned long long)rule->footprint_bytes);
	return true;
}

bool tagger_takes(struct connection *connection, int fd, const struct qclimb_flow_rule *rule)
{
	const uint32_t now = atomic_load_explicit(&epoch, memory_order_relaxed);
	const int saved = errno;

	if (likely(!now))
		return false; /* there never was one */
	if (connection->tagger_epoch != now) {
		connection->tagger_epoch = now;
		connection->tagged_from = 0;
		connection->is_tagged = now & 1 && is_on_path(connection);
	}
	if (connection->is_tagged && !publish(connection, fd, rule)) {
		connection->is_tagged = false;
		connection->tagged_from = 0;
	}
	errno = saved;
	return connection->is_tagged;
}

void tagger_forget(struct connection *connection, int fd)
{
	union bpf_attr attributes = { .key = (uintptr_t)&fd };
	const int saved = errno;
	int map;

	if (!connection->is_tagged)
		return;
	connection->is_tagged = false;
	connection->tagged_from = 0;
	map = open_map(&flows);
	if (map >= 0) {
		attributes.map_fd = (uint32_t)map;
		(void)bpf(BPF_MAP_DELETE_ELEM, &attributes);
	}
	errno = saved;
}
