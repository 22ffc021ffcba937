/*
 * Datagram services, and multicast groups.
 */
#include "cm.h"

static void service(struct rdma_event_channel *a, struct rdma_event_channel *l)
{
	struct rdma_conn_param param = { .private_data = "who", .private_data_len = 3 };
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_UD);
	struct rdma_cm_id *listening = listener(l, RDMA_PS_UDP, NULL), *active, *passive;
	char out[8] = "to you", in[48] = "";
	struct ibv_mr *out_mr, *in_mr;
	struct rdma_cm_event *event;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	active = caller(a, RDMA_PS_UDP, ntohs(rdma_get_src_port(listening)), NULL);
	EQ(active->qp_type, IBV_QPT_UD);
	EQ(rdma_create_qp(active, NULL, &attr), 0);
	EQ(state_of(active->qp), IBV_QPS_RTS);
	EQ(rdma_connect(active, &param), 0);
	event = expect(l, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	CHECK(event->listen_id == listening && passive->qp_type == IBV_QPT_UD);
	EQ(memcmp(event->param.ud.private_data, "who", 3), 0);
	EQ(rdma_ack_cm_event(event), 0);
	attr = attributes(IBV_QPT_UD);
	EQ(rdma_create_qp(passive, NULL, &attr), 0);
	in_mr = rdma_reg_msgs(passive, in, sizeof(in));
	EQ(rdma_post_recv(passive, NULL, in, sizeof(in), in_mr), 0);
	EQ(rdma_accept(passive, NULL), 0);
	event = expect(a, RDMA_CM_EVENT_ESTABLISHED);
	EQ(event->param.ud.qp_num, passive->qp->qp_num);
	EQ(event->param.ud.qkey, RDMA_UDP_QKEY);
	ah = ibv_create_ah(active->pd, &event->param.ud.ah_attr);
	CHECK(ah);
	out_mr = rdma_reg_msgs(active, out, sizeof(out));
	EQ(rdma_post_ud_send(active, NULL, out, sizeof(out), out_mr, 0, ah, event->param.ud.qp_num), 0);
	EQ(rdma_get_send_comp(active, &wc), 1);
	EQ(wc.status, IBV_WC_SUCCESS);
	EQ(rdma_get_recv_comp(passive, &wc), 1);
	EQ(wc.byte_len, 40 + sizeof(out));
	EQ(strcmp(in + 40, out), 0);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(ibv_destroy_ah(ah), 0);
	EQ(rdma_dereg_mr(in_mr), 0);
	EQ(rdma_dereg_mr(out_mr), 0);
	rdma_destroy_qp(active);
	rdma_destroy_qp(passive);
	EQ(rdma_destroy_id(active), 0);
	EQ(rdma_destroy_id(passive), 0);
	EQ(rdma_destroy_id(listening), 0);
}

static void groups(struct rdma_event_channel *a)
{
	struct sockaddr_in local = address("127.0.0.1", 0), first = address("239.1.2.3", 0);
	struct sockaddr_in second = address("239.1.2.4", 0);
	struct rdma_cm_join_mc_attr_ex join = { .addr = (struct sockaddr *)&second,
						.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER };
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_UD);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	union ibv_gid gid;
	uint16_t lid;

	EQ(rdma_create_id(a, &id, NULL, RDMA_PS_UDP), 0);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&local), 0);
	EQ(rdma_create_qp(id, NULL, &attr), 0);
	EQ(rdma_join_multicast(id, (struct sockaddr *)&first, &first), 0);
	event = expect(a, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(event->id == id && event->param.ud.private_data == &first);
	EQ(event->status, 0);
	EQ(event->param.ud.qp_num, 0xffffff);
	gid = event->param.ud.ah_attr.grh.dgid;
	lid = event->param.ud.ah_attr.dlid;
	EQ(rdma_ack_cm_event(event), 0);
	REFUSED(rdma_leave_multicast(id, (struct sockaddr *)&second), EADDRNOTAVAIL);
	/* The library attached the queue pair: it can be detached once. */
	EQ(ibv_detach_mcast(id->qp, &gid, lid), 0);
	CHECK(ibv_detach_mcast(id->qp, &gid, lid) != 0);
	EQ(ibv_attach_mcast(id->qp, &gid, lid), 0);
	EQ(rdma_leave_multicast(id, (struct sockaddr *)&first), 0);
	CHECK(ibv_detach_mcast(id->qp, &gid, lid) != 0);
	REFUSED(rdma_leave_multicast(id, (struct sockaddr *)&first), EADDRNOTAVAIL);

	REFUSED(rdma_join_multicast_ex(id, &join, NULL), EINVAL);
	join.comp_mask = 4;
	REFUSED(rdma_join_multicast_ex(id, &join, NULL), EOPNOTSUPP);
	join.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	EQ(rdma_join_multicast_ex(id, &join, NULL), 0);
	event = expect(a, RDMA_CM_EVENT_MULTICAST_JOIN);
	gid = event->param.ud.ah_attr.grh.dgid;
	EQ(rdma_ack_cm_event(event), 0);
	/* One that only sends is not attached. */
	CHECK(ibv_detach_mcast(id->qp, &gid, lid) != 0);
	rdma_destroy_qp(id);
	EQ(rdma_destroy_id(id), 0);
}

/* Leaving a group waits for the acknowledgement of its events, and so does destroying the identifier. */
static void acknowledgements(struct rdma_event_channel *a, int leaves)
{
	struct sockaddr_in local = address("127.0.0.1", 0), group = address("239.1.2.5", 0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;
	double start;

	EQ(rdma_create_id(a, &id, NULL, RDMA_PS_UDP), 0);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&local), 0);
	EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	expect_and_ack(a, RDMA_CM_EVENT_MULTICAST_JOIN);
	EQ(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	event = expect(a, RDMA_CM_EVENT_MULTICAST_JOIN);
	start = now();
	EQ(pthread_create(&thread, NULL, ack_late, event), 0);
	if (leaves)
		EQ(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	else
		EQ(rdma_destroy_id(id), 0);
	CHECK(now() - start > 0.04);
	EQ(pthread_join(thread, NULL), 0);
	if (leaves)
		EQ(rdma_destroy_id(id), 0);
}

/* A group's acknowledged event does not stand in for one of the identifier's that is not. */
static void no_confusion(struct rdma_event_channel *a)
{
	struct sockaddr_in in = address("127.0.0.1", 9), group = address("239.1.2.6", 0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;
	double start;

	EQ(rdma_create_id(a, &id, NULL, RDMA_PS_UDP), 0);
	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000), 0);
	event = expect(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	expect_and_ack(a, RDMA_CM_EVENT_MULTICAST_JOIN);
	start = now();
	EQ(pthread_create(&thread, NULL, ack_late, event), 0);
	EQ(rdma_destroy_id(id), 0);
	CHECK(now() - start > 0.04);
	EQ(pthread_join(thread, NULL), 0);
}

int main(void)
{
	struct rdma_event_channel *a = rdma_create_event_channel();
	struct rdma_event_channel *l = rdma_create_event_channel();

	CHECK(a && l);
	service(a, l);
	groups(a);
	acknowledgements(a, 1);
	acknowledgements(a, 0);
	no_confusion(a);
	rdma_destroy_event_channel(a);
	rdma_destroy_event_channel(l);
	return 0;
}
