/*
 * The model file of a host, /run/qclimb/model: checks every byte that a walk could trip over and unpacks it into
 * forest.h's tables, in memory that the caller gives. Its structs stand in layout.h. No allocation.
 *
 * The file: header, int32 roots[trees], struct qclimb_node nodes[nodes], int32 lower_key[nodes],
 * int32 upper_key[nodes], uint32 crc32. A leaf is a node that is its own child, with threshold INT32_MAX and feature 0.
 * Invariant: what loads is a set of disjoint trees, none deeper than `depth`; their order in the file does not matter.
 */
#ifndef QCLIMB_MODEL_H
#define QCLIMB_MODEL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "crc32.h"
#include "forest.h"
#include "layout.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "qclimb's host files are little endian, and so must the host be"
#endif

/* The file's parts, found in its bytes; nothing here is aligned for sure. */
struct qclimb_model_view {
	struct qclimb_model_header header;
	const uint8_t *roots, *nodes, *lower, *upper;
};

static inline int32_t qclimb_i32_at(const uint8_t *array, uint64_t index)
{
	int32_t value;

	__builtin_memcpy(&value, array + index * sizeof(value), sizeof(value));
	return value;
}

static inline struct qclimb_node qclimb_node_at(const struct qclimb_model_view *view, uint32_t index)
{
	struct qclimb_node node;

	__builtin_memcpy(&node, view->nodes + (uint64_t)index * sizeof(node), sizeof(node));
	return node;
}

/* Finds the parts, checks header, lengths and checksum: 0 or an error as of qclimb_policy_verify(). */
static inline int qclimb_model_open(const void *bytes, size_t len, struct qclimb_model_view *view)
{
	const struct qclimb_model_header *header = &view->header;
	const uint8_t *byte = (const uint8_t *)bytes;
	uint32_t crc;
	uint64_t want;

	if (len < sizeof(*header) + sizeof(crc))
		return -EMSGSIZE;
	__builtin_memcpy(&view->header, bytes, sizeof(*header));
	if (header->magic != QCLIMB_MODEL_MAGIC)
		return -EINVAL;
	if (header->version != QCLIMB_MODEL_VERSION || header->header_bytes != sizeof(*header))
		return -EPROTONOSUPPORT;
	if (header->trees < 1 || header->trees > QCLIMB_MAX_TREES || header->depth > QCLIMB_MAX_DEPTH)
		return -EINVAL;
	if (header->nodes < header->trees || header->nodes > QCLIMB_MAX_NODES || header->leaves != header->nodes)
		return -EINVAL;
	if (header->features < 1 || header->features > QCLIMB_MAX_FEATURES)
		return -EINVAL;
	for (uint32_t i = 0; i < header->features; i++)
		if (header->feature_id[i] >= QCLIMB_FEATURES)
			return -EINVAL;
	/* At most 2^10 * 4 + 2^24 * 20 bytes: far from overflow. */
	want = sizeof(*header) + (uint64_t)header->trees * sizeof(int32_t) +
	       (uint64_t)header->nodes * (sizeof(struct qclimb_node) + 2 * sizeof(int32_t)) + sizeof(crc);
	if (len != want)
		return -EMSGSIZE;
	__builtin_memcpy(&crc, byte + len - sizeof(crc), sizeof(crc));
	if (crc != qclimb_crc32(bytes, len - sizeof(crc)))
		return -EBADMSG;
	view->roots = byte + sizeof(*header);
	view->nodes = view->roots + (uint64_t)header->trees * sizeof(int32_t);
	view->lower = view->nodes + (uint64_t)header->nodes * sizeof(struct qclimb_node);
	view->upper = view->lower + (uint64_t)header->nodes * sizeof(int32_t);
	return 0;
}

/*
 * Memory that qclimb_model_load() needs, in bytes, to be aligned to 8; 0 if `bytes` is no model. Cheap: reads the
 * header only.
 */
static inline size_t qclimb_model_memory_bytes(const void *bytes, size_t len)
{
	struct qclimb_model_header header;

	if (len < sizeof(header))
		return 0;
	__builtin_memcpy(&header, bytes, sizeof(header));
	if (header.magic != QCLIMB_MODEL_MAGIC || header.nodes > QCLIMB_MAX_NODES || header.nodes > len)
		return 0;
	return (size_t)header.nodes * (sizeof(struct qclimb_walk_node) + sizeof(struct qclimb_leaf));
}

/* Whether a leaf's bounds are sizes in order, and no NaN: 0 or -EINVAL. */
static inline int qclimb_leaf_check(const struct qclimb_leaf *leaf)
{
	return 0 <= leaf->lower_key && leaf->lower_key <= leaf->upper_key && leaf->upper_key <= QCLIMB_KEY_INFINITY
		       ? 0
		       : -EINVAL;
}

/*
 * Unpacks a model into `memory` (qclimb_model_memory_bytes() of it, aligned to 8), which must stay while `forest` is
 * used; `bytes` need not. 0, or -errno and an unusable `forest`: -ENOMEM (too little memory), -EINVAL (also: a child or
 * feature out of range, a node in two trees, a tree deeper than the header's depth, bounds that are NaN or out of
 * order), and those of qclimb_model_open().
 *
 * The trees are laid out anew, breadth first and together: the first steps of all walks share a few cache lines. The
 * layout is the check too: a queue that outgrows the table means a cycle or a shared node, one that still grows after
 * `depth` levels a tree too deep.
 */
static inline int qclimb_model_load(const void *bytes, size_t len, void *memory, size_t memory_bytes,
				    struct qclimb_forest *forest)
{
	struct qclimb_model_view view;
	struct qclimb_walk_node *node = (struct qclimb_walk_node *)memory;
	struct qclimb_leaf *leaf;
	uint32_t count, done, level_end, level;
	int error = qclimb_model_open(bytes, len, &view);

	if (error)
		return error;
	if (memory_bytes < qclimb_model_memory_bytes(bytes, len))
		return -ENOMEM;
	leaf = (struct qclimb_leaf *)(node + view.header.nodes);

	/* node[] first queues the file's index of each node; each is packed when its turn comes. */
	for (count = 0; count < view.header.trees; count++) {
		const int32_t root = qclimb_i32_at(view.roots, count);

		if (root < 0 || (uint32_t)root >= view.header.nodes)
			return -EINVAL;
		node[count].link = (uint32_t)root;
	}
	for (done = 0, level = 0, level_end = count; done < count; done++) {
		const uint32_t from = node[done].link;
		const struct qclimb_node file = qclimb_node_at(&view, from);

		if (done == level_end) {
			level++;
			level_end = count;
		}
		if (file.child < 0 || (uint32_t)file.child >= view.header.nodes)
			return -EINVAL;
		if (file.feature < 0 || (uint32_t)file.feature >= view.header.features)
			return -EINVAL;
		if ((uint32_t)file.child == from) {
			if (file.threshold_key != INT32_MAX || file.feature != 0)
				return -EINVAL;
			leaf[done].lower_key = qclimb_i32_at(view.lower, from);
			leaf[done].upper_key = qclimb_i32_at(view.upper, from);
			if (qclimb_leaf_check(&leaf[done]))
				return -EINVAL;
			node[done].threshold = qclimb_biased_key(INT32_MAX);
			node[done].link = done << 8;
			continue;
		}
		if (level >= view.header.depth || view.header.nodes - count < 2 ||
		    (uint32_t)file.child + 1 >= view.header.nodes || file.threshold_key > QCLIMB_KEY_INFINITY ||
		    file.threshold_key < -QCLIMB_KEY_INFINITY)
			return -EINVAL;
		leaf[done].lower_key = leaf[done].upper_key = 0;
		node[done].threshold = qclimb_biased_key(file.threshold_key);
		node[done].link = count << 8 | (uint32_t)file.feature;
		node[count++].link = (uint32_t)file.child;
		node[count++].link = (uint32_t)file.child + 1;
	}

	forest->generation = view.header.generation;
	forest->trees = view.header.trees;
	forest->depth = level;
	forest->nodes = count;
	forest->features = view.header.features;
	__builtin_memcpy(forest->feature_id, view.header.feature_id, sizeof(forest->feature_id));
	forest->node = node;
	forest->leaf = leaf;
	return 0;
}

#endif
