/* Headers, bodies and writing habits of message.h, over blocking sockets. */
#include "message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "marks.h"
#include "script.h"

#define READ_BYTES 65536u
#define REST_BYTES 65536u /* of a scripted flow, a write after its footprint */
/* A prime number of words, so that no power-of-two slip goes unseen; one read's worth more for unbroken compares. */
#define PATTERN_BYTES (8191u * 8u)

static uint8_t pattern[PATTERN_BYTES + READ_BYTES];

__attribute__((constructor)) static void make_pattern(void)
{
	uint64_t word = 0x9e3779b97f4a7c15u;

	for (size_t at = 0; at < sizeof(pattern); at += 8) {
		word = word * 6364136223846793005u + 1442695040888963407u;
		memcpy(pattern + at, at < PATTERN_BYTES ? (uint8_t *)&word : pattern + at - PATTERN_BYTES, 8);
	}
}

static size_t pattern_at(uint64_t id, uint64_t offset)
{
	return (size_t)((id * 104729u + offset) % PATTERN_BYTES);
}

static void fill_body(uint8_t *to, uint64_t id, uint64_t offset, size_t len)
{
	while (len) {
		size_t at = pattern_at(id, offset);
		size_t n = len < READ_BYTES ? len : READ_BYTES;

		memcpy(to, pattern + at, n);
		to += n;
		offset += n;
		len -= n;
	}
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int habit_parse(struct habit *habit, const char *text)
{
	char rest;

	*habit = (struct habit){.writing = WRITE_ONE};
	if (!strcmp(text, "one"))
		return 0;
	if (!strcmp(text, "two")) {
		habit->writing = WRITE_TWO;
		return 0;
	}
	habit->writing = WRITE_CHUNKS;
	int fields = sscanf(text, "chunks:%zu:%u%c", &habit->chunk_bytes, &habit->think_us, &rest);

	return (fields == 1 || fields == 2) && habit->chunk_bytes >= sizeof(struct message) ? 0 : -1;
}

static int write_all(int fd, const uint8_t *from, size_t len)
{
	while (len) {
		ssize_t n = send(fd, from, len, MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		from += n;
		len -= (size_t)n;
	}
	return 0;
}

/* n bytes of a message from `offset` on; its first ones are the header's. */
static int write_piece(int fd, uint8_t *room, const struct message *header, uint64_t offset, size_t n)
{
	size_t head = 0;

	if (offset < sizeof(*header)) {
		head = sizeof(*header) - offset < n ? (size_t)(sizeof(*header) - offset) : n;
		memcpy(room, (const uint8_t *)header + offset, head);
	}
	fill_body(room + head, header->id, offset + head, n - head);
	return write_all(fd, room, n);
}

/* How many bytes the next write of a message takes that has `bytes` and of which `sent` were written. */
static uint64_t next_piece(const struct habit *habit, const struct script *script, uint64_t bytes, uint64_t sent)
{
	if (script && script->first_bytes)
		return sent == 0                        ? script->first_bytes
		       : sent < script->footprint_bytes ? script->footprint_bytes - sent
							: REST_BYTES;
	if (habit->writing == WRITE_TWO && sent == 0)
		return sizeof(struct message);
	return habit->writing == WRITE_CHUNKS ? habit->chunk_bytes : bytes;
}

int message_send_data(int fd, const struct habit *habit, uint64_t id, uint64_t bytes, uint64_t *start_ns)
{
	const struct script *script = script_of(id);

	if (bytes < sizeof(struct message) || bytes > MESSAGE_MAX_BYTES)
		return -EMSGSIZE;
	uint8_t *room = malloc(bytes);

	if (!room)
		return -ENOMEM;
	struct message header = {
		.magic = MESSAGE_MAGIC, .kind = MESSAGE_DATA, .id = id, .bytes = (uint32_t)bytes};
	int result = 0;

	if (script) {
		script_tell(script, fd);
		header.announced_bytes = script->told_bytes < UINT32_MAX ? (uint32_t)script->told_bytes : 0;
	}
	for (uint64_t sent = 0; sent < bytes && !result;) {
		uint64_t n = next_piece(habit, script, bytes, sent);

		if (n > bytes - sent)
			n = bytes - sent;
		if (sent == 0)
			*start_ns = header.stamp_ns = now_ns();
		else if (script && script->footprint_bytes == sent)
			script_await_ack(fd, sent);
		else if (habit->think_us)
			usleep(habit->think_us);
		result = write_piece(fd, room, &header, sent, (size_t)n);
		sent += n;
	}
	free(room);
	return result;
}

int message_send_header(int fd, uint32_t kind, uint64_t id, uint64_t bytes, uint64_t stamp_ns)
{
	struct message header = {
		.magic = MESSAGE_MAGIC, .kind = kind, .id = id, .bytes = (uint32_t)bytes, .stamp_ns = stamp_ns};

	return write_all(fd, (const uint8_t *)&header, sizeof(header));
}

int message_receive_header(int fd, struct message *message)
{
	for (size_t have = 0; have < sizeof(*message);) {
		ssize_t n = recv(fd, (uint8_t *)message + have, sizeof(*message) - have, 0);

		if (n == 0)
			return -EPIPE;
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		have += (size_t)n;
	}
	if (message->magic != MESSAGE_MAGIC || message->bytes < sizeof(*message) || message->bytes > MESSAGE_MAX_BYTES)
		return -EBADMSG;
	return 0;
}

int message_receive_body(int fd, const struct message *message, uint64_t *end_ns)
{
	uint8_t *room = malloc(READ_BYTES);
	int result = room ? 0 : -ENOMEM;
	struct marks marks;

	marks.passed = 0;
	marks_note(&marks, message, sizeof(*message));
	for (uint64_t have = sizeof(*message); have < message->bytes && !result;) {
		uint64_t missing = message->bytes - have;
		ssize_t n = recv(fd, room, missing < READ_BYTES ? (size_t)missing : READ_BYTES, 0);

		if (n == 0)
			result = -EPIPE;
		else if (n < 0)
			result = errno == EINTR ? 0 : -errno;
		else if (memcmp(room, pattern + pattern_at(message->id, have), (size_t)n) != 0)
			result = -EBADMSG;
		else
			marks_note(&marks, message, have += (uint64_t)n);
	}
	*end_ns = now_ns();
	if (!result)
		marks_write(&marks, message);
	free(room);
	return result;
}
