/* Messages over a connection with two paths, one of which a test lets fail (IBA 17.2.8).
 *
 * two_paths serve|ask PLACE DEVICE WAY WAY
 *   PLACE  a Unix socket by which both sides tell each other their addresses
 *   WAY    PORT,BITS,INDEX: a path's port, the path bits of its LID here, and the index of its GID
 *          (-1: no GID)
 *
 * The asking side numbers its messages, and the serving side echoes them; each checks that they
 * come in order. "armed" is said once both paths are, and messages go on until a migration has been
 * heard of, and a while longer. It prints what became of the path.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s: %s\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)
#define WINDOW 8
#define AFTER 2000
#define LAST (1ull << 63)

struct way {
	int port, bits, index;
};

/* What one side tells the other. */
struct side {
	uint32_t qpn, psn;
	uint16_t lid[2];
	union ibv_gid gid[2];
};

static struct ibv_context *context;
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint64_t buffers[2 * WINDOW];
static int migrated, refused, down;

static int meet(const char *place, int serves)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	CHECK(s >= 0);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", place);
	if (serves) {
		CHECK(bind(s, (void *)&at, sizeof at) == 0 && listen(s, 1) == 0);
		s = accept(s, NULL, NULL);
		CHECK(s >= 0);
		return s;
	}
	while (connect(s, (void *)&at, sizeof at))
		usleep(10000);
	return s;
}

static struct ibv_ah_attr vector(const struct way *way, const struct side *peer, int path)
{
	struct ibv_ah_attr attr = { .dlid = peer->lid[path], .src_path_bits = way->bits, .port_num = way->port };

	if (way->index >= 0) {
		attr.is_global = 1;
		attr.grh.dgid = peer->gid[path];
		attr.grh.sgid_index = way->index;
		attr.grh.hop_limit = 64;
	}
	return attr;
}

static void rearm(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .path_mig_state = IBV_MIG_REARM };

	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE) == 0);
}

static void connect_paths(const struct way *ways, const struct side *own, const struct side *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn,
		.rq_psn = peer->psn, .max_dest_rd_atomic = 1, .min_rnr_timer = 5 };

	attr.ah_attr = vector(&ways[0], peer, 0);
	attr.alt_ah_attr = vector(&ways[1], peer, 1);
	attr.alt_port_num = ways[1].port;
	attr.alt_timeout = 15;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_ALT_PATH) == 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = own->psn;
	attr.timeout = 14;
	attr.retry_cnt = 3;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	/* armed is what adapters make of it */
	attr.path_mig_state = IBV_MIG_ARMED;
	int rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK(ibv_modify_qp(qp, &attr, rts | IBV_QP_PATH_MIG_STATE) == EINVAL);
	CHECK(ibv_modify_qp(qp, &attr, rts) == 0);
	rearm();
}

static enum ibv_mig_state path_state(struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	CHECK(ibv_query_qp(qp, attr, IBV_QP_PATH_MIG_STATE | IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PORT, &init) == 0);
	return attr->path_mig_state;
}

static void receive(int place)
{
	struct ibv_sge sge = { (uintptr_t)&buffers[place], 8, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = place, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
}

static void post(uint64_t number)
{
	struct ibv_sge sge = { (uintptr_t)&number, 8, 0 };
	struct ibv_send_wr wr = { .wr_id = 1000, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED }, *bad;

	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
}

static void hear(void)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(context, &event) == 0) {
		migrated += event.event_type == IBV_EVENT_PATH_MIG;
		refused += event.event_type == IBV_EVENT_PATH_MIG_ERR;
		down += event.event_type == IBV_EVENT_PORT_ERR && event.element.port_num == 1;
		ibv_ack_async_event(&event);
	}
}

/* A message that has come; 0: none yet. */
static int take(uint64_t *number)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			printf("status %d (%s)\n", wc.status, ibv_wc_status_str(wc.status));
			exit(1);
		}
		if (wc.wr_id == 1000)
			continue;
		*number = buffers[wc.wr_id];
		receive(wc.wr_id);
		return 1;
	}
	return 0;
}

static void serve(void)
{
	uint64_t number, expected = 0;
	int armed = 0;
	struct ibv_qp_attr attr;

	for (;;) {
		while (!take(&number))
			hear();
		CHECK((number & ~LAST) == expected);
		expected++;
		post(number);
		if (!armed && path_state(&attr) == IBV_MIG_ARMED) {
			armed = 1;
			printf("armed\n");
		}
		if (number & LAST)
			break;
	}
	/* the asking side ends once it has this one's last message: it is acknowledged by then */
	while (migrated == 0)
		hear();
}

static void ask(void)
{
	uint64_t number, sent = 0, came = 0, after = 0;
	int armed = 0;
	struct ibv_qp_attr attr;

	while (after < AFTER) {
		while (sent < came + WINDOW)
			post(sent++);
		while (!take(&number))
			hear();
		CHECK(number == came);
		came++;
		hear();
		if (!armed && path_state(&attr) == IBV_MIG_ARMED) {
			armed = 1;
			printf("armed\n");
		}
		after += migrated > 0;
		/* who waits for a fault is in no hurry */
		if (armed && !migrated)
			usleep(200);
	}
	for (; came < sent; came++) {
		while (!take(&number))
			hear();
		CHECK(number == came);
	}
	post(sent | LAST);
	while (!take(&number))
		hear();
	CHECK(number == (sent | LAST));
}

int main(int argc, char **argv)
{
	struct way ways[2];
	struct side own = { 0 }, peer;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };

	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(argc == 6);
	for (int i = 0; i < 2; i++)
		CHECK(sscanf(argv[4 + i], "%d,%d,%d", &ways[i].port, &ways[i].bits, &ways[i].index) == 3);
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list);
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[3]))
			context = ibv_open_device(list[i]);
	CHECK(context);
	CHECK(fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK) == 0);
	struct ibv_device_attr about;
	CHECK(ibv_query_device(context, &about) == 0);
	CHECK(about.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	CHECK(pd);
	mr = ibv_reg_mr(pd, buffers, sizeof buffers, IBV_ACCESS_LOCAL_WRITE);
	cq = ibv_create_cq(context, 8 * WINDOW, NULL, NULL, 0);
	CHECK(mr && cq);
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){ .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { 2 * WINDOW, 2 * WINDOW, 1, 1, 8 } });
	CHECK(qp);
	for (int i = 0; i < 2; i++) {
		struct ibv_port_attr port;
		CHECK(ways[i].port <= about.phys_port_cnt);
		CHECK(ibv_query_port(context, ways[i].port, &port) == 0);
		CHECK(ways[i].bits < 1 << port.lmc);
		own.lid[i] = port.lid + ways[i].bits;
		if (ways[i].index >= 0)
			CHECK(ibv_query_gid(context, ways[i].port, ways[i].index, &own.gid[i]) == 0);
	}
	own.qpn = qp->qp_num;
	own.psn = getpid() & 0xffff;
	attr.port_num = ways[0].port;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	int serves = !strcmp(argv[1], "serve");
	int s = meet(argv[2], serves);
	CHECK(write(s, &own, sizeof own) == sizeof own && read(s, &peer, sizeof peer) == sizeof peer);
	connect_paths(ways, &own, &peer);
	for (int i = 0; i < 2 * WINDOW; i++)
		receive(i);
	char go = 0;
	CHECK(write(s, &go, 1) == 1 && read(s, &go, 1) == 1);
	serves ? serve() : ask();
	/* both stay until both have all that they want */
	CHECK(write(s, &go, 1) == 1 && read(s, &go, 1) == 1);
	CHECK(path_state(&attr) == IBV_MIG_MIGRATED);
	printf("migrated %d times, %d refused, port 1 down %d times, by port %d to LID %s\n", migrated, refused, down, attr.ah_attr.port_num,
		attr.ah_attr.dlid == peer.lid[1] ? "2" : "1");
	if (ways[1].index >= 0)
		CHECK(!memcmp(&attr.ah_attr.grh.dgid, &peer.gid[1], 16) && !memcmp(&attr.alt_ah_attr.grh.dgid, &peer.gid[0], 16));
	return migrated == 1 && refused == 0 ? 0 : 1;
}
