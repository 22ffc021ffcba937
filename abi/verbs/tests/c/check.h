/*
 * What the C tests share: a check that says where and what, and one RC-capable endpoint.
 *
 * The programs include Debian's verbs.h, so its inlined functions and structure layouts are the ones tested.
 */
#ifndef FERRIBAND_CHECK_H
#define FERRIBAND_CHECK_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "said.h"

/* A verb that returns an object refuses with this errno. */
#define REFUSED(call, expected)                                               \
	do {                                                                  \
		errno = 0;                                                    \
		if ((call) != NULL)                                           \
			FAIL("%s was not refused", #call);                    \
		EQ(errno, expected);                                          \
	} while (0)

static inline struct ibv_context *open_first(void)
{
	int count = -1;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list);
	CHECK(count >= 1);
	CHECK(list[count] == NULL);
	struct ibv_context *context = ibv_open_device(list[0]);

	CHECK(context);
	ibv_free_device_list(list);
	return context;
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Polls until one completion comes. */
static inline struct ibv_wc wait_for(struct ibv_cq *cq)
{
	double end = seconds() + 10;
	struct ibv_wc wc;

	memset(&wc, 0xee, sizeof(wc));
	for (;;) {
		int count = ibv_poll_cq(cq, 1, &wc);

		CHECK(count >= 0);
		if (count == 1)
			return wc;
		if (seconds() > end)
			FAIL("no completion within 10 s");
	}
}

/* Polls until one completion comes, which must bear this identifier and status. */
static inline struct ibv_wc expect(struct ibv_cq *cq, uint64_t wr_id,
				   enum ibv_wc_status status)
{
	struct ibv_wc wc = wait_for(cq);

	if (wc.wr_id != wr_id || wc.status != status)
		FAIL("completion of %llu with status %d (%s), expected %llu with %d",
		     (unsigned long long)wc.wr_id, wc.status,
		     ibv_wc_status_str(wc.status), (unsigned long long)wr_id,
		     status);
	return wc;
}

/* No completion waits. */
static inline void expect_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

#define BYTES 8192
#define ALL_ACCESS                                                            \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                   \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* One side of a connection, with a registered buffer. */
struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *bytes;
};

static inline void to_init(struct ibv_qp *qp, enum ibv_qp_type type)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (type == IBV_QPT_UD) {
		attr.qkey = 0x1234;
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = ALL_ACCESS;
		if (type == IBV_QPT_UC)
			attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	EQ(ibv_modify_qp(qp, &attr, mask), 0);
	EQ(qp->state, IBV_QPS_INIT);
}

/* Takes a queue pair from RESET to RTS towards another one of the same port. */
static inline void connect_qp(struct ibv_context *context, struct ibv_qp *qp,
			      enum ibv_qp_type type, uint32_t dest)
{
	struct ibv_port_attr port;

	EQ(ibv_query_port(context, 1, &port), 0);
	to_init(qp, type);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = 0xfffffe,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .dlid = port.lid, .port_num = 1 },
	};
	int mask = IBV_QP_STATE;

	if (type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN;
	/* Programs give both halves of an XRC connection what a whole one needs. */
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV || type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	EQ(ibv_modify_qp(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0xfffffe;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	EQ(ibv_modify_qp(qp, &attr, mask), 0);
	EQ(qp->state, IBV_QPS_RTS);
}

/* What is said of the order of bytes: nothing that rdma-core asks for, and that the last byte of a WRITE comes last. */
static inline void orders(struct ibv_qp *qp, int receives_writes)
{
	const uint32_t return_caps = 1 << 0, device_only = 1 << 1, last_byte_last = 1u << 31;

	for (enum ibv_wr_opcode op = IBV_WR_RDMA_WRITE; op <= IBV_WR_DRIVER1; op++) {
		int writes = op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM;

		EQ(ibv_query_qp_data_in_order(qp, op, 0), 0);
		EQ(ibv_query_qp_data_in_order(qp, op, return_caps), 0);
		EQ(ibv_query_qp_data_in_order(qp, op, return_caps | device_only), 0);
		EQ(ibv_query_qp_data_in_order(qp, op, last_byte_last | return_caps), 0);
#ifndef __x86_64__
		writes = 0; /* weaker orders of stores promise nothing */
#endif
		EQ(ibv_query_qp_data_in_order(qp, op, last_byte_last), writes && receives_writes);
	}
}

/* A completion queue, a buffer and a queue pair in RESET. */
static inline struct side make_side(struct ibv_context *context,
				    struct ibv_pd *pd, enum ibv_qp_type type)
{
	struct side side = { .cq = ibv_create_cq(context, 64, NULL, NULL, 0) };

	CHECK(side.cq);
	side.bytes = aligned_alloc(4096, BYTES);
	CHECK(side.bytes);
	memset(side.bytes, 0, BYTES);
	side.mr = ibv_reg_mr(pd, side.bytes, BYTES, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	CHECK(side.mr);
	struct ibv_qp_init_attr init = {
		.send_cq = side.cq,
		.recv_cq = side.cq,
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = 3,
			 .max_recv_sge = 3,
			 .max_inline_data = 64 },
		.qp_type = type,
	};
	side.qp = ibv_create_qp(pd, &init);
	CHECK(side.qp);
	return side;
}

static inline void drop_side(struct side *side)
{
	EQ(ibv_destroy_qp(side->qp), 0);
	EQ(ibv_dereg_mr(side->mr), 0);
	EQ(ibv_destroy_cq(side->cq), 0);
	free(side->bytes);
}

static inline struct ibv_sge part(const struct side *side, size_t offset,
				  uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)side->bytes + offset,
				 .length = length,
				 .lkey = side->mr->lkey };
}

static inline void post_recv(const struct side *side, uint64_t wr_id,
			     size_t offset, uint32_t length)
{
	struct ibv_sge sge = part(side, offset, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad = NULL;

	EQ(ibv_post_recv(side->qp, &wr, &bad), 0);
}

static inline int post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	return ibv_post_send(qp, wr, &bad);
}

#endif
