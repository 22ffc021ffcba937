/*
 * Threads that hand data to each other through queues, and threads that race: what ThreadSanitizer is to say of them is nothing, and
 * a race. The first argument says which.
 */
#include "../../../abi/verbs/tests/c/check.h"
#include <pthread.h>
#include <unistd.h>

enum { ROUNDS = 200 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct side a, b;
static struct ibv_comp_channel *channel;
/* Written by one thread and read by another: nothing but the queues orders them. */
static long note, kept[ROUNDS];

static void open_all(void)
{
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	a = make_side(context, pd, IBV_QPT_RC);
	b = make_side(context, pd, IBV_QPT_RC);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
}

static void send_from(struct side *side, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = part(side, 0, length);
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };

	EQ(post(side->qp, &wr), 0);
}

/* Posts receives and sends; what it writes before each post is the taker's once the completion has come. */
static void *posts(void *long_ones)
{
	for (long round = 0; round < ROUNDS; round++) {
		struct ibv_wc wc;

		kept[round] = round;
		note = round;
		memset(a.bytes, (int)round, 64);
		send_from(&a, (uint64_t)round, long_ones ? 8192 : 64);
		/* The taker answers: its own notes are this thread's then. */
		while (ibv_poll_cq(a.cq, 1, &wc) == 0 || wc.opcode != IBV_WC_RECV)
			;
		CHECK(wc.status == IBV_WC_SUCCESS);
		CHECK(note == -round);
		post_recv(&a, 0, 4096, 64);
	}
	return NULL;
}

static void *takes(void *unused)
{
	for (long round = 0; round < ROUNDS; round++) {
		struct ibv_wc wc;

		while (ibv_poll_cq(b.cq, 1, &wc) == 0 || wc.opcode != IBV_WC_RECV)
			;
		CHECK(wc.status == IBV_WC_SUCCESS);
		CHECK(note == round && kept[round] == round);
		CHECK(b.bytes[0] == (unsigned char)round);
		note = -round;
		post_recv(&b, 0, 0, BYTES);
		send_from(&b, (uint64_t)round, 8);
	}
	return unused;
}

/* Between two queue pairs, with short messages and long ones. */
static void handed_by_messages(void)
{
	for (int long_ones = 0; long_ones < 2; long_ones++) {
		pthread_t threads[2];

		open_all();
		post_recv(&a, 0, 4096, 64);
		post_recv(&b, 0, 0, BYTES);
		EQ(pthread_create(&threads[0], NULL, posts, long_ones ? "" : NULL), 0);
		EQ(pthread_create(&threads[1], NULL, takes, NULL), 0);
		for (int nth = 0; nth < 2; nth++)
			EQ(pthread_join(threads[nth], NULL), 0);
	}
}

/* A buffer comes back with the completion of its own send, by an event, in another thread. */
static void *reuses(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_cq *cq;
		void *cookie;
		struct ibv_wc wc;

		EQ(ibv_get_cq_event(channel, &cq, &cookie), 0);
		ibv_ack_cq_events(cq, 1);
		/* What the queue was made with. */
		CHECK(*(long *)cookie == 42);
		EQ(ibv_req_notify_cq(cq, 0), 0);
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			;
		CHECK(wc.status == IBV_WC_SUCCESS);
		a.bytes[0] = (unsigned char)round;
		note = round + 1;
		post_recv(&b, 0, 0, 64);
		/* Tells the poster by a pipe, which orders the two. */
		EQ(write((int)(long)unused, "x", 1), 1);
	}
	return NULL;
}

static void handed_by_events(void)
{
	static long cookie;
	int pipes[2];
	pthread_t thread;
	char byte;

	EQ(pipe(pipes), 0);
	context = open_first();
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	CHECK(pd && channel);
	EQ(pthread_create(&thread, NULL, reuses, (void *)(long)pipes[1]), 0);
	usleep(20000);
	a = make_side(context, pd, IBV_QPT_RC);
	b = make_side(context, pd, IBV_QPT_RC);
	EQ(ibv_destroy_qp(a.qp), 0);
	EQ(ibv_destroy_cq(a.cq), 0);
	cookie = 42;
	a.cq = ibv_create_cq(context, 16, &cookie, channel, 0);
	struct ibv_qp_init_attr init = { .send_cq = a.cq, .recv_cq = a.cq, .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	a.qp = ibv_create_qp(pd, &init);
	CHECK(a.cq && a.qp);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	post_recv(&b, 0, 0, 64);
	EQ(ibv_req_notify_cq(a.cq, 0), 0);
	for (int round = 0; round < ROUNDS; round++) {
		memset(a.bytes, round, 64);
		note = round;
		send_from(&a, (uint64_t)round, 64);
		EQ(read(pipes[0], &byte, 1), 1);
		CHECK(note == round + 1);
	}
	EQ(pthread_join(thread, NULL), 0);
}

/* By a shared receive queue: who posts a receive has written into its buffer before. */
static void *refills(void *of)
{
	struct ibv_srq *srq = of;

	for (long round = 0; round < 8; round++) {
		struct ibv_sge sge = part(&b, (size_t)round * 64, 64);
		struct ibv_recv_wr wr = { .wr_id = (uint64_t)round, .sg_list = &sge, .num_sge = 1 }, *bad;

		kept[round] = round;
		memset(b.bytes + round * 64, 1, 64);
		EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	return NULL;
}

static void handed_by_shared_queue(void)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	pthread_t thread;

	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_init);

	CHECK(srq);
	a = make_side(context, pd, IBV_QPT_RC);
	b = make_side(context, pd, IBV_QPT_RC);
	EQ(ibv_destroy_qp(b.qp), 0);
	struct ibv_qp_init_attr init = { .send_cq = b.cq, .recv_cq = b.cq, .srq = srq, .cap = { 8, 0, 1, 0, 0 }, .qp_type = IBV_QPT_RC };

	b.qp = ibv_create_qp(pd, &init);
	CHECK(b.qp);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	EQ(pthread_create(&thread, NULL, refills, srq), 0);
	for (int round = 0; round < 8; round++) {
		memset(a.bytes, round, 64);
		send_from(&a, (uint64_t)round, 64);
		struct ibv_wc wc = wait_for(b.cq);

		CHECK(wc.status == IBV_WC_SUCCESS);
		CHECK(kept[wc.wr_id] == (long)wc.wr_id);
		b.bytes[wc.wr_id * 64] = 9;
		wait_for(a.cq);
	}
	EQ(pthread_join(thread, NULL), 0);
}

/* Nothing of the library orders these two. */
static void *races(void *unused)
{
	struct side one = make_side(context, pd, IBV_QPT_RC), other = make_side(context, pd, IBV_QPT_RC);

	connect_qp(context, one.qp, IBV_QPT_RC, other.qp->qp_num);
	connect_qp(context, other.qp, IBV_QPT_RC, one.qp->qp_num);
	for (int round = 0; round < ROUNDS; round++) {
		post_recv(&other, 1, 0, 64);
		send_from(&one, 2, 64);
		wait_for(one.cq);
		wait_for(other.cq);
		note++;
		expect_none(a.cq);
	}
	drop_side(&one);
	drop_side(&other);
	return unused;
}

/* Both post on one queue pair and none takes what the other has posted. */
static void *posts_and_races(void *unused)
{
	for (int round = 0; round < 3; round++) {
		send_from(&a, 7, 64);
		note++;
	}
	return unused;
}

static void two(void *(*run)(void *))
{
	pthread_t threads[2];

	open_all();
	for (int nth = 0; nth < 8; nth++)
		post_recv(&b, 0, 0, 64);
	for (int nth = 0; nth < 2; nth++)
		EQ(pthread_create(&threads[nth], NULL, run, NULL), 0);
	for (int nth = 0; nth < 2; nth++)
		EQ(pthread_join(threads[nth], NULL), 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "messages"))
		handed_by_messages();
	else if (!strcmp(what, "events"))
		handed_by_events();
	else if (!strcmp(what, "shared"))
		handed_by_shared_queue();
	else if (!strcmp(what, "race"))
		two(races);
	else if (!strcmp(what, "race-on-one"))
		two(posts_and_races);
	else
		return 2;
	puts("done");
	return 0;
}
