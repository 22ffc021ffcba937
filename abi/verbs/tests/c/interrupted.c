/*
 * A signal's handler that runs while a thread waits in ibv_get_cq_event: the call goes on behind one with SA_RESTART, and ends with EINTR
 * behind one without, as a read(2) of the channel's descriptor does.
 */
#include "check.h"
#include <signal.h>

enum { SIGNALS = 3, RESTARTS = SIGUSR1, INTERRUPTS = SIGUSR2 };

static struct side a, b;
static struct ibv_comp_channel *channel;
static pthread_t waiter;
static volatile sig_atomic_t handled;

static void handler(int number)
{
	(void)number;
	handled++;
}

static void handle(int number, int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	EQ(sigaction(number, &action, NULL), 0);
}

/* What the other thread does while the first one waits: signals, one after the other, and then a message. */
struct plan {
	int signal, count, sends;
};

static void *disturb(void *of)
{
	const struct plan *plan = of;

	for (int nth = 0; nth < plan->count; nth++) {
		int before = handled;

		usleep(30000);
		EQ(pthread_kill(waiter, plan->signal), 0);
		while (handled == before)
			usleep(100);
	}
	usleep(30000);
	if (plan->sends) {
		struct ibv_sge sge = part(&a, 0, 8);
		struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
					  .send_flags = IBV_SEND_SIGNALED };

		EQ(post(a.qp, &wr), 0);
	}
	return NULL;
}

/* Waits under this plan; gives the errno, or 0 for an event. */
static int wait_under(struct plan plan)
{
	struct ibv_cq *cq;
	void *cq_context;
	pthread_t other;

	handled = 0;
	if (plan.sends)
		post_recv(&b, 2, 0, 8);
	EQ(ibv_req_notify_cq(b.cq, 0), 0);
	CHECK(pthread_create(&other, NULL, disturb, &plan) == 0);
	int error = ibv_get_cq_event(channel, &cq, &cq_context) ? errno : 0;

	CHECK(pthread_join(other, NULL) == 0);
	if (!error) {
		EQ(handled, plan.count);
		CHECK(cq == b.cq);
		ibv_ack_cq_events(cq, 1);
	}
	if (plan.sends) {
		expect(b.cq, 2, IBV_WC_SUCCESS);
		expect(a.cq, 1, IBV_WC_SUCCESS);
	}
	return error;
}

int main(void)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);

	CHECK(pd);
	waiter = pthread_self();
	channel = ibv_create_comp_channel(context);
	CHECK(channel);
	a = make_side(context, pd, IBV_QPT_RC);
	b = make_side(context, pd, IBV_QPT_RC);
	EQ(ibv_destroy_qp(b.qp), 0);
	EQ(ibv_destroy_cq(b.cq), 0);
	b.cq = ibv_create_cq(context, 16, NULL, channel, 0);
	CHECK(b.cq);
	struct ibv_qp_init_attr init = { .send_cq = b.cq, .recv_cq = b.cq, .cap = { 8, 8, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	b.qp = ibv_create_qp(pd, &init);
	CHECK(b.qp);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);

	handle(RESTARTS, SA_RESTART);
	EQ(wait_under((struct plan){ RESTARTS, SIGNALS, 1 }), 0);
	EQ(wait_under((struct plan){ RESTARTS, 0, 1 }), 0);
	signal(RESTARTS, SIG_DFL);
	handle(INTERRUPTS, 0);
	EQ(wait_under((struct plan){ INTERRUPTS, 1, 0 }), EINTR);
	EQ(wait_under((struct plan){ INTERRUPTS, 0, 1 }), 0);

	/* with handlers of both kinds the first signal may end the call; from then on it is known which of them ran */
	handle(RESTARTS, SA_RESTART);
	EQ(wait_under((struct plan){ INTERRUPTS, 1, 0 }), EINTR);
	EQ(wait_under((struct plan){ RESTARTS, SIGNALS, 1 }), 0);
	EQ(wait_under((struct plan){ INTERRUPTS, 1, 0 }), EINTR);

	drop_side(&a);
	drop_side(&b);
	EQ(ibv_destroy_comp_channel(channel), 0);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
