/* What the files of the program `ways` share: the stream, the peer, and the kinds of ways. */
#ifndef WAYS_H
#define WAYS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MUST(what) ((what) ? (void)0 : fail(__FILE__, #what, __LINE__))
#define TOTAL 150000
#define CALL 25000

extern uint8_t stream[TOTAL];
extern struct sockaddr_storage peer;
extern socklen_t peer_len;

void fail(const char *file, const char *what, int line);
void lack(const char *what); /* exit 77 */
bool is(const char *way, const char *name);
int connected(int protocol);
void send_all(int fd, size_t from, size_t to);
/* Waits until the other side has read all that it wants and says so. */
void end(int fd);

/* ways_write.c, ways_read.c */
void write_way(const char *way);
void read_way(const char *way);

/* ways_fd.c */
void another_way(const char *way);
void close_way(const char *way);
void fclose_way(void);
void child_way(const char *way);
void rights_way(const char *way);

#endif
