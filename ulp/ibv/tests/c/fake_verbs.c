/*
 * A libibverbs that does nothing but write down who called what: for testing the order of calls, the versions asked for, and what
 * becomes of objects that cannot be destroyed. Built several times, with other things missing.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[1 << 16];
static size_t used;
static char busy[64];

/* What was called since the last question, one line each. */
const char *fake_log(void)
{
	static char answer[sizeof(text)];

	memcpy(answer, text, used + 1);
	used = 0;
	text[0] = 0;
	return answer;
}

/* This kind of object is busy from now on. */
void fake_busy(const char *kind)
{
	snprintf(busy, sizeof(busy), "%s", kind);
}

static void told(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	used += (size_t)vsnprintf(text + used, sizeof(text) - used, format, list);
	va_end(list);
	used += (size_t)snprintf(text + used, sizeof(text) - used, "\n");
}

static int destroyed(const char *kind)
{
	told("-%s", kind);
	return strcmp(kind, busy) ? 0 : EBUSY;
}

static struct ibv_device device = { .name = "fake0" };
static struct verbs_context whole;
static struct ibv_context *opened;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		/* identifiers from 100 on are refused, as by a full queue */
		if (wr->wr_id >= 100) {
			*bad = wr;
			return ENOMEM;
		}
		told("send %llu opcode %d flags %u sges %d imm %u next %d on %u", (unsigned long long)wr->wr_id,
		     wr->opcode, wr->send_flags, wr->num_sge, be32toh(wr->imm_data), wr->next != NULL, qp->qp_num);
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		if (wr->wr_id >= 100) {
			*bad = wr;
			return ENOMEM;
		}
		told("recv %llu on %u", (unsigned long long)wr->wr_id, qp->qp_num);
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	(void)cq;
	for (int i = 0; i < count; i++)
		wc[i] = (struct ibv_wc){ .wr_id = (uint64_t)i, .status = i ? 99 : IBV_WC_SUCCESS };
	return count < 3 ? count : -EIO;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	told("notify %d", solicited);
	return 0;
}

struct ibv_device **fake_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
	*count = 1;
	told("+list");
	return list;
}

void fake_free_device_list(struct ibv_device **list)
{
	free(list);
	told("-list");
}

const char *fake_get_device_name(struct ibv_device *d) { return d->name; }
__be64 fake_get_device_guid(struct ibv_device *d) { (void)d; return htobe64(0x0102030405060708ull); }

struct ibv_context *fake_open_device(struct ibv_device *d)
{
	opened = &whole.context;
	whole.sz = sizeof(whole);
	opened->device = d;
	opened->async_fd = -1;
#ifndef WITHOUT_EXTENDED
	opened->abi_compat = (void *)UINTPTR_MAX;
#endif
	opened->ops = (struct ibv_context_ops){ .post_send = post_send, .post_recv = post_recv, .poll_cq = poll_cq,
						.req_notify_cq = req_notify_cq };
	told("+context");
	return opened;
}

int fake_close_device(struct ibv_context *c) { (void)c; return destroyed("context"); }

int fake_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	(void)c;
	memset(attr, 0, sizeof(*attr));
	attr->max_qp = 7;
	attr->device_cap_flags = IBV_DEVICE_XRC;
	told("query_device");
	return 0;
}

/* As old libraries do: the fields that came later are not touched. */
int fake_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr)
{
	(void)c;
	if (port != 1)
		return EINVAL;
	attr->state = IBV_PORT_ACTIVE;
	attr->lid = 5;
	return 0;
}

int fake_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	(void)c;
	(void)port;
	if (index) {
		errno = ENODATA;
		return -1;
	}
	memset(gid, 0xfe, sizeof(*gid));
	return 0;
}

int fake_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	(void)c;
	(void)port;
	(void)index;
	*pkey = htobe16(0x8001);
	return 0;
}

static struct ibv_cq *last_cq;
static struct ibv_srq *last_srq;
static int events, cq_events;

int fake_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	(void)c;
	if (events++) {
		errno = EAGAIN;
		return -1;
	}
	event->event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
	event->element.srq = last_srq;
	return 0;
}

void fake_ack_async_event(struct ibv_async_event *event) { told("ack %d", event->event_type); }

struct ibv_pd *fake_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = c;
	told("+pd");
	return pd;
}

int fake_dealloc_pd(struct ibv_pd *pd) { (void)pd; return destroyed("pd"); }

static struct ibv_mr *registered(struct ibv_pd *pd, int access, const char *by)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	mr->pd = pd;
	mr->lkey = 11;
	mr->rkey = 12;
	told("+mr by %s access %#x", by, access);
	return mr;
}

struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)addr;
	(void)length;
	return registered(pd, access, "reg_mr");
}

struct ibv_mr *fake_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	(void)length;
	if ((uintptr_t)addr != iova)
		abort();
	return registered(pd, (int)access, "iova2");
}

int fake_dereg_mr(struct ibv_mr *mr) { (void)mr; return destroyed("mr"); }

struct ibv_comp_channel *fake_create_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	channel->context = c;
	channel->fd = 0;
	told("+channel");
	return channel;
}

int fake_destroy_comp_channel(struct ibv_comp_channel *c) { (void)c; return destroyed("channel"); }

struct ibv_cq *fake_create_cq(struct ibv_context *c, int cqe, void *tag, struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	cq->context = c;
	cq->cq_context = tag;
	told("+cq %d channel %d vector %d", cqe, channel != NULL, vector);
	last_cq = cq;
	return cq;
}

int fake_destroy_cq(struct ibv_cq *cq) { (void)cq; return destroyed("cq"); }

/* The first question is interrupted, the second has an event, then there is none. */
int fake_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **tag)
{
	(void)channel;
	if (++cq_events != 2) {
		errno = cq_events == 1 ? EINTR : EAGAIN;
		return -1;
	}
	*cq = last_cq;
	*tag = last_cq->cq_context;
	return 0;
}

void fake_ack_cq_events(struct ibv_cq *cq, unsigned count) { told("ack cq %d %u", cq == last_cq, count); }

struct ibv_srq *fake_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = calloc(1, sizeof(*srq));

	srq->context = pd->context;
	srq->srq_context = attr->srq_context;
	told("+srq %u", attr->attr.max_wr);
	last_srq = srq;
	return srq;
}

int fake_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	(void)srq;
	told("limit %u mask %d", attr->srq_limit, mask);
	return 0;
}

int fake_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr) { (void)srq; (void)attr; return ENOSYS; }
int fake_destroy_srq(struct ibv_srq *srq) { (void)srq; return destroyed("srq"); }

struct ibv_qp *fake_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->qp_num = 77;
	qp->qp_type = attr->qp_type;
	attr->cap.max_inline_data = (attr->cap.max_inline_data + 63) / 64 * 64;
	told("+qp type %d srq %d", attr->qp_type, attr->srq != NULL);
	return qp;
}

int fake_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	told("modify to %d mask %#x", attr->qp_state, mask);
	return 0;
}

int fake_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)qp;
	(void)mask;
	(void)init;
	attr->qp_state = IBV_QPS_RTS;
	return 0;
}

int fake_destroy_qp(struct ibv_qp *qp) { (void)qp; return destroyed("qp"); }

struct ibv_ah *fake_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	ah->pd = pd;
	told("+ah %u global %u", attr->dlid, attr->is_global);
	return ah;
}

int fake_destroy_ah(struct ibv_ah *ah) { (void)ah; return destroyed("ah"); }
int fake_fork_init(void) { told("fork_init"); return 0; }

/* Blocks of 128 bytes in order, as one real adapter answers. */
int fake_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	return flags == 1 ? 2 : 0;
}

#define V(name, node) __asm__(".symver fake_" #name ",ibv_" #name "@@" #node)
/* A decoy under the old node: whoever binds without a version, or to the wrong one, is noticed. */
int decoy_open_device(void) { abort(); }
__asm__(".symver decoy_open_device,ibv_open_device@IBVERBS_1.0");
#ifdef OLD_NODE
V(open_device, IBVERBS_1.5);
#else
V(open_device, IBVERBS_1.1);
#endif
V(get_device_list, IBVERBS_1.1);
V(free_device_list, IBVERBS_1.1);
V(get_device_name, IBVERBS_1.1);
V(get_device_guid, IBVERBS_1.1);
V(close_device, IBVERBS_1.1);
V(query_device, IBVERBS_1.1);
V(query_gid, IBVERBS_1.1);
V(query_pkey, IBVERBS_1.1);
V(get_async_event, IBVERBS_1.1);
V(ack_async_event, IBVERBS_1.1);
V(alloc_pd, IBVERBS_1.1);
V(dealloc_pd, IBVERBS_1.1);
V(dereg_mr, IBVERBS_1.1);
V(create_comp_channel, IBVERBS_1.0);
V(destroy_comp_channel, IBVERBS_1.0);
V(create_cq, IBVERBS_1.1);
V(destroy_cq, IBVERBS_1.1);
V(get_cq_event, IBVERBS_1.1);
V(ack_cq_events, IBVERBS_1.1);
V(create_srq, IBVERBS_1.1);
V(modify_srq, IBVERBS_1.1);
V(query_srq, IBVERBS_1.1);
V(destroy_srq, IBVERBS_1.1);
V(create_qp, IBVERBS_1.1);
V(modify_qp, IBVERBS_1.1);
V(query_qp, IBVERBS_1.1);
V(destroy_qp, IBVERBS_1.1);
V(create_ah, IBVERBS_1.1);
V(destroy_ah, IBVERBS_1.1);
V(fork_init, IBVERBS_1.1);
__asm__(".symver fake_query_port,ibv_query_port@@IBVERBS_1.1");
__asm__(".symver fake_reg_mr,ibv_reg_mr@@IBVERBS_1.1");
#ifndef WITHOUT_OPTIONAL
V(reg_mr_iova2, IBVERBS_1.8);
V(query_qp_data_in_order, IBVERBS_1.14);
#endif
