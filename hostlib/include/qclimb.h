/*
 * What an application may tell libqclimb.so, where it is loaded. Optional: the library works without a word.
 *
 * The symbols are weak: a program that includes this header links without the library and runs without it, and then
 * each call does nothing and returns 0. Where LD_PRELOAD brings the library, it returns 1 if the word was taken, 0 if
 * not (the descriptor is no TCP connection that the library knows of). No call fails, blocks or changes errno.
 * In a static program the calls do nothing.
 *
 * For C11 and C++. Other languages look the symbols up in the process (dlsym; hostlib/hint.py does in Python).
 */
#ifndef QCLIMB_H
#define QCLIMB_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QCLIMB_OPTIONAL __attribute__((weak, visibility("default")))

/*
 * The next write on fd begins a flow of exactly `bytes` bytes, as they are written to the socket (with TLS: what the
 * TLS library writes). To be called before the flow's first write; 0 bytes tell nothing. The flow starts at the
 * priority of its size and climbs as its end comes near, also where it is written in small pieces. A flow that outgrows
 * its size goes on as one of unknown size. Counts in mode `qclimb`; in the others it only says where the flow begins.
 */
int qclimb_flow_size(int fd, uint64_t bytes) QCLIMB_OPTIONAL;

/*
 * The next write on fd begins a flow that should have arrived within `us` microseconds from now, 300,000,000 (five
 * minutes) at most; 0 tells nothing. To be called before the flow's first write, with qclimb_flow_size() or without.
 * The flow's priority is then that of the time it has left, as it is when bytes are written: it climbs as the deadline
 * nears, and is served last once that has passed. Counts in mode `qclimb`, and only where the operator's policy honours
 * deadlines; elsewhere it only says where the flow begins.
 */
int qclimb_flow_deadline(int fd, uint32_t us) QCLIMB_OPTIONAL;

/*
 * The flow under way on fd is over: the next write begins another one, whatever was read or ACKed between. For streams
 * of messages that nobody answers. Of several words before one write the last counts;
 * a size and a deadline count together.
 */
int qclimb_flow_end(int fd) QCLIMB_OPTIONAL;

/* The same names, callable whether or not the library is there. */
#define qclimb_flow_size(fd, bytes) (qclimb_flow_size ? qclimb_flow_size(fd, bytes) : 0)
#define qclimb_flow_deadline(fd, us) (qclimb_flow_deadline ? qclimb_flow_deadline(fd, us) : 0)
#define qclimb_flow_end(fd) (qclimb_flow_end ? qclimb_flow_end(fd) : 0)

#ifdef __cplusplus
}
#endif

#endif
