/* Threads that are cancelled: the calls that wait are cancellation points, the others are none. */
#include "check.h"
#include "cancelled.h"
#include <poll.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

static int readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout_ms);
}

static void get_cq_event(void *channel)
{
	struct ibv_cq *cq;
	void *cq_context;

	EQ(ibv_get_cq_event(channel, &cq, &cq_context), 0);
	ibv_ack_cq_events(cq, 1);
}

static void get_async_event(void *of)
{
	struct ibv_async_event event;

	EQ(ibv_get_async_event(of, &event), 0);
	EQ(event.event_type, IBV_EVENT_CQ_ERR);
	ibv_ack_async_event(&event);
}

/* Two sides; completions of the second are told by the channel. */
struct pair {
	struct ibv_comp_channel *channel;
	struct side a, b;
};

static struct pair make_pair(int entries)
{
	struct pair pair = { .channel = ibv_create_comp_channel(context),
			     .a = make_side(context, pd, IBV_QPT_RC),
			     .b = make_side(context, pd, IBV_QPT_RC) };

	CHECK(pair.channel);
	EQ(ibv_destroy_qp(pair.b.qp), 0);
	EQ(ibv_destroy_cq(pair.b.cq), 0);
	pair.b.cq = ibv_create_cq(context, entries, NULL, pair.channel, 0);
	CHECK(pair.b.cq);
	struct ibv_qp_init_attr init = { .send_cq = pair.b.cq, .recv_cq = pair.b.cq,
					 .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	pair.b.qp = ibv_create_qp(pd, &init);
	CHECK(pair.b.qp);
	connect_qp(context, pair.a.qp, IBV_QPT_RC, pair.b.qp->qp_num);
	connect_qp(context, pair.b.qp, IBV_QPT_RC, pair.a.qp->qp_num);
	return pair;
}

static void drop_pair(struct pair *pair)
{
	drop_side(&pair->a);
	drop_side(&pair->b);
	EQ(ibv_destroy_comp_channel(pair->channel), 0);
}

static void send_one(struct pair *pair)
{
	struct ibv_sge sge = part(&pair->a, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	post_recv(&pair->b, 2, 0, 8);
	EQ(post(pair->a.qp, &wr), 0);
	expect(pair->a.cq, 1, IBV_WC_SUCCESS);
}

static void completion_events(void)
{
	struct pair pair = make_pair(16);

	EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
	cancelled_in(get_cq_event, pair.channel, ASLEEP);
	cancelled_in(get_cq_event, pair.channel, PENDING);
	/* an event that waits is not lost with a thread that ends at the beginning */
	send_one(&pair);
	EQ(readable(pair.channel->fd, 5000), 1);
	cancelled_in(get_cq_event, pair.channel, PENDING);
	EQ(readable(pair.channel->fd, 0), 1);
	get_cq_event(pair.channel);
	EQ(readable(pair.channel->fd, 0), 0);
	expect(pair.b.cq, 2, IBV_WC_SUCCESS);

	struct cancelled one;

	EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
	cancelled_start(&one, get_cq_event, pair.channel, DISABLED);
	send_one(&pair);
	cancelled_end(&one);
	expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	drop_pair(&pair);
}

/* Whether the cancellation or the event comes first: an event that the thread did not get is there for others. */
static void event_against_cancellation(void)
{
	struct pair pair = make_pair(16);

	for (int round = 0; round < 300; round++) {
		struct cancelled one = { .call = get_cq_event, .on = pair.channel, .way = ASLEEP };
		void *value;

		EQ(ibv_req_notify_cq(pair.b.cq, 0), 0);
		CHECK(pthread_create(&one.thread, NULL, cancelled_body, &one) == 0);
		while (!one.tid)
			usleep(10);
		if (round % 3)
			usleep((useconds_t)round);
		if (round % 2)
			CHECK(pthread_cancel(one.thread) == 0);
		send_one(&pair);
		if (!(round % 2))
			CHECK(pthread_cancel(one.thread) == 0);
		CHECK(pthread_join(one.thread, &value) == 0);
		/* it may have been through with the call when it was cancelled */
		if (!one.returned) {
			CHECK(value == PTHREAD_CANCELED);
			EQ(readable(pair.channel->fd, 5000), 1);
			get_cq_event(pair.channel);
		}
		EQ(readable(pair.channel->fd, 0), 0);
		expect(pair.b.cq, 2, IBV_WC_SUCCESS);
	}
	drop_pair(&pair);
}

/* A queue of one entry, into which two completions go. */
static void overrun(struct pair *pair)
{
	*pair = make_pair(1);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	for (int i = 0; i < 8; i++)
		post_recv(&pair->b, 3, 0, 8);
	EQ(ibv_modify_qp(pair->b.qp, &attr, IBV_QP_STATE), 0);
}

static void asynchronous_events(void)
{
	struct pair pair;
	struct cancelled one;

	cancelled_in(get_async_event, context, ASLEEP);
	cancelled_in(get_async_event, context, PENDING);
	cancelled_start(&one, get_async_event, context, DISABLED);
	overrun(&pair);
	cancelled_end(&one);
	drop_pair(&pair);
	/* and another thread hears the next one */
	overrun(&pair);
	get_async_event(context);
	drop_pair(&pair);
}

struct loop {
	struct pair *pair;
	uint64_t rounds;
	atomic_int begun;
	/* what of a round is done */
	int sent, received;
};

/* Posts, polls and arms for ever; it ends at its own cancellation point alone. */
static void *traffic(void *argument)
{
	struct loop *loop = argument;
	struct pair *pair = loop->pair;
	struct ibv_sge sge = part(&pair->a, 0, BYTES);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	for (;; loop->rounds++) {
		post_recv(&pair->b, 2, 0, BYTES);
		EQ(ibv_req_notify_cq(pair->b.cq, 0), 0);
		EQ(post(pair->a.qp, &wr), 0);
		loop->sent = loop->received = 0;
		while (!loop->sent || !loop->received) {
			int count = ibv_poll_cq(pair->a.cq, 1, &wc);

			CHECK(count >= 0);
			loop->sent += count;
			count = ibv_poll_cq(pair->b.cq, 1, &wc);
			CHECK(count >= 0);
			loop->received += count;
		}
		loop->begun = 1;
		pthread_testcancel();
	}
	return NULL;
}

static void posts_and_polls(void)
{
	for (int round = 0; round < 30; round++) {
		struct pair pair = make_pair(16);
		struct loop loop = { .pair = &pair };
		pthread_t thread;
		void *value = NULL;

		CHECK(pthread_create(&thread, NULL, traffic, &loop) == 0);
		while (!loop.begun)
			usleep(100);
		usleep((useconds_t)(round * 37));
		CHECK(pthread_cancel(thread) == 0);
		CHECK(pthread_join(thread, &value) == 0);
		CHECK(value == PTHREAD_CANCELED);
		/* the round was ended, and the connection goes on */
		EQ(loop.sent, 1);
		EQ(loop.received, 1);
		send_one(&pair);
		expect(pair.b.cq, 2, IBV_WC_SUCCESS);
		/* nobody took the events */
		while (readable(pair.channel->fd, 0))
			get_cq_event(pair.channel);
		drop_pair(&pair);
	}
}

/* No call but those that wait ends a thread that was cancelled before. */
static void everything_else(void *unused)
{
	struct ibv_context *own = open_first();
	struct ibv_pd *domain = ibv_alloc_pd(own);
	struct side side = make_side(own, domain, IBV_QPT_RC), ud = make_side(own, domain, IBV_QPT_UD);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(own);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(domain, &srq_attr);
	struct ibv_cq *cq = ibv_create_cq(own, 4, NULL, channel, 0);
	struct ibv_port_attr port;
	struct ibv_device_attr device;
	union ibv_gid gid;
	struct ibv_mr *mr;

	(void)unused;
	CHECK(domain && channel && srq && cq);
	EQ(ibv_query_port(own, 1, &port), 0);
	EQ(ibv_query_gid(own, 1, 0, &gid), 0);
	EQ(ibv_query_device(own, &device), 0);
	connect_qp(own, side.qp, IBV_QPT_RC, side.qp->qp_num);
	connect_qp(own, ud.qp, IBV_QPT_UD, 0);
	struct ibv_ah_attr ah_attr = { .dlid = port.lid, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(domain, &ah_attr);

	CHECK(ah);
	/* a page that was not touched yet */
	mr = ibv_reg_mr(domain, aligned_alloc(4096, 1 << 20), 1 << 20, ALL_ACCESS);
	CHECK(mr);
	free(mr->addr);
	EQ(ibv_dereg_mr(mr), 0);
	EQ(ibv_destroy_ah(ah), 0);
	EQ(ibv_destroy_cq(cq), 0);
	EQ(ibv_destroy_srq(srq), 0);
	EQ(ibv_destroy_comp_channel(channel), 0);
	drop_side(&side);
	drop_side(&ud);
	EQ(ibv_dealloc_pd(domain), 0);
	EQ(ibv_close_device(own), 0);
}

static void *through(void *argument)
{
	pthread_t self = pthread_self();
	int *passed = argument;

	CHECK(pthread_cancel(self) == 0);
	everything_else(NULL);
	*passed = 1;
	pthread_testcancel();
	return NULL;
}

static void no_other_call_ends_it(void)
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

int main(void)
{
	/* the very first call of the process is made by a thread that was cancelled */
	no_other_call_ends_it();
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	completion_events();
	event_against_cancellation();
	asynchronous_events();
	posts_and_polls();
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
