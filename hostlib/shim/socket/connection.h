/*
 * What qclimb knows of a TCP socket: one `struct connection` per open file description, found by descriptor without a
 * lock.
 *
 * Memory is type-stable: a connection is never unmapped, so that a thread that still holds one whose descriptor another
 * thread closed reads and writes a connection, at worst the next one: a wrong priority for a while, as the
 * application's own race deserves.
 * Invariant: the fields of the flow are changed only by the one writer that holds the gate (or by nobody). Atomic are
 * those that others read or change meanwhile: writers that write on without a decision, a reader, a thread that forks.
 * No order is asked of them.
 * Invariant: a field is changed where a connection begins, is forgotten or shared (connection.c), and in one file besides
 * (or its header): tests/shim/test_structure.py. But for the footprint, which whoever learns of a size changes by
 * qclimb/footprint.h.
 */
#ifndef QCLIMB_CONNECTION_H
#define QCLIMB_CONNECTION_H

#include "base/shim.h"

#include <netinet/in.h>
#include <qclimb/footprint.h>
#include <qclimb/record.h>

/* Threads in a writing call (gate.h). */
#define writers_of(connection) ((uint32_t)(atomic_load(&(connection)->writing) >> 32))

#define TURNED 1 /* is_turned: and nothing more is known of what was read */

#define DSCP_NOT_SET 255 /* what the application or the kernel chose */
#define DSCP_UNKNOWN 254 /* ours, but another process may have changed it */

/* Of the flow under way: what its record will say and nothing else here knows (life.c makes the record). */
struct flow_facts {
	uint32_t first_write_bytes; /* as asked, 4 GiB at most */
	uint32_t gap_us; /* since the history's previous flow ended */
	_Atomic uint32_t drained_us; /* since the start, 0: not seen */
	uint32_t wait_us; /* sum of waits at boundaries */
	uint32_t last_sizes[QCLIMB_LAST_SIZES]; /* the history's, newest first, packed (history.h) */
	uint16_t promotions, demotions;
	uint16_t before_bytes; /* of the flow's, told by earlier flows' records: an assumed beginning (assumed.h) */
	uint8_t mode : 2; /* enum qclimb_mode */
	uint8_t assumed : 6; /* flows since the last one whose beginning was proven, this one among them */
	uint8_t flags; /* enum qclimb_record_flag, or-ed */
};

struct connection {
	/* On the path of every call: one cache line. */
	/* written.h: bytes of the connection, as libc accepted them, and positions among them */
	_Atomic uint64_t written;
	_Atomic uint64_t quiet_at; /* up to here the flow may be written without a decision */
	_Atomic uint64_t proven_at; /* the last proven beginning of a flow */
	_Atomic uint64_t last_write_ns;
	_Atomic uint64_t writing; /* gate.h: threads in a writing call, and who of them decides and splits */
	uint32_t flow_gap_us; /* a longer pause may end the flow */
	_Atomic uint32_t fds; /* descriptors of this process; 0: free */
	_Atomic uint16_t read_bytes; /* since the last write, saturating: is this a request or bulk */
	_Atomic uint8_t
		is_turned; /* something was read since the last write; TURNED and more, an enum qclimb_http_asked */
	bool is_open; /* a flow has begun */
	uint8_t own_dscp; /* without us: is_released, or of an accepted one by net.ipv4.tcp_reflect_tos; else 0 */
	_Atomic uint8_t priority; /* in force on the socket */
	_Atomic uint8_t dscp; /* in force, or one of the two above */
	_Atomic uint8_t lent; /* of the socket's options, or-ed: loans.c alone writes it, and forgets it in a child */
	uint8_t role : 1; /* 1: accepted */
	bool is_ipv6 : 1; /* in one byte with role: both are set before anybody else sees the connection */
	bool is_listener : 1; /* and these by the application */
	bool is_fastopen : 1; /* TCP_FASTOPEN_CONNECT: the first write connects */
	bool has_corked : 1; /* TCP_CORK, for all that went through libc */
	bool has_so_priority : 1; /* own_so_priority is the application's */
	bool is_stamped : 1; /* SO_TIMESTAMPING: a call has one completion */
	int8_t own_nodelay; /* as own_lowat; -1: not yet asked */
	atomic_bool is_released; /* the application chose its own DSCP: records only */
	/* shared with another process, or the kernel writes itself (kTLS): its count proves nothing */
	atomic_bool is_foreign;
	bool has_unseen; /* something went past the library: each flow is looked at */
	bool has_peer : 1; /* the call that made the connection told its peer */
	bool has_addresses : 1; /* and cookie */
	bool is_forecast : 1; /* the forest was asked for the flow's size */
	uint8_t vain_flows; /* so many more of about this size are not asked about: no climb of theirs pays (worth.c) */
	bool is_shared : 1; /* the flow began before a fork: the other process records it */
	/* announced.h; in one byte with what is written where a flow ends, which may be without the gate (a close) */
	uint8_t announced_by : 3; /* enum qclimb_announced_by: whence foretold.lower_bytes is; BY_NOBODY: not from there */
	bool is_sampled : 1; /* the flow's first bytes are kept in a sample */
	bool is_untold : 1; /* the flow before was larger than its first write, and nothing had announced it */

	/* The flow. */
	struct qclimb_footprint footprint;
	uint64_t start_ns;
	union {
		/* a drain was given up: until this offset a promotion comes only where one is not needed */
		uint64_t kept_bytes;
		/* is_tagged: the flow's position in the stream + 1; 0: the tagger was not told of it */
		uint64_t tagged_from;
	};
	uint64_t unseen_bytes; /* went past the library since the last flow ended, by the kernel's count (unseen.h) */
	_Atomic uint64_t told; /* of the flow that the next write begins (told.h); 0: nothing */

	/* The socket. */
	uint64_t cookie; /* SO_COOKIE, 0: not yet known */
	struct flow_facts facts;
	uint32_t verified_tick; /* tick_of() the last look at the cookie; 0: none yet */
	uint32_t wait_since_tick; /* of a wait for which something is lent; a moment to come: once all is sent */
	uint8_t peer_addr[16]; /* IPv4 as v4-mapped */
	uint16_t local_port, peer_port;
	uint16_t local_place; /* of the local address (locals.h) */
	uint16_t climbs_from; /* no drain before, in 2^26 ns; 0: at any time (worth.c) */
	union {
		uint32_t flows; /* ended ones */
		uint32_t listened_dscp; /* a listener's, when it began to listen */
	};

	/* What the application set, so that it is found again. */
	int own_so_priority; /* or 0 */
	int own_lowat; /* TCP_NOTSENT_LOWAT; 0 is the kernel's "system default" */
	/* What lent options replaced. */
	int old_sndbuf; /* as getsockopt gives it; 0: none of ours is in force */
	/* a later piece of a split write took an error from the kernel: the next call that asks is told it; 0: none */
	_Atomic uint16_t error_next;
	uint8_t old_buf_lock : 2; /* SO_BUF_LOCK */
	/* assumed.h */
	uint8_t proofs : 3; /* turns in a row that were proven to begin a flow, ASSUMED_PROOFS at most */
	uint8_t is_doubted : 1; /* one was not: from then on each is proven */

	/* tagger.c; changed by the gate's holder */
	uint8_t is_tagged : 1; /* its packets are the tagger's to mark */
	uint8_t tagged_has_before : 1; /* the flow before is told of, too */
	uint8_t tagger_epoch : 6; /* of the tagger that is_tagged holds for; 0: not yet asked */
	uint8_t is_level : 1; /* no climb of the flow can pay: it sinks as in PIAS (look.c); the gate's holder's, too */

	/* The pool's, and no use of the connection changes them. */
	uint32_t slot;
	_Atomic uint32_t next_free; /* a slot + 1, 0: none */
};

/*
 * 10,000 connections are 2.5 MB: with its place in the table each takes 256 bytes at most (bench/shim.py measures it).
 * Who needs another field finds room for it in one that is larger than its values.
 */
_Static_assert(sizeof(struct connection) <= 248, "a connection takes more memory than qclimb promises");

struct connection_slot_chunk;
extern QCLIMB_OURS _Atomic(struct connection_slot_chunk *) qclimb_fd_chunks[];

#define FD_CHUNK 1024u
#define FD_CHUNKS 1024u /* descriptors from 2^20 on pass through */

struct connection_slot_chunk {
	_Atomic(struct connection *) slot[FD_CHUNK];
};

/* The connection of a descriptor, NULL if it is none of ours: two loads. */
static inline struct connection *connection_of(int fd)
{
	struct connection_slot_chunk *chunk;

	if (unlikely((unsigned int)fd >= FD_CHUNK * FD_CHUNKS))
		return NULL;
	chunk = atomic_load_explicit(&qclimb_fd_chunks[(unsigned int)fd / FD_CHUNK], memory_order_acquire);
	if (!chunk)
		return NULL;
	return atomic_load_explicit(&chunk->slot[(unsigned int)fd % FD_CHUNK], memory_order_acquire);
}

/*
 * What is to be done when a connection's last descriptor goes (FD_GONE, FD_LOST: nothing may be asked of it), or the
 * process ends.
 */
void connections_start(void (*ends)(struct connection *connection, int fd));

/*
 * A new connection for `fd`, replacing whatever was known of that number; NULL where memory or the table ends (it then
 * passes through).
 */
struct connection *connection_new(int fd, bool is_ipv6, uint8_t role);

/* Of a connection whose descriptor is no longer to be asked: */
#define FD_GONE -1 /* the call that gave its number away closed it: dup2 */
#define FD_LOST -2 /* closed behind our back: by fclose, io_uring or a system call of the application's own */

/*
 * `fd` now means the same description as `connection` does (NULL: none of ours); `old_fd` is what became of what it
 * meant before.
 */
void connection_set(int fd, struct connection *connection, int old_fd);

/* Nothing holds that was known of the socket: another one has its number. The gate is ours. */
void connection_forget(struct connection *connection);

/* Somebody else writes, too: another process, or the kernel itself. */
static inline void connection_is_foreign(struct connection *connection)
{
	atomic_store(&connection->is_foreign, true);
}

static inline void connection_set_stamped(struct connection *connection, bool is_stamped)
{
	connection->is_stamped = is_stamped;
}

/* The DSCP in force may be another one by now. */
static inline void connection_doubt(struct connection *connection)
{
	if (connection->dscp != DSCP_NOT_SET)
		connection->dscp = DSCP_UNKNOWN;
}

/* A number of this connection's, -1 if it has none any more. Goes through the table: for what is rare. */
int connection_number(const struct connection *connection);

/* `fd` is closed, or about to be: its last descriptor ends the flow. Does nothing in a vfork child. */
void connection_drop(int fd);
void connection_drop_range(unsigned int first, unsigned int last);

/* After fork, both sides: flows under way are the parent's to record, DSCPs may be changed by the other side. */
void connections_share(bool is_child);

/* Each descriptor that is a connection. */
void connections_visit(void (*visit)(struct connection *connection, int fd));

/* TCP over IPv4 or IPv6, as socket() was asked. */
bool is_tcp(int family, int type, int protocol);

/* A connection for a descriptor of unknown origin, if it is TCP: accepted from a socket that we have not seen. */
struct connection *connection_adopt(int fd, uint8_t role);

#endif
