/* Threads on one queue pair and one completion queue: nothing is lost, nothing comes twice. */
#include "check.h"
#include <pthread.h>
#include <sched.h>

#define THREADS 4
#define EACH 2000
#define DEPTH 32

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct side target;
static struct ibv_cq_ex *cq;
static struct ibv_qp *qp;
static unsigned char seen[THREADS * EACH];
static int collected;

/* Half of the threads post structures, half build requests by calls; a full queue is tried again. */
static void *post_all(void *argument)
{
	uint64_t thread = (uintptr_t)argument;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	for (uint64_t i = 0; i < EACH;) {
		uint64_t wr_id = thread * EACH + i;
		uint64_t at = (uintptr_t)target.bytes + thread * 64;
		int result;

		if (thread % 2) {
			struct ibv_sge sge = { .addr = (uintptr_t)&wr_id, .length = 8 };
			struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge,
						  .num_sge = 1, .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE };

			wr.wr.rdma.remote_addr = at;
			wr.wr.rdma.rkey = target.mr->rkey;
			result = post(qp, &wr);
		} else {
			ibv_wr_start(ex);
			ex->wr_id = wr_id;
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(ex, target.mr->rkey, at);
			ibv_wr_set_inline_data(ex, &wr_id, 8);
			result = ibv_wr_complete(ex);
		}
		if (result == 0)
			i++;
		else if (result == ENOMEM)
			sched_yield();
		else
			FAIL("posting answered %d", result);
	}
	return NULL;
}

static void *collect(void *argument)
{
	struct ibv_poll_cq_attr attr = { 0 };
	double end = seconds() + 30;

	(void)argument;
	while (__atomic_load_n(&collected, __ATOMIC_ACQUIRE) < THREADS * EACH) {
		int result = ibv_start_poll(cq, &attr);

		if (seconds() > end)
			FAIL("%d of %d completions", collected, THREADS * EACH);
		if (result == ENOENT) {
			sched_yield();
			continue;
		}
		EQ(result, 0);
		do {
			EQ(cq->status, IBV_WC_SUCCESS);
			CHECK(cq->wr_id < THREADS * EACH);
			EQ(__atomic_exchange_n(&seen[cq->wr_id], 1, __ATOMIC_ACQ_REL), 0);
			__atomic_add_fetch(&collected, 1, __ATOMIC_ACQ_REL);
		} while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
	return NULL;
}

int main(void)
{
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = THREADS * EACH };

	cq = ibv_create_cq_ex(context, &cq_attr);
	CHECK(cq);
	struct ibv_qp_init_attr_ex init = { .send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq),
					    .qp_type = IBV_QPT_RC, .pd = pd, .cap = { DEPTH, 1, 1, 1, 8 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE };

	qp = ibv_create_qp_ex(context, &init);
	CHECK(qp);
	target = make_side(context, pd, IBV_QPT_RC);
	connect_qp(context, qp, IBV_QPT_RC, target.qp->qp_num);
	connect_qp(context, target.qp, IBV_QPT_RC, qp->qp_num);
	pthread_t posters[THREADS], collectors[2];

	for (uintptr_t i = 0; i < 2; i++)
		CHECK(pthread_create(&collectors[i], NULL, collect, NULL) == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&posters[i], NULL, post_all, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(posters[i], NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(collectors[i], NULL);
	/* Requests of one thread took effect in posting order: its last value stands. */
	for (uint64_t i = 0; i < THREADS; i++) {
		uint64_t last;

		memcpy(&last, target.bytes + i * 64, 8);
		EQ(last, i * EACH + EACH - 1);
	}
	EQ(ibv_destroy_qp(qp), 0);
	drop_side(&target);
	EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
