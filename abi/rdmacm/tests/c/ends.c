/*
 * Sockets at their limits: a peer that is killed, a fork, no descriptor left, a number that is no socket.
 */
#include "rs.h"

#include <signal.h>
#include <sys/resource.h>

static void no_sockets(void)
{
	struct pollfd poll = { .fd = 999, .events = POLLIN };
	struct sockaddr_in in;
	socklen_t length = sizeof(in);
	char byte = 0;
	int pipes[2];

	EQ(pipe(pipes), 0);
	REFUSED(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	REFUSED(rsocket(AF_INET, SOCK_SEQPACKET, 0), ENOTSUP);
	REFUSED(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
	REFUSED(rsend(pipes[1], &byte, 1, 0), EBADF);
	REFUSED(rrecv(pipes[0], &byte, 1, 0), EBADF);
	REFUSED(rrecv(-1, &byte, 1, 0), EBADF);
	REFUSED(rconnect(pipes[0], (struct sockaddr *)&in, sizeof(in)), EBADF);
	REFUSED(raccept(999, NULL, NULL), EBADF);
	REFUSED(rlisten(999, 1), EBADF);
	REFUSED(rshutdown(999, SHUT_RDWR), EBADF);
	REFUSED(rclose(pipes[0]), EBADF);
	REFUSED(rgetsockname(999, (struct sockaddr *)&in, &length), EBADF);
	REFUSED(rfcntl(999, F_GETFL), EBADF);
	REFUSED(riounmap(999, &byte, 1), EBADF);
	EQ(riowrite(999, &byte, 1, 0, 0), (size_t)-1);
	EQ(rpoll(&poll, 1, 0), 1);
	EQ(poll.revents, POLLNVAL);
	/* Not closed by the refusal. */
	EQ(write(pipes[1], "x", 1), 1);
	close(pipes[0]);
	close(pipes[1]);
}

/* A server in another process, which sends one byte for each that it gets. */
static pid_t serve(int tell)
{
	pid_t child = fork();
	struct sockaddr_in in;
	int listener, fd;
	char byte;

	CHECK(child >= 0);
	if (child)
		return child;
	listener = listening(1);
	in = name_of(listener);
	EQ(write(tell, &in.sin_port, sizeof(in.sin_port)), sizeof(in.sin_port));
	fd = raccept(listener, NULL, NULL);
	CHECK(fd >= 0);
	while (rrecv(fd, &byte, 1, 0) == 1)
		EQ(rsend(fd, &byte, 1, 0), 1);
	_exit(0);
}

static int connected_to_child(int hear)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	char byte;
	int fd;

	EQ(read(hear, &in.sin_port, sizeof(in.sin_port)), sizeof(in.sin_port));
	fd = connected_to(in);
	EQ(rsend(fd, "x", 1, 0), 1);
	EQ(rrecv(fd, &byte, 1, 0), 1);
	return fd;
}

static void *kill_later(void *argument)
{
	struct timespec pause = { .tv_nsec = 100000000 };

	nanosleep(&pause, NULL);
	EQ(kill(*(pid_t *)argument, SIGKILL), 0);
	return NULL;
}

/* A thread that waits for a peer that dies hears of the end; so do calls after it. */
static void a_peer_dies(void)
{
	static char bulk[100000];
	int pipes[2], fd, status;
	pthread_t thread;
	ssize_t got;
	pid_t child;

	EQ(pipe(pipes), 0);
	child = serve(pipes[1]);
	fd = connected_to_child(pipes[0]);
	thread = start(kill_later, &child);
	got = rrecv(fd, bulk, 1, 0);
	if (got != 0 && !(got == -1 && errno == ECONNRESET))
		FAIL("rrecv is %zd", got);
	CHECK(ready(fd, POLLIN, PATIENCE_MS) & POLLIN);
	while ((got = rsend(fd, bulk, sizeof(bulk), MSG_NOSIGNAL)) > 0)
		;
	CHECK(errno == ECONNRESET || errno == EPIPE);
	finish(thread);
	EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	EQ(rclose(fd), 0);
	close(pipes[0]);
	close(pipes[1]);
}

/* A process that ends without closing anything. */
static void a_peer_exits(void)
{
	int pipes[2], fd, status;
	pid_t child;
	char byte;

	EQ(pipe(pipes), 0);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		int listener = listening(1);
		struct sockaddr_in in = name_of(listener);

		EQ(write(pipes[1], &in.sin_port, sizeof(in.sin_port)), sizeof(in.sin_port));
		fd = raccept(listener, NULL, NULL);
		EQ(rrecv(fd, &byte, 1, 0), 1);
		EQ(rsend(fd, &byte, 1, 0), 1);
		exit(0);
	}
	fd = connected_to_child(pipes[0]);
	EQ(rrecv(fd, &byte, 1, 0), 0);
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	EQ(rclose(fd), 0);
	close(pipes[0]);
	close(pipes[1]);
}

/* A forked child has the numbers and not the connections; the parent goes on. */
static void a_fork(void)
{
	struct ends both = ends();
	int status, own;
	char byte;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		REFUSED(rsend(both.near, "x", 1, 0), EIO);
		REFUSED(rrecv(both.far, &byte, 1, 0), EIO);
		EQ(rclose(both.near), 0);
		REFUSED(rclose(both.near), EBADF);
		EQ(fcntl(both.near, F_GETFD), -1);
		exit(0);
	}
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	EQ(rsend(both.near, "x", 1, 0), 1);
	EQ(rrecv(both.far, &byte, 1, 0), 1);
	EQ(rclose(both.near), 0);
	EQ(rrecv(both.far, &byte, 1, 0), 0);
	EQ(rclose(both.far), 0);
	own = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(own >= 0);
	EQ(rclose(own), 0);
}

static void no_descriptor_left(void)
{
	struct rlimit few, before;
	struct ends both = ends();
	int fds[256], count = 0;
	char byte;

	EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 60;
	EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	while ((fds[count] = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0)
		CHECK(++count < 256);
	EQ(errno, EMFILE);
	REFUSED(rsocket(AF_INET, SOCK_DGRAM, 0), EMFILE);
	/* What is there goes on. */
	EQ(rsend(both.near, "x", 1, 0), 1);
	EQ(rrecv(both.far, &byte, 1, 0), 1);
	while (count--)
		EQ(rclose(fds[count]), 0);
	EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

int main(void)
{
	a_peer_dies();
	a_peer_exits();
	no_sockets();
	a_fork();
	no_descriptor_left();
	return 0;
}
