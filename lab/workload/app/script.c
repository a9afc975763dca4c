/* Scripts of flows, by id; read before any thread runs, never changed after. */
#include "script.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <qclimb.h>

#include "message.h"
#include "traffic.h"

#define MAX_ID 10000000u
/*
 * The recorded program did not wait for an ACK: on its idle network one had come when it wrote on. A packet and its ACK
 * take about 2 ms over four idle links of 25 and 50 Mb/s; who waited longer would let a busy path delay the writing.
 */
#define ACK_WAIT_US 2000u
#define ACK_LOOK_US 200u

static struct script *scripts;
static size_t script_count;

static struct script *script_at(const char *path, unsigned number, unsigned long long id)
{
	if (id > MAX_ID)
		refuse("%s:%u: id %llu; at most %u", path, number, id, MAX_ID);
	if (id >= script_count) {
		const size_t count = id + id / 2 + 1024;

		scripts = realloc(scripts, count * sizeof(*scripts));
		if (!scripts)
			refuse("no memory for %s", path);
		for (size_t i = script_count; i < count; i++)
			scripts[i] = (struct script){.dscp = -1};
		script_count = count;
	}
	return &scripts[id];
}

static FILE *opened(const char *option, const char *path)
{
	FILE *file = fopen(path, "r");

	if (!file)
		refuse("%s: cannot read %s: %s", option, path, strerror(errno));
	return file;
}

void script_read_trace(const char *path)
{
	FILE *file = opened("--trace", path);
	char line[256];
	unsigned number = 0;

	while (fgets(line, sizeof(line), file)) {
		unsigned long long id, bytes;
		unsigned first, footprint;

		number++;
		if (line[0] == '#' || sscanf(line, "%llu %*u %*s %*s %*s %llu %u %u", &id, &bytes, &first, &footprint) != 4)
			continue;
		if (!first || first > footprint || footprint > bytes)
			refuse("%s:%u: expected 0 < first_write_bytes <= footprint_bytes <= bytes", path, number);
		struct script *script = script_at(path, number, id);

		script->first_bytes = first;
		script->footprint_bytes = footprint;
	}
	fclose(file);
}

void script_read_words(const char *path)
{
	FILE *file = opened("--words", path);
	char line[128];
	unsigned number = 0;

	while (fgets(line, sizeof(line), file)) {
		unsigned long long id, told;
		int dscp;

		if (sscanf(line, "%llu %llu %d", &id, &told, &dscp) != 3 || dscp < -1 || dscp > 63)
			refuse("%s:%u: a line is id, told_bytes, dscp (-1 to 63)", path, number + 1);
		struct script *script = script_at(path, ++number, id);

		script->told_bytes = told;
		script->dscp = dscp;
	}
	fclose(file);
}

const struct script *script_of(uint64_t id)
{
	return id < script_count ? &scripts[id] : NULL;
}

void script_tell(const struct script *script, int fd)
{
	const int tos = script->dscp << 2;

	if (script->told_bytes)
		(void)qclimb_flow_size(fd, script->told_bytes);
	if (script->dscp >= 0)
		setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
}

void script_await_ack(int fd, uint64_t sent)
{
	int left = 0;

	for (unsigned waited_us = 0; waited_us < ACK_WAIT_US; waited_us += ACK_LOOK_US) {
		if (ioctl(fd, SIOCOUTQ, &left) || (uint64_t)left < sent)
			return;
		usleep(ACK_LOOK_US);
	}
}
