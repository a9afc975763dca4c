/*
 * The local addresses of this process's connections, each kept once: a host has few, and a connection remembers the
 * place of its own. Lock-free; what was put in stays.
 */
#ifndef QCLIMB_LOCALS_H
#define QCLIMB_LOCALS_H

#include <stdint.h>

/* The place of an address of 16 bytes, IPv4 as v4-mapped. 0: there was no room for it. */
uint16_t locals_place(const uint8_t *address);

/* The 16 bytes at a place: zeros at 0. */
const uint8_t *locals_at(uint16_t place);

#endif
