/*
 * Datagram sockets over queue pairs. A datagram may be lost, so whoever waits for an answer asks again.
 */
#define _GNU_SOURCE
#include "rs.h"

static int bound(void)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	CHECK(fd >= 0);
	EQ(rbind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

/* Answers each datagram with itself, until one is empty. */
static void *echo(void *argument)
{
	int fd = *(int *)argument;
	struct sockaddr_in from;
	char text[2048];

	for (;;) {
		socklen_t length = sizeof(from);
		ssize_t got = rrecvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from, &length);

		CHECK(got >= 0);
		if (got == 0)
			return NULL;
		EQ(from.sin_family, AF_INET);
		EQ(rsendto(fd, text, got, 0, (struct sockaddr *)&from, length), got);
	}
}

/* Sends until the same comes back; how often it took. */
static int ask(int fd, const struct sockaddr_in *to, const char *text, size_t length)
{
	static char back[2048];
	int tries = 0;

	for (;;) {
		ssize_t got;

		CHECK(tries++ < 200);
		if (to)
			EQ(rsendto(fd, text, length, 0, (struct sockaddr *)to, sizeof(*to)), length);
		else
			EQ(rsend(fd, text, length, 0), length);
		while (ready(fd, POLLIN, 100) & POLLIN) {
			got = rrecv(fd, back, sizeof(back), MSG_DONTWAIT);
			/* An answer to an earlier try may come, too. */
			if (got == (ssize_t)length && !memcmp(back, text, length))
				return tries;
		}
	}
}

int main(void)
{
	int server = bound(), a = bound(), b = rsocket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in to = name_of(server), peer;
	socklen_t length = sizeof(peer);
	static char text[2048];
	pthread_t thread;
	int value = 0;

	REFUSED(rsend(a, "x", 1, 0), EDESTADDRREQ);
	REFUSED(rrecv(a, text, 1, MSG_DONTWAIT), EAGAIN);
	REFUSED(rgetpeername(a, (struct sockaddr *)&peer, &length), ENOTCONN);
	EQ(ready(a, POLLIN | POLLOUT, 0), POLLOUT);
	set_int(b, SOL_RDMA, RDMA_SQSIZE, 32);
	EQ(get_int(b, SOL_RDMA, RDMA_SQSIZE), 32);
	set_int(b, SOL_SOCKET, SO_REUSEADDR, 1);
	length = sizeof(value);
	REFUSED(rlisten(a, 1), EOPNOTSUPP);

	thread = start(echo, &server);
	ask(a, &to, "first", 5);
	EQ(rconnect(b, (struct sockaddr *)&to, sizeof(to)), 0);
	length = sizeof(peer);
	EQ(rgetpeername(b, (struct sockaddr *)&peer, &length), 0);
	EQ(peer.sin_port, to.sin_port);
	for (int i = 0; i < 200; i++) {
		memset(text, i, sizeof(text));
		ask(a, &to, text, 1 + i * 9);
		ask(b, NULL, text, 1800 - i);
	}
	REFUSED(rsend(b, text, 2048, 0), EMSGSIZE);
	/* More than there is room for: some are lost, and nobody waits. */
	for (int i = 0; i < 2000; i++)
		EQ(rsend(b, text, 100, 0), 100);
	ask(b, NULL, "still", 5);

	/* The end of the thread: an empty one arrives some time. */
	do
		EQ(rsend(b, text, 0, 0), 0);
	while (pthread_tryjoin_np(thread, NULL) && usleep(1000) == 0);
	EQ(rclose(a), 0);
	EQ(rclose(b), 0);
	EQ(rclose(server), 0);
	REFUSED(rclose(server), EBADF);
	return 0;
}
