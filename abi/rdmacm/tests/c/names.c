/*
 * Names that are looked up while the program goes on, services by subnet administration, and the program's own events.
 */
#include "cm.h"

#include <infiniband/ib.h>
#include <netdb.h>
#include <poll.h>

/* Headers of rdma-core before 57 do not have them. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);

#define RESOLVED ((enum rdma_cm_event_type)16)
#define FAILED ((enum rdma_cm_event_type)17)
#define USER ((enum rdma_cm_event_type)18)
#define INTERNAL ((enum rdma_cm_event_type)19)
#define BY_SA 0x10
#define BY_DNS 0x20

static uint64_t number_in(struct rdma_cm_event *event)
{
	uint64_t number;

	memcpy(&number, &event->param, sizeof(number));
	return number;
}

static void *write_late(void *id)
{
	struct timespec pause = { .tv_nsec = 50000000 };

	nanosleep(&pause, NULL);
	EQ(rdma_write_cm_event(id, USER, -7, 0x1122334455667788), 0);
	return NULL;
}

static void own_events(enum rdma_port_space space)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *other = rdma_create_event_channel();
	struct pollfd poll_for = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id, *second;
	pthread_t thread;

	EQ(rdma_create_id(channel, &id, &id, space), 0);
	EQ(rdma_create_id(channel, &second, NULL, space), 0);
	for (int kind = 0; kind < 24; kind++)
		if (kind != (int)USER)
			REFUSED(rdma_write_cm_event(id, kind, 0, 0), EINVAL);
	REFUSED(rdma_write_cm_event(NULL, USER, 0, 0), EINVAL);
	EQ(poll(&poll_for, 1, 0), 0);

	/* It wakes who sleeps for the channel. */
	EQ(pthread_create(&thread, NULL, write_late, id), 0);
	event = expect(channel, USER);
	EQ(pthread_join(thread, NULL), 0);
	CHECK(event->id == id && !event->listen_id && event->id->context == &id);
	EQ(event->status, -7);
	EQ(number_in(event), 0x1122334455667788);
	EQ(rdma_ack_cm_event(event), 0);

	/* In order, each with what belongs to it. */
	for (int i = 0; i < 100; i++)
		EQ(rdma_write_cm_event(i & 1 ? second : id, USER, i, ~(uint64_t)i), 0);
	EQ(poll(&poll_for, 1, 0), 1);
	for (int i = 0; i < 100; i++) {
		event = expect(channel, USER);
		CHECK(event->id == (i & 1 ? second : id));
		EQ(event->status, i);
		EQ(number_in(event), ~(uint64_t)i);
		EQ(rdma_ack_cm_event(event), 0);
	}
	EQ(poll(&poll_for, 1, 0), 0);

	/* They go with the identifier to another channel, and end with it. */
	EQ(rdma_write_cm_event(id, USER, 1, 1), 0);
	EQ(rdma_write_cm_event(second, USER, 2, 2), 0);
	EQ(rdma_migrate_id(id, other), 0);
	event = expect(other, USER);
	EQ(number_in(event), 1);
	EQ(rdma_ack_cm_event(event), 0);
	EQ(rdma_destroy_id(second), 0);
	EQ(poll(&poll_for, 1, 0), 0);

	/* Destroying waits for the acknowledgement. */
	EQ(rdma_write_cm_event(id, USER, 0, 3), 0);
	event = expect(other, USER);
	EQ(pthread_create(&thread, NULL, ack_late, event), 0);
	EQ(rdma_destroy_id(id), 0);
	EQ(pthread_join(thread, NULL), 0);
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(other);
}

/* A call of a synchronous identifier is not ended by an event of the program's, which stays for the program. */
static void own_events_of_synchronous_identifiers(void)
{
	struct sockaddr_in in = address("127.0.0.1", 4711);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	EQ(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	EQ(rdma_write_cm_event(id, USER, 5, 6), 0);
	EQ(rdma_write_cm_event(id, USER, 7, 8), 0);
	EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&in, 2000), 0);
	CHECK(id->verbs);
	EQ(rdma_resolve_route(id, 2000), 0);
	for (int i = 0; i < 2; i++) {
		event = expect(id->channel, USER);
		EQ(event->status, 5 + 2 * i);
		EQ(number_in(event), 6 + 2 * i);
		EQ(rdma_ack_cm_event(event), 0);
	}
	EQ(rdma_destroy_id(id), 0);
}

static void names_of_events(void)
{
	EQ(strcmp(rdma_event_str(RESOLVED), "RDMA_CM_EVENT_ADDRINFO_RESOLVED"), 0);
	EQ(strcmp(rdma_event_str(FAILED), "RDMA_CM_EVENT_ADDRINFO_ERROR"), 0);
	EQ(strcmp(rdma_event_str(USER), "RDMA_CM_EVENT_USER"), 0);
	EQ(strcmp(rdma_event_str(INTERNAL), "RDMA_CM_EVENT_INTERNAL"), 0);
	EQ(strcmp(rdma_event_str((enum rdma_cm_event_type)20), "UNKNOWN EVENT"), 0);
}

static void check_and_free(struct rdma_addrinfo *info, const char *node, int port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)info->ai_dst_addr;

	EQ(info->ai_family, AF_INET);
	EQ(info->ai_dst_len, sizeof(*in));
	EQ(in->sin_addr.s_addr, address(node, 0).sin_addr.s_addr);
	EQ(ntohs(in->sin_port), port);
	rdma_freeaddrinfo(info);
}

static void look_ups(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in source = address("127.0.0.1", 77), destination = address("127.0.0.3", 78);
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_family = AF_INET }, *info = NULL;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	char *name = strdup("127.0.0.2"), *service = strdup("4712");

	EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	REFUSED(rdma_query_addrinfo(id, &info), ENOENT);
	REFUSED(rdma_query_addrinfo(id, NULL), EINVAL);
	REFUSED(rdma_query_addrinfo(NULL, &info), EINVAL);
	REFUSED(rdma_resolve_addrinfo(NULL, "127.0.0.1", "1", NULL), EINVAL);
	REFUSED(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);

	/* What was passed may go at once. */
	EQ(rdma_resolve_addrinfo(id, name, service, NULL), 0);
	memset(name, '9', strlen(name));
	memset(service, '9', strlen(service));
	free(name);
	free(service);
	event = expect(channel, RESOLVED);
	CHECK(event->id == id);
	EQ(event->status, 0);
	EQ(rdma_ack_cm_event(event), 0);
	/* One at a time, until the result was taken; which can be done once. */
	REFUSED(rdma_resolve_addrinfo(id, "127.0.0.1", "1", NULL), EBUSY);
	EQ(rdma_query_addrinfo(id, &info), 0);
	check_and_free(info, "127.0.0.2", 4712);
	REFUSED(rdma_query_addrinfo(id, &info), ENOENT);

	/* A failure is an event; then the identifier may ask again. */
	for (int i = 0; i < 2; i++) {
		hints.ai_flags = RAI_NUMERICHOST | (i ? BY_DNS : 0);
		EQ(rdma_resolve_addrinfo(id, "no address", "1", &hints), 0);
		event = expect(channel, FAILED);
		CHECK(event->id == id);
		EQ(event->status, -ENOENT);
		EQ(rdma_ack_cm_event(event), 0);
		REFUSED(rdma_query_addrinfo(id, &info), ENOENT);
	}
	hints.ai_flags = RAI_NUMERICHOST | BY_DNS;
	EQ(rdma_resolve_addrinfo(id, "127.0.0.4", "80", &hints), 0);
	expect_and_ack(channel, RESOLVED);
	EQ(rdma_query_addrinfo(id, &info), 0);
	EQ(info->ai_port_space, RDMA_PS_TCP);
	EQ(info->ai_qp_type, IBV_QPT_RC);
	check_and_free(info, "127.0.0.4", 80);

	/* Hints alone: their addresses, of which copies are taken. */
	hints = (struct rdma_addrinfo){ .ai_family = AF_INET,
					.ai_src_addr = (struct sockaddr *)&source,
					.ai_src_len = sizeof(source),
					.ai_dst_addr = (struct sockaddr *)&destination,
					.ai_dst_len = sizeof(destination) };
	EQ(rdma_resolve_addrinfo(id, NULL, NULL, &hints), 0);
	memset(&source, 0, sizeof(source));
	memset(&destination, 0, sizeof(destination));
	expect_and_ack(channel, RESOLVED);
	EQ(rdma_query_addrinfo(id, &info), 0);
	EQ(ntohs(((struct sockaddr_in *)info->ai_src_addr)->sin_port), 77);
	check_and_free(info, "127.0.0.3", 78);

	/* Identifiers that go while a name is looked up, or with a result that nobody took. */
	EQ(rdma_resolve_addrinfo(id, "127.0.0.5", "81", NULL), 0);
	expect_and_ack(channel, RESOLVED);
	EQ(rdma_destroy_id(id), 0);
	for (int i = 0; i < 50; i++) {
		EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
		EQ(rdma_resolve_addrinfo(id, "127.0.0.6", "82", NULL), 0);
		EQ(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);

	/* A synchronous identifier waits. */
	EQ(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST };
	REFUSED(rdma_resolve_addrinfo(id, "no address", "1", &hints), ENOENT);
	EQ(rdma_resolve_addrinfo(id, "127.0.0.7", "83", &hints), 0);
	EQ(rdma_query_addrinfo(id, &info), 0);
	check_and_free(info, "127.0.0.7", 83);
	EQ(rdma_destroy_id(id), 0);
}

/* With the mock two services are known; this machine alone has no administration. */
static void services(int has_administration)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in in = address("127.0.0.1", 0);
	struct rdma_addrinfo hints = { .ai_flags = BY_SA }, *info = NULL;
	const char *known[] = { "a service", "0x1000", "4096", "010000" };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_IB), 0);
	REFUSED(rdma_resolve_addrinfo(id, NULL, "a service", &hints), EINVAL);
	EQ(rdma_bind_addr(id, (struct sockaddr *)&in), 0);
	REFUSED(rdma_resolve_addrinfo(id, "a node", "a service", &hints), ENOTSUP);
	REFUSED(rdma_resolve_addrinfo(id, NULL, NULL, &hints), EINVAL);
	REFUSED(rdma_getaddrinfo("a node", "a service", &hints, &info), EOPNOTSUPP);
	REFUSED(rdma_getaddrinfo(NULL, NULL, &hints, &info), EINVAL);
	REFUSED(rdma_getaddrinfo(NULL, "nobody's", &hints, &info), ENOENT);
	hints.ai_flags = BY_SA | BY_DNS;
	REFUSED(rdma_resolve_addrinfo(id, NULL, "a service", &hints), ENOTSUP);
	REFUSED(rdma_getaddrinfo(NULL, "a service", &hints, &info), EOPNOTSUPP);
	hints.ai_flags = BY_SA;
	EQ(rdma_resolve_addrinfo(id, NULL, "nobody's", &hints), 0);
	event = expect(channel, FAILED);
	EQ(event->status, has_administration ? -ENOENT : -ENETDOWN);
	EQ(rdma_ack_cm_event(event), 0);
	for (int i = 0; i < 8 && has_administration; i++) {
		struct sockaddr_ib *ib;

		if (i < 4) {
			EQ(rdma_resolve_addrinfo(id, NULL, known[i], &hints), 0);
			expect_and_ack(channel, RESOLVED);
			EQ(rdma_query_addrinfo(id, &info), 0);
		} else {
			EQ(rdma_getaddrinfo(NULL, known[i - 4], &hints, &info), 0);
		}
		CHECK(info->ai_next && !info->ai_next->ai_next);
		ib = (struct sockaddr_ib *)info->ai_next->ai_dst_addr;
		EQ(info->ai_family, AF_IB);
		EQ(info->ai_flags, BY_SA);
		EQ(info->ai_port_space, RDMA_PS_IB);
		EQ(info->ai_dst_len, sizeof(*ib));
		EQ(ib->sib_family, AF_IB);
		EQ(ntohs(ib->sib_pkey), 0xffff);
		EQ(be64toh(ib->sib_sid), 0x1001);
		EQ(be64toh(ib->sib_sid_mask), UINT64_MAX);
		ib = (struct sockaddr_ib *)info->ai_src_addr;
		EQ(be64toh(ib->sib_sid), (uint64_t)RDMA_PS_IB << 16);
		rdma_freeaddrinfo(info);
	}
	EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

int main(int argc, char **argv)
{
	names_of_events();
	own_events(RDMA_PS_TCP);
	own_events(RDMA_PS_UDP);
	own_events_of_synchronous_identifiers();
	look_ups();
	services(argc > 1 && !strcmp(argv[1], "administration"));
	return 0;
}
