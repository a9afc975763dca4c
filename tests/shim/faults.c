/*
 * Preloaded beside libqclimb.so: makes one in FAULTS of what that library itself asks of the kernel fail, as a kernel
 * may. What the application asks is not touched: the caller's address tells who asks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uintptr_t first, last; /* of the library's code */
static unsigned int one_in;
static _Atomic uint32_t turn, failed;

static int look(struct dl_phdr_info *object, size_t len, void *unused)
{
	(void)len;
	(void)unused;
	if (!strstr(object->dlpi_name, "libqclimb"))
		return 0;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
			first = object->dlpi_addr + part->p_vaddr;
			last = first + part->p_memsz;
		}
	}
	return 1;
}

static int fails(const void *caller)
{
	uint32_t random;

	if (!first) {
		one_in = (unsigned int)atoi(getenv("FAULTS"));
		dl_iterate_phdr(look, NULL);
	}
	if ((uintptr_t)caller < first || (uintptr_t)caller >= last)
		return 0;
	random = atomic_fetch_add(&turn, 1) * 2654435761u;
	if (((random ^ random >> 15) * 2246822519u >> 8) % one_in)
		return 0;
	atomic_fetch_add(&failed, 1);
	return 1;
}

/* What each may say on a descriptor that is good; 0: it can't fail. */
static int error_of(long number)
{
	switch (number) {
	case SYS_setsockopt:
	case SYS_getsockopt:
	case SYS_getsockname:
	case SYS_getpeername:
	case SYS_sendmsg:
		return ENOBUFS;
	case SYS_ioctl:
	case SYS_ppoll:
		return ENOMEM;
	case SYS_nanosleep:
		return EINTR;
	case SYS_openat:
	case SYS_socket:
		return EMFILE;
	case SYS_read:
		return EIO;
	case SYS_write:
		return ENOSPC;
	case SYS_connect:
		return ECONNREFUSED;
	default:
		return 0;
	}
}

long syscall(long number, ...)
{
	static long (*libc)(long, ...);
	long argument[6];
	va_list arguments;

	if (!libc)
		libc = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		argument[i] = va_arg(arguments, long);
	va_end(arguments);
	if (error_of(number) && fails(__builtin_return_address(0))) {
		errno = error_of(number);
		return -1;
	}
	return libc(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
	static void *(*libc)(void *, size_t, int, int, int, off_t);

	if (!libc)
		libc = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
	if (fails(__builtin_return_address(0))) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return libc(at, len, protection, flags, fd, offset);
}

int stat(const char *path, struct stat *found)
{
	static int (*libc)(const char *, struct stat *);

	if (!libc)
		libc = (int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");
	if (fails(__builtin_return_address(0))) {
		errno = EACCES;
		return -1;
	}
	return libc(path, found);
}

__attribute__((destructor)) static void tell(void)
{
	fprintf(stderr, "faults: %u of %u\n", failed, turn);
}
