/*
 * An application with many habits, for running under the library: `stress SCENARIO SECONDS SEED`. Every stream is
 * checked byte by byte on the other side; exit 0 and a line of counts, or an abort that says what was wrong. Knows
 * nothing of qclimb.
 */
#include "stress.h"

static const struct {
	const char *name;
	void (*run)(unsigned int seed);
} scenarios[] = {
	{ "streams", streams_scenario },
	{ "duplex", duplex_scenario },
	{ "churn", churn_scenario },
	{ "fork", fork_scenario },
	{ "fork-threads", fork_threads_scenario },
	{ "exec", exec_scenario },
	{ "shared", shared_scenario },
	{ "both-write", both_write_scenario },
	{ "close-all", close_all_scenario },
	{ "reset", reset_scenario },
	{ "signals", signals_scenario },
	{ "signals-restart", signals_restart_scenario },
	{ "storm", storm_scenario },
	{ "storm-restart", storm_restart_scenario },
	{ "handler-writes", handler_writes_scenario },
	{ "jump", jump_scenario },
	{ "cancel", cancel_scenario },
};

int main(int count, char **argument)
{
	void (*scenario)(unsigned int) = NULL;
	unsigned int seed;
	char path[] = "/tmp/qclimb-stressXXXXXX";
	uint8_t *bytes = malloc(FILE_BYTES);

	file_fd = mkstemp(path);
	unlink(path);
	fill(bytes, FILE_BYTES, 0);
	MUST(write(file_fd, bytes, FILE_BYTES) == FILE_BYTES);
	free(bytes);
	if (count == 5 && !strcmp(argument[1], "go-on"))
		return go_on(atoi(argument[2]), strtoull(argument[3], NULL, 10), strtoull(argument[4], NULL, 10));
	MUST(count == 4);
	end_s = now_s() + atof(argument[2]);
	seed = (unsigned int)atoi(argument[3]);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios) && !scenario; i++)
		if (!strcmp(argument[1], scenarios[i].name))
			scenario = scenarios[i].run;
	MUST(scenario);
	scenario(seed);
	printf("%llu bytes on %llu connections\n", (unsigned long long)bytes_checked, (unsigned long long)connections);
	return 0;
}
