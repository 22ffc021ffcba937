/*
 * Sets of sockets and of descriptors of the system (repoll_create): what epoll(7) says of descriptors, sentence by sentence.
 */
#include "rs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>

/* Headers of rdma-core before 65 do not have them. */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

#define ANY 16

static int set(void)
{
	int epfd = repoll_create(EPOLL_CLOEXEC);

	CHECK(epfd >= 0);
	return epfd;
}

static int control(int epfd, int what, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };

	return repoll_ctl(epfd, what, fd, &event);
}

static void add(int epfd, int fd, uint32_t events, uint64_t data)
{
	EQ(control(epfd, EPOLL_CTL_ADD, fd, events, data), 0);
}

static void modify(int epfd, int fd, uint32_t events, uint64_t data)
{
	EQ(control(epfd, EPOLL_CTL_MOD, fd, events, data), 0);
}

static void discard(int epfd, int fd)
{
	EQ(repoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL), 0);
}

/* Exactly this event, and no other, within the patience. */
#define hear(epfd, wanted, name)                                              \
	do {                                                                  \
		struct epoll_event told_[ANY];                                 \
		EQ(repoll_wait(epfd, told_, ANY, PATIENCE_MS), 1);             \
		EQ(told_[0].events, wanted);                                   \
		EQ(told_[0].data.u64, name);                                   \
	} while (0)

#define hear_nothing(epfd, ms)                                                \
	do {                                                                  \
		struct epoll_event told_[ANY];                                 \
		if (repoll_wait(epfd, told_, ANY, ms))                         \
			FAIL("%x of %d is told", told_[0].events,              \
			     (int)told_[0].data.u64);                          \
	} while (0)

static void put(int fd, const char *text)
{
	EQ(rsend(fd, text, strlen(text), 0), strlen(text));
}

static void take(int fd, size_t length)
{
	char some[256];

	EQ(rrecv(fd, some, length, MSG_WAITALL), length);
}

static long long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

static void refusals(void)
{
	int epfd = set(), other = set(), file = open("/proc/self/status", O_RDONLY);
	struct ends both = ends();
	struct epoll_event got[1];

	REFUSED(repoll_create(O_NONBLOCK), EINVAL);
	REFUSED(control(-1, EPOLL_CTL_ADD, both.near, EPOLLIN, 0), EBADF);
	REFUSED(control(file, EPOLL_CTL_ADD, both.near, EPOLLIN, 0), EINVAL);
	REFUSED(control(both.near, EPOLL_CTL_ADD, both.far, EPOLLIN, 0), EINVAL);
	REFUSED(control(epfd, EPOLL_CTL_ADD, -1, EPOLLIN, 0), EBADF);
	REFUSED(control(epfd, EPOLL_CTL_ADD, 9999, EPOLLIN, 0), EBADF);
	REFUSED(control(epfd, EPOLL_CTL_ADD, epfd, EPOLLIN, 0), EINVAL);
	REFUSED(control(epfd, EPOLL_CTL_ADD, file, EPOLLIN, 0), EPERM);
	REFUSED(control(epfd, 77, both.near, EPOLLIN, 0), EINVAL);
	REFUSED(control(epfd, 77, other, EPOLLIN, 0), EINVAL);
	REFUSED(repoll_ctl(epfd, EPOLL_CTL_ADD, both.near, NULL), EFAULT);
	REFUSED(control(epfd, EPOLL_CTL_MOD, both.near, EPOLLIN, 0), ENOENT);
	REFUSED(control(epfd, EPOLL_CTL_DEL, both.near, EPOLLIN, 0), ENOENT);
	REFUSED(control(epfd, EPOLL_CTL_MOD, other, EPOLLIN, 0), ENOENT);
	add(epfd, both.near, EPOLLIN, 0);
	REFUSED(control(epfd, EPOLL_CTL_ADD, both.near, EPOLLIN, 0), EEXIST);
	add(epfd, other, EPOLLIN, 0);
	REFUSED(control(epfd, EPOLL_CTL_ADD, other, EPOLLIN, 0), EEXIST);
	REFUSED(control(other, EPOLL_CTL_ADD, epfd, EPOLLIN, 0), ELOOP);
	REFUSED(control(epfd, EPOLL_CTL_MOD, both.near, EPOLLIN | EPOLLEXCLUSIVE, 0), EINVAL);
	REFUSED(control(epfd, EPOLL_CTL_ADD, both.far, EPOLLIN | EPOLLONESHOT | EPOLLEXCLUSIVE, 0), EINVAL);
	add(epfd, both.far, EPOLLIN | EPOLLEXCLUSIVE, 0);
	REFUSED(control(epfd, EPOLL_CTL_MOD, both.far, EPOLLIN, 0), EINVAL);
	REFUSED(repoll_wait(-1, got, 1, 0), EBADF);
	REFUSED(repoll_wait(file, got, 1, 0), EINVAL);
	REFUSED(repoll_wait(both.near, got, 1, 0), EINVAL);
	REFUSED(repoll_wait(epfd, got, 0, 0), EINVAL);
	REFUSED(repoll_wait(epfd, got, -1, 0), EINVAL);
	REFUSED(repoll_wait(epfd, NULL, 1, 0), EFAULT);
	REFUSED(rrecv(epfd, got, 1, 0), EBADF);
	REFUSED(rlisten(epfd, 1), EBADF);
	EQ(rfcntl(epfd, F_GETFD), FD_CLOEXEC);
	EQ(rfcntl(epfd, F_SETFD, 0), 0);
	EQ(rfcntl(epfd, F_GETFD), 0);
	EQ(rclose(epfd), 0);
	REFUSED(rclose(epfd), EBADF);
	REFUSED(repoll_wait(epfd, got, 1, 0), EBADF);
	EQ(rclose(other), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	close(file);
}

static void level_triggered(void)
{
	int epfd = set();
	struct ends both = ends();

	add(epfd, both.far, EPOLLIN, 1);
	hear_nothing(epfd, 0);
	hear_nothing(epfd, 30);
	put(both.near, "hello");
	for (int i = 0; i < 3; i++)
		hear(epfd, EPOLLIN, 1);
	take(both.far, 2);
	hear(epfd, EPOLLIN, 1);
	take(both.far, 3);
	hear_nothing(epfd, 0);
	modify(epfd, both.far, EPOLLIN | EPOLLOUT, 2);
	hear(epfd, EPOLLOUT, 2);
	hear(epfd, EPOLLOUT, 2);
	put(both.near, "x");
	while (!(ready(both.far, POLLIN, 0) & POLLIN))
		;
	hear(epfd, EPOLLIN | EPOLLOUT, 2);
	take(both.far, 1);
	discard(epfd, both.far);
	put(both.near, "y");
	hear_nothing(epfd, 30);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	EQ(rclose(epfd), 0);
}

static void edge_triggered(void)
{
	int epfd = set();
	struct ends both = ends();

	add(epfd, both.far, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 7);
	hear(epfd, EPOLLOUT, 7);
	hear_nothing(epfd, 20);
	put(both.near, "one");
	hear(epfd, EPOLLIN | EPOLLOUT, 7);
	/* It was not read, and is not told again. */
	hear_nothing(epfd, 20);
	take(both.far, 1);
	hear_nothing(epfd, 20);
	/* More comes beside what was not read. */
	put(both.near, "two");
	hear(epfd, EPOLLIN | EPOLLOUT, 7);
	take(both.far, 5);
	hear_nothing(epfd, 20);
	/* Each of many. */
	for (int i = 0; i < 200; i++) {
		put(both.near, "again");
		hear(epfd, EPOLLIN | EPOLLOUT, 7);
		take(both.far, 5);
	}
	/* What came is told once more when it is asked for anew. */
	put(both.near, "three");
	hear(epfd, EPOLLIN | EPOLLOUT, 7);
	modify(epfd, both.far, EPOLLIN | EPOLLET | EPOLLRDHUP, 8);
	hear(epfd, EPOLLIN, 8);
	hear_nothing(epfd, 20);
	take(both.far, 5);
	EQ(rshutdown(both.near, SHUT_WR), 0);
	hear(epfd, EPOLLIN | EPOLLRDHUP, 8);
	hear_nothing(epfd, 20);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	EQ(rclose(epfd), 0);
}

/* Who could not send hears of room once. */
static void edge_of_room(void)
{
	int epfd = set();
	struct ends both = ends();
	static char block[60000];
	size_t sent = 0, got = 0;

	EQ(rfcntl(both.near, F_SETFL, O_NONBLOCK), 0);
	add(epfd, both.near, EPOLLOUT | EPOLLET, 3);
	hear(epfd, EPOLLOUT, 3);
	hear_nothing(epfd, 20);
	for (;;) {
		ssize_t length = rsend(both.near, block, sizeof(block), 0);

		if (length < 0) {
			EQ(errno, EAGAIN);
			break;
		}
		sent += length;
	}
	while (got < sent) {
		ssize_t length = rrecv(both.far, block, sizeof(block), 0);

		CHECK(length > 0);
		got += length;
	}
	hear(epfd, EPOLLOUT, 3);
	hear_nothing(epfd, 20);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	EQ(rclose(epfd), 0);
}

static void one_shot(void)
{
	int epfd = set();
	struct ends both = ends();

	add(epfd, both.far, EPOLLIN | EPOLLONESHOT, 1);
	put(both.near, "a");
	hear(epfd, EPOLLIN, 1);
	hear_nothing(epfd, 20);
	put(both.near, "b");
	hear_nothing(epfd, 20);
	modify(epfd, both.far, EPOLLIN | EPOLLONESHOT, 2);
	hear(epfd, EPOLLIN, 2);
	hear_nothing(epfd, 20);
	take(both.far, 2);
	modify(epfd, both.far, EPOLLIN | EPOLLONESHOT, 3);
	hear_nothing(epfd, 20);
	put(both.near, "c");
	hear(epfd, EPOLLIN, 3);
	/* One that is off does not tell of the end, either. */
	EQ(rclose(both.near), 0);
	hear_nothing(epfd, 50);
	EQ(rclose(both.far), 0);
	EQ(rclose(epfd), 0);
}

static void ends_are_told(void)
{
	int epfd = set();
	struct ends both = ends();
	struct epoll_event got[ANY];

	add(epfd, both.far, EPOLLRDHUP, 5);
	hear_nothing(epfd, 20);
	EQ(rshutdown(both.near, SHUT_WR), 0);
	hear(epfd, EPOLLRDHUP, 5);
	modify(epfd, both.far, 0, 6);
	hear_nothing(epfd, 20);
	EQ(rclose(both.near), 0);
	/* EPOLLHUP need not be asked for. */
	EQ(rshutdown(both.far, SHUT_RDWR), 0);
	hear(epfd, EPOLLHUP, 6);
	EQ(rclose(both.far), 0);
	hear_nothing(epfd, 0);
	/* A socket that is not connected is as one of TCP. */
	both.near = rsocket(AF_INET, SOCK_STREAM, 0);
	add(epfd, both.near, EPOLLIN | EPOLLOUT, 1);
	EQ(repoll_wait(epfd, got, ANY, 0), 1);
	EQ(got[0].events, EPOLLOUT | EPOLLHUP);
	EQ(rclose(both.near), 0);
	EQ(rclose(epfd), 0);
}

/* A listening socket, connections on their way, and the refusal of one. */
static void connections(void)
{
	int epfd = set(), listener = listening(8), far, near;
	struct sockaddr_in in = name_of(listener);
	struct epoll_event got[ANY];

	add(epfd, listener, EPOLLIN | EPOLLET, 1);
	hear_nothing(epfd, 0);
	near = connecting_to(in);
	add(epfd, near, EPOLLOUT, 2);
	for (int seen = 0; seen != 3;) {
		int count = repoll_wait(epfd, got, ANY, PATIENCE_MS);

		CHECK(count > 0);
		for (int i = 0; i < count; i++) {
			EQ(got[i].events, got[i].data.u64 == 1 ? EPOLLIN : EPOLLOUT);
			seen |= (int)got[i].data.u64;
		}
	}
	EQ(get_int(near, SOL_SOCKET, SO_ERROR), 0);
	far = raccept(listener, NULL, NULL);
	CHECK(far >= 0);
	/* The next one is a new edge. */
	discard(epfd, near);
	EQ(rclose(near), 0);
	near = connecting_to(in);
	hear(epfd, EPOLLIN, 1);
	EQ(rclose(near), 0);
	EQ(rclose(far), 0);
	EQ(rclose(listener), 0);
	near = connecting_to(in);
	add(epfd, near, EPOLLIN | EPOLLOUT, 4);
	hear(epfd, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP, 4);
	EQ(get_int(near, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
	EQ(rclose(near), 0);
	EQ(rclose(epfd), 0);
}

static void datagram_sockets(void)
{
	int epfd = set(), one = rsocket(AF_INET, SOCK_DGRAM, 0), two = rsocket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in in = address("127.0.0.1", 0);
	char some[64];

	EQ(rbind(one, (struct sockaddr *)&in, sizeof(in)), 0);
	in = name_of(one);
	add(epfd, one, EPOLLIN | EPOLLET, 9);
	for (int i = 0; i < 20; i++) {
		EQ(rsendto(two, "datagram", 8, 0, (struct sockaddr *)&in, sizeof(in)), 8);
		hear(epfd, EPOLLIN, 9);
		EQ(rrecv(one, some, sizeof(some), 0), 8);
	}
	hear_nothing(epfd, 20);
	EQ(rclose(one), 0);
	EQ(rclose(two), 0);
	EQ(rclose(epfd), 0);
}

/* Beside sockets: a pipe, an eventfd, a timer, each with the kernel's own triggers. */
static void descriptors_of_the_system(void)
{
	int epfd = set(), pipes[2], event = eventfd(0, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec soon = { .it_value.tv_nsec = 20000000 };
	struct ends both = ends();
	struct epoll_event got[ANY];
	uint64_t number = 1;
	int seen = 0;

	EQ(pipe(pipes), 0);
	add(epfd, both.far, EPOLLIN, 1);
	add(epfd, pipes[0], EPOLLIN, 2);
	add(epfd, event, EPOLLIN | EPOLLET, 4);
	add(epfd, timer, EPOLLIN | EPOLLONESHOT, 8);
	REFUSED(control(epfd, EPOLL_CTL_ADD, event, EPOLLIN, 0), EEXIST);
	hear_nothing(epfd, 0);
	EQ(timerfd_settime(timer, 0, &soon, NULL), 0);
	hear(epfd, EPOLLIN, 8);
	hear_nothing(epfd, 20);
	EQ(write(pipes[1], "p", 1), 1);
	hear(epfd, EPOLLIN, 2);
	EQ(write(event, &number, 8), 8);
	put(both.near, "s");
	while (seen != 7) {
		int count = repoll_wait(epfd, got, ANY, PATIENCE_MS);

		CHECK(count > 0);
		for (int i = 0; i < count; i++) {
			/* The eventfd is told once. */
			CHECK(got[i].data.u64 != 4 || !(seen & 4));
			seen |= (int)got[i].data.u64;
		}
	}
	/* With room for one event each has its turn. */
	for (seen = 0; seen != 3;) {
		EQ(repoll_wait(epfd, got, 1, PATIENCE_MS), 1);
		seen |= (int)got[0].data.u64;
	}
	take(both.far, 1);
	close(pipes[0]);
	close(pipes[1]);
	hear_nothing(epfd, 20);
	EQ(rclose(epfd), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	close(event);
	close(timer);
}

static void *send_later(void *argument)
{
	usleep(50000);
	put(*(int *)argument, "late");
	return NULL;
}

static void caught(int number)
{
	(void)number;
}

static void *interrupt(void *argument)
{
	usleep(100000);
	pthread_kill(*(pthread_t *)argument, SIGUSR1);
	return NULL;
}

static void times_and_signals(void)
{
	struct sigaction action = { .sa_handler = caught, .sa_flags = SA_RESTART };
	struct ends both = ends();
	struct epoll_event got[ANY];
	pthread_t self = pthread_self(), thread;
	long long begin = now_ms();
	int epfd = set();

	add(epfd, both.far, EPOLLIN, 1);
	hear_nothing(epfd, 120);
	CHECK(now_ms() - begin >= 120);
	CHECK(now_ms() - begin < 5000);
	thread = start(send_later, &both.near);
	EQ(repoll_wait(epfd, got, ANY, -1), 1);
	finish(thread);
	take(both.far, 4);
	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	thread = start(interrupt, &self);
	REFUSED(repoll_wait(epfd, got, ANY, PATIENCE_MS), EINTR);
	finish(thread);
	/* A set of nothing sleeps, too. */
	EQ(rclose(epfd), 0);
	epfd = set();
	hear_nothing(epfd, 20);
	EQ(rclose(epfd), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

struct waiting {
	int epfd, result, error;
	struct epoll_event event;
};

static void *wait_once(void *argument)
{
	struct waiting *waiting = argument;

	waiting->result = repoll_wait(waiting->epfd, &waiting->event, 1, PATIENCE_MS);
	waiting->error = errno;
	return NULL;
}

/* What another thread does to a set or a socket reaches the one that sleeps. */
static void changes_while_asleep(void)
{
	struct waiting waiting = { .epfd = set() };
	struct ends both = ends(), more = ends();
	pthread_t thread = start(wait_once, &waiting);

	put(both.near, "already");
	usleep(50000);
	add(waiting.epfd, both.far, EPOLLIN, 1);
	finish(thread);
	EQ(waiting.result, 1);
	EQ(waiting.event.data.u64, 1);
	take(both.far, 7);

	thread = start(wait_once, &waiting);
	usleep(50000);
	modify(waiting.epfd, both.far, EPOLLOUT, 2);
	finish(thread);
	EQ(waiting.result, 1);
	EQ(waiting.event.data.u64, 2);

	/* Another thread reads it all: nothing is left to tell of, until more comes. */
	modify(waiting.epfd, both.far, EPOLLIN, 3);
	thread = start(wait_once, &waiting);
	usleep(50000);
	add(waiting.epfd, more.far, EPOLLIN, 4);
	EQ(rclose(both.far), 0);
	EQ(rclose(both.near), 0);
	usleep(20000);
	put(more.near, "more");
	finish(thread);
	EQ(waiting.result, 1);
	EQ(waiting.event.data.u64, 4);
	take(more.far, 4);

	/* The set itself is closed. */
	thread = start(wait_once, &waiting);
	usleep(50000);
	EQ(rclose(waiting.epfd), 0);
	finish(thread);
	EQ(waiting.result, -1);
	EQ(waiting.error, EBADF);
	EQ(rclose(more.near), 0);
	EQ(rclose(more.far), 0);
}

/* A closed socket leaves the set; the next one with its number is another one. */
static void closing_leaves(void)
{
	int epfd = set();

	for (int i = 0; i < 20; i++) {
		struct ends both = ends();

		add(epfd, both.far, EPOLLIN, 1000 + i);
		put(both.near, "unread");
		hear(epfd, EPOLLIN, 1000 + i);
		EQ(rclose(both.far), 0);
		EQ(rclose(both.near), 0);
		hear_nothing(epfd, 0);
	}
	EQ(rclose(epfd), 0);
}

/* A set in another may be told of for what is no event of a socket, as when credits come; it has nothing then, and is quiet after. */
static void settle(int outer, int inner)
{
	struct epoll_event got[ANY];

	for (int i = 0; i < 100 && repoll_wait(outer, got, ANY, 20); i++)
		hear_nothing(inner, 0);
	hear_nothing(outer, 0);
}

/* A socket in two sets, a set in a set, and a set in rpoll. */
static void sets_and_sets(void)
{
	int one = set(), two = set();
	struct ends both = ends();

	add(one, both.far, EPOLLIN, 1);
	add(two, both.far, EPOLLIN | EPOLLET, 2);
	put(both.near, "both");
	hear(one, EPOLLIN, 1);
	hear(two, EPOLLIN, 2);
	take(both.far, 4);
	discard(two, both.far);
	add(two, one, EPOLLIN, 3);
	hear_nothing(one, 0);
	settle(two, one);
	for (int i = 0; i < 50; i++) {
		put(both.near, "in");
		hear(two, EPOLLIN, 3);
		hear(one, EPOLLIN, 1);
		/* It was not read: the set in the set is still readable. */
		hear(two, EPOLLIN, 3);
		take(both.far, 2);
		hear_nothing(one, 0);
	}
	settle(two, one);
	EQ(ready(one, POLLIN, 0), 0);
	put(both.near, "poll");
	EQ(ready(one, POLLIN, PATIENCE_MS), POLLIN);
	EQ(rclose(one), 0);
	hear_nothing(two, 20);
	EQ(rclose(two), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

#define THREADS 4
#define SOCKETS 24
#define ROUNDS 200

static struct ends many[SOCKETS];
static int served, is_over;

/* Serves one socket at a time, as a pool of threads does. */
static void *serve(void *argument)
{
	int epfd = *(int *)argument;
	struct epoll_event event;

	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
		int count = repoll_wait(epfd, &event, 1, PATIENCE_MS);
		char some[16];
		int fd;

		EQ(count, 1);
		if (event.data.u64 == ANY + SOCKETS)
			continue;
		fd = many[event.data.u64].far;
		EQ(event.events, EPOLLIN);
		EQ(rrecv(fd, some, 8, MSG_WAITALL), 8);
		__atomic_add_fetch(&served, 1, __ATOMIC_SEQ_CST);
		EQ(rsend(fd, some, 8, 0), 8);
		modify(epfd, fd, EPOLLIN | EPOLLONESHOT, event.data.u64);
	}
	return NULL;
}

static void *ask(void *argument)
{
	uint64_t answer, rounds = ROUNDS;

	for (uint64_t i = 0; i < rounds; i++)
		for (int at = *(int *)argument; at < SOCKETS; at += 2) {
			EQ(rsend(many[at].near, &i, 8, 0), 8);
			EQ(rrecv(many[at].near, &answer, 8, MSG_WAITALL), 8);
			EQ(answer, i);
		}
	return NULL;
}

static void many_threads_one_set(void)
{
	int epfd = set(), stop = eventfd(0, 0), parts[] = { 0, 1 };
	pthread_t threads[THREADS], askers[2];
	uint64_t one = 1;

	for (int i = 0; i < SOCKETS; i++) {
		many[i] = ends();
		add(epfd, many[i].far, EPOLLIN | EPOLLONESHOT, i);
	}
	add(epfd, stop, EPOLLIN, ANY + SOCKETS);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start(serve, &epfd);
	for (int i = 0; i < 2; i++)
		askers[i] = start(ask, &parts[i]);
	for (int i = 0; i < 2; i++)
		finish(askers[i]);
	EQ(served, SOCKETS * ROUNDS);
	__atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
	/* Level triggered: all of them see it. */
	EQ(write(stop, &one, 8), 8);
	for (int i = 0; i < THREADS; i++)
		finish(threads[i]);
	for (int i = 0; i < SOCKETS; i++) {
		EQ(rclose(many[i].near), 0);
		EQ(rclose(many[i].far), 0);
	}
	EQ(rclose(epfd), 0);
	close(stop);
}

/* Level triggered, two threads: while the first has not read, the second hears of it, too. */
static void a_second_thread_hears(void)
{
	struct waiting first = { .epfd = set() }, second = first;
	struct ends both = ends();
	pthread_t threads[2];

	add(first.epfd, both.far, EPOLLIN, 1);
	threads[0] = start(wait_once, &first);
	threads[1] = start(wait_once, &second);
	usleep(50000);
	put(both.near, "for both");
	finish(threads[0]);
	finish(threads[1]);
	EQ(first.result, 1);
	EQ(second.result, 1);
	/* Edge triggered: one of them. Further bytes are for the other one, even if the first never comes back. */
	take(both.far, 8);
	modify(first.epfd, both.far, EPOLLIN | EPOLLET, 2);
	hear_nothing(first.epfd, 0);
	threads[0] = start(wait_once, &first);
	threads[1] = start(wait_once, &second);
	usleep(50000);
	put(both.near, "one");
	usleep(100000);
	put(both.near, "two");
	finish(threads[0]);
	finish(threads[1]);
	EQ(first.result, 1);
	EQ(second.result, 1);
	EQ(rclose(first.epfd), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

/* A forked child keeps the number and the system's descriptors, and none of the sockets. */
static void forked(void)
{
	int epfd = set(), event = eventfd(0, 0);
	struct ends both = ends();
	struct epoll_event got[ANY];
	uint64_t one = 1;
	pid_t child;
	int status;

	add(epfd, both.far, EPOLLIN, 1);
	add(epfd, event, EPOLLIN, 2);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		struct ends own = ends();

		alarm(PATIENCE_MS / 1000);
		REFUSED(control(epfd, EPOLL_CTL_MOD, both.far, EPOLLIN, 0), EIO);
		hear_nothing(epfd, 0);
		EQ(write(event, &one, 8), 8);
		hear(epfd, EPOLLIN, 2);
		EQ(read(event, &one, 8), 8);
		add(epfd, own.far, EPOLLIN, 3);
		put(own.near, "child");
		hear(epfd, EPOLLIN, 3);
		EQ(rclose(epfd), 0);
		REFUSED(rclose(epfd), EBADF);
		_exit(0);
	}
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	hear_nothing(epfd, 0);
	put(both.near, "parent");
	hear(epfd, EPOLLIN, 1);
	take(both.far, 6);
	EQ(write(event, &one, 8), 8);
	EQ(repoll_wait(epfd, got, ANY, PATIENCE_MS), 1);
	EQ(got[0].data.u64, 2);
	/* One that does nothing with it closes it. */
	child = fork();
	if (!child) {
		EQ(rclose(epfd), 0);
		_exit(0);
	}
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	put(both.near, "p");
	EQ(repoll_wait(epfd, got, ANY, PATIENCE_MS) >= 1, 1);
	EQ(rclose(epfd), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	close(event);
}

static int open_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 8192; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void nothing_is_left_open(void)
{
	int before;

	/* The end of a connection is heard by a thread, which holds it a moment longer. */
	usleep(300000);
	before = open_descriptors();
	for (int i = 0; i < 30; i++) {
		int epfd = set();
		struct ends both = ends();

		add(epfd, both.far, EPOLLIN, 1);
		add(epfd, both.near, EPOLLIN | EPOLLET, 1);
		put(both.near, "x");
		hear(epfd, EPOLLIN, 1);
		if (i & 1)
			EQ(rclose(epfd), 0);
		EQ(rclose(both.near), 0);
		EQ(rclose(both.far), 0);
		if (!(i & 1))
			EQ(rclose(epfd), 0);
	}
	for (int i = 0; i < 200 && open_descriptors() > before; i++)
		usleep(10000);
	/* The wire may have opened some of its own. */
	if (open_descriptors() > before + 10)
		FAIL("%d descriptors and not %d", open_descriptors(), before);
}

int main(void)
{
	refusals();
	level_triggered();
	edge_triggered();
	edge_of_room();
	one_shot();
	ends_are_told();
	connections();
	datagram_sockets();
	descriptors_of_the_system();
	times_and_signals();
	changes_while_asleep();
	closing_leaves();
	sets_and_sets();
	many_threads_one_set();
	a_second_thread_hears();
	forked();
	nothing_is_left_open();
	return 0;
}
