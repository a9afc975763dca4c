#include "optax/turn.h"

#include "optax/line.h"

#define WINDOW_LEAST_BYTES (2 * SEGMENT_BYTES) /* what one read of a flow behind the head lets in */

bool turn_is_later(const struct connection *connection, uint64_t now, uint64_t *due_ns)
{
	const struct received *flow = received_of(connection);
	struct line_view view;

	if (!flow || atomic_load_explicit(&flow->kind, memory_order_relaxed) != KIND_SMALL || connection->is_foreign)
		return false;
	line_look(now, &view);
	if (!view.rank)
		return false;
	line_waits(now);
	*due_ns = atomic_load_explicit(&flow->read_ns, memory_order_relaxed) +
		  qclimb_ack_delay_ns(view.behind_flows, WINDOW_LEAST_BYTES, view.capacity, view.rate_before, 0,
				      DELAY_MOST_NS);
	return now < *due_ns;
}
