#include "base/libc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

long (*qclimb_syscall)(long number, ...);

bool libc_is_own(void)
{
	const bool is_glibc = dlsym(RTLD_DEFAULT, "gnu_get_libc_version") != NULL;

#ifdef __GLIBC__
	return is_glibc;
#else
	return !is_glibc;
#endif
}

#ifdef __GLIBC__

/*
 * pthread_atfork as glibc's own archive has it, but weak: musl's loader would refuse the whole program for this one
 * name.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
	__attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

void libc_at_fork(void (*parent)(void), void (*child)(void))
{
	if (__register_atfork)
		__register_atfork(NULL, parent, child, __dso_handle);
}

#else

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) __attribute__((weak));

void libc_at_fork(void (*parent)(void), void (*child)(void))
{
	if (pthread_atfork)
		pthread_atfork(NULL, parent, child);
}

#endif
