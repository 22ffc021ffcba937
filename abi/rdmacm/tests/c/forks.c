/*
 * Children of a process whose other threads are inside the library at the fork: connections are made, sockets talk, identifiers
 * come and go. No child hangs, what it inherited refuses with EIO, and identifiers and sockets of its own work.
 */
#include <sys/wait.h>

#include "rs.h"

enum { CHILDREN = 30 };

static volatile int stop;
static long rounds;

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listening_id, *idle_id;
static struct rdma_cm_event *kept;
static struct ends sockets;

/* A connection from a listener to its end. */
static void connection(void)
{
	struct rdma_event_channel *here = rdma_create_event_channel(), *there = rdma_create_event_channel();

	CHECK(here && there);
	struct rdma_cm_id *server = listener(there, RDMA_PS_TCP, NULL);
	struct rdma_cm_id *client = caller(here, RDMA_PS_TCP, ntohs(rdma_get_src_port(server)), NULL);
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };

	EQ(rdma_create_qp(client, NULL, &attr), 0);
	EQ(rdma_connect(client, &param), 0);
	struct rdma_cm_event *event = expect(there, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *accepted = event->id;

	EQ(rdma_ack_cm_event(event), 0);
	attr = attributes(IBV_QPT_RC);
	EQ(rdma_create_qp(accepted, NULL, &attr), 0);
	EQ(rdma_accept(accepted, &param), 0);
	expect_and_ack(here, RDMA_CM_EVENT_ESTABLISHED);
	expect_and_ack(there, RDMA_CM_EVENT_ESTABLISHED);
	EQ(rdma_disconnect(client), 0);
	expect_and_ack(there, RDMA_CM_EVENT_DISCONNECTED);
	EQ(rdma_disconnect(accepted), 0);
	expect_and_ack(here, RDMA_CM_EVENT_DISCONNECTED);
	for (int side = 0; side < 2; side++) {
		rdma_destroy_qp(side ? client : accepted);
		EQ(rdma_destroy_id(side ? client : accepted), 0);
	}
	EQ(rdma_destroy_id(server), 0);
	rdma_destroy_event_channel(here);
	rdma_destroy_event_channel(there);
}

static void conversation(void)
{
	struct ends both = ends();
	char word[8] = "";

	EQ(rsend(both.near, "a word", 7, 0), 7);
	EQ(rrecv(both.far, word, sizeof(word), 0), 7);
	EQ(strcmp(word, "a word"), 0);
	EQ(rclose(both.near), 0);
	EQ(rclose(both.far), 0);
}

static void *connects(void *unused)
{
	while (!stop) {
		connection();
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return unused;
}

static void *converses(void *unused)
{
	while (!stop) {
		conversation();
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return unused;
}

/* Identifiers and numbers of the parent's channel and sockets, as often as possible. */
static void *comes_and_goes(void *unused)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	struct rdma_cm_id *id;
	int count;

	while (!stop) {
		struct ibv_context **devices = rdma_get_devices(&count);

		CHECK(devices && count > 0);
		rdma_free_devices(devices);
		EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
		EQ(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
		EQ(rdma_destroy_id(id), 0);
		int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

		CHECK(fd >= 0);
		EQ(rclose(fd), 0);
		__atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
	}
	return unused;
}

static void inherited_refuses(void)
{
	struct sockaddr_in in = address("127.0.0.1", 9);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	char byte = 0;

	REFUSED(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), EIO);
	REFUSED(rdma_get_cm_event(channel, &event), EIO);
	REFUSED(rdma_ack_cm_event(kept), EIO);
	REFUSED(rdma_bind_addr(idle_id, (struct sockaddr *)&in), EIO);
	REFUSED(rdma_resolve_addr(idle_id, NULL, (struct sockaddr *)&in, 1000), EIO);
	REFUSED(rdma_listen(listening_id, 1), EIO);
	REFUSED(rdma_migrate_id(idle_id, channel), EIO);
	for (int again = 0; again < 2; again++) {
		REFUSED(rdma_destroy_id(idle_id), EIO);
		REFUSED(rdma_destroy_id(listening_id), EIO);
		rdma_destroy_event_channel(channel);
	}
	REFUSED(rsend(sockets.near, &byte, 1, 0), EIO);
	REFUSED(rrecv(sockets.far, &byte, 1, MSG_DONTWAIT), EIO);
	EQ(rclose(sockets.near), 0);
}

static void child(int nth)
{
	alarm(40);
	if (nth % 3)
		inherited_refuses();
	if (nth % 4 < 2)
		connection();
	if (nth % 4 > 0)
		conversation();
	if (nth & 1)
		exit(0);
	_exit(0);
}

static void reap(pid_t pid)
{
	int status;

	EQ(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		FAIL("a child hung%s", "");
	if (status)
		FAIL("a child ended with %x", status);
}

static void *forks(void *many)
{
	for (int nth = 0; nth < (int)(long)many; nth++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0)
			child(nth);
		reap(pid);
	}
	return NULL;
}

int main(void)
{
	struct sockaddr_in in = address("127.0.0.1", 0);

	channel = rdma_create_event_channel();
	CHECK(channel);
	listening_id = listener(channel, RDMA_PS_TCP, NULL);
	EQ(rdma_create_id(channel, &idle_id, NULL, RDMA_PS_TCP), 0);
	EQ(rdma_resolve_addr(idle_id, NULL, (struct sockaddr *)&in, 2000), 0);
	kept = expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	sockets = ends();

	pthread_t busy[] = { start(connects, NULL), start(converses, NULL), start(comes_and_goes, NULL) };
	pthread_t forkers[2];

	forks((void *)CHILDREN);
	for (int nth = 0; nth < 2; nth++)
		forkers[nth] = start(forks, (void *)8);
	for (int nth = 0; nth < 2; nth++)
		finish(forkers[nth]);
	stop = 1;
	for (int nth = 0; nth < 3; nth++)
		finish(busy[nth]);
	CHECK(rounds > 0);

	/* All of it is still the parent's. */
	char byte = 1;

	EQ(rsend(sockets.near, &byte, 1, 0), 1);
	EQ(rrecv(sockets.far, &byte, 1, 0), 1);
	EQ(rclose(sockets.near), 0);
	EQ(rclose(sockets.far), 0);
	EQ(rdma_ack_cm_event(kept), 0);
	EQ(rdma_destroy_id(idle_id), 0);
	EQ(rdma_destroy_id(listening_id), 0);
	rdma_destroy_event_channel(channel);
	return 0;
}
