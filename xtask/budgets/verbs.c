/* What posting and polling of 8 bytes take: two RC queue pairs of one process, connected with one
 * another, and one message after the other. Callgrind counts what happens within `measured_*`; each
 * call is a dump of its own, whose trigger is the name of what was measured.
 *
 * verbs DEVICE MESSAGES */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

#define BYTES 8

static void require(int is_true, const char *what)
{
    if (!is_true) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

struct side {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
};

static char memory[2][64];
static struct ibv_mr *region[2];

static void connect_to(struct side *side, struct ibv_context *context, struct ibv_port_attr *port, uint32_t peer)
{
    union ibv_gid gid;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    require(!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.dlid = port->lid;
    if (port->link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = 1;
        attr.ah_attr.grh.hop_limit = 64;
        require(!ibv_query_gid(context, 1, 1, &gid), "ibv_query_gid");
        attr.ah_attr.grh.dgid = gid;
    }
    require(!ibv_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "RTR");
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 20;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    require(!ibv_modify_qp(side->qp, &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                               IBV_QP_MAX_QP_RD_ATOMIC),
            "RTS");
}

static __attribute__((noinline)) int measured_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    return ibv_post_send(qp, wr, &bad);
}

static __attribute__((noinline)) int measured_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
    struct ibv_recv_wr *bad;
    return ibv_post_recv(qp, wr, &bad);
}

/* One completion, and the polls in vain before it. */
static __attribute__((noinline)) int measured_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
    int found;
    while ((found = ibv_poll_cq(cq, 1, wc)) == 0)
        ;
    return found;
}

int main(int argc, char **argv)
{
    require(argc == 3, "usage: verbs DEVICE MESSAGES");
    int many;
    struct ibv_device **devices = ibv_get_device_list(&many);
    struct ibv_device *device = NULL;
    for (int i = 0; devices && i < many; i++)
        if (!strcmp(ibv_get_device_name(devices[i]), argv[1]))
            device = devices[i];
    require(device != NULL, "finding the device");
    struct ibv_context *context = ibv_open_device(device);
    require(context != NULL, "ibv_open_device");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_port_attr port;
    require(!ibv_query_port(context, 1, &port), "ibv_query_port");
    struct side sides[2];
    for (int i = 0; i < 2; i++) {
        region[i] = ibv_reg_mr(pd, memory[i], sizeof memory[i], IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        sides[i].cq = ibv_create_cq(context, 256, NULL, NULL, 0);
        struct ibv_qp_init_attr init = {.send_cq = sides[i].cq,
                                        .recv_cq = sides[i].cq,
                                        .qp_type = IBV_QPT_RC,
                                        .sq_sig_all = 1,
                                        .cap = {128, 128, 1, 1, 64}};
        require(region[i] && sides[i].cq, "ibv_create_cq");
        sides[i].qp = ibv_create_qp(pd, &init);
        require(sides[i].qp != NULL, "ibv_create_qp");
    }
    connect_to(&sides[0], context, &port, sides[1].qp->qp_num);
    connect_to(&sides[1], context, &port, sides[0].qp->qp_num);

    struct ibv_sge from = {(uintptr_t)memory[0], BYTES, region[0]->lkey}, to = {(uintptr_t)memory[1], 64, region[1]->lkey};
    struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};
    struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1};
    struct ibv_wc wc;
    for (int left = atoi(argv[2]); left > 0; left--) {
        CALLGRIND_ZERO_STATS;
        require(!measured_post_recv(sides[1].qp, &receive), "ibv_post_recv");
        CALLGRIND_DUMP_STATS_AT("ibv_post_recv");
        require(!measured_post_send(sides[0].qp, &send), "ibv_post_send");
        CALLGRIND_DUMP_STATS_AT("ibv_post_send");
        require(measured_poll(sides[1].cq, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "receiving");
        CALLGRIND_DUMP_STATS_AT("ibv_poll_cq, receive");
        require(measured_poll(sides[0].cq, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "sending");
        CALLGRIND_DUMP_STATS_AT("ibv_poll_cq, send");
    }
    return 0;
}
