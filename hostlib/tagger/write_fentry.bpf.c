/* The kernel mode's look at writes on kernels without the tracepoint: at the function's entry, once a call. */
#include "write.h"

SEC("fentry/tcp_sendmsg_locked")
int by_fentry(uint64_t *arguments)
{
	on_write((struct sock *)arguments[0], (struct msghdr *)arguments[1], arguments[2]);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
