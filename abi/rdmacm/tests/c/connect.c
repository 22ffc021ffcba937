/*
 * Connections with event channels: both sides' steps and fields, data over the queue pairs, refusal, end, a program's own queue
 * pair, an answer that does not fit, and the waiting for acknowledgements.
 */
#include "cm.h"

static int context_a, context_l;

/* A SEND from one identifier to the other, through the inlined functions of rdma_verbs.h. */
static void exchange(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	char out[16] = "from one to two", in[16] = "";
	struct ibv_mr *out_mr = rdma_reg_msgs(from, out, sizeof(out));
	struct ibv_mr *in_mr = rdma_reg_msgs(to, in, sizeof(in));
	struct ibv_wc wc;

	CHECK(out_mr && in_mr);
	EQ(rdma_post_recv(to, in, in, sizeof(in), in_mr), 0);
	EQ(rdma_post_send(from, out, out, sizeof(out), out_mr, 0), 0);
	EQ(rdma_get_send_comp(from, &wc), 1);
	EQ(wc.status, IBV_WC_SUCCESS);
	EQ(rdma_get_recv_comp(to, &wc), 1);
	EQ(wc.status, IBV_WC_SUCCESS);
	CHECK(wc.wr_id == (uintptr_t)in);
	EQ(strcmp(in, out), 0);
	EQ(rdma_dereg_mr(out_mr), 0);
	EQ(rdma_dereg_mr(in_mr), 0);
}

static void check_request(struct rdma_cm_event *event, struct rdma_cm_id *listening, struct rdma_cm_id *active)
{
	struct rdma_cm_id *id = event->id;

	CHECK(event->listen_id == listening);
	CHECK(id != listening && id->context == &context_l);
	CHECK(id->channel == listening->channel);
	EQ(id->ps, RDMA_PS_TCP);
	EQ(id->qp_type, IBV_QPT_RC);
	EQ(id->port_num, 1);
	CHECK(id->verbs == active->verbs && id->pd && !id->qp && !id->event);
	EQ(event->status, 0);
	EQ(event->param.conn.responder_resources, 3);
	EQ(event->param.conn.initiator_depth, 2);
	EQ(event->param.conn.qp_num, active->qp->qp_num);
	EQ(event->param.conn.private_data_len, 56);
	EQ(memcmp(event->param.conn.private_data, "hello", 5), 0);
	EQ(rdma_get_src_port(id), rdma_get_src_port(listening));
	EQ(rdma_get_dst_port(id), rdma_get_src_port(active));
}

static void check_route(struct rdma_cm_id *id, int port)
{
	CHECK(id->verbs && id->pd && id->context == &context_a);
	EQ(id->port_num, 1);
	EQ(id->route.num_paths, 1);
	CHECK(id->route.path_rec);
	EQ(id->route.path_rec->mtu_selector, 2);
	CHECK(id->route.path_rec->mtu >= IBV_MTU_256);
	EQ(id->route.path_rec->pkey, 0xffff);
	EQ(memcmp(&id->route.path_rec->sgid, &id->route.addr.addr.ibaddr.sgid, 16), 0);
	EQ(id->route.addr.addr.ibaddr.pkey, 0xffff);
	EQ(rdma_get_dst_port(id), htons(port));
	EQ(rdma_get_local_addr(id)->sa_family, AF_INET);
	EQ(rdma_get_peer_addr(id)->sa_family, AF_INET);
}

/* Runs up to the listener's CONNECT_REQUEST, which the caller acknowledges. */
static struct rdma_cm_event *ask(struct rdma_event_channel *channel, struct rdma_cm_id *listening,
				 struct rdma_cm_id **active, struct rdma_event_channel *listens_on)
{
	struct rdma_conn_param param = { .private_data = "hello", .private_data_len = 5, .responder_resources = 2,
					 .initiator_depth = 3, .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);
	int port = ntohs(rdma_get_src_port(listening));

	*active = caller(channel, RDMA_PS_TCP, port, &context_a);
	check_route(*active, port);
	EQ(rdma_create_qp(*active, NULL, &attr), 0);
	CHECK(attr.send_cq == (*active)->send_cq && attr.recv_cq == (*active)->recv_cq);
	CHECK((*active)->send_cq_channel && (*active)->recv_cq_channel);
	EQ(state_of((*active)->qp), IBV_QPS_INIT);
	REFUSED(rdma_create_qp(*active, NULL, &attr), EINVAL);
	EQ(rdma_connect(*active, &param), 0);
	return expect(listens_on, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void accepted(struct rdma_event_channel *a, struct rdma_event_channel *l, struct rdma_cm_id *listening)
{
	struct rdma_conn_param param = { .private_data = "welcome", .private_data_len = 7,
					 .responder_resources = RDMA_MAX_RESP_RES,
					 .initiator_depth = RDMA_MAX_INIT_DEPTH };
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr state;
	struct rdma_cm_event *event;
	struct rdma_cm_id *active, *passive;

	event = ask(a, listening, &active, l);
	check_request(event, listening, active);
	passive = event->id;
	EQ(rdma_ack_cm_event(event), 0);
	EQ(rdma_create_qp(passive, NULL, &attr), 0);
	EQ(rdma_accept(passive, &param), 0);
	EQ(state_of(passive->qp), IBV_QPS_RTS);
	EQ(ibv_query_qp(passive->qp, &state, 0, &init), 0);
	EQ(state.max_dest_rd_atomic, 3);
	EQ(state.max_rd_atomic, 2);

	event = expect(a, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == active && !event->listen_id);
	EQ(event->status, 0);
	EQ(memcmp(event->param.conn.private_data, "welcome", 7), 0);
	EQ(event->param.conn.qp_num, passive->qp->qp_num);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(state_of(active->qp), IBV_QPS_RTS);
	event = expect(l, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(event->id == passive);
	EQ(rdma_ack_cm_event(event), 0);
	exchange(active, passive);
	exchange(passive, active);

	EQ(rdma_disconnect(active), 0);
	EQ(state_of(active->qp), IBV_QPS_ERR);
	expect_and_ack(l, RDMA_CM_EVENT_DISCONNECTED);
	EQ(rdma_disconnect(passive), 0);
	expect_and_ack(a, RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(active);
	CHECK(!active->qp && !active->send_cq && !active->recv_cq_channel);
	rdma_destroy_qp(passive);
	EQ(rdma_destroy_id(active), 0);
	EQ(rdma_destroy_id(passive), 0);
}

static void refused(struct rdma_event_channel *a, struct rdma_event_channel *l, struct rdma_cm_id *listening)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *active;

	event = ask(a, listening, &active, l);
	EQ(rdma_reject(event->id, "no", 2), 0);
	EQ(rdma_destroy_id(event->id), 0);
	EQ(rdma_ack_cm_event(event), 0);
	event = expect(a, RDMA_CM_EVENT_REJECTED);
	EQ(event->status, 28);
	CHECK(event->param.conn.private_data_len >= 2);
	EQ(memcmp(event->param.conn.private_data, "no", 2), 0);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(state_of(active->qp), IBV_QPS_ERR);
	rdma_destroy_qp(active);
	EQ(rdma_destroy_id(active), 0);
}

/* A port where nobody listens. */
static void nobody(struct rdma_event_channel *a)
{
	struct rdma_conn_param param = { .qp_num = 77, .retry_count = 7 };
	struct rdma_cm_id *active = caller(a, RDMA_PS_TCP, 9, NULL);
	struct rdma_cm_event *event;

	EQ(rdma_connect(active, &param), 0);
	event = expect(a, RDMA_CM_EVENT_REJECTED);
	EQ(event->status, 8);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(rdma_destroy_id(active), 0);
}

/* A program with a queue pair of its own moves it itself. */
static void own_queue_pair(struct rdma_event_channel *a, struct rdma_event_channel *l, struct rdma_cm_id *listening)
{
	struct rdma_conn_param param = { .qp_num = 4711, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *active = caller(a, RDMA_PS_TCP, ntohs(rdma_get_src_port(listening)), NULL), *passive;
	struct ibv_ece ece = { .vendor_id = 0x123456, .options = 5 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct rdma_cm_event *event;
	int mask = 0;

	EQ(rdma_set_local_ece(active, &ece), 0);
	EQ(rdma_connect(active, &param), 0);
	event = expect(l, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	EQ(event->param.conn.qp_num, 4711);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(rdma_get_remote_ece(passive, &ece), 0);
	EQ(ece.vendor_id, 0x123456);
	EQ(ece.options, 5);
	ece.options = 1;
	EQ(rdma_set_local_ece(passive, &ece), 0);
	param.qp_num = 4712;
	EQ(rdma_accept(passive, &param), 0);
	event = expect(a, RDMA_CM_EVENT_CONNECT_RESPONSE);
	EQ(event->param.conn.qp_num, 4712);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(rdma_get_remote_ece(active, &ece), 0);
	EQ(ece.options, 1);
	EQ(rdma_init_qp_attr(active, &attr, &mask), 0);
	EQ(attr.dest_qp_num, 4712);
	CHECK(mask & IBV_QP_DEST_QPN);
	EQ(rdma_establish(active), 0);
	expect_and_ack(l, RDMA_CM_EVENT_ESTABLISHED);
	EQ(rdma_destroy_id(active), 0);
	expect_and_ack(l, RDMA_CM_EVENT_DISCONNECTED);
	EQ(rdma_destroy_id(passive), 0);
}

/* An identifier goes only when its events are acknowledged, and moves only then. */
static void acknowledgements(struct rdma_event_channel *a)
{
	struct rdma_event_channel *b = rdma_create_event_channel();
	struct sockaddr_in in = address("127.0.0.1", 9);
	struct rdma_cm_event *event, *none;
	struct rdma_cm_id *id;
	pthread_t thread;
	double start;

	CHECK(b);
	EQ(rdma_create_id(a, &id, NULL, RDMA_PS_TCP), 0);
	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000), 0);
	event = expect(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	EQ(rdma_resolve_route(id, 2000), 0);
	EQ(pthread_create(&thread, NULL, ack_late, event), 0);
	start = now();
	EQ(rdma_migrate_id(id, b), 0);
	CHECK(now() - start > 0.04);
	EQ(pthread_join(thread, NULL), 0);
	CHECK(id->channel == b);
	EQ(fcntl(a->fd, F_SETFL, fcntl(a->fd, F_GETFL) | O_NONBLOCK), 0);
	REFUSED(rdma_get_cm_event(a, &none), EAGAIN);
	EQ(fcntl(a->fd, F_SETFL, fcntl(a->fd, F_GETFL) & ~O_NONBLOCK), 0);
	event = expect(b, RDMA_CM_EVENT_ROUTE_RESOLVED);
	EQ(pthread_create(&thread, NULL, ack_late, event), 0);
	start = now();
	EQ(rdma_destroy_id(id), 0);
	CHECK(now() - start > 0.04);
	EQ(pthread_join(thread, NULL), 0);
	rdma_destroy_event_channel(b);
}

/* The answer cannot be applied to the queue pair: the connection fails, and its rejection is not told twice. */
static void unfit(struct rdma_event_channel *a, struct rdma_event_channel *l, struct rdma_cm_id *listening)
{
	struct rdma_conn_param param = { .private_data = "unfit", .private_data_len = 5, .qp_num = 1 };
	struct rdma_cm_event *event;
	struct rdma_cm_id *active, *passive;

	event = ask(a, listening, &active, l);
	passive = event->id;
	EQ(rdma_ack_cm_event(event), 0);
	EQ(rdma_accept(passive, &param), 0);
	event = expect(a, RDMA_CM_EVENT_CONNECT_ERROR);
	EQ(event->status, -EINVAL);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(state_of(active->qp), IBV_QPS_ERR);
	EQ(rdma_reject(passive, NULL, 0), 0);
	EQ(rdma_destroy_id(passive), 0);
	EQ(fcntl(a->fd, F_SETFL, fcntl(a->fd, F_GETFL) | O_NONBLOCK), 0);
	REFUSED(rdma_get_cm_event(a, &event), EAGAIN);
	EQ(fcntl(a->fd, F_SETFL, fcntl(a->fd, F_GETFL) & ~O_NONBLOCK), 0);
	rdma_destroy_qp(active);
	EQ(rdma_destroy_id(active), 0);
}

static void devices(void)
{
	int count = -1;
	struct ibv_context **list = rdma_get_devices(&count);

	CHECK(list && count >= 1 && list[count - 1] && !list[count]);
	CHECK(ibv_get_device_name(list[0]->device));
	rdma_free_devices(list);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *a = rdma_create_event_channel();
	struct rdma_event_channel *l = rdma_create_event_channel();
	struct rdma_cm_id *listening;

	(void)argv;
	CHECK(a && l);
	devices();
	listening = listener(l, RDMA_PS_TCP, &context_l);
	accepted(a, l, listening);
	refused(a, l, listening);
	nobody(a);
	own_queue_pair(a, l, listening);
	acknowledgements(a);
	if (argc > 1)
		unfit(a, l, listening);
	EQ(rdma_destroy_id(listening), 0);
	rdma_destroy_event_channel(a);
	rdma_destroy_event_channel(l);
	return 0;
}
