/* Entry of the lab's applications. */
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"The lab's applications: plain blocking TCP programs.\n"
	"  traffic serve --bind ADDRESS --port PORT --write one|two|chunks:BYTES[:THINK_US]\n"
	"                [--trace FILE] [--words FILE] [--marks FILE]\n"
	"  traffic drive --me HOST --host HOST=ADDRESS... --service NAME=PORT,pull|push|curl[,WRITE]...\n"
	"                --trace FILE --log FILE [--start-ns NS] [--deadline-s S] [--words FILE] [--marks FILE]\n"
	"Example, on loopback:\n"
	"  traffic serve --bind 127.0.1.2 --port 7001 --write one &\n"
	"  printf '1 0 search h1 h2 5000\\n' >trace\n"
	"  traffic drive --me h1 --host h1=127.0.1.1 --host h2=127.0.1.2 --service search=7001,pull --trace trace --log log\n";

void refuse(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("traffic: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(2);
}

struct in_addr address_of(const char *option, const char *text)
{
	struct in_addr address;

	if (inet_pton(AF_INET, text, &address) != 1)
		refuse("%s: '%s' is not an IPv4 address", option, text);
	return address;
}

uint64_t number_of(const char *option, const char *text, uint64_t lowest, uint64_t highest)
{
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);

	if (errno || end == text || *end || *text == '-' || value < lowest || value > highest)
		refuse("%s: '%s' is not a whole number from %llu to %llu", option, text, (unsigned long long)lowest,
		       (unsigned long long)highest);
	return value;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "serve"))
		return serve_main(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "drive"))
		return drive_main(argc - 1, argv + 1);
	fputs(usage, argc > 1 && strcmp(argv[1], "--help") ? stderr : stdout);
	return argc > 1 && strcmp(argv[1], "--help") ? 2 : 0;
}
