/* Fork: the parent goes on undisturbed, the child's inherited objects refuse, and the child can open the device anew. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

static void exchange(struct side *a, struct side *b, unsigned char value)
{
	struct ibv_sge sge = part(a, 0, 4096);
	struct ibv_send_wr wr = { .wr_id = value, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	memset(a->bytes, value, 4096);
	post_recv(b, value, 0, 4096);
	EQ(post(a->qp, &wr), 0);
	expect(a->cq, value, IBV_WC_SUCCESS);
	expect(b->cq, value, IBV_WC_SUCCESS);
	for (int i = 0; i < 4096; i++)
		EQ(b->bytes[i], value);
}

static int child(struct side *inherited)
{
	struct ibv_sge sge = part(inherited, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 9, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	EQ(post(inherited->qp, &wr), EIO);
	REFUSED(ibv_alloc_pd(context), EIO);
	REFUSED(ibv_reg_mr(pd, inherited->bytes, 8, 0), EIO);
	/* A device of its own works. */
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	struct side a = make_side(context, pd, IBV_QPT_RC), b = make_side(context, pd, IBV_QPT_RC);

	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	exchange(&a, &b, 77);
	drop_side(&a);
	drop_side(&b);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}

int main(void)
{
	EQ(ibv_fork_init(), 0);
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	struct side a = make_side(context, pd, IBV_QPT_RC), b = make_side(context, pd, IBV_QPT_RC);

	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	exchange(&a, &b, 1);
	for (int round = 0; round < 3; round++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0)
			_exit(child(&a));
		/* Copy-on-write in the parent while the child lives. */
		exchange(&a, &b, (unsigned char)(10 + round));
		int status;

		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		exchange(&a, &b, (unsigned char)(20 + round));
	}
	drop_side(&a);
	drop_side(&b);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
