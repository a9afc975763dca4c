/*
 * What glibc and musl say differently of the same calls. glibc's prototypes take a transparent union where addresses
 * go; musl has no FORTIFY variants, and gives the large-file names as macros.
 */
#ifndef QCLIMB_LIBC_H
#define QCLIMB_LIBC_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _LARGEFILE64_SOURCE
#define _LARGEFILE64_SOURCE /* off64_t in musl, from 1.2.4 on */
#endif
#include <fcntl.h>
#include <stdbool.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

/* Of a variable that files share: it is in this library, so no table of addresses need be asked where. */
#define QCLIMB_OURS __attribute__((visibility("hidden")))

#ifdef __GLIBC__

#define ADDRESS __SOCKADDR_ARG
#define CONST_ADDRESS __CONST_SOCKADDR_ARG
#define ADDRESS_OF(argument) ((argument).__sockaddr__)
typedef int many_flags; /* of sendmmsg and recvmmsg */

#else

#define ADDRESS struct sockaddr *
#define CONST_ADDRESS const struct sockaddr *
#define ADDRESS_OF(argument) (argument)
typedef unsigned int many_flags;

#undef fcntl64
#undef sendfile64

#endif

/*
 * Whether this process runs on the libc that we were built against. Programs start others, and LD_PRELOAD goes with
 * them: in a process of the other libc every call passes through.
 */
bool libc_is_own(void);

/* libc's syscall(), which calls/syscall.c exports a stand-in of: ours go past that. Set before anything else is. */
extern QCLIMB_OURS long (*qclimb_syscall)(long number, ...);

void libc_at_fork(void (*parent)(void), void (*child)(void));

#endif
