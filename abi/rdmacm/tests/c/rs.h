/*
 * What the C tests of sockets over queue pairs share: a listening socket, a connected pair, and bytes that can be checked.
 */
#ifndef FERRIBAND_RS_H
#define FERRIBAND_RS_H

#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <sys/wait.h>

#include "cm.h"

/* A hang is a failure of the harness's own patience; this is for conditions that come by themselves. */
#define PATIENCE_MS 20000

static inline int get_int(int fd, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	EQ(rgetsockopt(fd, level, name, &value, &length), 0);
	EQ(length, sizeof(value));
	return value;
}

static inline void set_int(int fd, int level, int name, int value)
{
	EQ(rsetsockopt(fd, level, name, &value, sizeof(value)), 0);
}

static inline struct sockaddr_in name_of(int fd)
{
	struct sockaddr_in in;
	socklen_t length = sizeof(in);

	EQ(rgetsockname(fd, (struct sockaddr *)&in, &length), 0);
	EQ(length, sizeof(in));
	EQ(in.sin_family, AF_INET);
	return in;
}

/* A listening socket on any port of the loopback address. */
static inline int listening(int backlog)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	EQ(rbind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	EQ(rlisten(fd, backlog), 0);
	CHECK(name_of(fd).sin_port != 0);
	return fd;
}

static inline int connected_to(struct sockaddr_in in)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	EQ(rconnect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

/* Two ends of one connection in this process: the connection stands before it is accepted. */
struct ends {
	int near, far;
};

static inline struct ends ends_through(int listener)
{
	struct ends ends;

	ends.near = connected_to(name_of(listener));
	ends.far = raccept(listener, NULL, NULL);
	CHECK(ends.far >= 0);
	return ends;
}

static inline struct ends ends(void)
{
	int listener = listening(4);
	struct ends both = ends_through(listener);

	EQ(rclose(listener), 0);
	return both;
}

static inline short ready(int fd, short events, int timeout)
{
	struct pollfd poll = { .fd = fd, .events = events };
	int count = rpoll(&poll, 1, timeout);

	EQ(count, poll.revents != 0);
	return poll.revents;
}

static inline unsigned char byte_at(size_t at, unsigned seed)
{
	return (unsigned char)((at * 2654435761u >> 7) + seed);
}

/* A socket that does not wait, and is connected or will be. */
static inline int connecting_to(struct sockaddr_in in)
{
	int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	CHECK(fd >= 0);
	/* On one host the connection may stand at once. */
	if (rconnect(fd, (struct sockaddr *)&in, sizeof(in)))
		EQ(errno, EINPROGRESS);
	return fd;
}

/* A direction of a stream, for a thread. */
struct flow {
	int fd;
	size_t bytes;
	unsigned seed;
};

static inline void *send_flow(void *argument)
{
	struct flow *flow = argument;
	unsigned char piece[7001];
	size_t done = 0;

	while (done < flow->bytes) {
		size_t length = flow->bytes - done < sizeof(piece) ? flow->bytes - done : sizeof(piece);

		for (size_t i = 0; i < length; i++)
			piece[i] = byte_at(done + i, flow->seed);
		EQ(rsend(flow->fd, piece, length, 0), length);
		done += length;
	}
	return NULL;
}

static inline void *receive_flow(void *argument)
{
	struct flow *flow = argument;
	unsigned char piece[9999];
	size_t done = 0;

	while (done < flow->bytes) {
		ssize_t length = rrecv(flow->fd, piece, sizeof(piece), 0);

		if (length <= 0)
			FAIL("rrecv is %zd after %zu bytes", length, done);
		for (ssize_t i = 0; i < length; i++)
			if (piece[i] != byte_at(done + i, flow->seed))
				FAIL("byte %zu is wrong", done + i);
		done += length;
	}
	return NULL;
}

static inline pthread_t start(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	EQ(pthread_create(&thread, NULL, run, argument), 0);
	return thread;
}

static inline void finish(pthread_t thread)
{
	EQ(pthread_join(thread, NULL), 0);
}

#endif
