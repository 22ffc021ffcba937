/* XRC domains that a file names, and target queue pairs that are opened again. */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd, .oflags = oflags };

	errno = 0;
	return ibv_open_xrcd(context, &attr);
}

static void domains(int fd)
{
	/* Nothing is there to open yet; O_EXCL demands that nothing is. */
	CHECK(!open_domain(fd, 0));
	CHECK(errno != 0);
	struct ibv_xrcd *first = open_domain(fd, O_CREAT | O_EXCL);

	CHECK(first);
	CHECK(!open_domain(fd, O_CREAT | O_EXCL));
	CHECK(errno != 0);
	struct ibv_xrcd *second = open_domain(fd, 0);

	CHECK(second);
	EQ(ibv_close_xrcd(second), 0);
	EQ(ibv_close_xrcd(first), 0);
	REFUSED(open_domain(-1, 0), EINVAL);
}

static void targets(int fd)
{
	struct ibv_xrcd *xrcd = open_domain(fd, O_CREAT);
	struct side a = make_side(context, pd, IBV_QPT_XRC_SEND), b = make_side(context, pd, IBV_QPT_RC);

	CHECK(xrcd);
	EQ(ibv_destroy_qp(b.qp), 0);
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					    .xrcd = xrcd };

	b.qp = ibv_create_qp_ex(context, &init);
	CHECK(b.qp);
	int tag;
	struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
					 .qp_num = b.qp->qp_num, .xrcd = xrcd, .qp_context = &tag,
					 .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *again = ibv_open_qp(context, &open);

	CHECK(again && again != b.qp && again->qp_num == b.qp->qp_num && again->qp_context == &tag);
	open.qp_num ^= 0x800000;
	CHECK(!ibv_open_qp(context, &open));
	open.comp_mask = IBV_QP_OPEN_ATTR_NUM;
	REFUSED(ibv_open_qp(context, &open), EINVAL);

	/* One-sided operations name memory through the shared receive queue's domain. */
	struct ibv_srq_init_attr_ex srq_init = { .attr = { .max_wr = 4, .max_sge = 1 },
						 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							      IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
						 .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = b.cq };
	struct ibv_srq *srq = ibv_create_srq_ex(context, &srq_init);
	uint32_t number;

	CHECK(srq);
	EQ(ibv_get_srq_num(srq, &number), 0);
	connect_qp(context, a.qp, IBV_QPT_XRC_SEND, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_XRC_RECV, a.qp->qp_num);
	orders(a.qp, 0);
	orders(b.qp, 1);
	uint64_t *counter = (uint64_t *)b.bytes;
	struct ibv_sge sge = part(&a, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	*counter = 5;
	wr.wr.atomic.remote_addr = (uintptr_t)counter;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = 6;
	wr.qp_type.xrc.remote_srqn = number;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 1, IBV_WC_SUCCESS);
	EQ(*counter, 11);
	/* The target lives while a handle of it does. */
	EQ(ibv_destroy_qp(b.qp), 0);
	wr.wr_id = 2;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 2, IBV_WC_SUCCESS);
	EQ(*counter, 17);
	EQ(ibv_destroy_qp(again), 0);
	EQ(ibv_destroy_srq(srq), 0);
	EQ(ibv_destroy_qp(a.qp), 0);
	EQ(ibv_close_xrcd(xrcd), 0);
	EQ(ibv_dereg_mr(a.mr), 0);
	EQ(ibv_dereg_mr(b.mr), 0);
	EQ(ibv_destroy_cq(a.cq), 0);
	EQ(ibv_destroy_cq(b.cq), 0);
	free(a.bytes);
	free(b.bytes);
}

int main(void)
{
	/* the descriptor names the domain; the file has no name, so nothing stays behind if a check fails */
	FILE *file = tmpfile();
	int fd;

	CHECK(file);
	fd = fileno(file);
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	domains(fd);
	targets(fd);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	fclose(file);
	return 0;
}
