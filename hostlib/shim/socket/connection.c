#include "socket/connection.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "base/process.h"

#define POOL_CHUNK 512u /* of 248 bytes: whole pages */
#define POOL_CHUNKS 512u /* 262,144 sockets; more pass through */

_Atomic(struct connection_slot_chunk *) qclimb_fd_chunks[FD_CHUNKS];

static _Atomic(struct connection *) pool[POOL_CHUNKS];
static _Atomic uint32_t pool_used; /* connections ever taken from the pool's end */
static _Atomic uint64_t pool_free; /* slot + 1 of the first free one, below a counter that makes each change distinct */

static void (*on_end)(struct connection *connection, int fd);

/* Memory of zeros for a chunk of either table, installed by whoever comes first; NULL if there is none. */
static void *chunk_at(_Atomic(void *) *place, size_t len)
{
	void *chunk = atomic_load(place);
	void *none = NULL;
	const int saved = errno;

	if (chunk)
		return chunk;
	chunk = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = saved;
	if (chunk == MAP_FAILED)
		return NULL;
	if (atomic_compare_exchange_strong(place, &none, chunk))
		return chunk;
	munmap(chunk, len);
	return none;
}

void connections_start(void (*ends)(struct connection *connection, int fd))
{
	on_end = ends;
}

static struct connection *pool_at(uint32_t slot)
{
	return atomic_load(&pool[slot / POOL_CHUNK]) + slot % POOL_CHUNK;
}

static struct connection *pool_take(void)
{
	uint64_t head = atomic_load(&pool_free);
	uint32_t slot;

	while ((uint32_t)head) {
		struct connection *connection = pool_at((uint32_t)head - 1);
		const uint64_t next = (((head >> 32) + 1) << 32) | connection->next_free;

		if (atomic_compare_exchange_weak(&pool_free, &head, next))
			return connection;
	}
	slot = atomic_load(&pool_used);
	do {
		if (slot >= POOL_CHUNK * POOL_CHUNKS)
			return NULL;
		if (!chunk_at((_Atomic(void *) *)&pool[slot / POOL_CHUNK], POOL_CHUNK * sizeof(struct connection)))
			return NULL;
	} while (!atomic_compare_exchange_weak(&pool_used, &slot, slot + 1));
	pool_at(slot)->slot = slot;
	return pool_at(slot);
}

static void pool_give(struct connection *connection)
{
	uint64_t head = atomic_load(&pool_free);

	do
		connection->next_free = (uint32_t)head;
	while (!atomic_compare_exchange_weak(&pool_free, &head, (((head >> 32) + 1) << 32) | (connection->slot + 1)));
}

static _Atomic(struct connection *) *slot_of(int fd)
{
	struct connection_slot_chunk *chunk;

	if (fd < 0 || (unsigned int)fd >= FD_CHUNK * FD_CHUNKS)
		return NULL;
	chunk = chunk_at((_Atomic(void *) *)&qclimb_fd_chunks[(unsigned int)fd / FD_CHUNK], sizeof(*chunk));
	return chunk ? &chunk->slot[(unsigned int)fd % FD_CHUNK] : NULL;
}

/* One descriptor less; the last one ends the flow. */
static void connection_put(int fd, struct connection *connection)
{
	if (atomic_fetch_sub(&connection->fds, 1) != 1)
		return;
	on_end(connection, fd);
	pool_give(connection);
}

/* One descriptor more, but of a connection whose last one is being closed: that one is the pool's. */
static bool connection_hold(struct connection *connection)
{
	uint32_t fds = atomic_load(&connection->fds);

	while (fds)
		if (atomic_compare_exchange_weak(&connection->fds, &fds, fds + 1))
			return true;
	return false;
}

/* `fd`, which is counted already, now means `connection`; false: it is beyond the table. */
static bool install(int fd, struct connection *connection, int old_fd)
{
	_Atomic(struct connection *) *slot = slot_of(fd);
	struct connection *old;

	if (!slot)
		return false;
	old = atomic_exchange(slot, connection);
	if (old)
		connection_put(old_fd, old);
	return true;
}

void connection_set(int fd, struct connection *connection, int old_fd)
{
	if (connection && !connection_hold(connection))
		connection = NULL;
	if (!connection && !connection_of(fd))
		return;
	if (!install(fd, connection, old_fd) && connection)
		connection_put(FD_LOST, connection);
}

void connection_forget(struct connection *connection)
{
	connection->has_addresses = false;
	connection->has_peer = false;
	connection->dscp = DSCP_NOT_SET;
	connection->lent = 0;
	connection->flows = 0;
	connection->proofs = 0;
	connection->is_doubted = false;
	connection->own_nodelay = -1;
	connection->has_corked = false;
	connection->tagger_epoch = 0;
	connection->is_tagged = false;
}

struct connection *connection_new(int fd, bool is_ipv6, uint8_t role)
{
	struct connection *connection = qclimb_process.is_passive ? NULL : pool_take();

	if (!connection) {
		connection_set(fd, NULL, FD_LOST);
		return NULL;
	}
	memset(connection, 0, offsetof(struct connection, slot));
	connection->is_ipv6 = is_ipv6;
	connection->role = role;
	connection_forget(connection);
	atomic_store(&connection->fds, 1);
	if (install(fd, connection, FD_LOST))
		return connection; /* or by now the pool's, if another thread closed the number */
	atomic_store(&connection->fds, 0);
	pool_give(connection);
	return NULL;
}

/* The first connection whose descriptor lies from *fd to `last`, which *fd then is; NULL: there is none. */
static struct connection *first_from(unsigned int *fd, unsigned int last)
{
	struct connection *connection;

	for (; *fd <= last && *fd < FD_CHUNK * FD_CHUNKS; ++*fd) {
		if (!atomic_load(&qclimb_fd_chunks[*fd / FD_CHUNK]))
			*fd |= FD_CHUNK - 1; /* on to the next chunk */
		else if ((connection = connection_of((int)*fd)))
			return connection;
	}
	return NULL;
}

int connection_number(const struct connection *connection)
{
	const struct connection *other;

	for (unsigned int fd = 0; (other = first_from(&fd, UINT_MAX)); fd++)
		if (other == connection)
			return (int)fd;
	return -1;
}

void connection_drop(int fd)
{
	struct connection *connection = connection_of(fd);
	_Atomic(struct connection *) *slot;

	if (!connection || !is_own_process())
		return;
	slot = slot_of(fd);
	connection = slot ? atomic_exchange(slot, NULL) : NULL;
	if (connection)
		connection_put(fd, connection);
}

void connection_drop_range(unsigned int first, unsigned int last)
{
	for (unsigned int fd = first; first_from(&fd, last); fd++)
		connection_drop((int)fd);
}

/* Calls `act` for each connection in use. */
static void for_each_connection(void (*act)(struct connection *))
{
	const uint32_t used = atomic_load(&pool_used);

	for (uint32_t slot = 0; slot < used; slot++)
		if (atomic_load(&pool_at(slot)->fds))
			act(pool_at(slot));
}

static void share_with_child(struct connection *connection)
{
	connection_doubt(connection);
	connection->quiet_at = 0;
	connection_is_foreign(connection);
}

static void share_with_parent(struct connection *connection)
{
	share_with_child(connection);
	connection->is_shared = true;
	connection->lent = 0;
	atomic_store(&connection->writing, 0); /* they exist only in the parent */
}

void connections_share(bool is_child)
{
	for_each_connection(is_child ? share_with_parent : share_with_child);
}

void connections_visit(void (*visit)(struct connection *connection, int fd))
{
	struct connection *connection;

	for (unsigned int fd = 0; (connection = first_from(&fd, UINT_MAX)); fd++)
		visit(connection, (int)fd);
}

bool is_tcp(int family, int type, int protocol)
{
	return (family == AF_INET || family == AF_INET6) && (type & 0xf) == SOCK_STREAM &&
	       (protocol == 0 || protocol == IPPROTO_TCP);
}

struct connection *connection_adopt(int fd, uint8_t role)
{
	int family = 0, type = 0, protocol = 0;
	const int saved = errno;
	struct connection *connection = NULL;

	if (qclimb_process.is_passive)
		return NULL;
	if (!sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, sizeof(family)) &&
	    !sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, sizeof(type)) &&
	    !sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, sizeof(protocol)) && is_tcp(family, type, protocol))
		connection = connection_new(fd, family == AF_INET6, role);
	errno = saved;
	return connection;
}
