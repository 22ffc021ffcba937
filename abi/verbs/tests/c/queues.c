/*
 * Room: how much of a queue is free, for one request, a list and a batch. What was polled has given its place up; a batch is
 * taken whole or not at all; a list is taken up to the request that is named.
 */
#include "check.h"

#define LONG_BYTES (40 << 10)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct side target;
static unsigned char long_bytes[LONG_BYTES];
static struct ibv_mr *long_mr;

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t bound)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % bound;
}

/* A queue pair for both ways of posting, connected with `target`. */
struct poster {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
};

static struct poster make_poster(uint32_t depth, int all_signaled)
{
	struct poster poster = { .cq = ibv_create_cq(context, (int)(2 * depth + 8), NULL, NULL, 0) };
	struct ibv_qp_init_attr_ex init = { .send_cq = poster.cq, .recv_cq = poster.cq, .qp_type = IBV_QPT_RC, .pd = pd,
					    .sq_sig_all = all_signaled, .cap = { depth, 1, 2, 1, 64 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
							      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD };

	CHECK(poster.cq);
	poster.qp = ibv_create_qp_ex(context, &init);
	CHECK(poster.qp);
	EQ(init.cap.max_send_wr, depth);
	poster.ex = ibv_qp_to_qp_ex(poster.qp);
	CHECK(poster.ex);
	target = make_side(context, pd, IBV_QPT_RC);
	connect_qp(context, poster.qp, IBV_QPT_RC, target.qp->qp_num);
	connect_qp(context, target.qp, IBV_QPT_RC, poster.qp->qp_num);
	return poster;
}

static void drop_poster(struct poster *poster)
{
	EQ(ibv_destroy_qp(poster->qp), 0);
	EQ(ibv_destroy_cq(poster->cq), 0);
	drop_side(&target);
}

/* The operations by turns: short and long WRITEs, READs, atomics. */
static void build(struct ibv_qp_ex *ex, uint64_t wr_id, unsigned int flags)
{
	ex->wr_id = wr_id;
	ex->wr_flags = flags;
	switch (wr_id % 4) {
	case 0:
		ibv_wr_rdma_write(ex, target.mr->rkey, (uintptr_t)target.bytes);
		ibv_wr_set_inline_data(ex, &wr_id, 8);
		break;
	case 1:
		ibv_wr_rdma_read(ex, target.mr->rkey, (uintptr_t)target.bytes);
		ibv_wr_set_sge(ex, long_mr->lkey, (uintptr_t)long_bytes, 100);
		break;
	case 2:
		ibv_wr_rdma_write(ex, target.mr->rkey, (uintptr_t)target.bytes + 64);
		ibv_wr_set_sge(ex, long_mr->lkey, (uintptr_t)long_bytes, 5000);
		break;
	default:
		ibv_wr_atomic_fetch_add(ex, target.mr->rkey, (uintptr_t)target.bytes + 8, 1);
		ibv_wr_set_sge(ex, long_mr->lkey, (uintptr_t)long_bytes, 8);
	}
}

static struct ibv_send_wr write_of(uint64_t wr_id, unsigned int flags, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 1,
				  .send_flags = flags };

	wr.wr.rdma.remote_addr = (uintptr_t)target.bytes + 16;
	wr.wr.rdma.rkey = target.mr->rkey;
	return wr;
}

/*
 * Batches and lists of any size that fits are taken at once, over and over, whatever part of them is signaled. A request has
 * given its place up when its completion was polled, or that of a later one: this counts by that rule alone.
 */
static void whatever_fits_is_taken(uint32_t depth, int all_signaled, uint32_t fixed)
{
	struct poster poster = make_poster(depth, all_signaled);
	struct ibv_sge sge = { (uintptr_t)long_bytes, 24, long_mr->lkey };
	uint64_t posted = 0, done = 0;

	for (int round = 0; round < 300; round++) {
		uint32_t size = fixed ? fixed : 1 + random_below(depth);

		while (depth - (posted - done) < size) {
			struct ibv_wc wc = wait_for(poster.cq);

			EQ(wc.status, IBV_WC_SUCCESS);
			CHECK(wc.wr_id >= done && wc.wr_id < posted);
			done = wc.wr_id + 1;
		}
		/* the last is signaled, or nothing would ever say that there is room again */
		unsigned int last = all_signaled ? 0 : IBV_SEND_SIGNALED;

		if (round % 3) {
			ibv_wr_start(poster.ex);
			for (uint32_t i = 0; i < size; i++)
				build(poster.ex, posted + i, i + 1 == size || random_below(4) == 0 ? last : 0);
			EQ(ibv_wr_complete(poster.ex), 0);
		} else {
			struct ibv_send_wr list[128], *bad = NULL;

			CHECK(size <= 128);
			for (uint32_t i = 0; i < size; i++) {
				int signaled = i + 1 == size || random_below(4) == 0;

				list[i] = write_of(posted + i, signaled ? last : 0, &sge);
				list[i].next = i + 1 < size ? &list[i + 1] : NULL;
			}
			EQ(ibv_post_send(poster.qp, list, &bad), 0);
			CHECK(!bad);
		}
		posted += size;
	}
	while (done < posted)
		done = wait_for(poster.cq).wr_id + 1;
	drop_poster(&poster);
}

/*
 * A request that is done keeps its place until its completion was polled: who posts until the queue is full, and then polls, never
 * overruns a completion queue that is as long.
 */
static void what_is_not_polled_keeps_its_place(uint32_t depth, int every)
{
	struct ibv_cq *cq = ibv_create_cq(context, (int)depth, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { depth, 1, 1, 1, 64 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	const struct timespec pause = { .tv_nsec = 300000 };
	uint64_t posted = 0, done = 0;

	CHECK(cq && qp);
	EQ(cq->cqe, depth);
	target = make_side(context, pd, IBV_QPT_RC);
	connect_qp(context, qp, IBV_QPT_RC, target.qp->qp_num);
	connect_qp(context, target.qp, IBV_QPT_RC, qp->qp_num);
	for (int round = 0; round < 400; round++) {
		for (;;) {
			struct ibv_sge sge = { (uintptr_t)&posted, 8, 0 };
			int signaled = posted % (uint64_t)every == (uint64_t)every - 1;
			struct ibv_send_wr wr = write_of(posted, IBV_SEND_INLINE | (signaled ? IBV_SEND_SIGNALED : 0), &sge);
			int result = post(qp, &wr);

			if (result == ENOMEM)
				break;
			EQ(result, 0);
			posted++;
			if (posted - done > depth)
				FAIL("%llu requests, of which the program knows nothing, in a queue of %u",
				     (unsigned long long)(posted - done), depth);
			/* now and then what was posted is done before the next is posted */
			if (round % 8 == 0 && posted % 5 == 0)
				nanosleep(&pause, NULL);
		}
		EQ(posted - done, depth);
		struct ibv_wc wc = wait_for(cq);

		EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(wc.wr_id >= done && wc.wr_id < posted);
		done = wc.wr_id + 1;
	}
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_destroy_cq(cq), 0);
	drop_side(&target);
}

/* SENDs that nobody receives yet stay in the queue, on every wire: a list is taken up to its end. */
static void a_list_ends_where_the_queue_is_full(uint32_t depth, uint32_t before)
{
	struct poster poster = make_poster(depth, 0);
	struct ibv_sge sge = { (uintptr_t)long_bytes, 24, long_mr->lkey };
	struct ibv_send_wr list[16], *bad = NULL;

	for (uint32_t i = 0; i < 16; i++) {
		list[i] = (struct ibv_send_wr){ .wr_id = i, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
						.send_flags = IBV_SEND_SIGNALED, .next = &list[i + 1] };
		if (i == before - 1 || i == 15)
			list[i].next = NULL;
	}
	if (before)
		EQ(ibv_post_send(poster.qp, list, &bad), 0);
	EQ(ibv_post_send(poster.qp, &list[before], &bad), ENOMEM);
	CHECK(bad == &list[depth]);
	/* a batch is refused whole, and leaves no trace */
	for (uint32_t size = 1; size <= 3; size++) {
		ibv_wr_start(poster.ex);
		for (uint32_t i = 0; i < size; i++)
			build(poster.ex, 1000 + i, IBV_SEND_SIGNALED);
		EQ(ibv_wr_complete(poster.ex), ENOMEM);
	}
	EQ(post(poster.qp, &list[15]), ENOMEM);
	for (uint32_t i = 0; i < 8; i++)
		post_recv(&target, i, 256, 64);
	for (uint32_t i = 0; i < depth && i < 8; i++)
		expect(poster.cq, i, IBV_WC_SUCCESS);
	/* there is room for what was polled, and for no more */
	if (depth <= 8) {
		ibv_wr_start(poster.ex);
		for (uint32_t i = 0; i < depth; i++)
			build(poster.ex, 4 * i, IBV_SEND_SIGNALED);
		EQ(ibv_wr_complete(poster.ex), 0);
		for (uint32_t i = 0; i < depth; i++)
			expect(poster.cq, 4 * i, IBV_WC_SUCCESS);
	}
	drop_poster(&poster);
}

/* A mistake anywhere in a list: what stands before it is posted. In a batch: nothing is, and no place is lost. */
static void mistakes(void)
{
	enum { DEPTH = 6, KINDS = 5 };
	struct poster poster = make_poster(DEPTH, 0);
	struct ibv_sge fine = { (uintptr_t)long_bytes, 24, long_mr->lkey };
	struct ibv_sge three[3] = { fine, fine, fine };
	struct ibv_sge half = { (uintptr_t)long_bytes, 1u << 31, long_mr->lkey };
	struct ibv_sge beyond[2] = { half, fine };

	for (int kind = 0; kind < KINDS; kind++) {
		for (uint32_t at = 0; at < DEPTH; at++) {
			struct ibv_send_wr list[DEPTH], *bad = NULL;

			for (uint32_t i = 0; i < DEPTH; i++) {
				list[i] = write_of(i, IBV_SEND_SIGNALED, &fine);
				list[i].next = i + 1 < DEPTH ? &list[i + 1] : NULL;
			}
			switch (kind) {
			case 0:
				list[at].sg_list = three;
				list[at].num_sge = 3;
				break;
			case 1:
				list[at].sg_list = beyond;
				list[at].num_sge = 2;
				break;
			case 2:
				list[at].send_flags |= IBV_SEND_INLINE;
				three[0].length = 1000;
				list[at].sg_list = three;
				break;
			case 3:
				list[at].opcode = IBV_WR_RDMA_READ;
				list[at].send_flags |= IBV_SEND_INLINE;
				break;
			case 4:
				list[at].opcode = IBV_WR_TSO;
			}
			EQ(ibv_post_send(poster.qp, list, &bad), EINVAL);
			CHECK(bad == &list[at]);
			for (uint32_t i = 0; i < at; i++)
				expect(poster.cq, i, IBV_WC_SUCCESS);
			expect_none(poster.cq);

			memset(target.bytes, 7, 32);
			ibv_wr_start(poster.ex);
			for (uint32_t i = 0; i < DEPTH; i++) {
				static char text[1000];

				poster.ex->wr_id = i;
				poster.ex->wr_flags = IBV_SEND_SIGNALED;
				if (kind == 3 && i == at)
					ibv_wr_rdma_read(poster.ex, target.mr->rkey, (uintptr_t)target.bytes);
				else
					ibv_wr_rdma_write(poster.ex, target.mr->rkey, (uintptr_t)target.bytes);
				ibv_wr_set_inline_data(poster.ex, text, 8);
				if (i == at && kind == 0)
					ibv_wr_set_sge_list(poster.ex, 3, three);
				if (i == at && kind == 1)
					ibv_wr_set_sge_list(poster.ex, 2, beyond);
				if (i == at && (kind == 2 || kind == 4))
					ibv_wr_set_inline_data(poster.ex, text, 1000);
			}
			EQ(ibv_wr_complete(poster.ex), EINVAL);
			EQ(target.bytes[0], 7);
			expect_none(poster.cq);
			three[0].length = 24;
		}
	}
	/* all places are free */
	ibv_wr_start(poster.ex);
	for (uint32_t i = 0; i < DEPTH; i++)
		build(poster.ex, i, IBV_SEND_SIGNALED);
	EQ(ibv_wr_complete(poster.ex), 0);
	for (uint32_t i = 0; i < DEPTH; i++)
		expect(poster.cq, i, IBV_WC_SUCCESS);
	drop_poster(&poster);
}

/* In the error state a batch flushes whole; one with a mistake leaves nothing. Before RTS none is taken. */
static void states(void)
{
	struct poster poster = make_poster(5, 0);
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	EQ(ibv_modify_qp(poster.qp, &error, IBV_QP_STATE), 0);
	for (int round = 0; round < 10; round++) {
		ibv_wr_start(poster.ex);
		for (uint32_t i = 0; i < 3; i++)
			build(poster.ex, i, 0);
		ibv_wr_send(poster.ex);
		ibv_wr_set_sge_list(poster.ex, 3, (struct ibv_sge[3]){ { 0 } });
		EQ(ibv_wr_complete(poster.ex), EINVAL);
		expect_none(poster.cq);
		ibv_wr_start(poster.ex);
		for (uint32_t i = 0; i < 3; i++)
			build(poster.ex, i, 0);
		EQ(ibv_wr_complete(poster.ex), 0);
		for (uint32_t i = 0; i < 3; i++)
			expect(poster.cq, i, IBV_WC_WR_FLUSH_ERR);
		expect_none(poster.cq);
	}
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	EQ(ibv_modify_qp(poster.qp, &reset, IBV_QP_STATE), 0);
	to_init(poster.qp, IBV_QPT_RC);
	ibv_wr_start(poster.ex);
	build(poster.ex, 1, IBV_SEND_SIGNALED);
	EQ(ibv_wr_complete(poster.ex), EINVAL);
	drop_poster(&poster);
}

/* Datagrams: without an address, or with too many elements, none of the batch goes. */
static void datagrams(void)
{
	struct ibv_port_attr port;
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = pd,
					    .cap = { 7, 7, 2, 2, 64 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);

	CHECK(qp);
	EQ(ibv_query_port(context, 1, &port), 0);
	connect_qp(context, qp, IBV_QPT_UD, 0);
	struct ibv_ah_attr attr = { .dlid = port.lid, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	CHECK(ah);
	for (int round = 0; round < 60; round++) {
		for (uint32_t at = 0; at < 6; at++) {
			int wrong = at < 5 && round < 10;

			ibv_wr_start(ex);
			for (uint32_t i = 0; i < 5; i++) {
				ex->wr_id = i;
				ex->wr_flags = i == 4 ? IBV_SEND_SIGNALED : 0;
				ibv_wr_send(ex);
				if (!wrong || i != at || round % 2)
					ibv_wr_set_ud_addr(ex, ah, qp->qp_num, 0x1234);
				struct ibv_sge sge = { (uintptr_t)long_bytes, 5, long_mr->lkey };

				ibv_wr_set_sge_list(ex, wrong && i == at && round % 2 ? 3 : 2, (struct ibv_sge[3]){ sge, sge, sge });
			}
			EQ(ibv_wr_complete(ex), wrong ? EINVAL : 0);
			if (!wrong)
				expect(cq, 4, IBV_WC_SUCCESS);
			expect_none(cq);
		}
	}
	EQ(ibv_destroy_ah(ah), 0);
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_destroy_cq(cq), 0);
}

/* Lists of receives end where the queue is full, or at the one that is wrong. */
static void receives(void)
{
	enum { ROOM = 5, LIST = 8 };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = ROOM, .max_sge = 2 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					    .cap = { 1, ROOM, 1, 2, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &qp_init);
	struct ibv_sge three[3] = { { 0 } };

	CHECK(srq && qp);
	to_init(qp, IBV_QPT_RC);
	for (int shared = 0; shared < 2; shared++) {
		for (int wrong = 0; wrong < 2; wrong++) {
			struct ibv_recv_wr list[LIST], *bad = NULL;
			uint32_t ends = wrong ? 2 : ROOM;

			for (uint32_t i = 0; i < LIST; i++)
				list[i] = (struct ibv_recv_wr){ .wr_id = i, .sg_list = three, .num_sge = 2,
								.next = i + 1 < LIST ? &list[i + 1] : NULL };
			if (wrong)
				list[ends].num_sge = 3;
			int result = shared ? ibv_post_srq_recv(srq, list, &bad) : ibv_post_recv(qp, list, &bad);

			EQ(result, wrong ? EINVAL : ENOMEM);
			CHECK(bad == &list[ends]);
			/* exactly what was taken is there */
			list[0].next = NULL;
			for (uint32_t i = ends; i < ROOM; i++)
				EQ(shared ? ibv_post_srq_recv(srq, list, &bad) : ibv_post_recv(qp, list, &bad), 0);
			EQ(shared ? ibv_post_srq_recv(srq, list, &bad) : ibv_post_recv(qp, list, &bad), ENOMEM);
			CHECK(bad == list);
			if (shared) {
				EQ(ibv_destroy_srq(srq), 0);
				srq = ibv_create_srq(pd, &init);
				CHECK(srq);
				continue;
			}
			struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

			EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
			for (uint32_t i = 0; i < ROOM; i++)
				expect(cq, i < ends ? i : 0, IBV_WC_WR_FLUSH_ERR);
			expect_none(cq);
			/* a list that flushes at once takes no room for long */
			for (uint32_t i = 0; i < LIST; i++)
				list[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i + 1 < LIST ? &list[i + 1] : NULL };
			EQ(ibv_post_recv(qp, list, &bad), 0);
			for (uint32_t i = 0; i < LIST; i++)
				expect(cq, i, IBV_WC_WR_FLUSH_ERR);
			struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

			EQ(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
			EQ(ibv_post_recv(qp, list, &bad), EINVAL);
			CHECK(bad == list);
			to_init(qp, IBV_QPT_RC);
		}
	}
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_destroy_srq(srq), 0);
	EQ(ibv_destroy_cq(cq), 0);
}

/* A completion that an overrun lost gives its place up all the same: nobody can poll it. */
static void lost_completions(void)
{
	enum { DEPTH = 4 };
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN };
	struct ibv_cq_ex *extended = ibv_create_cq_ex(context, &attr);

	CHECK(extended);
	struct ibv_cq *small = ibv_cq_ex_to_cq(extended);
	struct ibv_qp_init_attr init = { .send_cq = small, .recv_cq = small, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					 .cap = { DEPTH, 1, 1, 1, 64 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init), *other = ibv_create_qp(pd, &init);
	uint64_t value = 1;
	struct ibv_sge sge = { (uintptr_t)&value, 8, 0 };

	CHECK(qp && other);
	target = make_side(context, pd, IBV_QPT_RC);
	connect_qp(context, qp, IBV_QPT_RC, target.qp->qp_num);
	connect_qp(context, target.qp, IBV_QPT_RC, qp->qp_num);
	/* a completion of another queue pair fills the queue: that of a flushed request */
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

	EQ(ibv_modify_qp(other, &error, IBV_QP_STATE), 0);
	struct ibv_send_wr wr = write_of(1, IBV_SEND_INLINE, &sge);

	EQ(post(other, &wr), 0);
	for (value = 1; value <= DEPTH; value++)
		EQ(post(qp, &wr), 0);
	volatile uint64_t *last = (volatile uint64_t *)(target.bytes + 16);
	double end = seconds() + 10;

	while (*last != DEPTH && seconds() < end)
		ibv_poll_cq(target.cq, 0, NULL);
	EQ(*last, DEPTH);
	EQ(expect(small, 1, IBV_WC_WR_FLUSH_ERR).qp_num, other->qp_num);
	int result;

	do {
		struct ibv_wc wc;

		/* in packets the first may have been done after that, and is not lost */
		CHECK(ibv_poll_cq(small, 1, &wc) >= 0);
		result = post(qp, &wr);
	} while (result == ENOMEM && seconds() < end);
	EQ(result, 0);
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_destroy_qp(other), 0);
	EQ(ibv_destroy_cq(small), 0);
	drop_side(&target);
}

int main(void)
{
	static const uint32_t depths[][2] = { { 1, 1 }, { 2, 1 }, { 3, 2 }, { 5, 3 }, { 7, 4 }, { 8, 7 }, { 16, 5 }, { 100, 33 },
					      { 128, 3 }, { 128, 64 }, { 128, 127 } };

	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	long_mr = ibv_reg_mr(pd, long_bytes, sizeof(long_bytes), IBV_ACCESS_LOCAL_WRITE);
	CHECK(long_mr);
	for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++)
		for (int all = 0; all < 2; all++) {
			whatever_fits_is_taken(depths[i][0], all, depths[i][1]);
			whatever_fits_is_taken(depths[i][0], all, 0);
		}
	what_is_not_polled_keeps_its_place(1, 1);
	what_is_not_polled_keeps_its_place(3, 2);
	what_is_not_polled_keeps_its_place(16, 1);
	what_is_not_polled_keeps_its_place(16, 5);
	for (uint32_t depth = 1; depth < 12; depth++)
		for (uint32_t before = 0; before < depth; before++)
			a_list_ends_where_the_queue_is_full(depth, before);
	mistakes();
	states();
	datagrams();
	receives();
	lost_completions();
	EQ(ibv_dereg_mr(long_mr), 0);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
