/*
 * Which connections are in scope by the ports that the operator names: those whose listening side has one of them. For
 * BPF only.
 */
#ifndef QCLIMB_TAGGER_SCOPE_H
#define QCLIMB_TAGGER_SCOPE_H

#include "maps.h"

#define ANY_PORT 0 /* a key of `ports` */

/* The service ports that are served; none: all. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, uint32_t);
	__type(value, uint32_t);
} ports SEC(".maps");

static __always_inline int is_in_scope(uint32_t service_port)
{
	const uint32_t any = ANY_PORT;

	return bpf_map_lookup_elem(&ports, &any) || bpf_map_lookup_elem(&ports, &service_port);
}

#endif
