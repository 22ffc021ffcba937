/*
 * The private functions of libibverbs, played by a table in this process: connections between identifiers of one program,
 * with attributes that connect real queue pairs of the first device. Preloaded, it stands before the library's own.
 *
 * It refuses to be surprised: a call in the wrong state ends the program.
 *
 * 192.0.2.1 cannot be reached; private data "unfit" in an answer make the asking queue pair's RTR fail.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct conn {
	uint32_t qp_num, qkey;
	uint8_t private_data_len, srq, responder_resources, initiator_depth;
	uint8_t flow_control, retry_count, rnr_retry_count, valid;
	uint8_t private_data[256];
};
struct ud {
	uint32_t qp_num, qkey;
	struct ibv_ah_attr ah_attr;
	uint8_t private_data_len, reserved[7], private_data[256];
};
struct ece {
	uint32_t vendor_id, options;
};
struct event {
	uint32_t size, event;
	uint64_t user;
	uint32_t id;
	int32_t status;
	struct ece ece;
	union {
		struct conn conn;
		struct ud ud;
	} param;
};
struct service {
	uint64_t service_id;
	union ibv_gid gid;
	uint16_t pkey;
	uint8_t reserved[6];
};
struct path {
	union ibv_gid dgid, sgid;
	uint16_t dlid, slid;
	uint32_t flow_label;
	uint16_t pkey;
	uint8_t hop_limit, traffic_class, sl, mtu, rate, packet_life_time;
};
struct info {
	uint32_t size;
	int32_t device_index;
	uint64_t node_guid;
	uint8_t port_num, num_paths;
	uint16_t pkey;
	uint32_t reserved;
	union ibv_gid sgid, dgid;
	struct sockaddr_storage src_addr, dst_addr;
	struct path paths[2];
};
_Static_assert(sizeof(struct event) == 336, "the interface's own size");
_Static_assert(sizeof(struct info) == 408, "the interface's own size");

struct queued {
	struct queued *next;
	struct event event;
	uint32_t counts_for, group;
};
struct channel {
	int fd;
	struct queued *first;
};
struct id {
	struct channel *channel;
	uint64_t user;
	int ps, qp_type, listens, connected, asked, alive, bound, routed;
	struct sockaddr_in src, dst;
	uint32_t peer, peer_qp, reported, pending;
	uint8_t resources, depth;
};
struct group {
	uint32_t id, reported;
	uint64_t user;
	int alive;
};

static struct id ids[256];
static struct group groups[64];
static uint32_t last_id, last_group;
static uint16_t last_port = 20000;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_port_attr port;
static union ibv_gid gid;
static uint64_t guid;

#define MUST(condition)                                                       \
	do {                                                                  \
		if (!(condition)) {                                           \
			fprintf(stderr, "mock:%d: %s\n", __LINE__,            \
				#condition);                                  \
			abort();                                              \
		}                                                             \
	} while (0)

/* Facts of the first device, asked before the lock is taken. */
static void learn(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	void ask(void)
	{
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *context;

		MUST(list && list[0]);
		guid = ibv_get_device_guid(list[0]);
		context = ibv_open_device(list[0]);
		MUST(context);
		MUST(!ibv_query_port(context, 1, &port));
		MUST(!ibv_query_gid(context, 1, 0, &gid));
		ibv_close_device(context);
		ibv_free_device_list(list);
	}
	pthread_once(&once, ask);
}

static struct id *at(uint32_t number)
{
	return number && number <= last_id && ids[number].alive ? &ids[number] : NULL;
}

static struct event *push(uint32_t on, uint32_t names, int kind, int status, uint32_t group)
{
	struct queued *queued = calloc(1, sizeof(*queued)), **end;
	struct channel *channel = ids[on].channel;
	uint64_t one = 1;

	queued->event.event = kind;
	queued->event.status = status;
	queued->event.id = names;
	queued->event.user = group ? groups[group].user : ids[on].user;
	queued->counts_for = on;
	queued->group = group;
	for (end = &channel->first; *end; end = &(*end)->next)
		;
	*end = queued;
	MUST(write(channel->fd, &one, sizeof(one)) == sizeof(one));
	return &queued->event;
}

/* Takes the waiting events of an identifier, or of one of its groups, off its channel, and hangs them to another if there is one. */
static void move_events(struct channel *from, uint32_t id, uint32_t group, struct channel *to)
{
	struct queued **at = &from->first, *queued, **end;
	uint64_t one = 1;

	while ((queued = *at)) {
		if (queued->counts_for != id || (group && queued->group != group)) {
			at = &queued->next;
			continue;
		}
		*at = queued->next;
		MUST(read(from->fd, &one, sizeof(one)) == sizeof(one));
		if (!to) {
			free(queued);
			continue;
		}
		queued->next = NULL;
		for (end = &to->first; *end; end = &(*end)->next)
			;
		*end = queued;
		MUST(write(to->fd, &one, sizeof(one)) == sizeof(one));
	}
}

#define ENTER                                                                 \
	learn();                                                              \
	pthread_mutex_lock(&lock)
#define LEAVE(result)                                                         \
	do {                                                                  \
		int result_ = (result);                                       \
		pthread_mutex_unlock(&lock);                                  \
		return result_;                                               \
	} while (0)

int ferriband_cm_version(void)
{
	return 2;
}

int ferriband_cm_channel_open(struct channel **out)
{
	struct channel *channel = calloc(1, sizeof(*channel));

	channel->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	*out = channel;
	return channel->fd < 0 ? errno : 0;
}

int ferriband_cm_channel_fd(struct channel *channel)
{
	return channel->fd;
}

void ferriband_cm_channel_close(struct channel *channel)
{
	for (uint32_t i = 1; i <= last_id; i++)
		MUST(!ids[i].alive || ids[i].channel != channel);
	MUST(!channel->first);
	close(channel->fd);
	free(channel);
}

int ferriband_cm_create_id(struct channel *channel, uint64_t user, uint16_t ps, uint8_t qp_type, uint32_t *id)
{
	ENTER;
	if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IB && ps != RDMA_PS_IPOIB)
		LEAVE(EINVAL);
	*id = ++last_id;
	MUST(last_id < 256);
	ids[*id] = (struct id){ .channel = channel, .user = user, .ps = ps, .qp_type = qp_type, .alive = 1 };
	LEAVE(0);
}

/* One side ends the connection, or answers its end: only then it has ended for the side that asked. */
static void end(uint32_t number)
{
	struct id *id = at(number), *peer = at(id->peer);

	if (peer && peer->asked) {
		peer->asked = 0;
		push(id->peer, id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, 0);
	} else if (peer && id->connected) {
		id->asked = 1;
		push(id->peer, id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, 0);
	}
	id->connected = 0;
	if (peer)
		peer->connected = 0;
}

int ferriband_cm_destroy_id(uint32_t number, uint32_t *reported)
{
	ENTER;
	struct id *id = at(number);

	if (!id)
		LEAVE(ENOENT);
	move_events(id->channel, number, 0, NULL);
	end(number);
	id->alive = 0;
	*reported = id->reported;
	LEAVE(0);
}

int ferriband_cm_bind(uint32_t number, struct sockaddr *addr, socklen_t length)
{
	ENTER;
	struct id *id = at(number);

	if (!id)
		LEAVE(ENOENT);
	if (length != sizeof(id->src) || addr->sa_family != AF_INET)
		LEAVE(EINVAL);
	memcpy(&id->src, addr, length);
	for (uint32_t i = 1; i <= last_id; i++)
		if (ids[i].alive && ids[i].listens && ids[i].src.sin_port == id->src.sin_port)
			LEAVE(EADDRINUSE);
	if (!id->src.sin_port)
		id->src.sin_port = htons(++last_port);
	id->bound = id->src.sin_addr.s_addr != 0;
	LEAVE(0);
}

int ferriband_cm_resolve_addr(uint32_t number, struct sockaddr *from, socklen_t from_length, struct sockaddr *to,
			      socklen_t to_length, int timeout_ms)
{
	ENTER;
	struct id *id = at(number);

	(void)from_length;
	if (!id)
		LEAVE(ENOENT);
	MUST(to_length == sizeof(id->dst) && timeout_ms > 0);
	memcpy(&id->dst, to, to_length);
	id->src.sin_family = AF_INET;
	id->src.sin_addr = from ? ((struct sockaddr_in *)from)->sin_addr : id->dst.sin_addr;
	if (!id->src.sin_port)
		id->src.sin_port = htons(++last_port);
	if (ntohl(id->dst.sin_addr.s_addr) == 0xc0000201) {
		push(number, number, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH, 0);
		LEAVE(0);
	}
	id->bound = 1;
	push(number, number, RDMA_CM_EVENT_ADDR_RESOLVED, 0, 0);
	LEAVE(0);
}

int ferriband_cm_resolve_route(uint32_t number, int timeout_ms)
{
	ENTER;
	struct id *id = at(number);

	MUST(timeout_ms > 0);
	if (!id || !id->bound)
		LEAVE(EINVAL);
	id->routed = 1;
	push(number, number, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, 0);
	LEAVE(0);
}

int ferriband_cm_listen(uint32_t number, int backlog)
{
	ENTER;
	struct id *id = at(number);

	(void)backlog;
	MUST(id);
	if (!id->src.sin_port) {
		id->src.sin_family = AF_INET;
		id->src.sin_port = htons(++last_port);
	}
	id->listens = 1;
	LEAVE(0);
}

static void fill_ud(struct ud *ud, const struct conn *conn)
{
	ud->qp_num = conn->qp_num;
	ud->qkey = conn->qkey ? conn->qkey : RDMA_UDP_QKEY;
	ud->ah_attr.dlid = port.lid;
	ud->ah_attr.port_num = 1;
	ud->private_data_len = conn->private_data_len;
	memcpy(ud->private_data, conn->private_data, 256);
}

int ferriband_cm_connect(uint32_t number, struct conn *param, struct ece *ece)
{
	ENTER;
	struct id *id = at(number), *listener = NULL, *child;
	struct event *event;
	uint32_t i;

	if (!id || !id->routed)
		LEAVE(EINVAL);
	if (param->private_data_len > (id->ps == RDMA_PS_UDP ? 180 : 56))
		LEAVE(EINVAL);
	MUST(param->valid == 1);
	for (i = 1; i <= last_id && !listener; i++)
		if (at(i) && ids[i].listens && ids[i].ps == id->ps && ids[i].src.sin_port == id->dst.sin_port)
			listener = &ids[i];
	if (!listener) {
		push(number, number, RDMA_CM_EVENT_REJECTED, 8, 0);
		LEAVE(0);
	}
	child = &ids[++last_id];
	MUST(last_id < 256);
	*child = (struct id){ .channel = listener->channel, .ps = id->ps, .qp_type = id->qp_type, .alive = 1,
			      .bound = 1, .routed = 1, .src = id->dst, .dst = id->src,
			      .peer = number, .peer_qp = param->qp_num };
	id->peer = last_id;
	id->resources = param->responder_resources;
	id->depth = param->initiator_depth;
	child->resources = param->initiator_depth;
	child->depth = param->responder_resources;
	event = push(listener - ids, last_id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, 0);
	event->ece = *ece;
	if (id->ps == RDMA_PS_UDP) {
		fill_ud(&event->param.ud, param);
	} else {
		event->param.conn = *param;
		/* Seen from here, what they take is what we may have outstanding. */
		event->param.conn.responder_resources = param->initiator_depth;
		event->param.conn.initiator_depth = param->responder_resources;
		event->param.conn.private_data_len = 56;
	}
	LEAVE(0);
}

int ferriband_cm_accept(uint32_t number, uint64_t user, struct conn *param, struct ece *ece)
{
	ENTER;
	struct id *id = at(number);
	struct event *event;

	if (!id)
		LEAVE(ENOENT);
	if (!at(id->peer))
		LEAVE(EINVAL);
	id->user = user;
	if (!param) {
		id->connected = at(id->peer)->connected = 1;
		push(id->peer, id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, 0);
		LEAVE(0);
	}
	MUST(user && param->valid == 1);
	at(id->peer)->peer_qp = param->qp_num;
	if (id->ps == RDMA_PS_UDP) {
		event = push(id->peer, id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, 0);
		fill_ud(&event->param.ud, param);
		LEAVE(0);
	}
	if (!memcmp(param->private_data, "unfit", 5))
		at(id->peer)->peer_qp = 0xff000000;
	event = push(id->peer, id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, 0);
	event->param.conn = *param;
	event->ece = *ece;
	LEAVE(0);
}

int ferriband_cm_reject(uint32_t number, const uint8_t *data, uint8_t length, uint8_t reason)
{
	ENTER;
	struct id *id = at(number);
	struct event *event;

	if (!id || !at(id->peer) || id->connected)
		LEAVE(EINVAL);
	event = push(id->peer, id->peer, RDMA_CM_EVENT_REJECTED, reason, 0);
	event->param.conn.private_data_len = length;
	memcpy(event->param.conn.private_data, data, length);
	LEAVE(0);
}

int ferriband_cm_disconnect(uint32_t number)
{
	ENTER;
	struct id *id = at(number);

	if (!id || !at(id->peer) || !(id->connected || at(id->peer)->asked))
		LEAVE(EINVAL);
	end(number);
	LEAVE(0);
}

int ferriband_cm_notify(uint32_t number, int event)
{
	ENTER;
	LEAVE(at(number) && event == IBV_EVENT_COMM_EST ? 0 : EINVAL);
}

int ferriband_cm_init_qp_attr(uint32_t number, struct ibv_qp_attr *attr, int *mask)
{
	ENTER;
	struct id *id = at(number);
	enum ibv_qp_state state = attr->qp_state;

	if (!id)
		LEAVE(ENOENT);
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	attr->port_num = 1;
	*mask = IBV_QP_STATE;
	switch (state) {
	case IBV_QPS_INIT:
		*mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
		attr->qkey = RDMA_UDP_QKEY;
		*mask |= id->ps == RDMA_PS_UDP ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
		LEAVE(0);
	case IBV_QPS_RTR:
		attr->ah_attr.dlid = port.lid;
		attr->ah_attr.port_num = 1;
		attr->path_mtu = IBV_MTU_1024;
		attr->dest_qp_num = id->peer_qp;
		if (id->peer_qp == 0xff000000)
			attr->path_mtu = 99;
		attr->max_dest_rd_atomic = id->resources;
		attr->min_rnr_timer = 12;
		*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			 IBV_QP_MIN_RNR_TIMER;
		LEAVE(0);
	case IBV_QPS_RTS:
		attr->timeout = 14;
		attr->retry_cnt = attr->rnr_retry = 7;
		attr->max_rd_atomic = id->depth;
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
		LEAVE(0);
	default:
		LEAVE(EINVAL);
	}
}

int ferriband_cm_query(uint32_t number, struct info *info)
{
	ENTER;
	struct id *id = at(number);

	MUST(info->size == sizeof(*info));
	if (!id)
		LEAVE(ENOENT);
	memcpy(&info->src_addr, &id->src, sizeof(id->src));
	memcpy(&info->dst_addr, &id->dst, sizeof(id->dst));
	info->device_index = id->bound ? 0 : -1;
	if (!id->bound)
		LEAVE(0);
	info->node_guid = guid;
	info->port_num = 1;
	info->pkey = 0xffff;
	info->sgid = info->dgid = gid;
	info->num_paths = id->routed;
	info->paths[0] = (struct path){ .sgid = gid, .dgid = gid, .slid = port.lid, .dlid = port.lid, .pkey = 0xffff,
					.flow_label = 0x12345, .hop_limit = 64, .mtu = IBV_MTU_1024, .rate = 3,
					.packet_life_time = 18 };
	LEAVE(0);
}

int ferriband_cm_set_option(uint32_t number, int level, int name, const void *value, size_t length)
{
	ENTER;
	MUST(at(number));
	if (level != RDMA_OPTION_ID || name > RDMA_OPTION_ID_ACK_TIMEOUT)
		LEAVE(ENOSYS);
	LEAVE(value && length ? 0 : EINVAL);
}

int ferriband_cm_join(uint32_t number, struct sockaddr *addr, socklen_t length, uint16_t flags, uint64_t user,
		      uint32_t *group)
{
	ENTER;
	struct event *event;

	MUST(at(number) && length == sizeof(struct sockaddr_in) && flags < RDMA_MC_JOIN_FLAG_RESERVED && user);
	*group = ++last_group;
	MUST(last_group < 64);
	groups[*group] = (struct group){ .id = number, .user = user, .alive = 1 };
	event = push(number, number, RDMA_CM_EVENT_MULTICAST_JOIN, 0, *group);
	event->param.ud.qp_num = 0xffffff;
	event->param.ud.qkey = RDMA_UDP_QKEY;
	event->param.ud.ah_attr.is_global = 1;
	event->param.ud.ah_attr.dlid = 0xc001;
	event->param.ud.ah_attr.port_num = 1;
	memcpy(event->param.ud.ah_attr.grh.dgid.raw, "\xff\x12\x40\x1b\xff\xff\0\0\0\0\0\0", 12);
	memcpy(event->param.ud.ah_attr.grh.dgid.raw + 12, &((struct sockaddr_in *)addr)->sin_addr, 4);
	LEAVE(0);
}

int ferriband_cm_leave(uint32_t number, uint32_t *reported)
{
	ENTER;
	if (!number || number > last_group || !groups[number].alive)
		LEAVE(ENOENT);
	groups[number].alive = 0;
	move_events(ids[groups[number].id].channel, groups[number].id, number, NULL);
	*reported = groups[number].reported;
	LEAVE(0);
}

int ferriband_cm_migrate(uint32_t number, struct channel *to, uint32_t *reported)
{
	ENTER;
	struct id *id = at(number);

	if (!id)
		LEAVE(ENOENT);
	move_events(id->channel, number, 0, to);
	id->channel = to;
	*reported = id->reported;
	LEAVE(0);
}

int ferriband_cm_write_event(uint32_t number, uint32_t event, int status, uint64_t arg)
{
	struct event *queued;

	ENTER;
	if (!at(number))
		LEAVE(ENOENT);
	if (event < 16 || event > 18)
		LEAVE(EINVAL);
	queued = push(number, number, event, status, 0);
	if (event == 18)
		memcpy(&queued->param, &arg, sizeof(arg));
	LEAVE(0);
}

/* Two services of one name, and of one number. */
int ferriband_cm_find_services(uint64_t number, const char *name, union ibv_gid *own, struct service *services,
			       uint32_t most, uint32_t *count)
{
	learn();
	if (name ? strcmp(name, "a service") : number != 0x1000)
		return ENOENT;
	*own = gid;
	for (*count = 0; *count < 2 && *count < most; ++*count)
		services[*count] = (struct service){ 0x1000 + *count, gid, 0xffff, { 0 } };
	return 0;
}

int ferriband_cm_get_event(struct channel *channel, struct event *event)
{
	struct queued *queued;

	learn();
	MUST(event->size == sizeof(*event));
	pthread_mutex_lock(&lock);
	queued = channel->first;
	if (!queued)
		LEAVE(EAGAIN);
	channel->first = queued->next;
	*event = queued->event;
	event->size = sizeof(*event);
	if (queued->group)
		groups[queued->group].reported++;
	else
		ids[queued->counts_for].reported++;
	free(queued);
	LEAVE(0);
}
