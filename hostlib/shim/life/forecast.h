/*
 * A forest's row for a flow that starts, and what it says. Integers only: the features become float32 keys as numpy
 * makes them.
 */
#ifndef QCLIMB_FORECAST_H
#define QCLIMB_FORECAST_H

#include "socket/connection.h"

#include <qclimb/forest.h>

/*
 * Bounds of the flow that has just started; false: there are none, for the model asks for a feature that we do not
 * know.
 */
bool forecast(const struct qclimb_forest *forest, const struct connection *connection, uint64_t *lower_bytes,
	      uint64_t *upper_bytes);

#endif
