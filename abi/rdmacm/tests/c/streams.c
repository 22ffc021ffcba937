/*
 * Stream sockets over queue pairs: connections, bytes both ways, ends, waiting, options, mapped buffers.
 */
#include "rs.h"

#include <sys/uio.h>

static void small_messages(void)
{
	struct ends both = ends();
	struct sockaddr_in peer, mine = name_of(both.near);
	socklen_t length = sizeof(peer);
	char text[32] = "";

	EQ(rgetpeername(both.far, (struct sockaddr *)&peer, &length), 0);
	EQ(peer.sin_port, mine.sin_port);
	EQ(peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	EQ(rsend(both.near, "hello", 5, 0), 5);
	EQ(rrecv(both.far, text, 3, MSG_PEEK), 3);
	EQ(memcmp(text, "hel", 3), 0);
	EQ(rread(both.far, text, 2), 2);
	EQ(rrecv(both.far, text + 2, sizeof(text) - 2, 0), 3);
	EQ(memcmp(text, "hello", 5), 0);
	EQ(rrecv(both.far, text, 0, 0), 0);
	EQ(rwrite(both.far, "back", 4), 4);
	length = sizeof(peer);
	EQ(rrecvfrom(both.near, text, sizeof(text), 0, (struct sockaddr *)&peer, &length), 4);
	EQ(length, sizeof(peer));
	EQ(rclose(both.near), 0);
	EQ(rrecv(both.far, text, sizeof(text), 0), 0);
	EQ(rrecv(both.far, text, sizeof(text), 0), 0);
	EQ(rclose(both.far), 0);
}

static void vectors(void)
{
	struct ends both = ends();
	char a[] = "one ", b[] = "two ", c[300], in[3][200];
	struct iovec out[] = { { a, 4 }, { NULL, 0 }, { b, 4 }, { c, sizeof(c) } };
	struct iovec parts[] = { { in[0], 3 }, { in[1], 5 }, { in[2], 200 } };
	struct msghdr message = { .msg_iov = out, .msg_iovlen = 4 };

	memset(c, 'c', sizeof(c));
	EQ(rwritev(both.near, out, 4), 308);
	EQ(rreadv(both.far, parts, 3), 208);
	EQ(memcmp(in[0], "one", 3), 0);
	EQ(memcmp(in[1], " two ", 5), 0);
	EQ(rrecv(both.far, in[2], 100, MSG_WAITALL), 100);
	EQ(rsendmsg(both.far, &message, 0), 308);
	message.msg_iov = parts;
	message.msg_iovlen = 3;
	EQ(rrecvmsg(both.near, &message, MSG_WAITALL), 208);
	EQ(memcmp(in[1], " two ", 5), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

/* Both directions at once, far beyond the buffers. */
static void long_streams(void)
{
	struct ends both = ends();
	struct flow there = { both.near, 6000000, 1 }, to = { both.far, 6000000, 1 };
	struct flow back = { both.far, 5000000, 2 }, from = { both.near, 5000000, 2 };
	pthread_t threads[] = { start(send_flow, &there), start(receive_flow, &to), start(send_flow, &back),
				start(receive_flow, &from) };

	for (int i = 0; i < 4; i++)
		finish(threads[i]);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

static void *send_marks(void *argument)
{
	int fd = *(int *)argument;
	char mark[50];

	memset(mark, 'm', sizeof(mark));
	for (int i = 0; i < 2000; i++)
		EQ(rsend(fd, mark, sizeof(mark), 0), sizeof(mark));
	return NULL;
}

static long taken;

static void *take_marks(void *argument)
{
	int fd = *(int *)argument;
	char some[777];
	ssize_t length;

	while ((length = rrecv(fd, some, sizeof(some), 0)) > 0)
		__atomic_add_fetch(&taken, length, __ATOMIC_RELAXED);
	EQ(length, 0);
	return NULL;
}

/* Threads that share one socket: each byte is taken once, and all of them hear of the end. */
static void many_threads(void)
{
	struct ends both = ends();
	pthread_t senders[4], takers[3];

	for (int i = 0; i < 3; i++)
		takers[i] = start(take_marks, &both.far);
	for (int i = 0; i < 4; i++)
		senders[i] = start(send_marks, &both.near);
	for (int i = 0; i < 4; i++)
		finish(senders[i]);
	EQ(rshutdown(both.near, SHUT_WR), 0);
	for (int i = 0; i < 3; i++)
		finish(takers[i]);
	EQ(taken, 4 * 2000 * 50);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

static void half_close(void)
{
	struct ends both = ends();
	char text[8];

	EQ(rsend(both.near, "last", 4, 0), 4);
	EQ(rshutdown(both.near, SHUT_WR), 0);
	REFUSED(rsend(both.near, "more", 4, MSG_NOSIGNAL), EPIPE);
	EQ(rrecv(both.far, text, sizeof(text), MSG_WAITALL), 4);
	EQ(rrecv(both.far, text, sizeof(text), 0), 0);
	CHECK(ready(both.far, POLLIN | POLLOUT, PATIENCE_MS) == (POLLIN | POLLOUT));
	EQ(rsend(both.far, "reply", 5, 0), 5);
	EQ(rrecv(both.near, text, sizeof(text), 0), 5);
	EQ(rshutdown(both.far, SHUT_WR), 0);
	EQ(rrecv(both.near, text, sizeof(text), 0), 0);
	CHECK(ready(both.near, POLLIN, PATIENCE_MS) & POLLHUP);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

static void not_blocking(void)
{
	int listener = listening(1), fd, hole, before;
	struct sockaddr_in in = name_of(listener);
	struct ends both;
	static char bulk[100000];
	size_t sent = 0, got = 0;
	ssize_t length;

	EQ(rfcntl(listener, F_SETFL, O_NONBLOCK), 0);
	CHECK(rfcntl(listener, F_GETFL) & O_NONBLOCK);
	REFUSED(raccept(listener, NULL, NULL), EAGAIN);
	EQ(ready(listener, POLLIN, 0), 0);
	both.near = connecting_to(in);
	EQ(ready(both.near, POLLOUT, PATIENCE_MS), POLLOUT);
	EQ(get_int(both.near, SOL_SOCKET, SO_ERROR), 0);
	/* The first time says that it stands, if nothing has said so yet. */
	if (rconnect(both.near, (struct sockaddr *)&in, sizeof(in)))
		EQ(errno, EISCONN);
	REFUSED(rconnect(both.near, (struct sockaddr *)&in, sizeof(in)), EISCONN);
	EQ(ready(listener, POLLIN, PATIENCE_MS), POLLIN);
	/* A number above what the program has, though the connection came before that, and a lower one is free: see new_number. */
	hole = open("/dev/null", O_RDONLY | O_CLOEXEC);
	before = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(hole >= 0 && before > hole);
	close(hole);
	both.far = raccept(listener, NULL, NULL);
	CHECK(both.far > before);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd > before);
	EQ(rclose(fd), 0);
	fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	CHECK(fd > before);
	EQ(rclose(fd), 0);
	close(before);
	REFUSED(rrecv(both.near, bulk, 1, 0), EAGAIN);
	REFUSED(rrecv(both.far, bulk, 1, MSG_DONTWAIT), EAGAIN);
	/* Until nothing more fits anywhere; nobody reads. */
	while (ready(both.near, POLLOUT, 100) == POLLOUT) {
		length = rsend(both.near, bulk, sizeof(bulk), 0);
		CHECK(length > 0);
		sent += length;
	}
	REFUSED(rsend(both.near, bulk, 1, 0), EAGAIN);
	CHECK(sent >= 65536);
	while (got < sent) {
		EQ(ready(both.far, POLLIN, PATIENCE_MS), POLLIN);
		length = rrecv(both.far, bulk, sizeof(bulk), 0);
		CHECK(length > 0);
		got += length;
	}
	EQ(got, sent);
	EQ(ready(both.near, POLLOUT, PATIENCE_MS), POLLOUT);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	/* Nobody listens there any more. */
	EQ(rclose(listener), 0);
	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	/* On one host the refusal may come at once. */
	EQ(rconnect(fd, (struct sockaddr *)&in, sizeof(in)), -1);
	if (errno != ECONNREFUSED) {
		EQ(errno, EINPROGRESS);
		CHECK(ready(fd, POLLOUT, PATIENCE_MS) & POLLERR);
		EQ(get_int(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
	}
	EQ(get_int(fd, SOL_SOCKET, SO_ERROR), 0);
	EQ(rclose(fd), 0);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	REFUSED(rconnect(fd, (struct sockaddr *)&in, sizeof(in)), ECONNREFUSED);
	EQ(rclose(fd), 0);
}

static void *write_later(void *argument)
{
	struct timespec pause = { .tv_nsec = 50000000 };

	nanosleep(&pause, NULL);
	EQ(rsend(*(int *)argument, "x", 1, 0), 1);
	return NULL;
}

static void *wait_readable(void *argument)
{
	EQ(ready(*(int *)argument, POLLIN, PATIENCE_MS), POLLIN);
	return NULL;
}

/* Sockets and descriptors of the system in one call, and several threads that sleep for one socket. */
static void waiting(void)
{
	struct ends both = ends();
	struct timeval soon = { .tv_usec = 20000 }, late = { .tv_sec = PATIENCE_MS / 1000 };
	struct pollfd polls[3];
	pthread_t threads[4];
	int pipes[2];
	fd_set set;
	char text[8];

	EQ(pipe(pipes), 0);
	polls[0] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	polls[1] = (struct pollfd){ .fd = both.far, .events = POLLIN };
	polls[2] = (struct pollfd){ .fd = -1, .events = POLLIN };
	EQ(rpoll(polls, 3, 20), 0);
	EQ(write(pipes[1], "p", 1), 1);
	EQ(rpoll(polls, 3, PATIENCE_MS), 1);
	EQ(polls[0].revents, POLLIN);
	EQ(polls[1].revents, 0);
	EQ(read(pipes[0], text, 1), 1);

	for (int i = 0; i < 3; i++)
		threads[i] = start(wait_readable, &both.far);
	threads[3] = start(write_later, &both.near);
	EQ(rpoll(polls, 3, PATIENCE_MS), 1);
	EQ(polls[1].revents, POLLIN);
	for (int i = 0; i < 4; i++)
		finish(threads[i]);

	FD_ZERO(&set);
	FD_SET(pipes[0], &set);
	FD_SET(both.far, &set);
	EQ(rselect(both.far + 1, &set, NULL, NULL, &late), 1);
	CHECK(FD_ISSET(both.far, &set) && !FD_ISSET(pipes[0], &set));
	EQ(rrecv(both.far, text, sizeof(text), 0), 1);
	EQ(rselect(both.far + 1, &set, NULL, NULL, &soon), 0);
	FD_SET(both.far, &set);
	EQ(rselect(both.far + 1, NULL, &set, NULL, NULL), 1);
	close(pipes[0]);
	close(pipes[1]);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

static void *accept_one(void *argument)
{
	REFUSED(raccept(*(int *)argument, NULL, NULL), EINVAL);
	return NULL;
}

/* More connections than may wait, some of them never accepted; a thread that waits for one when the socket ends. */
static void listeners(void)
{
	int listener = listening(2), near[5], far[5];
	struct sockaddr_in in = name_of(listener);
	struct timespec pause = { .tv_nsec = 20000000 };
	pthread_t thread;
	char byte;

	for (int i = 0; i < 5; i++) {
		near[i] = connecting_to(in);
	}
	for (int i = 0; i < 5; i++) {
		far[i] = raccept(listener, NULL, NULL);
		CHECK(far[i] >= 0);
		EQ(rsend(far[i], "a", 1, 0), 1);
	}
	for (int i = 0; i < 5; i++) {
		EQ(ready(near[i], POLLIN, PATIENCE_MS), POLLIN);
		EQ(rrecv(near[i], &byte, 1, 0), 1);
		EQ(rclose(near[i]), 0);
		EQ(rclose(far[i]), 0);
	}
	near[0] = connected_to(in);
	EQ(rclose(listener), 0);
	/* It was connected, and nobody took it. */
	EQ(rrecv(near[0], &byte, 1, 0), 0);
	EQ(rclose(near[0]), 0);

	listener = listening(1);
	thread = start(accept_one, &listener);
	nanosleep(&pause, NULL);
	EQ(rshutdown(listener, SHUT_RDWR), 0);
	finish(thread);
	EQ(rclose(listener), 0);
}

static void options(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), listener, far;
	struct sockaddr_in in;
	struct linger linger = { 1, 3 };
	socklen_t length = sizeof(linger);
	struct tcp_info info;
	char byte = 0;

	EQ(get_int(fd, SOL_RDMA, RDMA_SQSIZE), 384);
	EQ(get_int(fd, SOL_RDMA, RDMA_RQSIZE), 384);
	EQ(get_int(fd, SOL_RDMA, RDMA_INLINE), 64);
	EQ(get_int(fd, SOL_RDMA, RDMA_IOMAPSIZE), 0);
	EQ(get_int(fd, SOL_SOCKET, SO_SNDBUF), 1 << 17);
	EQ(get_int(fd, SOL_SOCKET, SO_RCVBUF), 1 << 17);
	set_int(fd, SOL_RDMA, RDMA_SQSIZE, 20);
	set_int(fd, SOL_RDMA, RDMA_RQSIZE, 17);
	set_int(fd, SOL_RDMA, RDMA_INLINE, 0);
	set_int(fd, SOL_SOCKET, SO_SNDBUF, 5000);
	set_int(fd, SOL_SOCKET, SO_RCVBUF, 5001);
	EQ(get_int(fd, SOL_SOCKET, SO_SNDBUF), 10000);
	EQ(get_int(fd, SOL_SOCKET, SO_RCVBUF), 10002);
	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	EQ(get_int(fd, SOL_SOCKET, SO_REUSEADDR), 1);
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	EQ(get_int(fd, IPPROTO_TCP, TCP_NODELAY), 1);
	EQ(get_int(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
	EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE), 1);
	EQ(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	memset(&linger, 0, sizeof(linger));
	EQ(rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length), 0);
	CHECK(linger.l_onoff == 1 && linger.l_linger == 3);
	REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo\0", 4), ENOTSUP);
	REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &byte, 1), EINVAL);
	REFUSED(rgetpeername(fd, (struct sockaddr *)&in, &length), ENOTCONN);
	REFUSED(rrecv(fd, &byte, 1, 0), ENOTCONN);
	REFUSED(rsend(fd, &byte, 1, 0), ENOTCONN);

	/* The small queues and buffers carry a long stream, and nothing goes inline. */
	listener = listening(1);
	in = name_of(listener);
	EQ(rconnect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	far = raccept(listener, NULL, NULL);
	CHECK(far >= 0);
	length = 1;
	REFUSED(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &length, sizeof(length)), EINVAL);
	CHECK(get_int(fd, IPPROTO_TCP, TCP_MAXSEG) >= 256);
	length = sizeof(info);
	EQ(rgetsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
	EQ(info.tcpi_state, TCP_ESTABLISHED);
	struct flow to = { fd, 300000, 3 }, from = { far, 300000, 3 };
	pthread_t thread = start(send_flow, &to);
	receive_flow(&from);
	finish(thread);
	to.fd = far;
	from.fd = fd;
	thread = start(send_flow, &to);
	receive_flow(&from);
	finish(thread);
	EQ(rclose(fd), 0);
	EQ(rclose(far), 0);
	EQ(rclose(listener), 0);
}

static void mapped_buffers(void)
{
	int listener = listening(1);
	struct ends both;
	static char buffer[50000], other[100], data[50000];
	char text[4];

	set_int(listener, SOL_RDMA, RDMA_IOMAPSIZE, 1);
	both = ends_through(listener);
	/* The near side's table has no place, the far side's has one: it is the other side's that counts. */
	REFUSED(riomap(both.far, other, sizeof(other), PROT_WRITE, 0, 0), ENOMEM);
	EQ(riomap(both.near, buffer, sizeof(buffer), PROT_WRITE, 0, 1000), 1000);
	REFUSED(riomap(both.near, other, sizeof(other), PROT_WRITE, 0, 0), ENOMEM);
	EQ(riomap(both.near, other, sizeof(other), PROT_NONE, 0, -1), (off_t)(uintptr_t)other);
	REFUSED(riomap(both.near, other, sizeof(other), PROT_READ, 0, 0), EINVAL);
	EQ(rsend(both.near, "map", 3, 0), 3);
	EQ(rrecv(both.far, text, 3, MSG_WAITALL), 3);

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = byte_at(i, 9);
	EQ(riowrite(both.far, data, 10, 999, 0), 0);
	EQ(riowrite(both.far, data, sizeof(data), 1000, 0), sizeof(data));
	EQ(riowrite(both.far, "end", 3, 1000 + sizeof(buffer) - 2, 0), 2);
	EQ(rsend(both.far, "now", 3, 0), 3);
	EQ(rrecv(both.near, text, 3, MSG_WAITALL), 3);
	EQ(memcmp(buffer, data, sizeof(buffer) - 2), 0);
	EQ(memcmp(buffer + sizeof(buffer) - 2, "en", 2), 0);
	EQ(riounmap(both.near, buffer, sizeof(buffer)), 0);
	REFUSED(riounmap(both.near, buffer, sizeof(buffer)), EINVAL);
	/* Its place is free again. */
	EQ(riomap(both.near, other, sizeof(other), PROT_WRITE, 0, 0), 0);
	EQ(rsend(both.near, "map", 3, 0), 3);
	EQ(rrecv(both.far, text, 3, MSG_WAITALL), 3);
	EQ(riowrite(both.far, "again", 5, 0, 0), 5);
	EQ(rsend(both.far, "now", 3, 0), 3);
	EQ(rrecv(both.near, text, 3, MSG_WAITALL), 3);
	EQ(memcmp(other, "again", 5), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	EQ(rclose(listener), 0);
}

static void version_six(void)
{
	struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT }, peer;
	int listener = rsocket(AF_INET6, SOCK_STREAM, IPPROTO_TCP), near, far;
	socklen_t length = sizeof(in);
	char text[4];

	set_int(listener, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	EQ(get_int(listener, IPPROTO_IPV6, IPV6_V6ONLY), 1);
	if (rbind(listener, (struct sockaddr *)&in, sizeof(in)) && errno == EADDRNOTAVAIL) {
		EQ(rclose(listener), 0); /* a host without IPv6 */
		return;
	}
	EQ(rlisten(listener, 1), 0);
	EQ(rgetsockname(listener, (struct sockaddr *)&in, &length), 0);
	EQ(length, sizeof(in));
	near = rsocket(AF_INET6, SOCK_STREAM, 0);
	EQ(rconnect(near, (struct sockaddr *)&in, sizeof(in)), 0);
	length = sizeof(peer);
	far = raccept(listener, (struct sockaddr *)&peer, &length);
	CHECK(far >= 0);
	EQ(length, sizeof(peer));
	EQ(peer.sin6_family, AF_INET6);
	EQ(memcmp(&peer.sin6_addr, &in.sin6_addr, 16), 0);
	EQ(rsend(far, "six", 3, 0), 3);
	EQ(rrecv(near, text, 3, MSG_WAITALL), 3);
	EQ(rclose(far), 0);
	EQ(rclose(near), 0);
	EQ(rclose(listener), 0);
}

int main(void)
{
	small_messages();
	vectors();
	long_streams();
	many_threads();
	half_close();
	not_blocking();
	waiting();
	listeners();
	options();
	mapped_buffers();
	version_six();
	return 0;
}
