/*
 * syscall and prctl, for two things that go by them. A program that restricts its own system calls (seccomp) may be
 * killed for one of ours: before its filter is in force every socket is given back, and from then on every call passes
 * as it is. And libuv closes by syscall(), so that no thread is cancelled there.
 *
 * All else is handed on as it came.
 */
#include "calls/real.h"
#include "optax/optax.h"
#include "optax/withheld.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>

/* Without a filter it is the question whether the kernel could: libseccomp asks so. */
static bool is_restriction(unsigned long mode, unsigned long filter)
{
	return mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && !is_no_memory((const void *)filter));
}

static unsigned long mode_of(unsigned long operation)
{
	return operation == SECCOMP_SET_MODE_STRICT   ? SECCOMP_MODE_STRICT
	       : operation == SECCOMP_SET_MODE_FILTER ? SECCOMP_MODE_FILTER
						      : SECCOMP_MODE_DISABLED;
}

/* Before close, seccomp or prctl, and before the first call of all. */
__attribute__((cold, used)) void qclimb_look(long number, unsigned long a, unsigned long b, unsigned long c);
void qclimb_look(long number, unsigned long a, unsigned long b, unsigned long c)
{
	const int saved = errno;

	(void)real();
	if (number == SYS_close) {
		connection_drop((int)a);
		if (optax_is_on())
			withheld_loop_closed((int)a);
	} else if (number == SYS_seccomp ? is_restriction(mode_of(a), c)
					 : number == SYS_prctl && a == PR_SET_SECCOMP && is_restriction(b, c)) {
		qclimb_withdraw();
	}
	errno = saved;
}

/*
 * libc's is declared with `...`, which would have to be read to be handed on. Numbers and pointers travel alike either
 * way.
 */
#define WORDS unsigned long a, unsigned long b, unsigned long c, unsigned long d
#define EXPORT_AS(result, name, arguments)                                                                             \
	QCLIMB_EXPORT result name##_of_the_application arguments __asm__(#name);                                       \
	QCLIMB_EXPORT result name##_of_the_application arguments

EXPORT_AS(int, prctl, (int option, WORDS))
{
	const struct real *libc = real();

	if (unlikely(option == PR_SET_SECCOMP))
		qclimb_look(SYS_prctl, (unsigned long)option, a, b);
	return libc->prctl(option, a, b, c, d);
}

#ifdef __x86_64__

/*
 * The seventh word would lie on the stack, where a caller who hands on fewer may have a variable of its own (a futex):
 * nothing there is touched. rax is 0 for a libc that is C and reads its `...`.
 */
#define TEXT_OF(number) #number
#define IS_LOOKED_AT(number) "	cmpq $" TEXT_OF(number) ", %rdi\n	je 1f\n"

__asm__("	.pushsection .text, \"ax\", @progbits\n"
	"	.globl syscall\n"
	"	.type syscall, @function\n"
	"syscall:\n" IS_LOOKED_AT(__NR_close) IS_LOOKED_AT(__NR_prctl)
		IS_LOOKED_AT(__NR_seccomp) "	movq qclimb_syscall(%rip), %r11\n"
					   "	testq %r11, %r11\n"
					   "	je 1f\n"
					   "	xorl %eax, %eax\n"
					   "	jmp *%r11\n"
					   "1:	pushq %rdi\n	pushq %rsi\n	pushq %rdx\n	pushq %rcx\n	pushq "
					   "%r8\n	pushq %r9\n"
					   "	subq $8, %rsp\n"
					   "	call qclimb_look\n"
					   "	addq $8, %rsp\n"
					   "	popq %r9\n	popq %r8\n	popq %rcx\n	popq %rdx\n	popq "
					   "%rsi\n	popq %rdi\n"
					   "	xorl %eax, %eax\n"
					   "	jmp *qclimb_syscall(%rip)\n"
					   "	.size syscall, . - syscall\n"
					   "	.popsection\n");

#else

EXPORT_AS(long, syscall, (long number, WORDS, unsigned long e, unsigned long f))
{
	if (!qclimb_syscall || number == SYS_close || number == SYS_prctl || number == SYS_seccomp)
		qclimb_look(number, a, b, c);
	return qclimb_syscall(number, a, b, c, d, e, f);
}

#endif
