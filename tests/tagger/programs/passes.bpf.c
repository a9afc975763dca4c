/* Somebody else's program at tcx or clsact: it says OK, which ends a packet's way through tcx. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

__attribute__((section("tc"), used)) int passes(struct __sk_buff *skb)
{
	return TC_ACT_OK;
}

char _license[] __attribute__((section("license"), used)) = "GPL";
