/*
 * Bytes through one socket of a set beside many idle ones: idle COUNT ROUNDS
 * Prints how long a round of two wake-ups takes beside one, and beside COUNT.
 */
#include "rs.h"

#include <sys/epoll.h>
#include <sys/resource.h>

/* Headers of rdma-core before 65 do not have them. */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

static double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int told(int epfd)
{
	struct epoll_event event;

	EQ(repoll_wait(epfd, &event, 1, PATIENCE_MS), 1);
	EQ(event.events, EPOLLIN);
	return event.data.fd;
}

static void add(int epfd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	EQ(repoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), 0);
}

/* There and back; the other side has a set of its own. */
static double rounds(int here, int there, struct ends both, int count)
{
	double begin = now_us();
	char byte;

	for (int i = 0; i < count; i++) {
		EQ(rsend(both.near, "x", 1, 0), 1);
		EQ(told(there), both.far);
		EQ(rrecv(both.far, &byte, 1, 0), 1);
		EQ(rsend(both.far, "y", 1, 0), 1);
		EQ(told(here), both.near);
		EQ(rrecv(both.near, &byte, 1, 0), 1);
	}
	return (now_us() - begin) / count;
}

int main(int argc, char **argv)
{
	int idle = argc > 1 ? atoi(argv[1]) : 100, count = argc > 2 ? atoi(argv[2]) : 1000;
	int here = repoll_create(0), there = repoll_create(0), listener;
	struct ends *others = calloc(idle, sizeof(*others)), both = ends();
	struct rlimit limit;
	double alone, beside;

	EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	add(here, both.near);
	add(there, both.far);
	rounds(here, there, both, count / 10);
	alone = rounds(here, there, both, count);
	listener = listening(16);
	for (int i = 0; i < idle; i++) {
		others[i] = ends_through(listener);
		add(here, others[i].near);
		add(there, others[i].far);
	}
	rounds(here, there, both, count / 10);
	beside = rounds(here, there, both, count);
	printf("%.1f us alone, %.1f us beside %d idle sockets in each set\n", alone, beside, idle);
	/* Each of them can still be heard. */
	for (int i = 0; i < idle; i++) {
		EQ(rsend(others[i].near, "z", 1, 0), 1);
		EQ(told(there), others[i].far);
		EQ(rclose(others[i].near), 0);
		EQ(rclose(others[i].far), 0);
	}
	EQ(rclose(here), 0);
	EQ(rclose(there), 0);
	/* A look at each idle one would take far longer than this. */
	CHECK(beside < 20 * alone + 1000);
	return 0;
}
