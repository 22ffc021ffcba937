/* Objects: creation, refusals, who keeps whom alive. */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

static void domains(void)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };

	CHECK(td);
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);

	CHECK(parent && parent->context == context);
	EQ(parent->handle, pd->handle);
	EQ(ibv_dealloc_td(td), EBUSY);
	EQ(ibv_dealloc_pd(pd), EBUSY);
	attr.pd = parent;
	REFUSED(ibv_alloc_parent_domain(context, &attr), EINVAL);
	attr.pd = NULL;
	REFUSED(ibv_alloc_parent_domain(context, &attr), EINVAL);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4,
					       .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					       .parent_domain = parent };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_attr);

	CHECK(cq);
	EQ(ibv_dealloc_pd(parent), EBUSY);
	EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	cq_attr.parent_domain = pd;
	REFUSED(ibv_create_cq_ex(context, &cq_attr), EINVAL);
	EQ(ibv_dealloc_pd(parent), 0);
	EQ(ibv_dealloc_td(td), 0);
}

static void regions(void)
{
	static char bytes[4096];
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr && mr->pd == pd && mr->addr == bytes && mr->length == sizeof(bytes));
	EQ(ibv_dealloc_pd(pd), EBUSY);
	REFUSED(ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_REMOTE_WRITE), EINVAL);
	REFUSED(ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE | 1 << 15), EINVAL);
	REFUSED(ibv_reg_mr(NULL, bytes, sizeof(bytes), 0), EINVAL);
	REFUSED(ibv_reg_mr(pd, (void *)UINTPTR_MAX, 4096, 0), EINVAL);
	/* Re-registration: what is not named stays. */
	struct ibv_pd *other = ibv_alloc_pd(context);

	CHECK(other);
	EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	CHECK(mr->pd == other);
	EQ(ibv_dealloc_pd(other), EBUSY);
	EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION, pd, bytes, 64, 0), 0);
	CHECK(mr->pd == pd && mr->length == 64);
	EQ(ibv_dealloc_pd(other), 0);
	/* Memory that an adapter could not pin, now and at a re-registration, which then leaves the region alone. */
	char *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pages != MAP_FAILED);
	REFUSED(ibv_reg_mr(pd, pages, 8192, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	REFUSED(ibv_reg_mr(pd, pages, 8192, IBV_ACCESS_MW_BIND), EFAULT);
	REFUSED(ibv_reg_mr_iova(pd, pages + 4090, 100, 0, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	REFUSED(ibv_reg_mr(pd, NULL, 4096, IBV_ACCESS_REMOTE_READ), EFAULT);
	struct ibv_mr *readable = ibv_reg_mr(pd, pages, 8192, IBV_ACCESS_REMOTE_READ);

	CHECK(readable);
	EQ(ibv_rereg_mr(readable, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_CMD);
	EQ(errno, EFAULT);
	EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	REFUSED(ibv_reg_mr(pd, pages, 8192, IBV_ACCESS_REMOTE_READ), EFAULT);
	EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pages + 4096, 8, 0), IBV_REREG_MR_ERR_CMD);
	EQ(errno, EFAULT);
	CHECK(mr->addr == bytes && mr->length == 64);
	EQ(ibv_dereg_mr(readable), 0);
	readable = ibv_reg_mr(pd, pages, 8192, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	CHECK(readable); /* on demand: whatever comes there later */
	EQ(ibv_dereg_mr(readable), 0);
	EQ(munmap(pages, 8192), 0);
	EQ(ibv_rereg_mr(mr, 1 << 5, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQ(ibv_rereg_mr(mr, 0, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_INPUT);
	/* Advice names registered ranges. */
	struct ibv_sge sge = { .addr = (uintptr_t)bytes, .length = 64, .lkey = mr->lkey };

	EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	sge.length = 65;
	EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
	EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0), EINVAL);
	EQ(ibv_dereg_mr(mr), 0);
	/* The whole address space, on demand; hints that nobody knows are dropped. */
	mr = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	CHECK(mr);
	EQ(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr_iova(pd, bytes, 64, 0x1000, IBV_ACCESS_RELAXED_ORDERING | 1 << 27);
	CHECK(mr);
	EQ(ibv_dereg_mr(mr), 0);
}

static void windows(void)
{
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	CHECK(one && two && one->rkey != two->rkey && two->type == IBV_MW_TYPE_2);
	REFUSED(ibv_alloc_mw(pd, 3), EINVAL);
	EQ(ibv_dealloc_pd(pd), EBUSY);
	EQ(ibv_dealloc_mw(one), 0);
	EQ(ibv_dealloc_mw(two), 0);
}

static void device_memory(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 100, .log_align_req = 6 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	char out[100] = "twelve bytes", in[100] = { 0 };

	CHECK(dm);
	EQ(ibv_memcpy_to_dm(dm, 8, out, 12), 0);
	EQ(ibv_memcpy_from_dm(in, dm, 8, 12), 0);
	EQ(memcmp(in, out, 12), 0);
	CHECK(ibv_memcpy_to_dm(dm, 1, out, 4) != 0);
	CHECK(ibv_memcpy_to_dm(dm, 4, out, 3) != 0);
	CHECK(ibv_memcpy_from_dm(in, dm, 104, 4) != 0);
	CHECK(ibv_memcpy_from_dm(in, dm, UINT64_MAX - 3, 8) != 0);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 4, 96, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr && mr->length == 96);
	EQ(ibv_free_dm(dm), EBUSY);
	EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EQ(ibv_dereg_mr(mr), 0);
	REFUSED(ibv_reg_dm_mr(pd, dm, 0, 104, IBV_ACCESS_ZERO_BASED), EINVAL);
	EQ(ibv_free_dm(dm), 0);
	attr.comp_mask = 1;
	REFUSED(ibv_alloc_dm(context, &attr), EINVAL);
	struct ibv_device_attr_ex device;

	EQ(ibv_query_device_ex(context, NULL, &device), 0);
	attr = (struct ibv_alloc_dm_attr){ .length = device.max_dm_size + 1 };
	CHECK(!ibv_alloc_dm(context, &attr));
}

static void completion_queues(void)
{
	struct ibv_device_attr device;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);

	EQ(ibv_query_device(context, &device), 0);
	CHECK(channel && channel->fd >= 0);
	struct ibv_cq *cq = ibv_create_cq(context, 5, &device, channel, context->num_comp_vectors - 1);

	CHECK(cq && cq->cqe >= 5 && cq->cq_context == &device && cq->channel == channel);
	EQ(ibv_destroy_comp_channel(channel), EBUSY);
	EQ(ibv_resize_cq(cq, 9), 0);
	CHECK(cq->cqe >= 9);
	EQ(ibv_resize_cq(cq, device.max_cqe + 1), EINVAL);
	struct ibv_modify_cq_attr moderation = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	EQ(ibv_modify_cq(cq, &moderation), 0);
	moderation.attr_mask = 1 << 9;
	EQ(ibv_modify_cq(cq, &moderation), EOPNOTSUPP);
	EQ(ibv_destroy_cq(cq), 0);
	EQ(ibv_destroy_comp_channel(channel), 0);
	REFUSED(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
	REFUSED(ibv_create_cq(context, -1, NULL, NULL, 0), EINVAL);
	REFUSED(ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0), EINVAL);
	REFUSED(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors), EINVAL);
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_CVLAN };

	REFUSED(ibv_create_cq_ex(context, &attr), EOPNOTSUPP);
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 1, .comp_mask = 1 << 7 };
	REFUSED(ibv_create_cq_ex(context, &attr), EOPNOTSUPP);
	/* Only the fields that were asked for can be read. */
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 1, .wc_flags = IBV_WC_EX_WITH_SL };
	struct ibv_cq_ex *extended = ibv_create_cq_ex(context, &attr);

	CHECK(extended && extended->read_sl && !extended->read_slid && !extended->read_completion_ts);
	EQ(ibv_start_poll(extended, &(struct ibv_poll_cq_attr){ .comp_mask = 1 }), EINVAL);
	EQ(ibv_start_poll(extended, &(struct ibv_poll_cq_attr){ 0 }), ENOENT);
	EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

static void receive_queues(void)
{
	struct ibv_srq_init_attr init = { .srq_context = &init, .attr = { .max_wr = 10, .max_sge = 2 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	uint32_t number;

	CHECK(srq && srq->srq_context == &init && init.attr.max_wr >= 10);
	EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	memset(&attr, 0, sizeof(attr));
	EQ(ibv_query_srq(srq, &attr), 0);
	CHECK(attr.max_wr >= 10 && attr.max_sge >= 2);
	attr.srq_limit = 1 << 20;
	EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
	EQ(ibv_modify_srq(srq, &attr, 1 << 6), EINVAL);
	EQ(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_init = { .send_cq = cq, .recv_cq = cq, .srq = srq,
					    .cap = { .max_send_wr = 1, .max_send_sge = 1 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qp_init);

	CHECK(qp && qp->srq == srq);
	EQ(ibv_destroy_srq(srq), EBUSY);
	EQ(ibv_destroy_cq(cq), EBUSY);
	EQ(ibv_destroy_qp(qp), 0);
	EQ(ibv_destroy_srq(srq), 0);
	/* Of an XRC domain. */
	struct ibv_xrcd_init_attr xrcd_init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
						.fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &xrcd_init);

	CHECK(xrcd);
	struct ibv_srq_init_attr_ex init_ex = { .attr = { .max_wr = 4, .max_sge = 1 },
						.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
						.srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = cq };

	srq = ibv_create_srq_ex(context, &init_ex);
	CHECK(srq);
	EQ(ibv_get_srq_num(srq, &number), 0);
	CHECK(number != 0);
	EQ(ibv_close_xrcd(xrcd), EBUSY);
	EQ(ibv_destroy_cq(cq), EBUSY);
	EQ(ibv_destroy_srq(srq), 0);
	init_ex.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	REFUSED(ibv_create_srq_ex(context, &init_ex), EINVAL);
	init_ex.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
	init_ex.srq_type = IBV_SRQT_TM;
	REFUSED(ibv_create_srq_ex(context, &init_ex), EOPNOTSUPP);
	EQ(ibv_close_xrcd(xrcd), 0);
	EQ(ibv_destroy_cq(cq), 0);
	xrcd_init.comp_mask = IBV_XRCD_INIT_ATTR_FD;
	REFUSED(ibv_open_xrcd(context, &xrcd_init), EINVAL);
}

static void queue_pairs(void)
{
	struct ibv_device_attr device;
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .qp_context = &device, .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { 3, 4, 1, 2, 16 }, .sq_sig_all = 1 };
	struct ibv_qp_init_attr back;
	struct ibv_qp_attr attr;

	EQ(ibv_query_device(context, &device), 0);
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp && qp->qp_num > 1 && qp->state == IBV_QPS_RESET && qp->qp_context == &device && qp->pd == pd);
	CHECK(init.cap.max_send_wr >= 3 && init.cap.max_inline_data >= 16);
	CHECK(!ibv_qp_to_qp_ex(qp));
	EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &back), 0);
	CHECK(attr.cap.max_recv_wr >= 4 && back.cap.max_recv_sge >= 2 && back.send_cq == cq && back.sq_sig_all == 1);
	EQ(back.qp_type, IBV_QPT_RC);
	orders(qp, 1);
	struct ibv_ece ece = { .vendor_id = 1 };

	EQ(ibv_query_ece(qp, &ece), EOPNOTSUPP);
	EQ(ibv_set_ece(qp, &ece), EOPNOTSUPP);
	/* An illegal transition and an incomplete one change nothing. */
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = IBV_QPS_INIT;
	EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	attr.qp_state = 42;
	EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	EQ(ibv_modify_qp(qp, &attr, 1 << 22), EOPNOTSUPP);
	EQ(qp->state, IBV_QPS_RESET);
	to_init(qp, IBV_QPT_RC);
	EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &back), 0);
	EQ(attr.qp_state, IBV_QPS_INIT);
	EQ(attr.port_num, 1);
	EQ(ibv_destroy_qp(qp), 0);
	/* Limits are refused, not rounded: libfabric doubles max_inline_data until it is. */
	init.cap.max_inline_data = 1 << 20;
	REFUSED(ibv_create_qp(pd, &init), EINVAL);
	init.cap = (struct ibv_qp_cap){ .max_send_wr = (uint32_t)device.max_qp_wr + 1, .max_send_sge = 1 };
	REFUSED(ibv_create_qp(pd, &init), EINVAL);
	init.cap = (struct ibv_qp_cap){ .max_send_wr = 1, .max_send_sge = (uint32_t)device.max_sge + 1 };
	REFUSED(ibv_create_qp(pd, &init), EINVAL);
	init.cap = (struct ibv_qp_cap){ .max_send_wr = 1, .max_send_sge = 1 };
	init.qp_type = IBV_QPT_RAW_PACKET;
	REFUSED(ibv_create_qp(pd, &init), EOPNOTSUPP);
	init.qp_type = IBV_QPT_RC;
	init.send_cq = NULL;
	REFUSED(ibv_create_qp(pd, &init), EINVAL);
	/* Extended creation. */
	struct ibv_qp_init_attr_ex extended = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = pd,
						.cap = { .max_send_wr = 1, .max_send_sge = 1 },
						.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
						.send_ops_flags = IBV_QP_EX_WITH_SEND };

	qp = ibv_create_qp_ex(context, &extended);
	CHECK(qp && ibv_qp_to_qp_ex(qp) && ibv_qp_to_qp_ex(qp)->wr_send && !ibv_qp_to_qp_ex(qp)->wr_send_imm);
	orders(qp, 0);
	EQ(ibv_destroy_qp(qp), 0);
	extended.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ;
	REFUSED(ibv_create_qp_ex(context, &extended), EOPNOTSUPP);
	/* An unreliable connection has every WRITE and SEND but the one that invalidates. */
	extended.qp_type = IBV_QPT_UC;
	extended.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW;
	qp = ibv_create_qp_ex(context, &extended);
	CHECK(qp);
	orders(qp, 1);
	EQ(ibv_destroy_qp(qp), 0);
	extended.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_INV;
	REFUSED(ibv_create_qp_ex(context, &extended), EOPNOTSUPP);
	extended.qp_type = IBV_QPT_UD;
	extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE;
	REFUSED(ibv_create_qp_ex(context, &extended), EOPNOTSUPP);
	extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	extended.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	REFUSED(ibv_create_qp_ex(context, &extended), EOPNOTSUPP);
	EQ(ibv_destroy_cq(cq), 0);
}

static void address_handles(void)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_ah_attr attr = { .port_num = 1 };

	EQ(ibv_query_port(context, 1, &port), 0);
	EQ(ibv_query_gid(context, 1, 0, &gid), 0);
	attr.dlid = port.lid;
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);

	CHECK(ah && ah->pd == pd && ah->context == context);
	EQ(ibv_dealloc_pd(pd), EBUSY);
	EQ(ibv_destroy_ah(ah), 0);
	attr.port_num = 9;
	REFUSED(ibv_create_ah(pd, &attr), EINVAL);
	/* The way back to a sender: its GID becomes the destination, ours is found in the table. */
	struct ibv_grh grh = { .next_hdr = 0x1b, .hop_limit = 64, .dgid = gid };
	struct ibv_wc wc = { .slid = port.lid, .sl = 3, .wc_flags = IBV_WC_GRH };
	const unsigned char version_class_flow[4] = { 0x61, 0x20, 0x00, 0x05 };

	memcpy(&grh.version_tclass_flow, version_class_flow, 4);
	grh.sgid.raw[15] = 77;
	EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), 0);
	CHECK(attr.is_global == 1 && attr.grh.dgid.raw[15] == 77 && attr.grh.sgid_index == 0);
	CHECK(attr.grh.flow_label == 5 && attr.grh.traffic_class == 0x12 && attr.sl == 3 && attr.dlid == port.lid);
	ah = ibv_create_ah_from_wc(pd, &wc, &grh, 1);
	CHECK(ah);
	EQ(ibv_destroy_ah(ah), 0);
	grh.dgid.raw[0] ^= 1;
	EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), -1);
	memset(&grh, 0, sizeof(grh));
	EQ(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr), -1);
	EQ(errno, EPROTONOSUPPORT);
	wc.wc_flags = 0;
	EQ(ibv_init_ah_from_wc(context, 1, &wc, NULL, &attr), 0);
	CHECK(!attr.is_global);
}

/* Another context of the same process, by a duplicate of the command descriptor. */
static void imports(void)
{
	static char bytes[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &dm_attr);
	struct ibv_context *second = ibv_import_device(dup(context->cmd_fd));

	CHECK(mr && dm && second && second != context && second->device == context->device);
	struct ibv_pd *pd2 = ibv_import_pd(second, pd->handle);

	CHECK(pd2 && pd2->context == second);
	struct ibv_mr *mr2 = ibv_import_mr(pd2, mr->handle);

	CHECK(mr2 && mr2->addr == NULL && mr2->length == 64 && mr2->lkey == mr->lkey && mr2->rkey == mr->rkey);
	struct ibv_dm *dm2 = ibv_import_dm(second, dm->handle);
	char in[4];

	CHECK(dm2);
	EQ(ibv_memcpy_to_dm(dm, 0, "abcd", 4), 0);
	EQ(ibv_memcpy_from_dm(in, dm2, 0, 4), 0);
	EQ(memcmp(in, "abcd", 4), 0);
	REFUSED(ibv_import_pd(second, 999999), ENOENT);
	REFUSED(ibv_import_mr(pd2, 999999), ENOENT);
	ibv_unimport_dm(dm2);
	ibv_unimport_mr(mr2);
	ibv_unimport_pd(pd2);
	EQ(ibv_close_device(second), 0);
	EQ(ibv_free_dm(dm), 0);
	EQ(ibv_dereg_mr(mr), 0);
	int null = open("/dev/null", O_RDWR);

	REFUSED(ibv_import_device(null), EINVAL);
	REFUSED(ibv_import_device(-1), EBADF);
	close(null);
}

/* pyverbs does so when the interpreter ends: what is left is given back after its device. */
static void closed_before_its_objects(void)
{
	static char bytes[64];
	struct ibv_context *closed = open_first();
	struct ibv_pd *domain = ibv_alloc_pd(closed);

	CHECK(domain);
	struct ibv_mr *mr = ibv_reg_mr(domain, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);

	CHECK(mr);
	EQ(ibv_close_device(closed), 0);
	/* what was freed is used for something else */
	void *others[128];

	for (int other = 0; other < 128; other++) {
		others[other] = malloc(16 * (other + 1));
		memset(others[other], 0x55, 16 * (other + 1));
	}
	EQ(ibv_dealloc_pd(domain), EBUSY);
	EQ(ibv_dereg_mr(mr), 0);
	EQ(ibv_dealloc_pd(domain), 0);
	for (int other = 0; other < 128; other++)
		free(others[other]);
}

int main(void)
{
	context = open_first();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	domains();
	regions();
	windows();
	device_memory();
	completion_queues();
	receive_queues();
	queue_pairs();
	address_handles();
	imports();
	closed_before_its_objects();
	/* Everything was given back: the domain has no users left. */
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(ibv_close_device(context), 0);
	REFUSED(ibv_alloc_pd(NULL), EINVAL);
	return 0;
}
