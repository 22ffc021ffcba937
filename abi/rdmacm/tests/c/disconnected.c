/*
 * A server that disconnects, in a process of its own, and a client that posts a request after it has heard of that: status 12.
 */
#include "cm.h"

#include <sys/wait.h>

static struct rdma_conn_param wish = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 1 };

static void serve(int tell)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listening = listener(channel, RDMA_PS_TCP, NULL), *id;
	struct ibv_qp_init_attr init = attributes(IBV_QPT_RC);
	int port = ntohs(rdma_get_src_port(listening));

	EQ(write(tell, &port, sizeof(port)), (ssize_t)sizeof(port));
	struct rdma_cm_event *request = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = request->id;
	EQ(rdma_ack_cm_event(request), 0);
	EQ(rdma_create_qp(id, NULL, &init), 0);
	EQ(rdma_accept(id, &wish), 0);
	expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	EQ(rdma_disconnect(id), 0);
	/* until the client has done with it */
	expect_and_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_ep(id);
	EQ(rdma_destroy_id(listening), 0);
	rdma_destroy_event_channel(channel);
}

static void ask(int told)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr init = attributes(IBV_QPT_RC);
	char text[16] = "too late";
	struct ibv_wc wc;
	int port = 0;

	EQ(read(told, &port, sizeof(port)), (ssize_t)sizeof(port));
	struct rdma_cm_id *id = caller(channel, RDMA_PS_TCP, port, NULL);
	EQ(rdma_create_qp(id, NULL, &init), 0);
	EQ(rdma_connect(id, &wish), 0);
	expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
	expect_and_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
	struct ibv_mr *mr = rdma_reg_msgs(id, text, sizeof(text));
	CHECK(mr);
	EQ(rdma_post_send(id, NULL, text, sizeof(text), mr, 0), 0);
	while (ibv_poll_cq(id->send_cq, 1, &wc) == 0)
		;
	EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
	EQ(rdma_disconnect(id), 0);
	EQ(rdma_dereg_mr(mr), 0);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	int ends[2], status;

	EQ(pipe(ends), 0);
	pid_t server = fork();
	CHECK(server >= 0);
	if (!server) {
		serve(ends[1]);
		return 0;
	}
	ask(ends[0]);
	EQ(waitpid(server, &status, 0), server);
	EQ(status, 0);
	return 0;
}
