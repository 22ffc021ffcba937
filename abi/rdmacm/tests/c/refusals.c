/*
 * What is refused, and how; and what needs no connection.
 */
#include "cm.h"
#include <infiniband/ib.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rsocket.h>

static void identifiers(struct rdma_event_channel *channel)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	struct sockaddr unknown = { .sa_family = AF_UNIX };
	struct ibv_ece ece = { .vendor_id = 0 };
	struct rdma_conn_param param = { .qp_num = 1 };
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);
	struct ibv_qp_attr state = { .qp_state = IBV_QPS_INIT };
	struct rdma_cm_id *id;
	int value = 1;

	REFUSED(rdma_create_id(channel, &id, NULL, 0x7777), EINVAL);
	REFUSED(rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP), EINVAL);
	REFUSED(rdma_destroy_id(NULL), EINVAL);
	REFUSED(rdma_ack_cm_event(NULL), EINVAL);
	REFUSED(rdma_get_cm_event(channel, NULL), EINVAL);
	EQ(rdma_create_id(channel, &id, channel, RDMA_PS_TCP), 0);
	CHECK(id->channel == channel && id->context == channel && !id->verbs && !id->qp);
	EQ(id->qp_type, IBV_QPT_RC);
	REFUSED(rdma_bind_addr(id, NULL), EINVAL);
	REFUSED(rdma_bind_addr(id, &unknown), EINVAL);
	REFUSED(rdma_resolve_addr(id, NULL, NULL, 100), EINVAL);
	REFUSED(rdma_resolve_addr(id, &unknown, (struct sockaddr *)&in, 100), EINVAL);
	REFUSED(rdma_resolve_route(id, 100), EINVAL);
	REFUSED(rdma_connect(id, &param), EINVAL);
	REFUSED(rdma_accept(id, &param), EINVAL);
	REFUSED(rdma_accept(id, NULL), EINVAL);
	REFUSED(rdma_reject(id, NULL, 0), EINVAL);
	REFUSED(rdma_disconnect(id), EINVAL);
	REFUSED(rdma_create_qp(id, NULL, &attr), EINVAL);
	REFUSED(rdma_create_srq(id, NULL, NULL), EINVAL);
	REFUSED(rdma_init_qp_attr(id, &state, NULL), EINVAL);
	REFUSED(rdma_set_local_ece(id, &ece), EINVAL);
	REFUSED(rdma_get_remote_ece(id, NULL), EINVAL);
	REFUSED(rdma_get_request(id, &id), EINVAL);
	REFUSED(rdma_set_option(id, 9, 9, &value, sizeof(value)), ENOSYS);
	EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &value, sizeof(value)), 0);
	EQ(rdma_get_src_port(id), 0);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
	CHECK(id->verbs && id->pd);
	CHECK(rdma_get_src_port(id) != 0);
	REFUSED(rdma_create_srq(id, NULL, NULL), EINVAL);
	EQ(rdma_destroy_id(id), 0);
}

static void receive_queues(struct rdma_event_channel *channel)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);
	struct sockaddr_in in = address("127.0.0.1", 0);
	struct rdma_cm_id *id;

	EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
	EQ(rdma_create_srq(id, NULL, &srq), 0);
	CHECK(id->srq && srq.attr.max_wr >= 4);
	EQ(rdma_create_qp(id, NULL, &attr), 0);
	CHECK(id->qp->srq == id->srq && attr.srq == id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	CHECK(!id->srq);
	EQ(rdma_destroy_id(id), 0);
}

static void names(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST | RAI_FAMILY, .ai_family = AF_IB,
				       .ai_port_space = RDMA_PS_IB };
	struct sockaddr_in in = address("10.1.2.3", 4);
	struct rdma_addrinfo *res = NULL;
	struct sockaddr_ib *sib;

	REFUSED(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	EQ(rdma_getaddrinfo("not a name", "1", &hints, &res), EAI_NONAME);
	EQ(rdma_getaddrinfo("fe80::1", "7174", &hints, &res), 0);
	EQ(res->ai_family, AF_IB);
	EQ(res->ai_dst_len, sizeof(*sib));
	sib = (struct sockaddr_ib *)res->ai_dst_addr;
	EQ(sib->sib_family, AF_IB);
	EQ(sib->sib_addr.sib_raw[0], 0xfe);
	EQ(sib->sib_addr.sib_raw[15], 1);
	EQ(be64toh(sib->sib_sid), 0x13f0000 + 7174);
	EQ(be64toh(sib->sib_sid_mask), ~0ull);
	rdma_freeaddrinfo(res);

	EQ(rdma_getaddrinfo("10.0.0.1", "7", NULL, &res), 0);
	EQ(res->ai_family, AF_INET);
	EQ(res->ai_qp_type, IBV_QPT_RC);
	EQ(res->ai_port_space, RDMA_PS_TCP);
	CHECK(!res->ai_next && !res->ai_src_addr);
	EQ(((struct sockaddr_in *)res->ai_dst_addr)->sin_port, htons(7));
	rdma_freeaddrinfo(res);

	/* Without a name the hints are copied. */
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NOROUTE, .ai_qp_type = IBV_QPT_UD, .ai_port_space = RDMA_PS_UDP,
					.ai_src_addr = (struct sockaddr *)&in, .ai_src_len = sizeof(in),
					.ai_dst_addr = (struct sockaddr *)&in, .ai_dst_len = sizeof(in) };
	EQ(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	EQ(res->ai_qp_type, IBV_QPT_UD);
	CHECK(res->ai_src_addr != hints.ai_src_addr && res->ai_dst_addr != hints.ai_dst_addr);
	EQ(memcmp(res->ai_src_addr, &in, sizeof(in)), 0);
	EQ(memcmp(res->ai_dst_addr, &in, sizeof(in)), 0);
	rdma_freeaddrinfo(res);
	rdma_freeaddrinfo(NULL);

	EQ(strcmp(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED"), 0);
	EQ(strcmp(rdma_event_str(RDMA_CM_EVENT_UNREACHABLE), "RDMA_CM_EVENT_UNREACHABLE"), 0);
	EQ(strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"), 0);
	EQ(strcmp(rdma_event_str(20), "UNKNOWN EVENT"), 0);
}

static void sockets(void)
{
	struct pollfd poll = { .events = POLLIN };
	struct timeval soon = { 0 };
	int ends[2];
	fd_set set;

	REFUSED(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	EQ(pipe(ends), 0);
	REFUSED(rclose(ends[0]), EBADF);
	REFUSED(rsend(ends[0], "x", 1, 0), EBADF);
	EQ(riomap(ends[0], &ends, 8, 0, 0, -1), -1);
	poll.fd = ends[0];
	EQ(rpoll(&poll, 1, 0), 0);
	EQ(write(ends[1], "x", 1), 1);
	EQ(rpoll(&poll, 1, 0), 1);
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	EQ(rselect(ends[0] + 1, &set, NULL, NULL, &soon), 1);
}

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	CHECK(channel && channel->fd >= 0);
	identifiers(channel);
	receive_queues(channel);
	rdma_destroy_event_channel(channel);
	names();
	sockets();
	return 0;
}
