/*
 * Synchronous identifiers and endpoints: each call waits for its event and turns a bad one into an errno.
 */
#include "cm.h"

static char served[8];
static int port;

static struct rdma_addrinfo *info(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *res = NULL;
	char service[8];

	snprintf(service, sizeof(service), "%d", port);
	EQ(rdma_getaddrinfo("127.0.0.1", service, &hints, &res), 0);
	CHECK(res);
	EQ(res->ai_qp_type, IBV_QPT_RC);
	EQ(res->ai_port_space, RDMA_PS_TCP);
	return res;
}

/* Takes one connection, says what it heard, waits for the end; then refuses one. */
static void *serve(void *listening)
{
	struct rdma_cm_id *id = NULL;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	EQ(rdma_get_request(listening, &id), 0);
	CHECK(id && id->qp && id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(id->event->listen_id == listening);
	CHECK(id->channel && id->channel != ((struct rdma_cm_id *)listening)->channel);
	mr = rdma_reg_msgs(id, served, sizeof(served));
	CHECK(mr);
	EQ(rdma_post_recv(id, NULL, served, sizeof(served), mr), 0);
	EQ(rdma_accept(id, NULL), 0);
	EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	EQ(rdma_get_recv_comp(id, &wc), 1);
	EQ(wc.status, IBV_WC_SUCCESS);
	EQ(rdma_dereg_mr(mr), 0);
	EQ(rdma_disconnect(id), 0);
	rdma_destroy_ep(id);

	EQ(rdma_get_request(listening, &id), 0);
	EQ(rdma_reject(id, NULL, 0), 0);
	rdma_destroy_ep(id);
	return NULL;
}

int main(void)
{
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);
	struct sockaddr_in far = address("192.0.2.1", 1);
	struct rdma_addrinfo *res = info(RAI_PASSIVE);
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listening = NULL, *id = NULL;
	char said[] = "served";
	struct ibv_mr *mr;
	struct ibv_wc wc;
	pthread_t server;

	CHECK(res->ai_src_addr && !res->ai_dst_addr);
	EQ(rdma_create_ep(&listening, res, NULL, &attr), 0);
	rdma_freeaddrinfo(res);
	CHECK(listening->verbs && !listening->qp);
	EQ(rdma_listen(listening, 0), 0);
	port = ntohs(rdma_get_src_port(listening));
	EQ(pthread_create(&server, NULL, serve, listening), 0);

	res = info(0);
	CHECK(!res->ai_src_addr && res->ai_dst_addr && res->ai_family == AF_INET);
	attr = attributes(IBV_QPT_RC);
	EQ(rdma_create_ep(&id, res, NULL, &attr), 0);
	CHECK(id->qp && id->route.num_paths == 1);
	EQ(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	EQ(rdma_connect(id, NULL), 0);
	EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	mr = rdma_reg_msgs(id, said, sizeof(said));
	CHECK(mr);
	EQ(rdma_post_send(id, NULL, said, sizeof(said), mr, 0), 0);
	EQ(rdma_get_send_comp(id, &wc), 1);
	EQ(wc.status, IBV_WC_SUCCESS);
	EQ(rdma_dereg_mr(mr), 0);
	channel = rdma_create_event_channel();
	CHECK(channel);
	REFUSED(rdma_migrate_id(id, NULL), EINVAL);
	EQ(rdma_migrate_id(id, channel), 0);
	CHECK(!id->event && id->channel == channel);
	expect_and_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);

	attr = attributes(IBV_QPT_RC);
	EQ(rdma_create_ep(&id, res, NULL, &attr), 0);
	REFUSED(rdma_connect(id, NULL), ECONNREFUSED);
	EQ(id->event->status, 28);
	EQ(state_of(id->qp), IBV_QPS_ERR);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
	EQ(pthread_join(server, NULL), 0);
	EQ(strcmp(served, "served"), 0);
	rdma_destroy_ep(listening);

	EQ(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	REFUSED(rdma_get_request(id, NULL), EINVAL);
	if (getenv("FERRIBAND_TEST_UNREACHABLE"))
		REFUSED(rdma_resolve_addr(id, NULL, (struct sockaddr *)&far, 500), ENETUNREACH);
	EQ(rdma_destroy_id(id), 0);
	return 0;
}
