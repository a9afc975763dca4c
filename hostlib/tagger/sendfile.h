/*
 * How much a `sendfile` asks for, in the kernel: a socket is handed its pages 64 KB at a time, and nothing that comes with
 * them tells of the rest. The system call's own arguments do, and the file's length, for applications ask for 2^30 bytes to
 * say "to its end". For BPF only, on x86-64: elsewhere a piece is what a call asks for.
 *
 * Invariant: what can't be read makes it a piece, too; nothing of another process is read.
 */
#ifndef QCLIMB_TAGGER_SENDFILE_H
#define QCLIMB_TAGGER_SENDFILE_H

#include <bpf/bpf_core_read.h>

#include "stream.h"

#define SPLICES_PAGES 0x8000000 /* MSG_SPLICE_PAGES (Linux 6.5) */
#define SENDFILE 40 /* its number */
#define FORMAT 0170000
#define REGULAR 0100000
#define DESCRIPTORS_MOST (1u << 20)

/* Bytes of the file behind where the call begins; UINT64_MAX: nobody knows. */
static __always_inline uint64_t rest_of_file(const struct pt_regs *call)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	const uint32_t number = (uint32_t)call->si;
	const void *offset = (const void *)call->dx;
	struct file **at = BPF_CORE_READ(table, fd), *file = 0;
	struct inode *inode;
	int64_t from, size;

	if (number >= BPF_CORE_READ(table, max_fds) || number >= DESCRIPTORS_MOST ||
	    bpf_probe_read_kernel(&file, sizeof(file), at + number) || !file)
		return UINT64_MAX;
	inode = BPF_CORE_READ(file, f_inode);
	if ((BPF_CORE_READ(inode, i_mode) & FORMAT) != REGULAR)
		return UINT64_MAX;
	from = BPF_CORE_READ(file, f_pos);
	if (offset && bpf_probe_read_user(&from, sizeof(from), offset))
		return UINT64_MAX;
	size = BPF_CORE_READ(inode, i_size);
	return from >= 0 && from < size ? (uint64_t)(size - from) : 0;
}

/*
 * What is left of the call under way whose next piece has `left` bytes, at the position `written`. The kernel moves the
 * offset when the call is over: until then all its pieces give the same answer.
 */
static __noinline uint64_t left_of_sendfile(struct stream *stream, uint64_t written, uint64_t left)
{
	const struct pt_regs *call = (const struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	uint64_t count, rest;

	if (!bpf_core_field_exists(call->orig_ax) || !call || call->orig_ax != SENDFILE)
		return left;
	count = call->r10;
	if (count <= left) { /* this is all of it */
		stream->sendfile_bytes = count;
		stream->sendfile_end = written + left;
		return left;
	}
	rest = rest_of_file(call);
	count = rest < count ? rest : count;
	if (stream->sendfile_bytes != count || stream->sendfile_end <= written) {
		stream->sendfile_bytes = count;
		stream->sendfile_end = written + count;
	}
	return stream->sendfile_end - written > left ? stream->sendfile_end - written : left;
}

#endif
