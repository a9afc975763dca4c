#include "life/unseen.h"

#include "socket/drain.h"
#include "socket/written.h"
#include "tell/log.h"

#define FIN 1 /* may stand in the kernel's count as a byte */
#define LOOKS 8
#define CLOSES 4 /* that are looked at in a millisecond */

static _Atomic uint64_t close_ms;
static _Atomic uint32_t closes; /* looked at in it */
static atomic_bool is_found; /* this program goes past the library */

/*
 * By the kernel: bytes of this connection that anybody wrote. An ACK in the middle of a look makes it too small, never
 * too large.
 */
static bool kernel_bytes_of(const struct connection *connection, int fd, uint64_t *bytes)
{
	if (!accepted_bytes(fd, bytes))
		return false;
	if (connection->role == 0 && *bytes > 0)
		--*bytes; /* the SYN of the side that connected */
	return true;
}

bool unseen_is_due(const struct connection *connection, uint64_t now)
{
	const uint64_t now_ms = now / QCLIMB_NS_PER_MS;

	if (connection->is_foreign || connection->is_listener)
		return false;
	if (connection->has_unseen || atomic_load_explicit(&is_found, memory_order_relaxed))
		return true;
	if (atomic_load_explicit(&close_ms, memory_order_relaxed) != now_ms) {
		atomic_store_explicit(&close_ms, now_ms, memory_order_relaxed);
		atomic_store_explicit(&closes, 0, memory_order_relaxed);
	}
	return atomic_fetch_add_explicit(&closes, 1, memory_order_relaxed) < CLOSES;
}

void unseen_look(struct connection *connection, int fd, uint32_t own_writers)
{
	uint64_t kernel_bytes, again, seen_bytes;

	if (connection->is_foreign || connection->is_listener || !kernel_bytes_of(connection, fd, &kernel_bytes))
		return;
	/*
	 * In this order: a call that the kernel had counted above has left, and so has been added, or nothing is said.
	 */
	if (writers_of(connection) != own_writers)
		return;
	seen_bytes = atomic_load(&connection->written);
	if (kernel_bytes <= seen_bytes + FIN)
		return;
	/* Rare, so worth the whole number. */
	for (int i = 0; i < LOOKS && kernel_bytes_of(connection, fd, &again) && again > kernel_bytes; i++)
		kernel_bytes = again;
	LOG("fd=%d unseen=%llu", fd, (unsigned long long)(kernel_bytes - seen_bytes));
	connection->unseen_bytes += kernel_bytes - seen_bytes;
	connection->has_unseen = true;
	atomic_store(&is_found, true);
	written_past(connection, kernel_bytes - seen_bytes);
}

void unseen_forget(struct connection *connection, int fd)
{
	uint64_t kernel_bytes = 0;

	(void)kernel_bytes_of(connection, fd, &kernel_bytes);
	written_past(connection, kernel_bytes - atomic_load(&connection->written));
	connection->unseen_bytes = 0;
	connection->has_unseen = false;
}
