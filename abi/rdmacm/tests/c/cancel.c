/* Threads that are cancelled in librdmacm: the calls that wait are cancellation points, and leave nothing behind; the others are none. */
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "../../../verbs/tests/c/cancelled.h"
#include "rs.h"

static char bytes[1 << 22];

static void do_accept(void *fd)
{
	int accepted = raccept(*(int *)fd, NULL, NULL);

	CHECK(accepted >= 0);
	EQ(rclose(accepted), 0);
}

static void accepting(void)
{
	struct cancelled one;
	int listener = listening(4), near, far;

	cancelled_in(do_accept, &listener, ASLEEP);
	cancelled_in(do_accept, &listener, PENDING);
	cancelled_start(&one, do_accept, &listener, DISABLED);
	near = connected_to(name_of(listener));
	cancelled_end(&one);
	EQ(rclose(near), 0);
	/* a connection that waits is not lost with a thread that ends at the beginning */
	near = connected_to(name_of(listener));
	cancelled_in(do_accept, &listener, PENDING);
	far = raccept(listener, NULL, NULL);
	CHECK(far >= 0);
	EQ(rclose(near), 0);
	EQ(rclose(far), 0);
	cancelled_in(do_accept, &listener, ASLEEP);
	EQ(rclose(listener), 0);
}

static struct sockaddr_in full_address;

static void do_connect(void *fd)
{
	EQ(rconnect(*(int *)fd, (struct sockaddr *)&full_address, sizeof(full_address)), 0);
}

/* Requests beyond a listener's room wait until it is emptied. */
static void connecting(void)
{
	int listener = listening(1), first, far, slow[2];
	struct cancelled one;

	full_address = name_of(listener);
	first = connected_to(full_address);
	for (int i = 0; i < 2; i++)
		CHECK((slow[i] = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	cancelled_in(do_connect, &slow[0], PENDING);
	cancelled_in(do_connect, &slow[0], ASLEEP);
	EQ(rclose(slow[0]), 0);
	cancelled_start(&one, do_connect, &slow[1], DISABLED);
	/* the request of the socket that is closed may still come, and end at once */
	for (int i = 0; i < 2 && !one.returned; i++) {
		far = raccept(listener, NULL, NULL);
		CHECK(far >= 0);
		EQ(rclose(far), 0);
		usleep(300000);
	}
	cancelled_end(&one);
	EQ(rclose(slow[1]), 0);
	EQ(rclose(first), 0);
	EQ(rclose(listener), 0);
}

static void do_receive(void *fd)
{
	EQ(rrecv(*(int *)fd, bytes, 5, 0), 5);
	EQ(memcmp(bytes, "hello", 5), 0);
}

static void do_receive_all(void *fd)
{
	EQ(rrecv(*(int *)fd, bytes, 10, MSG_WAITALL), 10);
}

static void do_read_vectors(void *fd)
{
	struct iovec parts[2] = { { bytes, 2 }, { bytes + 2, 3 } };

	EQ(rreadv(*(int *)fd, parts, 2), 5);
}

static void receiving(void)
{
	struct ends both = ends();
	struct cancelled one, two;

	cancelled_in(do_receive, &both.far, ASLEEP);
	cancelled_in(do_receive, &both.far, PENDING);
	cancelled_in(do_read_vectors, &both.far, ASLEEP);
	EQ(rsend(both.near, "hello", 5, 0), 5);
	do_receive(&both.far);
	cancelled_start(&one, do_receive, &both.far, DISABLED);
	EQ(rsend(both.near, "hello", 5, 0), 5);
	cancelled_end(&one);
	/* of two that sleep one is cancelled: the other one gets what comes */
	one = (struct cancelled){ .call = do_receive, .on = &both.far, .way = ASLEEP };
	CHECK(pthread_create(&one.thread, NULL, cancelled_body, &one) == 0);
	while (!one.tid)
		usleep(1000);
	cancelled_asleep(one.tid);
	cancelled_start(&two, do_receive, &both.far, ASLEEP);
	cancelled_end(&two);
	EQ(rsend(both.near, "hello", 5, 0), 5);
	CHECK(pthread_join(one.thread, NULL) == 0);
	EQ(one.returned, 1);
	/* half of what is waited for has come */
	EQ(rsend(both.near, "hello", 5, 0), 5);
	cancelled_in(do_receive_all, &both.far, ASLEEP);
	cancelled_start(&one, do_receive_all, &both.far, DISABLED);
	EQ(rsend(both.near, "hello", 5, 0), 5);
	usleep(20000);
	EQ(rsend(both.near, "hello", 5, 0), 5);
	cancelled_end(&one);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

static void do_send(void *fd)
{
	EQ(rsend(*(int *)fd, bytes, sizeof(bytes), 0), sizeof(bytes));
}

static void sending(void)
{
	static char to[1 << 16];
	struct ends both = ends();
	struct cancelled one;
	size_t got = 0;
	ssize_t part;

	memset(bytes, 'x', sizeof(bytes));
	cancelled_in(do_send, &both.near, PENDING);
	/* nobody reads: it fills what room there is, and sleeps */
	cancelled_in(do_send, &both.near, ASLEEP);
	cancelled_start(&one, do_send, &both.near, DISABLED);
	while (!one.returned) {
		part = rrecv(both.far, to, sizeof(to), MSG_DONTWAIT);
		if (part < 0) {
			EQ(errno, EAGAIN);
			usleep(100);
		} else {
			got += (size_t)part;
		}
	}
	cancelled_end(&one);
	EQ(rshutdown(both.near, SHUT_WR), 0);
	while ((part = rrecv(both.far, to, sizeof(to), 0)) > 0)
		got += (size_t)part;
	EQ(part, 0);
	/* the second one's bytes are all there, and what the first one had sent */
	CHECK(got > sizeof(bytes) && got < 2 * sizeof(bytes));
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

static int pipes[2];

static void do_poll(void *fd)
{
	struct pollfd fds[2] = { { .fd = *(int *)fd, .events = POLLIN }, { .fd = pipes[0], .events = POLLIN } };

	EQ(rpoll(fds, 2, -1), 1);
	EQ(fds[0].revents, POLLIN);
}

static void do_poll_system(void *unused)
{
	struct pollfd one = { .fd = pipes[0], .events = POLLIN };

	(void)unused;
	EQ(rpoll(&one, 1, 20000), 1);
}

static void do_select(void *fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(*(int *)fd, &set);
	EQ(rselect(*(int *)fd + 1, &set, NULL, NULL, NULL), 1);
}

static void for_many(void)
{
	void (*calls[])(void *) = { do_poll, do_select };
	struct ends both = ends();
	struct cancelled one;

	EQ(pipe(pipes), 0);
	for (int i = 0; i < 2; i++) {
		cancelled_in(calls[i], &both.far, ASLEEP);
		cancelled_in(calls[i], &both.far, PENDING);
		cancelled_start(&one, calls[i], &both.far, DISABLED);
		EQ(rsend(both.near, "hello", 5, 0), 5);
		cancelled_end(&one);
		calls[i](&both.far);
		do_receive(&both.far);
	}
	cancelled_in(do_poll_system, NULL, ASLEEP);
	cancelled_in(do_poll_system, NULL, PENDING);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
	close(pipes[0]);
	close(pipes[1]);
}

int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

static void do_wait(void *set)
{
	struct epoll_event events[4];

	EQ(repoll_wait(*(int *)set, events, 4, -1), 1);
	EQ(events[0].data.u32, 7);
}

static void sets(void)
{
	struct ends both = ends();
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 };
	struct cancelled one;
	int set = repoll_create(0);

	CHECK(set >= 0);
	EQ(repoll_ctl(set, EPOLL_CTL_ADD, both.far, &event), 0);
	for (int round = 0; round < 3; round++) {
		cancelled_in(do_wait, &set, ASLEEP);
		cancelled_in(do_wait, &set, PENDING);
		cancelled_start(&one, do_wait, &set, DISABLED);
		EQ(rsend(both.near, "hello", 5, 0), 5);
		cancelled_end(&one);
		do_wait(&set);
		do_receive(&both.far);
	}
	cancelled_in(do_wait, &set, ASLEEP);
	EQ(rclose(set), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

static void do_datagram(void *fd)
{
	EQ(rrecvfrom(*(int *)fd, bytes, 5, 0, NULL, NULL), 5);
}

static void datagrams(void)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	int from = rsocket(AF_INET, SOCK_DGRAM, 0), to = rsocket(AF_INET, SOCK_DGRAM, 0);
	struct cancelled one;

	CHECK(from >= 0 && to >= 0);
	EQ(rbind(to, (struct sockaddr *)&in, sizeof(in)), 0);
	in = name_of(to);
	cancelled_in(do_datagram, &to, ASLEEP);
	cancelled_in(do_datagram, &to, PENDING);
	cancelled_start(&one, do_datagram, &to, DISABLED);
	EQ(rsendto(from, "hello", 5, 0, (struct sockaddr *)&in, sizeof(in)), 5);
	cancelled_end(&one);
	EQ(rsendto(from, "hello", 5, 0, (struct sockaddr *)&in, sizeof(in)), 5);
	do_datagram(&to);
	EQ(rclose(from), 0);
	EQ(rclose(to), 0);
}

static void do_close(void *fd)
{
	EQ(rclose(*(int *)fd), 0);
}

static void do_shut(void *fd)
{
	EQ(rshutdown(*(int *)fd, SHUT_RDWR), 0);
}

/* The other side is stopped, and takes nothing. A child of a process without sockets, so that it has its own. */
static void lingering(void)
{
	struct sockaddr_in in;
	int say[2], accepted, listener;
	pid_t child;

	EQ(pipe(say), 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(read(say[0], &in, sizeof(in)) == sizeof(in));
		for (int i = 0; i < 2; i++)
			connected_to(in);
		raise(SIGSTOP);
		_exit(0);
	}
	listener = listening(4);
	in = name_of(listener);
	CHECK(write(say[1], &in, sizeof(in)) == sizeof(in));
	int fds[2];

	for (int i = 0; i < 2; i++)
		CHECK((fds[i] = raccept(listener, NULL, NULL)) >= 0);
	CHECK(waitpid(child, NULL, WUNTRACED) == child);
	cancelled_in(do_close, &fds[0], PENDING);
	EQ(rsend(fds[0], "hello", 5, 0), 5);
	cancelled_in(do_close, &fds[0], ASLEEP);
	/* it is closed all the same */
	REFUSED(rsend(fds[0], "hello", 5, 0), EBADF);
	EQ(rsend(fds[1], "hello", 5, 0), 5);
	cancelled_in(do_shut, &fds[1], ASLEEP);
	REFUSED(rsend(fds[1], "hello", 5, 0), EPIPE);
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
	EQ(rclose(fds[1]), 0);
	accepted = connected_to(in);
	EQ(rclose(accepted), 0);
	EQ(rclose(listener), 0);
	close(say[0]);
	close(say[1]);
}

static void get_event(void *channel)
{
	struct rdma_cm_event *event;

	EQ(rdma_get_cm_event(channel, &event), 0);
	EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	EQ(rdma_ack_cm_event(event), 0);
}

static void events(void)
{
	struct sockaddr_in in = address("127.0.0.1", 7777);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *ids[3];
	struct cancelled one;

	CHECK(channel);
	for (int i = 0; i < 3; i++)
		EQ(rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP), 0);
	cancelled_in(get_event, channel, ASLEEP);
	cancelled_in(get_event, channel, PENDING);
	cancelled_start(&one, get_event, channel, DISABLED);
	EQ(rdma_resolve_addr(ids[0], NULL, (struct sockaddr *)&in, 2000), 0);
	cancelled_end(&one);
	EQ(rdma_resolve_addr(ids[1], NULL, (struct sockaddr *)&in, 2000), 0);
	EQ(poll(&(struct pollfd){ .fd = channel->fd, .events = POLLIN }, 1, 5000), 1);
	/* an event that waits is not lost */
	cancelled_in(get_event, channel, PENDING);
	get_event(channel);
	for (int round = 0; round < 100; round++) {
		struct cancelled race = { .call = get_event, .on = channel, .way = ASLEEP };

		CHECK(pthread_create(&race.thread, NULL, cancelled_body, &race) == 0);
		while (!race.tid)
			usleep(10);
		EQ(rdma_destroy_id(ids[2]), 0);
		EQ(rdma_create_id(channel, &ids[2], NULL, RDMA_PS_TCP), 0);
		EQ(rdma_resolve_addr(ids[2], NULL, (struct sockaddr *)&in, 2000), 0);
		CHECK(pthread_cancel(race.thread) == 0);
		CHECK(pthread_join(race.thread, NULL) == 0);
		if (!race.returned)
			get_event(channel);
	}
	for (int i = 0; i < 3; i++)
		EQ(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(channel);
}

static struct rdma_cm_id *endpoint(int flags, int port, int with_pair)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .sq_sig_all = 1 };
	struct rdma_cm_id *id;
	char service[8];

	snprintf(service, sizeof(service), "%d", port);
	EQ(rdma_getaddrinfo("127.0.0.1", service, &hints, &info), 0);
	EQ(rdma_create_ep(&id, info, NULL, with_pair ? &attr : NULL), 0);
	rdma_freeaddrinfo(info);
	return id;
}

static void get_request(void *listener)
{
	struct rdma_cm_id *id;

	EQ(rdma_get_request(listener, &id), 0);
	EQ(rdma_reject(id, NULL, 0), 0);
	rdma_destroy_ep(id);
}

static void do_rdma_connect(void *id)
{
	rdma_connect(id, NULL);
}

static void do_rdma_accept(void *id)
{
	EQ(rdma_accept(id, NULL), 0);
}

static void do_disconnect(void *id)
{
	EQ(rdma_disconnect(id), 0);
}

static void do_completion(void *id)
{
	struct ibv_wc wc;

	EQ(rdma_get_recv_comp(id, &wc), 1);
	EQ(wc.status, IBV_WC_SUCCESS);
}

static void synchronous(void)
{
	struct rdma_cm_id *listener = endpoint(RAI_PASSIVE, 0, 1), *request, *active;
	int port = ntohs(rdma_get_src_port(listener));
	struct cancelled one, connects;

	EQ(rdma_listen(listener, 4), 0);
	port = ntohs(rdma_get_src_port(listener));
	cancelled_in(get_request, listener, ASLEEP);
	cancelled_in(get_request, listener, PENDING);
	/* nobody accepts: the call waits */
	active = endpoint(0, port, 1);
	cancelled_in(do_rdma_connect, active, PENDING);
	cancelled_in(do_rdma_connect, active, ASLEEP);
	/* another thread goes on with the same listener */
	EQ(rdma_get_request(listener, &request), 0);
	rdma_destroy_ep(active);
	rdma_destroy_ep(request);
	active = endpoint(0, port, 1);
	cancelled_start(&connects, do_rdma_connect, active, DISABLED);
	EQ(rdma_get_request(listener, &request), 0);
	cancelled_in(do_rdma_accept, request, PENDING);
	EQ(rdma_accept(request, NULL), 0);
	cancelled_end(&connects);
	cancelled_in(do_completion, request, ASLEEP);
	cancelled_in(do_completion, request, PENDING);
	struct ibv_mr *mr = rdma_reg_msgs(active, bytes, 64), *to = rdma_reg_msgs(request, bytes + 64, 64);

	CHECK(mr && to);
	cancelled_start(&one, do_completion, request, DISABLED);
	EQ(rdma_post_recv(request, NULL, bytes + 64, 64, to), 0);
	EQ(rdma_post_send(active, NULL, bytes, 64, mr, 0), 0);
	cancelled_end(&one);
	EQ(rdma_dereg_mr(mr), 0);
	EQ(rdma_dereg_mr(to), 0);
	/* until the other side ends the connection, too */
	cancelled_in(do_disconnect, active, ASLEEP);
	EQ(rdma_disconnect(request), 0);
	rdma_destroy_ep(active);
	rdma_destroy_ep(request);
	rdma_destroy_ep(listener);
}

/* A thread that was cancelled before passes through every call that does not wait. */
static void *through(void *argument)
{
	int *passed = argument;

	CHECK(pthread_cancel(pthread_self()) == 0);
	int listener = listening(4), fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in in = name_of(listener);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct rdma_addrinfo *info;

	CHECK(fd >= 0 && channel);
	set_int(fd, SOL_SOCKET, SO_RCVBUF, 100000);
	EQ(get_int(fd, SOL_SOCKET, SO_ERROR), 0);
	EQ(rfcntl(fd, F_GETFL, 0) & O_NONBLOCK, O_NONBLOCK);
	EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET }), 0);
	EQ(rdma_listen(id, 2), 0);
	EQ(rdma_destroy_id(id), 0);
	EQ(rdma_getaddrinfo("127.0.0.1", "7471", NULL, &info), 0);
	rdma_freeaddrinfo(info);
	rdma_destroy_event_channel(channel);
	CHECK(in.sin_port != 0);
	*passed = 1;
	pthread_testcancel();
	return NULL;
}

static void others(void)
{
	for (int round = 0; round < 3; round++) {
		pthread_t thread;
		void *value = NULL;
		int passed = 0;

		CHECK(pthread_create(&thread, NULL, through, &passed) == 0);
		CHECK(pthread_join(thread, &value) == 0);
		CHECK(value == PTHREAD_CANCELED);
		EQ(passed, 1);
	}
}

static struct ends restless_ends;

/* Cancelled between any two instructions, as iperf3 does it: what it is in the middle of is ended by the call. */
static void *restless(void *set)
{
	struct pollfd one = { .fd = restless_ends.far, .events = POLLIN };
	struct epoll_event events[4];
	char some[64] = "";

	CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
	for (;;) {
		rsend(restless_ends.near, some, sizeof(some), MSG_DONTWAIT);
		rpoll(&one, 1, 0);
		repoll_wait(*(int *)set, events, 4, 0);
		rrecv(restless_ends.far, some, sizeof(some), MSG_DONTWAIT);
		rgetpeername(restless_ends.far, (struct sockaddr *)&full_address,
			     &(socklen_t){ sizeof(full_address) });
		rrecv(restless_ends.far, some, sizeof(some), 0);
	}
	return NULL;
}

static void between_any_two_instructions(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 };
	int set = repoll_create(0);

	restless_ends = ends();
	EQ(repoll_ctl(set, EPOLL_CTL_ADD, restless_ends.far, &event), 0);
	for (int round = 0; round < 1000; round++) {
		pthread_t thread;
		void *value = NULL;

		CHECK(pthread_create(&thread, NULL, restless, &set) == 0);
		usleep((useconds_t)(round % 100));
		CHECK(pthread_cancel(thread) == 0);
		CHECK(pthread_join(thread, &value) == 0);
		CHECK(value == PTHREAD_CANCELED);
	}
	/* what they have sent comes first, and is zeros */
	EQ(rsend(restless_ends.near, "!", 1, 0), 1);
	ssize_t part;

	do {
		part = rrecv(restless_ends.far, bytes, sizeof(bytes), 0);
		CHECK(part > 0);
	} while (bytes[part - 1] != '!');
	EQ(rsend(restless_ends.near, "hello", 5, 0), 5);
	do_wait(&set);
	do_receive(&restless_ends.far);
	EQ(rclose(set), 0);
	EQ(rclose(restless_ends.near), 0);
	EQ(rclose(restless_ends.far), 0);
}

int main(void)
{
	/* before this process has sockets */
	lingering();
	others();
	accepting();
	connecting();
	receiving();
	sending();
	for_many();
	sets();
	datagrams();
	events();
	synchronous();
	between_any_two_instructions();
	return 0;
}
