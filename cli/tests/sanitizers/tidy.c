/* A tidy program: threads that make objects, talk and give all back, and a connection manager that resolves. Tools find nothing in it. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "../../../abi/verbs/tests/c/check.h"
#include <pthread.h>

enum { THREADS = 3, LIVES = 10 };

static void *lives(void *unused)
{
	for (int life = 0; life < LIVES; life++) {
		struct ibv_context *context = open_first();
		struct ibv_pd *pd = ibv_alloc_pd(context);

		CHECK(pd);
		struct side a = make_side(context, pd, IBV_QPT_RC), b = make_side(context, pd, IBV_QPT_RC);
		struct ibv_sge sge = part(&a, 0, 1000);
		struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
		struct ibv_qp_attr attr;
		struct ibv_qp_init_attr init;

		connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
		connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
		memset(a.bytes, life + 1, 1000);
		post_recv(&b, 2, 0, 4096);
		EQ(post(a.qp, &wr), 0);
		expect(a.cq, 1, IBV_WC_SUCCESS);
		expect(b.cq, 2, IBV_WC_SUCCESS);
		EQ(b.bytes[999], life + 1);
		EQ(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
		EQ(attr.qp_state, IBV_QPS_RTS);
		drop_side(&a);
		drop_side(&b);
		EQ(ibv_dealloc_pd(pd), 0);
		EQ(ibv_close_device(context), 0);
	}
	return unused;
}

static void *resolves(void *unused)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(7471), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	for (int life = 0; life < LIVES; life++) {
		struct rdma_event_channel *channel = rdma_create_event_channel();
		struct rdma_cm_event *event;
		struct rdma_cm_id *id;

		CHECK(channel);
		EQ(rdma_create_id(channel, &id, unused, RDMA_PS_TCP), 0);
		EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000), 0);
		EQ(rdma_get_cm_event(channel, &event), 0);
		EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
		EQ(rdma_ack_cm_event(event), 0);
		EQ(rdma_destroy_id(id), 0);
		rdma_destroy_event_channel(channel);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS + 1];

	for (int nth = 0; nth <= THREADS; nth++)
		EQ(pthread_create(&threads[nth], NULL, nth < THREADS ? lives : resolves, NULL), 0);
	for (int nth = 0; nth <= THREADS; nth++)
		EQ(pthread_join(threads[nth], NULL), 0);
	puts("done");
	return 0;
}
