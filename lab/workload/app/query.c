/* A query by the real curl, spawned as a process of its own; what it measures is read from its --write-out line. */
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include "traffic.h"

extern char **environ;

struct query query_run(const char *url, const char *local_address)
{
	struct query query = {.status = -1};
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return query;
	/* neither ~/.curlrc nor a proxy variable: the flow goes from here to there */
	char *const argv[] = {"curl", "--disable", "--noproxy", "*",
			      "--silent", "--output", "/dev/null", "--interface", (char *)local_address,
			      "--write-out", "%{http_code} %{size_download} %{time_pretransfer} %{time_total}\n",
			      (char *)url, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	int failed = posix_spawnp(&pid, "curl", &actions, NULL, argv, environ);

	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (!failed) {
		FILE *output = fdopen(ends[0], "r");
		int status, exit_status;
		unsigned long long bytes;
		double connected, total;

		if (fscanf(output, "%d %llu %lf %lf", &status, &bytes, &connected, &total) == 4)
			query = (struct query){.status = status,
					       .bytes = bytes,
					       .connect_ns = (uint64_t)(connected * 1e9),
					       .total_ns = (uint64_t)(total * 1e9)};
		fclose(output);
		waitpid(pid, &exit_status, 0);
		if (!WIFEXITED(exit_status) || WEXITSTATUS(exit_status) != 0)
			query.status = -1;
	} else {
		close(ends[0]);
	}
	return query;
}
