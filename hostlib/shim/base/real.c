#include "base/real.h"

#include <dlfcn.h>

struct real qclimb_real;

void real_find(void)
{
	*(void **)&qclimb_syscall = dlsym(RTLD_NEXT, "syscall");
#define FIND(result, name, arguments) qclimb_real.name = (result(*) arguments)dlsym(RTLD_NEXT, #name);
	QCLIMB_REAL(FIND)
#undef FIND
	if (!qclimb_real.fcntl64)
		qclimb_real.fcntl64 = qclimb_real.fcntl;
	if (!qclimb_real.sendfile64) /* musl from 1.2.4 on has these names for its linker only */
		qclimb_real.sendfile64 = qclimb_real.sendfile;
}
