#include "optax/received.h"

#include <sys/mman.h>

_Atomic(struct received *) qclimb_received_chunks[RECEIVED_CHUNKS];

void received_begin(struct connection *connection)
{
	_Atomic(struct received *) *place =
		&qclimb_received_chunks[connection->slot / RECEIVED_CHUNK % RECEIVED_CHUNKS];
	struct received *none = NULL;
	const int saved = errno;
	void *chunk;

	if (!atomic_load(place)) {
		chunk = mmap(NULL, RECEIVED_CHUNK * sizeof(struct received), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (chunk != MAP_FAILED && !atomic_compare_exchange_strong(place, &none, chunk))
			munmap(chunk, RECEIVED_CHUNK * sizeof(struct received));
	}
	if (atomic_load(place))
		*received_of(connection) = (struct received){ 0 };
	errno = saved;
}

void received_after_fork(void)
{
	for (uint32_t i = 0; i < RECEIVED_CHUNKS && atomic_load(&qclimb_received_chunks[i]); i++)
		for (uint32_t slot = 0; slot < RECEIVED_CHUNK; slot++)
			atomic_store(&atomic_load(&qclimb_received_chunks[i])[slot].kind, KIND_KERNELS);
}
