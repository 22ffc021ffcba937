/*
 * Private data in every kind of event, of connections and of datagram services: as long as from the kernel, which tells a message's
 * whole field, zeros behind what the other side said; and none where rdma_get_cm_event(3) has none.
 */
#include "cm.h"
#include <poll.h>

/* What is left of a request's field behind the header of addresses, and the fields of the answers. */
enum { REQ = 92 - 36, SIDR_REQ = 216 - 36, REP = 196, SIDR_REP = 136, REJ = 148 };

static struct rdma_event_channel *here, *there;
static unsigned char words[256];
static int wide; /* IPv6 */

static struct sockaddr *local(int port)
{
	static struct sockaddr_in6 six;
	static struct sockaddr_in four;

	six = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	four = address("127.0.0.1", port);
	return wide ? (struct sockaddr *)&six : (struct sockaddr *)&four;
}

/* The event has `length` bytes: the first `said` of `words`, then zeros; or none, and then no address either. */
static struct rdma_cm_event *check(struct rdma_event_channel *channel, enum rdma_cm_event_type kind, int ud, int length, int said)
{
	struct rdma_cm_event *event = expect(channel, kind);
	const unsigned char *data = ud ? event->param.ud.private_data : event->param.conn.private_data;
	int got = ud ? event->param.ud.private_data_len : event->param.conn.private_data_len;

	if (got != length || !data != !length)
		FAIL("%s of %s: %d bytes at %p, not %d", rdma_event_str(kind), ud ? "datagrams" : "a connection", got,
		     (const void *)data, length);
	for (int i = 0; i < length; i++)
		if (data[i] != (i < said ? words[i] : 0))
			FAIL("%s: byte %d of %d is %#x", rdma_event_str(kind), i, said, data[i]);
	return event;
}

static void take(struct rdma_event_channel *channel, enum rdma_cm_event_type kind, int ud, int length, int said)
{
	EQ(rdma_ack_cm_event(check(channel, kind, ud, length, said)), 0);
}

static struct rdma_cm_id *listening(enum rdma_port_space ps)
{
	struct rdma_cm_id *id = NULL;

	EQ(rdma_create_id(there, &id, NULL, ps), 0);
	EQ(rdma_bind_addr(id, local(0)), 0);
	EQ(rdma_listen(id, 4), 0);
	return id;
}

static struct rdma_cm_id *routed(enum rdma_port_space ps, int port, int with_qp)
{
	int ud = ps == RDMA_PS_UDP;
	struct rdma_cm_id *id = NULL;

	EQ(rdma_create_id(here, &id, NULL, ps), 0);
	EQ(rdma_resolve_addr(id, NULL, local(port), 2000), 0);
	take(here, RDMA_CM_EVENT_ADDR_RESOLVED, ud, 0, 0);
	EQ(rdma_resolve_route(id, 2000), 0);
	take(here, RDMA_CM_EVENT_ROUTE_RESOLVED, ud, 0, 0);
	if (with_qp) {
		struct ibv_qp_init_attr attr = attributes(id->qp_type);

		EQ(rdma_create_qp(id, NULL, &attr), 0);
	}
	return id;
}

static void drop(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	EQ(rdma_destroy_id(id), 0);
}

static struct rdma_conn_param param_of(int length)
{
	static uint32_t number = 0x654321;

	/* numbers that are nobody else's, or the connections would seem to be one */
	return (struct rdma_conn_param){ .private_data = length ? words : NULL, .private_data_len = (uint8_t)length,
					 .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7,
					 .qp_num = ++number & 0xffffff };
}

enum answer { ACCEPTS, ACCEPTS_WITHOUT_QP, REJECTS };

static void ask(enum rdma_port_space ps, enum answer answer, int asked, int answered)
{
	int ud = ps == RDMA_PS_UDP, with_qp = answer != ACCEPTS_WITHOUT_QP, request = ud ? SIDR_REQ : REQ;
	struct rdma_cm_id *l = listening(ps), *active, *passive;
	struct rdma_conn_param param = param_of(request + 1);
	struct rdma_cm_event *event;

	active = routed(ps, ntohs(rdma_get_src_port(l)), with_qp);
	REFUSED(rdma_connect(active, &param), EINVAL);
	param = param_of(asked);
	EQ(rdma_connect(active, &param), 0);
	event = check(there, RDMA_CM_EVENT_CONNECT_REQUEST, ud, request, asked);
	passive = event->id;
	EQ(rdma_ack_cm_event(event), 0);
	if (answer == REJECTS) {
		REFUSED(rdma_reject(passive, words, (uint8_t)((ud ? SIDR_REP : REJ) + 1)), EINVAL);
		EQ(rdma_reject(passive, answered ? words : NULL, (uint8_t)answered), 0);
		if (ud)
			event = check(here, RDMA_CM_EVENT_UNREACHABLE, 1, SIDR_REP, answered);
		else
			event = check(here, RDMA_CM_EVENT_REJECTED, 0, REJ, answered);
		EQ(event->status, ud ? 2 : 28);
		EQ(rdma_ack_cm_event(event), 0);
	} else {
		if (with_qp) {
			struct ibv_qp_init_attr attr = attributes(passive->qp_type);

			EQ(rdma_create_qp(passive, NULL, &attr), 0);
		}
		param = param_of(answered);
		EQ(rdma_accept(passive, &param), 0);
		if (ud) {
			event = check(here, RDMA_CM_EVENT_ESTABLISHED, 1, SIDR_REP, answered);
			EQ(event->param.ud.qp_num, with_qp ? passive->qp->qp_num : param.qp_num);
			EQ(event->param.ud.qkey, RDMA_UDP_QKEY);
			EQ(rdma_ack_cm_event(event), 0);
		} else {
			take(here, with_qp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0, REP, answered);
			if (!with_qp)
				EQ(rdma_establish(active), 0);
			take(there, RDMA_CM_EVENT_ESTABLISHED, 0, 0, 0);
			EQ(rdma_disconnect(active), 0);
			take(there, RDMA_CM_EVENT_DISCONNECTED, 0, 0, 0);
			EQ(rdma_disconnect(passive), 0);
			take(here, RDMA_CM_EVENT_DISCONNECTED, 0, 0, 0);
		}
	}
	drop(active);
	drop(passive);
	drop(l);
}

/* Nobody listens: the field of the refusal, all zeros. An address that is nowhere has no data at all. */
static void nobody(enum rdma_port_space ps)
{
	int ud = ps == RDMA_PS_UDP;
	struct rdma_cm_id *l = listening(ps), *active = routed(ps, ntohs(rdma_get_src_port(l)), 1);
	struct rdma_conn_param param = param_of(7);
	struct sockaddr_in far = address("203.0.113.9", 7);
	struct rdma_cm_event *event;

	drop(l);
	EQ(rdma_connect(active, &param), 0);
	if (ud)
		event = check(here, RDMA_CM_EVENT_UNREACHABLE, 1, SIDR_REP, 0);
	else
		event = check(here, RDMA_CM_EVENT_REJECTED, 0, REJ, 0);
	EQ(event->status, ud ? 1 : 8);
	EQ(rdma_ack_cm_event(event), 0);
	drop(active);
	EQ(rdma_create_id(here, &active, NULL, ps), 0);
	EQ(rdma_resolve_addr(active, NULL, (struct sockaddr *)&far, 500), 0);
	take(here, RDMA_CM_EVENT_ADDR_ERROR, ud, 0, 0);
	drop(active);
}

/* Who asks and goes: what was not accepted yet ends in silence, and the channel does not look ready. */
static void withdrawn(enum rdma_port_space ps)
{
	int ud = ps == RDMA_PS_UDP;
	struct rdma_cm_id *l = listening(ps), *active = routed(ps, ntohs(rdma_get_src_port(l)), 1);
	struct rdma_conn_param param = param_of(3);
	struct pollfd ready = { .fd = there->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	struct rdma_cm_id *passive;

	EQ(rdma_connect(active, &param), 0);
	event = check(there, RDMA_CM_EVENT_CONNECT_REQUEST, ud, ud ? SIDR_REQ : REQ, 3);
	passive = event->id;
	EQ(rdma_ack_cm_event(event), 0);
	drop(active);
	EQ(poll(&ready, 1, 20), 0);
	drop(passive);
	drop(l);
}

static void group(void)
{
	struct sockaddr_in in = address("239.8.8.8", 0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int word;

	EQ(rdma_create_id(here, &id, NULL, RDMA_PS_UDP), 0);
	EQ(rdma_bind_addr(id, local(0)), 0);
	EQ(rdma_join_multicast(id, (struct sockaddr *)&in, &word), 0);
	event = expect(here, RDMA_CM_EVENT_MULTICAST_JOIN);
	CHECK(event->param.ud.private_data == &word);
	EQ(event->param.ud.private_data_len, 0);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(rdma_destroy_id(id), 0);
}

int main(void)
{
	here = rdma_create_event_channel();
	there = rdma_create_event_channel();
	CHECK(here && there);
	for (int i = 0; i < 256; i++)
		words[i] = (unsigned char)(i * 7 + 1);
	for (wide = 0; wide < 2; wide++) {
		for (int ud = 0; ud < 2; ud++) {
			enum rdma_port_space ps = ud ? RDMA_PS_UDP : RDMA_PS_TCP;
			const int most[] = { ud ? SIDR_REP : REP, ud ? SIDR_REP : REP, ud ? SIDR_REP : REJ };

			for (enum answer answer = ACCEPTS; answer <= REJECTS; answer++) {
				const int lengths[] = { 0, 1, 31, 32, 33, 56, 65, 66, 67, most[answer] - 1, most[answer] };

				for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
					ask(ps, answer, 8, lengths[i]);
					ask(ps, answer, 0, lengths[i]);
				}
				ask(ps, answer, ud ? SIDR_REQ : REQ, 0);
				ask(ps, answer, 1, 0);
			}
			nobody(ps);
			withdrawn(ps);
		}
		group();
	}
	rdma_destroy_event_channel(here);
	rdma_destroy_event_channel(there);
	return 0;
}
