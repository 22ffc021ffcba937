/*
 * Each call in each stage of an identifier: what Linux's rdma_cm refuses is refused, with the same errno, and what it allows
 * works.
 */
#include "cm.h"
#include <poll.h>

enum stage { IDLE, BOUND, LISTENS, ADDRESS, ROUTE, CONNECTING, REQUEST, ACTIVE, PASSIVE, REFUSED_, ENDED, STAGES };

static const char *const names[STAGES] = { "idle", "bound", "listening", "address resolved", "route resolved", "connecting",
					   "request", "connected", "accepted", "rejected", "disconnected" };

static struct rdma_event_channel *here, *there;

/* An identifier in a stage, and the others that it took to get there. */
struct scene {
	struct rdma_cm_id *id, *listener, *other;
};

static struct rdma_cm_id *create(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = NULL;

	EQ(rdma_create_id(channel, &id, NULL, ps), 0);
	return id;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = attributes(id->qp_type);

	EQ(rdma_create_qp(id, NULL, &attr), 0);
}

static void bind_local(struct rdma_cm_id *id)
{
	struct sockaddr_in in = address("127.0.0.1", 0);

	EQ(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
}

static void resolve(struct rdma_cm_id *id, int port)
{
	struct sockaddr_in in = address("127.0.0.1", port);

	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000), 0);
	expect_and_ack(here, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void route(struct rdma_cm_id *id)
{
	EQ(rdma_resolve_route(id, 2000), 0);
	expect_and_ack(here, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static struct scene reach(enum stage stage, enum rdma_port_space ps)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *active, *passive;
	struct rdma_cm_event *event;
	int ud = ps == RDMA_PS_UDP;

	if (stage <= LISTENS) {
		active = create(here, ps);
		if (stage != IDLE)
			bind_local(active);
		if (stage == LISTENS)
			EQ(rdma_listen(active, 1), 0);
		return (struct scene){ .id = active };
	}
	struct rdma_cm_id *l = listener(there, ps, NULL);

	active = create(here, ps);
	resolve(active, ntohs(rdma_get_src_port(l)));
	if (stage == ADDRESS)
		return (struct scene){ active, l, NULL };
	route(active);
	make_qp(active);
	if (stage == ROUTE)
		return (struct scene){ active, l, NULL };
	EQ(rdma_connect(active, &param), 0);
	event = expect(there, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	EQ(rdma_ack_cm_event(event), 0);
	if (stage == CONNECTING)
		return (struct scene){ active, l, passive };
	if (stage == REFUSED_) {
		EQ(rdma_reject(passive, NULL, 0), 0);
		expect_and_ack(here, ud ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED);
		return (struct scene){ active, l, passive };
	}
	make_qp(passive);
	if (stage == REQUEST)
		return (struct scene){ passive, l, active };
	EQ(rdma_accept(passive, &param), 0);
	expect_and_ack(here, RDMA_CM_EVENT_ESTABLISHED);
	if (!ud)
		expect_and_ack(there, RDMA_CM_EVENT_ESTABLISHED);
	if (stage == ENDED) {
		EQ(rdma_disconnect(passive), 0);
		if (!ud) {
			expect_and_ack(here, RDMA_CM_EVENT_DISCONNECTED);
			EQ(rdma_disconnect(active), 0);
			expect_and_ack(there, RDMA_CM_EVENT_DISCONNECTED);
		}
		return (struct scene){ active, l, passive };
	}
	return stage == ACTIVE ? (struct scene){ active, l, passive } : (struct scene){ passive, l, active };
}

/* Events that nobody looks at. One that is not the program's makes the descriptor readable, too, so the call must not wait. */
static void drain(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	int flags = fcntl(channel->fd, F_GETFL);

	EQ(fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
	while (rdma_get_cm_event(channel, &event) == 0)
		EQ(rdma_ack_cm_event(event), 0);
	EQ(errno, EAGAIN);
	EQ(fcntl(channel->fd, F_SETFL, flags), 0);
}

static void leave(struct scene *scene)
{
	struct rdma_cm_id *all[] = { scene->id, scene->other, scene->listener };

	for (int i = 0; i < 3; i++) {
		drain(here);
		drain(there);
		if (!all[i])
			continue;
		if (all[i]->qp)
			rdma_destroy_qp(all[i]);
		EQ(rdma_destroy_id(all[i]), 0);
	}
	drain(here);
	drain(there);
}

static int bind_again(struct rdma_cm_id *id)
{
	struct sockaddr_in in = address("127.0.0.1", 0);

	return rdma_bind_addr(id, (struct sockaddr *)&in);
}

static int resolve_again(struct rdma_cm_id *id)
{
	struct sockaddr_in in = address("127.0.0.1", 9);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000);
}

static int route_again(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 2000);
}

static int listen_again(struct rdma_cm_id *id)
{
	return rdma_listen(id, 1);
}

static int connect_again(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .qp_num = 17, .retry_count = 7 };

	return rdma_connect(id, &param);
}

static int accept_again(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .qp_num = 17 };

	return rdma_accept(id, &param);
}

static int reject_again(struct rdma_cm_id *id)
{
	return rdma_reject(id, "no", 2);
}

static int join_again(struct rdma_cm_id *id)
{
	struct sockaddr_in in = address("239.7.7.7", 0);

	return rdma_join_multicast(id, (struct sockaddr *)&in, NULL);
}

static int notify_established(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_COMM_EST);
}

static int notify_migrated(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_PATH_MIG);
}

static int notify_other(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_SQ_DRAINED);
}

static int set(struct rdma_cm_id *id, int name, int value)
{
	uint8_t byte = (uint8_t)value;
	int wide = name == RDMA_OPTION_ID_REUSEADDR || name == RDMA_OPTION_ID_AFONLY;

	return rdma_set_option(id, RDMA_OPTION_ID, name, wide ? (void *)&value : &byte, wide ? sizeof(value) : 1);
}

static int reuse(struct rdma_cm_id *id)
{
	return set(id, RDMA_OPTION_ID_REUSEADDR, 1);
}

static int no_reuse(struct rdma_cm_id *id)
{
	return set(id, RDMA_OPTION_ID_REUSEADDR, 0);
}

static int one_family(struct rdma_cm_id *id)
{
	return set(id, RDMA_OPTION_ID_AFONLY, 1);
}

static int tos(struct rdma_cm_id *id)
{
	return set(id, RDMA_OPTION_ID_TOS, 32);
}

static int ack_timeout(struct rdma_cm_id *id)
{
	return set(id, RDMA_OPTION_ID_ACK_TIMEOUT, 14);
}

#define NO EINVAL

static const struct call {
	const char *name;
	int (*call)(struct rdma_cm_id *);
	/* idle, bound, listening, address, route, connecting, request, active, passive, refused, ended */
	int connections[STAGES], datagrams[STAGES];
} calls[] = {
	{ "rdma_bind_addr", bind_again, { 0, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO }, { 0, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
	{ "rdma_resolve_addr", resolve_again, { 0, 0, NO, NO, NO, NO, NO, NO, NO, NO, NO },
	  { 0, 0, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
	{ "rdma_resolve_route", route_again, { NO, NO, NO, 0, NO, NO, NO, NO, NO, NO, NO },
	  { NO, NO, NO, 0, NO, NO, NO, NO, NO, NO, NO } },
	{ "rdma_listen", listen_again, { 0, 0, NO, NO, NO, NO, NO, NO, NO, NO, NO }, { 0, 0, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
	{ "rdma_connect", connect_again, { NO, NO, NO, NO, 0, NO, NO, NO, NO, NO, NO },
	  { NO, NO, NO, NO, 0, NO, NO, NO, NO, NO, NO } },
	{ "rdma_accept", accept_again, { NO, NO, NO, NO, NO, NO, 0, NO, NO, NO, NO }, { NO, NO, NO, NO, NO, NO, 0, NO, NO, NO, NO } },
	{ "rdma_reject", reject_again, { NO, NO, NO, NO, NO, 0, 0, NO, NO, NO, NO }, { NO, NO, NO, NO, NO, NO, 0, NO, NO, NO, NO } },
	{ "rdma_disconnect", rdma_disconnect, { NO, NO, 0, NO, NO, 0, 0, 0, 0, 0, 0 }, { NO, NO, 0, NO, NO, 0, 0, 0, 0, 0, 0 } },
	{ "rdma_join_multicast", join_again, { NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO },
	  { NO, 0, NO, 0, NO, NO, NO, NO, NO, NO, NO } },
	{ "rdma_notify of COMM_EST", notify_established, { NO, NO, NO, NO, NO, NO, NO, EISCONN, EISCONN, NO, NO },
	  { NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
	{ "rdma_notify of PATH_MIG", notify_migrated, { NO, NO, NO, NO, NO, NO, NO, 0, 0, NO, NO },
	  { NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
	{ "rdma_notify of SQ_DRAINED", notify_other, { NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO },
	  { NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
	{ "reuse of the address", reuse, { 0, 0, NO, 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 0, NO, 0, 0, 0, 0, 0, 0, 0, 0 } },
	{ "no reuse of the address", no_reuse, { 0, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO },
	  { 0, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
	{ "one family", one_family, { 0, 0, NO, NO, NO, NO, NO, NO, NO, NO, NO }, { 0, 0, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
	{ "type of service", tos, { 0 }, { 0 } },
	{ "acknowledgement time-out", ack_timeout, { 0 }, { NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO } },
};

static void every_call(enum rdma_port_space ps)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		for (enum stage stage = IDLE; stage < STAGES; stage++) {
			const struct call *c = &calls[i];
			int wanted = ps == RDMA_PS_UDP ? c->datagrams[stage] : c->connections[stage];
			struct scene scene = reach(stage, ps);

			errno = 0;
			int result = c->call(scene.id);

			if (result != (wanted ? -1 : 0) || (wanted && errno != wanted))
				FAIL("%s, %s, port space %#x: %d, wanted errno %d", c->name, names[stage], ps, result, wanted);
			leave(&scene);
		}
	}
}

/* What comes of a refused call: nothing. The identifier goes on from where it was. */
static void refused_calls_change_nothing(void)
{
	struct rdma_cm_id *l = listener(there, RDMA_PS_TCP, NULL), *id = create(here, RDMA_PS_TCP), *passive;
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_event *event;
	int port = ntohs(rdma_get_src_port(l));
	static const char long_data[255];

	resolve(id, port);
	REFUSED(resolve_again(id), EINVAL);
	EQ(ntohs(rdma_get_dst_port(id)), port);
	REFUSED(listen_again(id), EINVAL);
	REFUSED(bind_again(id), EINVAL);
	route(id);
	REFUSED(route_again(id), EINVAL);
	make_qp(id);
	param.private_data = long_data;
	param.private_data_len = 57;
	REFUSED(rdma_connect(id, &param), EINVAL);
	param.private_data_len = 56;
	EQ(rdma_connect(id, &param), 0);
	REFUSED(rdma_connect(id, &param), EINVAL);
	event = expect(there, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = event->id;
	EQ(rdma_ack_cm_event(event), 0);
	REFUSED(rdma_listen(passive, 1), EINVAL);
	REFUSED(rdma_reject(passive, long_data, 149), EINVAL);
	make_qp(passive);
	/* an answer that cannot be given is a refusal, and who asked hears of it */
	param.private_data_len = 197;
	REFUSED(rdma_accept(passive, &param), EINVAL);
	expect_and_ack(here, RDMA_CM_EVENT_REJECTED);
	param.private_data_len = 0;
	REFUSED(rdma_accept(passive, &param), EINVAL);
	struct scene scene = { id, l, passive };

	leave(&scene);
}

static void families(void)
{
	struct sockaddr_in in = address("127.0.0.1", 0);
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr unknown = { .sa_family = 77 };
	struct rdma_cm_id *id = create(here, RDMA_PS_TCP);

	REFUSED(rdma_bind_addr(id, &unknown), EINVAL);
	REFUSED(rdma_resolve_addr(id, NULL, &unknown, 100), EINVAL);
	REFUSED(rdma_resolve_addr(id, &unknown, (struct sockaddr *)&in, 100), EINVAL);
	EQ(rdma_get_src_port(id), 0);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
	REFUSED(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in6, 100), EINVAL);
	/* the source is known already: another one counts for nothing */
	in.sin_port = htons(9);
	EQ(rdma_resolve_addr(id, (struct sockaddr *)&in6, (struct sockaddr *)&in, 100), 0);
	expect_and_ack(here, RDMA_CM_EVENT_ADDR_RESOLVED);
	EQ(rdma_destroy_id(id), 0);

	id = create(here, RDMA_PS_TCP);
	in.sin_port = 0;
	REFUSED(rdma_resolve_addr(id, (struct sockaddr *)&in, (struct sockaddr *)&in6, 100), EINVAL);
	EQ(rdma_destroy_id(id), 0);
}

/* An address that cannot be resolved leaves the identifier bound: another may be tried, or it may listen. */
static void after_an_error(int listens)
{
	struct sockaddr_in far = address("203.0.113.9", 7);
	struct rdma_cm_id *id = create(here, RDMA_PS_TCP);
	struct rdma_cm_event *event;

	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&far, 500), 0);
	event = expect(here, RDMA_CM_EVENT_ADDR_ERROR);
	CHECK(event->status < 0);
	EQ(rdma_ack_cm_event(event), 0);
	REFUSED(bind_again(id), EINVAL);
	REFUSED(route_again(id), EINVAL);
	if (listens) {
		EQ(rdma_listen(id, 1), 0);
	} else {
		resolve(id, 9);
		route(id);
	}
	EQ(rdma_destroy_id(id), 0);
}

/* An identifier without a channel waits for what its calls bring, and for nothing where nothing comes. */
static void synchronous(void)
{
	struct rdma_cm_id *l = listener(there, RDMA_PS_TCP, NULL), *id = create(NULL, RDMA_PS_TCP);
	struct sockaddr_in in = address("127.0.0.1", ntohs(rdma_get_src_port(l)));
	struct sockaddr_in far = address("203.0.113.9", 7);
	struct rdma_conn_param param = { .retry_count = 7 };

	EQ(rdma_destroy_id(l), 0);
	REFUSED(rdma_disconnect(id), EINVAL);
	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&far, 500), -1);
	CHECK(errno == ENETUNREACH || errno == EHOSTUNREACH || errno == ENODEV);
	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 500), 0);
	REFUSED(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 500), EINVAL);
	EQ(rdma_resolve_route(id, 500), 0);
	make_qp(id);
	REFUSED(rdma_connect(id, &param), ECONNREFUSED);
	REFUSED(rdma_connect(id, &param), EINVAL);
	EQ(state_of(id->qp), IBV_QPS_ERR);
	EQ(rdma_disconnect(id), 0);
	EQ(rdma_disconnect(id), 0);
	rdma_destroy_qp(id);
	EQ(rdma_destroy_id(id), 0);
}

/* No address is localhost. */
static void no_address_is_this_host(void)
{
	struct rdma_cm_id *l = listener(there, RDMA_PS_TCP, NULL), *id = create(here, RDMA_PS_TCP);
	struct sockaddr_in none = address("0.0.0.0", ntohs(rdma_get_src_port(l)));
	struct rdma_conn_param param = { .qp_num = 19, .retry_count = 7 };
	struct rdma_cm_event *event;

	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&none, 500), 0);
	expect_and_ack(here, RDMA_CM_EVENT_ADDR_RESOLVED);
	route(id);
	EQ(rdma_connect(id, &param), 0);
	event = expect(there, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct scene scene = { id, l, event->id };

	EQ(rdma_ack_cm_event(event), 0);
	leave(&scene);
}

/* rdma_destroy_qp undoes what the library did for a group, and no more. */
static void queue_pairs_in_groups(void)
{
	struct sockaddr_in in = address("239.7.7.8", 0);
	struct rdma_cm_id *id = create(here, RDMA_PS_UDP);
	struct rdma_cm_event *event;
	struct ibv_pd *pd;

	bind_local(id);
	pd = ibv_alloc_pd(id->verbs);
	CHECK(pd);
	struct ibv_qp_init_attr attr = attributes(IBV_QPT_UD);

	EQ(rdma_create_qp(id, pd, &attr), 0);
	EQ(rdma_join_multicast(id, (struct sockaddr *)&in, NULL), 0);
	event = expect(here, RDMA_CM_EVENT_MULTICAST_JOIN);
	EQ(event->param.ud.private_data_len, 0);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(ibv_destroy_qp(id->qp), EBUSY);
	rdma_destroy_qp(id);
	EQ(ibv_dealloc_pd(pd), 0);
	EQ(rdma_leave_multicast(id, (struct sockaddr *)&in), 0);
	EQ(rdma_destroy_id(id), 0);
}

/* What a queue pair asks of receives means nothing beside a shared receive queue, also for the queue of completions. */
static void shared_receives(void)
{
	struct rdma_cm_id *id = create(here, RDMA_PS_TCP);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	static const uint32_t sizes[] = { 0, 1, 100000, UINT32_MAX };

	bind_local(id);
	EQ(rdma_create_srq(id, NULL, &srq), 0);
	REFUSED(rdma_create_srq(id, NULL, &srq), EINVAL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct ibv_qp_init_attr attr = attributes(IBV_QPT_RC);

		attr.cap.max_recv_wr = attr.cap.max_recv_sge = sizes[i];
		EQ(rdma_create_qp(id, NULL, &attr), 0);
		REFUSED(rdma_create_qp(id, NULL, &attr), EINVAL);
		CHECK(id->recv_cq && id->recv_cq->cqe >= 4);
		rdma_destroy_qp(id);
	}
	rdma_destroy_srq(id);
	EQ(rdma_destroy_id(id), 0);
}

int main(void)
{
	here = rdma_create_event_channel();
	there = rdma_create_event_channel();
	CHECK(here && there);
	every_call(RDMA_PS_TCP);
	every_call(RDMA_PS_UDP);
	refused_calls_change_nothing();
	families();
	after_an_error(0);
	after_an_error(1);
	synchronous();
	no_address_is_this_host();
	queue_pairs_in_groups();
	shared_receives();
	rdma_destroy_event_channel(here);
	rdma_destroy_event_channel(there);
	return 0;
}
