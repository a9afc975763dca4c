"""The lab's traffic: flow-size tables, arrival traces, the applications that carry them, passes over a fabric."""
