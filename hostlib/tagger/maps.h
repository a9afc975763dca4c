/*
 * How the maps of the tagger's and the kernel mode's programs are declared: pinned by their names in one directory, so
 * that programs of several objects, and of several versions, share them. For BPF only.
 */
#ifndef QCLIMB_TAGGER_MAPS_H
#define QCLIMB_TAGGER_MAPS_H

#include <stdint.h>

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "tagger.h"

/* A flow's rule at its socket: what the library, or the kernel mode, found. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__type(key, int);
	__type(value, struct tagger_socket);
} flows SEC(".maps");

/* The one value of an array of one. */
#define ONLY(map)                                                                                                      \
	({                                                                                                             \
		const uint32_t zero = 0;                                                                               \
		bpf_map_lookup_elem(map, &zero);                                                                       \
	})

/*
 * The same number, of which the compiler knows nothing: where it knows the range it leaves a mask out, and the verifier
 * of an older kernel, which has lost the range on the way over the stack, refuses the program.
 */
static __always_inline uint64_t opaque(uint64_t number)
{
	__asm__ volatile("" : "+r"(number));
	return number;
}

#endif
