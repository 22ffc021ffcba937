/* Sockets of AF_INET_SDP: what a program does with them, at both ends, in two processes.
 * usage: inet_sdp MODE. Prints what it has seen; a failure ends it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAMILY 27
#define CHECK(what) ((what) ? (void)0 : fail(__LINE__, #what))

static void fail(int line, const char *what)
{
	fprintf(stderr, "%d: %s (%s)\n", line, what, strerror(errno));
	exit(1);
}

/* A child that ends with its parent. */
static pid_t forked(void)
{
	pid_t child = fork();
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

static struct sockaddr_in at(const char *ip, int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	CHECK(inet_pton(AF_INET, ip, &address.sin_addr) == 1);
	return address;
}

static int make(int flags)
{
	int number = socket(FAMILY, SOCK_STREAM | flags, 0);
	CHECK(number >= 0);
	return number;
}

static int port_of(int number)
{
	struct sockaddr_in name;
	socklen_t length = sizeof name;
	CHECK(getsockname(number, (void *)&name, &length) == 0);
	CHECK(length == sizeof name && name.sin_family == AF_INET);
	return ntohs(name.sin_port);
}

static int serve(int *port, int backlog)
{
	int listener = make(0), one = 1;
	struct sockaddr_in any = at("0.0.0.0", 0);
	CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
	CHECK(bind(listener, (void *)&any, sizeof any) == 0);
	CHECK(listen(listener, backlog) == 0);
	*port = port_of(listener);
	CHECK(*port != 0);
	return listener;
}

static int call(int port)
{
	int number = make(0);
	struct sockaddr_in to = at("127.0.0.1", port);
	CHECK(connect(number, (void *)&to, sizeof to) == 0);
	return number;
}

static void all_out(int number, const char *bytes, size_t count)
{
	while (count > 0) {
		ssize_t sent = write(number, bytes, count);
		CHECK(sent > 0);
		bytes += sent, count -= sent;
	}
}

/* Bytes of a stream by their place in it. */
static void fill(char *bytes, size_t count, size_t from, int seed)
{
	for (size_t at = 0; at < count; at++)
		bytes[at] = (char)((from + at) * 2654435761u >> 13) + seed;
}

static char buffer[300000], expected[300000];

/* Reads to the end; gives how much, all of which was right. */
static size_t all_in(int number, int seed)
{
	size_t total = 0;
	for (;;) {
		ssize_t got = read(number, buffer, sizeof buffer);
		CHECK(got >= 0);
		if (got == 0)
			return total;
		fill(expected, got, total, seed);
		CHECK(memcmp(buffer, expected, got) == 0);
		total += got;
	}
}

static void send_stream(int number, size_t total, int seed)
{
	static char bytes[70001];
	for (size_t at = 0; at < total;) {
		size_t count = total - at < sizeof bytes ? total - at : sizeof bytes;
		fill(bytes, count, at, seed);
		all_out(number, bytes, count);
		at += count;
	}
}

static void joined(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A child serves one connection; the parent is told the port. */
static pid_t server(int *port, void (*does)(int listener))
{
	int told[2];
	CHECK(pipe(told) == 0);
	pid_t child = forked();
	CHECK(child >= 0);
	if (child == 0) {
		int listener = serve(port, 8);
		CHECK(write(told[1], port, sizeof *port) == sizeof *port);
		does(listener);
		exit(0);
	}
	CHECK(read(told[0], port, sizeof *port) == sizeof *port);
	close(told[0]), close(told[1]);
	return child;
}

static int taken(int listener)
{
	struct sockaddr_in peer, name;
	socklen_t length = sizeof peer;
	int number = accept(listener, (void *)&peer, &length);
	CHECK(number >= 0 && length == sizeof peer && peer.sin_family == AF_INET);
	struct sockaddr_in again;
	length = sizeof again;
	CHECK(getpeername(number, (void *)&again, &length) == 0);
	CHECK(memcmp(&peer, &again, sizeof peer) == 0);
	length = sizeof name;
	CHECK(getsockname(number, (void *)&name, &length) == 0);
	CHECK(ntohs(name.sin_port) == port_of(listener));
	return number;
}

static void echoes(int listener)
{
	int number = taken(listener);
	for (;;) {
		ssize_t got = read(number, buffer, sizeof buffer);
		CHECK(got >= 0);
		if (got == 0)
			break;
		all_out(number, buffer, got);
	}
	close(number);
}

static void echo(void)
{
	int port;
	pid_t child = server(&port, echoes);
	int number = call(port);
	struct sockaddr_in peer;
	socklen_t length = sizeof peer;
	CHECK(getpeername(number, (void *)&peer, &length) == 0);
	CHECK(ntohs(peer.sin_port) == port && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	CHECK(port_of(number) != 0 && port_of(number) != port);
	struct sockaddr_in to = at("127.0.0.1", port);
	CHECK(connect(number, (void *)&to, sizeof to) == -1 && errno == EISCONN);
	for (int round = 0; round < 200; round++) {
		char bytes[64], back[64];
		fill(bytes, sizeof bytes, round, 3);
		all_out(number, bytes, sizeof bytes);
		for (size_t got = 0; got < sizeof back;) {
			ssize_t more = read(number, back + got, sizeof back - got);
			CHECK(more > 0);
			got += more;
		}
		CHECK(memcmp(bytes, back, sizeof back) == 0);
	}
	CHECK(shutdown(number, SHUT_WR) == 0);
	CHECK(read(number, buffer, 1) == 0);
	close(number);
	joined(child);
	puts("200 echoes");
}

enum { MUCH = 8 << 20 };

static void both_ways_served(int listener)
{
	int number = taken(listener);
	pid_t child = forked();
	CHECK(child >= 0);
	if (child == 0) {
		/* only uses what was accepted */
		send_stream(number, MUCH, 5);
		CHECK(shutdown(number, SHUT_WR) == 0);
		_exit(0);
	}
	CHECK(all_in(number, 6) == MUCH);
	joined(child);
}

static void much(void)
{
	int port;
	pid_t child = server(&port, both_ways_served);
	int number = call(port);
	pid_t sender = forked();
	CHECK(sender >= 0);
	if (sender == 0) {
		send_stream(number, MUCH, 6);
		CHECK(shutdown(number, SHUT_WR) == 0);
		_exit(0);
	}
	CHECK(all_in(number, 5) == MUCH);
	joined(sender);
	close(number);
	joined(child);
	puts("8 MiB each way");
}

static void half_served(int listener)
{
	int number = taken(listener);
	/* reads to the end before it answers */
	CHECK(all_in(number, 1) == 100000);
	send_stream(number, 200000, 2);
}

static void half(void)
{
	int port;
	pid_t child = server(&port, half_served);
	int number = call(port);
	send_stream(number, 100000, 1);
	CHECK(shutdown(number, SHUT_WR) == 0);
	CHECK(write(number, "x", 1) == -1 && errno == EPIPE);
	CHECK(all_in(number, 2) == 200000);
	close(number);
	joined(child);
	puts("an answer after the end");
}

static void resets(int listener)
{
	int number = taken(listener);
	CHECK(read(number, buffer, 1) == 1);
	struct linger at_once = { 1, 0 };
	CHECK(setsockopt(number, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
	close(number);
}

static void is_killed(int listener)
{
	int number = taken(listener);
	CHECK(read(number, buffer, 1) == 1);
	raise(SIGKILL);
}

static void wants_reset(int number)
{
	all_out(number, "12", 2);
	CHECK(read(number, buffer, 1) == -1 && errno == ECONNRESET);
	close(number);
}

static void reset(void)
{
	int port, status;
	pid_t child = server(&port, resets);
	wants_reset(call(port));
	joined(child);
	child = server(&port, is_killed);
	wants_reset(call(port));
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	puts("reset, and killed");
}

static int soon(int number, int events, int within)
{
	struct pollfd asked = { .fd = number, .events = events };
	CHECK(poll(&asked, 1, within) >= 0);
	return asked.revents;
}

static int error_of(int number)
{
	int error = -1;
	socklen_t length = sizeof error;
	CHECK(getsockopt(number, SOL_SOCKET, SO_ERROR, &error, &length) == 0);
	return error;
}

static void later(void)
{
	int port;
	pid_t child = server(&port, echoes);
	int number = make(SOCK_NONBLOCK);
	int queue = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	struct sockaddr_in to = at("127.0.0.1", port);
	CHECK(connect(number, (void *)&to, sizeof to) == -1 && errno == EINPROGRESS);
	CHECK(epoll_ctl(queue, EPOLL_CTL_ADD, number, &event) == 0);
	CHECK(epoll_wait(queue, &event, 1, 20000) == 1 && event.events == EPOLLOUT);
	CHECK(error_of(number) == 0);
	CHECK(connect(number, (void *)&to, sizeof to) == 0);
	CHECK(connect(number, (void *)&to, sizeof to) == -1 && errno == EISCONN);
	all_out(number, "abc", 3);
	CHECK(soon(number, POLLIN, 20000) & POLLIN && read(number, buffer, 9) == 3);
	close(number);
	joined(child);
	puts("connected later");
}

/* A port at which nobody listens. */
static int free_port(void)
{
	int port, listener = serve(&port, 1);
	close(listener);
	return port;
}

static void refused(void)
{
	struct sockaddr_in to = at("127.0.0.1", free_port());
	int number = make(0);
	CHECK(connect(number, (void *)&to, sizeof to) == -1 && errno == ECONNREFUSED);
	/* the socket is as before */
	CHECK(connect(number, (void *)&to, sizeof to) == -1 && errno == ECONNREFUSED);
	close(number);
	number = make(SOCK_NONBLOCK);
	int begun = connect(number, (void *)&to, sizeof to);
	CHECK(begun == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED));
	if (errno == EINPROGRESS) {
		CHECK(soon(number, POLLOUT, 20000) & POLLOUT);
		int error = error_of(number);
		CHECK(error == ECONNREFUSED);
		CHECK(error_of(number) == 0);
	}
	/* never TCP, although somebody listens there */
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	to = at("127.0.0.1", 0);
	CHECK(bind(tcp, (void *)&to, sizeof to) == 0 && listen(tcp, 1) == 0);
	to = at("127.0.0.1", port_of(tcp));
	int other = make(0);
	CHECK(connect(other, (void *)&to, sizeof to) == -1 && errno == ECONNREFUSED);
	CHECK(sendto(make(0), "x", 1, MSG_FASTOPEN, (void *)&to, sizeof to) == -1 && errno == EOPNOTSUPP);
	CHECK(soon(tcp, POLLIN, 50) == 0);
	/* and no other kind */
	CHECK(socket(FAMILY, SOCK_DGRAM, 0) == -1 && errno == ESOCKTNOSUPPORT);
	puts("refused");
}

static void bound(void)
{
	int port, listener = serve(&port, 1), other = make(0);
	struct sockaddr_in same = at("0.0.0.0", port);
	CHECK(bind(other, (void *)&same, sizeof same) == -1 && errno == EADDRINUSE);
	CHECK(bind(listener, (void *)&same, sizeof same) == -1 && errno == EINVAL);
	/* one of two numbers is closed, then the other */
	int copy = dup(listener);
	close(listener);
	CHECK(bind(other, (void *)&same, sizeof same) == -1 && errno == EADDRINUSE);
	CHECK(dup2(other, copy) == copy);
	CHECK(bind(copy, (void *)&same, sizeof same) == 0 && port_of(other) == port);
	/* a client from its own port */
	int free = free_port();
	struct sockaddr_in own = at("127.0.0.1", free);
	pid_t child = server(&port, echoes);
	int number = make(0);
	CHECK(bind(number, (void *)&own, sizeof own) == 0);
	struct sockaddr_in to = at("127.0.0.1", port);
	CHECK(connect(number, (void *)&to, sizeof to) == 0);
	CHECK(port_of(number) == free);
	close(number);
	joined(child);
	puts("bound");
}

static void stranger(void)
{
	int port, listener = serve(&port, 8);
	/* the program's socket has a port of the loopback interface that others see */
	struct stat own;
	CHECK(fstat(listener, &own) == 0);
	char line[512];
	unsigned loopback = 0;
	FILE *table = fopen("/proc/net/tcp", "r");
	CHECK(table);
	while (fgets(line, sizeof line, table)) {
		unsigned ip, at_port;
		unsigned long inode;
		int read = sscanf(line, " %*d: %x:%x %*x:%*x %*x %*x:%*x %*x:%*x %*x %*u %*u %lu",
				  &ip, &at_port, &inode);
		if (read == 3 && inode == own.st_ino)
			loopback = at_port;
	}
	fclose(table);
	CHECK(loopback != 0 && loopback != (unsigned)port);
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in to = at("127.0.0.1", loopback);
	CHECK(connect(tcp, (void *)&to, sizeof to) == 0);
	CHECK(soon(listener, POLLIN, 20000) & POLLIN);
	/* it is never given to the program, which waits on */
	struct timeval brief = { .tv_usec = 50000 };
	CHECK(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief) == 0);
	CHECK(accept4(listener, 0, 0, SOCK_NONBLOCK) == -1 && errno == EAGAIN);
	CHECK(read(tcp, buffer, 1) <= 0);
	puts("no stranger");
}

static void watched(void)
{
	int port, listener = serve(&port, 8), queue = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };
	CHECK(epoll_ctl(queue, EPOLL_CTL_ADD, listener, &event) == 0);
	CHECK(epoll_wait(queue, &event, 1, 20) == 0);
	pid_t child = forked();
	CHECK(child >= 0);
	if (child == 0) {
		int numbers[3];
		for (int at = 0; at < 3; at++)
			numbers[at] = call(port);
		for (int at = 0; at < 3; at++)
			CHECK(read(numbers[at], buffer, 9) == 2), close(numbers[at]);
		exit(0);
	}
	for (int at = 0; at < 3; at++) {
		CHECK(epoll_wait(queue, &event, 1, 20000) == 1 && event.events == EPOLLIN);
		int number = taken(listener);
		all_out(number, "hi", 2);
		CHECK(read(number, buffer, 1) == 0);
		close(number);
	}
	joined(child);
	puts("three accepted");
}

/* What a reader leaves holds the sender up. */
static void slow(int listener)
{
	int number = taken(listener);
	sleep(1);
	CHECK(all_in(number, 4) > 100000);
}

static void full(void)
{
	int port;
	pid_t child = server(&port, slow);
	int number = make(0);
	struct sockaddr_in to = at("127.0.0.1", port);
	CHECK(connect(number, (void *)&to, sizeof to) == 0);
	size_t total = 0;
	for (;;) {
		fill(buffer, 4096, total, 4);
		ssize_t sent = send(number, buffer, 4096, MSG_DONTWAIT);
		if (sent < 0) {
			CHECK(errno == EAGAIN);
			/* it may only not have been carried on so far */
			if (!(soon(number, POLLOUT, 200) & POLLOUT))
				break;
			continue;
		}
		total += sent;
		CHECK(total < 64 << 20);
	}
	CHECK(soon(number, POLLOUT, 20000) & POLLOUT);
	close(number);
	joined(child);
	puts("held up");
}

/* A program that ends at once has sent everything. */
static void ends(void)
{
	int port, listener = serve(&port, 8);
	pid_t child = forked();
	CHECK(child >= 0);
	if (child == 0) {
		send_stream(call(port), 1 << 20, 9);
		exit(0);
	}
	int number = taken(listener);
	CHECK(all_in(number, 9) == 1 << 20);
	joined(child);
	puts("all came");
}

/* Processes that were forked before the first connection accept by turns. */
static void children(void)
{
	int port, listener = serve(&port, 8);
	pid_t workers[2];
	for (int at = 0; at < 2; at++) {
		workers[at] = forked();
		CHECK(workers[at] >= 0);
		if (workers[at] == 0) {
			for (int round = 0; round < 3; round++) {
				int number = taken(listener);
				CHECK(read(number, buffer, 9) == 4);
				all_out(number, buffer, 4);
				CHECK(read(number, buffer, 9) == 0);
				close(number);
			}
			_exit(0);
		}
	}
	pid_t client = forked();
	CHECK(client >= 0);
	if (client == 0) {
		for (int round = 0; round < 6; round++) {
			int number = call(port);
			all_out(number, "four", 4);
			CHECK(read(number, buffer, 9) == 4);
			close(number);
		}
		exit(0);
	}
	joined(client);
	joined(workers[0]);
	joined(workers[1]);
	puts("six by two");
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*does)(void); } modes[] = {
		{ "echo", echo }, { "much", much }, { "half", half }, { "reset", reset },
		{ "later", later }, { "refused", refused }, { "bound", bound },
		{ "stranger", stranger }, { "watched", watched }, { "full", full },
		{ "ends", ends }, { "children", children },
	};
	signal(SIGPIPE, SIG_IGN);
	CHECK(argc == 2);
	if (strcmp(argv[1], "none") == 0) {
		CHECK(socket(FAMILY, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
		puts("no such family");
		return 0;
	}
	for (size_t at = 0; at < sizeof modes / sizeof *modes; at++)
		if (strcmp(argv[1], modes[at].name) == 0) {
			modes[at].does();
			return 0;
		}
	fail(__LINE__, "a mode");
}
