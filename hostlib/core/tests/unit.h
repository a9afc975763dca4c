/* What every unit test of the core includes: cmocka with the headers that it wants before it. */
#ifndef QCLIMB_UNIT_H
#define QCLIMB_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* cmocka shows a failed size as hexadecimal; it compares 64 bits all the same. */
#define assert_bytes(is, want) assert_int_equal((uint64_t)(is), (uint64_t)(want))

#endif
