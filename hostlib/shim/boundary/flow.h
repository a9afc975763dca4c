/*
 * What a call does to the flow of its connection: writes are cut where the priority changes and wait there where the
 * caller may be made to; reads turn the conversation; closing ends it. life.h says where flows begin and end,
 * decision.h how far they may be written.
 */
#ifndef QCLIMB_FLOW_H
#define QCLIMB_FLOW_H

#include "boundary/pieces.h"
#include "life/turned.h"
#include "rules/rules.h"
#include "socket/connection.h"

#include <qclimb/length.h>

/* Carries out a writing call: what the application gets back, with libc's errno. */
ssize_t flow_write(struct connection *connection, struct write_call *call);

/*
 * What a read may ask of the kernel: a quick ACK for bulk that paused, and whether a flow that sank, or that bulk
 * follows, is drained: then the socket is at rest.
 */
void flow_read_more(struct connection *connection, int fd, bool is_pause);

/* What a read that turns the conversation says of the answer to it: HTTP's HEAD and CONNECT change what lengths mean. */
static inline uint8_t turn_of(const struct connection *connection, const uint8_t *head, size_t got)
{
	if (likely(!head || !connection->role || got < 16 || (*head != 'H' && *head != 'C') || !rules_heads()))
		return TURNED;
	return TURNED + (uint8_t)qclimb_http_method(head, 16);
}

/* `got` bytes were read, `asked` were asked for: a turn. They begin at `head`; NULL: in several parts. */
static inline void flow_read(struct connection *connection, int fd, const uint8_t *head, size_t got, size_t asked)
{
	bool is_pause;

	if (!relaxed_get(connection->is_turned)) /* the first of several reads counts */
		turn_note(connection, turn_of(connection, head, got));
	is_pause = read_note(connection, got) > 2 * 1448 && got < asked;
	if (unlikely(is_pause || relaxed_get(connection->priority) != 0))
		flow_read_more(connection, fd, is_pause);
}

/* A read found the end: but where a piece of ours took the error of a reset, that is told. */
static inline ssize_t flow_read_end(struct connection *connection)
{
	const int error = relaxed_get(connection->error_next) ? flow_take_error(connection) : 0;

	if (!error)
		return 0;
	errno = error;
	return -1;
}

/* Before connect() and listen(): the socket rests at priority 0. */
void flow_rest(struct connection *connection, int fd);

/* The descriptor is closed or shut down for writing; FD_GONE, FD_LOST: nothing may be asked of it. */
void flow_closed(struct connection *connection, int fd);

#endif
