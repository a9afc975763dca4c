/* Lines are made in a buffer and handed over whole: threads share the file, and servers end by a signal. */
#include "marks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "traffic.h"

enum { LINE_BYTES = 24 + MARKS * 11 };

static FILE *file;

void marks_to(const char *path)
{
	file = fopen(path, "a");
	if (!file)
		refuse("--marks: cannot write %s: %s", path, strerror(errno));
}

void marks_note(struct marks *marks, const struct message *message, uint64_t have)
{
	const unsigned passed = (unsigned)(have * MARKS / message->bytes);

	if (!file || passed == marks->passed)
		return;
	const uint32_t now_us = (uint32_t)((now_ns() - message->stamp_ns) / 1000u);

	while (marks->passed < passed)
		marks->at_us[marks->passed++] = now_us;
}

void marks_write(const struct marks *marks, const struct message *message)
{
	char line[LINE_BYTES];
	int len;

	if (!file)
		return;
	len = sprintf(line, "%llu", (unsigned long long)message->id);
	for (unsigned i = 0; i < marks->passed; i++)
		len += sprintf(line + len, "\t%u", marks->at_us[i]);
	line[len++] = '\n';
	flockfile(file);
	fwrite(line, 1, (size_t)len, file);
	fflush(file);
	funlockfile(file);
}
