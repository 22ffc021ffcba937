/* Datagrams with Q_Keys of choice.
 * datagrams: makes a queue pair with Q_Key 0x11111111, says its LID and number, and waits for one datagram; prints the immediate data that came.
 * datagrams LID QPN: sends it one with another Q_Key and immediate data 1, then one with its own and 2. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#define QKEY 0x11111111
#define CHECK(what) if (!(what)) { fprintf(stderr, "%s failed\n", #what); return 1; }

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK(context);
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(context, 1, &port));
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	CHECK(pd && cq);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	static char room[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, room, sizeof room, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	struct ibv_sge sge = {.addr = (uintptr_t)room, .length = sizeof room, .lkey = mr->lkey};
	struct ibv_wc wc;
	if (argc < 3) {
		struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad;
		CHECK(!ibv_post_recv(qp, &recv, &bad));
		printf("%u %u\n", port.lid, qp->qp_num);
		fflush(stdout);
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			;
		CHECK(wc.status == IBV_WC_SUCCESS);
		printf("%u\n", ntohl(wc.imm_data));
		return 0;
	}
	struct ibv_ah_attr to = {.dlid = atoi(argv[1]), .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	CHECK(ah);
	for (int i = 1; i <= 2; i++) {
		struct ibv_send_wr send = {
			.num_sge = 0, .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(i),
			.wr.ud = {.ah = ah, .remote_qpn = atoi(argv[2]), .remote_qkey = i == 1 ? 0x22222222 : QKEY},
		}, *bad;
		CHECK(!ibv_post_send(qp, &send, &bad));
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			;
		CHECK(wc.status == IBV_WC_SUCCESS);
	}
	return 0;
}
