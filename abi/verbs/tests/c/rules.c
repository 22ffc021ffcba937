/*
 * What the man pages and the kernel say of the calls: what is ignored, what is refused, what is in use. The kernel's rules of
 * ibv_modify_qp are those of its table of transitions.
 */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_port_attr port;

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

static struct ibv_cq *make_cq(int size)
{
	struct ibv_cq *cq = ibv_create_cq(context, size, NULL, NULL, 0);

	CHECK(cq);
	return cq;
}

static struct ibv_srq *make_srq(uint32_t room)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = room, .max_sge = 1, .srq_limit = 7777 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_srq_attr attr;

	CHECK(srq);
	/* creation ignores the limit, and says that it is none */
	EQ(ibv_query_srq(srq, &attr), 0);
	EQ(attr.srq_limit, 0);
	EQ(attr.max_wr, room);
	return srq;
}

static struct ibv_xrcd *make_xrcd(void)
{
	struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &init);

	CHECK(xrcd);
	return xrcd;
}

static struct ibv_srq *make_xrc_srq(struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	struct ibv_srq_init_attr_ex init = { .attr = { .max_wr = 4, .max_sge = 1 },
					     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							  IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					     .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = cq };
	struct ibv_srq *srq = ibv_create_srq_ex(context, &init);

	CHECK(srq);
	return srq;
}

static const uint32_t sizes[] = { 0, 1, 100000, 1u << 24, UINT32_MAX };

/*
 * ibv_create_qp(3): with a shared receive queue, which RC and UD alone can have, max_recv_wr and max_recv_sge are ignored. XRC has
 * no receive queue to size.
 */
static void ignored_sizes(void)
{
	struct ibv_cq *cq = make_cq(8);
	struct ibv_srq *srq = make_srq(4);
	struct ibv_xrcd *xrcd = make_xrcd();
	struct ibv_srq *xrc_srq = make_xrc_srq(xrcd, cq);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
			struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = types[t],
							 .cap = { 1, sizes[i], 1, sizes[i], 0 } };
			struct ibv_qp_init_attr back;
			struct ibv_qp_attr attr;

			if (types[t] == IBV_QPT_UC) {
				init.cap.max_recv_wr = init.cap.max_recv_sge = 1;
				REFUSED(ibv_create_qp(pd, &init), EINVAL);
				continue;
			}
			struct ibv_qp *qp = ibv_create_qp(pd, &init);

			CHECK(qp);
			EQ(init.cap.max_recv_wr, 0);
			EQ(ibv_query_qp(qp, &attr, IBV_QP_CAP, &back), 0);
			CHECK(back.srq == srq && back.cap.max_recv_wr == 0 && attr.cap.max_recv_sge == 0);
			struct ibv_sge sge = { 0 };
			struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

			to_init(qp, types[t]);
			EQ(ibv_post_recv(qp, &wr, &bad), EINVAL);
			CHECK(bad == &wr);
			EQ(ibv_destroy_srq(srq), EBUSY);
			EQ(ibv_destroy_qp(qp), 0);
			/* without one they count */
			init.srq = NULL;
			init.cap = (struct ibv_qp_cap){ 1, sizes[i], 1, 1, 0 };
			qp = ibv_create_qp(pd, &init);
			CHECK(!!qp == (sizes[i] <= 1));
			if (qp)
				EQ(ibv_destroy_qp(qp), 0);
			/* a queue of an XRC domain serves XRC alone */
			init.srq = xrc_srq;
			init.cap = (struct ibv_qp_cap){ 1, 1, 1, 1, 0 };
			REFUSED(ibv_create_qp(pd, &init), EINVAL);
		}
		struct ibv_qp_init_attr_ex xrc = { .send_cq = cq, .qp_type = IBV_QPT_XRC_SEND, .pd = pd,
						   .comp_mask = IBV_QP_INIT_ATTR_PD, .cap = { 1, sizes[i], 1, sizes[i], 0 } };
		struct ibv_qp *qp = ibv_create_qp_ex(context, &xrc);
		struct ibv_recv_wr wr = { 0 }, *bad = NULL;

		CHECK(qp);
		to_init(qp, IBV_QPT_XRC_SEND);
		EQ(ibv_post_recv(qp, &wr, &bad), EINVAL);
		EQ(ibv_destroy_qp(qp), 0);
		xrc = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
						    .cap = { sizes[i], sizes[i], sizes[i], sizes[i], sizes[i] } };
		qp = ibv_create_qp_ex(context, &xrc);
		CHECK(qp);
		EQ(ibv_close_xrcd(xrcd), EBUSY);
		EQ(ibv_destroy_qp(qp), 0);
	}
	EQ(ibv_destroy_cq(cq), EBUSY);
	EQ(ibv_destroy_srq(xrc_srq), 0);
	EQ(ibv_close_xrcd(xrcd), 0);
	EQ(ibv_destroy_srq(srq), 0);
	EQ(ibv_destroy_cq(cq), 0);
}

/* ibv_modify_srq(3): if any attribute is invalid, none is modified. */
static void shared_receive_queues(void)
{
	struct ibv_srq *srq = make_srq(8);
	struct ibv_srq_attr attr;
	const struct {
		uint32_t max_wr, limit, mask, result, max_after, limit_after;
	} steps[] = {
		{ 4, 5, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, EINVAL, 8, 0 },
		{ 1u << 30, 2, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, EINVAL, 8, 0 },
		{ 0, 0, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, EINVAL, 8, 0 },
		{ 3, 0, IBV_SRQ_MAX_WR, EINVAL, 8, 0 }, /* four receives wait */
		{ 0, 9, IBV_SRQ_LIMIT, EINVAL, 8, 0 },
		{ 16, 4, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 0, 16, 4 },
		{ 4, 4, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 0, 4, 4 },
		{ 99, 99, 0, 0, 4, 4 },
		{ 99, 1, IBV_SRQ_LIMIT, 0, 4, 1 },
		{ 99, 0, IBV_SRQ_LIMIT | 4, EINVAL, 4, 1 },
		{ 99, 0, IBV_SRQ_LIMIT, 0, 4, 0 },
	};

	for (uint64_t i = 0; i < 4; i++) {
		struct ibv_recv_wr wr = { .wr_id = i }, *bad;

		EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
	}
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		attr = (struct ibv_srq_attr){ .max_wr = steps[i].max_wr, .srq_limit = steps[i].limit };
		EQ(ibv_modify_srq(srq, &attr, (int)steps[i].mask), steps[i].result);
		EQ(ibv_query_srq(srq, &attr), 0);
		if (attr.max_wr != steps[i].max_after || attr.srq_limit != steps[i].limit_after)
			FAIL("step %zu: %u receives, limit %u", i, attr.max_wr, attr.srq_limit);
	}
	EQ(ibv_destroy_srq(srq), 0);
}

/* Everything that keeps a domain, a queue or a region from going, each alone. */
static void users(void)
{
	static char bytes[4096] __attribute__((aligned(4096)));
	struct ibv_pd *own = ibv_alloc_pd(context);
	struct ibv_cq *cq = make_cq(8), *other = make_cq(8);
	struct ibv_ah_attr way = { .dlid = port.lid, .port_num = 1 };
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = other, .qp_type = IBV_QPT_RC, .cap = { 4, 1, 1, 1, 0 } };
	struct ibv_parent_domain_init_attr parent_init = { .pd = own };

	CHECK(own);
	struct ibv_mr *mr = ibv_reg_mr(own, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	EQ(ibv_dealloc_pd(own), EBUSY);
	EQ(ibv_dereg_mr(mr), 0);
	struct ibv_ah *ah = ibv_create_ah(own, &way);

	CHECK(ah);
	EQ(ibv_dealloc_pd(own), EBUSY);
	EQ(ibv_destroy_ah(ah), 0);
	struct ibv_srq *srq = ibv_create_srq(own, &srq_init);

	CHECK(srq);
	EQ(ibv_dealloc_pd(own), EBUSY);
	EQ(ibv_destroy_srq(srq), 0);
	struct ibv_qp *qp = ibv_create_qp(own, &init);

	CHECK(qp);
	EQ(ibv_dealloc_pd(own), EBUSY);
	EQ(ibv_destroy_cq(cq), EBUSY);
	EQ(ibv_destroy_cq(other), EBUSY);
	EQ(ibv_destroy_qp(qp), 0);
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &parent_init);

	CHECK(parent);
	EQ(ibv_dealloc_pd(own), EBUSY);
	qp = ibv_create_qp(parent, &init);
	CHECK(qp);
	EQ(ibv_dealloc_pd(parent), EBUSY);
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_dealloc_pd(parent), 0);

	/* a region to which a window is bound (ibv_reg_mr(3)) */
	qp = ibv_create_qp(own, &init);
	struct ibv_mw *mw = ibv_alloc_mw(own, IBV_MW_TYPE_1);

	mr = ibv_reg_mr(own, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	CHECK(qp && mw && mr);
	struct side peer = make_side(context, pd, IBV_QPT_RC);

	connect_qp(context, qp, IBV_QPT_RC, peer.qp->qp_num);
	connect_qp(context, peer.qp, IBV_QPT_RC, qp->qp_num);
	struct ibv_mw_bind bind = { .wr_id = 5, .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = mr, .addr = (uintptr_t)bytes, .length = 64,
						   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };

	EQ(ibv_bind_mw(qp, mw, &bind), 0);
	expect(cq, 5, IBV_WC_SUCCESS);
	EQ(ibv_dereg_mr(mr), EBUSY);
	EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	bind.bind_info.length = 0;
	EQ(ibv_bind_mw(qp, mw, &bind), 0);
	expect(cq, 5, IBV_WC_SUCCESS);
	EQ(ibv_dereg_mr(mr), 0);
	EQ(ibv_dealloc_pd(own), EBUSY);
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_dealloc_pd(own), EBUSY);
	EQ(ibv_dealloc_mw(mw), 0);
	drop_side(&peer);
	EQ(ibv_destroy_cq(cq), 0);
	EQ(ibv_destroy_cq(other), 0);
	EQ(ibv_dealloc_pd(own), 0);
}

/* Groups: who may be attached to which, and that an attached queue pair is in use and stays what it was. */
static void groups(void)
{
	struct side a = make_side(context, pd, IBV_QPT_UD), b = make_side(context, pd, IBV_QPT_UD);
	union ibv_gid first = { .raw = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = 0x51 } }, second = first, unicast = first;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	second.raw[14] = 1;
	unicast.raw[0] = 0xfe;
	connect_qp(context, a.qp, IBV_QPT_UD, 0);
	EQ(ibv_attach_mcast(b.qp, NULL, 0xc001), EINVAL);
	EQ(ibv_attach_mcast(b.qp, &unicast, 0xc001), EINVAL);
	EQ(ibv_attach_mcast(b.qp, &first, 0), EINVAL);
	EQ(ibv_attach_mcast(b.qp, &first, 0xbfff), EINVAL);
	EQ(ibv_attach_mcast(b.qp, &first, 0xffff), EINVAL);
	for (size_t t = 0; t < 2; t++) {
		struct side connected = make_side(context, pd, types[t]);

		EQ(ibv_attach_mcast(connected.qp, &first, 0xc001), EINVAL);
		EQ(ibv_detach_mcast(connected.qp, &first, 0xc001), EINVAL);
		drop_side(&connected);
	}
	EQ(ibv_detach_mcast(b.qp, &first, 0xc001), EINVAL);
	/* in RESET, too; twice is once */
	EQ(ibv_attach_mcast(b.qp, &first, 0xc001), 0);
	EQ(ibv_attach_mcast(b.qp, &first, 0xc001), 0);
	EQ(ibv_attach_mcast(b.qp, &second, 0xfffe), 0);
	EQ(ibv_destroy_qp(b.qp), EBUSY);
	connect_qp(context, b.qp, IBV_QPT_UD, 0);
	EQ(ibv_destroy_qp(b.qp), EBUSY);
	EQ(ibv_query_qp(b.qp, &attr, IBV_QP_STATE, &init), 0);
	EQ(attr.qp_state, IBV_QPS_RTS);
	EQ(ibv_destroy_cq(b.cq), EBUSY);
	EQ(ibv_detach_mcast(b.qp, &second, 0xc001), EINVAL);
	EQ(ibv_detach_mcast(b.qp, &second, 0xfffe), 0);
	EQ(ibv_detach_mcast(b.qp, &second, 0xfffe), EINVAL);
	EQ(ibv_destroy_qp(b.qp), EBUSY);

	/* and it still hears its group */
	struct ibv_ah_attr way = { .dlid = 0xc001, .port_num = 1, .is_global = 1, .grh = { .dgid = first, .hop_limit = 1 } };
	struct ibv_ah *ah = ibv_create_ah(pd, &way);
	struct ibv_sge sge = part(&a, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 3, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { .ah = ah, .remote_qpn = 0xffffff, .remote_qkey = 0x1234 } };

	CHECK(ah);
	post_recv(&b, 9, 0, 48);
	EQ(post(a.qp, &wr), 0);
	expect(a.cq, 3, IBV_WC_SUCCESS);
	EQ(expect(b.cq, 9, IBV_WC_SUCCESS).byte_len, 48);
	EQ(ibv_destroy_ah(ah), 0);
	attr.qp_state = IBV_QPS_RESET;
	EQ(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	EQ(ibv_destroy_qp(b.qp), EBUSY);
	EQ(ibv_detach_mcast(b.qp, &first, 0xc001), 0);
	drop_side(&a);
	drop_side(&b);
}

/* Masks of the kernel's table, written out: what a transition takes beside IBV_QP_STATE. */
struct transition {
	enum ibv_qp_state from, to;
	int required[3], optional[3]; /* RC, UC, UD */
};

#define INIT_C (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_D (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RTR_C (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTS_R (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define RTS_C (IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE)
#define SQD_C (IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE)

static const struct transition table[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, { INIT_C, INIT_C, INIT_D }, { 0 } },
	{ IBV_QPS_INIT, IBV_QPS_INIT, { 0 }, { INIT_C, INIT_C, INIT_D } },
	{ IBV_QPS_INIT, IBV_QPS_RTR, { RTR_C | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, RTR_C, 0 },
	  { IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX, IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
	    IBV_QP_PKEY_INDEX | IBV_QP_QKEY } },
	{ IBV_QPS_RTR, IBV_QPS_RTS, { RTS_R | IBV_QP_SQ_PSN, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN },
	  { RTS_C | IBV_QP_MIN_RNR_TIMER, RTS_C, IBV_QP_CUR_STATE | IBV_QP_QKEY } },
	{ IBV_QPS_RTS, IBV_QPS_RTS, { 0 }, { RTS_C | IBV_QP_MIN_RNR_TIMER, RTS_C, IBV_QP_CUR_STATE | IBV_QP_QKEY } },
	{ IBV_QPS_RTS, IBV_QPS_SQD, { 0 },
	  { IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY } },
	{ IBV_QPS_SQD, IBV_QPS_SQD, { 0 },
	  { SQD_C | RTS_R | IBV_QP_PORT | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, SQD_C, IBV_QP_PKEY_INDEX | IBV_QP_QKEY } },
	{ IBV_QPS_SQD, IBV_QPS_RTS, { 0 }, { RTS_C | IBV_QP_MIN_RNR_TIMER, RTS_C, IBV_QP_CUR_STATE | IBV_QP_QKEY } },
	{ IBV_QPS_RTS, IBV_QPS_ERR, { 0 }, { 0 } },
	{ IBV_QPS_ERR, IBV_QPS_RESET, { 0 }, { 0 } },
};

static struct ibv_qp_attr values(enum ibv_qp_state to, uint32_t dest)
{
	return (struct ibv_qp_attr){
		.qp_state = to,
		.path_mtu = IBV_MTU_1024,
		.path_mig_state = IBV_MIG_REARM,
		.qkey = 5,
		.dest_qp_num = dest,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.ah_attr = { .dlid = port.lid, .port_num = 1 },
		.alt_ah_attr = { .dlid = port.lid, .port_num = 1 },
		.port_num = 1,
		.alt_port_num = 1,
		.max_rd_atomic = 2,
		.max_dest_rd_atomic = 2,
		.min_rnr_timer = 3,
		.timeout = 10,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.rq_psn = 77,
		.sq_psn = 77,
	};
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static void masks(size_t t)
{
	struct side side = make_side(context, pd, types[t]);

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		const struct transition *step = &table[i];

		/* the end of a queue pair that is in the wrong state by now is tried with a fresh one */
		if (state_of(side.qp) != step->from)
			FAIL("type %d: step %zu begins in state %d", types[t], i, state_of(side.qp));
		struct ibv_qp_attr attr = values(step->to, side.qp->qp_num);

		attr.cur_qp_state = step->from;
		for (int bit = 0; bit <= 25; bit++) {
			int flag = 1 << bit, required = step->required[t], optional = step->optional[t];

			if (flag == IBV_QP_STATE)
				continue;
			if (required & flag && ibv_modify_qp(side.qp, &attr, (IBV_QP_STATE | required) & ~flag) != EINVAL)
				FAIL("type %d: %d to %d without %#x was not refused", types[t], step->from, step->to, flag);
			if (!((required | optional) & flag)) {
				int result = ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | required | flag);

				if (result != EINVAL && result != EOPNOTSUPP)
					FAIL("type %d: %d to %d with %#x: %d", types[t], step->from, step->to, flag, result);
			}
			EQ(state_of(side.qp), step->from);
		}
		/* other states than those of the table */
		for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR + 1; to++) {
			int known = to == IBV_QPS_RESET || to == IBV_QPS_ERR;

			for (size_t j = 0; j < sizeof(table) / sizeof(*table); j++)
				known |= table[j].from == step->from && (int)table[j].to == to;
			if (known)
				continue;
			attr.qp_state = (enum ibv_qp_state)to;
			EQ(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | step->required[t]), EINVAL);
			EQ(state_of(side.qp), step->from);
		}
		attr.qp_state = step->to;
		/* a wrong current state, if the transition takes one */
		if (step->optional[t] & IBV_QP_CUR_STATE) {
			for (int wrong = IBV_QPS_RESET; wrong <= IBV_QPS_ERR + 1; wrong++) {
				attr.cur_qp_state = (enum ibv_qp_state)wrong;
				if (attr.cur_qp_state != step->from)
					EQ(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | step->required[t] | IBV_QP_CUR_STATE), EINVAL);
			}
			attr.cur_qp_state = step->from;
		}
		/* each optional one alone, where the state stays; then all that the transition takes, and what it takes at least */
		for (int bit = 0; bit <= 25; bit++)
			if (step->from == step->to && step->optional[t] & 1 << bit && 1 << bit != IBV_QP_PATH_MIG_STATE)
				EQ(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | 1 << bit), 0);
		int most = IBV_QP_STATE | step->required[t] | step->optional[t];

		EQ(ibv_modify_qp(side.qp, &attr, most & ~(IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH)), 0);
		EQ(state_of(side.qp), step->to);
		EQ(side.qp->state, step->to);
	}
	drop_side(&side);
}

/* ibv_modify_qp(3): if any of the attributes or the mask is invalid, none is modified. */
static void nothing_by_halves(void)
{
	struct side a = make_side(context, pd, IBV_QPT_RC), b = make_side(context, pd, IBV_QPT_RC);
	struct ibv_qp_attr attr, wrong;
	struct ibv_qp_init_attr init;

	connect_qp(context, a.qp, IBV_QPT_RC, b.qp->qp_num);
	connect_qp(context, b.qp, IBV_QPT_RC, a.qp->qp_num);
	wrong = (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD };
	EQ(ibv_modify_qp(a.qp, &wrong, IBV_QP_STATE), 0);
	const struct {
		int mask;
		struct ibv_qp_attr attr;
	} cases[] = {
		{ IBV_QP_TIMEOUT, { .timeout = 32 } },
		{ IBV_QP_RETRY_CNT, { .retry_cnt = 8 } },
		{ IBV_QP_RNR_RETRY, { .rnr_retry = 8 } },
		{ IBV_QP_MAX_QP_RD_ATOMIC, { .max_rd_atomic = 255 } },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, { .max_dest_rd_atomic = 255 } },
		{ IBV_QP_PKEY_INDEX, { .pkey_index = 60000 } },
		{ IBV_QP_PORT, { .port_num = 9 } },
		{ IBV_QP_AV, { .ah_attr = { .port_num = 9 } } },
		{ IBV_QP_ALT_PATH, { .alt_port_num = 9, .alt_ah_attr = { .port_num = 9 } } },
		{ IBV_QP_ALT_PATH, { .alt_port_num = 1, .alt_ah_attr = { .port_num = 9 } } },
		{ IBV_QP_ALT_PATH, { .alt_port_num = 9, .alt_ah_attr = { .port_num = 1 } } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		wrong = cases[i].attr;
		wrong.qp_state = IBV_QPS_SQD;
		wrong.min_rnr_timer = 31;
		if (ibv_modify_qp(a.qp, &wrong, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | cases[i].mask) != EINVAL)
			FAIL("case %zu was not refused", i);
		EQ(ibv_query_qp(a.qp, &attr, ~0, &init), 0);
		CHECK(attr.min_rnr_timer == 1 && attr.timeout == 14 && attr.retry_cnt == 7 && attr.qp_state == IBV_QPS_SQD);
	}
	drop_side(&a);
	drop_side(&b);
}

static int next_event(int ms)
{
	struct pollfd poller = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	if (poll(&poller, 1, ms) != 1)
		return -1;
	EQ(ibv_get_async_event(context, &event), 0);
	ibv_ack_async_event(&event);
	return (int)event.event_type;
}

static int watched;

/* Looks at a queue pair all the time: what it says must not get lost by that. */
static void *watch(void *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	while (__atomic_load_n(&watched, __ATOMIC_ACQUIRE))
		EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return NULL;
}

/* SQ_DRAINED: once for each transition that asks for it, and for no other. */
static void drained(enum ibv_qp_type type)
{
	struct side a = make_side(context, pd, type), b = make_side(context, pd, type);
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 }, rts = { .qp_state = IBV_QPS_RTS };
	struct ibv_ah_attr way = { .dlid = port.lid, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(pd, &way);
	pthread_t watcher;

	CHECK(ah);
	connect_qp(context, a.qp, type, b.qp->qp_num);
	connect_qp(context, b.qp, type, a.qp->qp_num);
	while (next_event(0) >= 0)
		;
	__atomic_store_n(&watched, 1, __ATOMIC_RELEASE);
	EQ(pthread_create(&watcher, NULL, watch, a.qp), 0);
	for (int round = 0; round < 40; round++) {
		int asks = round % 3 != 1, empty = round % 5 == 0;
		struct ibv_sge sge = part(&a, 0, 64);
		struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.ud = { .ah = ah, .remote_qpn = b.qp->qp_num, .remote_qkey = 0x1234 } };

		if (!empty) {
			post_recv(&b, 2, 64, 128);
			EQ(post(a.qp, &wr), 0);
		}
		sqd.en_sqd_async_notify = round % 2 || asks;
		EQ(ibv_modify_qp(a.qp, &sqd, IBV_QP_STATE | (asks ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0)), 0);
		if (!empty) {
			expect(a.cq, 1, IBV_WC_SUCCESS);
			expect(b.cq, 2, IBV_WC_SUCCESS);
		}
		if (asks)
			EQ(next_event(5000), IBV_EVENT_SQ_DRAINED);
		/* nothing else comes, whatever is changed there, nor by going on */
		sqd.qkey = 0x1234;
		sqd.qp_access_flags = ALL_ACCESS;
		if (round % 4 == 0)
			EQ(ibv_modify_qp(a.qp, &sqd, IBV_QP_STATE | (type == IBV_QPT_UD ? IBV_QP_QKEY : 0)), 0);
		EQ(next_event(round % 8 ? 0 : 20), -1);
		EQ(ibv_modify_qp(a.qp, &rts, IBV_QP_STATE), 0);
		EQ(next_event(round % 8 ? 0 : 20), -1);
	}
	__atomic_store_n(&watched, 0, __ATOMIC_RELEASE);
	EQ(pthread_join(watcher, NULL), 0);
	if (type == IBV_QPT_RC) {
		/* what never drains says nothing: nobody receives; and after the way back there is nothing to say */
		struct ibv_sge sge = part(&a, 0, 64);
		struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
					  .send_flags = IBV_SEND_SIGNALED };
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		EQ(post(a.qp, &wr), 0);
		sqd.en_sqd_async_notify = 1;
		EQ(ibv_modify_qp(a.qp, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
		EQ(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init), 0);
		EQ(attr.qp_state, IBV_QPS_SQD);
		EQ(attr.sq_draining, 1);
		EQ(next_event(20), -1);
		EQ(ibv_modify_qp(a.qp, &rts, IBV_QP_STATE), 0);
		post_recv(&b, 8, 64, 64);
		expect(a.cq, 7, IBV_WC_SUCCESS);
		EQ(next_event(20), -1);
	}
	EQ(ibv_destroy_ah(ah), 0);
	drop_side(&a);
	drop_side(&b);
}

int main(void)
{
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	EQ(ibv_query_port(context, 1, &port), 0);
	ignored_sizes();
	shared_receive_queues();
	users();
	groups();
	for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
		masks(t);
		drained(types[t]);
	}
	nothing_by_halves();
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	return 0;
}
