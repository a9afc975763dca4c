/* The kernel mode's look at writes, by the tracepoint tcp:tcp_sendmsg_locked (Linux 6.16). */
#include "write.h"

SEC("tp_btf/tcp_sendmsg_locked")
int by_tracepoint(uint64_t *arguments)
{
	struct sock *sk = (struct sock *)arguments[0];
	struct msghdr *message = (struct msghdr *)arguments[1];

	on_write(sk, message, message->msg_iter.count);
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
