"""What a host receives, measured (`hostlib/shim/optax/rates.c`), by itself."""

import subprocess

from stand import ROOT

PREEMPTED = """
#include "optax/rates.h"
#include <stdio.h>

static struct rates rates;

static void sample(uint64_t now)
{
	rates_sample(&rates, 0, 1, rates_due(&rates, now), now);
}

int main(void)
{
	rates_received(&rates, LINE_OTHERS, 6000);
	sample(1000000000); /* the first of all begins */
	rates_received(&rates, LINE_OTHERS, 6000);
	sample(1006000000);
	/* Who counted 12,000 bytes comes to write them down after another one with 18,000. */
	atomic_store(&rates.sampled[LINE_OTHERS], 18000);
	sample(1012000000);
	printf("%llu\\n", (unsigned long long)atomic_load(&rates.peak));
}
"""


def test_a_sampler_that_was_kept_from_its_turn_makes_no_rate_out_of_nothing(tmp_path):
    (tmp_path / "preempted.c").write_text(PREEMPTED)
    hostlib = ROOT / "hostlib"
    sources = (tmp_path / "preempted.c", hostlib / "shim" / "optax" / "rates.c")
    flags = ("-std=gnu11", f"-I{hostlib}/shim", f"-I{hostlib}/core/include")
    subprocess.run(["cc", *flags, "-o", tmp_path / "preempted", *sources], check=True)
    said = subprocess.run([tmp_path / "preempted"], check=True, capture_output=True, text=True).stdout
    assert 0 < int(said) <= 1_000_000  # 6,000 bytes in 6 ms, smoothed
