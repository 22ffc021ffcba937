/* Data between queue pairs of one process, through every posting and polling call. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

static struct side a, b;

static void pair_up(enum ibv_qp_type type)
{
	a = make_side(context, pd, type);
	b = make_side(context, pd, type);
	connect_qp(context, a.qp, type, b.qp->qp_num);
	connect_qp(context, b.qp, type, a.qp->qp_num);
}

static void drop_both(void)
{
	drop_side(&a);
	drop_side(&b);
}

static struct ibv_send_wr request(enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge *sge)
{
	return (struct ibv_send_wr){ .wr_id = wr_id, .opcode = opcode, .sg_list = sge, .num_sge = sge ? 1 : 0,
				     .send_flags = IBV_SEND_SIGNALED };
}

/* SEND with everything that can accompany it. */
static void sends(void)
{
	pair_up(IBV_QPT_RC);
	memcpy(a.bytes, "scattered and gathered", 22);
	post_recv(&b, 100, 64, 64);
	struct ibv_sge two[2] = { part(&a, 0, 9), part(&a, 9, 13) };
	struct ibv_send_wr wr = request(IBV_WR_SEND, 1, two);

	wr.num_sge = 2;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 1, IBV_WC_SUCCESS);
	struct ibv_wc wc = expect(b.cq, 100, IBV_WC_SUCCESS);

	EQ(wc.opcode, IBV_WC_RECV);
	EQ(wc.byte_len, 22);
	EQ(wc.qp_num, b.qp->qp_num);
	EQ(memcmp(b.bytes + 64, "scattered and gathered", 22), 0);

	/* Immediate data keep their byte order; an unsignaled send leaves no completion. */
	post_recv(&b, 101, 0, 8);
	struct ibv_sge sge = part(&a, 0, 8);

	wr = request(IBV_WR_SEND_WITH_IMM, 2, &sge);
	wr.imm_data = htonl(0x01020304);
	wr.send_flags = IBV_SEND_INLINE;
	sge.lkey = 0xdead; /* of no importance with inline data */
	EQ(post(a.qp, &wr), 0);
	wc = expect(b.cq, 101, IBV_WC_SUCCESS);
	EQ(wc.wc_flags, IBV_WC_WITH_IMM);
	EQ(ntohl(wc.imm_data), 0x01020304);
	expect_none(a.cq);

	/* A chain stops at its first bad request: the ones before are posted, the ones behind are not. */
	post_recv(&b, 102, 0, 8);
	sge = part(&a, 0, 8);
	struct ibv_send_wr chain[3] = { request(IBV_WR_SEND, 3, &sge), request(99, 4, &sge),
					request(IBV_WR_SEND, 5, &sge) };
	struct ibv_send_wr *bad = NULL;

	chain[0].next = &chain[1];
	chain[1].next = &chain[2];
	EQ(ibv_post_send(a.qp, chain, &bad), EINVAL);
	CHECK(bad == &chain[1]);
	expect(a.cq, 3, IBV_WC_SUCCESS);
	expect(b.cq, 102, IBV_WC_SUCCESS);
	expect_none(a.cq);
	/* Too many elements, and too much inline data. */
	wr = request(IBV_WR_SEND, 6, two);
	wr.num_sge = 31;
	EQ(post(a.qp, &wr), EINVAL);
	wr.num_sge = -1;
	EQ(post(a.qp, &wr), EINVAL);
	sge = part(&a, 0, 4096);
	wr = request(IBV_WR_SEND, 7, &sge);
	wr.send_flags = IBV_SEND_INLINE;
	EQ(post(a.qp, &wr), EINVAL);
	struct ibv_recv_wr recv = { .num_sge = 31, .sg_list = two }, *bad_recv = NULL;

	EQ(ibv_post_recv(a.qp, &recv, &bad_recv), EINVAL);
	CHECK(bad_recv == &recv);
	expect_none(a.cq);
	expect_none(b.cq);
	drop_both();
}

static void one_sided(void)
{
	pair_up(IBV_QPT_RC);
	memcpy(a.bytes, "written", 7);
	struct ibv_sge sge = part(&a, 0, 7);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, &sge);

	wr.wr.rdma.remote_addr = (uintptr_t)b.bytes + 128;
	wr.wr.rdma.rkey = b.mr->rkey;
	EQ(post(a.qp, &wr), 0);
	EQ(expect(a.cq, 1, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
	EQ(memcmp(b.bytes + 128, "written", 7), 0);
	expect_none(b.cq);

	post_recv(&b, 2, 0, 0);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htonl(7);
	wr.wr_id = 3;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 3, IBV_WC_SUCCESS);
	struct ibv_wc wc = expect(b.cq, 2, IBV_WC_SUCCESS);

	EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EQ(ntohl(wc.imm_data), 7);
	EQ(wc.byte_len, 7);

	sge = part(&a, 512, 7);
	wr = request(IBV_WR_RDMA_READ, 4, &sge);
	wr.wr.rdma.remote_addr = (uintptr_t)b.bytes + 128;
	wr.wr.rdma.rkey = b.mr->rkey;
	EQ(post(a.qp, &wr), 0);
	EQ(expect(a.cq, 4, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_READ);
	EQ(memcmp(a.bytes + 512, "written", 7), 0);

	uint64_t *target = (uint64_t *)(b.bytes + 1024), *result = (uint64_t *)(a.bytes + 1024);

	*target = 40;
	sge = part(&a, 1024, 8);
	wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, 5, &sge);
	wr.wr.atomic.remote_addr = (uintptr_t)target;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = 2;
	EQ(post(a.qp, &wr), 0);
	EQ(expect(a.cq, 5, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	EQ(*result, 40);
	EQ(*target, 42);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr_id = 6;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 99;
	EQ(post(a.qp, &wr), 0);
	EQ(expect(a.cq, 6, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
	EQ(*result, 42);
	EQ(*target, 99);

	/* A key that does not exist ends the connection: this request fails, the next is flushed. */
	sge = part(&a, 0, 7);
	wr = request(IBV_WR_RDMA_WRITE, 7, &sge);
	wr.wr.rdma.remote_addr = (uintptr_t)b.bytes;
	wr.wr.rdma.rkey = b.mr->rkey ^ 0x5500;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 7, IBV_WC_REM_ACCESS_ERR);
	wr.wr_id = 8;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 8, IBV_WC_WR_FLUSH_ERR);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	EQ(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
	EQ(attr.qp_state, IBV_QPS_ERR);
	EQ(a.qp->state, IBV_QPS_ERR);
	drop_both();
}

static void windows(void)
{
	pair_up(IBV_QPT_RC);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);

	CHECK(mw);
	uint32_t before = mw->rkey;
	struct ibv_mw_bind bind = { .wr_id = 1, .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = b.mr, .addr = (uintptr_t)b.bytes + 64, .length = 32,
						   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };

	EQ(ibv_bind_mw(b.qp, mw, &bind), 0);
	CHECK(mw->rkey != before && mw->rkey >> 8 == before >> 8);
	EQ(expect(b.cq, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	EQ(ibv_dereg_mr(b.mr), EBUSY);
	memcpy(a.bytes, "window", 6);
	struct ibv_sge sge = part(&a, 0, 6);
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 2, &sge);

	wr.wr.rdma.remote_addr = (uintptr_t)b.bytes + 64;
	wr.wr.rdma.rkey = mw->rkey;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 2, IBV_WC_SUCCESS);
	EQ(memcmp(b.bytes + 64, "window", 6), 0);
	EQ(ibv_dealloc_mw(mw), 0);
	/* Type 2: bound by a work request, invalidated by the peer's SEND. */
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mw);
	uint32_t key = ibv_inc_rkey(mw->rkey);
	struct ibv_send_wr binding = request(IBV_WR_BIND_MW, 3, NULL);

	binding.bind_mw.mw = mw;
	binding.bind_mw.rkey = key;
	binding.bind_mw.bind_info = bind.bind_info;
	EQ(post(b.qp, &binding), 0);
	expect(b.cq, 3, IBV_WC_SUCCESS);
	wr.wr_id = 4;
	wr.wr.rdma.rkey = key;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 4, IBV_WC_SUCCESS);
	post_recv(&b, 5, 0, 8);
	struct ibv_send_wr invalidate = request(IBV_WR_SEND_WITH_INV, 6, &sge);

	invalidate.invalidate_rkey = key;
	EQ(post(a.qp, &invalidate), 0);
	expect(a.cq, 6, IBV_WC_SUCCESS);
	struct ibv_wc wc = expect(b.cq, 5, IBV_WC_SUCCESS);

	EQ(wc.wc_flags, IBV_WC_WITH_INV);
	EQ(wc.invalidated_rkey, key);
	wr.wr_id = 7;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 7, IBV_WC_REM_ACCESS_ERR);
	EQ(ibv_dealloc_mw(mw), 0);
	drop_both();
}

static void datagrams(void)
{
	struct ibv_port_attr port;

	EQ(ibv_query_port(context, 1, &port), 0);
	pair_up(IBV_QPT_UD);
	struct ibv_ah_attr path = { .dlid = port.lid, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(pd, &path);

	CHECK(ah);
	memcpy(a.bytes, "datagram", 8);
	post_recv(&b, 1, 0, 40 + 8);
	struct ibv_sge sge = part(&a, 0, 8);
	struct ibv_send_wr wr = request(IBV_WR_SEND, 2, &sge);

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = 0x1234;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 2, IBV_WC_SUCCESS);
	struct ibv_wc wc = expect(b.cq, 1, IBV_WC_SUCCESS);

	EQ(wc.byte_len, 48);
	EQ(wc.src_qp, a.qp->qp_num);
	EQ(wc.slid, port.lid);
	EQ(memcmp(b.bytes + 40, "datagram", 8), 0);
	/* Without a handle there is no address. */
	wr.wr.ud.ah = NULL;
	EQ(post(a.qp, &wr), EINVAL);
	/* A wrong queue key is dropped silently. */
	post_recv(&b, 3, 0, 48);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qkey = 0x4321;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 2, IBV_WC_SUCCESS);
	expect_none(b.cq);
	EQ(ibv_destroy_ah(ah), 0);
	drop_both();
}

/* A datagram to a group reaches its members and nobody else. */
static void multicast(void)
{
	struct ibv_device_attr device;
	union ibv_gid group = { .raw = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = 0x42 } };
	uint16_t lid = 0xc123;

	EQ(ibv_query_device(context, &device), 0);
	CHECK(device.max_mcast_grp > 0 && device.max_mcast_qp_attach > 0);
	pair_up(IBV_QPT_UD);
	struct side c = make_side(context, pd, IBV_QPT_UD), rc = make_side(context, pd, IBV_QPT_RC);

	connect_qp(context, c.qp, IBV_QPT_UD, 0);
	EQ(ibv_attach_mcast(b.qp, &group, lid), 0);
	EQ(ibv_attach_mcast(rc.qp, &group, lid), EINVAL);
	struct ibv_ah_attr path = { .dlid = lid, .port_num = 1, .is_global = 1, .grh = { .dgid = group, .hop_limit = 1 } };
	struct ibv_ah *ah = ibv_create_ah(pd, &path);

	CHECK(ah);
	post_recv(&b, 1, 0, 40 + 8);
	post_recv(&c, 2, 0, 40 + 8);
	memcpy(a.bytes, "to many!", 8);
	struct ibv_sge sge = part(&a, 0, 8);
	struct ibv_send_wr wr = request(IBV_WR_SEND, 3, &sge);

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = 0x1234;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 3, IBV_WC_SUCCESS);
	struct ibv_wc wc = expect(b.cq, 1, IBV_WC_SUCCESS);

	EQ(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
	EQ(wc.byte_len, 48);
	EQ(memcmp(b.bytes + 24, group.raw, 16), 0);
	EQ(memcmp(b.bytes + 40, "to many!", 8), 0);
	expect_none(c.cq);
	EQ(ibv_detach_mcast(b.qp, &group, lid), 0);
	CHECK(ibv_detach_mcast(b.qp, &group, lid) != 0);
	EQ(ibv_destroy_ah(ah), 0);
	drop_side(&rc);
	drop_side(&c);
	drop_both();
}

static void unreliable(void)
{
	pair_up(IBV_QPT_UC);
	memcpy(a.bytes, "uc", 2);
	post_recv(&b, 1, 0, 8);
	struct ibv_sge sge = part(&a, 0, 2);
	struct ibv_send_wr wr = request(IBV_WR_SEND, 2, &sge);

	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 2, IBV_WC_SUCCESS);
	expect(b.cq, 1, IBV_WC_SUCCESS);
	EQ(memcmp(b.bytes, "uc", 2), 0);
	drop_both();
}

/* Receives from a shared queue, and the event when few are left. */
static void shared_receives(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	CHECK(srq);
	a = make_side(context, pd, IBV_QPT_RC);
	b = make_side(context, pd, IBV_QPT_RC);
	EQ(ibv_destroy_qp(b.qp), 0);
	struct ibv_qp_init_attr qp_init = { .send_cq = b.cq, .recv_cq = b.cq, .srq = srq, .qp_type = IBV_QPT_RC,
					    .cap = { .max_send_wr = 1, .max_send_sge = 1 } };

	b.qp = ibv_create_qp(pd, &qp_init);
	CHECK(b.qp);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	struct ibv_sge to = part(&b, 0, 8);
	struct ibv_recv_wr second = { .wr_id = 11, .sg_list = &to, .num_sge = 1 };
	struct ibv_recv_wr first = { .wr_id = 10, .next = &second, .sg_list = &to, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	EQ(ibv_post_srq_recv(srq, &first, &bad), 0);
	EQ(ibv_post_recv(b.qp, &first, &bad), EINVAL);
	struct ibv_srq_attr attr = { .srq_limit = 2 };

	EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	struct ibv_sge sge = part(&a, 0, 8);
	struct ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge);

	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 1, IBV_WC_SUCCESS);
	expect(b.cq, 10, IBV_WC_SUCCESS);
	struct ibv_async_event event;

	EQ(ibv_get_async_event(context, &event), 0);
	while (event.event_type == IBV_EVENT_COMM_EST) {
		ibv_ack_async_event(&event);
		EQ(ibv_get_async_event(context, &event), 0);
	}
	EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(event.element.srq == srq);
	ibv_ack_async_event(&event);
	drop_both();
	EQ(ibv_destroy_srq(srq), 0);
}

static void extended_reliable(void)
{
	struct ibv_xrcd_init_attr xrcd_init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
						.fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &xrcd_init);

	CHECK(xrcd);
	a = make_side(context, pd, IBV_QPT_XRC_SEND);
	b = make_side(context, pd, IBV_QPT_RC);
	EQ(ibv_destroy_qp(b.qp), 0);
	struct ibv_srq_init_attr_ex srq_init = { .attr = { .max_wr = 4, .max_sge = 1 },
						 .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							      IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
						 .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = b.cq };
	struct ibv_srq *srq = ibv_create_srq_ex(context, &srq_init);
	struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					      .xrcd = xrcd };
	uint32_t number;

	CHECK(srq);
	EQ(ibv_get_srq_num(srq, &number), 0);
	b.qp = ibv_create_qp_ex(context, &target);
	CHECK(b.qp && b.qp->pd == NULL);
	connect_qp(context, a.qp, IBV_QPT_XRC_SEND, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_XRC_RECV, a.qp->qp_num);
	struct ibv_sge to = part(&b, 0, 8), from = part(&a, 0, 8);
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad;

	EQ(ibv_post_srq_recv(srq, &recv, &bad), 0);
	memcpy(a.bytes, "extended", 8);
	struct ibv_send_wr wr = request(IBV_WR_SEND, 2, &from);

	wr.qp_type.xrc.remote_srqn = number;
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 2, IBV_WC_SUCCESS);
	expect(b.cq, 1, IBV_WC_SUCCESS);
	EQ(memcmp(b.bytes, "extended", 8), 0);
	EQ(ibv_close_xrcd(xrcd), EBUSY);
	EQ(ibv_destroy_srq(srq), 0);
	drop_both();
	EQ(ibv_close_xrcd(xrcd), 0);
}

/* Requests built by function calls: all or none. */
static void builders(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
					    .cap = { 4, 1, 2, 1, 32 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
							      IBV_QP_EX_WITH_RDMA_READ };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init);

	CHECK(qp);
	b = make_side(context, pd, IBV_QPT_RC);
	connect_qp(context, qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, qp->qp_num);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	char text[] = "inline data are copied at once";
	struct ibv_data_buf buffers[2] = { { text, 12 }, { text + 12, 18 } };

	post_recv(&b, 100, 0, 64);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.bytes + 256);
	ibv_wr_set_inline_data_list(ex, 2, buffers);
	ex->wr_id = 2;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, text, 6);
	memset(text, 'x', sizeof(text));
	expect_none(cq);
	EQ(ibv_wr_complete(ex), 0);
	expect(cq, 1, IBV_WC_SUCCESS);
	expect(cq, 2, IBV_WC_SUCCESS);
	EQ(memcmp(b.bytes + 256, "inline data are copied at once", 30), 0);
	EQ(expect(b.cq, 100, IBV_WC_SUCCESS).byte_len, 6);
	EQ(memcmp(b.bytes, "inline", 6), 0);

	/* An aborted batch, one with a mistake and one without room leave nothing behind. */
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, 0, 0, 0);
	EQ(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge list[3] = { { 0 } };

		ex->wr_id = 10 + i;
		ibv_wr_rdma_read(ex, b.mr->rkey, (uintptr_t)b.bytes);
		ibv_wr_set_sge_list(ex, i ? 3 : 0, list);
	}
	EQ(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	for (int i = 0; i < 5; i++) {
		ibv_wr_rdma_write(ex, b.mr->rkey, (uintptr_t)b.bytes + 256);
		ibv_wr_set_inline_data(ex, text, 30);
	}
	EQ(ibv_wr_complete(ex), ENOMEM);
	expect_none(cq);
	EQ(memcmp(b.bytes + 256, "inline data are copied at once", 30), 0);
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_destroy_cq(cq), 0);
	drop_side(&b);
}

/* The iterator over an extended completion queue. */
static void iterator(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .cq_context = &attr,
					    .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
							IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	CHECK(cq && cq->cq_context == &attr);
	a = make_side(context, pd, IBV_QPT_RC);
	b = make_side(context, pd, IBV_QPT_RC);
	EQ(ibv_destroy_qp(b.qp), 0);
	struct ibv_qp_init_attr init = { .send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq),
					 .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	b.qp = ibv_create_qp(pd, &init);
	CHECK(b.qp);
	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_values_ex clock = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	EQ(ibv_start_poll(cq, &poll), ENOENT);
	EQ(ibv_query_rt_values_ex(context, &clock), 0);
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge sge = part(&a, 0, 8 + (uint32_t)i);
		struct ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM, i, &sge);

		wr.imm_data = htonl(70 + (uint32_t)i);
		post_recv(&b, 20 + i, 0, 16);
		EQ(post(a.qp, &wr), 0);
		expect(a.cq, i, IBV_WC_SUCCESS);
	}
	EQ(ibv_start_poll(cq, &poll), 0);
	EQ(cq->wr_id, 20);
	EQ(cq->status, IBV_WC_SUCCESS);
	EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	EQ(ibv_wc_read_byte_len(cq), 8);
	EQ(ntohl(ibv_wc_read_imm_data(cq)), 70);
	EQ(ibv_wc_read_qp_num(cq), b.qp->qp_num);
	EQ(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
	EQ(ibv_wc_read_vendor_err(cq), 0);
	uint64_t first = ibv_wc_read_completion_ts(cq);

	CHECK(first >= (uint64_t)clock.raw_clock.tv_nsec);
	CHECK(ibv_wc_read_completion_wallclock_ns(cq) / 1000000000ULL - (uint64_t)time(NULL) + 2 <= 4);
	EQ(ibv_next_poll(cq), 0);
	EQ(cq->wr_id, 21);
	EQ(ibv_wc_read_byte_len(cq), 9);
	CHECK(ibv_wc_read_completion_ts(cq) >= first);
	EQ(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	EQ(ibv_start_poll(cq, &poll), ENOENT);
	drop_both();
	EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* A queue pair in the error state gives every request back, in order. */
static void flush(void)
{
	pair_up(IBV_QPT_RC);
	post_recv(&b, 1, 0, 8);
	post_recv(&b, 2, 0, 8);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	expect(b.cq, 1, IBV_WC_WR_FLUSH_ERR);
	expect(b.cq, 2, IBV_WC_WR_FLUSH_ERR);
	post_recv(&b, 3, 0, 8);
	expect(b.cq, 3, IBV_WC_WR_FLUSH_ERR);
	expect_none(b.cq);
	drop_both();
}

int main(void)
{
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	sends();
	one_sided();
	windows();
	datagrams();
	multicast();
	unreliable();
	shared_receives();
	extended_reliable();
	builders();
	iterator();
	flush();
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
