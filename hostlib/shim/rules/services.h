/*
 * How the messages of this program's services tell their size, as hostd has learned it (qclimb/lengths.h). Read from a
 * file into tables that are swapped under running calls. Invariant: an entry is two words, each read at once; a reader
 * that was asleep for three generations of the file may find another service's rule, which costs a forecast.
 */
#ifndef QCLIMB_SERVICES_H
#define QCLIMB_SERVICES_H

#include "base/shim.h"

#include <qclimb/lengths.h>

struct service {
	bool is_known;
	bool is_exact; /* the rule's word is an upper bound, too */
	uint8_t state; /* enum qclimb_length_state */
	struct qclimb_length_rule rule; /* width 0: none */
};

/* How many there are, for whoever need not ask. */
extern QCLIMB_OURS _Atomic uint32_t qclimb_services;

/* Looks for a new file; called where policies are looked for, by one thread at a time. */
void services_look(void);

/* The port by which a service is known: 0 for those of the kernel's choice. */
uint16_t service_port(uint16_t port);

/* Of the listening side's port and this side's role: what is known of that very port, else of service_port(port). */
struct service service_of(uint16_t port, uint8_t role);

#endif
