/* Events: real descriptors, acknowledgements, and destruction that waits for them. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

static int readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, timeout_ms);
}

static void non_blocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	CHECK(flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

struct late {
	struct ibv_cq *cq;
	unsigned int count;
	int delay_ms;
};

static void *acknowledge_late(void *argument)
{
	struct late *late = argument;

	usleep((useconds_t)late->delay_ms * 1000);
	ibv_ack_cq_events(late->cq, late->count);
	return NULL;
}

static void send_one(struct side *from, struct side *to, int flags)
{
	struct ibv_sge sge = part(from, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED | flags };

	post_recv(to, 2, 0, 8);
	EQ(post(from->qp, &wr), 0);
	expect(from->cq, 1, IBV_WC_SUCCESS);
}

static void completion_events(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct side a = make_side(context, pd, IBV_QPT_RC), b = make_side(context, pd, IBV_QPT_RC);
	int tag;

	CHECK(channel);
	EQ(ibv_destroy_qp(b.qp), 0);
	EQ(ibv_destroy_cq(b.cq), 0);
	b.cq = ibv_create_cq(context, 16, &tag, channel, 0);
	CHECK(b.cq);
	struct ibv_qp_init_attr init = { .send_cq = b.cq, .recv_cq = b.cq, .cap = { 8, 8, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };

	b.qp = ibv_create_qp(pd, &init);
	CHECK(b.qp);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);

	/* Without a request no event comes; with one, exactly one. */
	send_one(&a, &b, 0);
	EQ(readable(channel->fd, 50), 0);
	expect(b.cq, 2, IBV_WC_SUCCESS);
	EQ(ibv_req_notify_cq(b.cq, 0), 0);
	send_one(&a, &b, 0);
	send_one(&a, &b, 0);
	EQ(readable(channel->fd, 5000), 1);
	struct ibv_cq *cq = NULL;
	void *cq_context = NULL;

	EQ(ibv_get_cq_event(channel, &cq, &cq_context), 0);
	CHECK(cq == b.cq && cq_context == &tag);
	ibv_ack_cq_events(cq, 1);
	expect(b.cq, 2, IBV_WC_SUCCESS);
	expect(b.cq, 2, IBV_WC_SUCCESS);
	/* The descriptor honours O_NONBLOCK. */
	non_blocking(channel->fd);
	EQ(ibv_get_cq_event(channel, &cq, &cq_context), -1);
	EQ(errno, EAGAIN);
	/* Solicited only. */
	EQ(ibv_req_notify_cq(b.cq, 1), 0);
	send_one(&a, &b, 0);
	EQ(readable(channel->fd, 50), 0);
	send_one(&a, &b, IBV_SEND_SOLICITED);
	EQ(readable(channel->fd, 5000), 1);
	EQ(ibv_get_cq_event(channel, &cq, &cq_context), 0);
	/* Destruction waits for the acknowledgement of what was delivered. */
	EQ(ibv_destroy_qp(b.qp), 0);
	struct late late = { .cq = cq, .count = 1, .delay_ms = 100 };
	pthread_t thread;
	double start = seconds();

	CHECK(pthread_create(&thread, NULL, acknowledge_late, &late) == 0);
	EQ(ibv_destroy_cq(b.cq), 0);
	CHECK(seconds() - start >= 0.09);
	pthread_join(thread, NULL);
	EQ(ibv_destroy_comp_channel(channel), 0);
	EQ(ibv_destroy_qp(a.qp), 0);
	EQ(ibv_destroy_cq(a.cq), 0);
	EQ(ibv_dereg_mr(a.mr), 0);
	EQ(ibv_dereg_mr(b.mr), 0);
	free(a.bytes);
	free(b.bytes);
}

/* An event whose queue is gone is not delivered. */
static void departed(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct side a = make_side(context, pd, IBV_QPT_RC);

	CHECK(channel);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 2, 2, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(cq && qp);
	to_init(qp, IBV_QPT_RC);
	EQ(ibv_req_notify_cq(cq, 0), 0);
	struct ibv_sge sge = part(&a, 0, 8);
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	EQ(ibv_post_recv(qp, &wr, &bad), 0);
	EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	EQ(readable(channel->fd, 5000), 1);
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_destroy_cq(cq), 0);
	non_blocking(channel->fd);
	void *cq_context;

	EQ(ibv_get_cq_event(channel, &cq, &cq_context), -1);
	EQ(errno, EAGAIN);
	EQ(ibv_destroy_comp_channel(channel), 0);
	drop_side(&a);
}

/* A completion queue that is too small says so and names itself. */
static void overrun(void)
{
	struct side a = make_side(context, pd, IBV_QPT_RC), b = make_side(context, pd, IBV_QPT_RC);
	struct ibv_cq *small = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = b.cq, .recv_cq = small, .cap = { 8, 8, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };

	CHECK(small);
	EQ(ibv_destroy_qp(b.qp), 0);
	b.qp = ibv_create_qp(pd, &init);
	CHECK(b.qp);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	for (int i = 0; i <= small->cqe; i++)
		send_one(&a, &b, 0);
	struct ibv_async_event event;

	do {
		EQ(readable(context->async_fd, 5000), 1);
		EQ(ibv_get_async_event(context, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	EQ(event.event_type, IBV_EVENT_CQ_ERR);
	CHECK(event.element.cq == small);
	/* What was queued before can still be taken; then the queue is unusable. */
	struct ibv_wc wc;

	EQ(ibv_poll_cq(small, 1, &wc), 1);
	CHECK(ibv_poll_cq(small, 1, &wc) < 0);
	EQ(ibv_destroy_qp(b.qp), 0);
	EQ(ibv_destroy_cq(small), 0);
	EQ(ibv_destroy_cq(b.cq), 0);
	EQ(ibv_dereg_mr(b.mr), 0);
	free(b.bytes);
	drop_side(&a);
}

static void drained_descriptor(void)
{
	struct ibv_async_event event;

	non_blocking(context->async_fd);
	for (;;) {
		if (ibv_get_async_event(context, &event) != 0)
			break;
		ibv_ack_async_event(&event);
	}
	EQ(errno, EAGAIN);
	EQ(readable(context->async_fd, 0), 0);
}

int main(void)
{
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	completion_events();
	departed();
	overrun();
	drained_descriptor();
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
