/* Posting and polling allocate nothing: this program's own allocator counts for the calling thread. */
#include "check.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

/* Volatile: compilers know that malloc does not look at variables. */
static __thread volatile int counting;
static __thread volatile unsigned long allocations;

void *malloc(size_t size)
{
	allocations = allocations + (unsigned long)counting;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations = allocations + (unsigned long)counting;
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	allocations = allocations + (unsigned long)counting;
	return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	allocations = allocations + (unsigned long)counting;
	return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size)
{
	allocations = allocations + (unsigned long)counting;
	*result = __libc_memalign(alignment, size);
	return *result ? 0 : ENOMEM;
}

static struct ibv_context *context;
static struct ibv_pd *pd;

static void post_one(struct side *a, struct side *b, enum ibv_wr_opcode opcode, uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = part(a, 0, length);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = opcode, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED | flags };

	wr.wr.rdma.remote_addr = (uintptr_t)b->bytes;
	wr.wr.rdma.rkey = b->mr->rkey;
	if (opcode == IBV_WR_SEND)
		post_recv(b, 2, 0, length);
	EQ(post(a->qp, &wr), 0);
	expect(a->cq, 1, IBV_WC_SUCCESS);
	if (opcode == IBV_WR_SEND)
		expect(b->cq, 2, IBV_WC_SUCCESS);
}

/* One round of everything; the first rounds may grow what is kept. */
static void round_of(struct side *a, struct side *b, struct ibv_qp_ex *ex, struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t word = 5;

	post_one(a, b, IBV_WR_SEND, 8, IBV_SEND_INLINE);
	post_one(a, b, IBV_WR_SEND, 4096, 0);
	post_one(a, b, IBV_WR_RDMA_WRITE, 64, IBV_SEND_INLINE);
	post_one(a, b, IBV_WR_RDMA_WRITE, 8192, 0);
	post_one(a, b, IBV_WR_RDMA_READ, 4096, 0);
	ibv_wr_start(ex);
	for (int i = 0; i < 2; i++) {
		ex->wr_id = 7;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(ex, b->mr->rkey, (uintptr_t)b->bytes);
		ibv_wr_set_inline_data(ex, &word, 8);
	}
	EQ(ibv_wr_complete(ex), 0);
	int done = 0;
	double end = seconds() + 10;

	while (done < 2) {
		int result = ibv_start_poll(cq, &attr);

		CHECK(seconds() < end);
		if (result == ENOENT)
			continue;
		EQ(result, 0);
		do {
			EQ(cq->status, IBV_WC_SUCCESS);
			done++;
		} while (ibv_next_poll(cq) == 0);
		ibv_end_poll(cq);
	}
}

int main(void)
{
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	struct side a = make_side(context, pd, IBV_QPT_RC), b = make_side(context, pd, IBV_QPT_RC);
	struct side c = make_side(context, pd, IBV_QPT_RC);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_attr);

	CHECK(cq);
	struct ibv_qp_init_attr_ex init = { .send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq),
					    .qp_type = IBV_QPT_RC, .pd = pd, .cap = { 8, 1, 1, 1, 8 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);

	CHECK(qp);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	connect_qp(context, qp, IBV_QPT_RC, c.qp->qp_num);
	connect_qp(context, c.qp, IBV_QPT_RC, qp->qp_num);
	/* The counter counts. */
	counting = 1;
	void *volatile block = malloc(1);

	counting = 0;
	free(block);
	EQ(allocations, 1);
	allocations = 0;
	for (int i = 0; i < 100; i++)
		round_of(&a, &b, ibv_qp_to_qp_ex(qp), cq);
	/* What is found out once, when polling is idle for the first time, is not counted either. */
	for (double end = seconds() + 0.02; seconds() < end;)
		expect_none(a.cq);
	counting = 1;
	for (int i = 0; i < 1000; i++)
		round_of(&a, &b, ibv_qp_to_qp_ex(qp), cq);
	counting = 0;
	EQ(allocations, 0);
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	drop_side(&a);
	drop_side(&b);
	drop_side(&c);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
