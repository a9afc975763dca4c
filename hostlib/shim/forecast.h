/* A forest's row for a flow that starts, and what it says. Integers only: the features become float32 keys as numpy makes them. */
#ifndef QCLIMB_FORECAST_H
#define QCLIMB_FORECAST_H

#include "connection.h"

#include <qclimb/forest.h>

/* Fills the record's lower_bytes and upper_bytes; false: the model asks for a feature that we do not know. */
bool forecast(const struct qclimb_forest *forest, const struct connection *connection, struct qclimb_record *record);

#endif
